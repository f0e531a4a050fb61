#include "search/tuning/remembered.h"

#include <algorithm>

namespace luminal::search {

std::optional<Cache::Choice> find_remembered(Cache& cache, const CacheKey& key,
                                             const kernel::KernelSpec& spec, const codegen::Bucket& bucket,
                                             const codegen::Target& target, int effort) {
  std::optional<Cache::Choice> choice = cache.find(key);
  if (!choice || choice->effort < effort) return std::nullopt;
  for (const codegen::Schedule* family : codegen::schedules()) {
    if (family->name != choice->schedule) continue;
    const std::vector<codegen::Candidate> candidates = family->candidates(spec, bucket, target);
    if (std::ranges::find(candidates, choice->parameters, &codegen::Candidate::parameters) !=
        candidates.end())
      return choice;
  }
  cache.forget(key);
  return std::nullopt;
}

}  // namespace luminal::search
