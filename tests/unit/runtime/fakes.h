#pragma once
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/host/device.h"
#include "base/fail.h"
#include "luminal/graph.h"
#include "runtime/executor.h"
#include "runtime/stream_timer.h"

/// Kernels written in C++, so that the runtime is tested without a code generator.
namespace luminal::runtime::test {

inline const auto kIncrement = [](const int64_t* x) { return x[0] + 1; };

/// What a stage's task sees: typed pointers by buffer number.
struct TaskView {
  const backends::LaunchArguments& arguments;
  int64_t n = 0;  ///< the value of the kernel's only dim, or its fixed size
  [[nodiscard]] int64_t* buffer(int number) const { return static_cast<int64_t*>(arguments.buffers[number]); }
  [[nodiscard]] int64_t* shared() const { return reinterpret_cast<int64_t*>(arguments.shared); }
  [[nodiscard]] int64_t* prepared() const { return reinterpret_cast<int64_t*>(arguments.prepared); }
  [[nodiscard]] int64_t* local() const { return reinterpret_cast<int64_t*>(arguments.local); }
};

class FakeKernel : public backends::HostKernel {
 public:
  struct Stage {
    std::function<int64_t(int64_t n)> tasks;
    std::function<void(const TaskView&, int64_t task)> body;
  };
  /// Of a fixed size, or of the size of dim `name`.
  FakeKernel(std::vector<Stage> stages, int64_t n) : stages_(std::move(stages)), fixed_(n) {}
  FakeKernel(std::vector<Stage> stages, std::string name)
      : stages_(std::move(stages)), dims_{std::move(name)} {}

  FakeKernel& with_workspace(std::function<int64_t(int64_t n)> shared_bytes, int64_t local_bytes) {
    shared_ = std::move(shared_bytes);
    local_ = local_bytes;
    return *this;
  }

  /// The first `stages` fill `bytes` that may be kept; kernels of one `preparation` fill them alike.
  FakeKernel& with_preparation(int stages, int64_t bytes, uint64_t preparation = 0,
                               std::vector<int> spent = {}) {
    preparing_ = stages;
    prepared_ = bytes;
    preparation_ = preparation;
    spent_ = std::move(spent);
    return *this;
  }

  [[nodiscard]] const std::vector<std::string>& dims() const override { return dims_; }
  [[nodiscard]] int preparing_stages() const override { return preparing_; }
  [[nodiscard]] int64_t prepared_bytes(std::span<const int64_t>) const override { return prepared_; }
  [[nodiscard]] uint64_t preparation() const override { return preparation_; }
  [[nodiscard]] std::span<const int> spent_slots() const override { return spent_; }
  [[nodiscard]] int stage_count() const override { return static_cast<int>(stages_.size()); }
  [[nodiscard]] int64_t tasks(int stage, std::span<const int64_t> dims) const override {
    return stages_[static_cast<size_t>(stage)].tasks(size(dims.data()));
  }
  [[nodiscard]] int64_t shared_bytes(std::span<const int64_t> dims) const override {
    return shared_ ? shared_(size(dims.data())) : 0;
  }
  [[nodiscard]] int64_t local_bytes(std::span<const int64_t>) const override { return local_; }
  void run(int stage, const backends::LaunchArguments& arguments, int64_t begin, int64_t end) const override {
    const TaskView view{arguments, size(arguments.dims)};
    for (int64_t task = begin; task < end; ++task) stages_[static_cast<size_t>(stage)].body(view, task);
  }
  [[nodiscard]] std::vector<std::byte> binary() const override { return {}; }

 private:
  [[nodiscard]] int64_t size(const int64_t* dims) const { return dims_.empty() ? fixed_ : dims[0]; }
  std::vector<Stage> stages_;
  std::vector<std::string> dims_;
  int64_t fixed_ = 0, local_ = 0, prepared_ = 0;
  int preparing_ = 0;
  uint64_t preparation_ = 0;
  std::vector<int> spent_;
  std::function<int64_t(int64_t)> shared_;
};

inline constexpr int64_t kGrain = 64;
inline int64_t grains(int64_t n) { return (n + kGrain - 1) / kGrain; }

/// out[i] = f(in0[i], in1[i], ...) over n elements, 64 a task. `size`: a number or the name of a dim.
template <class F, class Size>
std::shared_ptr<FakeKernel> elementwise(int inputs, F f, Size size) {
  const auto body = [inputs, f](const TaskView& view, int64_t task) {
    int64_t values[8];
    for (int64_t i = task * kGrain; i < std::min(view.n, (task + 1) * kGrain); ++i) {
      for (int k = 0; k < inputs; ++k) values[k] = view.buffer(k)[i];
      view.buffer(inputs)[i] = f(values);
    }
  };
  return std::make_shared<FakeKernel>(std::vector<FakeKernel::Stage>{{grains, body}}, size);
}

/// A device of the host: kernels written in C++ need no compiler.
[[nodiscard]] inline backends::Device& host_device() {
  static const auto device = backends::make_null_device();
  return *device;
}

/// An executable made of a plan, as a session would make it.
class PlanExecutable : public Executable {
 public:
  explicit PlanExecutable(Plan plan, int threads = 0)
      : executor_(backends::make_null_device(threads), std::move(plan)) {}
  void run(Graph& graph, const Options& options) override { executor_.run(graph, options.trace); }
  [[nodiscard]] std::string report() const override { return executor_.plan().to_string(); }
  [[nodiscard]] Executor& executor() { return executor_; }

 private:
  Executor executor_;
};

/// The device "fake": compiling a graph runs `plan_for`.
inline std::function<Plan(Graph&)>& plan_for() {
  static std::function<Plan(Graph&)> function;
  return function;
}
class FakeSession : public Session {
 public:
  [[nodiscard]] std::string_view device() const override { return "fake"; }
  [[nodiscard]] std::unique_ptr<Executable> compile(Graph& graph, const CompilationMode&) override {
    return std::make_unique<PlanExecutable>(plan_for()(graph));
  }
};
/// Makes `graph` run on plans of `make`.
inline void use_plans(Graph& graph, std::function<Plan(Graph&)> make) {
  static const bool once = [] {
    (void)session_devices();  // those of the build come first: the first one is the default
    register_session("fake", [] { return std::make_shared<FakeSession>(); });
    return true;
  }();
  (void)once;
  plan_for() = std::move(make);
  graph.set_device("fake");
}

// --- Plans written by hand

struct PlanBuilder {
  Plan plan;
  TensorIndex input(const GraphTensor& tensor) {
    const Value value = tensor.edge().source;
    plan.tensors.push_back(
        {.dtype = tensor.dtype(), .dims = tensor.dims(), .value = value, .role = PlanTensor::Role::Input});
    return last();
  }
  TensorIndex computed(Shape dims, Dtype dtype = Dtype::I64) {
    plan.tensors.push_back({.dtype = dtype, .dims = std::move(dims)});
    return last();
  }
  TensorIndex constant(TensorData data) {
    plan.tensors.push_back({.dtype = data.dtype,
                            .dims = Shape(data.dims.begin(), data.dims.end()),
                            .role = PlanTensor::Role::Constant,
                            .constant = std::make_shared<TensorData>(std::move(data))});
    return last();
  }
  Launch& launch(std::shared_ptr<const backends::Kernel> kernel, std::vector<TensorIndex> inputs,
                 std::vector<TensorIndex> outputs, std::vector<InPlace> in_place = {}) {
    plan.launches.push_back({.kernel = KernelLaunch{std::move(kernel), std::move(inputs), std::move(outputs),
                                                    std::move(in_place)},
                             .name = "kernel" + std::to_string(plan.launches.size())});
    return plan.launches.back();
  }
  void host(const OpDef& op, std::vector<TensorIndex> inputs, std::vector<TensorIndex> outputs,
            Attributes attributes = {}) {
    plan.launches.push_back({.host = HostLaunch{.op = &op,
                                                .attributes = std::move(attributes),
                                                .inputs = std::move(inputs),
                                                .outputs = std::move(outputs)},
                             .name = std::string(op.name)});
  }
  void result(const GraphTensor& tensor, TensorIndex index) {
    plan.results.push_back({tensor.edge().source, index});
  }
  void update(const GraphTensor& state, TensorIndex next) {
    plan.updates.push_back({state.edge().source, next});
  }
  [[nodiscard]] TensorIndex last() const { return static_cast<TensorIndex>(plan.tensors.size()) - 1; }
};

}  // namespace luminal::runtime::test
