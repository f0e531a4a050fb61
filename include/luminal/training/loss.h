#pragma once
#include <cstdint>
#include <string_view>

#include "luminal/graph_tensor.h"

/// Losses: lazy tensors like any other, differentiable, stable.
namespace luminal::training {

enum class Reduce { Mean, Sum, None };

struct CrossEntropyOptions {
  double label_smoothing = 0;
  /// Rows with this target count nothing and are left out of the mean. Class indices only.
  int64_t ignore_index = -100;
  Reduce reduce = Reduce::Mean;
};

/// -log softmax(logits)[target], as torch.nn.functional.cross_entropy.
/// Shapes: logits [N, C] or [N, C, d...]; target class indices (integers) [N, d...], or probabilities of the
/// logits' own shape. Dtypes: logits float. Errors: ShapeError, DtypeError. An index outside [0, C) gives NaN
/// in its row and thereby in the mean.
[[nodiscard]] GraphTensor cross_entropy(const GraphTensor& logits, const GraphTensor& target,
                                        const CrossEntropyOptions& options = {},
                                        Where where = Where::current());

}  // namespace luminal::training
