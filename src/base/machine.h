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

/// Bytes of the data cache of a level (1 is the nearest) that one processor uses; 0 if the system does not say.
/// sysconf() adds up the last caches of all chips, of which a process's processors may share one.
[[nodiscard]] int64_t cache_bytes(int level);
/// As cache_bytes(), from a folder laid out as Linux's /sys/devices/system/cpu/cpu0/cache.
[[nodiscard]] int64_t cache_bytes_from(const std::string& folder, int level);

}  // namespace luminal
