#pragma once
#include <map>
#include <optional>

#include "search/tuning/plan_search.h"

namespace luminal::search {

/// What is known of times so far. Where nothing was measured the schedules' own prediction counts, scaled by
/// how far these were off elsewhere, so that a plan is not preferred for being unknown; but a spec for which
/// a program brings a kernel of its own costs no more than reading and writing, once costs explore
/// them: it is tried wherever it could pay. One thread at a time.
class Costs {
 public:
  /// The context outlives it.
  explicit Costs(const PlanSearchContext& context) : context_(context), top_(context.bucket.top()) {}

  void explore_user_kernels() { explores_user_kernels_ = true; }
  /// By the roofline alone: asked for every fusion that is tried.
  [[nodiscard]] double rough(const kernel::KernelSpec& spec);
  [[nodiscard]] double of(SpecId spec);

  /// All of it as a table, by which the same covers are found again, and back.
  [[nodiscard]] Cache::Costs to_table() const;
  /// False if these are no costs: others' files may hold anything.
  [[nodiscard]] bool recall(Cache::Costs table);

  void set(SpecId spec, double us) { measured_[spec] = us; }
  /// Scales predictions by all that was measured against all that was predicted for it: what takes long says
  /// how long a plan takes, and small kernels, which are mostly launches, would be most of a count.
  void calibrate();
  /// Sum over the kernels of a cover; nothing if one is not measured.
  [[nodiscard]] std::optional<double> sum(const Cover& cover) const;

 private:
  [[nodiscard]] double predicted(SpecId spec);
  [[nodiscard]] bool has_user_kernel(const kernel::KernelSpec& spec) const;
  /// What any kernel takes: a launch, and all data once.
  [[nodiscard]] double least_us(const kernel::KernelSpec& spec) const;

  const PlanSearchContext& context_;
  DimMap top_;
  std::map<SpecId, double> measured_, predicted_;
  Cache::Costs recalled_;  ///< of an earlier search, by hash of the spec
  double scale_ = 1;
  bool explores_user_kernels_ = false;
};

}  // namespace luminal::search
