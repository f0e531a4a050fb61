#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "luminal/graph.h"
#include "luminal/models/decoder.h"
#include "luminal/tensor_data.h"
#include "luminal/text/tokenizer.h"

namespace luminal::models {

/// Rows that a step reads are a multiple of so many, so that few sizes are compiled.
constexpr int64_t kCacheRows = 256;
constexpr int64_t cache_rows_for(int64_t tokens) {
  return tokens <= kCacheRows ? kCacheRows : (tokens + kCacheRows - 1) / kCacheRows * kCacheRows;
}

/// Of the keys of a layer and of its values.
[[nodiscard]] std::vector<int64_t> cache_dims(const DecoderOptions& sizes, int64_t capacity);

/// Keys and values of a text's tokens. Graphs read them where they lie.
struct TextCache {
  struct Layer {
    std::shared_ptr<TensorData> keys, values;  ///< [1, kv_heads, capacity, head_size]
  };
  std::vector<Layer> layers;
  std::vector<text::TokenId> seen;  ///< whose rows are in the layers
};

/// Inputs of a graph for the cache of a text, which may be another one in each run.
class CacheInputs {
 public:
  /// `dims` of each layer's keys and of its values; `name`: what the names of the inputs begin with.
  CacheInputs(Graph& cx, const std::string& name, int64_t layers, const std::vector<int64_t>& dims,
              Dtype dtype);
  /// By layer, as many rows as the dim "past_rows" says.
  [[nodiscard]] std::vector<Decoder::Rows> rows() const;
  /// Runs from now on read this text's cache, which stays where it is.
  void bind(const TextCache& text);

 private:
  std::vector<Decoder::Rows> whole_;
  const TextCache* bound_ = nullptr;
};

/// Of each head [1, heads, rows, size], `count` rows from row `first` on become those from row `place` on.
void copy_rows(const TensorData& from, int64_t first, TensorData& to, int64_t place, int64_t count);

}  // namespace luminal::models
