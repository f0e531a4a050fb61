#pragma once
#include <cstddef>
#include <span>

#include "luminal/block_format.h"

namespace luminal {

/// As encode_blocks(), for what its checks have passed, or for formats whose scales are parts of the values: there
/// finite values past the greatest f16 may have finite scales.
void encode_finite_blocks(const BlockFormat& format, std::span<const float> values,
                          std::span<std::byte> blocks, std::span<const float> importance = {});

}  // namespace luminal
