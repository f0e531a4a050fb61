#include <optional>

#include "ops/composite/build.h"

// Places come from an op of their own, values from a gather at them, through which gradients flow.
namespace luminal {

using namespace composite;

namespace {

GraphTensor first_places(const GraphTensor& x, int axis, bool descending, std::optional<int64_t> wanted) {
  Attributes attributes{{"axis", int64_t{axis}}, {"descending", descending}};
  if (wanted) attributes.set("count", *wanted);
  return apply(kArgsort, {x}, std::move(attributes));
}

}  // namespace

GraphTensor GraphTensor::argsort(int axis, bool descending, Where at) const {
  const CallSite site("argsort", at);
  return first_places(*this, axis_of(*this, axis), descending, std::nullopt);
}

GraphTensor GraphTensor::sort(int axis, bool descending, Where at) const {
  const CallSite site("sort", at);
  const int on = axis_of(*this, axis);
  return gather_elements(on, first_places(*this, on, descending, std::nullopt));
}

std::pair<GraphTensor, GraphTensor> GraphTensor::topk(int64_t k, int axis, bool largest, Where at) const {
  const CallSite site("topk", at);
  const int on = axis_of(*this, axis);
  if (k < 0 || Expression::known_less(dim(on), k))
    reject("k is {} and axis {} of {} has {} elements; give a k from 0 to that number", k, on,
           type().to_string(), dim(on).to_string());
  const GraphTensor places = first_places(*this, on, largest, k);
  return {gather_elements(on, places), places};
}

}  // namespace luminal
