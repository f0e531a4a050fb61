#pragma once
#include <array>
#include <cstdint>

namespace luminal {

/// Constants of Philox4x32-10, from table 2 of the paper.
namespace philox {
inline constexpr int kRounds = 10;
inline constexpr std::array<uint32_t, 2> kMultiplier{0xD2511F53, 0xCD9E8D57}, kWeyl{0x9E3779B9, 0xBB67AE85};
}  // namespace philox

/// Philox4x32-10: a counter-based generator; equal counter and key give equal words everywhere.
/// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
[[nodiscard]] constexpr std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter,
                                                           std::array<uint32_t, 2> key) {
  for (int round = 0; round < philox::kRounds; ++round) {
    const uint64_t product0 = uint64_t{philox::kMultiplier[0]} * counter[0],
                   product1 = uint64_t{philox::kMultiplier[1]} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
    key = {key[0] + philox::kWeyl[0], key[1] + philox::kWeyl[1]};
  }
  return counter;
}

}  // namespace luminal
