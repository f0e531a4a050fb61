#pragma once
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

#include "backends/device.h"
#include "search/tuning/job.h"
#include "search/tuning/race.h"

namespace luminal::search {

/// What tuning did and how long it took.
struct TuningPhases {
  double compile_s = 0, measure_s = 0, verify_s = 0;
  int compiled = 0, loaded = 0, timed = 0, verified = 0, faults = 0;
  int64_t cases = 0;     ///< that the kernels to be verified ran
  int64_t compared = 0;  ///< outputs, with those of an independent kernel
  int64_t proven = 0;    ///< elements of large sums of products, by Freivalds' check
};

/// Forms of kernels (KernelVerifier::form_of) of which one has passed on all kinds of inputs.
using PassedForms = std::unordered_set<uint64_t>;

/// Which kernels verify which, and what becomes of those that fall.
class KernelVerifier {
 public:
  /// All outlive the verifier. `longest_plain_us`: of one run of the plain loops that a kernel is compared
  /// with. `passed` gets the forms that pass.
  KernelVerifier(backends::Device& backend, Cache& cache, double longest_plain_us, PassedForms& passed,
                 TuningPhases& phases)
      : backend_(backend),
        cache_(cache),
        longest_plain_us_(longest_plain_us),
        passed_(passed),
        phases_(phases) {}

  /// Keeps what is plainly wrong out of the race: what passes is `screened`.
  void screen_candidates(std::span<Job* const> jobs, Clock::time_point until);
  /// Looks briefly at the fastest candidate of each job that was timed, and at the next one where it is
  /// plainly wrong. Where time runs out meanwhile, a job counts as not timed.
  void screen_leaders(std::span<Job* const> jobs, Clock::time_point until);
  /// Verifies the leading candidates of jobs in full: those that pass are `verified`. Returns the jobs whose
  /// leader fell, which may have another one, and those to be verified once more on other inputs.
  [[nodiscard]] std::vector<Job*> verify_leaders(std::span<Job* const> jobs, Clock::time_point until);
  /// Of a job's leader: kernels of the same form are of one family and do the same operations at other sizes. When one
  /// of them has passed on all kinds of inputs, the others are verified on fewer (SuiteOptions::form_passed). None for
  /// user kernels.
  [[nodiscard]] static std::optional<uint64_t> form_of(const Job& job);
  /// A candidate is out; `size`, of the job's subject, is where the fault is.
  void reject(Job& job, size_t candidate, const Fault& fault, size_t size);

 private:
  struct Reference;
  struct References;
  [[nodiscard]] std::optional<KernelRequest> plainest_for(const Job& job, const kernel::KernelSpec& spec,
                                                          double longest_us) const;
  [[nodiscard]] Reference reference_for(const Job& job, const kernel::KernelSpec& spec) const;
  [[nodiscard]] Reference proof_for(const Job& job, const kernel::KernelSpec& spec) const;
  [[nodiscard]] References references_for(const Job& job) const;
  [[nodiscard]] std::vector<FullVerdict> verdicts_on_leaders(std::span<Job* const> jobs,
                                                             Clock::time_point until);
  void report_fault(const Job& job, const Tried& tried, const Fault& fault, const VerificationSuite& suite);

  backends::Device& backend_;
  Cache& cache_;
  double longest_plain_us_;
  PassedForms& passed_;
  TuningPhases& phases_;
};

}  // namespace luminal::search
