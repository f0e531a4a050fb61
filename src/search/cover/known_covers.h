#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "search/cache/cache.h"
#include "search/cover/cover.h"

/// Covers that were found before. Finding one is most of the time of a compile whose kernels are on disk, so those of
/// the model and of searches are kept there too: as objects, which no file of another machine brings in.
namespace luminal::search {

/// What a cover depends on: the problem as it is numbered, options, and `prices`: what the costs depend on.
[[nodiscard]] CacheKey cover_key(const CoverProblem& problem, const SpecStore& store,
                                 const SearchOptions& options, std::span<const std::string> prices);
/// All that the model's prices depend on beside the code.
[[nodiscard]] std::vector<std::string> prices_of_model(const codegen::Target& target,
                                                       const codegen::Bucket& bucket);

/// As text, with its specs; and back. Nothing if the text is no cover of the problem.
[[nodiscard]] std::string cover_to_text(const Cover& cover, const SpecStore& store);
[[nodiscard]] std::optional<Cover> parse_cover(std::string_view text, const CoverProblem& problem,
                                               SpecStore& store);

/// The stored one or, if there is none that reads, the one that `find` finds, which is then stored.
[[nodiscard]] Cover known_cover(Cache& cache, const CacheKey& key, const CoverProblem& problem,
                                SpecStore& store, const std::function<Cover()>& find);
/// Keeps one that was found otherwise.
void store_cover(Cache& cache, const CacheKey& key, const Cover& cover, const SpecStore& store);

}  // namespace luminal::search
