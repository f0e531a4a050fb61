#include "search/tuner.h"

#include <algorithm>
#include <atomic>
#include <numeric>

#include "base/cancel.h"
#include "base/fail.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/stopwatch.h"
#include "luminal/compile_report.h"
#include "search/bucket.h"
#include "search/contain.h"
#include "search/kernel_cache.h"
#include "search/own_kernels.h"
#include "search/remembered.h"
#include "search/replay.h"
#include "search/test_inputs.h"

namespace luminal::search {
namespace {

std::string text_of(const codegen::Bucket& bucket) {
  std::string text;
  for (const auto& [name, facts] : bucket.facts)
    text += fmt::format("{}:{}..{}/{} ", name, facts.min, facts.max, facts.multiple_of);
  return text;
}

}  // namespace

std::string text_of(const codegen::Target& target) {
  return fmt::format("{} {} {} {} threads", target.name, target.cpu, target.features, target.threads);
}

CacheKey choice_key(const kernel::KernelSpec& spec, const codegen::Bucket& bucket,
                    const codegen::Target& target) {
  // A family that was not there when a choice was made may have a better kernel. Kernels of a program's own
  // are written for a few specs: those of others stay as they are.
  std::vector<std::string> families = own_kernels_for(spec, target);
  for (const codegen::Schedule* schedule : codegen::schedules())
    if (!schedule->foreign) families.emplace_back(schedule->name);
  const std::vector<std::string> parts{spec.to_json(), text_of(bucket), text_of(target),
                                       std::to_string(target.threads),
                                       fmt::format("{}", fmt::join(families, " "))};
  return make_key(parts);
}

/// An exam at some sizes, and what an independent kernel made of it.
struct Tuner::Paper {
  std::optional<Exam> exam;
  std::optional<Verdict> reference;
  bool was_sought = false;  ///< the reference
  KernelRequest made_by;    ///< the reference
};

/// One request on its way.
struct Tuner::Job {
  TuneRequest request;
  CacheKey key;
  size_t number = 0;
  std::optional<Cache::Choice> known;
  std::vector<Tried> tried;
  std::vector<std::shared_ptr<const backends::Kernel>> kernels;  ///< by candidate; null if it is out
  std::vector<uint64_t> codes;                                   ///< by candidate
  std::optional<size_t> preferred;                               ///< chosen whatever the race said
  Paper top;                                                     ///< at the bucket's upper end
  std::vector<Paper> others;  ///< at the tuner's other sizes, once a candidate is judged in full
  bool consistent = false;    ///< the exams' inputs are what the graph makes of each other
  bool reference_fell = false;
};

Tuner::~Tuner() = default;

Tuner::Tuner(backends::Backend& backend, Cache& cache, const Graph& graph, TunerOptions options)
    : backend_(backend), cache_(cache), graph_(graph), options_(std::move(options)) {
  options_.race.deadline = options_.deadline;
}

/// The candidates of all families, the best predictions first; of each family at least its first, so that a
/// model that is wrong about a family does not shut it out.
void Tuner::find_candidates(Job& job) {
  if (job.known) {
    job.tried.push_back({.schedule = job.known->schedule, .parameters = job.known->parameters});
    return;
  }
  std::vector<Tried> leaders, others;
  for (const codegen::Schedule* schedule : codegen::schedules()) {
    bool first = true;
    for (codegen::Candidate& candidate : schedule->candidates(job.request.spec, bucket_, backend_.target())) {
      (first ? leaders : others)
          .push_back({.schedule = std::string(schedule->name),
                      .parameters = std::move(candidate.parameters),
                      .predicted_us = candidate.predicted_us});
      first = false;
    }
  }
  const auto by_prediction = [](std::vector<Tried>& list) {
    std::ranges::stable_sort(list, {}, &Tried::predicted_us);
  };
  by_prediction(leaders);
  LUMINAL_CHECK(!leaders.empty(), "no schedule takes\n{}", job.request.spec.to_string());
  by_prediction(others);
  const auto room =
      static_cast<size_t>(std::max<int>(0, options_.candidates - static_cast<int>(leaders.size())));
  if (others.size() > room) others.resize(room);
  job.tried = std::move(leaders);
  job.tried.insert(job.tried.end(), std::make_move_iterator(others.begin()),
                   std::make_move_iterator(others.end()));
  by_prediction(job.tried);
  // What is predicted far behind is not worth compiling, unless nothing else is there.
  const double best = job.tried.front().predicted_us;
  constexpr double kHopeless = 6;
  std::erase_if(job.tried, [&](const Tried& t) { return t.predicted_us > kHopeless * best; });
}

KernelRequest Tuner::request_of(const Job& job, const codegen::Schedule& schedule,
                                const codegen::Parameters& parameters) const {
  KernelRequest request;
  request.spec = job.request.spec;
  request.chosen.schedule = &schedule;
  request.chosen.parameters = parameters;
  request.bucket = bucket_;
  return request;
}

KernelRequest Tuner::request_of(const Job& job, size_t c) const {
  return request_of(job, codegen::find_schedule(job.tried[c].schedule), job.tried[c].parameters);
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
    most = std::max(most, job->tried.size());
  }
  for (size_t rank = 0; rank < most; ++rank)
    for (Job* job : jobs) {
      if (rank >= job->tried.size()) continue;
      requests.push_back(request_of(*job, rank));
      places.emplace_back(job, rank);
    }
  // Every spec gets one kernel, deadline or not.
  const size_t needed = std::min(requests.size(), jobs.size());
  auto results = KernelCache::of_process().make(backend_, cache_, std::span(requests).first(needed));
  // What is compiled has to be timed in what is left.
  auto until = options_.deadline;
  if (const auto now = Clock::now(); until != Clock::time_point::max() && until > now)
    until = now + (until - now) / 2;
  auto rest = KernelCache::of_process().make(backend_, cache_, std::span(requests).subspan(needed), until);
  results.insert(results.end(), std::make_move_iterator(rest.begin()), std::make_move_iterator(rest.end()));
  for (size_t i = 0; i < results.size(); ++i) take(*places[i].first, places[i].second, results[i]);
  phases_.compile_s += seconds_since(start);
}

/// What there was no time for, once all others have fallen. False if nothing was left out.
bool Tuner::compile_left_out(Job& job) {
  const auto start = Clock::now();
  std::vector<KernelRequest> requests;
  std::vector<size_t> places;
  for (size_t c = 0; c < job.tried.size(); ++c) {
    if (job.kernels[c] || job.tried[c].rejected != KernelReport::Rejected::kNotTimed) continue;
    requests.push_back(request_of(job, c));
    places.push_back(c);
  }
  const auto results = KernelCache::of_process().make(backend_, cache_, requests);
  for (size_t i = 0; i < results.size(); ++i) take(job, places[i], results[i]);
  phases_.compile_s += seconds_since(start);
  return !requests.empty();
}

namespace {

/// Inputs and outputs of a spec at given sizes, and which candidates race on them.
std::vector<double> race_on(const kernel::KernelSpec& spec, const DimMap& sizes, uint64_t seed,
                            int64_t l3_bytes,
                            std::span<const std::shared_ptr<const backends::Kernel>> kernels,
                            const RaceOptions& options) {
  std::vector<std::shared_ptr<const TensorData>> inputs;
  std::vector<const TensorData*> pointers;
  std::vector<int64_t> output_bytes;
  int64_t total = 0;
  for (size_t s = 0; s < spec.slots().size(); ++s) {
    const kernel::Slot& slot = spec.slots()[s];
    inputs.push_back(test_input("plain", 0, {slot.dtype, {slot.elements.exec(sizes)}}, {}, seed, s));
    pointers.push_back(inputs.back().get());
    total += static_cast<int64_t>(inputs.back()->bytes.size());
  }
  for (const kernel::Output& output : spec.outputs()) {
    output_bytes.push_back(
        size_bytes(spec.values()[static_cast<size_t>(output.value)].dtype(), output.elements.exec(sizes)));
    total += output_bytes.back();
  }
  // Operands larger than the last cache come from memory in a plan as well; two copies keep them from staying
  // warm.
  const int copies = total > l3_bytes / 2 ? 2 : 1;
  const Bench bench(pointers, output_bytes, sizes, copies);
  std::vector<std::unique_ptr<Contender>> contenders;
  std::vector<Contender*> field;
  for (const auto& kernel : kernels) {
    contenders.push_back(std::make_unique<Contender>(kernel, bench, Team::shared()));
    field.push_back(contenders.back().get());
  }
  return race(field, options);
}

}  // namespace

/// Races all candidates that are left, in a contained process. One that crashes or hangs there is out, and
/// the others race once more.
void Tuner::run_race(Job& job) {
  keep_plausible(job);
  const auto start = Clock::now();
  for (bool again = true; again;) {
    again = false;
    std::vector<size_t> candidates;
    std::vector<std::shared_ptr<const backends::Kernel>> kernels;
    for (size_t c = 0; c < job.tried.size(); ++c) {
      if (!job.kernels[c]) continue;
      candidates.push_back(c);
      kernels.push_back(job.kernels[c]);
    }
    if (kernels.empty()) break;
    const SharedBytes memory(static_cast<int64_t>((kernels.size() + 1) * sizeof(double)));
    auto* running = reinterpret_cast<volatile size_t*>(memory.bytes().data());
    auto* times = reinterpret_cast<double*>(memory.bytes().data()) + 1;
    const std::string trouble = run_contained(
        [&](Progress& progress) {
          RaceOptions options = options_.race;
          options.before_sample = [&](size_t contender) {
            *running = contender;
            ++progress;
          };
          std::ranges::copy(
              race_on(job.request.spec, sizes_, options_.seed, backend_.target().l3_bytes, kernels, options),
              times);
        },
        std::chrono::seconds(20));
    if (trouble.empty()) {
      for (size_t i = 0; i < candidates.size(); ++i) {
        job.tried[candidates[i]].measured_us = times[i];
        phases_.timed += times[i] > 0 ? 1 : 0;
      }
    } else {
      reject(job, candidates[*running], {.message = trouble + " (while it was timed)"}, *job.top.exam);
      again = true;
    }
  }
  phases_.measure_s += seconds_since(start);
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

Exam Tuner::exam_of(const Job& job, const DimMap& sizes, bool first_only) const {
  Exam exam = prepare_exam(graph_, sizes, job.request.unit ? *job.request.unit : unit_of(job.request.spec),
                           {.seed = options_.seed,
                            .strict = options_.strict,
                            .first_only = first_only,
                            .consistent = job.consistent});
  constexpr double kMany = 0.01;
  if (const double skipped = exam.skipped_share(); skipped > kMany)
    debug(1, "verify: {:.0f} % of the samples hang on comparisons that are too close to call:\n{}",
          100 * skipped, job.request.spec.to_string());
  return exam;
}

void Tuner::prepare_exam_of(Job& job, bool first_only) const {
  job.top = {.exam = exam_of(job, sizes_, first_only)};
  job.others.clear();
  job.reference_fell = false;
}

/// Inputs and answers for those that have none yet, on all cores.
void Tuner::prepare_exams(std::span<Job* const> jobs, bool first_only) {
  const auto start = Clock::now();
  std::atomic<size_t> next{0};
  Team& team = Team::shared();
  team.run(team.size(), [&](int) {
    for (size_t i = next++; i < jobs.size(); i = next++) {
      throw_if_cancelled();
      const auto& exam = jobs[i]->top.exam;
      const size_t questions = exam ? exam->questions.size() : 0;
      if (questions == 0 || (questions == 1 && !first_only)) prepare_exam_of(*jobs[i], first_only);
    }
  });
  phases_.verify_s += seconds_since(start);
}

/// Another exam for a candidate that fell on inputs which the graph never has together, if that may be why.
bool Tuner::make_consistent(Job& job) const {
  if (job.consistent || !job.request.unit) return false;
  job.consistent = true;
  prepare_exam_of(job, job.top.exam->questions.size() == 1);
  return std::ranges::any_of(job.top.exam->questions, [](const ExamQuestion& question) {
    return std::ranges::find(question.derived, true) != question.derived.end();
  });
}

/// Kernels for a job's spec that can judge candidate `c`, the plainest first: loops as the spec says them, in
/// scalars where that does not take long; then what other families made, then what other parameters did.
std::vector<KernelRequest> Tuner::independent_of(const Job& job, size_t c) const {
  constexpr double kLongUs = 150e3, kShortUs = 20e3;  // of one run
  std::vector<KernelRequest> list;
  const Tried& judged = job.tried[c];
  const auto add = [&](const codegen::Schedule& schedule, const codegen::Parameters& parameters) {
    if (schedule.name != judged.schedule || parameters != judged.parameters)
      list.push_back(request_of(job, schedule, parameters));
  };
  const codegen::Schedule& nest = codegen::find_schedule("nest");
  for (const codegen::Candidate& plain : nest.candidates(job.request.spec, bucket_, backend_.target())) {
    if (plain.predicted_us > kLongUs) continue;
    if (plain.predicted_us * plain.parameters.at("lanes") < kShortUs) {
      codegen::Parameters scalar = plain.parameters;
      scalar["lanes"] = 1;
      add(nest, scalar);
    }
    add(nest, plain.parameters);
    break;
  }
  for (const bool same_family : {false, true})
    for (size_t other = 0; other < job.tried.size(); ++other)
      if (other != c && job.kernels[other] && (job.tried[other].schedule == judged.schedule) == same_family &&
          !codegen::find_schedule(job.tried[other].schedule).foreign)
        add(codegen::find_schedule(job.tried[other].schedule), job.tried[other].parameters);
  return list;
}

/// What the first independent kernel that passes makes of an exam.
void Tuner::find_reference(Job& job, Paper& paper, size_t c) {
  // No kernel is its own judge.
  const bool is_itself = paper.reference && paper.made_by.chosen.schedule->name == job.tried[c].schedule &&
                         paper.made_by.chosen.parameters == job.tried[c].parameters;
  if (paper.was_sought && !is_itself) return;
  paper.was_sought = true;
  paper.reference.reset();
  constexpr size_t kMost = 3;
  std::vector<KernelRequest> independent = independent_of(job, c);
  if (independent.size() > kMost) independent.resize(kMost);
  for (const KernelRequest& request : independent) {
    const auto made = KernelCache::of_process().make(backend_, cache_, {&request, 1});
    if (!made.front().kernel) continue;
    const backends::Kernel* list[] = {made.front().kernel.get()};
    Verdict verdict = judge(*paper.exam, list, {.keep_outputs = true, .launches = 0});
    if (verdict.fault) {
      debug(2, "verify: {} ({}) is no reference: {}", request.chosen.schedule->name,
            codegen::to_string(request.chosen.parameters), verdict.fault->message);
      job.reference_fell = true;
      continue;
    }
    accept_beyond_laws(*paper.exam, verdict);
    paper.reference = std::move(verdict);
    paper.made_by = request;
    return;
  }
}

/// Keeps what is plainly wrong out of the race.
void Tuner::keep_plausible(Job& job) {
  const auto start = Clock::now();
  std::vector<size_t> open;
  for (size_t c = 0; c < job.tried.size(); ++c)
    if (job.kernels[c]) open.push_back(c);
  for (;;) {
    std::vector<const backends::Kernel*> kernels;
    for (const size_t c : open) kernels.push_back(job.kernels[c].get());
    const std::vector<std::optional<Fault>> faults = judge_quickly(*job.top.exam, kernels);
    std::vector<size_t> wrong;
    for (size_t i = 0; i < open.size(); ++i)
      if (faults[i]) wrong.push_back(open[i]);
    if (!wrong.empty() && make_consistent(job)) {
      open = std::move(wrong);
      continue;
    }
    for (size_t i = 0; i < open.size(); ++i)
      if (faults[i]) reject(job, open[i], *faults[i], *job.top.exam);
    break;
  }
  phases_.verify_s += seconds_since(start);
}

void Tuner::reject(Job& job, size_t c, const Fault& fault, const Exam& exam) {
  job.tried[c].rejected = fault.message;
  job.kernels[c] = nullptr;
  tell_fault(job, job.tried[c], fault, exam);
}

/// What is wrong with candidate `c` at the sizes of an exam.
std::optional<Fault> Tuner::fault_of(Job& job, Paper& paper, size_t c) {
  const backends::Kernel* list[] = {job.kernels[c].get()};
  find_reference(job, paper, c);
  JudgeOptions options{.threads = backend_.target().threads,
                       .reference = paper.reference ? &*paper.reference : nullptr};
  // Code of ours keeps nothing from one launch to the next but what is in its workspace.
  if (codegen::find_schedule(job.tried[c].schedule).foreign) {
    options.launches = 1200;
    options.soak = std::chrono::seconds(10);
  }
  Verdict verdict = judge(*paper.exam, list, options);
  phases_.compared += verdict.compared;
  if (verdict.fault)
    for (const auto& [name, size] : paper.exam->dims)
      verdict.fault->message += fmt::format(", {} = {}", name, size);
  return verdict.fault;
}

/// Whether candidate `c` passes in full. If not it is told, and out.
bool Tuner::stands(Job& job, size_t c) {
  throw_if_cancelled();
  const auto start = Clock::now();
  std::optional<Exam> failed;
  const auto judge_once = [&]() -> std::optional<Fault> {
    const size_t sizes = job.request.spec.symbols().empty() ? 0 : others_.size();
    job.others.resize(sizes);
    // All kinds of inputs at the least sizes, one kind at those between.
    for (size_t i = 0; i <= sizes; ++i) {
      Paper& paper = i == 0 ? job.top : job.others[i - 1];
      if (!paper.exam) paper.exam = exam_of(job, others_[i - 1], i > 1);
      if (std::optional<Fault> fault = fault_of(job, paper, c)) {
        failed = paper.exam;
        return fault;
      }
    }
    return std::nullopt;
  };
  std::optional<Fault> fault = judge_once();
  if ((fault || job.reference_fell) && make_consistent(job)) fault = judge_once();
  ++phases_.verified;
  phases_.verify_s += seconds_since(start);
  if (fault) reject(job, c, *fault, *failed);
  return !fault;
}

/// A wrong kernel is a fault of ours: it is told aloud, with a file to look into, and never used.
void Tuner::tell_fault(const Job& job, const Tried& tried, const Fault& fault, const Exam& exam) {
  ++phases_.faults;
  const std::string where =
      write_replay({.kernels = {{job.request.spec, tried.schedule, tried.parameters, bucket_}},
                    .exam = exam,
                    .fault = fault.message},
                   combine(job.key.high, hash_bytes(tried.schedule + codegen::to_string(tried.parameters))));
  log_line(fmt::format("[verify] a kernel is wrong and not used ({} {}): {}. Please report this; {}",
                       tried.schedule, codegen::to_string(tried.parameters), fault.message, where));
}

/// Candidates, the one to take first.
std::vector<size_t> Tuner::by_merit(const Job& job) {
  std::vector<size_t> order(job.tried.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto time_of = [&](size_t c) {
    const Tried& t = job.tried[c];
    if (job.preferred == c) return -1.0;
    return t.measured_us > 0 ? t.measured_us : std::numeric_limits<double>::infinity();
  };
  if (!job.known) std::ranges::stable_sort(order, {}, time_of);
  return order;
}

/// What was remembered is no choice: candidates are found as if nothing was known.
void Tuner::forget(Job& job) {
  cache_.forget(job.key);
  job.known.reset();
  job.tried.clear();
  find_candidates(job);
}

void Tuner::start_anew(Job& job) {
  forget(job);
  compile({&job});
  if (!job.top.exam) prepare_exam_of(job, true);
  if (Clock::now() < options_.deadline) run_race(job);
}

/// The fastest that stands up to verification. Candidates behind the winner are compared with it no further.
void Tuner::choose(Job& job, Tuned& result, bool in_full) {
  const bool trusted = job.known && job.known->verified_here;
  const bool judged = in_full && !trusted;
  const std::vector<size_t> order = by_merit(job);
  const auto winner =
      std::ranges::find_if(order, [&](size_t c) { return job.kernels[c] && (!judged || stands(job, c)); });
  if (winner == order.end()) {
    if (job.known) {
      start_anew(job);
      return choose(job, result, in_full);
    }
    if (compile_left_out(job)) return choose(job, result, in_full);
    std::string reasons;
    for (const Tried& t : job.tried)
      reasons += fmt::format("\n  {} {}: {}", t.schedule, codegen::to_string(t.parameters), t.rejected);
    throw NoKernelStands(fmt::format("no kernel stands for\n{}{}", job.request.spec.to_string(), reasons));
  }
  describe(job, order, *winner, result);
  result.verified = judged || trusted;
  remember(job, *winner, judged);
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
    if (reason.empty())
      reason = us <= 0                 ? KernelReport::Rejected::kNotTimed
               : us < best.measured_us ? "faster alone, slower in the whole plan"
                                       : "slower";
  }
}

void Tuner::remember(const Job& job, size_t winner, bool judged) {
  const Tried& best = job.tried[winner];
  if (job.known && judged) cache_.mark_verified(job.key);
  if (judged && !job.known) cache_.forget(job.key);  // what was remembered before was not verified
  if (!job.known && best.measured_us > 0)
    cache_.store(job.key, {.schedule = best.schedule,
                           .parameters = best.parameters,
                           .code = job.codes[winner],
                           .measured_us = best.measured_us,
                           .measured_candidates = static_cast<int>(std::ranges::count_if(
                               job.tried, [](const Tried& t) { return t.measured_us > 0; })),
                           .verified_here = judged});
}

bool Tuner::remembers(std::span<const TuneRequest> requests, const codegen::Bucket& bucket) {
  return std::ranges::all_of(requests, [&](const TuneRequest& request) {
    return find_remembered(cache_, choice_key(request.spec, bucket, backend_.target()), request.spec, bucket,
                           backend_.target())
        .has_value();
  });
}

void Tuner::confirm(std::span<Tuned* const> winners) {
  std::vector<Tuned*> open;
  for (Tuned* winner : winners)
    if (!winner->verified) open.push_back(winner);
  // What was remembered without being judged may come from others' machines: it is judged, whatever the time.
  const auto judged_late = std::ranges::stable_partition(open, &Tuned::from_cache);
  const auto at_once = static_cast<size_t>(judged_late.begin() - open.begin());
  const auto batch = static_cast<size_t>(Team::shared().size());
  for (size_t first = 0; first < open.size() && (first < at_once || Clock::now() < options_.verify_by);
       first += batch) {
    const auto now = std::span(open).subspan(first, std::min(batch, open.size() - first));
    std::vector<Job*> jobs;
    for (const Tuned* winner : now) jobs.push_back(jobs_[winner->job].get());
    prepare_exams(jobs, false);
    for (Tuned* winner : now) choose(*jobs_[winner->job], *winner, true);
  }
}

void Tuner::take_models_choice(Tuned& winner) {
  Job& job = *jobs_[winner.job];
  if (job.known || !job.kernels[0]) return;
  job.preferred = 0;
  choose(job, winner, false);
}

std::vector<Tuned> Tuner::tune(std::span<const TuneRequest> requests, const codegen::Bucket& bucket) {
  bucket_ = bucket;
  sizes_ = bucket.top();
  others_ = sizes_to_judge(graph_, bucket);
  std::vector<Job*> jobs;
  for (const TuneRequest& request : requests) {
    jobs.push_back(jobs_.emplace_back(std::make_unique<Job>()).get());
    Job& job = *jobs.back();
    job.request = request;
    job.number = jobs_.size() - 1;
    job.key = choice_key(request.spec, bucket, backend_.target());
    job.known = find_remembered(cache_, job.key, request.spec, bucket, backend_.target());
    throw_if_cancelled();
    find_candidates(job);
  }
  compile(jobs);
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
  const auto batch = static_cast<size_t>(Team::shared().size());
  for (size_t first = 0; first < open.size() && Clock::now() < options_.deadline; first += batch) {
    const auto now = std::span(open).subspan(first, std::min(batch, open.size() - first));
    prepare_exams(now, true);
    for (Job* job : now) {
      throw_if_cancelled();
      if (Clock::now() < options_.deadline) run_race(*job);
    }
  }
  std::vector<Tuned> results(jobs.size());
  for (size_t i = 0; i < jobs.size(); ++i) choose(*jobs[i], results[i], false);
  return results;
}

}  // namespace luminal::search
