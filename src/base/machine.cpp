#include "base/machine.h"

#include "base/memory.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

namespace luminal {
namespace {

/// The text after "key :" in the first line that starts with `key`; files under /proc have one such line a
/// fact.
std::string value_of(std::string_view text, std::string_view key) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    const size_t colon = line.find(':');
    if (colon != std::string_view::npos &&
        line.substr(0, line.substr(0, colon).find_last_not_of(" \t") + 1) == key) {
      const std::string_view value = line.substr(colon + 1);
      const size_t first = value.find_first_not_of(" \t");
      return first == std::string_view::npos ? std::string() : std::string(value.substr(first));
    }
    begin = end + 1;
  }
  return {};
}

std::string widest_vectors(const std::set<std::string>& flags) {
  struct Level {
    const char* name;
    std::vector<std::string> needed;
  };
  // Widest first. x86 flags as Linux names them, then Arm's.
  const std::array levels{Level{"AVX-512", {"avx512f", "avx512bw", "avx512dq", "avx512vl"}},
                          Level{"AVX2", {"avx2", "fma"}},
                          Level{"AVX", {"avx"}},
                          Level{"SSE2", {"sse2"}},
                          Level{"SVE", {"sve"}},
                          Level{"NEON", {"asimd"}}};
  for (const Level& level : levels)
    if (std::all_of(level.needed.begin(), level.needed.end(),
                    [&](const auto& flag) { return flags.contains(flag); }))
      return level.name;
  return "none";
}

int64_t bytes_of(std::string_view meminfo, std::string_view key) {
  const std::string text = value_of(meminfo, key);
  int64_t kibibytes = 0;
  std::from_chars(text.data(), text.data() + text.size(), kibibytes);
  return kibibytes * 1024;
}

std::string content_of(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

Machine machine_from(std::string_view cpuinfo, std::string_view meminfo) {
  Machine machine;
  machine.cpu = value_of(cpuinfo, "model name");
  if (machine.cpu.empty()) machine.cpu = "unknown";
  std::istringstream flags(value_of(cpuinfo, "flags") + " " + value_of(cpuinfo, "Features"));
  machine.vector_isa = widest_vectors({std::istream_iterator<std::string>(flags), {}});
  machine.memory_bytes = bytes_of(meminfo, "MemTotal");
  machine.available_bytes = bytes_of(meminfo, "MemAvailable");
  return machine;
}

namespace {

/// Of the process's control group: its limit less what cannot be taken back; INT64_MAX where there is none.
int64_t group_headroom() {
  const std::string groups = content_of("/proc/self/cgroup");
  const size_t at = groups.find("0::");
  if (at == std::string::npos) return INT64_MAX;
  const std::string folder = "/sys/fs/cgroup" + groups.substr(at + 3, groups.find('\n', at) - at - 3) + "/";
  const auto number = [&](const char* file) {
    const std::string text = content_of((folder + file).c_str());
    int64_t value = -1;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  };
  const int64_t most = number("memory.max"), used = number("memory.current");
  if (most < 0 || used < 0) return INT64_MAX;
  const std::string facts = content_of((folder + "memory.stat").c_str());
  constexpr std::string_view kReclaimable = "inactive_file ";
  int64_t reclaimable = 0;
  if (const size_t line = facts.find(kReclaimable); line != std::string::npos)
    std::from_chars(facts.data() + line + kReclaimable.size(), facts.data() + facts.size(), reclaimable);
  return most - used + reclaimable;
}

}  // namespace

int64_t available_memory_bytes() {
  const std::string meminfo = content_of("/proc/meminfo");
  if (meminfo.empty()) return INT64_MAX;
  return std::min(bytes_of(meminfo, "MemAvailable") + bytes_of(meminfo, "SwapFree"), group_headroom());
}

int64_t cache_bytes_from(const std::string& folder, int level) {
  for (int index = 0;; ++index) {
    const std::string cache = folder + "/index" + std::to_string(index) + "/";
    const std::string size = content_of((cache + "size").c_str());
    if (size.empty()) return 0;
    int own_level = 0;
    const std::string text = content_of((cache + "level").c_str());
    std::from_chars(text.data(), text.data() + text.size(), own_level);
    if (own_level != level || content_of((cache + "type").c_str()).starts_with("Instruction")) continue;
    int64_t count = 0;
    const char* const unit = std::from_chars(size.data(), size.data() + size.size(), count).ptr;
    const int shift = *unit == 'K' ? 10 : *unit == 'M' ? 20 : 0;
    return count << shift;
  }
}

int64_t cache_bytes(int level) { return cache_bytes_from("/sys/devices/system/cpu/cpu0/cache", level); }

Machine this_machine() {
  Machine machine = machine_from(content_of("/proc/cpuinfo"), content_of("/proc/meminfo"));
  machine.cores = static_cast<int>(std::thread::hardware_concurrency());
  return machine;
}

}  // namespace luminal
