#include "search/tuning/kernel_verifier.h"

#include <algorithm>
#include <set>

#include "base/hash.h"
#include "base/log.h"
#include "base/stopwatch.h"
#include "base/team.h"
#include "codegen/schedules/nest.h"
#include "kernel/form.h"
#include "search/tuning/race.h"
#include "search/verification/replay.h"
#include "search/watch.h"

namespace luminal::search {
namespace {

KernelRequest kernel_request(const kernel::KernelSpec& spec, const codegen::Schedule& schedule,
                             const codegen::Parameters& parameters, const codegen::Bucket& bucket) {
  return {
      .spec = spec, .implementation = {.schedule = &schedule, .parameters = parameters}, .bucket = bucket};
}

/// Whether candidates that fell may have fallen on inputs which the graph never has together. If so they get
/// another suite.
bool make_consistent(Job& job) {
  SuiteOptions& options = job.subject.options;
  if (options.consistent || !job.request.unit) return false;
  options.consistent = has_dependent_inputs(*job.subject.graph, job.subject.sizes[0], job.subject.unit);
  return options.consistent;
}

/// The candidates beside `c`, those of other families first.
std::vector<size_t> others_of(const Job& job, size_t c) {
  std::vector<size_t> list;
  for (const bool same_family : {false, true})
    for (size_t other = 0; other < job.tried.size(); ++other)
      if (other != c && job.kernels[other] &&
          (job.tried[other].schedule == job.tried[c].schedule) == same_family &&
          !codegen::find_schedule(job.tried[other].schedule).foreign)
        list.push_back(other);
  return list;
}

/// Lengths in which a kernel may cut its work along an axis: its parameters, as elements and as vectors.
std::vector<int64_t> tile_lengths(const codegen::Parameters& parameters, int64_t lanes) {
  constexpr int64_t kLongest = 4096;
  std::set<int64_t> lengths{lanes};
  for (const auto& [name, value] : parameters)
    if (value > 1 && value <= kLongest) lengths.insert({value, value * lanes});
  return {lengths.begin(), lengths.end()};
}

}  // namespace

/// Loops as a spec says them: in scalars where that does not take long, otherwise in vectors. None where these
/// take long as well, or are the job's leader itself.
std::optional<KernelRequest> KernelVerifier::plainest_for(const Job& job, const kernel::KernelSpec& spec,
                                                          double longest_us) const {
  constexpr double kShortUs = 2e3;  // of one run in scalars
  const Tried& leader = job.tried[*job.leader()];
  const codegen::Schedule& nest = codegen::find_schedule("nest");
  for (const codegen::Candidate& plain : codegen::plain_loops(spec, job.bucket, backend_.target())) {
    if (plain.predicted_us > longest_us) continue;
    const auto request = [&](const codegen::Parameters& parameters, double predicted_us) {
      KernelRequest made = kernel_request(spec, nest, parameters, job.bucket);
      made.implementation.predicted_us = predicted_us;
      return made;
    };
    const auto is_verified = [&](const codegen::Parameters& parameters) {
      return spec == job.request.spec && leader.schedule == nest.name && leader.parameters == parameters;
    };
    codegen::Parameters scalar = plain.parameters;
    scalar["lanes"] = 1;
    const double in_scalars_us = plain.predicted_us * static_cast<double>(plain.parameters.at("lanes"));
    if (in_scalars_us < kShortUs && !is_verified(scalar)) return request(scalar, in_scalars_us);
    if (!is_verified(plain.parameters)) return request(plain.parameters, plain.predicted_us);
  }
  return std::nullopt;
}

std::optional<uint64_t> KernelVerifier::form_of(const Job& job) {
  const auto leader = job.leader();
  if (!leader || codegen::find_schedule(job.tried[*leader].schedule).foreign) return std::nullopt;
  uint64_t form = hash_bytes(job.tried[*leader].schedule);
  const codegen::Parameters& parameters = job.tried[*leader].parameters;
  const auto lanes = parameters.find("lanes");
  form = combine(form, lanes == parameters.end() ? 0 : static_cast<uint64_t>(lanes->second));
  if (job.subject.unit.kernels.empty()) return std::nullopt;
  for (const Unit::Kernel& kernel : job.subject.unit.kernels) {
    if (kernel.spec.empty()) return std::nullopt;
    form = combine(form, kernel::form_of(kernel.spec));
  }
  return form;
}

void KernelVerifier::screen_candidates(std::span<Job* const> jobs, Clock::time_point until) {
  const auto start = Clock::now();
  struct Open {
    Job* job;
    std::vector<size_t> candidates;
  };
  // Where jobs are few the candidates of one are shared out.
  const auto workers = static_cast<size_t>(Team::shared().size());
  const size_t parts = (workers + jobs.size() - 1) / std::max<size_t>(jobs.size(), 1);
  std::vector<Open> open;
  for (Job* job : jobs)
    for (size_t part = 0; part < parts; ++part) {
      Open share{job, {}};
      for (size_t c = part; c < job->tried.size(); c += parts)
        if (job->kernels[c]) share.candidates.push_back(c);
      if (!share.candidates.empty()) open.push_back(std::move(share));
    }
  while (!open.empty()) {
    std::vector<Screening> checks;
    std::vector<bool> was_consistent;
    for (const Open& each : open) {
      Screening& check = checks.emplace_back(Screening{.subject = &each.job->subject, .candidates = {}});
      for (const size_t c : each.candidates) check.candidates.push_back(each.job->kernels[c].get());
      was_consistent.push_back(each.job->subject.options.consistent);
    }
    const auto results = screen(checks, static_cast<int>(workers), until);
    std::vector<Open> again;
    for (size_t i = 0; i < open.size(); ++i) {
      Job& job = *open[i].job;
      Open once_more{&job, {}};
      for (size_t k = 0; k < results[i].size(); ++k) {
        const size_t c = open[i].candidates[k];
        const Screened& result = results[i][k];
        if (!result.fault)
          job.screened[c] = result.is_finished;
        else if (!was_consistent[i] && (make_consistent(job) || job.subject.options.consistent))
          once_more.candidates.push_back(c);
        else
          reject(job, c, *result.fault, 0);
      }
      if (!once_more.candidates.empty()) again.push_back(std::move(once_more));
    }
    open = std::move(again);
  }
  phases_.verify_s += seconds_since(start);
}

void KernelVerifier::screen_leaders(std::span<Job* const> jobs, Clock::time_point until) {
  const auto start = Clock::now();
  const auto is_open = [](const Job* job) {
    const auto leader = job->leader();
    return leader && job->tried[*leader].measured_us > 0;
  };
  std::vector<Job*> open;
  std::ranges::copy_if(jobs, std::back_inserter(open), is_open);
  while (!open.empty()) {
    std::vector<Screening> checks;
    for (const Job* job : open)
      checks.push_back({.subject = &job->subject, .candidates = {job->kernels[*job->leader()].get()}});
    const auto results = screen(checks, Team::shared().size(), until);
    std::vector<Job*> again;
    for (size_t i = 0; i < open.size(); ++i) {
      Job& job = *open[i];
      const Screened& result = results[i][0];
      if (!result.is_finished) {
        for (Tried& tried : job.tried) tried.measured_us = 0;
      } else if (result.fault) {
        if (!make_consistent(job)) reject(job, *job.leader(), *result.fault, 0);
        if (is_open(&job)) again.push_back(&job);
      }
    }
    open = std::move(again);
  }
  phases_.verify_s += seconds_since(start);
}

void KernelVerifier::reject(Job& job, size_t c, const Fault& fault, size_t size) {
  job.tried[c].rejected = fault.message;
  job.kernels[c] = nullptr;
  report_fault(job, job.tried[c], fault, prepare_suite(job.subject, size));
}

/// Kernels that make what a job's leader is compared with.
struct KernelVerifier::Reference {
  std::optional<SplitContraction> parts;
  std::vector<KernelRequest> requests;  ///< the plainest; or the rest, three for Freivalds' check, and sums

  static constexpr size_t kFirstSum = 4;
  /// Kernels for the parts, if all were made. They outlive what is returned, as this does.
  [[nodiscard]] std::optional<SplitKernels> split(std::span<const backends::Kernel* const> made) const {
    if (!parts || made.size() != requests.size()) return std::nullopt;
    return SplitKernels{.parts = &*parts,
                        .sums = {made.begin() + kFirstSum, made.end()},
                        .rest = made[0],
                        .right_sums = made[1],
                        .left_sums = made[2],
                        .result_sums = made[3]};
  }
};
struct KernelVerifier::References {
  Reference whole;
  std::optional<Repetition> repetition;  ///< where the whole takes long, and less would do
  Reference first_positions;
};

/// Loops as the spec says them; where these take long, a contraction's parts if it has some.
KernelVerifier::Reference KernelVerifier::reference_for(const Job& job,
                                                        const kernel::KernelSpec& spec) const {
  constexpr double kLongerThanProofUs = 10e3;
  const auto plain = [&](double longest_us) {
    Reference reference;
    if (auto request = plainest_for(job, spec, longest_us)) reference.requests.push_back(std::move(*request));
    return reference;
  };
  Reference quick = plain(std::min(kLongerThanProofUs, longest_plain_us_));
  if (!quick.requests.empty()) return quick;
  Reference proof = proof_for(job, spec);
  return proof.parts ? proof : plain(longest_plain_us_);
}

/// Nothing where the spec is no contraction that can be taken apart, or has no further kernel of its sum.
KernelVerifier::Reference KernelVerifier::proof_for(const Job& job, const kernel::KernelSpec& spec) const {
  Reference reference;
  reference.parts = split_contraction(spec);
  if (!reference.parts) return reference;
  const Tried& leader = job.tried[*job.leader()];
  const auto add = [&](const kernel::KernelSpec& part, std::string_view family,
                       const std::vector<codegen::Candidate>& candidates, size_t most) {
    const codegen::Schedule& schedule = codegen::find_schedule(family);
    for (const codegen::Candidate& candidate : candidates) {
      if (most == 0) return;
      if (leader.schedule == family && leader.parameters == candidate.parameters) continue;
      --most;
      reference.requests.push_back(kernel_request(part, schedule, candidate.parameters, job.bucket));
    }
  };
  const SplitContraction& parts = *reference.parts;
  const codegen::Target& target = backend_.target();
  const std::array plain{&parts.rest, &parts.right_sums, &parts.left_sums, &parts.result_sums};
  for (const SplitContraction::Part* part : plain)
    add(part->spec, "nest", codegen::plain_loops(part->spec, job.bucket, target), 1);
  constexpr size_t kSums = 2;
  const kernel::KernelSpec& sum = parts.sum.spec;
  add(sum, "contract", codegen::find_schedule("contract").candidates(sum, job.bucket, target), kSums);
  if (reference.requests.size() <= Reference::kFirstSum) return {};
  return reference;
}

/// Of kernels that programs bring nobody knows what else they look at: these run on the usual inputs.
KernelVerifier::References KernelVerifier::references_for(const Job& job) const {
  constexpr double kLongUs = 1e3;
  References references{.whole = reference_for(job, job.request.spec)};
  const Reference& whole = references.whole;
  const auto is_short = [](const KernelRequest& plain) {
    return plain.implementation.predicted_us <= kLongUs;
  };
  const bool is_long = whole.parts ? !whole.parts->is_sum : !std::ranges::any_of(whole.requests, is_short);
  if (!is_long || codegen::find_schedule(job.tried[*job.leader()].schedule).foreign) return references;
  references.repetition = repetition_of(job.request.spec, job.subject.sizes[0]);
  if (references.repetition) references.first_positions = reference_for(job, references.repetition->spec);
  return references;
}

/// Full checks of the leading candidates of jobs. What they are compared with is compiled on the way.
std::vector<FullVerdict> KernelVerifier::verdicts_on_leaders(std::span<Job* const> jobs,
                                                             Clock::time_point until) {
  std::vector<References> references;
  std::vector<KernelRequest> requests;
  for (const Job* job : jobs) {
    const References& own = references.emplace_back(references_for(*job));
    for (const Reference* reference : {&own.whole, &own.first_positions})
      requests.insert(requests.end(), reference->requests.begin(), reference->requests.end());
  }
  const std::vector<KernelResult> made = KernelCache::of_process().make(backend_, cache_, requests, until);
  if (is_over(until)) return std::vector<FullVerdict>(jobs.size(), FullVerdict{.is_finished = false});
  std::vector<FullCheck> checks;
  size_t next = 0;
  for (size_t i = 0; i < jobs.size(); ++i) {
    const Job& job = *jobs[i];
    const size_t leader = *job.leader();
    FullCheck& check = checks.emplace_back(FullCheck{.subject = &job.subject,
                                                     .candidate = job.kernels[leader].get(),
                                                     .independent = {},
                                                     .split = {},
                                                     .first_positions = {},
                                                     .falls_with_sums = false,
                                                     .options = {.threads = backend_.target().threads}});
    const auto take_made = [&](const Reference& reference) {
      std::vector<const backends::Kernel*> kernels;
      for (size_t k = 0; k < reference.requests.size(); ++k)
        if (const auto& kernel = made[next++].kernel) kernels.push_back(kernel.get());
      return kernels;
    };
    const std::vector<const backends::Kernel*> whole = take_made(references[i].whole),
                                               first = take_made(references[i].first_positions);
    if (!references[i].whole.parts)
      check.independent = whole;
    else if ((check.split = references[i].whole.split(whole)))
      check.falls_with_sums = job.tried[leader].schedule == "contract";
    if (!first.empty()) {
      const Reference& of_first = references[i].first_positions;
      const FullCheck::FirstPositions positions{.repetition = &*references[i].repetition,
                                                .plain = of_first.parts ? nullptr : first[0],
                                                .split = of_first.split(first)};
      if (positions.plain != nullptr || positions.split) check.first_positions = positions;
    }
    const size_t plain_ones = check.independent.size();
    std::vector<size_t> others = others_of(job, leader);
    // Beside loops or sums one that is about as fast will do; without, another family is worth its time.
    const auto is_about_as_fast = [&](size_t other) {
      constexpr double kTimes = 1.5;
      const double us = job.tried[other].measured_us;
      return us > 0 && us <= kTimes * job.tried[leader].measured_us;
    };
    if (plain_ones > 0 || check.split) std::ranges::stable_partition(others, is_about_as_fast);
    for (const size_t other : others) check.independent.push_back(job.kernels[other].get());
    constexpr size_t kMost = 3;
    if (check.independent.size() > kMost) check.independent.resize(kMost);
    // Without plain loops or sums the first of the others is what the candidate is compared with.
    const size_t peer = plain_ones > 0 || check.split ? plain_ones : 1;
    if (peer < check.independent.size()) check.peer = peer;
    // Code of ours is one program for all tasks, and keeps nothing from one launch to the next but what is in
    // its workspace.
    check.options.soak = std::chrono::milliseconds(1);
    check.launch_us = job.tried[leader].measured_us;
    if (codegen::find_schedule(job.tried[leader].schedule).foreign) {
      check.options.launches = 1200;
      check.options.in_parts = false;
      check.options.soak = std::chrono::seconds(10);
    }
  }
  return verify_in_full(checks, Team::shared().size(), until);
}

std::vector<Job*> KernelVerifier::verify_leaders(std::span<Job* const> jobs, Clock::time_point until) {
  const auto start = Clock::now();
  std::vector<std::optional<uint64_t>> forms;
  for (Job* job : jobs) {
    forms.push_back(form_of(*job));
    job->subject.options.tiles =
        tile_lengths(job->tried[*job->leader()].parameters, backend_.target().lanes(4));
    job->subject.options.form_passed = forms.back() && passed_.contains(*forms.back());
  }
  const std::vector<FullVerdict> verdicts = verdicts_on_leaders(jobs, until);
  std::vector<Job*> open;
  for (size_t i = 0; i < jobs.size(); ++i) {
    Job& job = *jobs[i];
    const FullVerdict& verdict = verdicts[i];
    phases_.verified += verdict.is_finished ? 1 : 0;
    phases_.cases += verdict.cases;
    phases_.compared += verdict.compared;
    phases_.proven += verdict.proven;
    const bool a_reference_fell =
        std::ranges::any_of(verdict.fell, [](const auto& why) { return !why.empty(); });
    if (a_reference_fell)
      debug(2, "verify: a kernel failed as a reference ({}):\n{}", fmt::join(verdict.fell, ";"),
            job.request.spec.to_string());
    constexpr double kMany = 0.01;
    if (verdict.skipped_share > kMany)
      debug(
          1,
          "verify: {:.0f} % of the samples depend on comparisons within rounding error and are skipped:\n{}",
          100 * verdict.skipped_share, job.request.spec.to_string());
    if ((verdict.fault || a_reference_fell) && make_consistent(job)) {
      open.push_back(&job);
    } else if (verdict.fault) {
      Fault fault = *verdict.fault;
      for (const auto& [name, size] : job.subject.sizes[verdict.size])
        fault.message += fmt::format(", {} = {}", name, size);
      reject(job, *job.leader(), fault, verdict.size);
      open.push_back(&job);
    } else {
      job.verified = verdict.is_finished;
      if (forms[i] && job.verified && !job.subject.options.consistent) passed_.insert(*forms[i]);
    }
  }
  phases_.verify_s += seconds_since(start);
  return open;
}

/// A wrong kernel is a fault of ours, or of the program that brought it: it is reported, with a file to look into, and
/// never used.
void KernelVerifier::report_fault(const Job& job, const Tried& tried, const Fault& fault,
                                  const VerificationSuite& suite) {
  ++phases_.faults;
  const std::string where =
      write_replay({.kernels = {{job.request.spec, tried.schedule, tried.parameters, job.bucket}},
                    .suite = suite,
                    .fault = fault.message},
                   combine(job.key.high, hash_bytes(tried.schedule + codegen::to_string(tried.parameters))));
  if (codegen::find_schedule(tried.schedule).foreign)
    log_line(fmt::format("[verify] the program's kernel {} is wrong and not used: {}; {}", tried.schedule,
                         fault.message, where));
  else
    log_line(fmt::format("[verify] a kernel is wrong and not used ({} {}): {}. Please report this; {}",
                         tried.schedule, codegen::to_string(tried.parameters), fault.message, where));
}

}  // namespace luminal::search
