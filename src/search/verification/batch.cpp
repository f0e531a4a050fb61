#include "search/verification/batch.h"

#include <algorithm>
#include <functional>

#include "base/fail.h"
#include "base/stopwatch.h"
#include "search/verification/contain.h"
#include "search/verification/fault_record.h"
#include "search/verification/reference.h"
#include "search/verification/test_inputs.h"
#include "search/watch.h"

namespace luminal::search {
namespace {

constexpr std::chrono::milliseconds kTimeout{20'000};  // without progress
constexpr int64_t kMostOfOneSample = 1'000'000;  // operations; those of the first test case may take more

}  // namespace

VerificationSuite prepare_suite(const Subject& subject, size_t size) {
  SuiteOptions options = subject.options;
  if (size > 1) {  // the two before had it all
    options.kinds = {std::string(kInputKinds[0])};
    options.operations /= 25;
    options.one_name = true;
  }
  return prepare_suite(*subject.graph, subject.sizes[size], subject.unit, options);
}

std::vector<std::vector<Screened>> screen(std::span<const Screening> checks, int workers,
                                          std::chrono::steady_clock::time_point until) {
  std::vector<size_t> first;  // record of each check's first candidate
  size_t count = 0;
  for (const Screening& check : checks) {
    first.push_back(count);
    count += check.candidates.size();
  }
  const SharedBytes shared_records(static_cast<int64_t>(count * sizeof(FaultRecord)));
  const SharedBytes shared_running(static_cast<int64_t>(checks.size() * sizeof(std::atomic<size_t>)));
  const std::span<FaultRecord> records = shared_records.as<FaultRecord>();
  const auto running =
      shared_running.as<std::atomic<size_t>>();  // of each check: the candidate, counted from 1
  std::vector<size_t> open(checks.size());
  std::vector<bool> cut_short(checks.size(), false);
  for (size_t i = 0; i < open.size(); ++i) open[i] = i;
  while (!open.empty()) {
    const std::vector<std::string> troubles = run_contained_each(
        open.size(),
        [&](size_t item, Progress& progress) {
          const Screening& check = checks[open[item]];
          std::atomic<size_t>& begun = running[open[item]];
          Subject subject = *check.subject;
          subject.options.kinds = {std::string(kInputKinds[0])};
          subject.options.operations /= 10;
          subject.options.of_one_sample = kMostOfOneSample / 10;
          const VerificationSuite suite = prepare_suite(subject, 0);
          while (begun < check.candidates.size()) {
            const size_t candidate = begun++;
            CaseVerifier verifier(suite, std::span(check.candidates).subspan(candidate, 1), {.launches = 0},
                                  progress);
            const auto fault = verifier.add(suite.cases[0], nullptr, true, TaskPart{});
            if (fault) records[first[open[item]] + candidate].set(*fault);
          }
        },
        kTimeout, workers, containment_of(*checks[0].candidates[0]), until);
    std::vector<size_t> again;
    for (size_t item = 0; item < open.size(); ++item) {
      if (troubles[item].empty()) continue;
      cut_short[open[item]] = troubles[item] == kNoTimeLeft;
      if (cut_short[open[item]]) continue;
      const size_t begun = running[open[item]];
      if (begun == 0) fail("[verify] a process {} while it prepared test cases", troubles[item]);
      records[first[open[item]] + begun - 1].set(
          {.message = fmt::format("{} (1 thread)", troubles[item]), .data = "integers"});
      again.push_back(open[item]);
    }
    open = std::move(again);
  }
  std::vector<std::vector<Screened>> results(checks.size());
  for (size_t i = 0; i < checks.size(); ++i)
    for (size_t c = 0; c < checks[i].candidates.size(); ++c) {
      Screened& result = results[i].emplace_back(Screened{.fault = records[first[i] + c].get()});
      // The last one that was begun may not have come to its end.
      result.is_finished = result.fault || !cut_short[i] || c + 1 < running[i];
    }
  return results;
}

namespace {

/// Some kinds of inputs of a full check, and of the further sizes as many as each of the other parts.
struct Part {
  const FullCheck* check;
  size_t number, count;            ///< which part of how many
  std::vector<std::string> kinds;  ///< at the first two sizes; none: it has further sizes alone
  std::string first_kind;          ///< of the check: the only one at further sizes
  double takes_us = 0;             ///< about: all launches of the candidate, and memory for its tensors
  int threads = 1;                 ///< that no other part needs

  [[nodiscard]] bool has(size_t size) const {
    return size < kFirstSizes ? !kinds.empty() : size % count == number;
  }
  [[nodiscard]] std::vector<std::string> kinds_at(size_t size) const {
    return size < kFirstSizes ? kinds : std::vector{first_kind};
  }
  /// Whether it has the first kind, on which references are proven and kernels repeated.
  [[nodiscard]] bool leads_at(size_t size) const { return size >= kFirstSizes || number == 0; }
};

/// Whether one launch in one call takes longer than repetitions may.
bool is_long(const FullCheck& check) {
  return check.launch_us * check.options.threads > 1e3 * static_cast<double>(check.options.soak.count());
}

/// Of the tensors of a subject, at the first size.
int64_t bytes_of(const Subject& subject) {
  int64_t bytes = 0;
  for (const Unit::Tensor& tensor : subject.unit.tensors)
    bytes += size_bytes(tensor.type.dtype, element_count(tensor.type.dims).exec(subject.sizes[0]));
  return bytes;
}

/// In order, one at least for each of `count` parts, and `least` for the first where there are as many.
std::vector<std::vector<std::string>> share_out(std::span<const std::string> kinds, size_t count,
                                                size_t least) {
  std::vector<std::vector<std::string>> parts;
  for (; count > 0; --count) {
    const size_t equal = kinds.size() / count, most = kinds.size() - (count - 1);
    const size_t length = parts.empty() ? std::min(std::max(equal, least), most) : equal;
    parts.emplace_back(kinds.begin(), kinds.begin() + static_cast<std::ptrdiff_t>(length));
    kinds = kinds.subspan(length);
  }
  return parts;
}

/// Kinds and sizes are shared out where checks are fewer than processors, where each of them takes long, and where a check
/// takes so long that the others cannot balance it; otherwise what the first kind tells is worth more. The longest parts
/// begin first, so that none is waited for alone at the end, and memory that the largest took serves the others.
std::vector<Part> parts_of(std::span<const FullCheck> checks, int workers) {
  // In launches, where further kinds and sizes run a part of the tasks.
  constexpr double kFirstKind = 2, kFurtherKinds = 0.5;
  constexpr double kSizeUs = 300;  // of a further size beside its launches, where inputs are small
  constexpr double kMuch = 0.25;   // of what each processor has to do
  const auto processors = static_cast<size_t>(workers);
  const size_t most = std::max<size_t>(1, processors / std::max<size_t>(checks.size(), 1));
  const auto launches_us = [](const FullCheck& check, double launches) {
    return launches * check.launch_us * check.options.threads;
  };
  const auto memory_us = [](const FullCheck& check) {
    return 1e6 * static_cast<double>(bytes_of(*check.subject)) / kFreshBytesPerS;
  };
  const auto sizes_us = [&](const FullCheck& check) {
    const size_t sizes = check.subject->sizes.size();
    return static_cast<double>(sizes - std::min(sizes, kFirstSizes)) *
           (kSizeUs + launches_us(check, kFurtherKinds));
  };
  double all_us = 0;
  for (const FullCheck& check : checks)
    all_us += launches_us(check, kFirstKind + kFurtherKinds) + memory_us(check) + sizes_us(check);
  std::vector<Part> parts;
  for (const FullCheck& check : checks) {
    const Subject& subject = *check.subject;
    const std::vector<std::string> kinds =
        input_kinds(*subject.graph, subject.sizes[0], subject.unit, subject.options);
    const bool every_kind_is_long = is_long(check) && !check.options.in_parts;
    // Each part needs memory of its own.
    const auto shares_of = [&](double us) {
      return us > memory_us(check) && us * workers > kMuch * all_us ? std::max<size_t>(most, 2) : most;
    };
    const double kinds_us = launches_us(check, kFirstKind + kFurtherKinds), further_us = sizes_us(check);
    const size_t shares = every_kind_is_long ? processors : is_long(check) ? shares_of(kinds_us) : most;
    // Freivalds' check belongs to all kinds together.
    const size_t of_kinds = check.split ? 1 : std::min(shares, kinds.size());
    const size_t count = further_us > 0 ? std::max(of_kinds, shares_of(further_us)) : of_kinds;
    // The first part has a kind for each way to deal tasks out, so that no kind has to run once more for one.
    constexpr size_t kWays = 3;
    auto shared_out = share_out(kinds, of_kinds, every_kind_is_long ? 1 : kWays);
    shared_out.resize(count);
    for (size_t number = 0; number < count; ++number) {
      Part& part = parts.emplace_back(Part{.check = &check,
                                           .number = number,
                                           .count = count,
                                           .kinds = shared_out[number],
                                           .first_kind = kinds[0]});
      const double launches = every_kind_is_long ? static_cast<double>(part.kinds.size())
                              : number == 0      ? kFirstKind
                                                 : kFurtherKinds;
      part.takes_us =
          launches_us(check, launches) + memory_us(check) + further_us / static_cast<double>(count);
    }
  }
  std::ranges::stable_sort(parts, std::greater<>(), &Part::takes_us);
  if (parts.size() == 1) parts[0].threads = workers;
  return parts;
}

/// At one size, one kind of inputs after the other: memory that is taken once serves all of them.
void verify_at_size(const Part& part, LongestReference& longest, FullRecord& record, Progress& progress) {
  const FullCheck& check = *part.check;
  const bool leads = part.leads_at(record.size), is_further_size = record.size >= kFirstSizes;
  record.tried_size = record.size;
  ReferenceMaker references(check, record.size, leads, part.threads, record, progress);
  VerifyOptions options = check.options;
  if (is_further_size || !leads) options.launches = 1;
  // On common inputs: the other parts have kinds that leave results open. Of many sizes, where the code is one program for
  // all tasks, at every fifth: an odd number, so that lengths of every residue of powers of two are among these.
  constexpr size_t kOneIn = 5;
  const bool is_turn = !is_further_size || !options.in_parts || record.size % kOneIn == 0;
  options.deals_out = leads && is_turn;
  options.is_long = is_long(check);
  if (is_further_size && options.in_parts && options.is_long) options.only_turn = record.size / kOneIn;
  std::optional<CaseVerifier> candidate;
  std::vector<int> unsampled;  // on further kinds
  const std::vector<std::string> kinds = part.kinds_at(record.size);
  for (size_t k = 0; k < kinds.size() && !record.fault.get(); ++k) {
    record.running = kNobody;
    const bool is_further = k > 0 || !leads;
    Subject subject = on_kind(check, kinds[k], !is_further, references.periods());
    if (is_further) {
      subject.options.of_one_sample = kMostOfOneSample;
      subject.options.unsampled = unsampled;
    }
    VerificationSuite suite = prepare_suite(subject, record.size);
    if (k == 0)
      for (const VerificationCase::Expectation& e : suite.cases[0].expectations)
        if (e.positions.size() == 1 && e.operations > kMostOfOneSample) unsampled.push_back(e.tensor);
    ++progress;
    record.skipped_share = std::max(record.skipped_share, suite.skipped_share());
    const std::vector<TensorData>* reference = is_further_size ? longest.beginning_for(suite) : nullptr;
    if (record.fault.get()) return;
    const bool is_own = reference == nullptr;
    if (!candidate) {
      // A sum that is not known from another size is proven whole.
      if (!is_turn && (!check.split || !is_own)) options.only_part = record.size;
      options.keep_outputs = is_own && references.is_sumless();
      candidate.emplace(suite, std::span(&check.candidate, 1), options, progress);
    }
    candidate->lend_memory();
    if (is_own)
      reference = references.make(suite, k == 0, candidate->is_long(), candidate->next_part(suite.cases[0]));
    if (record.fault.get()) return;
    if (references.is_slow()) candidate->spare_reference();
    if (reference) accept_beyond_laws(suite.cases[0], *reference);
    record.running = kCandidate;
    ++record.cases;
    auto fault = candidate->add(suite.cases[0], reference, k + 1 == kinds.size());
    if (!fault && is_own && k == 0 && references.is_sumless()) references.prove(suite, candidate->made());
    if (fault && fault->is_by_reference && references.is_by_peer()) {  // one of the two is wrong
      reference = references.make_without_peer(suite);
      record.running = kCandidate;
      fault = candidate->compare(suite.cases[0], reference);
      if (!fault) fault = candidate->add(suite.cases[0], reference, k + 1 == kinds.size());
    }
    if (fault) record.fault.set(*fault);
  }
  if (candidate) record.compared += candidate->compared();
}

void verify_part(const Part& part, FullRecord& record, Progress& progress) {
  LongestReference longest(*part.check, part.first_kind, part.threads, record, progress);
  while (record.size < part.check->subject->sizes.size()) {
    if (!part.has(record.size)) {
      ++record.size;
      continue;
    }
    try {
      verify_at_size(part, longest, record, progress);
      if (record.fault.get()) return;
      ++record.size;
      record.next_sum = 0;
    } catch (const ReferenceMaker::BeginAnew&) {
      ++progress;
    }
  }
}

}  // namespace

std::vector<FullVerdict> verify_in_full(std::span<const FullCheck> checks, int workers,
                                        std::chrono::steady_clock::time_point until) {
  for (const FullCheck& check : checks)
    LUMINAL_CHECK(check.independent.size() <= kMostIndependent, "{} independent kernels",
                  check.independent.size());
  const std::vector<Part> parts = parts_of(checks, workers);
  const SharedBytes shared(static_cast<int64_t>(parts.size() * sizeof(FullRecord)));
  const std::span<FullRecord> records = shared.as<FullRecord>();
  std::vector<bool> cut_short(parts.size(), false);
  std::vector<size_t> open(parts.size());
  for (size_t i = 0; i < open.size(); ++i) open[i] = i;
  while (!open.empty()) {
    const std::vector<std::string> troubles = run_contained_each(
        open.size(),
        [&](size_t item, Progress& progress) {
          verify_part(parts[open[item]], records[open[item]], progress);
        },
        kTimeout, workers, containment_of(*checks[0].candidate), until);
    std::vector<size_t> again;
    for (size_t item = 0; item < open.size(); ++item) {
      if (troubles[item].empty()) continue;
      if (troubles[item] == kNoTimeLeft) {
        cut_short[open[item]] = true;
        continue;
      }
      FullRecord& record = records[open[item]];
      if (record.running == kNobody)
        fail("[verify] a process {} while it prepared test cases", troubles[item]);
      if (record.running == kCandidate) {
        record.fault.set(
            {.message = troubles[item], .data = parts[open[item]].kinds_at(record.tried_size)[0]});
        continue;
      }
      if (record.running == kFirstPositions)
        record.needs_whole = true;
      else
        record.fell[record.running - kIndependent].set(troubles[item]);
      again.push_back(open[item]);
    }
    open = std::move(again);
  }
  std::vector<FullVerdict> verdicts(checks.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    const FullCheck& check = *parts[i].check;
    const FullRecord& record = records[i];
    FullVerdict& verdict = verdicts[static_cast<size_t>(&check - checks.data())];
    if (std::optional<Fault> fault = record.fault.get(); fault && !verdict.fault) {
      verdict.fault = std::move(fault);
      verdict.size = record.tried_size;
    }
    if (cut_short[i]) verdict.is_finished = false;
    verdict.cases += record.cases;
    verdict.compared += record.compared;
    verdict.proven += record.proven;
    verdict.skipped_share = std::max(verdict.skipped_share, record.skipped_share);
    verdict.fell.resize(check.independent.size());
    for (size_t k = 0; k < check.independent.size(); ++k)
      if (verdict.fell[k].empty()) verdict.fell[k] = record.fell[k].get();
  }
  return verdicts;
}

}  // namespace luminal::search
