#include "models/text_cache.h"

#include <fmt/format.h>

#include <cstring>

#include "base/fail.h"

namespace luminal::models {

std::vector<int64_t> cache_dims(const DecoderOptions& sizes, int64_t capacity) {
  return {1, sizes.kv_heads, capacity, sizes.head_size};
}

CacheInputs::CacheInputs(Graph& cx, const std::string& name, int64_t layers, const std::vector<int64_t>& dims,
                         Dtype dtype) {
  for (int64_t layer = 0; layer < layers; ++layer) {
    const auto input = [&](const char* what) {
      return cx.named_tensor(fmt::format("{}blk.{}.{}", name, layer, what), Shape(dims.begin(), dims.end()),
                             dtype);
    };
    whole_.push_back({input("keys"), input("values")});
  }
}

std::vector<Decoder::Rows> CacheInputs::rows() const {
  std::vector<Decoder::Rows> rows;
  for (const Decoder::Rows& each : whole_) {
    const Expression count = Expression::dim(
        "past_rows", {.min = kCacheRows, .max = *each.keys.dim(2).constant(), .multiple_of = kCacheRows});
    rows.push_back({each.keys.slice_along(2, 0, count), each.values.slice_along(2, 0, count)});
  }
  return rows;
}

void CacheInputs::bind(const TextCache& text) {
  if (bound_ == &text) return;
  bound_ = &text;
  for (size_t layer = 0; layer < whole_.size(); ++layer) {
    const auto store = [](const GraphTensor& input, const std::shared_ptr<TensorData>& data) {
      Graph cx = input.graph();
      cx.store(input.edge().source, data, true);
    };
    store(whole_[layer].keys, text.layers[layer].keys);
    store(whole_[layer].values, text.layers[layer].values);
  }
}

void copy_rows(const TensorData& from, int64_t first, TensorData& to, int64_t place, int64_t count) {
  LUMINAL_CHECK(from.dtype == to.dtype && from.dims.size() == 4 && to.dims.size() == 4 &&
                    from.dims[1] == to.dims[1] && from.dims[3] == to.dims[3] &&
                    first + count <= from.dims[2] && place + count <= to.dims[2],
                "{} rows from {} to {}", count, first, place);
  const auto row = static_cast<size_t>(from.dims[3] * element_bytes(from.dtype));
  const auto at = [&](const TensorData& data, int64_t head, int64_t number) {
    return static_cast<size_t>(head * data.dims[2] + number) * row;
  };
  for (int64_t head = 0; head < from.dims[1]; ++head)
    std::memcpy(to.bytes.data() + at(to, head, place), from.bytes.data() + at(from, head, first),
                static_cast<size_t>(count) * row);
}

}  // namespace luminal::models
