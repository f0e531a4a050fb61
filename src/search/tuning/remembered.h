#pragma once
#include "codegen/schedule.h"
#include "search/cache/cache.h"

namespace luminal::search {

/// What the cache holds for a kernel, if it was found with this effort at least and is one of the candidates
/// that its family has for this spec: choices are carried between machines, and a file may say anything. What is
/// no candidate is forgotten before code is made of it.
[[nodiscard]] std::optional<Cache::Choice> find_remembered(Cache& cache, const CacheKey& key,
                                                           const kernel::KernelSpec& spec,
                                                           const codegen::Bucket& bucket,
                                                           const codegen::Target& target, int effort);

}  // namespace luminal::search
