#pragma once
#include "luminal/graph_tensor.h"

namespace luminal::models {

/// Numbers of 8 bits and the scales that multiply them.
struct RoundedBlocks {
  GraphTensor numbers;                        ///< i8 [..., K]
  GraphTensor scales;                         ///< f32 [..., K / block]
  [[nodiscard]] GraphTensor widened() const;  ///< f32 [..., K]
};
/// x f32 [..., K] in blocks of so many numbers, which divide K: the greatest of a block becomes 127 steps. Both parts
/// exist in memory.
[[nodiscard]] RoundedBlocks in_rounded_blocks(const GraphTensor& x, int64_t block);

/// x f32 [..., K], rounded to blocks of 32 numbers of 8 bits with an f32 scale each: the greatest of a block becomes
/// 127 steps. Numbers and scales are computed once for all readers. K is a multiple of 32.
[[nodiscard]] GraphTensor rounded_to_blocks(const GraphTensor& x);
/// Whether the last axis is one of whole blocks.
[[nodiscard]] bool has_whole_blocks(const GraphTensor& x);

}  // namespace luminal::models
