#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "luminal/models/language_model.h"
#include "luminal/text/tokenizer.h"

/// Speculative decoding: the tokens that may follow a text are guessed, and one step of the model, which reads the
/// weights once, tells how many of the guesses are right (Leviathan et al. 2023).
///
///   models::LanguageModel model("model.gguf");
///   models::SpeculativeModel faster(model, std::make_unique<models::LookUpDrafter>());
///   std::vector<text::TokenId> ids = model.tokenizer().encode("Once upon a time");
///   text::Sampler choose({.temperature = 0});
///   while (ids.size() < 100) ids.push_back(choose.sample(faster.logits(ids)));
///
/// Guesses change no result: each token is chosen by the model's own logits, and a guess counts only if it is the token
/// that was chosen. (A step of several tokens sums in another order than a step of one: logits differ by rounding.)
namespace luminal::models {

/// Guesses what follows a text. Thread safety: one thread at a time.
class Drafter {
 public:
  virtual ~Drafter() = default;
  /// Up to `most` tokens that may follow `text`; none where it has no idea.
  [[nodiscard]] virtual std::vector<text::TokenId> draft(std::span<const text::TokenId> text,
                                                         int64_t most) = 0;
  /// How long it compiled kernels so far.
  [[nodiscard]] virtual double compile_seconds() const { return 0; }
};

/// Guesses what followed when the last tokens stood in the text before: the longest such passage, of equal ones the
/// last (prompt lookup decoding, Saxena 2023). Thread safety: one thread at a time.
class LookUpDrafter : public Drafter {
 public:
  /// `least_match`: so many tokens at least must agree. Errors: Error if it is not 1 to 16.
  explicit LookUpDrafter(int64_t least_match = 3);
  [[nodiscard]] std::vector<text::TokenId> draft(std::span<const text::TokenId> text, int64_t most) override;

 private:
  int64_t least_match_;
};

/// Guesses what a smaller model finds likeliest. Thread safety: one thread at a time.
class ModelDrafter : public Drafter {
 public:
  /// `draft` is opened with the context of `model`. It stops guessing at the first token that it finds less likely
  /// than `least_probability`. Errors: Error if their tokenizers have different tokens, if the context of `draft` is
  /// smaller, and for a probability that is not 0 to 1.
  ModelDrafter(LanguageModel draft, LanguageModel& model, double least_probability = 0.75);
  [[nodiscard]] std::vector<text::TokenId> draft(std::span<const text::TokenId> text, int64_t most) override;
  [[nodiscard]] double compile_seconds() const override { return draft_.compile_seconds(); }

 private:
  LanguageModel draft_;
  size_t vocabulary_;
  double least_probability_;
};

/// A model whose tokens are guessed. It uses the first sequence of `model`, which must live longer.
/// Thread safety: one thread at a time.
class SpeculativeModel {
 public:
  static constexpr int64_t kMostDrafts = LanguageModel::kMostLastLogits - 1;
  /// On CPUs a step of eight tokens takes about twice one of four.
  static constexpr int64_t kUsualDrafts = 3;
  /// A step checks `most_drafts` guesses at most, and few where the last ones were wrong. Errors: Error if that is not 1
  /// to kMostDrafts.
  SpeculativeModel(LanguageModel& model, std::unique_ptr<Drafter> drafter,
                   int64_t most_drafts = kUsualDrafts);

  /// As LanguageModel::logits. Guesses are made for a text of which at most the last token is not known yet, as in
  /// generation; what they cover is answered without a step. The result stays valid until the next call.
  [[nodiscard]] std::span<const float> logits(std::span<const text::TokenId> text);
  /// Guesses that were checked, and those of them that the texts went on with.
  [[nodiscard]] int64_t drafted_tokens() const { return drafted_; }
  [[nodiscard]] int64_t accepted_tokens() const { return accepted_; }
  /// Of the model and the drafter.
  [[nodiscard]] double compile_seconds() const;

 private:
  [[nodiscard]] std::optional<std::span<const float>> checked(std::span<const text::TokenId> text) const;
  [[nodiscard]] std::vector<text::TokenId> draft(std::span<const text::TokenId> text);

  LanguageModel* model_;
  std::unique_ptr<Drafter> drafter_;
  int64_t most_drafts_;
  std::vector<text::TokenId> text_;  ///< that the last step computed, guesses included
  std::vector<float> rows_;          ///< what follows it and what follows it without its last tokens
  int64_t begin_ = 0;                ///< tokens of text_ before the guesses
  int64_t reached_ = 0;              ///< tokens of text_ that logits were asked for
  int64_t next_ = 1;                 ///< guesses of the next step at most
  int64_t drafted_ = 0, accepted_ = 0;
};

}  // namespace luminal::models
