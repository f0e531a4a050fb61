#include <numeric>

#include "ops/composite/build.h"

// Indexing by tensors. The indexed axis is viewed as the first one: then an index out of range is a flat
// position out of range, which the Gather primitive reports, and never another row's element.
namespace luminal {

using namespace composite;

namespace {

void check_index(const GraphTensor& index) {
  if (!is_integer(index.dtype()))
    reject<DtypeError>(
        "the index is {}; give integers{}", index.type().to_string(),
        index.dtype() == Dtype::Bool ? " (for a mask, use where)" : ", as cast(Dtype::I64) makes them");
}

/// The axes with `axis` moved to the front.
std::vector<int> axis_first(int rank, int axis) {
  std::vector<int> order{axis};
  for (int d = 0; d < rank; ++d)
    if (d != axis) order.push_back(d);
  return order;
}

std::vector<int> inverse_of(const std::vector<int>& order) {
  std::vector<int> inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) inverse[static_cast<size_t>(order[i])] = static_cast<int>(i);
  return inverse;
}

/// index * (elements of rest) + place in rest; `index` has as many trailing axes of any size as rest has.
GraphTensor flat_positions(const GraphTensor& index, const Shape& rest) {
  const GraphTensor wide = index.cast(Dtype::I64);
  if (rest.empty()) return wide;
  Graph graph = index.graph();
  return wide * element_count(rest) + formula(graph, Expression::flat_index(), rest);
}

}  // namespace

GraphTensor GraphTensor::gather(const GraphTensor& index, Where at) const {
  const CallSite site("gather", at);
  check_index(index);
  return apply(kGather, {*this, index});
}

GraphTensor GraphTensor::gather_elements(int axis, const GraphTensor& index, Where at) const {
  const CallSite site("gather_elements", at);
  const int on = axis_of(*this, axis);
  check_index(index);
  if (index.rank() != rank())
    reject("the index {} and the data {} differ in rank; index_select takes whole slices",
           index.type().to_string(), type().to_string());
  const std::vector<int> order = axis_first(rank(), on);
  GraphTensor data = *this;
  for (int d = 0; d < rank(); ++d) {
    const Expression &wanted = index.dim(d), &there = dim(d);
    if (d == on || Expression::known_equal(wanted, there)) continue;
    if (!Expression::known_less_equal(wanted, there))
      reject("the index {} reaches beyond the data {} at axis {}; slice it", index.type().to_string(),
             type().to_string(), d);
    data = data.slice_along(d, 0, wanted);
  }
  const GraphTensor places = index.permute(order);
  const Shape rest(places.dims().begin() + 1, places.dims().end());
  const GraphTensor found = apply(kGather, {data.permute(order), flat_positions(places, rest)});
  return found.permute(inverse_of(order));
}

GraphTensor GraphTensor::index_select(int axis, const GraphTensor& index, Where at) const {
  const CallSite site("index_select", at);
  const int on = axis_of(*this, axis);
  check_index(index);
  const GraphTensor data = permute(axis_first(rank(), on));
  const Shape rest(data.dims().begin() + 1, data.dims().end());
  GraphTensor places = index;
  for (size_t d = 0; d < rest.size(); ++d) places = places.unsqueeze(places.rank());
  const GraphTensor found = apply(kGather, {data, flat_positions(places, rest)});
  // From index dims + rest to dims before the axis + index dims + dims after it.
  std::vector<int> order(static_cast<size_t>(found.rank()));
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin(), order.begin() + index.rank(), order.begin() + index.rank() + on);
  return found.permute(order);
}

}  // namespace luminal
