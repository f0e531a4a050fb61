#include "search/tuning/tuner.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <unordered_set>
#include <utility>

#include "base/cancel.h"
#include "base/fail.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/stopwatch.h"
#include "base/team.h"
#include "luminal/compile_report.h"
#include "search/bucket.h"
#include "search/cache/kernel_cache.h"
#include "search/tuning/candidates.h"
#include "search/tuning/example_inputs.h"
#include "search/tuning/remembered.h"
#include "search/tuning/timing.h"
#include "search/tuning/user_kernels.h"
#include "search/verification/contain.h"
#include "search/watch.h"

namespace luminal::search {

CacheKey Tuner::key_of(const kernel::KernelSpec& spec, const codegen::Bucket& bucket) const {
  return tuning_key(spec, bucket, backend_.target(), options_.key);
}

CacheKey tuning_key(const kernel::KernelSpec& spec, const codegen::Bucket& bucket,
                    const codegen::Target& target, const std::string& extra) {
  // A family that was not there when a choice was made may have a better kernel. User kernels
  // are written for a few specs: those of others stay as they are.
  std::vector<std::string> families = user_kernels_for(spec, target);
  for (const codegen::Schedule* schedule : codegen::schedules())
    if (!schedule->foreign) families.emplace_back(schedule->name);
  std::vector<std::string> parts{spec.to_json(), to_string(bucket), key_text(target),
                                 fmt::format("{}", fmt::join(families, " "))};
  if (!extra.empty()) parts.push_back(extra);
  return make_key(parts);
}

Tuner::Tuner(backends::Device& backend, Cache& cache, const Graph& graph, TunerOptions options)
    : backend_(backend),
      cache_(cache),
      graph_(graph),
      options_(std::move(options)),
      verifier_(backend, cache, options_.longest_plain_us, *options_.passed_forms, phases_) {
  options_.race.deadline = options_.deadline;
}

void Tuner::add_candidates(Job& job) const {
  if (job.known) {
    job.tried.push_back({.schedule = job.known->schedule, .parameters = job.known->parameters});
    return;
  }
  Candidates found = find_candidates(job.request.spec, job.bucket, backend_.target(), job.effort);
  if (job.elsewhere) found = narrowed(std::move(found), *job.elsewhere);
  job.tried = std::move(found.promising);
  job.hopeless = std::move(found.hopeless);
}

void Tuner::take(Job& job, size_t c, const KernelResult& made) {
  job.kernels[c] = made.kernel;
  job.codes[c] = made.code;
  job.tried[c].compile_ms = made.compile_ms;
  job.tried[c].rejected = made.error;
  phases_.compiled += made.compile_ms > 0 ? 1 : 0;
  phases_.loaded += made.loaded ? 1 : 0;
}

/// Round by round: the most promising candidate of every spec first, should time run out.
void Tuner::compile(std::vector<Job*> jobs) {
  const auto start = Clock::now();
  std::vector<KernelRequest> requests;
  std::vector<std::pair<Job*, size_t>> places;
  size_t most = 0;
  for (Job* job : jobs) {
    job->kernels.assign(job->tried.size(), nullptr);
    job->codes.assign(job->tried.size(), 0);
    job->screened.assign(job->tried.size(), false);
    most = std::max(most, job->tried.size());
  }
  for (size_t rank = 0; rank < most; ++rank)
    for (Job* job : jobs) {
      if (rank >= job->tried.size()) continue;
      requests.push_back(job->kernel_request(rank));
      places.emplace_back(job, rank);
    }
  // Every spec gets one kernel, deadline or not. Without a deadline all are made at once, so that no processor waits.
  const size_t needed = has_deadline() ? std::min(requests.size(), jobs.size()) : requests.size();
  auto results = KernelCache::of_process().make(backend_, cache_, std::span(requests).first(needed));
  // What is compiled has to be timed in what is left.
  auto until = options_.deadline;
  if (const auto now = Clock::now(); has_deadline() && until > now) until = now + (until - now) / 2;
  auto rest = KernelCache::of_process().make(backend_, cache_, std::span(requests).subspan(needed), until);
  results.insert(results.end(), std::make_move_iterator(rest.begin()), std::make_move_iterator(rest.end()));
  for (size_t i = 0; i < results.size(); ++i) take(*places[i].first, places[i].second, results[i]);
  phases_.compile_s += seconds_since(start);
}

/// What there was no time for, or no hope, once all others have fallen. False if nothing was left out.
bool Tuner::compile_left_out(Job& job) {
  const auto start = Clock::now();
  for (Tried& candidate : job.hopeless) {
    candidate.rejected = KernelReport::Rejected::kNotTimed;
    job.tried.push_back(std::move(candidate));
  }
  job.hopeless.clear();
  job.kernels.resize(job.tried.size());
  job.codes.resize(job.tried.size());
  job.screened.resize(job.tried.size());
  std::vector<KernelRequest> requests;
  std::vector<size_t> places;
  for (size_t c = 0; c < job.tried.size(); ++c) {
    if (job.kernels[c] || job.tried[c].rejected != KernelReport::Rejected::kNotTimed) continue;
    requests.push_back(job.kernel_request(c));
    places.push_back(c);
  }
  const auto results = KernelCache::of_process().make(backend_, cache_, requests);
  for (size_t i = 0; i < results.size(); ++i) take(job, places[i], results[i]);
  phases_.compile_s += seconds_since(start);
  return !requests.empty();
}

void Tuner::set_values(Leaves values, std::shared_ptr<const ValueRanges> ranges) {
  values_ = std::move(values);
  ranges_ = std::move(ranges);
  for (const auto& job : jobs_) job->subject.options.ranges = ranges_;
}

/// What the values of the graph hold that a job's slots read.
SlotData Tuner::slot_data(const Job& job, const DimMap& sizes) const {
  const kernel::KernelSpec& spec = job.request.spec;
  SlotData given(spec.slots().size());
  for (size_t s = 0; s < given.size() && !values_.empty(); ++s) {
    const Unit& unit = job.subject.unit;
    const Unit::Tensor& tensor = unit.tensors[static_cast<size_t>(unit.kernels[0].inputs[s])];
    const auto known = tensor.value ? values_.find(*tensor.value) : values_.end();
    if (known == values_.end() || known->second->dtype != spec.slots()[s].dtype) continue;
    auto data = fitted(known->second, exec(tensor.type.dims, sizes));
    if (data->element_count() == spec.slots()[s].elements.exec(sizes)) given[s] = std::move(data);
  }
  return given;
}

namespace {

/// Those that may be the fastest at other sizes too, as positions in `us`.
std::vector<size_t> near_the_best(std::span<const double> us) {
  constexpr double kReach = 1.3;
  constexpr size_t kMost = 3;
  std::vector<size_t> order;
  double best = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < us.size(); ++i)
    if (us[i] > 0) order.push_back(i), best = std::min(best, us[i]);
  std::erase_if(order, [&](size_t i) { return us[i] > kReach * best; });
  std::ranges::stable_sort(order, {}, [&](size_t i) { return us[i]; });
  if (order.size() > kMost) order.resize(kMost);
  return order;
}

/// What the shortest race of a job takes: every candidate once, and inputs before.
double race_s(const Job& job) {
  constexpr double kSetupUs = 2000;
  double us = kSetupUs;
  for (size_t c = 0; c < job.tried.size(); ++c)
    if (job.kernels[c]) us += 2 * job.tried[c].predicted_us;
  return us * 1e-6;
}

}  // namespace

/// A job's candidates while they race: all of them at the first sizes, those near the best at further ones too.
struct Tuner::Race {
  Job* job = nullptr;
  std::vector<size_t> candidates;
  std::vector<double> us;    ///< of candidates, at the first sizes
  std::vector<size_t> near;  ///< positions in `candidates` of those near the best
  std::vector<double> sums;  ///< of these, over the sizes
  double sizes = 1;          ///< at which these have run
  bool is_over = false;      ///< at further sizes nobody runs
};

/// Times at one of the sizes of each job. Those of which a candidate crashes or hangs there lose it, and are given
/// back.
std::vector<Job*> Tuner::race_at(size_t size, std::span<Race> races) {
  std::vector<Race*> running;
  std::vector<TimingRequest> requests;
  for (Race& race : races) {
    const Job& job = *race.job;
    if (race.is_over || size >= job.timed_at.size()) continue;
    TimingRequest& request = requests.emplace_back(
        TimingRequest{.spec = &job.request.spec,
                      .sizes = job.timed_at[size],
                      .given = [this, job = race.job, size] { return slot_data(*job, job->timed_at[size]); },
                      .kernels = {}});
    if (size == 0) {
      request.least_s = race_s(job);
      for (const size_t c : race.candidates) request.kernels.push_back(job.kernels[c]);
    } else {
      request.least_s = 2e-6 * std::accumulate(race.sums.begin(), race.sums.end(), 0.0);
      for (const size_t i : race.near) request.kernels.push_back(job.kernels[race.candidates[i]]);
    }
    running.push_back(&race);
  }
  const std::vector<Timing> timings = time_kernels(backend_, requests, options_.seed, options_.race);
  std::vector<Job*> again;
  for (size_t r = 0; r < running.size(); ++r) {
    Race& race = *running[r];
    const Timing& timing = timings[r];
    if (!timing.trouble.empty()) {
      const size_t fallen = race.candidates[size == 0 ? timing.fallen : race.near[timing.fallen]];
      Tried& candidate = race.job->tried[fallen];
      if (is_timeout(timing.trouble) && !codegen::find_schedule(candidate.schedule).foreign) {
        candidate.rejected = timing.trouble;  // our code ends: the model took it for much faster than it is
        race.job->kernels[fallen] = nullptr;
      } else {
        verifier_.reject(*race.job, fallen, {.message = timing.trouble + " (while it was timed)"}, 0);
      }
      again.push_back(race.job);
      race.is_over = true;
    } else if (size == 0) {
      race.us = timing.us;
      race.near = near_the_best(race.us);
      for (const size_t i : race.near) race.sums.push_back(race.us[i]);
      race.is_over = race.near.empty();
    } else if (std::ranges::find(timing.us, 0.0) != timing.us.end()) {
      race.is_over = true;
    } else {
      race.sizes += 1;
      for (size_t i = 0; i < race.sums.size(); ++i) race.sums[i] += timing.us[i];
    }
  }
  return again;
}

/// What counts is the mean over the sizes; what is far behind at the first sizes stays so.
void Tuner::note(const Race& race) {
  if (race.near.empty()) return;
  std::vector<Tried>& tried = race.job->tried;
  const double scale = race.sums[0] / race.sizes / race.us[race.near[0]];
  for (size_t i = 0; i < race.us.size(); ++i) {
    tried[race.candidates[i]].measured_us = race.us[i] * scale;
    phases_.timed += race.us[i] > 0 ? 1 : 0;
  }
  for (size_t i = 0; i < race.near.size(); ++i)
    tried[race.candidates[race.near[i]]].measured_us = race.sums[i] / race.sizes;
}

/// Times the candidates that jobs have left. One that crashes or hangs is out, and the others race once more.
void Tuner::run_races(std::span<Job* const> jobs) {
  const auto start = Clock::now();
  std::vector<Job*> open(jobs.begin(), jobs.end());
  while (!open.empty()) {
    std::vector<Race> races;
    size_t most_sizes = 0;
    for (Job* job : std::exchange(open, {})) {
      Race race{.job = job};
      for (size_t c = 0; c < job->tried.size(); ++c)
        if (job->kernels[c] && (job->screened[c] || job->races_unseen())) race.candidates.push_back(c);
      if (race.candidates.empty()) continue;
      const size_t rotation = options_.seed % race.candidates.size();
      std::ranges::rotate(race.candidates, race.candidates.begin() + static_cast<ptrdiff_t>(rotation));
      most_sizes = std::max(most_sizes, job->timed_at.size());
      races.push_back(std::move(race));
    }
    for (size_t size = 0; size < most_sizes; ++size)
      for (Job* job : race_at(size, races)) open.push_back(job);
    for (const Race& race : races)
      if (std::ranges::find(open, race.job) == open.end()) note(race);
  }
  phases_.measure_s += seconds_since(start);
}

/// Races the candidates of each job that are not plainly wrong. Where they race unseen only a user kernel is
/// looked at, and only if it is the fastest.
void Tuner::race(std::span<Job* const> jobs) {
  std::vector<Job*> seen, unseen;
  for (Job* job : jobs) (job->races_unseen() ? unseen : seen).push_back(job);
  if (!seen.empty()) verifier_.screen_candidates(seen, options_.deadline);
  run_races(jobs);
  std::erase_if(unseen, [](const Job* job) {
    const auto leader = job->leader();
    return !leader || !codegen::find_schedule(job->tried[*leader].schedule).foreign;
  });
  verifier_.screen_leaders(unseen, options_.deadline);
}

namespace {

/// A spec on its own: tensors that nobody named.
Unit unit_of(const kernel::KernelSpec& spec) {
  Unit unit{.tensors = {}, .kernels = {{}}};
  for (const kernel::Slot& slot : spec.slots()) {
    unit.kernels[0].inputs.push_back(static_cast<int>(unit.tensors.size()));
    unit.tensors.push_back({.type = {slot.dtype, {slot.elements}}, .value = {}});
  }
  for (const kernel::Output& output : spec.outputs()) {
    unit.kernels[0].outputs.push_back(static_cast<int>(unit.tensors.size()));
    const Dtype dtype = spec.values()[static_cast<size_t>(output.value)].dtype();
    unit.tensors.push_back({.type = {dtype, {output.elements}}, .value = {}});
  }
  return unit;
}

}  // namespace

/// What was remembered is no choice: candidates are found as if nothing was known.
void Tuner::forget(Job& job) {
  cache_.forget(job.key);
  job.known.reset();
  job.tried.clear();
  add_candidates(job);
}

void Tuner::start_anew(Job& job) {
  Job* const jobs[] = {&job};
  forget(job);
  compile({&job});
  if (is_over(options_.deadline)) return;
  race(jobs);
}

/// Further candidates where none is left. Errors: NoKernelPasses.
void Tuner::find_more(Job& job) {
  if (job.known) return start_anew(job);
  if (compile_left_out(job)) return;
  std::string reasons;
  for (const Tried& t : job.tried)
    reasons += fmt::format("\n  {} {}: {}", t.schedule, codegen::to_string(t.parameters), t.rejected);
  throw NoKernelPasses(
      fmt::format("no kernel passes verification for\n{}{}", job.request.spec.to_string(), reasons),
      job.request.spec);
}

/// The leader is the choice. Candidates behind it are compared with it no further.
void Tuner::choose(Job& job, Tuned& result, bool verified) {
  while (!job.leader()) find_more(job);
  const size_t winner = *job.leader();
  describe(job, job.by_merit(), winner, result);
  result.verified = verified || (job.known && job.known->verified_here);
  remember(job, winner, verified);
}

void Tuner::describe(const Job& job, std::span<const size_t> order, size_t winner, Tuned& result) {
  const Tried& best = job.tried[winner];
  result = {.schedule = best.schedule, .parameters = best.parameters, .kernel = job.kernels[winner]};
  result.predicted_us = best.predicted_us;
  result.measured_us = job.known ? job.known->measured_us : best.measured_us;
  result.from_cache = job.known.has_value();
  result.job = job.number;
  result.tried.push_back(best);
  for (const size_t c : order) {
    if (c == winner) continue;
    result.tried.push_back(job.tried[c]);
    std::string& reason = result.tried.back().rejected;
    const double us = job.tried[c].measured_us;
    using Rejected = KernelReport::Rejected;
    if (reason.empty())
      reason = us <= 0                  ? Rejected::kNotTimed
               : us >= best.measured_us ? Rejected::kSlower
               : job.preferred          ? Rejected::kSlowerInPlan
                                        : Rejected::kAsFast;
  }
}

void Tuner::remember(const Job& job, size_t winner, bool verified) {
  const Tried& best = job.tried[winner];
  if (job.known && verified) cache_.mark_verified(job.key);
  if (verified && !job.known) cache_.forget(job.key);  // what was remembered before was not verified
  if (job.known || best.measured_us <= 0) return;
  const Cache::Choice choice{.schedule = best.schedule,
                             .parameters = best.parameters,
                             .code = job.codes[winner],
                             .measured_us = best.measured_us,
                             .effort = job.effort,
                             .verified_here = verified};
  cache_.store(job.key, choice);
  if (!job.bucket.facts.empty() && !job.elsewhere) cache_.store(key_of(job.request.spec, {}), choice);
}

bool Tuner::remembers(std::span<const TuneRequest> requests, const codegen::Bucket& bucket) {
  return std::ranges::all_of(requests, [&](const TuneRequest& request) {
    const codegen::Bucket own = restricted(bucket, request.spec);
    return find_remembered(cache_, key_of(request.spec, own), request.spec, own, backend_.target(),
                           effort_for(request.share, options_.candidates))
        .has_value();
  });
}

/// What the first of a form shows, the others need not show again (KernelVerifier::form_of): these wait for it.
Tuner::ByForm Tuner::one_of_each_form_first(std::span<Tuned* const> winners) const {
  std::vector<Tuned*> order, others;
  std::unordered_set<uint64_t> seen;
  for (Tuned* winner : winners) {
    const auto form = KernelVerifier::form_of(*jobs_[winner->job]);
    (form && !seen.insert(*form).second ? others : order).push_back(winner);
  }
  // Where the others would leave processors idle, nothing is gained by waiting for the first.
  const bool are_few = others.size() <= static_cast<size_t>(Team::shared().size());
  const size_t firsts = are_few ? winners.size() : order.size();
  order.insert(order.end(), others.begin(), others.end());
  return {std::move(order), firsts};
}

/// Verifies candidates in full, the leading ones of several jobs side by side, until each job has one that passes. Jobs
/// whose leader fell are looked at again with the next ones, so that no processor waits for a few. Errors:
/// NoKernelPasses.
void Tuner::settle(std::span<Tuned* const> winners, Clock::time_point until) {
  const size_t batch = 48 * static_cast<size_t>(Team::shared().size());
  const auto [order, firsts] = one_of_each_form_first(winners);
  std::vector<Job*> open;
  size_t first = 0;  // of those that are not begun
  while ((first < order.size() && !is_over(until)) || !open.empty()) {
    throw_if_cancelled();
    if (Watch* watch = Watch::current()) watch->step("verifying kernels", first - open.size(), order.size());
    const size_t end = first < firsts ? firsts : order.size();
    for (; first < end && open.size() < batch && !is_over(until); ++first)
      open.push_back(jobs_[order[first]->job].get());
    for (Job* job : open)
      while (!job->leader()) find_more(*job);
    open = verifier_.verify_leaders(open, until);
  }
  for (Tuned* winner : std::span(order).first(first)) {
    Job& job = *jobs_[winner->job];
    choose(job, *winner, job.verified);
  }
}

void Tuner::confirm(std::span<Tuned* const> winners) {
  std::vector<Tuned*> open;
  for (Tuned* winner : winners)
    if (!winner->verified) open.push_back(winner);
  // What was remembered without verification may come from others' machines: it is verified, whatever the time.
  const auto late = std::ranges::stable_partition(open, &Tuned::from_cache);
  const auto at_once = static_cast<size_t>(late.begin() - open.begin());
  settle(std::span(open).first(at_once), Clock::time_point::max());
  settle(std::span(open).subspan(at_once), options_.verify_by);
}

void Tuner::take_models_choice(Tuned& winner) {
  Job& job = *jobs_[winner.job];
  const auto choice = job.models_choice();
  if (job.known || !choice) return;
  job.preferred = choice;
  choose(job, winner, false);
}

Tuned Tuner::models_choice(const Tuned& winner) const {
  const Job& job = *jobs_[winner.job];
  const auto candidate = job.models_choice();
  if (job.known || !candidate) return winner;
  Tuned choice;
  describe(job, job.by_merit(), *candidate, choice);
  choice.verified = winner.verified && choice.kernel == winner.kernel;
  return choice;
}

std::vector<Tuned> Tuner::tune(std::span<const TuneRequest> requests, const codegen::Bucket& bucket) {
  std::vector<DimMap> judged_at{bucket.top()};
  std::ranges::copy(sizes_to_judge(graph_, bucket), std::back_inserter(judged_at));
  std::vector<Job*> jobs;
  for (const TuneRequest& request : requests) {
    jobs.push_back(jobs_.emplace_back(std::make_unique<Job>()).get());
    Job& job = *jobs.back();
    job.request = request;
    job.number = jobs_.size() - 1;
    job.bucket = restricted(bucket, request.spec);  // sizes of other dims make no other kernel
    job.key = key_of(request.spec, job.bucket);
    job.effort = effort_for(request.share, options_.candidates);
    job.known = find_remembered(cache_, job.key, request.spec, job.bucket, backend_.target(), job.effort);
    job.subject = {.graph = &graph_,
                   .unit = request.unit ? *request.unit : unit_of(request.spec),
                   .sizes = distinct_for(request.spec, judged_at),
                   .options = {.seed = options_.seed, .strict = options_.strict, .ranges = ranges_}};
    job.subject.unit.kernels[0].spec = request.spec;
    // Of several buckets the first has its candidates raced; the others try what won there.
    if (!job.known && !job.bucket.facts.empty()) {
      job.elsewhere = cache_.find(key_of(request.spec, {}));
      if (job.elsewhere && job.elsewhere->effort < job.effort) job.elsewhere.reset();
    }
    job.timed_at =
        options_.sizes.empty() ? std::vector{bucket.top()} : distinct_for(request.spec, options_.sizes);
    throw_if_cancelled();
    add_candidates(job);
  }
  compile(jobs);
  if (const auto ready = std::exchange(options_.ready, nullptr)) ready();
  // A remembered choice whose code is another by now is no choice.
  std::vector<Job*> again;
  for (Job* job : jobs) {
    if (!job->known || (job->kernels[0] && job->codes[0] == job->known->code)) continue;
    forget(*job);
    again.push_back(job);
  }
  if (!again.empty()) compile(again);
  std::vector<Job*> open;
  for (Job* job : jobs)
    if (!job->known) open.push_back(job);
  std::ranges::stable_sort(open, std::greater<>(), [](const Job* job) {
    return job->request.weight * job->tried.front().predicted_us;
  });
  // With a deadline the first ones are timed before the last ones are looked at.
  const size_t batch = (has_deadline() ? 4 : 16) * static_cast<size_t>(Team::shared().size());
  for (size_t first = 0; first < open.size() && !is_over(options_.deadline); first += batch) {
    const auto now = std::span(open).subspan(first, std::min(batch, open.size() - first));
    if (Watch* watch = Watch::current()) watch->step("timing kernels", first, open.size());
    race(now);
  }
  std::vector<Tuned> results(jobs.size());
  for (size_t i = 0; i < jobs.size(); ++i) choose(*jobs[i], results[i], false);
  return results;
}

}  // namespace luminal::search
