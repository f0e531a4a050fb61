#include "runtime/exchange.h"

#include <algorithm>

#include "base/fail.h"

namespace luminal::runtime {
namespace {

/// Memory that fits is used again.
void resize(TensorData& data, Dtype dtype, const std::vector<int64_t>& dims, int64_t bytes) {
  data.dtype = dtype;
  data.dims = dims;
  try {
    data.bytes.resize(static_cast<size_t>(bytes));
  } catch (const Error& error) {
    fail("[execute] there is no memory for the result {}[{}]: {}", name(dtype), fmt::join(dims, ", "),
         error.what());
  }
}

}  // namespace

Exchange::Exchange(const Plan& plan, const Blocks& blocks)
    : plan_(plan),
      blocks_(blocks),
      held_(blocks.all.size()),
      objects_(blocks.all.size()),
      taken_(blocks.all.size(), false),
      results_of_(blocks.all.size()),
      results_(plan.results.size()),
      updates_(plan.updates.size()) {
  for (const PlanResult& result : plan.results)
    results_of_[at(blocks.of_tensor[at(result.tensor)])].push_back(result.value);
}

void Exchange::bring(Graph& graph, Layout& layout) {
  for (size_t block = 0; block < blocks_.all.size(); ++block) switch (blocks_.all[block].home) {
      case Block::Home::Arena:
        break;
      case Block::Home::Constant:
        layout.bind(static_cast<int>(block), data(static_cast<int>(block)).bytes.data());
        break;
      case Block::Home::Owned:
        bring_owned(graph, layout, block);
        break;
      case Block::Home::Input:
        if (blocks_.all[block].written)
          bring_updated(graph, layout, block);
        else
          bring_input(graph, layout, block);
        break;
    }
}

const Value& Exchange::value_of(size_t block) const {
  return *plan_.tensors[at(blocks_.all[block].tensors.front())].value;
}

void Exchange::check_fits(const TensorData& data, const Layout& layout, size_t block) const {
  const TensorIndex tensor = blocks_.all[block].tensors.front();
  LUMINAL_CHECK(data.dtype == plan_.tensors[at(tensor)].dtype && data.dims == layout.dims(tensor),
                "the plan reads {}[{}] from value #{}, which holds {}[{}]",
                name(plan_.tensors[at(tensor)].dtype), fmt::join(layout.dims(tensor), ", "),
                value_of(block).node.index, name(data.dtype), fmt::join(data.dims, ", "));
}

void Exchange::bring_input(Graph& graph, Layout& layout, size_t block) {
  held_[block] = graph.value(value_of(block));
  LUMINAL_CHECK(held_[block] != nullptr, "input #{} has no value", value_of(block).node.index);
  check_fits(*held_[block], layout, block);
  layout.bind(static_cast<int>(block), held_[block]->bytes.data());
}

/// A state that is updated in place, or a donated input: taken out of the graph, or copied if someone else
/// reads it.
void Exchange::bring_updated(Graph& graph, Layout& layout, size_t block) {
  const Value& value = value_of(block);
  {
    const auto present = graph.value(value);
    LUMINAL_CHECK(present != nullptr, "input #{} has no value", value.node.index);
    check_fits(*present, layout, block);
  }
  if (auto data = graph.take(value)) {
    objects_[block] = std::move(data);
    taken_[block] = true;
  } else {
    const auto present = graph.value(value);
    if (!objects_[block]) objects_[block] = std::make_shared<TensorData>();
    resize(*objects_[block], present->dtype, present->dims, static_cast<int64_t>(present->bytes.size()));
    std::ranges::copy(present->bytes, objects_[block]->bytes.begin());
  }
  layout.bind(static_cast<int>(block), objects_[block]->bytes.data());
}

/// The result of the run before, if nobody else holds it, is overwritten.
void Exchange::bring_owned(Graph& graph, Layout& layout, size_t block) {
  std::shared_ptr<TensorData>& object = objects_[block];
  const std::vector<Value>& values = results_of_[block];
  if (!object && !values.empty() && !graph.is_pinned(values[0])) {
    // Several values may have one tensor: the first alone holds it then.
    for (size_t i = 1; i < values.size(); ++i)
      if (!graph.is_pinned(values[i]) && graph.value(values[i]) == graph.value(values[0]))
        graph.store(values[i], std::shared_ptr<const TensorData>(), false);
    object = graph.take(values[0]);
  }
  if (!object) object = std::make_shared<TensorData>();
  const TensorIndex tensor = blocks_.all[block].tensors.back();
  resize(*object, plan_.tensors[at(tensor)].dtype, layout.dims(tensor), layout.bytes(tensor));
  layout.bind(static_cast<int>(block), object->bytes.data());
}

const TensorData& Exchange::data(int block) const {
  const Block& which = blocks_.all[at(block)];
  if (which.home == Block::Home::Constant) return *plan_.tensors[at(which.tensors.front())].constant;
  return objects_[at(block)] ? *objects_[at(block)] : *held_[at(block)];
}

std::shared_ptr<const TensorData> Exchange::share(TensorIndex tensor) const {
  const int block = blocks_.of_tensor[at(tensor)];
  if (blocks_.all[at(block)].home == Block::Home::Constant) return plan_.tensors[at(tensor)].constant;
  return objects_[at(block)] ? objects_[at(block)] : held_[at(block)];
}

void Exchange::deliver(Graph& graph, const Layout& layout) {
  for (size_t block = 0; block < blocks_.all.size(); ++block)
    if (blocks_.all[block].written) {
      const TensorIndex tensor = blocks_.all[block].tensors.back();
      resize(*objects_[block], plan_.tensors[at(tensor)].dtype, layout.dims(tensor), layout.bytes(tensor));
    }
  for (size_t i = 0; i < results_.size(); ++i) results_[i] = share(plan_.results[i].tensor);
  for (size_t i = 0; i < updates_.size(); ++i) updates_[i] = share(plan_.updates[i].next);
  for (size_t block = 0; block < blocks_.all.size(); ++block)
    if (blocks_.all[block].donated) graph.erase(value_of(block));
  for (size_t i = 0; i < results_.size(); ++i)
    if (const Value& value = plan_.results[i].value; !graph.is_pinned(value))
      graph.store(value, std::move(results_[i]), false);
  std::ranges::fill(held_, nullptr);
  // What a state held before is where its next value goes in the next run.
  for (size_t i = 0; i < updates_.size(); ++i) {
    const PlanUpdate& update = plan_.updates[i];
    std::shared_ptr<TensorData> old = graph.take(update.state);
    std::shared_ptr<TensorData>& spare = objects_[at(blocks_.of_tensor[at(update.next)])];
    graph.store(update.state, std::move(updates_[i]), true);
    if (spare.use_count() > 1) spare = std::move(old);
  }
  std::ranges::fill(results_, nullptr);
  for (std::shared_ptr<TensorData>& object : objects_)
    if (object.use_count() > 1) object = nullptr;
  std::fill(taken_.begin(), taken_.end(), false);
}

void Exchange::give_back(Graph& graph) {
  std::ranges::fill(held_, nullptr);
  for (size_t block = 0; block < blocks_.all.size(); ++block)
    if (taken_[block]) graph.store(value_of(block), std::move(objects_[block]), true);
  std::fill(taken_.begin(), taken_.end(), false);
}

}  // namespace luminal::runtime
