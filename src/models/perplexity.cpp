// Source: llama.cpp, tools/perplexity/perplexity.cpp.
#include "luminal/models/perplexity.h"

#include <algorithm>
#include <vector>

#include "base/cancel.h"
#include "base/fail.h"

namespace luminal::models {

Perplexity perplexity(LanguageModel& model, std::string_view text, int64_t context, int64_t most_chunks,
                      const std::function<void(const Perplexity&)>& progress) {
  constexpr int64_t kLeastContext = 4;
  if (context < kLeastContext)
    fail("[perplexity] the context is {}; give at least {} tokens", context, kLeastContext);
  const text::Tokenizer& tokenizer = model.tokenizer();
  const std::vector<text::TokenId> tokens = tokenizer.encode(text, {.parse_special = false});
  Perplexity result{.chunks_in_all = std::ssize(tokens) / context};
  if (result.chunks_in_all < 2)
    fail("[perplexity] the text has {} tokens; a context of {} needs at least {}", tokens.size(), context,
         2 * context);
  if (most_chunks > 0) result.chunks_in_all = std::min(result.chunks_in_all, most_chunks);
  const std::vector<text::TokenId>& begin = tokenizer.spec().begin;
  for (; result.chunks < result.chunks_in_all;) {
    throw_if_cancelled();
    const auto first = tokens.begin() + result.chunks * context;
    std::vector<text::TokenId> chunk(first, first + context);
    if (!begin.empty()) chunk.front() = begin.front();
    const std::vector<float> losses = model.losses(chunk);
    for (size_t i = static_cast<size_t>(context / 2); i < losses.size(); ++i) {
      result.sum += losses[i];
      result.squares += static_cast<double>(losses[i]) * losses[i];
      ++result.tokens;
    }
    ++result.chunks;
    if (progress) progress(result);
  }
  return result;
}

}  // namespace luminal::models
