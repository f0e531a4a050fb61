#include "models/text_cache.h"

#include <fmt/format.h>

#include <cstring>
#include <numeric>

#include "base/fail.h"

namespace luminal::models {

std::vector<CachePart> cache_parts(const DecoderOptions& sizes, Dtype dtype, int64_t capacity) {
  const std::vector<int64_t> rows{1, sizes.kv_heads, capacity, sizes.head_size};
  std::vector<CachePart> parts{{"keys", dtype, rows}, {"values", dtype, rows}};
  if (dtype != Dtype::I8) return parts;
  constexpr int64_t kBlock = 32;
  const std::vector<int64_t> scales{1, sizes.kv_heads, capacity,
                                    sizes.head_size / std::gcd(sizes.head_size, kBlock)};
  parts.push_back({"key_scales", Dtype::F32, scales});
  parts.push_back({"value_scales", Dtype::F32, scales});
  return parts;
}

FreshRows retrieved_parts(std::span<const Decoder::Rows> layers) {
  FreshRows all;
  for (const Decoder::Rows& rows : layers) {
    all.push_back({rows.keys, rows.values});
    if (rows.key_scales.valid()) all.back().insert(all.back().end(), {rows.key_scales, rows.value_scales});
    for (GraphTensor& part : all.back()) part = part.contiguous().retrieve();
  }
  return all;
}

void append_rows(const FreshRows& fresh, int64_t first, int64_t count, TextCache& text) {
  for (size_t layer = 0; layer < fresh.size(); ++layer)
    for (size_t part = 0; part < fresh[layer].size(); ++part) {
      const GraphTensor& rows = fresh[layer][part];
      copy_rows(*rows.graph().value(rows.edge().source), first, *text.layers[layer][part],
                std::ssize(text.seen), count);
    }
}

CacheInputs::CacheInputs(Graph& cx, const std::string& name, int64_t layers,
                         const std::vector<CachePart>& parts)
    : whole_(static_cast<size_t>(layers)) {
  for (size_t layer = 0; layer < whole_.size(); ++layer)
    for (const CachePart& part : parts)
      whole_[layer].push_back(cx.named_tensor(fmt::format("{}blk.{}.{}", name, layer, part.name),
                                              Shape(part.dims.begin(), part.dims.end()), part.dtype));
}

std::vector<Decoder::Rows> CacheInputs::rows() const {
  std::vector<Decoder::Rows> rows;
  for (const std::vector<GraphTensor>& parts : whole_) {
    const Expression count = Expression::dim(
        "past_rows", {.min = kCacheRows, .max = *parts.front().dim(2).constant(), .multiple_of = kCacheRows});
    const auto part = [&](size_t number) { return parts[number].slice_along(2, 0, count); };
    rows.push_back({part(0), part(1)});
    if (parts.size() > 2) rows.back() = {part(0), part(1), part(2), part(3)};
  }
  return rows;
}

void CacheInputs::bind(const TextCache& text) {
  if (bound_ == &text) return;
  bound_ = &text;
  for (size_t layer = 0; layer < whole_.size(); ++layer)
    for (size_t part = 0; part < whole_[layer].size(); ++part) {
      Graph cx = whole_[layer][part].graph();
      cx.store(whole_[layer][part].edge().source, text.layers[layer][part], true);
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
