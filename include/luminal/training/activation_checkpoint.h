#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "luminal/graph.h"
#include "luminal/pass.h"

/// Activation checkpointing: values inside marked parts of a model are not kept for the backward pass but
/// computed again when it gets there.
///
///   for (const Block& block : blocks)
///     x = training::checkpoint([&](const GraphTensor& in) { return block.forward(in); }, x);
///   auto gradients = cx.run_pass(Autograd(weights, loss));
///   std::cout << cx.run_pass(training::RecomputeCheckpoints()).to_string();
///
/// The results are the same bits on the reference device; where graphs are compiled, copies may be fused in
/// another way than what they copy, and last bits differ. Source: Chen et al. 2016, "Training deep nets with
/// sublinear memory cost".
/// Thread safety: as the graph they belong to.
namespace luminal::training {

/// Calls `part` and marks what it adds to the graph. What it reads from outside, and its result, are kept;
/// the rest RecomputeCheckpoints may compute again. Parts within parts belong to the outermost.
[[nodiscard]] GraphTensor checkpoint(const std::function<GraphTensor(const GraphTensor&)>& part,
                                     const GraphTensor& x, Where where = Where::current());
/// The same for parts with several inputs and outputs.
[[nodiscard]] std::vector<GraphTensor> checkpoint(
    const std::function<std::vector<GraphTensor>(std::span<const GraphTensor>)>& part,
    const std::vector<GraphTensor>& inputs, Where where = Where::current());

/// A pass for after Autograd: gradient nodes that read a value inside a marked part read a copy, made of
/// copies of what led to it in its part. Copies run when the gradients of the part's result are there, so
/// their memory is needed once per part instead of for all parts at once: their first reads go through a
/// graph break that waits for one element of those gradients, so that no later pass or compiler finds them
/// equal to what they copy, or runs them early. Random values are drawn again, the same; nodes with side
/// effects are not repeated.
class RecomputeCheckpoints {
 public:
  static constexpr std::string_view kName = "RecomputeCheckpoints";
  struct Report {
    int64_t parts = 0, copied_nodes = 0;
    int64_t peak_bytes_before = 0, peak_bytes_after = 0;  ///< planned, as planned_peak_bytes
    [[nodiscard]] std::string to_string() const;
  };
  /// `assumed_dim`: the size of named dims that are not set yet, for the planned peaks.
  explicit RecomputeCheckpoints(int64_t assumed_dim = 64) : assumed_dim_(assumed_dim) {}
  /// Tells the report at LUMINAL_DEBUG=1.
  Report run(Graph& graph, Remap& remap) const;

 private:
  int64_t assumed_dim_;
};

}  // namespace luminal::training
