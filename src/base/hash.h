#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

namespace luminal {

/// 64-bit xxHash (XXH3) of bytes; the same on every machine, so it may be written to files.
[[nodiscard]] uint64_t hash_bytes(const void* data, size_t size_bytes, uint64_t seed = 0);
[[nodiscard]] inline uint64_t hash_bytes(std::string_view text) {
  return hash_bytes(text.data(), text.size());
}

/// A finalizer that spreads every input bit over the output (the mixer of splitmix64, Steele et al. 2014).
[[nodiscard]] constexpr uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// Order-dependent combination of hashes.
[[nodiscard]] constexpr uint64_t combine(uint64_t seed, uint64_t value) {
  return mix(seed * 0x9e3779b97f4a7c15ULL + value + 0x2545f4914f6cdd1dULL);
}

}  // namespace luminal
