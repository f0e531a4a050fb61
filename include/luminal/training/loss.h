#pragma once
#include <cstdint>
#include <span>

#include "luminal/graph_tensor.h"

/// Losses: lazy tensors like any other, differentiable, stable, with the names and defaults of
/// torch.nn.functional. f16 and bf16 are computed in f32 and stay f32: a loss has no use for fewer digits.
///
/// Errors of all: ShapeError if the shapes differ (nothing broadcasts: a loss of [N] against [N, 1] is a
/// mistake), DtypeError unless predictions are floats.
namespace luminal::training {

enum class Reduce {
  Mean,
  Sum,
  None,
  BatchMean,  ///< kl_div: the sum by the size of the first axis
};

/// (x - y)^2.
[[nodiscard]] GraphTensor mse(const GraphTensor& input, const GraphTensor& target,
                              Reduce reduce = Reduce::Mean, Where where = Where::current());
/// sqrt(mean((x - y)^2)); the gradient at a perfect fit is 0.
[[nodiscard]] GraphTensor rmse(const GraphTensor& input, const GraphTensor& target,
                               Where where = Where::current());
/// |x - y| (torch's l1_loss).
[[nodiscard]] GraphTensor mae(const GraphTensor& input, const GraphTensor& target,
                              Reduce reduce = Reduce::Mean, Where where = Where::current());
/// d^2 / 2 where |d| <= delta, delta (|d| - delta / 2) elsewhere.  Source: Huber 1964.
[[nodiscard]] GraphTensor huber(const GraphTensor& input, const GraphTensor& target, double delta = 1,
                                Reduce reduce = Reduce::Mean, Where where = Where::current());
/// d^2 / (2 beta) where |d| < beta, |d| - beta / 2 elsewhere; |d| if beta is 0.
[[nodiscard]] GraphTensor smooth_l1(const GraphTensor& input, const GraphTensor& target, double beta = 1,
                                    Reduce reduce = Reduce::Mean, Where where = Where::current());

// torch.nn.functional's names of the above.
[[nodiscard]] inline GraphTensor mse_loss(const GraphTensor& input, const GraphTensor& target,
                                          Reduce reduce = Reduce::Mean, Where where = Where::current()) {
  return mse(input, target, reduce, where);
}
[[nodiscard]] inline GraphTensor l1_loss(const GraphTensor& input, const GraphTensor& target,
                                         Reduce reduce = Reduce::Mean, Where where = Where::current()) {
  return mae(input, target, reduce, where);
}
[[nodiscard]] inline GraphTensor huber_loss(const GraphTensor& input, const GraphTensor& target,
                                            double delta = 1, Reduce reduce = Reduce::Mean,
                                            Where where = Where::current()) {
  return huber(input, target, delta, reduce, where);
}
[[nodiscard]] inline GraphTensor smooth_l1_loss(const GraphTensor& input, const GraphTensor& target,
                                                double beta = 1, Reduce reduce = Reduce::Mean,
                                                Where where = Where::current()) {
  return smooth_l1(input, target, beta, reduce, where);
}

struct CrossEntropyOptions {
  double label_smoothing = 0;
  /// Rows with this target count nothing and are left out of the mean. Class indices only.
  int64_t ignore_index = -100;
  Reduce reduce = Reduce::Mean;
  GraphTensor weight = {};  ///< [C], floats: what each class counts; the mean divides by the targets' weights
};

/// -log softmax(logits)[target], as torch.nn.functional.cross_entropy.
/// Shapes: logits [N, C] or [N, C, d...]; target class indices (integers) [N, d...], or probabilities of the
/// logits' own shape. Dtypes: logits float. Errors: ShapeError, DtypeError. Where `target` is an input and C
/// a known number, an index outside [0, C) is an Error when it is set, as check_targets makes it; a computed
/// one gives NaN in its row and thereby in the mean.
[[nodiscard]] GraphTensor cross_entropy(const GraphTensor& logits, const GraphTensor& target,
                                        const CrossEntropyOptions& options = {},
                                        Where where = Where::current());

/// The same.
[[nodiscard]] inline GraphTensor cross_entropy_loss(const GraphTensor& logits, const GraphTensor& target,
                                                    const CrossEntropyOptions& options = {},
                                                    Where where = Where::current()) {
  return cross_entropy(logits, target, options, where);
}

struct NllOptions {
  int64_t ignore_index = -100;
  Reduce reduce = Reduce::Mean;
  GraphTensor weight = {};  ///< [C], as in CrossEntropyOptions
};
/// -log_probabilities[target].  Shapes and errors: as cross_entropy with class indices.
[[nodiscard]] GraphTensor nll(const GraphTensor& log_probabilities, const GraphTensor& target,
                              const NllOptions& options = {}, Where where = Where::current());

/// The same.
[[nodiscard]] inline GraphTensor nll_loss(const GraphTensor& log_probabilities, const GraphTensor& target,
                                          const NllOptions& options = {}, Where where = Where::current()) {
  return nll(log_probabilities, target, options, where);
}

struct KlDivOptions {
  Reduce reduce = Reduce::Mean;  ///< over all elements, as in PyTorch; BatchMean is the divergence itself
  bool log_target = false;       ///< the target holds logarithms
};
/// target * (log target - input), `input` holding log-probabilities; 0 where the target is 0.
[[nodiscard]] GraphTensor kl_div(const GraphTensor& input, const GraphTensor& target,
                                 const KlDivOptions& options = {}, Where where = Where::current());

struct BinaryCrossEntropyOptions {
  Reduce reduce = Reduce::Mean;
  GraphTensor weight = {};      ///< broadcasts to the losses
  GraphTensor pos_weight = {};  ///< with logits only: what a positive counts; broadcasts
};
/// -(y log p + (1 - y) log(1 - p)); logarithms end at -100, as in PyTorch. Targets lie in [0, 1].
[[nodiscard]] GraphTensor binary_cross_entropy(const GraphTensor& probabilities, const GraphTensor& target,
                                               const BinaryCrossEntropyOptions& options = {},
                                               Where where = Where::current());
/// The same of sigmoid(logits), without the logarithm of a small number.
[[nodiscard]] GraphTensor binary_cross_entropy_with_logits(const GraphTensor& logits,
                                                           const GraphTensor& target,
                                                           const BinaryCrossEntropyOptions& options = {},
                                                           Where where = Where::current());

struct FocalOptions {
  double alpha = 0.25;  ///< what positives count, against 1 - alpha; below 0: all count 1
  double gamma = 2;
  Reduce reduce = Reduce::Mean;
};
/// (1 - p_t)^gamma times the binary cross entropy of the logits, p_t the probability given to the target (0
/// or 1), as torchvision.ops.sigmoid_focal_loss.  Source: Lin et al. 2017.
[[nodiscard]] GraphTensor focal(const GraphTensor& logits, const GraphTensor& target,
                                const FocalOptions& options = {}, Where where = Where::current());

/// The loss that the last run left, for loops without a Trainer. Errors: Error if it is not finite, naming
/// the data or the weight that it comes from, or what else to do.
[[nodiscard]] double finite_loss(const GraphTensor& loss);

/// Class indices as they come from a file or a loader. Errors: Error that names the first one which is
/// neither in [0, classes) nor `ignore_index`, and its row.
void check_targets(std::span<const int32_t> targets, int64_t classes, int64_t ignore_index = -100);
void check_targets(std::span<const int64_t> targets, int64_t classes, int64_t ignore_index = -100);

}  // namespace luminal::training
