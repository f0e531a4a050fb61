#include "models/joint_step.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/fail.h"
#include "luminal/compile_report.h"

namespace luminal::models {

JointStep::JointStep(const Parts& parts)
    : texts_(parts.texts), vocabulary_(parts.sizes.vocabulary), mode_(parts.mode) {
  if (!parts.device.empty()) cx_.set_device(parts.device);
  const Decoder decoder(cx_, parts.sizes, shared_weights(cx_, parts.weights));
  std::vector<std::vector<Decoder::Rows>> read;
  for (int64_t place = 0; place < texts_; ++place) {
    caches_.emplace_back(cx_, fmt::format("text {} ", place), parts.sizes.layers,
                         cache_parts(parts.sizes, parts.cache, parts.capacity));
    read.push_back(caches_.back().rows());
  }
  tokens_ = cx_.named_tensor("tokens", {1, texts_}, Dtype::I32);
  past_ = cx_.named_tensor("past", {texts_}, Dtype::I32);
  Decoder::Result next = decoder.forward({.tokens = tokens_, .past = past_, .caches = read});
  logits_ = next.logits.retrieve();
  fresh_ = retrieved_parts(next.rows);
}

std::span<const float> JointStep::run(std::span<const text::TokenId> tokens,
                                      std::span<TextCache* const> texts) {
  LUMINAL_CHECK(!texts.empty() && texts.size() == tokens.size() && std::ssize(texts) <= texts_,
                "{} tokens of {} texts", tokens.size(), texts.size());
  std::vector<int32_t> next(static_cast<size_t>(texts_)), past(next.size());
  int64_t most = 0;
  for (size_t place = 0; place < next.size(); ++place) {
    const size_t text =
        place < texts.size() ? place : 0;  // places that are left over do what the first one does
    caches_[place].bind(*texts[text]);
    next[place] = tokens[text];
    past[place] = static_cast<int32_t>(texts[text]->seen.size());
    most = std::max<int64_t>(most, past[place]);
  }
  tokens_.set(next);
  past_.set(past);
  cx_.set_dim("past_rows", cache_rows_for(most));
  if (!compiled_) compiled_.emplace(cx_.compile(mode_));
  const size_t plans = cx_.plans().size();
  (*compiled_)();
  if (cx_.plans().size() > plans) compile_s_ += compiled_->details().total_s;
  for (size_t text = 0; text < texts.size(); ++text) {
    append_rows(fresh_, static_cast<int64_t>(text), 1, *texts[text]);
    texts[text]->seen.push_back(tokens[text]);
  }
  numbers_ = logits_.data<float>();
  return std::span<const float>(numbers_).first(texts.size() * static_cast<size_t>(vocabulary_));
}

}  // namespace luminal::models
