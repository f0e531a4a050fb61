#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "luminal/cancel.h"
#include "serving/token_model.h"

namespace luminal::serving {

/// The tokenizer of a stored tiny model: 64 tokens, mostly letters.
inline const text::Tokenizer& tiny_tokenizer() {
  static const text::Tokenizer tokenizer(
      text::read_tokenizer(std::string(LUMINAL_SOURCE_DIR) + "/tests/unit/models/data/families/llama"));
  return tokenizer;
}
inline const Vocabulary& tiny_vocabulary() {
  static const Vocabulary vocabulary(tiny_tokenizer(), {*tiny_tokenizer().find("</s>")}, 64);
  return vocabulary;
}
inline std::vector<text::TokenId> tiny_tokens(const std::string& text) {
  return tiny_tokenizer().encode(text, {.add_special = false});
}

/// A model whose next token a function says, which remembers what it was asked for.
class ScriptedModel : public TokenModel {
 public:
  using Next = std::function<text::TokenId(std::span<const text::TokenId>)>;
  ScriptedModel(int64_t sequences, Next next)
      : next_(std::move(next)), seen_(static_cast<size_t>(sequences)) {}

  [[nodiscard]] int64_t context() const override { return 200; }
  [[nodiscard]] int64_t sequences() const override { return std::ssize(seen_); }
  [[nodiscard]] int64_t known_tokens(std::span<const text::TokenId> text, int64_t sequence) const override {
    return std::ranges::mismatch(text, seen_[static_cast<size_t>(sequence)]).in1 - text.begin();
  }
  void copy_tokens(int64_t from, int64_t to, int64_t count) override {
    const auto& source = seen_[static_cast<size_t>(from)];
    seen_[static_cast<size_t>(to)].assign(source.begin(), source.begin() + count);
  }
  void compute(std::span<const SequenceStep> steps, const Done& done) override {
    for (size_t i = 0; i < steps.size(); ++i) {
      const SequenceStep& step = steps[i];
      if (*step.cancelled) {
        done(i, {}, std::make_exception_ptr(Cancelled("[test] cancelled")));
        continue;
      }
      if (delay.count() > 0) std::this_thread::sleep_for(delay);
      computed +=
          std::ssize(step.text) - std::min(known_tokens(step.text, step.sequence), std::ssize(step.text) - 1);
      log.push_back({step.sequence, {step.text.begin(), step.text.end()}});
      seen_[static_cast<size_t>(step.sequence)] = log.back().second;
      try {
        std::vector<float> logits(64, 0);
        logits[static_cast<size_t>(next_(step.text))] = 10;
        done(i, logits, nullptr);
      } catch (...) {
        done(i, {}, std::current_exception());
      }
    }
  }

  std::chrono::milliseconds delay{0};
  int64_t computed = 0;  ///< tokens in all
  /// The steps: sequence and text. Read it when the scheduler is gone.
  std::vector<std::pair<int64_t, std::vector<text::TokenId>>> log;

 private:
  Next next_;
  std::vector<std::vector<text::TokenId>> seen_;
};

}  // namespace luminal::serving
