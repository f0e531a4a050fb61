#include "runtime/blocks.h"

#include <algorithm>
#include <set>

#include "base/fail.h"

namespace luminal::runtime {
namespace {

/// The facts of a plan's tensors that decide where they live.
struct Facts {
  std::vector<int> written, last_read;  ///< launch index; -1: never
  std::vector<bool> on_host;            ///< a host op reads or writes it
  std::vector<bool> leaves;             ///< the graph gets it after the run
  int last_host = -1;                   ///< the last launch that may fail
};

Facts facts_of(const Plan& plan) {
  const size_t count = plan.tensors.size();
  Facts facts{.written = std::vector<int>(count, -1),
              .last_read = std::vector<int>(count, -1),
              .on_host = std::vector<bool>(count, false),
              .leaves = std::vector<bool>(count, false)};
  const auto check = [&](TensorIndex tensor) {
    LUMINAL_CHECK(tensor >= 0 && static_cast<size_t>(tensor) < count, "tensor {} of {}", tensor, count);
    return static_cast<size_t>(tensor);
  };
  const auto require = [&](TensorIndex tensor, std::string_view reader) {
    const size_t at = check(tensor);
    LUMINAL_CHECK(plan.tensors[at].role != PlanTensor::Role::Computed || facts.written[at] >= 0,
                  "{} reads tensor {} before it is written", reader, tensor);
    return at;
  };
  for (int number = 0; const Launch& launch : plan.launches) {
    LUMINAL_CHECK(launch.kernel.has_value() + launch.host.has_value() + launch.loop.has_value() == 1,
                  "launch '{}'", launch.name);
    LUMINAL_CHECK(!launch.host || (launch.host->op != nullptr && launch.host->op->evaluate), "launch '{}'",
                  launch.name);
    for (const TensorIndex tensor : launch.inputs()) {
      facts.last_read[require(tensor, launch.name)] = number;
      if (launch.host) facts.on_host[static_cast<size_t>(tensor)] = true;
    }
    for (const TensorIndex tensor : launch.outputs()) {
      const size_t at = check(tensor);
      LUMINAL_CHECK(plan.tensors[at].role == PlanTensor::Role::Computed && facts.written[at] < 0,
                    "'{}' writes tensor {}, which is given or written already", launch.name, tensor);
      facts.written[at] = number;
      if (launch.host) facts.on_host[at] = true;
    }
    if (!launch.kernel) facts.last_host = number;
    ++number;
  }
  for (const PlanResult& result : plan.results) facts.leaves[require(result.tensor, "a result")] = true;
  for (const PlanUpdate& update : plan.updates) facts.leaves[require(update.next, "an update")] = true;
  return facts;
}

class Assignment {
 public:
  explicit Assignment(const Plan& plan) : plan_(plan), facts_(facts_of(plan)) {
    blocks_.of_tensor.assign(plan.tensors.size(), -1);
  }

  Blocks run() {
    for (TensorIndex tensor = 0; tensor < static_cast<int>(plan_.tensors.size()); ++tensor)
      if (plan_.tensors[at(tensor)].role != PlanTensor::Role::Computed) add_given(tensor);
    for (int number = 0; number < static_cast<int>(plan_.launches.size()); ++number) {
      const Launch& launch = plan_.launches[at(number)];
      if (launch.kernel) share_in_place(*launch.kernel, number);
      for (const TensorIndex tensor : launch.outputs())
        if (blocks_.of_tensor[at(tensor)] < 0) add_computed(tensor);
    }
    return std::move(blocks_);
  }

 private:
  void add(TensorIndex tensor, Block block) {
    block.tensors = {tensor};
    blocks_.of_tensor[at(tensor)] = static_cast<int>(blocks_.all.size());
    blocks_.all.push_back(std::move(block));
  }

  void add_given(TensorIndex tensor) {
    const PlanTensor& given = plan_.tensors[at(tensor)];
    if (facts_.last_read[at(tensor)] < 0 && !facts_.leaves[at(tensor)]) return;
    const bool constant = given.role == PlanTensor::Role::Constant;
    LUMINAL_CHECK(constant ? given.constant != nullptr : given.value.has_value(), "tensor {}", tensor);
    LUMINAL_CHECK(constant || values_.insert(*given.value).second, "tensor {}: value #{} has another tensor",
                  tensor, given.value->node.index);
    add(tensor, {.home = constant ? Block::Home::Constant : Block::Home::Input,
                 .last = facts_.last_read[at(tensor)],
                 .donated = given.donated && !facts_.leaves[at(tensor)]});
  }

  void add_computed(TensorIndex tensor) {
    const bool owned = facts_.leaves[at(tensor)] || facts_.on_host[at(tensor)];
    const int first = facts_.written[at(tensor)];
    add(tensor, {.home = owned ? Block::Home::Owned : Block::Home::Arena,
                 .first = first,
                 .last = std::max(first, facts_.last_read[at(tensor)])});
  }

  void share_in_place(const KernelLaunch& launch, int number) {
    for (const InPlace& pair : launch.in_place) {
      LUMINAL_CHECK(at(pair.output) < launch.outputs.size() && at(pair.input) < launch.inputs.size(),
                    "in place: output {}, input {}", pair.output, pair.input);
      const TensorIndex output = launch.outputs[at(pair.output)], input = launch.inputs[at(pair.input)];
      if (blocks_.of_tensor[at(output)] >= 0 || !may_share(launch, pair, number)) continue;
      const int index = blocks_.of_tensor[at(input)];
      Block& block = blocks_.all[at(index)];
      blocks_.of_tensor[at(output)] = index;
      block.tensors.push_back(output);
      block.last = std::max(number, facts_.last_read[at(output)]);
      if (block.home == Block::Home::Input) block.written = true;
      if (block.home == Block::Home::Arena && facts_.leaves[at(output)]) block.home = Block::Home::Owned;
    }
  }

  [[nodiscard]] bool may_share(const KernelLaunch& launch, const InPlace& pair, int number) const {
    const TensorIndex output = launch.outputs[at(pair.output)], input = launch.inputs[at(pair.input)];
    const PlanTensor &to = plan_.tensors[at(output)], &from = plan_.tensors[at(input)];
    if (facts_.last_read[at(input)] != number || facts_.leaves[at(input)]) return false;
    // Another output may have taken the place.
    if (blocks_.all[at(blocks_.of_tensor[at(input)])].tensors.back() != input) return false;
    if (facts_.on_host[at(output)] || facts_.on_host[at(input)]) return false;
    if (is_quantized(to.dtype) || is_quantized(from.dtype) ||
        element_bytes(to.dtype) != element_bytes(from.dtype) ||
        !Expression::known_equal(element_count(to.dims), element_count(from.dims)))
      return false;
    if (!other_slots_allow(launch, pair)) return false;
    if (from.role == PlanTensor::Role::Constant) return false;
    return from.role != PlanTensor::Role::Input || input_allows(from, output, number);
  }

  /// The same memory may be read through another slot, with another index: that has to be allowed too.
  [[nodiscard]] bool other_slots_allow(const KernelLaunch& launch, const InPlace& pair) const {
    const int block = blocks_.of_tensor[at(launch.inputs[at(pair.input)])];
    for (int slot = 0; slot < static_cast<int>(launch.inputs.size()); ++slot)
      if (blocks_.of_tensor[at(launch.inputs[at(slot)])] == block &&
          std::ranges::none_of(launch.in_place, [&](const InPlace& other) {
            return other.output == pair.output && other.input == slot;
          }))
        return false;
    return true;
  }

  /// An input's memory takes the next value of the same state, or anything if it is donated; and only when
  /// nothing can fail any more, so that a failed run leaves it as it was.
  [[nodiscard]] bool input_allows(const PlanTensor& input, TensorIndex output, int number) const {
    if (number < facts_.last_host) return false;
    const auto updates = [&](const PlanUpdate& update) { return update.state == *input.value; };
    const auto own = std::ranges::find_if(plan_.updates, updates);
    if (own == plan_.updates.end()) return input.donated;
    return own->next == output;
  }

  const Plan& plan_;
  Facts facts_;
  std::set<Value> values_;  ///< of inputs
  Blocks blocks_;
};

}  // namespace

Blocks assign_blocks(const Plan& plan) { return Assignment(plan).run(); }

}  // namespace luminal::runtime
