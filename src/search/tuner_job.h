#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "search/examine.h"
#include "search/tuner.h"

namespace luminal::search {

/// One request on its way.
struct Tuner::Job {
  TuneRequest request;
  CacheKey key;
  size_t number = 0;
  std::optional<Cache::Choice> known;
  std::vector<Tried> tried;
  std::vector<Tried> hopeless;  ///< predicted far behind: tried when all others have fallen
  std::vector<std::shared_ptr<const backends::Kernel>> kernels;  ///< by candidate; null if it is out
  std::vector<uint64_t> codes;                                   ///< by candidate
  std::optional<size_t> preferred;                               ///< chosen whatever the race said
  Subject subject;
};

}  // namespace luminal::search
