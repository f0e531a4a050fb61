#include <limits>

#include "training/loss_terms.h"

// Losses against classes.
namespace luminal::training {
namespace {

/// [C] beside log-probabilities [N, C, d...].
GraphTensor along_classes(const GraphTensor& weight, const GraphTensor& like) {
  GraphTensor result = weight.cast(like.dtype());
  for (int axis = 2; axis < like.rank(); ++axis) result = result.unsqueeze(-1);
  return result;
}

void check_weight(std::string_view loss, const GraphTensor& weight, const GraphTensor& logits) {
  if (!weight.valid()) return;
  if (!is_float(weight.dtype()) || weight.rank() != 1 ||
      !Expression::known_equal(weight.dim(0), logits.dim(1)))
    fail<ShapeError>("[{}] the weight is {} and must be floats of [{}], one for each class", loss,
                     weight.type().to_string(), logits.dim(1).to_string());
}

Shape without_classes(const GraphTensor& logits) {
  Shape dims = logits.dims();
  dims.erase(dims.begin() + 1);
  return dims;
}

/// An input's classes are looked at when it is set: on a device a wrong one could only become NaN.
void watch(std::string_view loss, GraphTensor target, const GraphTensor& logits, int64_t ignore_index) {
  const auto classes = logits.dim(1).constant();
  const Graph graph = target.graph();
  if (!classes || is_computed(*graph.node(target.node()).op) || !target.edge().view.is_identity()) return;
  target.check_data([=, loss = std::string(loss)](const TensorData& data) {
    check_classes(loss, data, *classes, ignore_index);
  });
}

/// What is known of each target: whether it counts, its class, and what the class weighs.
struct Targets {
  GraphTensor counted, in_range, index, weight;

  Targets(const GraphTensor& log_probabilities, const GraphTensor& target, int64_t ignore_index,
          const GraphTensor& class_weight)
      : counted(target.ne(ignore_index)),
        in_range(target.ge(0).logical_and(target.lt(Operand(log_probabilities.dim(1))))),
        index(in_range.where(target, 0)),
        weight(counted.cast(log_probabilities.dtype())) {
    if (class_weight.valid())
      weight = weight * class_weight.cast(log_probabilities.dtype()).index_select(0, index);
  }

  /// -log_probabilities at the target; NaN where there is no such class. The target is found by comparing
  /// along the row: that fuses with the row's other sums, and so does its gradient, where a gather would
  /// scatter.
  [[nodiscard]] GraphTensor losses(const GraphTensor& log_probabilities) const {
    Graph cx = log_probabilities.graph();
    GraphTensor classes = cx.arange(log_probabilities.dim(1), index.dtype());
    for (int axis = 2; axis < log_probabilities.rank(); ++axis) classes = classes.unsqueeze(axis - 1);
    const GraphTensor picked = index.unsqueeze(1).eq(classes).where(log_probabilities, 0).sum(1);
    return in_range.where(-picked, std::numeric_limits<double>::quiet_NaN());
  }

  [[nodiscard]] GraphTensor reduce(std::string_view loss, const GraphTensor& losses, Reduce how) const {
    const GraphTensor kept = counted.where(losses, 0);
    return how == Reduce::Mean ? kept.sum() / weight.sum() : reduced(loss, kept, how);
  }
};

/// Against probabilities of the logits' own shape.
GraphTensor against_probabilities(const GraphTensor& log_probabilities, const GraphTensor& target,
                                  const CrossEntropyOptions& options) {
  GraphTensor wanted = target.cast(log_probabilities.dtype());
  if (options.label_smoothing != 0) {
    Graph cx = wanted.graph();
    const GraphTensor classes = cx.constant(wanted.dim(1), Dtype::I64).cast(wanted.dtype());
    wanted = wanted * (1 - options.label_smoothing) + options.label_smoothing / classes;
  }
  GraphTensor terms = log_probabilities * wanted;
  if (options.weight.valid()) terms = terms * along_classes(options.weight, terms);
  return reduced("cross_entropy", -terms.sum(1), options.reduce);
}

GraphTensor against_indices(const GraphTensor& log_probabilities, const GraphTensor& target,
                            const CrossEntropyOptions& options) {
  const Targets targets(log_probabilities, target, options.ignore_index, options.weight);
  GraphTensor losses = targets.losses(log_probabilities) * targets.weight;
  if (options.label_smoothing != 0) {
    GraphTensor all = log_probabilities;
    if (options.weight.valid()) all = all * along_classes(options.weight, all);
    // A target out of range stays NaN: the first term is.
    losses = losses * (1 - options.label_smoothing) - all.mean(1) * options.label_smoothing;
  }
  return targets.reduce("cross_entropy", losses, options.reduce);
}

void check_logits(std::string_view loss, const GraphTensor& logits) {
  if (logits.rank() < 2 || !is_float(logits.dtype()))
    fail<ShapeError>("[{}] logits are {}; they must be floats of [N, C] or [N, C, d...]", loss,
                     logits.type().to_string());
}

}  // namespace

GraphTensor cross_entropy(const GraphTensor& logits, const GraphTensor& target,
                          const CrossEntropyOptions& options, Where where) {
  const CallSite site("cross_entropy", where);
  check_logits("cross_entropy", logits);
  check_weight("cross_entropy", options.weight, logits);
  if (options.label_smoothing < 0 || options.label_smoothing > 1)
    fail("[cross_entropy] label_smoothing={} is out of range; it lies in [0, 1]", options.label_smoothing);
  const GraphTensor log_probabilities = predicted("cross_entropy", logits).log_softmax(1);
  if (is_integer(target.dtype()) && target.dims() == without_classes(logits)) {
    watch("cross_entropy", target, logits, options.ignore_index);
    return against_indices(log_probabilities, target, options);
  }
  if (is_float(target.dtype()) && target.dims() == logits.dims())
    return against_probabilities(log_probabilities, target, options);
  fail<ShapeError>(
      "[cross_entropy] target {} fits neither class indices (integers {}) nor probabilities (floats {}) of "
      "logits "
      "{}",
      target.type().to_string(), to_string(without_classes(logits)), to_string(logits.dims()),
      logits.type().to_string());
}

GraphTensor nll(const GraphTensor& log_probabilities, const GraphTensor& target, const NllOptions& options,
                Where where) {
  const CallSite site("nll", where);
  check_logits("nll", log_probabilities);
  check_weight("nll", options.weight, log_probabilities);
  if (!is_integer(target.dtype()) || target.dims() != without_classes(log_probabilities))
    fail<ShapeError>("[nll] target {} does not fit log-probabilities {}; give class indices, integers of {}",
                     target.type().to_string(), log_probabilities.type().to_string(),
                     to_string(without_classes(log_probabilities)));
  watch("nll", target, log_probabilities, options.ignore_index);
  const GraphTensor x = predicted("nll", log_probabilities);
  const Targets targets(x, target, options.ignore_index, options.weight);
  return targets.reduce("nll", targets.losses(x) * targets.weight, options.reduce);
}

}  // namespace luminal::training
