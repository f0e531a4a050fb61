#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "luminal/block_format.h"

namespace luminal::codegen {

/// Least and greatest value of a part of a description.
struct PartRange {
  int64_t min = 0, max = 0;
};
/// Of a whole number, for all bytes and positions; nothing where it takes more than a look to tell.
[[nodiscard]] std::optional<PartRange> part_range(const BlockFormat& format,
                                                  const BlockExpression::Node& node);

/// A level that is a function of a short number: Q4_0's is `code` - 8 for a code of 4 bits.
struct LevelCodes {
  const BlockExpression::Node* code = nullptr;  ///< part of the level: 0 .. levels.size() - 1
  std::vector<int> levels;                      ///< by code
};

/// The largest part of the format's level from which the rest follows and that has at most `most` values; no code
/// where there is none. `most` is at most 256.
[[nodiscard]] LevelCodes level_codes(const BlockFormat& format, int most);

}  // namespace luminal::codegen
