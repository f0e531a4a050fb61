#pragma once
#include <cstdint>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "luminal/text/tokenizer.h"

/// From a model's logits to the next token.
///
///   text::Sampler sampler({.temperature = 0.7, .top_p = 0.9, .seed = 1});
///   sampler.accept_prompt(prompt_ids);
///   text::TokenId next = sampler.sample(logits);
///
/// The steps, in the order of `transformers`' generate: the mask, penalties, biases, temperature, then top_k, top_p,
/// min_p and typical_p, each on the probabilities of the tokens that the one before it left.
namespace luminal::text {

struct SamplerOptions {
  double temperature = 1;  ///< divides the logits; 0 takes the most probable token
  int64_t top_k = 0;       ///< keeps the k most probable tokens, of equal ones those with lower ids; 0: all
  double top_p = 1;        ///< keeps the fewest tokens whose probabilities reach p (Holtzman et al. 2020)
  double min_p = 0;        ///< keeps tokens at least p times as probable as the best (Nguyen et al. 2024)
  double typical_p = 1;    ///< keeps what is nearest the entropy, up to the mass p (Meister et al. 2023)
  double repetition_penalty =
      1;  ///< of all tokens so far: divides logits above 0, multiplies others (CTRL, 2019)
  double presence_penalty = 0;   ///< taken from the logit of each token generated so far
  double frequency_penalty = 0;  ///< the same, times how often it was generated
  std::vector<std::pair<TokenId, double>> logit_bias = {};  ///< added to logits; minus infinity bans a token
  uint64_t seed = 0;  ///< equal seeds draw equal numbers on every machine
};

struct Candidate {
  TokenId id = 0;
  double logit = 0;        ///< after penalties, biases and temperature, less that of the most probable token
  double probability = 0;  ///< among the candidates
};

/// Chooses token after token of one text. Thread safety: as any value.
class Sampler {
 public:
  /// Errors: Error that names an option out of its range.
  explicit Sampler(SamplerOptions options = {});

  /// Tokens that were given, not generated: only the repetition penalty looks at them. Errors: Error for an id
  /// below 0.
  void accept_prompt(std::span<const TokenId> ids);
  /// A token that was generated without `sample`. Errors: Error for an id below 0.
  void accept(TokenId id);

  /// Chooses a token and takes note of it. `allowed` holds a bit for each token, 64 to a word, lowest first, and
  /// is empty if all are.
  /// Errors: Error for logits that are NaN or +infinity, a mask of another size, and where no token is left.
  /// Cost: linear in the vocabulary; top_p and typical_p add n log n in what they keep.
  [[nodiscard]] TokenId sample(std::span<const float> logits, std::span<const uint64_t> allowed = {});

  /// What `sample` draws from, the most probable first, of equal ones the lower id. At temperature 0 it is one
  /// token.
  [[nodiscard]] std::vector<Candidate> candidates(std::span<const float> logits,
                                                  std::span<const uint64_t> allowed = {}) const;

 private:
  [[nodiscard]] std::vector<Candidate> left_over(std::span<const float> logits,
                                                 std::span<const uint64_t> allowed) const;
  void penalize(std::vector<double>& logits) const;
  SamplerOptions options_;
  std::unordered_set<TokenId> seen_;                ///< given or generated
  std::unordered_map<TokenId, int64_t> generated_;  ///< and how often
  uint64_t draws_ = 0;
};

}  // namespace luminal::text
