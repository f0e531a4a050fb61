#pragma once
#include <cstdint>
#include <cstdlib>
#include <string>

/// How much a randomised or exhaustive test does. `make test` takes a seeded sample, `make test-full` (which
/// sets LUMINAL_TEST_FULL) everything. LUMINAL_TEST_SEED repeats a failure whose seed was printed.
namespace luminal::effort {

[[nodiscard]] inline bool full_effort() { return std::getenv("LUMINAL_TEST_FULL") != nullptr; }
[[nodiscard]] inline int64_t cases(int64_t sample, int64_t full) { return full_effort() ? full : sample; }
[[nodiscard]] inline uint64_t seed(uint64_t fallback) {
  const char* text = std::getenv("LUMINAL_TEST_SEED");
  return text != nullptr ? std::stoull(text) : fallback;
}

}  // namespace luminal::effort
