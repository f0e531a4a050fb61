#include "luminal/training/loss.h"

#include <limits>

#include "base/fail.h"
#include "luminal/graph.h"

namespace luminal::training {
namespace {

GraphTensor reduced(const GraphTensor& losses, Reduce reduce) {
  switch (reduce) {
    case Reduce::Mean:
      return losses.mean();
    case Reduce::Sum:
      return losses.sum();
    case Reduce::None:
      return losses;
  }
  throw InternalError("a reduction that is none of the three");
}

/// The number of classes as a number of the graph, so that symbolic ones work too.
GraphTensor class_count(const GraphTensor& logits) {
  Graph cx = logits.graph();
  return cx.constant(logits.dim(1), Dtype::I64).cast(logits.dtype());
}

/// Against probabilities of the logits' own shape.
GraphTensor against_probabilities(const GraphTensor& log_probabilities, const GraphTensor& target,
                                  const CrossEntropyOptions& options) {
  GraphTensor wanted = target.cast(log_probabilities.dtype());
  if (options.label_smoothing != 0)
    wanted =
        wanted * (1 - options.label_smoothing) + options.label_smoothing / class_count(log_probabilities);
  const GraphTensor losses = -(log_probabilities * wanted).sum(1);
  if (options.reduce != Reduce::Mean) return reduced(losses, options.reduce);
  return losses.mean();
}

/// Against class indices.
GraphTensor against_indices(const GraphTensor& log_probabilities, const GraphTensor& target,
                            const CrossEntropyOptions& options) {
  const GraphTensor counted = target.ne(options.ignore_index);
  const GraphTensor in_range = target.ge(0).logical_and(target.lt(Operand(log_probabilities.dim(1))));
  const GraphTensor index = in_range.where(target, 0);
  const GraphTensor picked = log_probabilities.gather_elements(1, index.unsqueeze(1)).squeeze(1);
  GraphTensor losses = in_range.where(-picked, std::numeric_limits<double>::quiet_NaN());
  if (options.label_smoothing != 0)
    losses = losses * (1 - options.label_smoothing) - log_probabilities.mean(1) * options.label_smoothing;
  losses = counted.where(losses, 0);
  if (options.reduce != Reduce::Mean) return reduced(losses, options.reduce);
  return losses.sum() / counted.cast(losses.dtype()).sum();
}

}  // namespace

GraphTensor cross_entropy(const GraphTensor& logits, const GraphTensor& target,
                          const CrossEntropyOptions& options, Where where) {
  const CallSite site("cross_entropy", where);
  if (logits.rank() < 2 || !is_float(logits.dtype()))
    fail<ShapeError>("[cross_entropy] logits are {}; they must be floats of [N, C] or [N, C, d...]",
                     logits.type().to_string());
  if (options.label_smoothing < 0 || options.label_smoothing > 1)
    fail("[cross_entropy] label_smoothing={} is out of range; it lies in [0, 1]", options.label_smoothing);
  Shape without_classes = logits.dims();
  without_classes.erase(without_classes.begin() + 1);
  const GraphTensor log_probabilities = logits.log_softmax(1);
  if (is_integer(target.dtype()) && target.dims() == without_classes)
    return against_indices(log_probabilities, target, options);
  if (is_float(target.dtype()) && target.dims() == logits.dims())
    return against_probabilities(log_probabilities, target, options);
  fail<ShapeError>(
      "[cross_entropy] target {} fits neither class indices (integers {}) nor probabilities (floats {}) of "
      "logits {}",
      target.type().to_string(), to_string(without_classes), to_string(logits.dims()),
      logits.type().to_string());
}

}  // namespace luminal::training
