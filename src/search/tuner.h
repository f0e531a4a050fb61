#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codegen/schedule.h"
#include "luminal/error.h"
#include "search/cache.h"
#include "search/examine.h"
#include "search/kernel_cache.h"
#include "search/race.h"

/// From a spec to the kernel that runs: candidates from all schedules, compiled, raced, verified, remembered.
namespace luminal::search {

/// What became of one candidate, for the report and for `luminal explain`.
struct Tried {
  std::string schedule;
  codegen::Parameters parameters;
  double predicted_us = 0;
  double measured_us = 0;  ///< 0: not timed
  double compile_ms = 0;   ///< 0: taken from the cache
  std::string rejected;    ///< why it is out: "slower", the fault that verification found; "" for the winner
};

struct Tuned {
  std::string schedule;
  codegen::Parameters parameters;
  std::shared_ptr<const backends::Kernel> kernel;
  double predicted_us = 0;
  double measured_us = 0;  ///< 0: never timed (no time was left)
  bool from_cache = false;
  bool verified = false;     ///< here or, in this cache, before
  std::vector<Tried> tried;  ///< best first; the winner is the first
  size_t job = 0;            ///< the tuner's own number
};

/// A spec to be tuned, and how to judge it.
struct TuneRequest {
  kernel::KernelSpec spec;
  /// The spec between values of the user's graph, as one kernel; none if its tensors have no names there.
  /// Then the candidates are compared with the plainest schedule, and the plan as a whole is judged later.
  std::optional<Unit> unit;
  double weight = 1;  ///< how often it runs in the plan: the heaviest are tuned first
};

struct TunerOptions {
  int candidates = 8;  ///< compiled per spec, at most
  RaceOptions race;
  Clock::time_point deadline = Clock::time_point::max();   ///< nothing is timed after it
  Clock::time_point verify_by = Clock::time_point::max();  ///< no kernel's full judgement begins after it
  bool strict = false;                                     ///< see ExamOptions::strict
  uint64_t seed = 0;
  double longest_plain_us = 150e3;  ///< of one run of the plain loops that a kernel is compared with
};

/// Not one candidate of a spec passed: what it computes is not what the user's nodes say, or all of them are
/// wrong.
class NoKernelStands : public InternalError {
 public:
  using InternalError::InternalError;
};

class Tuner {
 public:
  /// All of them outlive the tuner. The graph is the user's, for verification.
  Tuner(backends::Device& backend, Cache& cache, const Graph& graph, TunerOptions options);
  ~Tuner();

  /// One winner for each request, in their order. Compiles on all cores, times one at a time. What is known
  /// from the cache is not measured again. After the deadline nothing more is timed: the model decides for
  /// the rest. Errors: NoKernelStands if no candidate of a spec does (the plainest one included).
  [[nodiscard]] std::vector<Tuned> tune(std::span<const TuneRequest> requests, const codegen::Bucket& bucket);
  /// Whether the cache has a choice for each of them.
  [[nodiscard]] bool remembers(std::span<const TuneRequest> requests, const codegen::Bucket& bucket);
  /// Judges winners in full, those of the plan that is going to run; a winner that falls is replaced by the
  /// next best; a remembered one that falls is forgotten and its spec tuned anew. What passes is remembered
  /// as verified; what there is no time for stays unverified. Errors as tune.
  void confirm(std::span<Tuned* const> winners);
  /// The model's own choice instead of the fastest, if it stood so far; nothing for remembered choices.
  void take_models_choice(Tuned& winner);

  struct Phases {
    double compile_s = 0, measure_s = 0, verify_s = 0;
    int compiled = 0, loaded = 0, timed = 0, verified = 0, faults = 0;
    int64_t compared = 0;  ///< outputs, with those of an independent kernel
    int64_t proven = 0;    ///< elements of large sums of products, by Freivalds' check
  };
  [[nodiscard]] const Phases& phases() const { return phases_; }

 private:
  struct Job;
  struct Reference;
  void find_candidates(Job& job);
  [[nodiscard]] KernelRequest request_of(const kernel::KernelSpec& spec, const codegen::Schedule& schedule,
                                         const codegen::Parameters& parameters) const;
  [[nodiscard]] KernelRequest request_of(const Job& job, size_t candidate) const;
  void take(Job& job, size_t candidate, const KernelResult& made);
  void compile(std::vector<Job*> jobs);
  bool compile_left_out(Job& job);
  void run_race(Job& job);
  [[nodiscard]] static std::vector<size_t> by_merit(const Job& job);
  [[nodiscard]] static std::optional<size_t> leader_of(const Job& job);
  void choose(Job& job, Tuned& result, bool judged);
  static void describe(const Job& job, std::span<const size_t> order, size_t winner, Tuned& result);
  void remember(const Job& job, size_t winner, bool judged);
  void forget(Job& job);
  void start_anew(Job& job);
  void find_more(Job& job);
  [[nodiscard]] static bool make_consistent(Job& job);
  [[nodiscard]] std::optional<KernelRequest> plainest_for(const Job& job, size_t candidate) const;
  [[nodiscard]] Reference reference_for(const Job& job) const;
  [[nodiscard]] static std::vector<size_t> others_of(const Job& job, size_t candidate);
  void keep_plausible(std::span<Job* const> jobs);
  [[nodiscard]] std::vector<FullVerdict> check_leaders(std::span<Job* const> jobs);
  void settle(std::vector<Job*> open);
  void reject(Job& job, size_t candidate, const Fault& fault, size_t size);
  void tell_fault(const Job& job, const Tried& tried, const Fault& fault, const Exam& exam);

  backends::Device& backend_;
  Cache& cache_;
  const Graph& graph_;
  TunerOptions options_;
  codegen::Bucket bucket_;
  DimMap sizes_;  ///< the bucket's upper end, where kernels are timed
  Phases phases_;
  std::vector<std::unique_ptr<Job>> jobs_;
};

/// A target in keys of the cache: all that decides how fast its code is.
[[nodiscard]] std::string text_of(const codegen::Target& target);
/// The cache's key of a spec's choice: changes with everything the choice depends on.
[[nodiscard]] CacheKey choice_key(const kernel::KernelSpec& spec, const codegen::Bucket& bucket,
                                  const codegen::Target& target);

}  // namespace luminal::search
