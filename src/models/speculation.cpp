#include "luminal/models/speculation.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "base/fail.h"

namespace luminal::models {
namespace {

using text::TokenId;

constexpr int64_t kLongestMatch = 16;  // longer ones are not told apart

/// How many tokens before `place` are those at the end of the text.
int64_t agreement(std::span<const TokenId> text, int64_t place) {
  int64_t length = 0;
  const int64_t most = std::min(place, kLongestMatch);
  while (length < most &&
         text[static_cast<size_t>(place - 1 - length)] == text[text.size() - 1 - static_cast<size_t>(length)])
    ++length;
  return length;
}

/// How many tokens to guess where so many of the last guesses were right: one more, and as many as its step has room
/// for, of 2, 4 or 8 tokens. So wrong guesses cost little, and long passages are found in few steps.
int64_t guesses_after(int64_t right) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(right) + 2)) - 1;
}

void check_same_tokens(const text::Tokenizer& draft, const text::Tokenizer& model) {
  if (draft.size() != model.size())
    fail(
        "[draft] the draft model has {} tokens and the model {}; choose a draft model with the same "
        "tokenizer",
        draft.size(), model.size());
  for (size_t i = 0; i < model.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (draft.token(id) != model.token(id))
      fail(
          "[draft] token {} is '{}' in the draft model and '{}' in the model; choose a draft model with the "
          "same tokenizer",
          id, draft.token(id), model.token(id));
  }
}

}  // namespace

LookUpDrafter::LookUpDrafter(int64_t least_match) : least_match_(least_match) {
  if (least_match < 1 || least_match > kLongestMatch)
    fail("[draft] {} tokens must agree at least; give 1 to {}", least_match, kLongestMatch);
}

std::vector<TokenId> LookUpDrafter::draft(std::span<const TokenId> text, int64_t most) {
  int64_t longest = least_match_ - 1, from = 0;
  for (int64_t place = std::ssize(text) - 1; place > longest && longest < kLongestMatch; --place)
    if (const int64_t length = agreement(text, place); length > longest) {
      longest = length;
      from = place;
    }
  if (longest < least_match_) return {};
  std::vector<TokenId> drafts;
  for (int64_t i = 0; i < most; ++i) {  // a passage that reaches the end goes on with what was guessed
    const int64_t at = from + i;
    drafts.push_back(at < std::ssize(text) ? text[static_cast<size_t>(at)]
                                           : drafts[static_cast<size_t>(at - std::ssize(text))]);
  }
  return drafts;
}

ModelDrafter::ModelDrafter(LanguageModel draft, LanguageModel& model, double least_probability)
    : draft_(std::move(draft)), vocabulary_(model.tokenizer().size()), least_probability_(least_probability) {
  check_same_tokens(draft_.tokenizer(), model.tokenizer());
  if (draft_.context() < model.context())
    fail("[draft] the context of the draft model is {} and that of the model {}; open it with as large a one",
         draft_.context(), model.context());
  if (!(least_probability >= 0 && least_probability <= 1))
    fail("[draft] the least probability is {}; give 0 to 1", least_probability);
}

std::vector<TokenId> ModelDrafter::draft(std::span<const TokenId> text, int64_t most) {
  std::vector<TokenId> all(text.begin(), text.end());
  while (std::ssize(all) < std::ssize(text) + most) {
    std::span<const float> logits = draft_.logits(all);
    logits = logits.first(std::min(logits.size(), vocabulary_));
    const auto best = std::ranges::max_element(logits);
    double sum = 0;  // of probabilities, that of the best being 1
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - *best);
    if (!(1 / sum >= least_probability_)) break;
    all.push_back(static_cast<TokenId>(best - logits.begin()));
  }
  all.erase(all.begin(), all.begin() + std::ssize(text));
  return all;
}

SpeculativeModel::SpeculativeModel(LanguageModel& model, std::unique_ptr<Drafter> drafter,
                                   int64_t most_drafts)
    : model_(&model), drafter_(std::move(drafter)), most_drafts_(most_drafts) {
  if (most_drafts < 1 || most_drafts > kMostDrafts)
    fail("[draft] {} tokens are guessed at once at most; give 1 to {}", most_drafts, kMostDrafts);
}

double SpeculativeModel::compile_seconds() const {
  return model_->compile_seconds() + drafter_->compile_seconds();
}

/// What follows `text`, if the last step has told.
std::optional<std::span<const float>> SpeculativeModel::checked(std::span<const TokenId> text) const {
  const auto size = static_cast<size_t>(model_->sizes().vocabulary);
  const size_t behind = text_.size() - text.size(), rows = rows_.size() / size;
  if (text.size() > text_.size() || behind >= rows) return std::nullopt;
  if (!std::ranges::equal(text, std::span(text_).first(text.size()))) return std::nullopt;
  return std::span(rows_).subspan((rows - 1 - behind) * size, size);
}

/// A text of which more is not known is a prompt: guesses would be checked in a step of their own.
std::vector<TokenId> SpeculativeModel::draft(std::span<const TokenId> text) {
  const int64_t room = model_->context() - std::ssize(text);
  if (room < 1 || model_->known_tokens(text) + 1 < std::ssize(text)) return {};
  return drafter_->draft(text, std::min({next_, most_drafts_, room}));
}

std::span<const float> SpeculativeModel::logits(std::span<const TokenId> text) {
  if (const auto known = checked(text)) {
    accepted_ += std::max<int64_t>(0, std::ssize(text) - reached_);
    reached_ = std::max(reached_, std::ssize(text));
    return *known;
  }
  if (!rows_.empty()) next_ = guesses_after(reached_ - begin_);
  rows_.clear();
  const std::vector<TokenId> drafts = draft(text);
  if (drafts.empty()) return model_->logits(text);
  text_.assign(text.begin(), text.end());
  text_.insert(text_.end(), drafts.begin(), drafts.end());
  const std::span<const float> rows = model_->last_logits(text_, std::ssize(drafts) + 1);
  rows_.assign(rows.begin(), rows.end());
  begin_ = reached_ = std::ssize(text);
  drafted_ += std::ssize(drafts);
  return *checked(text);
}

}  // namespace luminal::models
