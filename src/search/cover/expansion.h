#pragma once
#include <optional>

#include "search/cover/cover.h"

namespace luminal::search {

/// Values that grow from smaller ones: a reduction's result that is several times as large as all that it reads
/// (the scores of attention are the products of all queries with all keys), and what is made of such a value
/// without becoming smaller. Stored, they take memory that grows with the square of a length. So do large masks that
/// compare coordinates, such as causal ones and numbers chosen by them, of whatever size `large_bytes` is.
///
/// The problem with those above `given.large_bytes` and such masks unstored; empty if the cover stores none of them.
[[nodiscard]] std::optional<CoverProblem> without_expansions(const CoverProblem& problem,
                                                             const SpecStore& store, const Cover& cover,
                                                             const CoverCosts& given);

}  // namespace luminal::search
