#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "luminal/graph.h"
#include "luminal/models/decoder.h"
#include "luminal/session.h"
#include "models/text_cache.h"

namespace luminal::models {

/// Runs new tokens of one text at a time (Decoder::Step), in a graph of its own, and appends their rows to the text's
/// cache.
class TextStep {
 public:
  /// Logits of the last token, logits of each, or the loss of each.
  enum class Gives { LastLogits, EachLogits, Losses };
  struct Parts {
    const DecoderOptions& sizes;
    const std::string& device;  ///< empty: the default
    CompilationMode mode;
    Gives gives;
    /// Ascending. Steps have so many tokens: the least that fits, padded, so that few sizes are compiled.
    std::vector<int64_t> lengths;
    Dtype cache;       ///< of keys and values
    int64_t capacity;  ///< rows of a cache
    std::function<DecoderWeights(Graph&)> weights;
  };
  explicit TextStep(Parts parts);

  /// Computes 1 to most_tokens() tokens behind what the text has seen. `targets`: the token behind each, for losses.
  void run(std::span<const text::TokenId> next, TextCache& text, std::span<const text::TokenId> targets = {});
  /// Of the last run: logits [vocabulary], or [tokens, vocabulary] of each, or losses [tokens].
  [[nodiscard]] std::vector<float> result() const;
  [[nodiscard]] int64_t most_tokens() const { return lengths_.back(); }
  /// Those it was given, completed by the decoder.
  [[nodiscard]] const DecoderOptions& sizes() const { return sizes_; }
  [[nodiscard]] double compile_seconds() const { return compile_s_; }

 private:
  void build(const Decoder& decoder);

  Gives gives_;
  CompilationMode mode_;
  std::vector<int64_t> lengths_;
  DecoderOptions sizes_;
  Graph cx_;
  GraphTensor tokens_, past_, last_, targets_, result_;
  std::optional<CacheInputs> cache_;
  FreshRows fresh_;
  std::optional<Compiled> compiled_;
  size_t computed_ = 0;  ///< tokens of the last run
  double compile_s_ = 0;
};

}  // namespace luminal::models
