#pragma once
#include <cstdint>

namespace luminal::runtime::test {

/// Calls of operator new in this process so far, on all threads.
[[nodiscard]] int64_t allocations();

}  // namespace luminal::runtime::test
