#include "luminal/training/scheduler.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/fail.h"

namespace luminal::training {
namespace {

/// How far step is on its way to `steps`: 0 to 1.
double progress_of(int64_t step, int64_t steps) {
  return std::clamp(static_cast<double>(step) / static_cast<double>(std::max<int64_t>(1, steps)), 0.0, 1.0);
}

/// From a to b along half a cosine.
double along_cosine(double a, double b, double progress) {
  return b + (a - b) * (1 + std::cos(std::numbers::pi * progress)) / 2;
}

}  // namespace

double StepSchedule::operator()(int64_t step) const {
  return start * std::pow(gamma, static_cast<double>(step / std::max<int64_t>(1, every)));
}

double ExponentialSchedule::operator()(int64_t step) const {
  return start * std::pow(gamma, static_cast<double>(step));
}

double CosineSchedule::operator()(int64_t step) const {
  return along_cosine(start, floor, progress_of(step, steps));
}

double WarmupCosineSchedule::operator()(int64_t step) const {
  if (step < warmup) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup);
  return along_cosine(peak, floor, progress_of(step - warmup, steps - warmup));
}

double LinearSchedule::operator()(int64_t step) const {
  return start * (start_factor + (end_factor - start_factor) * progress_of(step, steps));
}

double OneCycleSchedule::operator()(int64_t step) const {
  const double first = max / div, last = first / final_div;
  const double peak_at = rise * static_cast<double>(steps) - 1, end_at = static_cast<double>(steps) - 1;
  const auto at = static_cast<double>(std::min(step, steps - 1));
  const bool rising = at <= peak_at;
  const double begin = rising ? 0 : peak_at, end = rising ? peak_at : end_at;
  const double progress = end > begin ? (at - begin) / (end - begin) : 1;
  const double from = rising ? first : max, to = rising ? max : last;
  return linear ? from + (to - from) * progress : along_cosine(from, to, progress);
}

double PolynomialSchedule::operator()(int64_t step) const {
  return start * std::pow(1 - progress_of(step, steps), power);
}

ReduceOnPlateau::ReduceOnPlateau(const Options& options)
    : options_(options),
      rate_(options.start),
      best_(options.lower_is_better ? std::numeric_limits<double>::infinity()
                                    : -std::numeric_limits<double>::infinity()) {
  if (!(options.factor < 1))
    fail("[ReduceOnPlateau] factor={} does not reduce anything; give one below 1", options.factor);
}

bool ReduceOnPlateau::better(double metric) const {
  if (std::isinf(best_)) return options_.lower_is_better ? metric < best_ : metric > best_;
  const double sign = options_.lower_is_better ? -1 : 1;
  const double wanted = options_.relative_threshold ? best_ * (1 + sign * options_.threshold)
                                                    : best_ + sign * options_.threshold;
  return options_.lower_is_better ? metric < wanted : metric > wanted;
}

double ReduceOnPlateau::update(double metric) {
  if (better(metric)) {
    best_ = metric;
    bad_ = 0;
  } else {
    ++bad_;
  }
  if (cooling_ > 0) {
    --cooling_;
    bad_ = 0;
  }
  if (bad_ > options_.patience) {
    const double next = std::max(rate_ * options_.factor, options_.floor);
    if (rate_ - next > options_.least_change) rate_ = next;
    cooling_ = options_.cooldown;
    bad_ = 0;
  }
  return rate_;
}

std::map<std::string, double> ReduceOnPlateau::state() const {
  return {{"rate", rate_},
          {"best", best_},
          {"bad", static_cast<double>(bad_)},
          {"cooling", static_cast<double>(cooling_)}};
}

void ReduceOnPlateau::load(const std::map<std::string, double>& state) {
  const auto get = [&](const char* name) {
    const auto found = state.find(name);
    if (found == state.end())
      fail("[ReduceOnPlateau] the state has no '{}'; give what state() returned", name);
    return found->second;
  };
  const double rate = get("rate"), best = get("best"), bad = get("bad"), cooling = get("cooling");
  rate_ = rate;
  best_ = best;
  bad_ = static_cast<int64_t>(bad);
  cooling_ = static_cast<int64_t>(cooling);
}

}  // namespace luminal::training
