#include "search/measured.h"

#include <algorithm>
#include <set>

#include "base/fail.h"
#include "base/log.h"
#include "base/stopwatch.h"
#include "search/kernel_cache.h"

namespace luminal::search {
namespace {

constexpr int kMostRounds = 8;

/// The values of the user's graph that a class is. Dims must be the same: an alias in other dims is the same
/// buffer.
std::vector<luminal::Value> values_of(const MeasureContext& context, int c) {
  std::vector<luminal::Value> values;
  for (const TensorId id : context.saturated.tensors_of[static_cast<size_t>(c)])
    if (const auto& value = context.program.tensors[static_cast<size_t>(id)].value) values.push_back(*value);
  return values;
}

/// One kernel of a cover between values of the user's graph; none if a tensor of it has no name there.
std::optional<Unit> unit_of(const MeasureContext& context, const CoverKernel& kernel) {
  Unit unit{.tensors = {}, .kernels = {{}}};
  const auto add = [&](int c, std::vector<int>& list) {
    const std::vector<luminal::Value> values = values_of(context, c);
    if (values.empty()) return false;
    list.push_back(static_cast<int>(unit.tensors.size()));
    unit.tensors.push_back({context.graph.type(values[0]), values[0], {values.begin() + 1, values.end()}});
    return true;
  };
  for (const int c : kernel.inputs)
    if (!add(c, unit.kernels[0].inputs)) return std::nullopt;
  for (const int c : kernel.outputs)
    if (!add(c, unit.kernels[0].outputs)) return std::nullopt;
  return unit;
}

/// What is known of times so far. Where nothing was measured the schedules' own prediction counts, scaled by
/// how far these were off elsewhere, so that a plan is not preferred for being unknown.
class Costs {
 public:
  explicit Costs(const MeasureContext& context) : context_(context), top_(context.bucket.top()) {}

  /// By the roofline alone: asked for every cone that is tried.
  double rough(const kernel::KernelSpec& spec) const {
    return kernel::predicted_us(spec, top_, context_.limits) * scale_;
  }
  double of(SpecId spec) {
    if (const auto known = measured_.find(spec); known != measured_.end()) return known->second;
    return predicted(spec) * scale_;
  }
  void set(SpecId spec, double us) { measured_[spec] = us; }
  void calibrate() {
    std::vector<double> ratios;
    for (const auto& [spec, us] : measured_) ratios.push_back(us / std::max(predicted(spec), 1e-3));
    if (ratios.empty()) return;
    scale_ = std::clamp(median(std::move(ratios)), 0.2, 5.0);
  }
  /// Sum over the kernels of a cover; nothing if one is not measured.
  [[nodiscard]] std::optional<double> sum(const Cover& cover) const {
    double total = 0;
    for (const CoverKernel& kernel : cover.kernels) {
      const auto known = measured_.find(kernel.spec);
      if (known == measured_.end()) return std::nullopt;
      total += known->second;
    }
    return total;
  }

 private:
  double predicted(SpecId spec) {
    const auto [at, fresh] = predicted_.try_emplace(spec);
    if (fresh) {
      const kernel::KernelSpec& content = context_.store.at(spec);
      at->second = choose_by_model(content, restricted(context_.bucket, content), context_.backend.target())
                       .predicted_us;
    }
    return at->second;
  }

  const MeasureContext& context_;
  DimMap top_;
  std::map<SpecId, double> measured_, predicted_;
  double scale_ = 1;
};

Cover next_cover(const MeasureContext& context, Costs& costs) {
  const CoverCosts both{
      .rough = [&](const kernel::KernelSpec& spec) { return costs.rough(spec); },
      .fine = [&](const kernel::KernelSpec& spec) { return costs.of(context.store.intern(spec)); }};
  return find_cover(context.saturated.cover, context.store, both, context.options);
}

/// The specs of a cover that nobody has timed, with their weight.
std::vector<std::pair<SpecId, TuneRequest>> open_requests(const MeasureContext& context, const Cover& cover,
                                                          const std::map<SpecId, Tuned>& kernels) {
  std::vector<std::pair<SpecId, TuneRequest>> open;
  for (const CoverKernel& kernel : cover.kernels) {
    if (kernels.contains(kernel.spec)) continue;
    const auto known = std::ranges::find(open, kernel.spec, [](const auto& entry) { return entry.first; });
    if (known == open.end()) {
      open.push_back(
          {kernel.spec, {.spec = context.store.at(kernel.spec), .unit = unit_of(context, kernel)}});
    } else {
      known->second.weight += 1;
      if (!known->second.unit) known->second.unit = unit_of(context, kernel);
    }
  }
  return open;
}

}  // namespace

Clock::time_point deadline_of(const CompilationMode& mode, Clock::time_point start) {
  if (const auto* budget = std::get_if<TimeBudget>(&mode)) return start + budget->duration;
  return Clock::time_point::max();
}

MeasuredCover find_measured_cover(const MeasureContext& context, TunerOptions tuning) {
  MeasuredCover result;
  Costs costs(context);
  Tuner tuner(context.backend, context.cache, context.graph, tuning);
  std::optional<double> best;
  for (int round = 0; round < kMostRounds; ++round) {
    const auto start = Clock::now();
    Cover cover = next_cover(context, costs);
    result.cover_s += seconds_since(start);
    const auto open = open_requests(context, cover, result.kernels);
    std::vector<TuneRequest> requests;
    for (const auto& [spec, request] : open) requests.push_back(request);
    std::vector<Tuned> tuned = tuner.tune(requests, context.bucket);
    for (size_t i = 0; i < open.size(); ++i) {
      // What time did not allow to measure costs what the model says.
      costs.set(open[i].first, tuned[i].measured_us > 0 ? tuned[i].measured_us : costs.of(open[i].first));
      result.kernels.emplace(open[i].first, std::move(tuned[i]));
    }
    costs.calibrate();
    ++result.rounds;
    const double total = *costs.sum(cover);
    debug(3, "search: round {}: {} kernels, {} new, {:.1f} us", round, cover.kernels.size(), open.size(),
          total);
    if (round == 0) result.fast_us = total;
    const bool settled = open.empty();
    if (!best || total < *best) {
      best = total;
      result.cover = std::move(cover);
    }
    result.out_of_time = Clock::now() >= tuning.deadline;
    if (settled || result.out_of_time) break;
  }
  std::vector<Tuned*> winners;
  for (const CoverKernel& kernel : result.cover.kernels) {
    Tuned* tuned = &result.kernels.at(kernel.spec);
    if (std::ranges::find(winners, tuned) == winners.end()) winners.push_back(tuned);
  }
  tuner.confirm(winners);
  result.best_us = *best;
  result.phases = tuner.phases();
  return result;
}

}  // namespace luminal::search
