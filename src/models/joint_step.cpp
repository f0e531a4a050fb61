#include "models/joint_step.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/fail.h"
#include "luminal/compile_report.h"

namespace luminal::models {

JointStep::JointStep(const Parts& parts)
    : texts_(parts.texts),
      vocabulary_(parts.sizes.vocabulary),
      mode_(parts.mode),
      bound_(static_cast<size_t>(parts.texts), nullptr) {
  if (!parts.device.empty()) cx_.set_device(parts.device);
  const Decoder decoder(
      cx_, parts.sizes,
      [&](const std::string& name, const std::vector<int64_t>& dims) -> std::optional<GraphTensor> {
        const auto known = parts.weights.find(name);
        if (known == parts.weights.end()) return std::nullopt;
        const GraphTensor& there = known->second;
        const GraphTensor weight = cx_.named_tensor(name, Shape(dims.begin(), dims.end()), there.dtype());
        cx_.store(weight.edge().source, there.graph().value(there.edge().source), true);
        return weight;
      });
  const int64_t capacity = parts.cache_dims.at(2);
  const Expression rows =
      Expression::dim("past_rows", {.min = kCacheRows, .max = capacity, .multiple_of = kCacheRows});
  const Shape dims(parts.cache_dims.begin(), parts.cache_dims.end());
  std::vector<std::vector<Decoder::Rows>> read;
  for (int64_t place = 0; place < texts_; ++place) {
    std::vector<Decoder::Rows>&whole = caches_.emplace_back(), &used = read.emplace_back();
    for (int64_t layer = 0; layer < parts.sizes.layers; ++layer) {
      const auto input = [&](const char* what) {
        return cx_.named_tensor(fmt::format("text {} blk.{}.{}", place, layer, what), dims, parts.cache);
      };
      const Decoder::Rows& each = whole.emplace_back(Decoder::Rows{input("keys"), input("values")});
      used.push_back({each.keys.slice_along(2, 0, rows), each.values.slice_along(2, 0, rows)});
    }
  }
  tokens_ = cx_.named_tensor("tokens", {1, texts_}, Dtype::I32);
  past_ = cx_.named_tensor("past", {texts_}, Dtype::I32);
  Decoder::Result next = decoder.forward({.tokens = tokens_, .past = past_, .caches = read});
  logits_ = next.logits.retrieve();
  for (Decoder::Rows& each : next.rows)
    fresh_.push_back({each.keys.contiguous().retrieve(), each.values.contiguous().retrieve()});
}

void JointStep::bind(size_t place, const TextCache& text) {
  if (bound_[place] == &text) return;
  bound_[place] = &text;
  for (size_t layer = 0; layer < text.layers.size(); ++layer) {
    const Decoder::Rows& inputs = caches_[place][layer];
    cx_.store(inputs.keys.edge().source, text.layers[layer].keys, true);
    cx_.store(inputs.values.edge().source, text.layers[layer].values, true);
  }
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
    bind(place, *texts[text]);
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
  for (size_t layer = 0; layer < fresh_.size(); ++layer) {
    const auto keys = cx_.value(fresh_[layer].keys.edge().source),
               values = cx_.value(fresh_[layer].values.edge().source);
    for (size_t text = 0; text < texts.size(); ++text) {
      const auto from = static_cast<int64_t>(text);
      copy_rows(*keys, from, *texts[text]->layers[layer].keys, past[text], 1);
      copy_rows(*values, from, *texts[text]->layers[layer].values, past[text], 1);
    }
  }
  for (size_t text = 0; text < texts.size(); ++text) texts[text]->seen.push_back(tokens[text]);
  numbers_ = logits_.data<float>();
  return std::span<const float>(numbers_).first(texts.size() * static_cast<size_t>(vocabulary_));
}

}  // namespace luminal::models
