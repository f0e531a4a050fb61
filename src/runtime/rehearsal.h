#pragma once
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/stopwatch.h"
#include "base/team.h"
#include "runtime/blocks.h"
#include "runtime/layout.h"
#include "runtime/plan.h"

namespace luminal::runtime {

/// Data for tensors of a plan that no kernel computes: inputs, and what host ops make.
using Given = std::map<TensorIndex, std::shared_ptr<const TensorData>>;

/// A plan that runs by itself, without a graph: to time whole plans against each other before one is taken,
/// and to look into what its kernels compute. Host ops do not run (they may write files); what they make is
/// given.
class Rehearsal {
 public:
  enum class Memory : uint8_t {
    AsPlanned,  ///< one arena, in place where the executor would do it
    Separate,   ///< every tensor by itself, whole until the next run
  };
  /// The plan outlives it. Errors: InternalError if a tensor that is neither constant nor computed by a
  /// kernel is not given.
  Rehearsal(const Plan& plan, const DimMap& dims, const Given& given, Memory memory);

  /// As the executor would, all launches in one walk.
  void run();
  /// One launch; those before it have run.
  void run_launch(int launch);
  /// Inputs as they were given (a run may write its next states over them).
  void restore();
  /// Time of one run, averaged over as many as take `at_least_us` together.
  double sample_us(double at_least_us);
  /// What lies where the tensor is now; empty if no launch touches it.
  [[nodiscard]] std::span<const std::byte> bytes(TensorIndex tensor) const;

 private:
  void bring_host_outputs(int launch);

  Team& team_ = Team::shared();
  const Plan& plan_;
  const Given given_;
  Blocks blocks_;
  std::unique_ptr<Layout> layout_;
  Arena arena_;
  std::vector<std::unique_ptr<Arena>> own_;  ///< by block; null in the arena
  Sampler sampler_;
};

/// Tensors that a rehearsal has to be given.
[[nodiscard]] std::vector<TensorIndex> tensors_to_give(const Plan& plan);

}  // namespace luminal::runtime
