#include "ops/composite/build.h"

// Movement: new views of the same values. Only `contiguous` makes a copy; tril and triu choose values.
namespace luminal {

using namespace composite;

GraphTensor GraphTensor::permute(std::vector<int> order, Where at) const {
  const CallSite site("permute", at);
  return with_view(view().permute(order));
}

GraphTensor GraphTensor::transpose(int a, int b, Where at) const {
  const CallSite site("transpose", at);
  std::vector<int> order(static_cast<size_t>(rank()));
  for (int axis = 0; axis < rank(); ++axis) order[static_cast<size_t>(axis)] = axis;
  std::swap(order.at(static_cast<size_t>(axis_of(*this, a))),
            order.at(static_cast<size_t>(axis_of(*this, b))));
  return with_view(view().permute(order));
}

GraphTensor GraphTensor::t(Where at) const {
  const CallSite site("t", at);
  if (rank() < 2)
    reject("{} has rank {}, but two axes are to be swapped; unsqueeze it first", type().to_string(), rank());
  return transpose(-2, -1);
}

GraphTensor GraphTensor::reshape(Shape dims, Where at) const {
  const CallSite site("reshape", at);
  return with_view(view().reshape(std::move(dims)));
}

GraphTensor GraphTensor::flatten(int first, int last, Where at) const {
  const CallSite site("flatten", at);
  if (rank() == 0) return with_view(view().unsqueeze(0));
  const int from = axis_of(*this, first), to = axis_of(*this, last);
  if (from > to) reject("axis {} comes after axis {} of {}; swap them", from, to, type().to_string());
  return from == to ? *this : with_view(view().merge_dims(from, to));
}

GraphTensor GraphTensor::expand(Shape dims, Where at) const {
  const CallSite site("expand", at);
  if (dims.size() < static_cast<size_t>(rank()))
    reject("{} has more axes than {}; sum or index the others away", type().to_string(),
           luminal::to_string(dims));
  const size_t added = dims.size() - static_cast<size_t>(rank());
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool keep = dims[i] == Expression(-1);
    if (keep && i < added)
      reject("-1 at axis {} of {} keeps no size, the axis is new; give its size", i,
             luminal::to_string(dims));
    if (keep) dims[i] = view().dims()[i - added];
    if (i < added) continue;
    const Expression& size = view().dims()[i - added];
    if (size != Expression(1) && !Expression::known_equal(size, dims[i]))
      reject("{} does not expand to {}: axis {} has size {}, and only 1 expands; repeat tiles",
             type().to_string(), luminal::to_string(dims), i - added, size.to_string());
  }
  return broadcast_to(*this, dims);
}

GraphTensor GraphTensor::expand_dim(int axis, const Expression& size, Where at) const {
  const CallSite site("expand_dim", at);
  return with_view(view().expand(new_axis_of(*this, axis), size));
}

GraphTensor GraphTensor::unsqueeze(int axis, Where at) const {
  const CallSite site("unsqueeze", at);
  return with_view(view().unsqueeze(new_axis_of(*this, axis)));
}

GraphTensor GraphTensor::squeeze(int axis, Where at) const {
  const CallSite site("squeeze", at);
  return with_view(view().squeeze(axis_of(*this, axis)));
}

GraphTensor GraphTensor::merge_dims(int a, int b, Where at) const {
  const CallSite site("merge_dims", at);
  return with_view(view().merge_dims(axis_of(*this, a), axis_of(*this, b)));
}

GraphTensor GraphTensor::split_dims(int axis, const Expression& inner, Where at) const {
  const CallSite site("split_dims", at);
  return with_view(view().split_dims(axis_of(*this, axis), inner));
}

// --- Slices and padding

namespace {

/// Python's reading of one bound: negative counts from the end, beyond it means the end.
Expression bound_of(const Expression& bound, const Expression& size) {
  const auto value = bound.constant();
  if (!value) return bound;
  if (*value < 0) return (size + bound).max(0);
  if (const auto known = size.constant()) return std::min(*value, *known);
  return *value > INT32_MAX ? size : bound;
}

void check_count(const RangePairs& pairs, const GraphTensor& x) {
  if (pairs.size() > static_cast<size_t>(x.rank()))
    reject("{} pairs for {}, which has {} axes; give at most one for each axis", pairs.size(),
           x.type().to_string(), x.rank());
}

}  // namespace

GraphTensor GraphTensor::slice(RangePairs ranges, Where at) const {
  const CallSite site("slice", at);
  check_count(ranges, *this);
  for (int axis = 0; axis < rank(); ++axis) {
    const auto i = static_cast<size_t>(axis);
    if (i >= ranges.size()) ranges.emplace_back(0, dim(axis));
    auto& [start, end] = ranges[i];
    start = bound_of(start, dim(axis));
    end = bound_of(end, dim(axis));
  }
  return with_view(view().slice(ranges));
}

GraphTensor GraphTensor::slice_along(int axis, const Expression& start, const Expression& end,
                                     const Expression& step, Where at) const {
  const CallSite site("slice_along", at);
  const int on = axis_of(*this, axis);
  if (step.range().max <= 0)
    reject("a step of {} is not above 0; flip the axis to go backwards", step.to_string());
  return with_view(view().slice_along(on, bound_of(start, dim(on)), bound_of(end, dim(on)), step));
}

GraphTensor GraphTensor::operator[](const Subscript& subscript) const {
  const CallSite site("operator[]", subscript.where);
  int named = 0, ellipses = 0;
  for (const Subscript::Entry& entry : subscript.entries)
    if (std::holds_alternative<Ellipsis>(entry.value))
      ++ellipses;
    else if (!std::holds_alternative<NewAxis>(entry.value))
      ++named;
  if (named > rank())
    reject("{} positions and slices for {}, which has {} axes; give at most one for each axis", named,
           type().to_string(), rank());
  if (ellipses > 1) reject("{} entries are an Ellipsis; give at most one", ellipses);
  GraphTensor x = *this;
  int axis = 0;
  for (const Subscript::Entry& entry : subscript.entries) {
    if (const auto* position = std::get_if<Expression>(&entry.value))
      x = x.with_view(x.view().select(axis, *position));
    else if (const auto* slice = std::get_if<Slice>(&entry.value))
      x = x.slice_along(axis++, slice->start, slice->end, slice->step);
    else if (std::holds_alternative<NewAxis>(entry.value))
      x = x.unsqueeze(axis++);
    else
      axis += rank() - named;
  }
  return x;
}

GraphTensor GraphTensor::pad(RangePairs amounts, Number fill, Where at) const {
  const CallSite site("pad", at);
  check_count(amounts, *this);
  check_fits(fill, dtype());
  amounts.resize(static_cast<size_t>(rank()));
  // A negative amount cuts that much off, as in PyTorch.
  GraphTensor kept = *this;
  for (int axis = 0; axis < rank(); ++axis) {
    auto& [before, after] = amounts[static_cast<size_t>(axis)];
    const Expression cut_before = before.range().max < 0 ? -before : Expression(0);
    const Expression cut_after = after.range().max < 0 ? -after : Expression(0);
    if (cut_before == Expression(0) && cut_after == Expression(0)) continue;
    kept = kept.slice_along(axis, cut_before, dim(axis) - cut_after);
    before = before + cut_before;
    after = after + cut_after;
  }
  return kept.with_view(kept.view().pad(amounts, fill));
}

GraphTensor GraphTensor::pad_along(int axis, const Expression& before, const Expression& after, Number fill,
                                   Where at) const {
  const CallSite site("pad_along", at);
  RangePairs amounts(static_cast<size_t>(rank()));
  amounts.at(static_cast<size_t>(axis_of(*this, axis))) = {before, after};
  return pad(std::move(amounts), fill);
}

// --- Pieces, tiles, mirror images

std::vector<GraphTensor> GraphTensor::split(const Expression& size, int axis, Where at) const {
  const CallSite site("split", at);
  const int on = axis_of(*this, axis);
  if (size.range().max <= 0) reject("pieces of size {}; give a size above 0", size.to_string());
  const auto count = dim(on).ceil_div(size).constant();
  if (!count)
    reject("how many pieces of size {} axis {} of {} gives depends on the run; use slice_along, or chunk",
           size.to_string(), on, type().to_string());
  std::vector<GraphTensor> pieces;
  for (int64_t i = 0; i < *count; ++i) {
    const Expression end = i + 1 < *count ? size * (i + 1) : dim(on);
    pieces.push_back(slice_along(on, size * i, end));
  }
  if (pieces.empty()) pieces.push_back(*this);  // of size 0, as in PyTorch
  return pieces;
}

std::vector<GraphTensor> GraphTensor::chunk(int chunks, int axis, Where at) const {
  const CallSite site("chunk", at);
  const int on = axis_of(*this, axis);
  if (chunks <= 0) reject("{} chunks; give a number above 0", chunks);
  if (dim(on).constant()) return split(dim(on).ceil_div(chunks).max(1), on);
  const Expression size = dim(on).ceil_div(chunks);
  std::vector<GraphTensor> pieces;
  for (int i = 0; i < chunks; ++i)
    pieces.push_back(slice_along(on, (size * i).min(dim(on)), (size * (i + 1)).min(dim(on))));
  return pieces;
}

GraphTensor GraphTensor::repeat(Shape times, Where at) const {
  const CallSite site("repeat", at);
  if (times.size() < static_cast<size_t>(rank()))
    reject("{} counts for {}; give one for each axis, and more for new axes in front", times.size(),
           type().to_string());
  GraphTensor result = *this;
  while (result.view().dims().size() < times.size()) result = result.unsqueeze(0);
  for (int axis = 0; axis < result.rank(); ++axis) {
    const Expression& count = times[static_cast<size_t>(axis)];
    if (count.range().max < 0)
      reject("axis {} cannot be repeated {} times; give at least 0", axis, count.to_string());
    if (count != Expression(1)) result = result.expand_dim(axis, count).merge_dims(axis, axis + 1);
  }
  return result;
}

GraphTensor GraphTensor::flip(Axes axes, Where at) const {
  const CallSite site("flip", at);
  ShapeTracker result = view();
  for (const int axis : axes.resolve(rank(), label())) result = result.flip(axis);
  return with_view(std::move(result));
}

namespace {

/// x where the column's number is below row + diagonal + 1 (or not), 0 elsewhere; what is dropped may be NaN.
GraphTensor triangle(const GraphTensor& x, const Expression& diagonal, bool lower) {
  if (x.rank() < 2)
    reject("{} has no rows and columns; give a tensor of rank 2 or more", x.type().to_string());
  Graph graph = x.graph();
  const GraphTensor row_end =
      formula(graph, Expression::flat_index() + diagonal + (lower ? 1 : 0), {x.dim(-2)});
  const GraphTensor column = formula(graph, Expression::flat_index(), {x.dim(-1)});
  const GraphTensor left = less(column, row_end.unsqueeze(1));
  const GraphTensor zero = scalar(x, 0);
  return lower ? select(left, x, zero) : select(left, zero, x);
}

}  // namespace

GraphTensor GraphTensor::tril(const Expression& diagonal, Where at) const {
  const CallSite site("tril", at);
  return triangle(*this, diagonal, true);
}

GraphTensor GraphTensor::triu(const Expression& diagonal, Where at) const {
  const CallSite site("triu", at);
  return triangle(*this, diagonal, false);
}

GraphTensor GraphTensor::pool_last_dim(const Expression& kernel, const Expression& stride,
                                       const Expression& dilation, Where at) const {
  const CallSite site("pool_last_dim", at);
  return with_view(view().pool(axis_of(*this, -1), kernel, stride, dilation));
}

GraphTensor GraphTensor::unfold(int axis, const Expression& size, const Expression& step, Where at) const {
  const CallSite site("unfold", at);
  const int on = axis_of(*this, axis);
  if (Expression::known_less(dim(on), size))
    reject("a window of {} does not fit in axis {} of {}; give a smaller size", size.to_string(), on,
           type().to_string());
  ShapeTracker seen = view().pool(on, size, step);
  std::vector<int> order;
  for (int d = 0; d < seen.rank(); ++d)
    if (d != on + 1) order.push_back(d);
  order.push_back(on + 1);
  return with_view(seen.permute(order));
}

GraphTensor GraphTensor::roll(const Expression& shift, int axis, Where at) const {
  const CallSite site("roll", at);
  const int on = axis_of(*this, axis);
  const Expression size = dim(on);
  if (size.range().max == 0) return *this;
  // The axis twice, of which one turn is seen. An axis of size 0 has no remainder, and needs none.
  const ShapeTracker twice = view().expand(on, 2).merge_dims(on, on + 1);
  const Expression start = (-shift) % size.max(1);
  return with_view(twice.slice_along(on, start, start + size, 1));
}

GraphTensor GraphTensor::excise(const Expression& spacing, const Expression& size, Where at) const {
  const CallSite site("excise", at);
  const int last = axis_of(*this, -1);
  if (spacing.range().max < 1 || size.range().max < 0)
    reject("a spacing of {} and a size of {}; give a spacing above 0 and a size of at least 0",
           spacing.to_string(), size.to_string());
  const Expression period = spacing + size, length = dim(last), periods = length.ceil_div(period);
  const Expression kept = length / period * spacing + (length % period).min(spacing);
  return pad_along(last, 0, periods * period - length)
      .split_dims(last, period)
      .slice_along(last + 1, 0, spacing)
      .merge_dims(last, last + 1)
      .slice_along(last, 0, kept);
}

GraphTensor GraphTensor::contiguous(Where at) const {
  if (edge().view.is_identity()) return *this;
  const CallSite site("contiguous", at);
  return apply(kCast, {*this}, {{"dtype", dtype()}});
}

}  // namespace luminal
