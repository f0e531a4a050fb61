#include "ops/composite/window.h"

// Resampling, one axis after the other: each output place takes a few elements with weights. Places and
// weights are exact integer formulas over the sizes, which may be symbolic; the weights are divided last.
namespace luminal {

using namespace composite;

namespace {

/// The source of output place z as a fraction: numerator / denominator elements from the first one.
struct Source {
  Expression numerator, denominator;
};

Source source_of(const Expression& from, const Expression& to, bool align_corners) {
  const Expression z = Expression::flat_index();
  if (align_corners) return {z * (from - 1), (to - 1).max(1)};
  return {(z * 2 + 1) * from - to, (to * 2).max(1)};  // (z + 1/2) * from / to - 1/2
}

/// Dims [to] put where they broadcast along `axis`.
GraphTensor along(GraphTensor weight, const GraphTensor& x, int axis) {
  for (int behind = axis + 1; behind < x.rank(); ++behind) weight = weight.unsqueeze(weight.rank());
  return weight;
}

GraphTensor nearest(const GraphTensor& x, int axis, const Expression& to, bool exact) {
  Graph graph = x.graph();
  const Expression from = x.dim(axis), z = Expression::flat_index();
  const Expression place = exact ? (z * 2 + 1) * from / (to * 2).max(1) : z * from / to.max(1);
  return x.index_select(axis, formula(graph, place.min(from - 1), {to}));
}

GraphTensor linear(const GraphTensor& x, int axis, const Expression& to, bool align_corners) {
  Graph graph = x.graph();
  const Expression from = x.dim(axis);
  const Source source = source_of(from, to, align_corners);
  const Expression at = source.numerator.max(0), left = (at / source.denominator).min(from - 1);
  const GraphTensor fraction =
      along(formula(graph, at % source.denominator, {to}, x.dtype()) / source.denominator, x, axis);
  const GraphTensor lower = x.index_select(axis, formula(graph, left, {to}));
  const GraphTensor upper = x.index_select(axis, formula(graph, (left + 1).min(from - 1), {to}));
  return lower + (upper - lower) * fraction;
}

/// Keys' kernel with a = -0.75 at distances 1 + t, t, 1 - t, 2 - t.
std::array<GraphTensor, 4> cubic_weights(const GraphTensor& t) {
  constexpr double a = -0.75;
  const auto near_weight = [](const GraphTensor& d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
  const auto far_weight = [](const GraphTensor& d) { return ((d - 5) * d + 8) * d * a - 4 * a; };
  return {far_weight(t + 1), near_weight(t), near_weight(1 - t), far_weight(2 - t)};
}

GraphTensor cubic(const GraphTensor& x, int axis, const Expression& to, bool align_corners) {
  Graph graph = x.graph();
  const Expression from = x.dim(axis);
  const Source source = source_of(from, to, align_corners);
  const Expression left = source.numerator / source.denominator;  // floored: may be -1
  const GraphTensor fraction =
      formula(graph, source.numerator % source.denominator, {to}, x.dtype()) / source.denominator;
  const std::array<GraphTensor, 4> weights = cubic_weights(fraction);
  std::optional<GraphTensor> sum;
  for (int tap = 0; tap < 4; ++tap) {
    const Expression place = (left + (tap - 1)).max(0).min(from - 1);
    const GraphTensor part =
        x.index_select(axis, formula(graph, place, {to})) * along(weights[static_cast<size_t>(tap)], x, axis);
    sum = sum ? *sum + part : part;
  }
  return *sum;
}

GraphTensor resampled(const GraphTensor& x, int axis, const Expression& to,
                      const InterpolateOptions& options) {
  if (x.dim(axis) == to) return x;
  switch (options.mode) {
    case Interpolation::Nearest:
      return nearest(x, axis, to, false);
    case Interpolation::NearestExact:
      return nearest(x, axis, to, true);
    case Interpolation::Linear:
      return linear(x, axis, to, options.align_corners);
    case Interpolation::Cubic:
      return cubic(x, axis, to, options.align_corners);
  }
  return x;
}

}  // namespace

GraphTensor interpolate(const GraphTensor& x, Shape sizes, const InterpolateOptions& options, Where at) {
  const CallSite site("interpolate", at);
  if (sizes.empty() || sizes.size() > static_cast<size_t>(x.rank()))
    reject("{} sizes for {}; give one for each of the last axes that is to be resampled", sizes.size(),
           x.type().to_string());
  const bool picks = options.mode == Interpolation::Nearest || options.mode == Interpolation::NearestExact;
  if (picks && options.align_corners)
    reject<Error>("align_corners means nothing where the nearest element is taken; leave it out");
  if (!picks && !is_float(x.dtype()))
    reject<DtypeError>("x is {}; cast it to a float, or take the nearest element", x.type().to_string());
  const int first = x.rank() - static_cast<int>(sizes.size());
  GraphTensor result = picks ? x : widened(x);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int axis = first + static_cast<int>(i);
    if (sizes[i].range().max < 1) reject("a size is {}; give sizes above 0", sizes[i].to_string());
    if (x.dim(axis).range().max < 1)
      reject("axis {} of {} has no elements to take", axis, x.type().to_string());
    result = resampled(result, axis, sizes[i], options);
  }
  return result.cast(x.dtype());
}

GraphTensor upsample(const GraphTensor& x, int64_t factor, const InterpolateOptions& options, Where at) {
  const CallSite site("upsample", at);
  if (factor < 1) reject("the factor is {}; give 1 or more", factor);
  if (x.rank() < 3) reject("x is {}; give [batch, channels, ...] with axes to enlarge", x.type().to_string());
  Shape sizes;
  for (int axis = 2; axis < x.rank(); ++axis) sizes.push_back(x.dim(axis) * factor);
  return interpolate(x, std::move(sizes), options);
}

}  // namespace luminal
