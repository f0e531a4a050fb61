#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "luminal/graph.h"

/// Decoder-only language models as plain tensor code: one skeleton whose options say what a family does. Files
/// become such models by LanguageModel (language_model.h).
namespace luminal::models {

/// Rotary positions of the first 2 * frequencies.size() elements of a head (Su et al. 2021): pair i turns by
/// position * frequencies[i], and what results is `magnitude` times as long.
struct Rotary {
  std::vector<double> frequencies = {};  ///< empty: none
  double magnitude = 1;
  bool interleaved = false;  ///< pairs are neighbours, not (i, i + size / 2)
};

struct DecoderOptions {
  /// ClampedSwish (gpt-oss): min(gate, limit) * sigmoid(slope * gate) * (clamp(up, limit) + 1).
  enum class Activation { Silu, Gelu, GeluTanh, ClampedSwish };
  /// How the vectors of a text's tokens become one: their mean, the first one; None: a model that makes texts.
  enum class Pooling { None, Mean, First };
  int64_t vocabulary = 0, layers = 0, size = 0;
  int64_t heads = 0, kv_heads = 0, head_size = 0;  ///< kv_heads 0: as heads; head_size 0: size / heads
  int64_t hidden = 0;                              ///< of the feed-forward
  int64_t context = 0;                             ///< tokens it was trained with
  double norm_eps = 1e-5;
  double norm_offset = 0;   ///< added to the stored weights of norms
  bool layer_norm = false;  ///< LayerNorm for RMSNorm
  Activation activation = Activation::Silu;
  double swish_limit = 0, swish_slope = 0;  ///< of ClampedSwish
  bool gated = true;                        ///< of the feed-forward: activation(gate) * up
  double embedding_scale = 1;               ///< of token embeddings
  double attention_scale = 0;               ///< of scores; 0: 1 / sqrt(head size)
  double attention_softcap = 0;             ///< scores become c * tanh(score / c); 0: they stay
  double logit_softcap = 0;
  int64_t window = 0;            ///< local layers see so many tokens, their own included; 0: all
  std::vector<bool> local = {};  ///< by layer
  Rotary rotary = {};            ///< of layers that are not local
  Rotary local_rotary = {};
  bool tied = false;                                         ///< the head shares the embedding's table
  int64_t experts = 0, experts_used = 0, expert_hidden = 0;  ///< 0 experts: one feed-forward
  /// Shares of the experts that a token uses come from a softmax over all of them, not over those used.
  bool route_over_all = false;
  /// Products with weights in blocks read activations in blocks of 32 numbers of 8 bits, with an f32 scale each, to
  /// which they are rounded once for all projections of a row: sums of integers, computed several times as fast.
  bool rounded_activations = false;
  int64_t token_types = 0;  ///< of encoders
  Pooling pooling = Pooling::None;
};

/// Makes the weights of a model: inputs of the graph, of any dtype that casts to f32, by GGUF's names
/// ("blk.0.attn_q.weight") and PyTorch's layouts. Nothing for what the model does without.
using DecoderWeights =
    std::function<std::optional<GraphTensor>(const std::string& name, const std::vector<int64_t>& dims)>;

/// A model in a graph. Keys and values of past tokens are inputs, those of new ones outputs: who runs the graph
/// appends them. So a cache costs no copy, and its rows can be shared and dropped.
/// Thread safety: as the graph.
class Decoder {
 public:
  /// Errors: ShapeError for sizes that contradict each other; Error for weights that `weights` does not have.
  Decoder(Graph& cx, DecoderOptions options, const DecoderWeights& weights);

  /// Of f32, f16 or bf16, or rounded to blocks of 8 bits: i8 numbers, which their blocks' scales multiply.
  struct Rows {
    GraphTensor keys, values;  ///< [1, kv_heads, rows, head_size]
    GraphTensor key_scales = {},
                value_scales = {};  ///< f32 [1, kv_heads, rows, blocks of a head]; only of i8
  };
  /// One step over new tokens.
  struct Step {
    GraphTensor tokens;  ///< integers [1, T]; those behind `last` are padding
    GraphTensor past;    ///< i32, a number: tokens before these, whose rows are filled in `cache`
    GraphTensor last;    ///< i32, a number: the token whose logits are wanted, of 0 .. T - 1; no tensor: each
    std::span<const Rows> cache;  ///< by layer, with any number of rows; what is behind `past` is not read
    GraphTensor targets = {};  ///< integers [1, T]: the token behind each; no tensor: losses are not wanted
  };
  /// One step over a new token of each of T texts: weights are read once for all of them.
  struct JointStep {
    GraphTensor tokens;                         ///< integers [1, T]
    GraphTensor past;                           ///< i32[T]: tokens of each text before its new one
    std::span<const std::vector<Rows>> caches;  ///< by text, then by layer, as those of a Step
  };
  struct Result {
    /// f32[vocabulary], of each token or text f32[T, vocabulary]; no tensor where losses are wanted.
    GraphTensor logits;
    GraphTensor losses;      ///< f32[T]: -log of the share of each target
    std::vector<Rows> rows;  ///< of the new tokens, by layer, in the cache's dtype
  };
  [[nodiscard]] Result forward(const Step& step) const;
  [[nodiscard]] Result forward(const JointStep& step) const;
  [[nodiscard]] const DecoderOptions& options() const { return options_; }

 private:
  struct Affine {
    GraphTensor weight;
    std::optional<GraphTensor> bias = {};
  };
  struct Experts {
    Affine router, gate, up, down;  ///< weights [experts, out, in] but the router's
  };
  struct Layer {
    Affine attention_norm, ffn_norm, output;
    std::optional<Affine> query_norm, key_norm, after_attention, after_ffn;
    std::optional<Affine> qkv, query, key, value;
    std::optional<Affine> gate, up, down;  ///< `up` holds the gate as its first half if that is absent
    std::optional<Experts> experts;
    std::optional<GraphTensor> sinks;  ///< [heads]: a score more for each head, whose share goes nowhere
    bool local = false;
  };
  class Builder;
  class Pass;
  /// Of `every` token [T, vocabulary], or of the pass's last one [1, vocabulary]; `rows`: of the new tokens, by layer.
  [[nodiscard]] GraphTensor logits(const Pass& pass, std::vector<Rows>& rows, bool every) const;
  DecoderOptions options_;
  GraphTensor embedding_;
  std::optional<GraphTensor> positions_;
  std::vector<Layer> layers_;
  Affine norm_;
  std::optional<Affine> head_;
};

}  // namespace luminal::models
