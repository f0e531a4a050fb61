#include "passes/autograd/view_gradient.h"

#include "base/fail.h"
#include "luminal/ops.h"

namespace luminal::autograd {
namespace {

/// Sizes of named dims when iteration spaces are compared; only ratios matter.
constexpr double kTypicalDim = 64;
/// A sum waits for the next step's, so that both become one reduction, unless waiting makes it read this much
/// more.
constexpr double kWorthSummingFirst = 1.5;

}  // namespace

double typical_elements(const Shape& dims) {
  const Expression count = element_count(dims);
  std::map<std::string, double, std::less<>> sizes;
  for (const std::string& name : count.to_symbols()) sizes[name] = kTypicalDim;
  return count.exec_float(sizes);
}

namespace {

Shape joined(Shape a, const Shape& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

MovementStep with_trailing_axes(MovementStep step, const Shape& extra) {
  if (extra.empty()) return step;
  const int in_rank = static_cast<int>(step.in_dims.size()),
            out_rank = static_cast<int>(step.out_dims.size());
  const int extra_rank = static_cast<int>(extra.size());
  std::vector<Expression> renumbered;  // pairs are (in, free) before and (in, extra, free) after
  for (int axis = 0; axis < in_rank; ++axis)
    renumbered.push_back(Expression::index(axis, step.in_dims[static_cast<size_t>(axis)]));
  for (size_t axis = 0; axis < step.free_dims.size(); ++axis)
    renumbered.push_back(
        Expression::index(in_rank + extra_rank + static_cast<int>(axis), step.free_dims[axis]));
  if (!step.free_dims.empty()) {
    for (Expression& e : step.out_of_in) e = e.substitute_indices(renumbered);
    step.in_valid = step.in_valid.substitute_indices(renumbered);
  }
  for (int axis = 0; axis < extra_rank; ++axis) {
    const Expression& extent = extra[static_cast<size_t>(axis)];
    step.in_of_out.push_back(Expression::index(out_rank + axis, extent));
    step.out_of_in.push_back(Expression::index(in_rank + axis, extent));
  }
  step.in_dims = joined(std::move(step.in_dims), extra);
  step.out_dims = joined(std::move(step.out_dims), extra);
  return step;
}

namespace {

GraphTensor sum_last(Graph& graph, const GraphTensor& tensor, size_t count) {
  if (count == 0) return tensor;
  std::vector<int64_t> axes;
  for (int64_t axis = tensor.rank() - static_cast<int64_t>(count); axis < tensor.rank(); ++axis)
    axes.push_back(axis);
  return graph.add_op(kSumReduce).input(tensor).attribute("axes", axes).finish();
}

}  // namespace

GraphTensor through_view(Graph& graph, const GraphTensor& gradient, const ShapeTracker& view) {
  GraphTensor result = gradient;
  Shape waiting;  // trailing axes of `result` that are still to be summed
  for (size_t i = view.steps().size(); i-- > 0;) {
    const MovementStep& step = view.steps()[i];
    if (!step.invertible)
      fail(
          "[Autograd] the view step '{}' of {} has no inverse, so no gradient passes it; make a dense copy "
          "with "
          "contiguous() or cut the path with stop_gradient()",
          step.name, view.to_string());
    const MovementStep back = step.adjoint();
    const double growth = typical_elements(back.out_dims) / typical_elements(back.in_dims);
    if (!waiting.empty() && growth >= kWorthSummingFirst) {
      result = sum_last(graph, result, waiting.size());
      waiting.clear();
    }
    result = result.with_view(result.view().apply(with_trailing_axes(back, waiting)));
    waiting = joined(step.free_dims, waiting);
  }
  return sum_last(graph, result, waiting.size());
}

GraphTensor seen_through(const GraphTensor& gradient, const ShapeTracker& view) {
  ShapeTracker seen = gradient.view();
  for (MovementStep step : view.steps()) {
    step.fill = 0;
    seen = seen.apply(step);
  }
  return gradient.with_view(std::move(seen));
}

}  // namespace luminal::autograd
