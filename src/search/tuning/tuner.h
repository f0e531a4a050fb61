#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codegen/schedule.h"
#include "luminal/error.h"
#include "search/cache/cache.h"
#include "search/cache/kernel_cache.h"
#include "search/tuning/job.h"
#include "search/tuning/kernel_verifier.h"
#include "search/tuning/race.h"
#include "search/tuning/timing.h"
#include "search/verification/derive.h"

/// From a spec to the kernel that runs: candidates from all schedules, compiled, raced, verified, remembered.
namespace luminal::search {

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

struct TunerOptions {
  int candidates = 6;  ///< compiled per spec, at most
  RaceOptions race;
  Clock::time_point deadline = Clock::time_point::max();   ///< nothing is timed after it
  Clock::time_point verify_by = Clock::time_point::max();  ///< no kernel's full judgement begins after it
  bool strict = false;                                     ///< see SuiteOptions::strict
  uint64_t seed = 0;                                       ///< of inputs, and of the order in a race
  std::vector<DimMap> sizes;    ///< where candidates race; none: at the bucket's greatest sizes
  std::string key;              ///< of choices that are made with other data or sizes than usual; "" as usual
  std::function<void()> ready;  ///< called once, when each spec of the first `tune` has a kernel
  double longest_plain_us = 150e3;  ///< of one run of the plain loops that a kernel is compared with
  /// Those of earlier compiles of an executable too: a form that passed for one bucket need not show it all again for the
  /// next.
  std::shared_ptr<PassedForms> passed_forms = std::make_shared<PassedForms>();
};

/// Not one candidate of a spec passed: what it computes is not what the user's nodes say, or all of them are
/// wrong.
class NoKernelPasses : public InternalError {
 public:
  NoKernelPasses(const std::string& message, kernel::KernelSpec wrong)
      : InternalError(message), spec(std::move(wrong)) {}
  kernel::KernelSpec spec;
};

class Tuner {
 public:
  /// All of them outlive the tuner. The graph is the user's, for verification.
  Tuner(backends::Device& backend, Cache& cache, const Graph& graph, TunerOptions options);
  Tuner(const Tuner&) = delete;
  Tuner& operator=(const Tuner&) = delete;

  /// One winner for each request, in their order. Compiles on all cores, times one at a time. What is known
  /// from the cache is not measured again. After the deadline nothing more is timed: the model decides for
  /// the rest. Errors: NoKernelPasses if no candidate of a spec does (the plainest one included).
  [[nodiscard]] std::vector<Tuned> tune(std::span<const TuneRequest> requests, const codegen::Bucket& bucket);
  /// Data of values of the graph, on which candidates race from now on, and ranges in which they are verified.
  void set_values(Leaves values, std::shared_ptr<const ValueRanges> ranges);
  /// Whether the cache has a choice for each of them.
  [[nodiscard]] bool remembers(std::span<const TuneRequest> requests, const codegen::Bucket& bucket);
  /// Judges winners in full, those of the plan that is going to run; a winner that falls is replaced by the
  /// next best; a remembered one that falls is forgotten and its spec tuned anew. What passes is remembered
  /// as verified; what there is no time for stays unverified. Errors as tune.
  void confirm(std::span<Tuned* const> winners);
  /// The model's own choice instead of the fastest, if it stood so far; nothing for remembered choices.
  void take_models_choice(Tuned& winner);
  /// What Fast mode would take, without a change to what is remembered; `winner` itself where nothing else stands.
  [[nodiscard]] Tuned models_choice(const Tuned& winner) const;

  [[nodiscard]] const TuningPhases& phases() const { return phases_; }

 private:
  [[nodiscard]] bool has_deadline() const { return options_.deadline != Clock::time_point::max(); }
  void add_candidates(Job& job) const;
  void take(Job& job, size_t candidate, const KernelResult& made);
  void compile(std::vector<Job*> jobs);
  bool compile_left_out(Job& job);
  void race(std::span<Job* const> jobs);
  void run_races(std::span<Job* const> jobs);
  struct Race;
  [[nodiscard]] std::vector<Job*> race_at(size_t size, std::span<Race> races);
  void note(const Race& race);
  [[nodiscard]] SlotData slot_data(const Job& job, const DimMap& sizes) const;
  [[nodiscard]] CacheKey key_of(const kernel::KernelSpec& spec, const codegen::Bucket& bucket) const;
  struct ByForm {
    std::vector<Tuned*> order;
    size_t firsts = 0;  ///< of these, that wait for no others
  };
  [[nodiscard]] ByForm one_of_each_form_first(std::span<Tuned* const> winners) const;
  void settle(std::span<Tuned* const> winners, Clock::time_point until);
  void choose(Job& job, Tuned& result, bool verified);
  static void describe(const Job& job, std::span<const size_t> order, size_t winner, Tuned& result);
  void remember(const Job& job, size_t winner, bool verified);
  void forget(Job& job);
  void start_anew(Job& job);
  void find_more(Job& job);

  backends::Device& backend_;
  Cache& cache_;
  const Graph& graph_;
  TunerOptions options_;
  Leaves values_;
  std::shared_ptr<const ValueRanges> ranges_;
  TuningPhases phases_;
  KernelVerifier verifier_;
  std::vector<std::unique_ptr<Job>> jobs_;
};

/// The cache's key of a spec's choice: changes with everything the choice depends on. `bucket`: the part that the
/// spec's dims are in; `extra`: see TunerOptions::key.
[[nodiscard]] CacheKey tuning_key(const kernel::KernelSpec& spec, const codegen::Bucket& bucket,
                                  const codegen::Target& target, const std::string& extra = "");

}  // namespace luminal::search
