#include "backends/host/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/memory.h"

// Memory of host devices: whole pages, few of which are for nothing.
namespace luminal::backends {
namespace {

constexpr auto kSmall = static_cast<int64_t>(kSmallPageBytes), kHuge = static_cast<int64_t>(kHugePageBytes);

TEST(HostMemory, LeavesLittleOfItsPagesUnused) {
  EXPECT_EQ(mapped_bytes(1), kSmall);
  EXPECT_EQ(mapped_bytes(kHuge - 1), kHuge);
  EXPECT_EQ(mapped_bytes(kHuge), kHuge);
  EXPECT_EQ(mapped_bytes(kHuge + 1), kHuge + kSmall) << "a second huge page would be empty";
  EXPECT_EQ(mapped_bytes(2 * kHuge - kHuge / 16), 2 * kHuge);
  EXPECT_EQ(mapped_bytes(100 * kHuge + 1), 101 * kHuge);
  for (int64_t bytes = 1; bytes < 40 * kHuge; bytes += 77'777) {
    EXPECT_GE(mapped_bytes(bytes), bytes);
    EXPECT_LE(mapped_bytes(bytes) - bytes, std::max(kSmall, bytes / 16)) << bytes;
  }
}

TEST(HostMemory, IsThereToItsLastByte) {
  for (const int64_t bytes : {int64_t{1}, kSmall + 1, kHuge - 1, kHuge + 1, 3 * kHuge - 1, 40 * kHuge + 1}) {
    const MappedMemory memory(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % kSmallPageBytes, 0U);
    std::memset(memory.data(), 1, static_cast<size_t>(bytes));
    EXPECT_EQ(memory.data()[bytes - 1], std::byte{1});
  }
}

}  // namespace
}  // namespace luminal::backends
