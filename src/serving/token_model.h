#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "luminal/models/language_model.h"
#include "luminal/text/grammar.h"
#include "luminal/text/tokenizer.h"

namespace luminal::serving {

/// What one sequence wants of a step: the logits behind `text`.
struct SequenceStep {
  int64_t sequence = 0;
  std::span<const text::TokenId> text;
  const std::atomic<bool>* cancelled = nullptr;  ///< the step ends early with Cancelled once this is true
};

/// A model that computes several sequences, as the scheduler sees it. Thread safety: one thread at a time.
class TokenModel {
 public:
  virtual ~TokenModel() = default;
  [[nodiscard]] virtual int64_t context() const = 0;
  [[nodiscard]] virtual int64_t sequences() const = 0;
  /// How many tokens at the start of `text` a sequence need not compute again.
  [[nodiscard]] virtual int64_t known_tokens(std::span<const text::TokenId> text, int64_t sequence) const = 0;
  /// Gives a sequence the first tokens that another one holds, in place of its own.
  virtual void copy_tokens(int64_t from, int64_t to, int64_t count) = 0;
  /// Called for each step when it is done: with its logits, or with what it threw.
  using Done =
      std::function<void(size_t step, std::span<const float> logits, const std::exception_ptr& error)>;
  /// One step of each of these sequences, which differ.
  virtual void compute(std::span<const SequenceStep> steps, const Done& done) = 0;
};

/// Sequences that lack one token take a step together; the others take turns.
[[nodiscard]] std::unique_ptr<TokenModel> token_model_of(models::LanguageModel& model);

/// What answers need to know of the tokens. Thread safety: any number of threads may read one.
struct Vocabulary {
  /// `logits`: how many a model gives; of the tokenizer's tokens those below that number count.
  Vocabulary(const text::Tokenizer& of, const std::vector<text::TokenId>& end_tokens, int64_t logits);
  /// What the token is in a text, or the name of a control token.
  [[nodiscard]] const std::string& shown(text::TokenId id) const;

  const text::Tokenizer& tokenizer;
  size_t size;
  std::vector<text::TokenId> ends;
  std::vector<std::string> bytes;  ///< by token; empty for control tokens
  text::GrammarTokens grammar_tokens;
};

}  // namespace luminal::serving
