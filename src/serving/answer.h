#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "luminal/text/grammar.h"
#include "luminal/text/sampler.h"
#include "serving/stop_filter.h"
#include "serving/token_model.h"

namespace luminal::serving {

struct AnswerOptions {
  text::SamplerOptions sampler = {};
  int64_t most_tokens = -1;  ///< -1: as many as the context takes
  std::vector<std::string> stops = {};
  bool logprobs = false;
  int64_t top_logprobs = 0;
  std::optional<text::Grammar> grammar = {};
  bool show_control_tokens = false;  ///< in the text
};

/// A token that was chosen and what share the model gave it.
struct TokenShare {
  text::TokenId id = 0;
  double logprob = 0;
  std::vector<std::pair<text::TokenId, double>> top = {};  ///< the most probable ones, the best first
  size_t begin = 0;                                        ///< of its text, in bytes of the answer
};

/// Why an answer ends: it was complete (an end token, a stop string, the end of a grammar), or it is as long as it may
/// be.
enum class Finish : uint8_t { Stop, Length };

/// A part of an answer.
struct Piece {
  std::string text;
  std::vector<TokenShare> tokens = {};  ///< whose texts begin in this piece, if they are asked for
  std::optional<Finish> finish = {};
};

/// One answer, token by token. Thread safety: one thread at a time.
class Answer {
 public:
  /// Errors: Error for options out of their range and tokens that there are not.
  Answer(const Vocabulary& vocabulary, AnswerOptions options, std::vector<text::TokenId> prompt,
         int64_t context);

  /// The prompt and what was written.
  [[nodiscard]] const std::vector<text::TokenId>& tokens() const { return tokens_; }
  [[nodiscard]] size_t prompt_size() const { return prompt_size_; }
  [[nodiscard]] int64_t written() const { return static_cast<int64_t>(tokens_.size() - prompt_size_); }
  /// Chooses what follows by its logits. Errors: Error for logits or grammars that leave no token.
  [[nodiscard]] Piece next(std::span<const float> logits);

 private:
  /// The next token; nothing where the answer ends.
  [[nodiscard]] std::optional<text::TokenId> choose(std::span<const float> logits);
  [[nodiscard]] TokenShare share_of(text::TokenId id, std::span<const float> logits) const;
  [[nodiscard]] Piece finished(std::string text, Finish finish);
  [[nodiscard]] std::vector<TokenShare> shares_before(size_t end);

  const Vocabulary& vocabulary_;
  AnswerOptions options_;
  int64_t context_;
  std::vector<text::TokenId> tokens_;
  size_t prompt_size_;
  text::Sampler sampler_;
  std::optional<text::GrammarMatcher> matcher_;
  text::StreamDecoder decoder_;
  StopFilter filter_;
  size_t decoded_ = 0;               ///< bytes of text so far
  std::vector<TokenShare> pending_;  ///< whose texts the filter holds
};

}  // namespace luminal::serving
