#pragma once
#include <memory>

#include "runtime/plan.h"

namespace luminal::runtime {

/// Runs a plan: places tensors in one arena (offsets from live ranges, in place where allowed), keeps states
/// on the device and swaps them, walks the launches with a persistent thread team, and hands results to the
/// graph. A steady-state run (same sizes as the last) allocates nothing.
class Executor {
 public:
  Executor(std::shared_ptr<backends::Backend> backend, Plan plan);
  ~Executor();
  /// Errors: Error if sizes lie outside the plan's bucket; the graph keeps its values then.
  void run(Graph& graph, std::vector<TraceEntry>* trace = nullptr);
  [[nodiscard]] const Plan& plan() const;
  /// Bytes of the arena at these sizes: the planned peak, known before running.
  [[nodiscard]] int64_t arena_bytes(const DimMap& dims) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace luminal::runtime
