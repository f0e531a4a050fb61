#pragma once
#include <array>
#include <cstdint>

/// Counter-based random numbers: Philox4x32-10. The one definition of what `Random` holds, for every backend.
/// Source: Salmon, Moraes, Dror & Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3".
namespace luminal::philox {

using Words = std::array<uint32_t, 4>;
using Key = std::array<uint32_t, 2>;

[[nodiscard]] constexpr Words block(Words counter, Key key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53U} * counter[0], b = uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return counter;
}

/// Both numbers are mixed (SplitMix64's finaliser, Steele et al. 2014), so that neighbouring seeds and
/// streams share nothing.
[[nodiscard]] constexpr Key key_of(int64_t seed, int64_t stream) {
  const auto mix = [](uint64_t x) {
    x += 0x9E3779B97F4A7C15U;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
    return x ^ (x >> 31);
  };
  const uint64_t key = mix(mix(static_cast<uint64_t>(seed)) + static_cast<uint64_t>(stream));
  return {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)};
}

/// The block that holds elements 4i .. 4i+3 (2i, 2i+1 for f64) of run `step`.
[[nodiscard]] constexpr Words block_at(uint64_t i, uint64_t step, Key key) {
  return block({static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), static_cast<uint32_t>(step),
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
