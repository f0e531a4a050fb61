#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "luminal/tensor_data.h"
#include "luminal/text/tokenizer.h"

namespace luminal::models {

/// Rows that a step reads are a multiple of so many, so that few sizes are compiled.
constexpr int64_t kCacheRows = 256;
constexpr int64_t cache_rows_for(int64_t tokens) {
  return tokens <= kCacheRows ? kCacheRows : (tokens + kCacheRows - 1) / kCacheRows * kCacheRows;
}

/// Keys and values of a text's tokens. Graphs read them where they lie.
struct TextCache {
  struct Layer {
    std::shared_ptr<TensorData> keys, values;  ///< [1, kv_heads, capacity, head_size]
  };
  std::vector<Layer> layers;
  std::vector<text::TokenId> seen;  ///< whose rows are in the layers
};

/// Of each head [1, heads, rows, size], `count` rows from row `first` on become those from row `place` on.
void copy_rows(const TensorData& from, int64_t first, TensorData& to, int64_t place, int64_t count);

}  // namespace luminal::models
