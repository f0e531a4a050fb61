#pragma once
#include <cstdint>
#include <optional>

#include "luminal/nn/linear.h"
#include "luminal/nn/module.h"

/// Attention as modules. The math is `luminal::attention`.
namespace luminal::nn {

/// Who may not look at whom, in PyTorch's sense: a bool mask is true where attention is *not* allowed, a mask
/// of floats is added to the scores.
struct AttentionMask {
  GraphTensor mask = {};         ///< [S, T] or [N * heads, S, T]
  GraphTensor key_padding = {};  ///< [N, T] ([T] without a batch)
  bool causal = false;           ///< query i sees the keys up to i + (T - S)
};

/// Several heads of attention between projections, as torch.nn.MultiheadAttention.
/// Shapes: query [S, N, embed], key [T, N, kdim], value [T, N, vdim] -> [S, N, embed]; batch first if so
/// asked; without N as well. Weights: in_proj_weight [3 embed, embed] (or q_proj_weight, k_proj_weight,
/// v_proj_weight if sizes or numbers of heads differ), in_proj_bias, out_proj.  Errors: ShapeError.
/// Source: Vaswani et al. 2017; grouped queries: Ainslie et al. 2023.
struct MultiheadAttention {
  struct Options {
    double dropout = 0;  ///< of the attention weights, while training
    bool bias = true;
    int64_t kdim = 0, vdim = 0;  ///< 0: as embed
    int64_t kv_heads = 0;  ///< heads of keys and values, each shared by heads / kv_heads queries; 0: all
    bool batch_first = false;
    Dtype dtype = Dtype::F32;
  };
  std::optional<GraphTensor> in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight, in_proj_bias;
  Linear out_proj;
  int64_t embed, heads, kv_heads;
  double dropout;
  bool batch_first;
  Mode mode;

  MultiheadAttention(GraphSite cx, int64_t embed_dim, int64_t num_heads, const Options& options);
  MultiheadAttention(GraphSite cx, int64_t embed_dim, int64_t num_heads)
      : MultiheadAttention(cx, embed_dim, num_heads, Options()) {}

  [[nodiscard]] GraphTensor forward(const GraphTensor& query, const GraphTensor& key,
                                    const GraphTensor& value, const AttentionMask& mask = {},
                                    Where where = Where::current()) const;
  /// Self-attention.
  [[nodiscard]] GraphTensor forward(const GraphTensor& x, Where where = Where::current()) const {
    return forward(x, x, x, {}, where);
  }
  struct Result {
    GraphTensor output;
    GraphTensor weights;  ///< mean over the heads, [N, S, T]
  };
  [[nodiscard]] Result forward_with_weights(const GraphTensor& query, const GraphTensor& key,
                                            const GraphTensor& value, const AttentionMask& mask = {},
                                            Where where = Where::current()) const;
  void serialize(Serializer& s) const;

 private:
  struct Heads {
    GraphTensor query, key, value;  ///< [N, kv heads, queries of one, S, size]
  };
  [[nodiscard]] Heads project(const GraphTensor& query, const GraphTensor& key,
                              const GraphTensor& value) const;
  [[nodiscard]] GraphTensor heads_of(const GraphTensor& x, int64_t count) const;
  [[nodiscard]] GraphTensor masks(const AttentionMask& mask, Dtype dtype) const;
};

/// Rotary position embedding: element pairs of queries and keys turn by position * base^(-2 i / size).
/// Shapes: x [..., T, size] -> the same.  Errors: ShapeError if the size is odd or differs.
/// Source: Su et al. 2021. Pairs are (i, i + size / 2) as in Llama's published weights, or neighbours.
struct RotaryEmbedding {
  int64_t size;
  double base = 10000;
  bool interleaved = false;
  /// `first`: the position of the first row.
  [[nodiscard]] GraphTensor forward(const GraphTensor& x, const Expression& first = 0,
                                    Where where = Where::current()) const;
  void serialize(Serializer&) const {}
};

/// Keys and values of the tokens seen so far, as state of the graph: [N, kv_heads, capacity, size], of which
/// the first `past` rows are filled. `past` is a named dim: set it before each run, and add the number of new
/// tokens after it.
///
///   nn::KvCache cache(cx, 1, 2, 512, 64, "past");
///   GraphTensor logits = model.forward(tokens, cache);   // tokens [1, "new"]
///   cx.set_dim("past", 0);
///   cx.execute();                                        // the prompt
///   cx.set_dim("past", prompt);
///   cx.execute();                                        // the next token
struct KvCache {
  GraphTensor keys, values;
  Expression past;
  int64_t capacity;
  KvCache(GraphSite cx, int64_t batch, int64_t kv_heads, int64_t rows, int64_t size, const Expression& filled,
          Dtype dtype = Dtype::F32);
  /// Adds the rows of `key` and `value` [N, kv_heads, T, size] behind the past ones, from the next run on
  /// too. Returns: all rows so far, [N, kv_heads, past + T, size].  Errors: ShapeError.
  struct Rows {
    GraphTensor keys, values;
  };
  [[nodiscard]] Rows append(const GraphTensor& key, const GraphTensor& value,
                            Where where = Where::current()) const;
};

/// Causal self-attention as in language models: projections (q_proj, k_proj, v_proj, o_proj), grouped
/// queries, rotary positions, and a cache for generation.  Shapes: x [N, T, embed] -> the same.
struct CausalSelfAttention {
  struct Options {
    int64_t kv_heads = 0;                   ///< 0: as many as heads
    int64_t head_size = 0;                  ///< 0: embed / heads
    std::optional<double> rope_base = 1e4;  ///< absent: no positions
    bool rope_interleaved = false;
    bool bias = false;
    double dropout = 0;
    Dtype dtype = Dtype::F32;
  };
  Linear q_proj, k_proj, v_proj, o_proj;
  int64_t heads, kv_heads, head_size;
  std::optional<RotaryEmbedding> rope;
  double dropout;
  Mode mode;

  CausalSelfAttention(GraphSite cx, int64_t embed, int64_t num_heads, const Options& options);
  CausalSelfAttention(GraphSite cx, int64_t embed, int64_t num_heads)
      : CausalSelfAttention(cx, embed, num_heads, Options()) {}
  [[nodiscard]] GraphTensor forward(const GraphTensor& x, Where where = Where::current()) const;
  /// x holds the tokens behind those in the cache, which takes them in.
  [[nodiscard]] GraphTensor forward(const GraphTensor& x, const KvCache& cache,
                                    Where where = Where::current()) const;
  void serialize(Serializer& s) const;

 private:
  [[nodiscard]] GraphTensor attend(const GraphTensor& x, const KvCache* cache) const;
};

}  // namespace luminal::nn
