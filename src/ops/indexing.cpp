#include "ops/indexing.h"

#include <algorithm>

#include "base/fail.h"
#include "base/place.h"
#include "graph/node_run.h"

namespace luminal::ops {

IndexForm index_form(const Attributes& attributes) {
  if (!attributes.has("axis")) return IndexForm::Flat;
  return attributes.get<bool>("slices") ? IndexForm::Slices : IndexForm::Elements;
}

Attributes index_attributes(int axis, IndexForm form) {
  return {{"axis", int64_t{axis}}, {"slices", form == IndexForm::Slices}};
}

namespace {

void check_index(std::string_view op, const TensorType& index, IndexForm form) {
  if (!is_integer(index.dtype))
    fail<DtypeError>("[{}] {} must be integers, got {}; cast them to i64", op,
                     form == IndexForm::Flat ? "positions" : "indices", index.to_string());
}

}  // namespace

Shape indexed_dims(std::string_view op, const Shape& data, const TensorType& index,
                   const Attributes& attributes) {
  const IndexForm form = index_form(attributes);
  check_index(op, index, form);
  if (form == IndexForm::Flat) return index.dims;
  const auto axis = attributes.get<int64_t>("axis");
  const auto rank = static_cast<int64_t>(data.size());
  if (axis < 0 || axis >= rank)
    fail<ShapeError>("[{}] axis {} is none of the {} axes of data {}; count from 0", op, axis, rank,
                     to_string(data));
  if (form == IndexForm::Slices) {
    Shape dims(data.begin(), data.begin() + axis);
    dims.insert(dims.end(), index.dims.begin(), index.dims.end());
    dims.insert(dims.end(), data.begin() + axis + 1, data.end());
    return dims;
  }
  if (index.dims.size() != data.size())
    fail<ShapeError>("[{}] the index {} and data {} differ in rank", op, index.to_string(), to_string(data));
  for (size_t d = 0; d < data.size(); ++d)
    if (d != static_cast<size_t>(axis) && !Expression::known_less_equal(index.dims[d], data[d]))
      fail<ShapeError>("[{}] the index {} reaches beyond data {} at axis {}", op, index.to_string(),
                       to_string(data), d);
  return index.dims;
}

Expression index_bound(const TensorType& data, const Attributes& attributes) {
  const Shape& dims = attributes.has("dims") ? attributes.get<Shape>("dims") : data.dims;
  if (index_form(attributes) == IndexForm::Flat) return element_count(dims);
  return dims.at(static_cast<size_t>(attributes.get<int64_t>("axis")));
}

namespace {

int64_t product_of(std::span<const int64_t> sizes) {
  int64_t product = 1;
  for (const int64_t size : sizes) product *= size;
  return product;
}

/// The integers of `index` from `first` on, as they are read.
template <class T, class Body>
void for_each_index(const TensorData& index, int64_t first, int64_t count, Body&& body) {
  const auto values = index.as<T>().subspan(static_cast<size_t>(first), static_cast<size_t>(count));
  for (size_t k = 0; k < values.size(); ++k) body(k, static_cast<int64_t>(values[k]));
}

template <class Body>
void visit_integers(Dtype dtype, Body&& body) {
  visit_dtype(dtype, [&]<class T>(T value) {
    if constexpr (takes_type<T, Takes::Integers>()) body(value);
  });
}

}  // namespace

IndexedPlaces::IndexedPlaces(std::string_view op, const TensorData& index, const TensorData& data,
                             const std::vector<int64_t>& data_dims, const Attributes& attributes)
    : op_(op), index_(index), data_(data), data_dims_(data_dims), form_(index_form(attributes)) {
  if (form_ == IndexForm::Flat) {
    count_ = index.element_count(), length_ = product_of(data_dims);
    return;
  }
  axis_ = static_cast<size_t>(attributes.get<int64_t>("axis"));
  const auto all = std::span(data_dims);
  const auto before = all.first(axis_), behind = all.subspan(axis_ + 1);
  outer_there_ = product_of(before), length_ = data_dims[axis_], inner_there_ = product_of(behind);
  if (form_ == IndexForm::Slices) {
    outer_ = product_of(before), count_ = index.element_count(), inner_ = inner_there_;
    return;
  }
  const auto own = std::span(index.dims);
  outer_ = product_of(own.first(axis_)), inner_ = product_of(own.subspan(axis_ + 1));
  count_ = index.dims[axis_];
  rows_ = axes_there(own.first(axis_), before), columns_ = axes_there(own.subspan(axis_ + 1), behind);
}

std::vector<IndexedPlaces::Axis> IndexedPlaces::axes_there(std::span<const int64_t> index,
                                                           std::span<const int64_t> data) {
  // Only the first axis may differ for numbers to be the same.
  if (index.empty() || std::ranges::equal(index.subspan(1), data.subspan(1))) return {};
  std::vector<Axis> axes(index.size());
  int64_t stride = 1;
  for (size_t d = index.size(); d-- > 0; stride *= data[d]) axes[d] = {index[d], stride};
  return axes;
}

int64_t IndexedPlaces::there(const std::vector<Axis>& axes, int64_t number) {
  if (axes.empty()) return number;
  int64_t found = 0;
  for (size_t d = axes.size(); d-- > 0; number /= axes[d].size)
    found += number % axes[d].size * axes[d].stride;
  return found;
}

std::span<const int64_t> IndexedPlaces::indices(int64_t first, int64_t count, Buffer& buffer) const {
  std::span<const int64_t> found = std::span(buffer).first(static_cast<size_t>(count));
  visit_integers(index_.dtype, [&]<class T>(T) {
    if constexpr (std::is_same_v<T, int64_t>)
      found = index_.as<T>().subspan(static_cast<size_t>(first), static_cast<size_t>(count));
    else
      for_each_index<T>(index_, first, count, [&](size_t k, int64_t value) { buffer[k] = value; });
  });
  // The upper bit is set below 0 and beyond the last. No early end: several are looked at at once.
  uint64_t signs = 0;
  const auto last = static_cast<uint64_t>(length_ - 1);
  for (const int64_t value : found)
    signs |= static_cast<uint64_t>(value) | (last - static_cast<uint64_t>(value));
  if (signs >> 63 != 0) throw Outside();
  return found;
}

/// What of a row with one stride of indices lies in [first, end) and in the buffers; returns how many elements.
int64_t IndexedPlaces::run(int64_t first, int64_t end, std::span<int64_t> positions, Buffer& buffer) const {
  const int64_t i = first % inner_, row = first / inner_, o = row / count_, j = row % count_;
  const int64_t base = row_there(o) * length_ * inner_there_;
  const int64_t left = std::min(end - first, static_cast<int64_t>(positions.size()));
  if (inner_ == 1) {  // along the index
    const int64_t n = std::min(left, count_ - j), at = base + column_there(0);
    const auto found = indices(index_number(o, j, 0), n, buffer);
    for (size_t k = 0; k < found.size(); ++k) positions[k] = at + found[k] * inner_there_;
    return n;
  }
  const int64_t n = std::min(left, inner_ - i);
  if (form_ == IndexForm::Slices) {
    const int64_t at = base + indices(j, 1, buffer)[0] * inner_there_ + i;
    for (int64_t k = 0; k < n; ++k) positions[static_cast<size_t>(k)] = at + k;
    return n;
  }
  const auto found = indices(index_number(o, j, i), n, buffer);
  if (columns_.empty())
    for (size_t k = 0; k < found.size(); ++k)
      positions[k] = base + i + static_cast<int64_t>(k) + found[k] * inner_there_;
  else
    for (size_t k = 0; k < found.size(); ++k)
      positions[k] = base + column_there(i + static_cast<int64_t>(k)) + found[k] * inner_there_;
  return n;
}

IndexedPlaces::Piece IndexedPlaces::piece(int64_t first, int64_t end, Buffer& buffer) const {
  constexpr int64_t kLongRow = 256;  // shorter ones share a piece
  if (inner_ == 1 && inner_there_ == 1 && (count_ >= kLongRow || outer_ == 1)) {
    const int64_t o = first / count_, j = first % count_;
    const int64_t n = std::min({end - first, count_ - j, kPiece});
    return {row_there(o) * length_, indices(index_number(o, j, 0), n, buffer)};
  }
  Buffer one_row;
  int64_t made = 0;
  const int64_t wanted = std::min(end - first, kPiece);
  while (made < wanted)
    made += run(first + made, first + wanted, std::span(buffer).subspan(static_cast<size_t>(made)), one_row);
  return {0, std::span(buffer).first(static_cast<size_t>(made))};
}

void IndexedPlaces::refuse() const {
  const std::string label = NodeRun::label(op_);
  const std::string described =
      fmt::format("{}{}[{}]", NodeRun::input_name(0), name(data_.dtype), fmt::join(data_dims_, ", "));
  visit_integers(index_.dtype, [&]<class T>(T) {
    for_each_index<T>(index_, 0, index_.element_count(), [&](size_t at, int64_t value) {
      if (value >= 0 && value < length_) return;
      std::string place = place_of(at, index_.dims);
      if (!place.empty()) place = " at " + place;
      if (form_ != IndexForm::Flat && length_ == 0)
        fail<Error>("[{}] index {}{} is outside of axis {} of {}, which has no elements; give none", label,
                    value, place, axis_, described);
      if (form_ != IndexForm::Flat)
        fail<Error>("[{}] index {}{} is outside of axis {} of {}, whose length is {}; valid are 0 to {}",
                    label, value, place, axis_, described, length_, length_ - 1);
      if (length_ == 0)
        fail<Error>("[{}] index {}{} is outside of {}, which has no elements; give none", label, value, place,
                    described);
      fail<Error>("[{}] index {}{} is outside of the {} elements of {}; valid are 0 to {}", label, value,
                  place, length_, described, length_ - 1);
    });
  });
  fail<InternalError>("[{}] every index lies within {} places", op_, length_);
}

}  // namespace luminal::ops
