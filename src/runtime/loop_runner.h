#pragma once
#include <memory>
#include <span>
#include <vector>

#include "runtime/blocks.h"
#include "runtime/layout.h"
#include "runtime/plan.h"

namespace luminal::runtime {

/// A loop at fixed sizes: the layout of its body, pointed step by step at what the step reads and writes.
/// Nothing is allocated at a step, and nothing goes through the host but what the body's host ops touch.
class LoopRunner {
 public:
  /// The loop and the device outlive it.
  LoopRunner(const LoopLaunch& loop, const DimMap& dims, backends::Device& device);
  /// For the body's arena, what host ops touch, a second place for carried state, and what kernels prepare of inputs that
  /// all steps share.
  [[nodiscard]] int64_t workspace_bytes() const { return workspace_bytes_; }
  void set_workspace(backends::Address memory);
  /// Queues all steps. `memory`: of the loop's inputs, then outputs. `run`: how many runs came before.
  void run(backends::Stream& stream, std::span<const backends::Address> memory, uint64_t run);

 private:
  /// What a host op of the body sees.
  struct HostCall {
    std::vector<TensorData> inputs, outputs;
    std::vector<const TensorData*> pointers;  ///< to inputs
  };
  void place_blocks();
  void upload_constants(backends::Stream& stream);
  void bind(TensorIndex tensor, backends::Address memory);
  void run_step(backends::Stream& stream, uint64_t run);
  void run_host(backends::Stream& stream, int launch, uint64_t run);
  [[nodiscard]] backends::Address carried(size_t carry, int64_t after_steps,
                                          std::span<const backends::Address> memory) const;

  const LoopLaunch& loop_;
  backends::Device& device_;
  DimMap dims_;
  int64_t length_;
  Blocks blocks_;
  std::unique_ptr<Layout> layout_;
  int64_t workspace_bytes_ = 0, kept_offset_ = 0;
  backends::Address workspace_;
  std::vector<int64_t> carry_bytes_, carry_offsets_;  ///< second places, in the workspace
  std::vector<int64_t> element_bytes_;                ///< by output: of one step
  std::vector<bool> is_direct_;                       ///< by output: a kernel writes it into its place
  std::vector<std::pair<int, int64_t>> own_blocks_;   ///< blocks in the workspace, with offsets
  std::vector<std::pair<int, backends::Buffer>> constants_;
  bool constants_are_there_ = false;
  std::vector<HostCall> calls_;  ///< by launch of the body
};

}  // namespace luminal::runtime
