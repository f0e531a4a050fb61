#include "ops/composite/build.h"

// Walks along an axis, each by an op of its own.
namespace luminal {

using namespace composite;

namespace {

GraphTensor walked(const OpDef& op, const GraphTensor& x, int axis) {
  return apply(op, {x}, {{"axis", int64_t{axis_of(x, axis)}}, {"reverse", false}});
}

/// Integers and bool as i64.
GraphTensor counted(const GraphTensor& x) { return is_float(x.dtype()) ? x : x.cast(Dtype::I64); }

}  // namespace

GraphTensor GraphTensor::cumsum(int axis, Where at) const {
  const CallSite site("cumsum", at);
  return walked(kCumsum, counted(*this), axis);
}

GraphTensor GraphTensor::cumprod(int axis, Where at) const {
  const CallSite site("cumprod", at);
  return walked(kCumprod, counted(*this), axis);
}

GraphTensor GraphTensor::cummax(int axis, Where at) const {
  const CallSite site("cummax", at);
  if (dtype() == Dtype::Bool) return truth(cast(Dtype::U8).cummax(axis));
  return walked(kCummax, *this, axis);
}

}  // namespace luminal
