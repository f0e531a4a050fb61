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
};

/// What became of one candidate, for the report and for `luminal explain`.
struct Tried {
  std::string schedule;
  codegen::Parameters parameters;
  double predicted_us = 0;
  double measured_us = 0;  ///< 0: not timed
  double compile_ms = 0;   ///< 0: taken from the cache
  std::string rejected;    ///< why it is out: "slower", the fault that verification found; "" for the winner
};

/// One request on its way to a kernel. Candidates are numbered.
struct Job {
  TuneRequest request;
  size_t number = 0;
  CacheKey key;
  codegen::Bucket bucket;
  std::optional<Cache::Choice> known;  ///< what an earlier search chose: the only candidate
  std::vector<Tried> tried;
  std::vector<Tried> hopeless;  ///< predicted far behind: tried when all others have fallen
  std::vector<std::shared_ptr<const backends::Kernel>> kernels;  ///< by candidate; null if it is out
  std::vector<uint64_t> codes;                                   ///< by candidate
  std::optional<size_t> preferred;                               ///< chosen whatever was measured
  Subject subject;
  std::vector<bool> screened;  ///< by candidate: may be timed
  bool verified = false;       ///< its leader passed the full verification

  /// Candidates, the one to take first; those that are out too.
  [[nodiscard]] std::vector<size_t> by_merit() const;
  /// The best candidate that is left.
  [[nodiscard]] std::optional<size_t> leader() const;
  /// One run takes so long that only what turned out to be fast is looked at.
  [[nodiscard]] bool is_large() const;
  [[nodiscard]] KernelRequest kernel_request(size_t candidate) const;
};

}  // namespace luminal::search
