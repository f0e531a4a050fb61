#pragma once
#include <cstddef>

namespace luminal {

/// Deflate packs at most 258 bytes into two bits (zlib's documentation gives 1032:1).
inline constexpr size_t kMostPerByte = 1032;

}  // namespace luminal
