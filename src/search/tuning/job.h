#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "search/cache/cache.h"
#include "search/cache/kernel_cache.h"
#include "search/verification/batch.h"

namespace luminal::search {

/// A spec to be tuned, and how to verify it.
struct TuneRequest {
  kernel::KernelSpec spec;
  /// The spec between values of the user's graph, as one kernel; none if its tensors have no names there.
  /// Then the candidates are compared with the plainest schedule, and the plan as a whole is verified later.
  std::optional<Unit> unit;
  double weight = 1;  ///< how often it runs in the plan: the heaviest are tuned first
  double share = 1;   ///< of the time of the plan, all its launches: how many candidates are worth looking at
};

/// What became of one candidate, for the report and for `luminal explain`.
struct Tried {
  std::string schedule;
  codegen::Parameters parameters;
  double predicted_us = 0;
  double measured_us = 0;  ///< 0: not timed
  double compile_ms = 0;   ///< 0: taken from the cache
  std::string rejected;    ///< why it is out, as KernelReport::Rejected::reason; "" for the winner
};

/// One request on its way to a kernel. Candidates are numbered.
struct Job {
  TuneRequest request;
  size_t number = 0;
  int effort = 0;  ///< candidates that are looked at, at most
  CacheKey key;
  codegen::Bucket bucket;                  ///< the part that the spec's dims are in
  std::vector<DimMap> timed_at;            ///< sizes where candidates race, one at least
  std::optional<Cache::Choice> known;      ///< what an earlier search chose: the only candidate
  std::optional<Cache::Choice> elsewhere;  ///< what an earlier search chose for another bucket of the dims
  std::vector<Tried> tried;
  std::vector<Tried> hopeless;  ///< predicted far behind: tried when all others have fallen
  std::vector<std::shared_ptr<const backends::Kernel>> kernels;  ///< by candidate; null if it is out
  std::vector<uint64_t> codes;                                   ///< by candidate
  std::optional<size_t> preferred;                               ///< chosen whatever was measured
  Subject subject;
  std::vector<bool> screened;  ///< by candidate: may be timed
  bool verified = false;       ///< its leader passed the full verification

  /// Times that differ by less are equal: the moment decides which is the least, and searches should agree.
  static constexpr double kEqualTimes = 1.015;
  /// Candidates, the one to take first; those that are out too. Of equally fast ones that which the model ranks first.
  [[nodiscard]] std::vector<size_t> by_merit() const;
  /// The best candidate that is left.
  [[nodiscard]] std::optional<size_t> leader() const;
  /// The candidate that Fast mode would take, if it stands; otherwise the next one that is no user kernel.
  [[nodiscard]] std::optional<size_t> models_choice() const;
  /// Nothing is looked at before it is timed, in a contained process as well: no candidate is a user kernel, one
  /// run takes so long that a look takes longer than the race, or there is no other candidate to choose. Of generated
  /// kernels hardly one is wrong, and what leads is verified in full.
  [[nodiscard]] bool races_unseen() const;
  [[nodiscard]] KernelRequest kernel_request(size_t candidate) const;
};

}  // namespace luminal::search
