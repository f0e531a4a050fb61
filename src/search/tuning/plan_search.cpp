#include "search/tuning/plan_search.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/cancel.h"
#include "base/fail.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/reason.h"
#include "base/stopwatch.h"
#include "search/cache/kernel_cache.h"
#include "search/cover/freeze.h"
#include "search/cover/known_covers.h"
#include "search/plan_builder.h"
#include "search/tuning/costs.h"
#include "search/tuning/example_inputs.h"
#include "search/tuning/user_kernels.h"
#include "search/verification/contain.h"
#include "search/verification/plan_check.h"
#include "search/watch.h"

namespace luminal::search {
namespace {

constexpr int kMostCoverRounds = 8;

/// The values of the user's graph that a class is. Dims must be the same: an alias in other dims is the same
/// buffer.
std::vector<luminal::Value> values_of(const PlanSearchContext& context, int c) {
  std::vector<luminal::Value> values;
  for (const TensorId id : context.saturated.tensors_of[static_cast<size_t>(c)])
    if (const auto& value = context.kernel_graph.tensors[static_cast<size_t>(id)].value)
      values.push_back(*value);
  return values;
}

/// One kernel of a cover between values of the user's graph; none if a tensor of it has no name there.
std::optional<Unit> unit_of(const PlanSearchContext& context, const CoverKernel& kernel) {
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

Cover next_cover(const PlanSearchContext& context, Costs& costs) {
  const CoverCosts both{
      .rough = [&](const kernel::KernelSpec& spec) { return costs.rough(spec); },
      .fine = [&](const kernel::KernelSpec& spec) { return costs.of(context.store.intern(spec)); },
      .sizes = context.bucket.top(),
      .large_bytes = static_cast<double>(context.options.large_bytes)};
  return find_cover(context.saturated.cover, context.store, both, context.options);
}

/// The kernels that are tuned and run.
void freeze(const PlanSearchContext& context, Cover& cover) {
  freeze_weights(context.graph, context.kernel_graph, context.saturated, context.options, context.store,
                 cover);
}

/// The specs of a cover that nobody has timed, with their weight and their share of its time.
std::vector<std::pair<SpecId, TuneRequest>> open_requests(const PlanSearchContext& context,
                                                          const Cover& cover,
                                                          const std::map<SpecId, Tuned>& kernels) {
  std::vector<std::pair<SpecId, TuneRequest>> open;
  for (const CoverKernel& kernel : cover.kernels) {
    if (kernels.contains(kernel.spec)) continue;
    const double share = cover.cost_us > 0 ? kernel.cost_us / cover.cost_us : 1;
    const auto known = std::ranges::find(open, kernel.spec, [](const auto& entry) { return entry.first; });
    if (known == open.end()) {
      open.push_back(
          {kernel.spec,
           {.spec = context.store.at(kernel.spec), .unit = unit_of(context, kernel), .share = share}});
    } else {
      known->second.weight += 1;
      known->second.share += share;
      if (!known->second.unit) known->second.unit = unit_of(context, kernel);
    }
  }
  return open;
}

/// A cover that was looked at, with the sum of its kernels' times.
struct ExploredCover {
  Cover cover;
  Cache::Costs costs;  ///< by which it was found
  double sum_us = 0;
};

/// Of the cover that is found by these costs; what they lack costs what the model says.
CacheKey cover_key_of(const PlanSearchContext& context, const Cache::Costs& costs) {
  std::vector<std::string> prices = prices_of_model(context.backend.target(), context.bucket);
  uint64_t table = 0;
  for (const auto& [name, us] : costs)
    table = combine(combine(table, hash_bytes(name)), std::bit_cast<uint64_t>(us));
  prices.push_back(fmt::format("measured {:016x} {:x}", table, user_kernels_hash()));
  return cover_key(context.saturated.cover, context.store, context.options, prices);
}

std::vector<SpecId> specs_of(const Cover& cover) {
  std::vector<SpecId> specs;
  for (const CoverKernel& kernel : cover.kernels) specs.push_back(kernel.spec);
  return specs;
}

class PlanSearch {
 public:
  PlanSearch(const PlanSearchContext& context, const CacheKey& key, const Deadlines& deadlines)
      : context_(context),
        deadlines_(deadlines),
        key_(key),
        costs_(context),
        tuner_(context.backend, context.cache, context.graph, tuner_options()) {}

  PlanSearchResult run() {
    try {
      return searched();
    } catch (const NoKernelPasses& none) {
      LawFault fault(std::string(reason_of(none)));
      for (const Cover* cover : {&cover_, &result_.cover})
        for (const CoverKernel& kernel : cover->kernels)
          if (context_.store.at(kernel.spec) == none.spec)
            for (const auto* list : {&kernel.inputs, &kernel.interior, &kernel.outputs})
              fault.classes.insert(fault.classes.end(), list->begin(), list->end());
      if (fault.classes.empty()) throw;
      throw fault;
    }
  }

 private:
  PlanSearchResult searched() {
    ExploredCover found;
    if (!recall(found)) {
      if (!tune_in_rounds())
        return models_plan("no time was left to measure kernels: this is the plan of Fast mode");
      found = explored_[choose_plan()];  // a copy: the first one may still be needed
    }
    result_.cover = std::move(found.cover);
    result_.best_us = found.sum_us;
    std::vector<Tuned*> winners;
    for (const CoverKernel& kernel : result_.cover.kernels) {
      Tuned* tuned = &result_.kernels.at(kernel.spec);
      if (std::ranges::find(winners, tuned) == winners.end()) winners.push_back(tuned);
    }
    // Should time run out, what takes longest has been verified.
    std::ranges::stable_sort(winners, std::greater<>(), &Tuned::measured_us);
    tuner_.confirm(winners);
    drop_unverified_own();
    const Watch* watch = Watch::current();
    const auto is_verified = [](const Tuned* winner) { return winner->verified; };
    if (watch == nullptr || !watch->is_ended() || std::ranges::all_of(winners, is_verified))
      return finished();
    constexpr std::string_view kEnded = "the search was ended before its kernels were verified: ";
    if (std::ranges::none_of(winners, is_verified) || !keep_verified(winners))
      return models_plan(fmt::format("{}this is the plan of Fast mode", kEnded));
    result_.note = fmt::format("{}those that were not are the ones of Fast mode", kEnded);
    return finished();
  }

  /// User kernels that were not verified, for there was no time, become the model's choice.
  void drop_unverified_own() {
    const auto is_own = [](const Tuned& tuned) { return codegen::find_schedule(tuned.schedule).foreign; };
    std::vector<std::string> dropped;
    for (const CoverKernel& kernel : result_.cover.kernels) {
      Tuned& tuned = result_.kernels.at(kernel.spec);
      if (tuned.verified || !is_own(tuned)) continue;
      dropped.push_back(tuned.schedule);
      tuned = tuner_.models_choice(tuned);
      if (!is_own(tuned)) continue;
      const kernel::KernelSpec& spec = context_.store.at(kernel.spec);
      const Implementation choice =
          best_by_model(spec, restricted(context_.bucket, spec), context_.backend.target());
      tuned = {.schedule = std::string(choice.schedule->name),
               .parameters = choice.parameters,
               .predicted_us = choice.predicted_us,
               .job = tuned.job};
    }
    if (!dropped.empty())
      result_.note = fmt::format("no time was left to verify {}, which {} not used", fmt::join(dropped, ", "),
                                 dropped.size() == 1 ? "is" : "are");
  }

  /// What is not verified becomes the model's choice. False if the plan would then be slower than the model's,
  /// as far as their kernels' times tell.
  bool keep_verified(std::span<Tuned* const> winners) {
    if (explored_.empty()) return false;
    for (Tuned* winner : winners)
      if (!winner->verified) *winner = tuner_.models_choice(*winner);
    const auto time_of = [this](SpecId spec, const Tuned& tuned) {
      return tuned.measured_us > 0 ? tuned.measured_us : costs_.of(spec);
    };
    double with_verified_us = 0, models_us = 0;
    for (const CoverKernel& kernel : result_.cover.kernels)
      with_verified_us += time_of(kernel.spec, result_.kernels.at(kernel.spec));
    for (const CoverKernel& kernel : explored_[0].cover.kernels)
      models_us += time_of(kernel.spec, tuner_.models_choice(result_.kernels.at(kernel.spec)));
    result_.best_us = with_verified_us;
    result_.plan_us = result_.models_plan_us = 0;
    return with_verified_us <= models_us;
  }

  PlanSearchResult finished() {
    result_.phases = tuner_.phases();
    result_.phases.measure_s += plans_s_;
    return std::move(result_);
  }

  PlanSearchResult models_plan(std::string_view why) {
    if (explored_.empty()) {
      Costs costs(context_);
      result_.cover = next_cover(context_, costs);
      freeze(context_, result_.cover);
    } else {
      result_.cover = std::move(explored_[0].cover);
    }
    result_.kernels.clear();
    result_.best_us = result_.cover.cost_us;
    result_.plan_us = result_.models_plan_us = 0;
    result_.note = why;
    return finished();
  }

  /// The plan that an earlier search of this program came to, if all its kernels are remembered too.
  bool recall(ExploredCover& found) {
    const auto known = context_.cache.find(key_);
    Costs costs(context_);
    if (!known || known->schedule != "plan" || !costs.recall(known->costs)) return false;
    const auto start = Clock::now();
    const auto find = [&] { return next_cover(context_, costs); };
    found.cover = codegen::has_added_families()
                      ? find()
                      : known_cover(context_.cache, cover_key_of(context_, known->costs),
                                    context_.saturated.cover, context_.store, find);
    freeze(context_, found.cover);
    result_.cover_s += seconds_since(start);
    const auto open = open_requests(context_, found.cover, {});
    std::vector<TuneRequest> requests;
    for (const auto& [spec, request] : open) requests.push_back(request);
    // Each was found with what effort its share was worth then.
    for (TuneRequest& request : requests) request.share = 0;
    if (!tuner_.remembers(requests, context_.bucket)) return false;
    std::vector<Tuned> tuned = tuner_.tune(requests, context_.bucket);
    for (size_t i = 0; i < open.size(); ++i) {
      set_cost(costs, open[i].first, tuned[i].measured_us);
      result_.kernels.emplace(open[i].first, std::move(tuned[i]));
    }
    found.sum_us = *costs.sum(found.cover);
    return true;
  }

  /// Covers are chosen by the cost of the kernel that knows of no weights.
  void set_cost(Costs& costs, SpecId spec, double us) {
    costs.set(spec, us);
    costs.set(context_.store.intern(kernel::without_frozen(context_.store.at(spec))), us);
  }

  [[nodiscard]] TunerOptions tuner_options() {
    TunerOptions options;
    options.deadline = deadlines_.kernels;
    options.verify_by = deadlines_.verify;
    options.strict = context_.options.math == MathMode::Strict;
    options.seed = context_.options.seed;
    options.sizes = context_.sizes;
    options.key = key_text_of_examples(context_.options);
    options.ready = [this] { record(); };
    options.passed_forms = context_.passed_forms;
    return options;
  }

  /// Runs the model's plan once, to see what its kernels read. Where nobody gave examples that is left out if it
  /// takes long: few kernels are faster or slower for the numbers they read.
  void record() {
    constexpr double kLongS = 1, kShare = 0.1;
    if (cover_.kernels.empty()) return;
    const auto start = Clock::now();
    RunValues values;
    try {
      const runtime::Plan plan = plan_of(cover_, true);
      const DimMap top = context_.bucket.top();
      const int64_t bytes = separate_bytes(plan, top);
      const double takes_s = 2e-6 * cover_.cost_us + static_cast<double>(bytes) / kFreshBytesPerS;
      const bool is_short = takes_s < kLongS || !context_.options.examples.empty();
      if (is_short && bytes < this_machine().available_bytes / 4 &&
          fits(takes_s / kShare, deadlines_.kernels))
        values =
            record_values(context_.backend, context_.graph, plan, top,
                          timing_inputs(context_.graph, plan, top, context_.options), deadlines_.kernels);
    } catch (
        const InternalError& error) {  // a kernel of the model's choice cannot be made: others will be tried
      debug(1, "search: the model's plan does not run: {}", reason_of(error));
    }
    result_.values = values.leaves;
    tuner_.set_values(std::move(values.leaves),
                      std::make_shared<const ValueRanges>(std::move(values.ranges)));
    plans_s_ += seconds_since(start);
  }

  /// False if there was no time for anything but the first cover, the model's.
  bool tune_in_rounds() {
    for (int round = 0; round < kMostCoverRounds; ++round) {
      throw_if_cancelled();
      if (round > 0 && !fits(result_.cover_s / round, deadlines_.kernels)) {
        result_.out_of_time = true;
        break;
      }
      if (Watch* watch = Watch::current()) watch->step("choosing kernels", 0, 0);
      const auto start = Clock::now();
      Cache::Costs table = costs_.to_table();
      Cover cover = next_cover(context_, costs_);
      freeze(context_, cover);
      result_.cover_s += seconds_since(start);
      const auto open = open_requests(context_, cover, result_.kernels);
      if (round > 0 && !open.empty() && !is_worth_timing(cover, open)) break;
      if (!fits(round == 0 ? 0 : compile_s(open.size()), deadlines_.kernels)) {
        result_.out_of_time = true;
        const double predicted_us = cover.cost_us;
        if (round == 0) explored_.push_back({std::move(cover), std::move(table), predicted_us});
        return round > 0;
      }
      cover_ = cover;
      std::vector<TuneRequest> requests;
      for (const auto& [spec, request] : open) requests.push_back(request);
      std::vector<Tuned> tuned = tuner_.tune(requests, context_.bucket);
      for (size_t i = 0; i < open.size(); ++i) {
        // What time did not allow to measure costs what the model says.
        set_cost(costs_, open[i].first,
                 tuned[i].measured_us > 0 ? tuned[i].measured_us : costs_.of(open[i].first));
        result_.kernels.emplace(open[i].first, std::move(tuned[i]));
      }
      costs_.calibrate();
      costs_.explore_user_kernels();  // the first cover is the model's
      const double sum = *costs_.sum(cover);
      result_.rounds.push_back({static_cast<int>(cover.kernels.size()), static_cast<int>(open.size()), sum});
      debug(3, "search: round {}: {} kernels, {} new, {:.1f} us", round, cover.kernels.size(), open.size(),
            sum);
      const auto is_same = [&](const ExploredCover& other) {
        return specs_of(other.cover) == specs_of(cover);
      };
      if (std::ranges::none_of(explored_, is_same))
        explored_.push_back({std::move(cover), std::move(table), sum});
      if (Watch* watch = Watch::current())
        watch->best(std::ranges::min(explored_, {}, &ExploredCover::sum_us).sum_us);
      result_.out_of_time = is_over(deadlines_.kernels);
      if (open.empty() || result_.out_of_time) break;
    }
    return true;
  }

  /// Whether a cover with specs that nobody has timed promises to be clearly faster than the best so far, or has a
  /// place for a user kernel, whose time nobody can predict.
  [[nodiscard]] bool is_worth_timing(const Cover& cover,
                                     const std::vector<std::pair<SpecId, TuneRequest>>& open) const {
    constexpr double kGain = 0.99;
    if (cover.cost_us < kGain * std::ranges::min(explored_, {}, &ExploredCover::sum_us).sum_us) return true;
    return std::ranges::any_of(open, [&](const auto& entry) {
      return !user_kernels_for(entry.second.spec, context_.backend.target()).empty();
    });
  }

  /// What compiling one kernel for each of so many specs takes, as it went so far.
  [[nodiscard]] double compile_s(size_t specs) const {
    const TuningPhases& phases = tuner_.phases();
    return phases.compiled == 0 ? 0 : phases.compile_s / phases.compiled * static_cast<double>(specs);
  }

  /// What runs: a cover with its tuned kernels, or with those that the model takes.
  struct Entry {
    size_t cover = 0;
    bool by_model = false;
    runtime::Plan plan;
  };

  runtime::Plan plan_of(const Cover& cover, bool by_model) {
    const ImplementationFor choose = [&](const kernel::KernelSpec& spec,
                                         const codegen::Bucket& own) -> Implementation {
      const auto tuned = result_.kernels.find(context_.store.intern(spec));
      if (by_model || tuned == result_.kernels.end())
        return best_by_model(spec, own, context_.backend.target());
      const Tuned& t = tuned->second;
      return {&codegen::find_schedule(t.schedule), t.parameters, t.predicted_us, t.measured_us};
    };
    return build_plan(context_.graph, context_.kernel_graph, context_.saturated, cover, context_.store,
                      context_.loops, choose, context_.backend, context_.bucket);
  }

  /// The least sums first, then the model's plan (the first cover that was looked at).
  std::vector<Entry> field(const std::vector<size_t>& by_sum) {
    constexpr size_t kMostPlans = 3;
    std::vector<Entry> entries;
    for (const size_t cover : std::span(by_sum).first(std::min(by_sum.size(), kMostPlans)))
      entries.push_back({cover, false, plan_of(explored_[cover].cover, false)});
    entries.push_back({0, true, plan_of(explored_[0].cover, true)});
    const auto is_same = [&](const Entry& other) { return other.plan.key == entries.back().plan.key; };
    if (std::ranges::count_if(entries, is_same) > 1) entries.pop_back();
    return entries;
  }

  /// The index of the cover to take.
  size_t choose_plan() {
    std::vector<size_t> by_sum(explored_.size());
    std::iota(by_sum.begin(), by_sum.end(), size_t{0});
    std::ranges::stable_sort(by_sum, {}, [&](size_t i) { return explored_[i].sum_us; });
    size_t best = by_sum[0];
    if (!explored_[0].cover.kernels.empty() && !is_over(deadlines_.plans)) {
      const auto start = Clock::now();
      if (Watch* watch = Watch::current()) watch->step("timing plans", 0, 0);
      const std::vector<Entry> entries = field(by_sum);
      const Entry& winner = entries[entries.size() > 1 && !are_kernels(entries) ? fastest(entries) : 0];
      best = winner.cover;
      if (winner.by_model) {
        result_.note =
            "the plan with the fastest kernels is not faster as a whole than that of Fast mode: the plan of "
            "Fast "
            "mode is kept";
        for (const CoverKernel& kernel : explored_[0].cover.kernels)
          tuner_.take_models_choice(result_.kernels.at(kernel.spec));
      }
      plans_s_ += seconds_since(start);
    }
    remember(explored_[best]);
    return best;
  }

  /// So that `recall` finds it.
  void remember(const ExploredCover& found) {
    context_.cache.forget(key_);
    if (result_.out_of_time) return;
    context_.cache.store(key_, {.schedule = "plan",
                                .parameters = {},
                                .costs = found.costs,
                                .measured_us = std::max(found.sum_us, 1e-3),
                                .verified_here = true});
    if (!codegen::has_added_families())
      store_cover(context_.cache, cover_key_of(context_, found.costs), found.cover, context_.store);
  }

  /// Whether the plans are single kernels, which have run against each other: the first entry is the fastest.
  bool are_kernels(const std::vector<Entry>& entries) {
    const auto is_kernel = [](const Entry& entry) {
      return entry.plan.launches.size() == 1 && entry.plan.launches[0].kernel;
    };
    if (!std::ranges::all_of(entries, is_kernel)) return false;
    const SpecId models = explored_[0].cover.kernels[0].spec;
    const double models_us = tuner_.models_choice(result_.kernels.at(models)).measured_us;
    if (models_us <= 0 || result_.kernels.at(models).measured_us <= 0) return false;
    result_.plan_us = explored_[entries[0].cover].sum_us;
    if (entries.back().by_model) result_.models_plan_us = models_us;
    return true;
  }

  /// Whole plans in turn, at each of the sizes. The first entry, best by its kernels, has to be beaten clearly.
  size_t fastest(const std::vector<Entry>& entries) {
    const DimMap top = context_.bucket.top();
    int64_t bytes = 0;
    for (const Entry& entry : entries) bytes += separate_bytes(entry.plan, top);
    if (bytes > this_machine().available_bytes / 2) {
      debug(1,
            "search: plans are not timed as a whole: that takes {:.0f} MB, more than half of the free memory",
            static_cast<double>(bytes) / 1e6);
      return 0;
    }
    std::vector<double> times(entries.size(), 0.0);
    size_t timed = 0;
    for (const DimMap& sizes : context_.sizes.empty() ? std::vector{top} : context_.sizes) {
      const std::vector<double> there = times_of(entries, sizes, bytes);
      if (there.empty()) break;
      ++timed;
      for (size_t i = 0; i < times.size(); ++i) times[i] += there[i];
    }
    if (timed == 0) return 0;
    std::optional<size_t> by_model;
    for (size_t i = 0; i < entries.size(); ++i) {
      times[i] /= static_cast<double>(timed);
      debug(3, "search: plan of cover {}{}: {:.1f} us, its kernels {:.1f} us", entries[i].cover,
            entries[i].by_model ? ", kernels chosen by the model" : "", times[i],
            explored_[entries[i].cover].sum_us);
      if (!entries[i].by_model) continue;
      by_model = i;
      result_.models_plan_us = times[i];
    }
    const size_t best = plan_to_take(times, by_model);
    result_.plan_us = times[best];
    return best;
  }

  /// Memory in which each of the plans can run. Its pages are there before any is timed: fresh ones would take longer
  /// than the first plan, and count against it alone.
  std::shared_ptr<backends::Buffer> arena_for(const std::vector<Entry>& entries, const DimMap& sizes) {
    int64_t bytes = 1;
    for (const Entry& entry : entries)
      bytes = std::max(bytes, runtime::PlanRunner::arena_bytes(context_.backend, entry.plan, sizes));
    auto arena = std::make_shared<backends::Buffer>(context_.backend, bytes);
    const auto stream = context_.backend.make_stream();
    stream->fill(arena->address(), std::byte{0}, bytes);
    stream->synchronise();
    return arena;
  }

  /// PlanRunner::digest on its way out of a contained process.
  struct Digest {
    bool is_there;
    uint64_t value;
  };

  /// The median of each plan's runs at these sizes; empty if there is no time for them, or a plan fails. `bytes`: of
  /// all plans together, at most.
  std::vector<double> times_of(const std::vector<Entry>& entries, const DimMap& sizes, int64_t bytes) {
    constexpr size_t kRounds = 9, kLongRounds = 3;
    constexpr double kSampleUs = 2000, kLongUs = 20e3, kBehind = 1.1;
    double shortest_us = 1e6 * static_cast<double>(bytes) / kFreshBytesPerS;
    for (const Entry& entry : entries) shortest_us += 3 * std::max(explored_[entry.cover].sum_us, kSampleUs);
    if (!fits(shortest_us * 1e-6, deadlines_.plans)) return {};
    for (const Entry& entry : entries) draw_own_inputs(context_.graph, entry.plan);
    // Not all kernels of these plans have been verified in full.
    const SharedBytes shared_times(static_cast<int64_t>(entries.size() * kRounds * sizeof(double)));
    const std::span<double> times = shared_times.as<double>();
    const bool are_checked_there = sizes == context_.bucket.top();  // plans, as a whole
    const SharedBytes shared_digests(static_cast<int64_t>(entries.size() * sizeof(Digest)));
    const std::span<Digest> digests = shared_digests.as<Digest>();
    const std::string trouble = run_contained(
        [&](Progress& progress) {
          std::vector<std::unique_ptr<runtime::PlanRunner>> runs;
          Leaves known = result_.values;  // plans that read one value have one copy of it
          const std::shared_ptr<backends::Buffer> arena = arena_for(entries, sizes);
          for (const Entry& entry : entries) {
            const runtime::Given given =
                timing_inputs(context_.graph, entry.plan, sizes, context_.options, known);
            for (const auto& [tensor, data] : given)
              if (const auto& value = entry.plan.tensors[static_cast<size_t>(tensor)].value)
                known.insert_or_assign(*value, data);
            runs.push_back(std::make_unique<runtime::PlanRunner>(
                context_.backend, entry.plan, sizes, given, runtime::PlanRunner::Memory::AsPlanned, arena));
          }
          // One run of a long plan is an average in itself; what is far behind after one need not run again.
          const auto first_of = [&](size_t plan) -> double& { return times[plan * kRounds]; };
          double best_us = std::numeric_limits<double>::infinity();
          for (size_t i = 0; i < entries.size(); ++i, ++progress) {
            best_us = std::min(best_us, first_of(i) = runs[i]->sample_us(kSampleUs));
            if (!are_checked_there) continue;
            if (const auto digest = runs[i]->digest()) digests[i] = {true, *digest};
          }
          const bool are_long = best_us > kLongUs;
          for (size_t round = 1; round < (are_long ? kLongRounds : kRounds); ++round)
            for (size_t i = 0; i < entries.size(); ++i, ++progress)
              if (!are_long || first_of(i) < kBehind * best_us)
                times[i * kRounds + round] = runs[i]->sample_us(kSampleUs);
        },
        std::chrono::seconds(60), containment_of(context_.backend), deadlines_.plans);
    if (!trouble.empty() && trouble != kNoTimeLeft) {
      debug(1, "search: a plan {} while plans were timed; taking the one with the fastest kernels", trouble);
      return {};
    }
    for (size_t i = 0; i < entries.size(); ++i)
      if (digests[i].is_there) result_.digests[entries[i].plan.key] = digests[i].value;
    std::vector<double> medians;
    for (size_t i = 0; i < entries.size(); ++i) {
      std::vector<double> samples;
      for (size_t round = 0; round < kRounds && times[i * kRounds + round] > 0; ++round)
        samples.push_back(times[i * kRounds + round]);
      if (samples.empty()) return {};
      medians.push_back(median(samples));
    }
    return medians;
  }

  const PlanSearchContext& context_;
  const Deadlines deadlines_;
  const CacheKey key_;
  Cover cover_;  ///< whose kernels are being timed
  Costs costs_;
  Tuner tuner_;
  PlanSearchResult result_;
  std::vector<ExploredCover> explored_;
  double plans_s_ = 0;
};

}  // namespace

Deadlines deadlines_of(const CompilationMode& mode, Clock::time_point start) {
  const auto* budget = std::get_if<TimeBudget>(&mode);
  if (budget == nullptr) return {};
  const auto after = [&](double share) {
    return start + std::chrono::duration_cast<Clock::duration>(
                       share * std::chrono::duration<double>(budget->duration));
  };
  return {.kernels = after(0.6), .plans = after(0.7), .verify = after(0.95)};
}

size_t plan_to_take(std::span<const double> us, std::optional<size_t> by_model) {
  constexpr double kClearly = 0.985;
  size_t best = 0;
  for (size_t i = 0; i < us.size(); ++i)
    if (i != by_model && us[i] < us[best] * (best == 0 ? kClearly : 1)) best = i;
  return by_model && us[*by_model] <= us[best] ? *by_model : best;
}

PlanSearchResult search_plan(const PlanSearchContext& context, std::vector<std::string> program,
                             const Deadlines& deadlines) {
  program.insert(program.begin(), "plan");
  return PlanSearch(context, make_key(program), deadlines).run();
}

}  // namespace luminal::search
