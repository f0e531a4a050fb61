#pragma once
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <string_view>

namespace luminal::test {

/// A name that no run before has left in the cache.
inline std::string fresh_name(std::string_view what) {
  static std::atomic<int> count{0};
  return fmt::format("{}_{}_{}", what, ::getpid(), ++count);
}

}  // namespace luminal::test
