#include "serving/token_model.h"

#include <algorithm>

#include "base/cancel.h"

namespace luminal::serving {
namespace {

class SequencesModel : public TokenModel {
 public:
  explicit SequencesModel(models::LanguageModel& model) : model_(model) {}
  [[nodiscard]] int64_t context() const override { return model_.context(); }
  [[nodiscard]] int64_t sequences() const override { return model_.sequences(); }
  [[nodiscard]] int64_t known_tokens(std::span<const text::TokenId> text, int64_t sequence) const override {
    return model_.known_tokens(text, sequence);
  }
  void copy_tokens(int64_t from, int64_t to, int64_t count) override { model_.copy_tokens(from, to, count); }

  void compute(std::span<const SequenceStep> steps, const Done& done) override {
    std::vector<size_t> together, alone;
    for (size_t i = 0; i < steps.size(); ++i) (lacks_one_token(steps[i]) ? together : alone).push_back(i);
    constexpr auto kMost = static_cast<size_t>(models::LanguageModel::kMostJointTexts);
    for (size_t first = 0; first < together.size(); first += kMost) {
      const auto part = std::span(together).subspan(first, std::min(kMost, together.size() - first));
      if (part.size() > 1)
        compute_together(steps, part, done);
      else
        alone.push_back(part[0]);
    }
    for (const size_t i : alone) compute_alone(steps[i], i, done);
  }

 private:
  [[nodiscard]] bool lacks_one_token(const SequenceStep& step) const {
    return !step.text.empty() && model_.known_tokens(step.text, step.sequence) + 1 >= std::ssize(step.text) &&
           !*step.cancelled;
  }

  /// Texts that are given up meanwhile do not hold up the others for longer than a token takes.
  void compute_together(std::span<const SequenceStep> steps, std::span<const size_t> which,
                        const Done& done) {
    std::vector<models::LanguageModel::SequenceText> texts;
    for (const size_t i : which) texts.push_back({steps[i].sequence, steps[i].text});
    std::span<const float> logits;
    std::exception_ptr error;
    try {
      logits = model_.joint_logits(texts);
    } catch (...) {
      error = std::current_exception();
    }
    const size_t each = logits.size() / which.size();
    for (size_t k = 0; k < which.size(); ++k)
      done(which[k], error ? logits : logits.subspan(k * each, each), error);
  }

  void compute_alone(const SequenceStep& step, size_t number, const Done& done) {
    std::span<const float> logits;
    std::exception_ptr error;
    try {
      const CancelScope scope(*step.cancelled);
      logits = model_.logits(step.text, step.sequence);
    } catch (...) {
      error = std::current_exception();
    }
    done(number, logits, error);
  }

  models::LanguageModel& model_;
};

std::vector<std::string> bytes_below(const text::Tokenizer& tokenizer, size_t size) {
  std::vector<std::string> bytes = tokenizer.token_bytes();
  bytes.resize(size);
  return bytes;
}

std::vector<text::TokenId> ends_below(std::vector<text::TokenId> ends, size_t size) {
  std::erase_if(ends, [&](text::TokenId id) { return id < 0 || static_cast<size_t>(id) >= size; });
  return ends;
}

}  // namespace

std::unique_ptr<TokenModel> token_model_of(models::LanguageModel& model) {
  return std::make_unique<SequencesModel>(model);
}

Vocabulary::Vocabulary(const text::Tokenizer& of, const std::vector<text::TokenId>& end_tokens,
                       int64_t logits)
    : tokenizer(of),
      size(std::min(of.size(), static_cast<size_t>(logits))),
      ends(ends_below(end_tokens, size)),
      bytes(bytes_below(of, size)),
      grammar_tokens(bytes, ends) {}

const std::string& Vocabulary::shown(text::TokenId id) const {
  const std::string& text = bytes[static_cast<size_t>(id)];
  return text.empty() ? tokenizer.token(id) : text;
}

}  // namespace luminal::serving
