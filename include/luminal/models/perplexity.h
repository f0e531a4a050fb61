#pragma once
#include <cmath>
#include <cstdint>
#include <functional>
#include <string_view>

#include "luminal/models/language_model.h"

/// How well a model knows a text, as llama.cpp measures it: the text is cut into chunks of `context` tokens, each of
/// which begins anew (with the token that begins texts, if the model has one), and the tokens of its second half are
/// counted. So figures of both programs compare.
///
///   models::LanguageModel scored("model.gguf", {.context = 512, .scores = true});
///   const models::Perplexity result = models::perplexity(scored, "a long text", 512);
///   std::cout << result.value() << " +/- " << result.error() << "\n";
namespace luminal::models {

struct Perplexity {
  double sum = 0, squares = 0;  ///< of the losses, in natural units
  int64_t tokens = 0, chunks = 0, chunks_in_all = 0;
  [[nodiscard]] double value() const { return std::exp(mean()); }
  /// The standard error of `value`.
  [[nodiscard]] double error() const {
    const double variance = tokens < 2 ? 0 : squares / static_cast<double>(tokens) - mean() * mean();
    return variance <= 0 ? 0 : std::sqrt(variance / static_cast<double>(tokens - 1)) * value();
  }

 private:
  [[nodiscard]] double mean() const { return tokens == 0 ? 0 : sum / static_cast<double>(tokens); }
};

/// Of the first `most_chunks` chunks (0: all); `progress` is called behind each. The model is opened with `scores` and
/// at least this context. Errors: Error for a text of fewer than two chunks, and for a context of fewer than 4 tokens;
/// Cancelled.
[[nodiscard]] Perplexity perplexity(LanguageModel& model, std::string_view text, int64_t context,
                                    int64_t most_chunks = 0,
                                    const std::function<void(const Perplexity&)>& progress = {});

}  // namespace luminal::models
