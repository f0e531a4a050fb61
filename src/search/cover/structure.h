#pragma once
#include <cstdint>
#include <vector>

#include "search/cover/cover.h"

namespace luminal::search {

/// What a class is, free of numbering.
struct Structure {
  /// Equal for classes whose neighbourhood is alike (a few steps both ways): they share decisions, as the
  /// layers of a network do.
  std::vector<uint64_t> shape;
  /// Equal only for classes that the whole e-graph can't tell apart: gives an order free of numbering.
  std::vector<uint64_t> exact;
  /// Steps to the inputs by the shortest way of computing a class; arguments of some alternative lie below
  /// it.
  std::vector<int> depth;
};

/// Partition refinement: labels first, then alternatives with the structure of their arguments, and readers.
[[nodiscard]] Structure structure_of(const CoverProblem& problem, const SpecStore& store);

}  // namespace luminal::search
