#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace luminal::runtime {

/// A buffer to be placed: alive from step `first` to step `last`, both included.
struct Lifetime {
  int64_t bytes = 0;
  int first = 0, last = 0;
};

struct Placement {
  std::vector<int64_t> offsets;  ///< in the order of the lifetimes, multiples of backends::kAlignment
  int64_t bytes = 0;             ///< of the arena
  int64_t lower_bound = 0;       ///< the most bytes alive at one step: no placement needs less
};

/// Offsets such that buffers alive at one step do not overlap. Several orders of greedy best-fit placement
/// are tried and the smallest arena wins; equal input gives equal output.
/// Source: Pisarchyk & Lee, "Efficient memory management for deep neural net inference", 2020 (greedy by size
/// and by breadth).
[[nodiscard]] Placement place(std::span<const Lifetime> buffers);

}  // namespace luminal::runtime
