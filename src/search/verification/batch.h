#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "search/verification/freivalds.h"
#include "search/verification/repetition.h"

/// Kernels for many specs verified side by side: suites are prepared and kernels run in contained processes, as
/// many at a time as there are processors, and only verdicts come back.
namespace luminal::search {

/// A spec between values of the user's graph, at the sizes where its kernels run.
struct Subject {
  const Graph* graph = nullptr;
  Unit unit;
  /// All kinds of inputs at the first two, one kind with a tenth of the samples at the others.
  std::vector<DimMap> sizes;
  SuiteOptions options;
};
[[nodiscard]] VerificationSuite prepare_suite(const Subject& subject, size_t size);

struct Screening {
  const Subject* subject = nullptr;
  std::vector<const backends::Kernel*> candidates;
};
struct Screened {
  std::optional<Fault> fault;
  bool is_finished = true;  ///< there was time for it
};
/// A part of the tasks on the first test case at the first size, with a tenth of the samples, for each candidate of
/// each check: what is wrong with it. Ends at `until`.
[[nodiscard]] std::vector<std::vector<Screened>> screen(
    std::span<const Screening> checks, int workers,
    std::chrono::steady_clock::time_point until = kNoDeadline);

struct FullCheck {
  const Subject* subject = nullptr;
  const backends::Kernel* candidate = nullptr;
  /// Kernels for the same spec; the first that is right is what the candidate is compared with.
  std::vector<const backends::Kernel*> independent;
  /// Of the independent kernels, a fast one: where launches are long, or the candidate is nothing but a sum and proven
  /// itself, it stands in for plain loops and sums on further inputs, until it differs from the candidate.
  std::optional<size_t> peer;
  /// Where no plain kernel is fast enough for a contraction: its parts, asked before the independent kernels.
  std::optional<SplitKernels> split;
  /// What inputs are that repeat, of which the first positions are the measure on the first test case: by a plain kernel, or
  /// a contraction's parts. Where these fail the others above are asked.
  struct FirstPositions {
    const Repetition* repetition = nullptr;
    const backends::Kernel* plain = nullptr;
    std::optional<SplitKernels> split;
  };
  std::optional<FirstPositions> first_positions;
  /// The candidate is made as these sums are: it falls with all of them.
  bool falls_with_sums = false;
  VerifyOptions options;  ///< without a reference
  double launch_us = 0;   ///< of the candidate, as measured: long checks begin first; 0 if nobody knows
};
struct FullVerdict {
  std::optional<Fault> fault;
  bool is_finished = true;  ///< there was time for all of it
  size_t size = 0;          ///< where the fault is
  std::vector<std::string>
      fell;                  ///< by independent kernel: what is wrong with it; "" if nothing or not tried
  int64_t cases = 0;         ///< that the candidate ran: kinds of inputs at each size
  int64_t compared = 0;      ///< outputs, with those of an independent kernel
  int64_t proven = 0;        ///< elements of sums, by Freivalds' check
  double skipped_share = 0;  ///< see VerificationSuite::skipped_share; the greatest
};
/// At every size, beside an independent kernel. Ends at `until`.
[[nodiscard]] std::vector<FullVerdict> verify_in_full(
    std::span<const FullCheck> checks, int workers,
    std::chrono::steady_clock::time_point until = kNoDeadline);

}  // namespace luminal::search
