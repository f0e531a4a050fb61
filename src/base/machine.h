#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace luminal {

/// What this program runs on.
struct Machine {
  std::string cpu;         ///< the maker's name for it
  std::string vector_isa;  ///< the widest vector instructions, "AVX-512", "AVX2", "NEON" ...
  int cores = 0;           ///< processors this process may use
  int64_t memory_bytes = 0, available_bytes = 0;
};

[[nodiscard]] Machine this_machine();
/// As this_machine(), from the text of Linux's /proc/cpuinfo and /proc/meminfo.
[[nodiscard]] Machine machine_from(std::string_view cpuinfo, std::string_view meminfo);

}  // namespace luminal
