#include "luminal/text/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/fail.h"
#include "base/philox.h"

namespace luminal::text {
namespace {

constexpr double kBanned = -std::numeric_limits<double>::infinity();

void check_option(bool good, const char* name, double value, const char* range) {
  if (!good) fail<Error>("[sampler] {} is {}; it must be {}", name, value, range);
}

void check_sampled_id(TokenId id) {
  if (id < 0) fail<Error>("[sampler] token id {} is negative", id);
}

bool more_probable(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}
/// For heaps, whose front is the greatest by this order: the most probable.
bool less_probable(const Candidate& a, const Candidate& b) { return more_probable(b, a); }

void normalize(std::vector<Candidate>& candidates) {
  double greatest = kBanned, sum = 0;
  for (const Candidate& candidate : candidates) greatest = std::max(greatest, candidate.logit);
  for (Candidate& candidate : candidates) sum += candidate.probability = std::exp(candidate.logit - greatest);
  for (Candidate& candidate : candidates) candidate.probability /= sum;
}

void keep_top_k(std::vector<Candidate>& candidates, int64_t k) {
  if (k == 0 || static_cast<uint64_t>(k) >= candidates.size()) return;
  std::ranges::nth_element(candidates, candidates.begin() + k, more_probable);
  candidates.resize(static_cast<size_t>(k));
}

/// A heap instead of a sort: few tokens are kept of many.
void keep_top_p(std::vector<Candidate>& candidates, double p) {
  if (p >= 1) return;
  normalize(candidates);
  std::ranges::make_heap(candidates, less_probable);
  auto rest = candidates.end();
  double mass = 0;
  do {
    std::ranges::pop_heap(candidates.begin(), rest, less_probable);
    mass += (--rest)->probability;
  } while (mass < p && rest != candidates.begin());
  candidates.erase(candidates.begin(), rest);
}

void keep_min_p(std::vector<Candidate>& candidates, double p) {
  if (p <= 0) return;
  normalize(candidates);
  double greatest = 0;
  for (const Candidate& candidate : candidates) greatest = std::max(greatest, candidate.probability);
  std::erase_if(candidates, [&](const Candidate& candidate) { return candidate.probability < p * greatest; });
}

/// The tokens whose information is nearest the entropy. What is as near as the last one is kept too.
void keep_typical(std::vector<Candidate>& candidates, double p) {
  if (p >= 1) return;
  normalize(candidates);
  double entropy = 0;
  for (const Candidate& candidate : candidates)
    if (candidate.probability > 0) entropy -= candidate.probability * std::log(candidate.probability);
  const auto distance = [entropy](double probability) { return std::abs(-std::log(probability) - entropy); };
  struct Distance {
    double value, probability;
  };
  std::vector<Distance> nearest;
  nearest.reserve(candidates.size());
  for (const Candidate& candidate : candidates)
    nearest.push_back({distance(candidate.probability), candidate.probability});
  const auto farther = [](const Distance& a, const Distance& b) { return a.value > b.value; };
  std::ranges::make_heap(nearest, farther);
  double mass = 0, last = 0;
  while (mass < p && !nearest.empty()) {
    std::ranges::pop_heap(nearest, farther);
    last = nearest.back().value;
    mass += nearest.back().probability;
    nearest.pop_back();
  }
  std::erase_if(candidates,
                [&](const Candidate& candidate) { return distance(candidate.probability) > last; });
}

}  // namespace

Sampler::Sampler(SamplerOptions options) : options_(std::move(options)) {
  const SamplerOptions& o = options_;
  check_option(o.temperature >= 0 && std::isfinite(o.temperature), "temperature", o.temperature,
               "0 or more, and finite");
  check_option(o.top_k >= 0, "top_k", static_cast<double>(o.top_k), "0 (all tokens) or more");
  check_option(o.top_p > 0 && o.top_p <= 1, "top_p", o.top_p, "above 0 and at most 1");
  check_option(o.min_p >= 0 && o.min_p <= 1, "min_p", o.min_p, "from 0 to 1");
  check_option(o.typical_p > 0 && o.typical_p <= 1, "typical_p", o.typical_p, "above 0 and at most 1");
  check_option(o.repetition_penalty > 0 && std::isfinite(o.repetition_penalty), "repetition_penalty",
               o.repetition_penalty, "above 0, and finite");
  check_option(std::isfinite(o.presence_penalty), "presence_penalty", o.presence_penalty, "finite");
  check_option(std::isfinite(o.frequency_penalty), "frequency_penalty", o.frequency_penalty, "finite");
  for (const auto& [id, bias] : o.logit_bias) {
    check_sampled_id(id);
    if (std::isnan(bias) || bias == -kBanned)
      fail<Error>("[sampler] the bias of token {} is {}; it must be finite, or minus infinity", id, bias);
  }
}

void Sampler::accept_prompt(std::span<const TokenId> ids) {
  for (const TokenId id : ids) {
    check_sampled_id(id);
    seen_.insert(id);
  }
}

void Sampler::accept(TokenId id) {
  check_sampled_id(id);
  seen_.insert(id);
  ++generated_[id];
}

/// Tokens beyond the logits have none: a tokenizer may know more of them than a model.
void Sampler::penalize(std::vector<double>& logits) const {
  const auto known = [&](TokenId id) { return static_cast<size_t>(id) < logits.size(); };
  if (options_.repetition_penalty != 1)
    for (const TokenId id : seen_)
      if (known(id)) {
        double& logit = logits[static_cast<size_t>(id)];
        logit = logit > 0 ? logit / options_.repetition_penalty : logit * options_.repetition_penalty;
      }
  for (const auto& [id, count] : generated_)
    if (known(id))
      logits[static_cast<size_t>(id)] -=
          options_.presence_penalty + options_.frequency_penalty * static_cast<double>(count);
  for (const auto& [id, bias] : options_.logit_bias) {
    if (!known(id))
      fail<Error>("[sampler] logit_bias names token {}, and there are {} logits", id, logits.size());
    logits[static_cast<size_t>(id)] += bias;
  }
}

std::vector<Candidate> Sampler::left_over(std::span<const float> logits,
                                          std::span<const uint64_t> allowed) const {
  if (logits.empty()) fail<Error>("[sampler] there are no logits");
  if (!allowed.empty() && allowed.size() != (logits.size() + 63) / 64)
    fail<Error>("[sampler] the mask has {} words; {} logits need {}", allowed.size(), logits.size(),
                (logits.size() + 63) / 64);
  std::vector<double> changed(logits.begin(), logits.end());
  penalize(changed);
  std::vector<Candidate> candidates;
  candidates.reserve(changed.size());
  for (size_t id = 0; id < changed.size(); ++id) {
    if (!allowed.empty() && (allowed[id / 64] >> (id % 64) & 1) == 0) continue;
    if (std::isnan(changed[id]) || changed[id] == -kBanned)
      fail<Error>(
          "[sampler] the logit of token {} is {}, {} after penalties and biases; the model's output is "
          "damaged",
          id, logits[id], changed[id]);
    if (changed[id] != kBanned) candidates.push_back({static_cast<TokenId>(id), changed[id], 0});
  }
  if (candidates.empty())
    fail<Error>("[sampler] no token is left: of {} each is outside the mask or has the logit minus infinity",
                logits.size());
  const Candidate best = *std::ranges::min_element(candidates, more_probable);
  if (options_.temperature == 0) {
    candidates = {{best.id, 0, 1}};
  } else {
    const double greatest = best.logit;
    for (Candidate& candidate : candidates)
      candidate.logit = (candidate.logit - greatest) / options_.temperature;
    keep_top_k(candidates, options_.top_k);
    keep_top_p(candidates, options_.top_p);
    keep_min_p(candidates, options_.min_p);
    keep_typical(candidates, options_.typical_p);
  }
  normalize(candidates);
  return candidates;
}

std::vector<Candidate> Sampler::candidates(std::span<const float> logits,
                                           std::span<const uint64_t> allowed) const {
  std::vector<Candidate> result = left_over(logits, allowed);
  std::ranges::sort(result, more_probable);
  return result;
}

TokenId Sampler::sample(std::span<const float> logits, std::span<const uint64_t> allowed) {
  std::vector<Candidate> left = left_over(logits, allowed);
  const auto words =
      philox4x32({static_cast<uint32_t>(draws_), static_cast<uint32_t>(draws_ >> 32), 0, 0},
                 {static_cast<uint32_t>(options_.seed), static_cast<uint32_t>(options_.seed >> 32)});
  ++draws_;
  const double number = std::ldexp(static_cast<double>((uint64_t{words[0]} << 32 | words[1]) >> 11), -53);
  // By id, so that equal numbers choose equal tokens whatever the filters did to the order.
  if (!std::ranges::is_sorted(left, {}, &Candidate::id)) std::ranges::sort(left, {}, &Candidate::id);
  TokenId chosen = left.front().id;
  double sum = 0;
  for (const Candidate& candidate : left) {
    if (candidate.probability == 0) continue;
    chosen = candidate.id;  // rounding may leave the sum below the number: then it is the last one
    if (number < (sum += candidate.probability)) break;
  }
  accept(chosen);
  return chosen;
}

}  // namespace luminal::text
