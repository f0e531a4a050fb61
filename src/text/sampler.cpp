#include "luminal/text/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "base/fail.h"

namespace luminal::text {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

using Candidates = std::vector<std::pair<TokenId, double>>;

void check_option(const char* name, double value, double least, double most) {
  if (!(value >= least && value <= most))
    fail<Error>("[sampler] {} is {}; it goes from {} to {}", name, value, least, most);
}

/// SplitMix64 of (seed, draw): a number in [0, 1) that depends on nothing else (Steele et al. 2014).
double uniform(uint64_t seed, uint64_t draw) {
  uint64_t x = seed + (draw + 1) * 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  x ^= x >> 31;
  return static_cast<double>(x >> 11) * 0x1p-53;
}

void normalize(Candidates& candidates) {
  double sum = 0;
  for (const auto& [token, probability] : candidates) sum += probability;
  for (auto& [token, probability] : candidates) probability /= sum;
}

/// Keeps the first ones, at least one, up to the one with which their sum reaches `least`.
void keep_sum(Candidates& candidates, double least) {
  double sum = 0;
  size_t count = 0;
  while (count < candidates.size() && (count == 0 || sum < least)) sum += candidates[count++].second;
  candidates.resize(count);
  normalize(candidates);
}

bool likelier(const std::pair<TokenId, double>& a, const std::pair<TokenId, double>& b) {
  return a.second != b.second ? a.second > b.second : a.first < b.first;
}

/// Those whose surprise is closest to the expected one.
void keep_typical(Candidates& candidates, double least) {
  double entropy = 0;
  for (const auto& [token, p] : candidates)
    if (p > 0) entropy -= p * std::log(p);
  const auto distance = [&](double p) { return p > 0 ? std::abs(-std::log(p) - entropy) : HUGE_VAL; };
  std::ranges::stable_sort(candidates, {}, [&](const auto& candidate) { return distance(candidate.second); });
  keep_sum(candidates, least);
  std::ranges::sort(candidates, likelier);
}

}  // namespace

Sampler::Sampler(SamplerOptions options) : options_(std::move(options)) {
  constexpr double kMost = 1e30;
  check_option("temperature", options_.temperature, 0, kMost);
  check_option("top_k", static_cast<double>(options_.top_k), 0, kMost);
  check_option("top_p", options_.top_p, 0, 1);
  check_option("min_p", options_.min_p, 0, 1);
  check_option("typical_p", options_.typical_p, 0, 1);
  check_option("repetition_penalty", options_.repetition_penalty, 1e-30, kMost);
  check_option("presence_penalty", options_.presence_penalty, -kMost, kMost);
  check_option("frequency_penalty", options_.frequency_penalty, -kMost, kMost);
  for (const auto& [token, bias] : options_.bias)
    if (token < 0 || std::isnan(bias)) fail<Error>("[sampler] the bias of token {} is {}", token, bias);
}

void Sampler::accept(TokenId token) { seen_.push_back(token); }

std::vector<float> Sampler::adjusted(std::span<const float> logits, std::span<const bool> allowed) const {
  if (!allowed.empty() && allowed.size() != logits.size())
    fail<Error>("[sampler] {} logits, and a mask for {}", logits.size(), allowed.size());
  std::vector<float> result(logits.begin(), logits.end());
  for (size_t i = 0; i < result.size(); ++i) {
    if (std::isnan(result[i])) fail<Error>("[sampler] the logit of token {} is NaN", i);
    if (!allowed.empty() && !allowed[i]) result[i] = kNever;
  }
  const auto inside = [&](TokenId token) { return token >= 0 && static_cast<size_t>(token) < result.size(); };
  for (const auto& [token, bias] : options_.bias) {
    if (!inside(token))
      fail<Error>("[sampler] a bias is for token {}; there are {} logits", token, result.size());
    if (result[static_cast<size_t>(token)] > kNever) result[static_cast<size_t>(token)] += bias;
  }
  std::map<TokenId, int64_t> counts;
  const size_t window =
      options_.penalty_window == 0 ? seen_.size() : std::min(options_.penalty_window, seen_.size());
  for (const TokenId token : std::span(seen_).last(window))
    if (inside(token)) ++counts[token];
  for (const auto& [token, count] : counts) {
    float& logit = result[static_cast<size_t>(token)];
    if (logit == kNever) continue;
    logit = logit > 0 ? logit / options_.repetition_penalty : logit * options_.repetition_penalty;
    logit -= options_.presence_penalty + options_.frequency_penalty * static_cast<float>(count);
  }
  return result;
}

Candidates Sampler::distribution(std::span<const float> logits, std::span<const bool> allowed) const {
  const std::vector<float> values = adjusted(logits, allowed);
  Candidates candidates;
  float greatest = kNever;
  for (const float value : values) greatest = std::max(greatest, value);
  if (greatest == kNever) fail<Error>("[sampler] no token of {} may be drawn", values.size());
  // Infinite logits share the draw; a temperature of 0 leaves the greatest.
  const bool greedy = options_.temperature == 0;
  const double scale = greedy ? 1 : 1.0 / static_cast<double>(options_.temperature);
  for (size_t i = 0; i < values.size(); ++i) {
    const double below =
        values[i] == greatest ? 0 : static_cast<double>(values[i]) - static_cast<double>(greatest);
    if (values[i] == kNever || (greedy && below < 0)) continue;
    candidates.emplace_back(static_cast<TokenId>(i), std::exp(below * scale));
    if (greedy) break;
  }
  if (options_.top_k > 0 && static_cast<size_t>(options_.top_k) < candidates.size()) {
    std::ranges::nth_element(candidates, candidates.begin() + options_.top_k, likelier);
    candidates.resize(static_cast<size_t>(options_.top_k));
  }
  std::ranges::sort(candidates, likelier);
  normalize(candidates);
  if (options_.top_p < 1) keep_sum(candidates, static_cast<double>(options_.top_p));
  if (options_.min_p > 0) {
    const double least = static_cast<double>(options_.min_p) * candidates.front().second;
    std::erase_if(candidates, [&](const auto& candidate) { return candidate.second < least; });
    normalize(candidates);
  }
  if (options_.typical_p < 1) keep_typical(candidates, static_cast<double>(options_.typical_p));
  return candidates;
}

TokenId Sampler::sample(std::span<const float> logits, std::span<const bool> allowed) {
  const Candidates candidates = distribution(logits, allowed);
  double left = uniform(options_.seed, draws_++);
  TokenId drawn = candidates.back().first;
  for (const auto& [token, probability] : candidates) {
    left -= probability;
    if (left < 0) {
      drawn = token;
      break;
    }
  }
  accept(drawn);
  return drawn;
}

}  // namespace luminal::text
