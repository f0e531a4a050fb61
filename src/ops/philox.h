#pragma once
#include <array>
#include <cstdint>

#include "base/hash.h"
#include "base/philox.h"

/// What `Random` holds, for every backend: how keys, counters and words of Philox become numbers.
namespace luminal::philox {

using Words = std::array<uint32_t, 4>;
using Key = std::array<uint32_t, 2>;

/// Both numbers are mixed (SplitMix64's finaliser, Steele et al. 2014), so that neighbouring seeds and
/// streams share nothing.
[[nodiscard]] constexpr Key key_of(int64_t seed, int64_t stream) {
  constexpr uint64_t kGolden = 0x9E3779B97F4A7C15U;
  const uint64_t key =
      mix(mix(static_cast<uint64_t>(seed) + kGolden) + static_cast<uint64_t>(stream) + kGolden);
  return {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)};
}

/// The block that holds elements 4i .. 4i+3 (2i, 2i+1 for f64) of run `step`.
[[nodiscard]] constexpr Words block_at(uint64_t i, uint64_t step, Key key) {
  return philox4x32({static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), static_cast<uint32_t>(step),
                     static_cast<uint32_t>(step >> 32)},
                    key);
}

/// A word as a number in [0, 1) with `bits` random bits, all of which the type holds: 24 for f32, 11 for f16,
/// 8 for bf16.
[[nodiscard]] constexpr float uniform(uint32_t word, int bits) {
  return static_cast<float>(word >> (32 - bits)) / static_cast<float>(uint32_t{1} << bits);
}
/// 53 random bits from two words, the first one on top.
[[nodiscard]] constexpr double uniform(uint32_t high, uint32_t low) {
  return static_cast<double>(((uint64_t{high} << 32) | low) >> 11) * 0x1p-53;
}

}  // namespace luminal::philox
