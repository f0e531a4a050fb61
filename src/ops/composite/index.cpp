#include <numeric>

#include "ops/composite/build.h"
#include "ops/indexing.h"

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

/// The flat position of each element within its slice along axis 0, of the dims behind that axis.
GraphTensor positions_in_row(const GraphTensor& x) {
  Graph graph = x.graph();
  return formula(graph, Expression::flat_index(), Shape(x.dims().begin() + 1, x.dims().end()));
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
  const GraphTensor found =
      apply(kGather, {data.permute(order), flat_positions(places, rest)}, ops::index_attributes(on, rank()));
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
  const GraphTensor found =
      apply(kGather, {data, flat_positions(places, rest)}, ops::index_attributes(on, index.rank()));
  // From index dims + rest to dims before the axis + index dims + dims after it.
  std::vector<int> order(static_cast<size_t>(found.rank()));
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin(), order.begin() + index.rank(), order.begin() + index.rank() + on);
  return found.permute(order);
}

namespace {

/// Updates at places along `axis`, all else as in `base`: the axis in front, as for gather.
GraphTensor scattered(const GraphTensor& base, int axis, const GraphTensor& index, const GraphTensor& updates,
                      std::string mode) {
  const int on = axis_of(base, axis);
  check_index(index);
  if (index.rank() != base.rank() || updates.rank() != base.rank())
    reject("data {}, index {} and updates {} differ in rank; unsqueeze and expand the smaller ones",
           base.type().to_string(), index.type().to_string(), updates.type().to_string());
  for (int d = 0; d < base.rank(); ++d) {
    if (!Expression::known_equal(index.dim(d), updates.dim(d)))
      reject("index {} and updates {} differ at axis {}; slice the larger one", index.type().to_string(),
             updates.type().to_string(), d);
    if (d != on && !Expression::known_less_equal(index.dim(d), base.dim(d)))
      reject("the index {} reaches beyond the data {} at axis {}; slice it", index.type().to_string(),
             base.type().to_string(), d);
  }
  const std::vector<int> order = axis_first(base.rank(), on);
  const GraphTensor data = base.permute(order);
  // Places as the data counts them, seen only as far as the index reaches.
  GraphTensor offsets = positions_in_row(data);
  for (int d = 1; d < data.rank(); ++d) {
    const Expression& wanted = index.dim(order[static_cast<size_t>(d)]);
    if (!Expression::known_equal(wanted, data.dim(d))) offsets = offsets.slice_along(d - 1, 0, wanted);
  }
  Expression row = 1;
  for (int d = 1; d < data.rank(); ++d) row *= data.dim(d);
  const GraphTensor places = index.permute(order).cast(Dtype::I64) * row + offsets;
  Attributes attributes = ops::index_attributes(on, base.rank());
  attributes.set("mode", std::move(mode));
  const GraphTensor result = apply(kScatter, {data, places, updates.permute(order)}, std::move(attributes));
  return result.permute(inverse_of(order));
}

}  // namespace

GraphTensor GraphTensor::scatter(int axis, const GraphTensor& index, const GraphTensor& updates,
                                 Where at) const {
  const CallSite site("scatter", at);
  const auto [data, values] = promoted(Operand(*this), Operand(updates), Promotion::Plain);
  return scattered(data, axis, index, values, "assign");
}

GraphTensor GraphTensor::scatter_add(int axis, const GraphTensor& index, const GraphTensor& updates,
                                     Where at) const {
  const CallSite site("scatter_add", at);
  const auto [data, values] = promoted(Operand(*this), Operand(updates), Promotion::Arithmetic);
  return scattered(data, axis, index, values, "add");
}

GraphTensor GraphTensor::one_hot(const Expression& classes, Dtype wanted, Where at) const {
  const CallSite site("one_hot", at);
  check_index(*this);
  if (classes.range().max < 1) reject("{} classes; give a number above 0", classes.to_string());
  Graph owner = graph();
  const GraphTensor numbers = formula(owner, Expression::flat_index(), {classes});
  return cast(Dtype::I64).unsqueeze(rank()).eq(numbers).cast(wanted);
}

}  // namespace luminal
