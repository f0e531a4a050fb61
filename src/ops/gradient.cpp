#include "luminal/gradient.h"

#include "base/fail.h"
#include "luminal/graph.h"
#include "luminal/ops.h"

namespace luminal {
namespace {

/// Whether no size of the named dims makes both equal.
bool provably_differ(const Shape& a, const Shape& b) {
  if (a.size() != b.size()) return true;
  for (size_t i = 0; i < a.size(); ++i)
    if (Expression::known_less(a[i], b[i]) || Expression::known_less(b[i], a[i])) return true;
  return false;
}

}  // namespace

void Gradient::to(size_t i, const GraphTensor& gradient) {
  const GraphTensor& input = inputs_.at(i);
  if (provably_differ(gradient.dims(), input.dims()))
    fail<ShapeError>(
        "[{}] the gradient rule gives {} for input {}, which is {}; reduce or expand it to those dims",
        node_->op->name, gradient.type().to_string(), i, input.type().to_string());
  Graph graph = input.graph();
  const GraphTensor typed =
      gradient.dtype() == input.dtype()
          ? gradient
          : graph.add_op(kCast).input(gradient).attribute("dtype", input.dtype()).finish();
  results_[i] = has_result_[i] ? graph.add_op(kAdd).input(results_[i]).input(typed).finish() : typed;
  has_result_[i] = true;
}

}  // namespace luminal
