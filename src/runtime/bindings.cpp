#include "runtime/bindings.h"

#include <algorithm>
#include <map>

#include "base/fail.h"
#include "runtime/device_tensor.h"

namespace luminal::runtime {
namespace {

/// Memory that fits is used again.
void resize_on_host(TensorData& data, Dtype dtype, const std::vector<int64_t>& dims) {
  int64_t elements = 1;
  for (const int64_t size : dims) elements *= size;  // the layout has counted them
  data.dtype = dtype;
  data.dims = dims;
  try {
    data.bytes.resize(static_cast<size_t>(size_bytes(dtype, elements)));
  } catch (const Error& error) {
    fail("[execute] out of memory for the result {}[{}]: {}", name(dtype), fmt::join(dims, ", "),
         error.what());
  }
}

/// What a run may write over.
template <class Tensor>
struct Taken {
  std::shared_ptr<Tensor> tensor;  ///< null: somebody else holds the value's
  bool from_graph = true;          ///< the graph is without it now
};

/// A graph's values where host and device share memory.
class HostValues {
 public:
  using Tensor = TensorData;
  HostValues(std::shared_ptr<backends::Device>, backends::Stream&, size_t) {}

  static std::shared_ptr<const Tensor> constant(std::shared_ptr<const TensorData> data) { return data; }
  static std::shared_ptr<Tensor> make() { return std::make_shared<Tensor>(); }
  static void resize(Tensor& tensor, Dtype dtype, const std::vector<int64_t>& dims) {
    resize_on_host(tensor, dtype, dims);
  }
  static void copy(const Tensor& from, Tensor& to) { std::ranges::copy(from.bytes, to.bytes.begin()); }
  static Dtype dtype(const Tensor& tensor) { return tensor.dtype; }
  static const std::vector<int64_t>& dims(const Tensor& tensor) { return tensor.dims; }
  // Kernels write to outputs only, so that inputs lose their const here does no harm.
  static backends::Address address(const Tensor& tensor) {
    return {const_cast<std::byte*>(tensor.bytes.data())};
  }

  /// `stays`: what was let go is read for good.
  static std::shared_ptr<const Tensor> read(Graph& graph, const Value& value, bool stays) {
    return stays ? graph.hold(value) : graph.value(value);
  }
  static bool let_go(Graph& graph, const Value& value) { return graph.let_go(value); }
  static Taken<Tensor> take(Graph& graph, const Value& value) { return {graph.take(value)}; }
  static void put(Graph& graph, const Value& value, std::shared_ptr<const Tensor> tensor, bool pinned) {
    graph.store(value, std::move(tensor), pinned);
  }
  static bool is_shared(const Graph& graph, const Value& a, const Value& b) {
    return graph.value(a) == graph.value(b);
  }
  static void commit(Graph&) {}
  static void roll_back() {}

  static const TensorData& host_input(size_t, const Tensor& tensor) { return tensor; }
  static TensorData& host_output(size_t, Tensor& tensor) { return tensor; }
  static void host_wrote(size_t, Tensor&) {}
};

/// A graph's values in memory of the device's own.
class DeviceValues {
 public:
  using Tensor = DeviceTensor;
  DeviceValues(std::shared_ptr<backends::Device> device, backends::Stream& stream, size_t blocks)
      : device_(std::move(device)), stream_(stream), on_host_(blocks) {}

  [[nodiscard]] std::shared_ptr<const Tensor> constant(const std::shared_ptr<const TensorData>& data) const {
    return to_device(device_, *data);
  }
  [[nodiscard]] std::shared_ptr<Tensor> make() const {
    return std::make_shared<Tensor>(device_, Dtype::F32, std::vector<int64_t>{0});
  }
  static void resize(Tensor& tensor, Dtype dtype, const std::vector<int64_t>& dims) {
    tensor.resize(dtype, dims);
  }
  void copy(const Tensor& from, Tensor& to) const {
    stream_.copy(from.address(), to.address(), from.bytes());
  }
  static Dtype dtype(const Tensor& tensor) { return tensor.dtype(); }
  static const std::vector<int64_t>& dims(const Tensor& tensor) { return tensor.dims(); }
  static backends::Address address(const Tensor& tensor) { return tensor.address(); }

  /// What is not there yet is on its way, and moves for good when the run has succeeded.
  std::shared_ptr<const Tensor> read(Graph& graph, const Value& value, bool stays) {
    if (const auto moving = moving_.find(value); moving != moving_.end()) return moving->second;
    if (auto own = find(graph, value)) return own;
    const std::shared_ptr<const TensorData> data = stays ? graph.hold(value) : graph.value(value);
    if (!data) return nullptr;
    auto tensor = std::make_shared<Tensor>(device_, data->dtype, data->dims);
    stream_.upload(data->bytes.data(), tensor->address(), tensor->bytes());
    uploaded_.push_back(data);
    moving_.emplace(value, tensor);
    return tensor;
  }
  /// What moved here the host does not hold.
  static bool let_go(Graph&, const Value&) { return false; }
  Taken<Tensor> take(Graph& graph, const Value& value) {
    if (const auto moving = moving_.extract(value)) return {std::move(moving.mapped()), false};
    auto own = find(graph, value);
    constexpr int64_t kGraphAndWe = 2;
    if (!own || own.use_count() != kGraphAndWe) return {};
    graph.store(value, std::shared_ptr<const DeviceValue>(), false);
    return {std::const_pointer_cast<Tensor>(std::move(own))};
  }
  static void put(Graph& graph, const Value& value, std::shared_ptr<const Tensor> tensor, bool pinned) {
    graph.store(value, std::shared_ptr<const DeviceValue>(std::move(tensor)), pinned);
  }
  static bool is_shared(const Graph& graph, const Value& a, const Value& b) {
    return graph.device_value(a) == graph.device_value(b);
  }
  void commit(Graph& graph) {
    for (auto& [value, tensor] : moving_) put(graph, value, std::move(tensor), graph.is_pinned(value));
    roll_back();
  }
  void roll_back() {
    moving_.clear();
    uploaded_.clear();
  }

  const TensorData& host_input(size_t block, const Tensor& tensor) {
    TensorData& data = host_output(block, tensor);
    stream_.download(tensor.address(), data.bytes.data(), tensor.bytes());
    stream_.synchronise();
    return data;
  }
  TensorData& host_output(size_t block, const Tensor& tensor) {
    resize_on_host(on_host_[block], tensor.dtype(), tensor.dims());
    return on_host_[block];
  }
  void host_wrote(size_t block, Tensor& tensor) {
    stream_.upload(on_host_[block].bytes.data(), tensor.address(), tensor.bytes());
  }

 private:
  std::shared_ptr<const Tensor> find(const Graph& graph, const Value& value) const {
    auto tensor = std::dynamic_pointer_cast<const Tensor>(graph.device_value(value));
    return tensor && tensor->is_on(*device_) ? tensor : nullptr;
  }

  std::shared_ptr<backends::Device> device_;
  backends::Stream& stream_;
  std::vector<TensorData> on_host_;                          ///< by block: what host ops see
  std::map<Value, std::shared_ptr<Tensor>> moving_;          ///< inputs on their way
  std::vector<std::shared_ptr<const TensorData>> uploaded_;  ///< kept until the stream has read them
};

template <class Values>
class BindingsOf : public Bindings {
 public:
  BindingsOf(const Plan& plan, const Blocks& blocks, const std::shared_ptr<backends::Device>& device,
             backends::Stream& stream)
      : plan_(plan),
        blocks_(blocks),
        values_(device, stream, blocks.all.size()),
        held_(blocks.all.size()),
        objects_(blocks.all.size()),
        taken_(blocks.all.size(), false),
        results_of_(blocks.all.size()),
        results_(plan.results.size()),
        updates_(plan.updates.size()) {
    for (const PlanResult& result : plan.results)
      results_of_[at(blocks.of_tensor[at(result.tensor)])].push_back(result.value);
    for (const Block& block : blocks.all)
      constants_.push_back(block.home == Block::Home::Constant
                               ? values_.constant(plan.tensors[at(block.tensors.front())].constant)
                               : nullptr);
  }

  void bind(Graph& graph, Layout& layout) override {
    for (size_t block = 0; block < blocks_.all.size(); ++block) switch (blocks_.all[block].home) {
        case Block::Home::Arena:
          break;
        case Block::Home::Constant:
          rebind(block, layout);
          break;
        case Block::Home::Owned:
          bind_owned(graph, layout, block);
          break;
        case Block::Home::Input:
          if (blocks_.all[block].written)
            bind_updated(graph, layout, block);
          else if (!layout.is_spent(static_cast<int>(block)) || !values_.let_go(graph, value_of(block)))
            bind_input(graph, layout, block);
          break;
      }
  }

  void lend(Graph& graph, Layout& layout, int block) override {
    if (constants_[at(block)])
      rebind(at(block), layout);
    else
      bind_input(graph, layout, at(block));
  }
  int64_t take_back(Graph& graph, const Layout& layout, int block) override {
    held_[at(block)] = nullptr;
    const bool goes = layout.is_spent(block) && values_.let_go(graph, value_of(at(block)));
    return goes ? layout.bytes(blocks_.all[at(block)].tensors.front()) : 0;
  }

  void commit(Graph& graph, const Layout& layout) override {
    for (size_t block = 0; block < blocks_.all.size(); ++block)
      if (blocks_.all[block].written) resize_to(*objects_[block], layout, blocks_.all[block].tensors.back());
    for (size_t i = 0; i < results_.size(); ++i) results_[i] = share(plan_.results[i].tensor);
    for (size_t i = 0; i < updates_.size(); ++i) updates_[i] = share(plan_.updates[i].next);
    values_.commit(graph);
    for (size_t block = 0; block < blocks_.all.size(); ++block)
      if (blocks_.all[block].donated) graph.erase(value_of(block));
    for (size_t i = 0; i < results_.size(); ++i)
      if (const Value& value = plan_.results[i].value; !graph.is_pinned(value))
        values_.put(graph, value, std::move(results_[i]), false);
    std::ranges::fill(held_, nullptr);
    // What a state held before is where its next value goes in the next run.
    for (size_t i = 0; i < updates_.size(); ++i) {
      const PlanUpdate& update = plan_.updates[i];
      std::shared_ptr<Tensor> old = values_.take(graph, update.state).tensor;
      std::shared_ptr<Tensor>& spare = objects_[at(blocks_.of_tensor[at(update.next)])];
      values_.put(graph, update.state, std::move(updates_[i]), true);
      if (spare.use_count() > 1) spare = std::move(old);
    }
    std::ranges::fill(results_, nullptr);
    for (std::shared_ptr<Tensor>& object : objects_)
      if (object.use_count() > 1) object = nullptr;
    std::fill(taken_.begin(), taken_.end(), false);
  }

  void roll_back(Graph& graph) override {
    std::ranges::fill(held_, nullptr);
    values_.roll_back();
    for (size_t block = 0; block < blocks_.all.size(); ++block)
      if (taken_[block]) values_.put(graph, value_of(block), std::move(objects_[block]), true);
    std::fill(taken_.begin(), taken_.end(), false);
  }

  const TensorData& host_input(int block) override {
    return values_.host_input(at(block), tensor_of(at(block)));
  }
  TensorData& host_output(int block) override { return values_.host_output(at(block), *objects_[at(block)]); }
  void host_wrote(int block, Layout& layout) override {
    values_.host_wrote(at(block), *objects_[at(block)]);
    rebind(at(block), layout);
  }

 private:
  using Tensor = typename Values::Tensor;

  [[nodiscard]] const Value& value_of(size_t block) const {
    return *plan_.tensors[at(blocks_.all[block].tensors.front())].value;
  }
  [[nodiscard]] const Tensor& tensor_of(size_t block) const {
    if (constants_[block]) return *constants_[block];
    return objects_[block] ? *objects_[block] : *held_[block];
  }
  [[nodiscard]] std::shared_ptr<const Tensor> share(TensorIndex tensor) const {
    const size_t block = at(blocks_.of_tensor[at(tensor)]);
    if (constants_[block]) return constants_[block];
    return objects_[block] ? objects_[block] : held_[block];
  }
  void rebind(size_t block, Layout& layout) const {
    layout.bind(static_cast<int>(block), Values::address(tensor_of(block)));
  }
  void resize_to(Tensor& object, const Layout& layout, TensorIndex tensor) const {
    Values::resize(object, plan_.tensors[at(tensor)].dtype, layout.dims(tensor));
  }

  /// What another plan let go and this one needs would go and come with each run: it stays. Errors: InternalError unless
  /// the graph has data for the block that fits the plan.
  std::shared_ptr<const Tensor> read(Graph& graph, const Layout& layout, size_t block) {
    auto present = values_.read(graph, value_of(block), !layout.is_spent(static_cast<int>(block)));
    LUMINAL_CHECK(present != nullptr, "input #{} has no value", value_of(block).node.index);
    const TensorIndex tensor = blocks_.all[block].tensors.front();
    LUMINAL_CHECK(Values::dtype(*present) == plan_.tensors[at(tensor)].dtype &&
                      Values::dims(*present) == layout.dims(tensor),
                  "the plan reads {}[{}] from value #{}, which holds {}[{}]",
                  name(plan_.tensors[at(tensor)].dtype), fmt::join(layout.dims(tensor), ", "),
                  value_of(block).node.index, name(Values::dtype(*present)),
                  fmt::join(Values::dims(*present), ", "));
    return present;
  }

  void bind_input(Graph& graph, Layout& layout, size_t block) {
    held_[block] = read(graph, layout, block);
    rebind(block, layout);
  }

  /// A state that is updated in place, or a donated input: taken out of the graph, or copied if someone else
  /// reads it.
  void bind_updated(Graph& graph, Layout& layout, size_t block) {
    const Value& value = value_of(block);
    (void)read(graph, layout, block);
    if (auto taken = values_.take(graph, value); taken.tensor) {
      objects_[block] = std::move(taken.tensor);
      taken_[block] = taken.from_graph;
    } else {
      const auto present = values_.read(graph, value, true);
      if (!objects_[block]) objects_[block] = values_.make();
      resize_to(*objects_[block], layout, blocks_.all[block].tensors.front());
      values_.copy(*present, *objects_[block]);
    }
    rebind(block, layout);
  }

  /// The result of the run before, if nobody else holds it, is overwritten.
  void bind_owned(Graph& graph, Layout& layout, size_t block) {
    std::shared_ptr<Tensor>& object = objects_[block];
    const std::vector<Value>& values = results_of_[block];
    if (!object && !values.empty() && !graph.is_pinned(values[0])) {
      // Several values may have one tensor: the first alone holds it then.
      for (size_t i = 1; i < values.size(); ++i)
        if (!graph.is_pinned(values[i]) && Values::is_shared(graph, values[i], values[0]))
          graph.store(values[i], std::shared_ptr<const TensorData>(), false);
      object = values_.take(graph, values[0]).tensor;
    }
    if (!object) object = values_.make();
    resize_to(*object, layout, blocks_.all[block].tensors.back());
    rebind(block, layout);
  }

  const Plan& plan_;
  const Blocks& blocks_;
  Values values_;
  std::vector<std::shared_ptr<const Tensor>> constants_;  ///< by block
  std::vector<std::shared_ptr<const Tensor>> held_;       ///< Input, by block, during a run
  std::vector<std::shared_ptr<Tensor>> objects_;          ///< what is written, by block; spares between runs
  std::vector<bool> taken_;                               ///< by block: the graph is without it now
  std::vector<std::vector<Value>> results_of_;            ///< by block
  std::vector<std::shared_ptr<const Tensor>> results_, updates_;  ///< on their way to the graph
};

}  // namespace

std::unique_ptr<Bindings> make_bindings(const Plan& plan, const Blocks& blocks,
                                        const std::shared_ptr<backends::Device>& device,
                                        backends::Stream& stream) {
  if (device->shares_host_memory())
    return std::make_unique<BindingsOf<HostValues>>(plan, blocks, device, stream);
  return std::make_unique<BindingsOf<DeviceValues>>(plan, blocks, device, stream);
}

}  // namespace luminal::runtime
