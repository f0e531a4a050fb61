#include "serving/token_model.h"

#include <algorithm>

#include "base/cancel.h"

namespace luminal::serving {
namespace {

class TurnsModel : public TokenModel {
 public:
  explicit TurnsModel(models::LanguageModel& model) : model_(model) {}
  [[nodiscard]] int64_t context() const override { return model_.context(); }
  [[nodiscard]] int64_t sequences() const override { return model_.sequences(); }
  [[nodiscard]] int64_t known_tokens(std::span<const text::TokenId> text, int64_t sequence) const override {
    return model_.known_tokens(text, sequence);
  }
  void copy_tokens(int64_t from, int64_t to, int64_t count) override { model_.copy_tokens(from, to, count); }
  void compute(std::span<const SequenceStep> steps, const Done& done) override {
    for (size_t i = 0; i < steps.size(); ++i) {
      std::span<const float> logits;
      std::exception_ptr error;
      try {
        const CancelScope scope(*steps[i].cancelled);
        logits = model_.logits(steps[i].text, steps[i].sequence);
      } catch (...) {
        error = std::current_exception();
      }
      done(i, logits, error);
    }
  }

 private:
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
  return std::make_unique<TurnsModel>(model);
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
