#pragma once
#include <cstdint>
#include <vector>

#include "luminal/graph.h"
#include "luminal/nn/module.h"

/// What may happen to gradients between Autograd and the optimizer, as nodes of the same graph.
/// Thread safety: as the graph they belong to.
namespace luminal::training {

struct ClippedGradients {
  std::vector<GraphTensor> gradients;
  GraphTensor norm;  ///< of all of them together, before
};
/// Scales all gradients by min(1, max_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_.
/// `norm_type` may be infinity.  Errors: Error if max_norm is negative or norm_type not above 0.
[[nodiscard]] ClippedGradients clip_grad_norm(const std::vector<GraphTensor>& gradients, double max_norm,
                                              double norm_type = 2, Where where = Where::current());
/// Clips each element to [-value, value].  Errors: Error if value is negative.
[[nodiscard]] std::vector<GraphTensor> clip_grad_value(const std::vector<GraphTensor>& gradients,
                                                       double value, Where where = Where::current());

/// Sums gradients over several runs, so that small batches train like a large one:
///
///   training::GradientAccumulator accumulator(cx, gradients, 4);
///   training::Adam adam(cx, weights, accumulator.gradients(), {.apply_if = accumulator.ready()});
///
/// In every fourth run `ready()` is true and `gradients()` the mean of four; then the sums start again at
/// zero. Sums of f16 and bf16 are kept in f32.
class GradientAccumulator {
 public:
  /// Errors: Error if `steps` is below 1.
  GradientAccumulator(Graph& cx, const std::vector<GraphTensor>& gradients, int64_t steps,
                      Where where = Where::current());
  [[nodiscard]] const std::vector<GraphTensor>& gradients() const { return means_; }
  [[nodiscard]] const GraphTensor& ready() const { return ready_; }
  void serialize(nn::Serializer& s) const;

 private:
  GraphTensor count_, ready_;
  std::vector<GraphTensor> sums_, means_;
};

}  // namespace luminal::training
