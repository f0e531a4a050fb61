#pragma once
#include <array>
#include <cstdint>

#include "base/hash.h"
#include "base/philox.h"

/// How seeds, streams, elements and runs become keys and counters of Philox, for every backend.
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

/// Words 4i .. 4i+3 of run `step`.
[[nodiscard]] constexpr Words block_at(uint64_t i, uint64_t step, Key key) {
  return philox4x32({static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), static_cast<uint32_t>(step),
                     static_cast<uint32_t>(step >> 32)},
                    key);
}

}  // namespace luminal::philox
