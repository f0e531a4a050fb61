#include "search/examine.h"

#include <algorithm>

#include "base/fail.h"
#include "search/contain.h"
#include "search/fault_record.h"

namespace luminal::search {
namespace {

constexpr std::chrono::milliseconds kTimeout{20'000};  // without progress

}  // namespace

Exam prepare_exam(const Subject& subject, size_t size) {
  ExamOptions options = subject.options;
  if (size > 1) {  // the two before had it all
    options.first_only = true;
    options.operations /= 10;
  }
  return prepare_exam(*subject.graph, subject.sizes[size], subject.unit, options);
}

std::vector<std::vector<std::optional<Fault>>> judge_quickly(std::span<const QuickCheck> checks,
                                                             int workers) {
  std::vector<size_t> first;  // record of each check's first candidate
  size_t count = 0;
  for (const QuickCheck& check : checks) {
    first.push_back(count);
    count += check.candidates.size();
  }
  const SharedBytes shared_records(static_cast<int64_t>(count * sizeof(FaultRecord)));
  const SharedBytes shared_running(static_cast<int64_t>(checks.size() * sizeof(std::atomic<size_t>)));
  const std::span<FaultRecord> records = shared_records.as<FaultRecord>();
  const auto running =
      shared_running.as<std::atomic<size_t>>();  // of each check: the candidate, counted from 1
  std::vector<size_t> open(checks.size());
  for (size_t i = 0; i < open.size(); ++i) open[i] = i;
  while (!open.empty()) {
    const std::vector<std::string> troubles = run_contained_each(
        open.size(),
        [&](size_t item, Progress& progress) {
          const QuickCheck& check = checks[open[item]];
          std::atomic<size_t>& begun = running[open[item]];
          Subject subject = *check.subject;
          subject.options.first_only = true;
          subject.options.operations /= 10;
          const Exam exam = prepare_exam(subject, 0);
          while (begun < check.candidates.size()) {
            const size_t candidate = begun++;
            const Verdict verdict = judge_uncontained(exam, std::span(check.candidates).subspan(candidate, 1),
                                                      {.launches = 0}, progress);
            if (verdict.fault) records[first[open[item]] + candidate].set(*verdict.fault);
          }
        },
        kTimeout, workers, containment_of(*checks[0].candidates[0]));
    std::vector<size_t> again;
    for (size_t item = 0; item < open.size(); ++item) {
      if (troubles[item].empty()) continue;
      const size_t begun = running[open[item]];
      if (begun == 0) fail("[verify] an exam {} while it was prepared", troubles[item]);
      records[first[open[item]] + begun - 1].set(
          {.message = fmt::format("{} (1 thread)", troubles[item]), .data = "integers"});
      again.push_back(open[item]);
    }
    open = std::move(again);
  }
  std::vector<std::vector<std::optional<Fault>>> faults(checks.size());
  for (size_t i = 0; i < checks.size(); ++i)
    for (size_t c = 0; c < checks[i].candidates.size(); ++c) faults[i].push_back(records[first[i] + c].get());
  return faults;
}

namespace {

constexpr size_t kMostIndependent = 4;

/// A full check on its way out of a contained process.
struct FullRecord {
  std::atomic<int> running;  ///< kNobody, the candidate, or an independent kernel from kIndependent on
  size_t size;
  int64_t compared, proven;
  double skipped_share;
  FaultRecord fault;
  SharedText<500> fell[kMostIndependent];
};
enum Runner : int { kNobody = 0, kCandidate = 1, kIndependent = 2 };

/// What the first independent kernel makes of the exam that has not fallen and does not fall.
std::optional<Verdict> make_reference(const FullCheck& check, const Exam& exam, FullRecord& record,
                                      Progress& progress) {
  for (size_t k = 0; k < check.independent.size(); ++k) {
    if (*record.fell[k].get() != '\0') continue;
    record.running = kIndependent + static_cast<int>(k);
    Verdict verdict = judge_uncontained(exam, std::span(check.independent).subspan(k, 1),
                                        {.keep_outputs = true, .launches = 0}, progress);
    if (!verdict.fault) return verdict;
    record.fell[k].set(verdict.fault->message);
  }
  return std::nullopt;
}

/// What the first sum makes of the exam that is proven, and the rest of the contraction. A fault: all of them
/// are wrong. None: nothing is proven, and nothing is known to be wrong.
std::optional<Verdict> make_split_reference(const FullCheck& check, const Exam& exam, FullRecord& record,
                                            Progress& progress) {
  if (!check.split) return std::nullopt;
  std::optional<Fault> fault;
  for (size_t k = 0; k < check.split->sums.size(); ++k) {
    SplitVerdict split = judge_split(exam, *check.split, k, progress);
    if (split.is_proven) {
      record.proven += split.proven;
      return std::move(split.verdict);
    }
    if (!split.verdict.fault) return std::nullopt;
    fault = std::move(split.verdict.fault);
  }
  if (!fault || !check.falls_with_sums) return std::nullopt;
  fault->message = "no kernel of its sum is right: " + fault->message;
  return Verdict{.fault = std::move(fault), .outputs = {}};
}

void judge_in_full(const FullCheck& check, FullRecord& record, Progress& progress) {
  for (; record.size < check.subject->sizes.size(); ++record.size) {
    record.running = kNobody;
    Exam exam = prepare_exam(*check.subject, record.size);
    ++progress;
    record.skipped_share = std::max(record.skipped_share, exam.skipped_share());
    record.running = kCandidate;  // and its like
    std::optional<Verdict> reference = make_split_reference(check, exam, record, progress);
    if (reference && reference->fault) {
      record.fault.set(*reference->fault);
      return;
    }
    if (!reference) reference = make_reference(check, exam, record, progress);
    if (reference) accept_beyond_laws(exam, *reference);
    record.running = kCandidate;
    JudgeOptions options = check.options;
    options.reference = reference ? &*reference : nullptr;
    if (record.size > 1) options.launches = 1;
    const Verdict verdict = judge_uncontained(exam, {&check.candidate, 1}, options, progress);
    record.compared += verdict.compared;
    if (!verdict.fault) continue;
    record.fault.set(*verdict.fault);
    return;
  }
}

}  // namespace

std::vector<FullVerdict> judge_in_full(std::span<const FullCheck> checks, int workers) {
  const SharedBytes shared(static_cast<int64_t>(checks.size() * sizeof(FullRecord)));
  const std::span<FullRecord> records = shared.as<FullRecord>();
  std::vector<size_t> open(checks.size());
  for (size_t i = 0; i < open.size(); ++i) {
    LUMINAL_CHECK(checks[i].independent.size() <= kMostIndependent, "{} independent kernels",
                  checks[i].independent.size());
    open[i] = i;
  }
  while (!open.empty()) {
    const std::vector<std::string> troubles = run_contained_each(
        open.size(),
        [&](size_t item, Progress& progress) {
          judge_in_full(checks[open[item]], records[open[item]], progress);
        },
        kTimeout, workers, containment_of(*checks[0].candidate));
    std::vector<size_t> again;
    for (size_t item = 0; item < open.size(); ++item) {
      if (troubles[item].empty()) continue;
      FullRecord& record = records[open[item]];
      if (record.running == kNobody) fail("[verify] an exam {} while it was prepared", troubles[item]);
      if (record.running == kCandidate) {
        record.fault.set({.message = troubles[item], .data = "integers"});
        continue;
      }
      record.fell[record.running - kIndependent].set(troubles[item]);
      again.push_back(open[item]);
    }
    open = std::move(again);
  }
  std::vector<FullVerdict> verdicts;
  for (size_t i = 0; i < checks.size(); ++i) {
    const FullRecord& record = records[i];
    FullVerdict& verdict = verdicts.emplace_back();
    verdict.fault = record.fault.get();
    verdict.size = record.size;
    verdict.compared = record.compared;
    verdict.proven = record.proven;
    verdict.skipped_share = record.skipped_share;
    for (size_t k = 0; k < checks[i].independent.size(); ++k) verdict.fell.emplace_back(record.fell[k].get());
  }
  return verdicts;
}

}  // namespace luminal::search
