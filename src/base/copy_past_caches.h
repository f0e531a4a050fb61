#pragma once
#include <cstddef>
#include <cstring>

namespace luminal {

/// What is longer leaves no room in a cache for anything else, and little of it is still there when it is read next.
inline constexpr size_t kPastCachesBytes = size_t{32} << 20;

/// memcpy to memory that is not read again soon: where the processor can, lines are written without being read first.
/// Other threads find what was written once a PastCaches of this one has ended.
void copy_past_caches(void* to, const void* from, size_t bytes);
/// That, or memcpy.
inline void copy_out(void* to, const void* from, size_t bytes, bool past_caches) {
  past_caches ? copy_past_caches(to, from, bytes) : void(std::memcpy(to, from, bytes));
}

/// Lives around the copies of a task: to wait for each of them alone takes longer than to copy a kilobyte.
class PastCaches {
 public:
  PastCaches() = default;
  PastCaches(const PastCaches&) = delete;
  PastCaches& operator=(const PastCaches&) = delete;
  ~PastCaches();
};

}  // namespace luminal
