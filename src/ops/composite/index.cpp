#include <optional>

#include "ops/composite/build.h"
#include "ops/indexing.h"

// Indexing by tensors: indices go to the primitives as the user gives them, which compute where elements lie and report
// what is out of range.
namespace luminal {

using namespace composite;

namespace {

void check_index(const GraphTensor& index) {
  if (!is_integer(index.dtype()))
    reject<DtypeError>(
        "the index is {}; give integers{}", index.type().to_string(),
        index.dtype() == Dtype::Bool ? " (for a mask, use where)" : ", as cast(Dtype::I64) makes them");
}

/// The index without its other axes, if it names whole slices: it is the same all along each of them, and they are as
/// long as the data's, and surely not empty.
std::optional<GraphTensor> slices_named(const GraphTensor& index, int axis, const Shape& data) {
  if (index.rank() < 2) return std::nullopt;
  const auto strided = index.view().as_strided();
  if (!strided) return std::nullopt;
  GraphTensor places = index;
  for (int d = index.rank(); d-- > 0;) {
    if (d == axis) continue;
    const auto at = static_cast<size_t>(d);
    const Expression& size = index.dim(d);
    const bool is_same = Expression::known_equal(size, 1) || Expression::known_equal(strided->strides[at], 0);
    if (!is_same || !Expression::known_equal(size, data[at]) || size.range().min < 1) return std::nullopt;
    places = places.slice_along(d, 0, 1).squeeze(d);
  }
  return places;
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
  for (int d = 0; d < rank(); ++d)
    if (d != on && !Expression::known_less_equal(index.dim(d), dim(d)))
      reject("the index {} reaches beyond the data {} at axis {}; slice it", index.type().to_string(),
             type().to_string(), d);
  if (const auto slices = slices_named(index, on, dims()))
    return apply(kGather, {*this, *slices}, ops::index_attributes(on, ops::IndexForm::Slices));
  return apply(kGather, {*this, index}, ops::index_attributes(on, ops::IndexForm::Elements));
}

GraphTensor GraphTensor::index_select(int axis, const GraphTensor& index, Where at) const {
  const CallSite site("index_select", at);
  const int on = axis_of(*this, axis);
  check_index(index);
  return apply(kGather, {*this, index}, ops::index_attributes(on, ops::IndexForm::Slices));
}

namespace {

/// The number that every element of `x` is, where its view says so.
std::optional<GraphTensor> number_everywhere(const GraphTensor& x) {
  const ShapeTracker& view = x.view();
  if (!view.physical_dims().empty() || !view.masks().empty()) return std::nullopt;
  return x.with_view(ShapeTracker::contiguous({}));
}

/// Updates at places along `axis`, all else as in `base`.
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
  const auto slices = slices_named(index, on, base.dims());
  Attributes attributes =
      ops::index_attributes(on, slices ? ops::IndexForm::Slices : ops::IndexForm::Elements);
  attributes.set("mode", std::move(mode));
  const auto number = number_everywhere(base);
  if (number) attributes.set("dims", base.dims());
  return apply(kScatter, {number.value_or(base), slices.value_or(index), updates}, std::move(attributes));
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
