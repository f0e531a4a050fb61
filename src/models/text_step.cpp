#include "models/text_step.h"

#include <algorithm>
#include <utility>

#include "base/fail.h"
#include "luminal/compile_report.h"

namespace luminal::models {
namespace {

/// As i32 [length], the last one repeated.
std::vector<int32_t> padded_tokens(std::span<const text::TokenId> tokens, int64_t length) {
  std::vector<int32_t> padded(tokens.begin(), tokens.end());
  padded.resize(static_cast<size_t>(length), tokens.back());
  return padded;
}

}  // namespace

TextStep::TextStep(Parts parts) : gives_(parts.gives), mode_(parts.mode), lengths_(std::move(parts.lengths)) {
  if (!parts.device.empty()) cx_.set_device(parts.device);
  const Decoder decoder(cx_, parts.sizes, parts.weights(cx_));
  sizes_ = decoder.options();
  cache_.emplace(cx_, "", sizes_.layers, cache_parts(sizes_, parts.cache, parts.capacity));
  build(decoder);
}

void TextStep::build(const Decoder& decoder) {
  tokens_ =
      cx_.named_tensor("tokens", {1, Expression::dim("new", {.min = 1, .max = most_tokens()})}, Dtype::I32);
  past_ = cx_.named_tensor("past", {}, Dtype::I32);
  if (gives_ == Gives::LastLogits) last_ = cx_.named_tensor("last", {}, Dtype::I32);
  if (gives_ == Gives::Losses) targets_ = cx_.named_tensor("targets", {1, tokens_.dim(1)}, Dtype::I32);
  const std::vector<Decoder::Rows> rows = cache_->rows();
  Decoder::Result next =
      decoder.forward({.tokens = tokens_, .past = past_, .last = last_, .cache = rows, .targets = targets_});
  result_ = (gives_ == Gives::Losses ? next.losses : next.logits).retrieve();
  fresh_ = retrieved_parts(next.rows);
}

void TextStep::run(std::span<const text::TokenId> next, TextCache& text,
                   std::span<const text::TokenId> targets) {
  const auto count = std::ssize(next), done = std::ssize(text.seen);
  LUMINAL_CHECK(count > 0 && count <= most_tokens(), "{} tokens of {}", count, most_tokens());
  if (!compiled_) compiled_.emplace(cx_.compile(mode_));
  const int64_t length = *std::ranges::lower_bound(lengths_, count);
  tokens_.set_dyn(padded_tokens(next, length), {1, length});
  if (targets_.valid()) targets_.set_dyn(padded_tokens(targets, length), {1, length});
  past_.set(std::vector{static_cast<int32_t>(done)});
  if (last_.valid()) last_.set(std::vector{static_cast<int32_t>(count - 1)});
  cache_->bind(text);
  cx_.set_dim("past_rows", cache_rows_for(done));
  const size_t plans = cx_.plans().size();
  (*compiled_)();
  if (cx_.plans().size() > plans) compile_s_ += compiled_->details().total_s;
  append_rows(fresh_, 0, count, text);
  text.seen.insert(text.seen.end(), next.begin(), next.end());
  computed_ = next.size();
}

std::vector<float> TextStep::result() const {
  std::vector<float> numbers = result_.data<float>();
  if (gives_ == Gives::LastLogits) return numbers;
  const size_t each = gives_ == Gives::Losses ? 1 : static_cast<size_t>(sizes_.vocabulary);
  numbers.resize(computed_ * each);  // the rest is of padding
  return numbers;
}

}  // namespace luminal::models
