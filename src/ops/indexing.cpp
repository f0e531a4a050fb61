#include "ops/indexing.h"

#include "base/fail.h"
#include "base/place.h"
#include "graph/node_run.h"

namespace luminal::ops {

void check_index(std::string_view op, const TensorType& index) {
  if (!is_integer(index.dtype))
    fail<DtypeError>("[{}] positions must be integers, got {}; cast them to i64", op, index.to_string());
}

Attributes index_attributes(int axis, int index_axes) {
  return {{"axis", int64_t{axis}}, {"index_axes", int64_t{index_axes}}};
}

Expression index_bound(const TensorType& data, const Attributes& attributes) {
  return attributes.has("axis") ? data.dims.at(0) : element_count(data.dims);
}

namespace {

std::string at_place(const std::string& place) { return place.empty() ? "" : " at " + place; }

/// "'table' f32[4, 3]"
std::string described(const TensorData& data, const std::vector<int64_t>& dims) {
  return fmt::format("{}{}[{}]", NodeRun::input_name(0), name(data.dtype), fmt::join(dims, ", "));
}

/// Where in the user's index the position `at` of `index` comes from.
std::string place_in_index(const TensorData& index, size_t at, size_t rank, int64_t rest, size_t axis,
                           size_t index_axes) {
  if (index_axes < index.dims.size() || rank != index.dims.size())
    return place_of(at / static_cast<size_t>(rest), std::span(index.dims).first(index_axes));
  std::vector<size_t> order{axis};  // axis k of the positions is axis order[k] of the user's index
  for (size_t d = 0; d < rank; ++d)
    if (d != axis) order.push_back(d);
  std::vector<int64_t> dims(rank), coordinates(rank);
  for (size_t k = rank; k-- > 0; at /= static_cast<size_t>(index.dims[k])) {
    dims[order[k]] = index.dims[k];
    coordinates[order[k]] = static_cast<int64_t>(at % static_cast<size_t>(index.dims[k]));
  }
  size_t flat = 0;
  for (size_t d = 0; d < rank; ++d)
    flat = flat * static_cast<size_t>(dims[d]) + static_cast<size_t>(coordinates[d]);
  return place_of(flat, dims);
}

[[noreturn]] void refuse(std::string_view op, const TensorData& index, const TensorData& data,
                         const Attributes& attributes, size_t at, int64_t position) {
  const std::string label = NodeRun::label(op);
  if (!attributes.has("axis")) {
    const int64_t size = data.element_count();
    if (size == 0)
      fail<Error>("[{}] index {}{} is outside of {}, which has no elements; give none", label, position,
                  at_place(place_of(at, index.dims)), described(data, data.dims));
    fail<Error>("[{}] index {}{} is outside of the {} elements of {}; valid are 0 to {}", label, position,
                at_place(place_of(at, index.dims)), size, described(data, data.dims), size - 1);
  }
  const auto axis = static_cast<size_t>(attributes.get<int64_t>("axis"));
  const auto index_axes = static_cast<size_t>(attributes.get<int64_t>("index_axes"));
  const int64_t length = data.dims[0];
  std::vector<int64_t> dims(data.dims.begin() + 1, data.dims.end());
  int64_t rest = 1;
  for (const int64_t size : dims) rest *= size;
  dims.insert(dims.begin() + static_cast<ptrdiff_t>(axis), length);
  const int64_t given = position / rest - (position % rest < 0 ? 1 : 0);
  const std::string place = at_place(place_in_index(index, at, data.dims.size(), rest, axis, index_axes));
  if (length == 0)
    fail<Error>("[{}] index {}{} is outside of axis {} of {}, which has no elements; give none", label, given,
                place, axis, described(data, dims));
  fail<Error>("[{}] index {}{} is outside of axis {} of {}, whose length is {}; valid are 0 to {}", label,
              given, place, axis, described(data, dims), length, length - 1);
}

}  // namespace

std::span<const int64_t> FlatPositions::piece(int64_t first, int64_t count, std::span<int64_t> buffer) const {
  std::span<const int64_t> positions;
  visit_dtype(index_.dtype, [&]<class T>(T) {
    if constexpr (takes_type<T, Takes::Integers>()) {
      const auto values = index_.as<T>().subspan(static_cast<size_t>(first), static_cast<size_t>(count));
      if constexpr (std::is_same_v<T, int64_t>) {
        positions = values;
      } else {
        std::ranges::transform(values, buffer.begin(), [](T value) { return static_cast<int64_t>(value); });
        positions = buffer.first(static_cast<size_t>(count));
      }
    }
  });
  // The upper bit is set below 0 and beyond the last. No early end: several are looked at at once.
  uint64_t signs = 0;
  const auto last = static_cast<uint64_t>(size_ - 1);
  for (const int64_t position : positions)
    signs |= static_cast<uint64_t>(position) | (last - static_cast<uint64_t>(position));
  if (signs >> 63 != 0) throw Outside();
  return positions;
}

void FlatPositions::refuse() const {
  visit_dtype(index_.dtype, [&]<class T>(T) {
    if constexpr (takes_type<T, Takes::Integers>()) {
      const auto values = index_.as<T>();
      for (size_t at = 0; at < values.size(); ++at)
        if (const auto position = static_cast<int64_t>(values[at]); position < 0 || position >= size_)
          ops::refuse(op_, index_, data_, attributes_, at, position);
    }
  });
  fail<InternalError>("[{}] every position lies within {} elements", op_, size_);
}

}  // namespace luminal::ops
