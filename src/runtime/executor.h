#pragma once
#include <functional>
#include <memory>

#include "runtime/plan.h"

namespace luminal::runtime {

class PreparedWeights;
class Profiler;

/// What a plan takes at given sizes, known before it runs.
struct MemoryUse {
  int64_t arena_bytes = 0;        ///< what is computed and used up, workspaces included
  int64_t lower_bound_bytes = 0;  ///< no arena could be smaller
  int64_t owned_bytes = 0;        ///< results, next states, what host ops touch
  int64_t input_bytes = 0;        ///< read from the graph, states included
  int64_t constant_bytes = 0;
  int64_t kept_bytes = 0;  ///< what kernels prepare of weights, kept from run to run
};

/// Called after each launch, which has finished: `read` copies a tensor that it read or wrote.
using AfterLaunch = std::function<void(int launch, const std::function<TensorData(TensorIndex)>& read)>;

/// Runs a plan on a device: places tensors in one arena (offsets from live ranges, in place where allowed),
/// hands the launches to a stream, all that lie between two host ops at once, and binds what lies outside the
/// arena to the graph's values (Bindings). States live in the graph, so several executables of one graph see
/// each other's. A run returns when the device is done, so that a fault belongs to the run that caused it. On
/// the host's own devices a run at the sizes of an earlier one allocates nothing, host ops aside.
class Executor {
 public:
  /// `arena`: memory of the device that executors take by turns, each for a run; `prepared`: what executors of one
  /// graph share; none: it gets its own. Errors: InternalError if the plan contradicts itself.
  Executor(std::shared_ptr<backends::Device> device, Plan plan,
           std::shared_ptr<backends::Buffer> arena = nullptr,
           std::shared_ptr<PreparedWeights> prepared = nullptr);
  ~Executor();
  /// Errors: Error if sizes lie outside the plan's bucket, or from a host op. States and inputs of the graph
  /// are as before then; results of earlier runs may be gone.
  void run(Graph& graph, std::vector<TraceEntry>* trace = nullptr, Profiler* profiler = nullptr,
           const AfterLaunch& after_launch = {});
  [[nodiscard]] const Plan& plan() const;
  /// Bytes of the arena at these sizes: the planned peak, known before running.
  [[nodiscard]] int64_t arena_bytes(const DimMap& dims) const { return memory(dims).arena_bytes; }
  [[nodiscard]] MemoryUse memory(const DimMap& dims) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace luminal::runtime
