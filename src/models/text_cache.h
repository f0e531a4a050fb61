#pragma once
#include <cstdint>
#include <memory>
#include <span>
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

/// One of the tensors that hold a layer's rows: its keys, its values, and the scales of either where they are rounded
/// (i8), in the order of Decoder::Rows.
struct CachePart {
  const char* name;
  Dtype dtype;
  std::vector<int64_t> dims;  ///< [1, kv_heads, capacity, numbers of a row]
};
/// `dtype`: f32, f16, bf16, or i8 for blocks of 32 numbers (of fewer, where 32 does not divide a head).
[[nodiscard]] std::vector<CachePart> cache_parts(const DecoderOptions& sizes, Dtype dtype, int64_t capacity);
/// Rows of new tokens, by layer and part.
using FreshRows = std::vector<std::vector<GraphTensor>>;
/// Makes them outputs of the graph.
[[nodiscard]] FreshRows retrieved_parts(std::span<const Decoder::Rows> layers);

/// Keys and values of a text's tokens. Graphs read them where they lie.
struct TextCache {
  using Layer = std::vector<std::shared_ptr<TensorData>>;  ///< by part
  std::vector<Layer> layers;
  std::vector<text::TokenId> seen;  ///< whose rows are in the layers
};

/// Inputs of a graph for the cache of a text, which may be another one in each run.
class CacheInputs {
 public:
  /// `name`: what the names of the inputs begin with.
  CacheInputs(Graph& cx, const std::string& name, int64_t layers, const std::vector<CachePart>& parts);
  /// By layer, as many rows as the dim "past_rows" says.
  [[nodiscard]] std::vector<Decoder::Rows> rows() const;
  /// Runs from now on read this text's cache, which stays where it is.
  void bind(const TextCache& text);

 private:
  std::vector<std::vector<GraphTensor>> whole_;  ///< by layer and part
  const TextCache* bound_ = nullptr;
};

/// Of the last run's rows, `count` from row `first` on go behind those of the tokens that the text has seen.
void append_rows(const FreshRows& fresh, int64_t first, int64_t count, TextCache& text);

/// Of each head [1, heads, rows, size], `count` rows from row `first` on become those from row `place` on.
void copy_rows(const TensorData& from, int64_t first, TensorData& to, int64_t place, int64_t count);

}  // namespace luminal::models
