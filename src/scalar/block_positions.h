#pragma once
#include <cstdint>
#include <span>

#include "luminal/block_format.h"

namespace luminal {

/// What an expression of the format without bytes in it gives at each position of a block. Floats are their bits.
[[nodiscard]] std::span<const int32_t> values_by_position(const BlockFormat& format,
                                                          const BlockExpression::Node& expression);

}  // namespace luminal
