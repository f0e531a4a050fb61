#pragma once
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "luminal/text/tokenizer.h"

/// From a model's logits to the next token.
///
///   text::Sampler sampler({.temperature = 0.8F, .top_k = 40, .top_p = 0.95F, .seed = 7});
///   text::TokenId next = sampler.sample(logits);
///
/// The steps are those of `transformers`, in this order: bias, penalties, temperature, top-k, top-p, min-p, typical;
/// then one token is drawn from the softmax of what is left.
namespace luminal::text {

struct SamplerOptions {
  float temperature = 1;  ///< 0 takes the greatest logit (of equal ones the first)
  int64_t top_k = 0;      ///< keep that many of the greatest; 0 keeps all
  float top_p = 1;        ///< keep the fewest greatest whose probabilities reach it (Holtzman et al. 2020)
  float min_p = 0;        ///< keep what has that part of the greatest probability (Nguyen et al. 2024)
  float typical_p = 1;    ///< keep the most typical ones that reach it (Meister et al. 2023)
  float repetition_penalty =
      1;  ///< of tokens seen: divides positive logits, multiplies others (Keskar et al. 2019)
  float presence_penalty = 0;                        ///< taken off the logit of a token that was seen
  float frequency_penalty = 0;                       ///< taken off for each time
  size_t penalty_window = 0;                         ///< how many of the last tokens count as seen; 0 for all
  std::vector<std::pair<TokenId, float>> bias = {};  ///< added to the logits of tokens
  uint64_t seed = 0;  ///< equal seeds draw equal tokens from equal logits, on every machine
};

/// Draws the tokens of one sequence. Thread safety: none, as it changes with each draw.
class Sampler {
 public:
  /// Errors: Error for an option that is out of range or not finite.
  explicit Sampler(SamplerOptions options);

  /// Takes note of a token without drawing it, as of those of a prompt.
  void accept(TokenId token);
  /// Draws a token and takes note of it. `allowed`, if it is not empty, says by token what may be drawn.
  /// Errors: Error if a logit is NaN, none is above minus infinity, or sizes differ.
  /// Cost: linear in the vocabulary, and a sort of what top-k leaves.
  [[nodiscard]] TokenId sample(std::span<const float> logits, std::span<const bool> allowed = {});
  /// What `sample` would draw from: tokens with their probabilities, the likeliest first. Errors: as of `sample`.
  [[nodiscard]] std::vector<std::pair<TokenId, double>> distribution(
      std::span<const float> logits, std::span<const bool> allowed = {}) const;

 private:
  [[nodiscard]] std::vector<float> adjusted(std::span<const float> logits,
                                            std::span<const bool> allowed) const;
  SamplerOptions options_;
  std::vector<TokenId> seen_;
  uint64_t draws_ = 0;
};

}  // namespace luminal::text
