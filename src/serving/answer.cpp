#include "serving/answer.h"

#include <algorithm>
#include <cmath>

#include "base/fail.h"

namespace luminal::serving {

using text::TokenId;

Answer::Answer(const Vocabulary& vocabulary, AnswerOptions options, std::vector<TokenId> prompt,
               int64_t context)
    : vocabulary_(vocabulary),
      options_(std::move(options)),
      context_(context),
      tokens_(std::move(prompt)),
      prompt_size_(tokens_.size()),
      sampler_(options_.sampler),
      decoder_(vocabulary.tokenizer, !options_.show_control_tokens),
      filter_(options_.stops) {
  for (const auto& [id, bias] : options_.sampler.logit_bias)
    if (static_cast<size_t>(id) >= vocabulary_.size)
      fail("'logit_bias' names token {}, and there are {} tokens", id, vocabulary_.size);
  sampler_.accept_prompt(tokens_);
  if (options_.grammar) matcher_.emplace(*options_.grammar, vocabulary_.grammar_tokens);
}

std::optional<TokenId> Answer::choose(std::span<const float> logits) {
  std::span<const uint64_t> allowed;
  if (matcher_) {
    allowed = matcher_->allowed();
    if (std::ranges::all_of(allowed, [](uint64_t word) { return word == 0; })) {
      if (matcher_->complete()) return std::nullopt;
      fail("the vocabulary has no token with which the answer could follow its grammar");
    }
  }
  const TokenId id = sampler_.sample(logits, allowed);
  if (std::ranges::find(vocabulary_.ends, id) != vocabulary_.ends.end()) return std::nullopt;
  if (matcher_) matcher_->accept(id);
  return id;
}

TokenShare Answer::share_of(TokenId id, std::span<const float> logits) const {
  double greatest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (const float logit : logits) greatest = std::max(greatest, static_cast<double>(logit));
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - greatest);
  const double total = greatest + std::log(sum);
  constexpr double kLeast = -9999;  // what OpenAI's API says of shares that are too small
  const auto logprob = [&](TokenId of) {
    return std::max(kLeast, static_cast<double>(logits[static_cast<size_t>(of)]) - total);
  };
  TokenShare share{.id = id, .logprob = logprob(id), .begin = decoded_};
  std::vector<TokenId> order(logits.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<TokenId>(i);
  const auto count = std::min(static_cast<ptrdiff_t>(options_.top_logprobs), std::ssize(order));
  std::ranges::partial_sort(order, order.begin() + count, [&](TokenId a, TokenId b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  });
  for (const TokenId other : std::span(order).first(static_cast<size_t>(count)))
    share.top.emplace_back(other, logprob(other));
  return share;
}

std::vector<TokenShare> Answer::shares_before(size_t end) {
  const auto rest =
      std::ranges::find_if(pending_, [&](const TokenShare& share) { return share.begin >= end; });
  std::vector<TokenShare> shares(std::make_move_iterator(pending_.begin()), std::make_move_iterator(rest));
  pending_.erase(pending_.begin(), rest);
  return shares;
}

Piece Answer::finished(std::string text, Finish finish) {
  if (!filter_.stopped()) text += filter_.push(decoder_.finish());
  if (filter_.stopped()) return {std::move(text), shares_before(filter_.passed()), Finish::Stop};
  text += filter_.finish();
  return {std::move(text), std::exchange(pending_, {}), finish};
}

Piece Answer::next(std::span<const float> logits) {
  logits = logits.first(vocabulary_.size);
  const std::optional<TokenId> id = choose(logits);
  if (!id) return finished({}, Finish::Stop);
  if (options_.logprobs) pending_.push_back(share_of(*id, logits));
  tokens_.push_back(*id);
  const std::string decoded = decoder_.push(*id);
  decoded_ += decoded.size();
  std::string text = filter_.push(decoded);
  if (filter_.stopped()) return finished(std::move(text), Finish::Stop);
  if (written() == options_.most_tokens || std::ssize(tokens_) > context_)
    return finished(std::move(text), Finish::Length);
  return {std::move(text), shares_before(filter_.passed())};
}

}  // namespace luminal::serving
