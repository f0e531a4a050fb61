#include "search/verification/guarded_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "base/fail.h"
#include "base/memory.h"
#include "base/page_pool.h"

namespace luminal::search {
namespace {

int64_t guard(int64_t bytes) {
  constexpr int64_t kLeast = int64_t{1} << 20, kMost = int64_t{1} << 28;
  return std::clamp(bytes, kLeast, kMost);
}

/// Address space for so many bytes and a guard on either side. Null if there is none.
std::byte* reserve(int64_t bytes) {
  return reserve_pages(static_cast<size_t>(bytes), static_cast<size_t>(guard(bytes)));
}
void release(std::byte* pages, int64_t bytes) {
  const int64_t around = guard(bytes);
  ::munmap(pages - around, static_cast<size_t>(bytes + 2 * around));
}
/// Pages between guards. What is given back is kept for those that take no more: fresh pages take longer than most
/// kernels.
class GuardedPages {
 public:
  static GuardedPages& of_process() {
    static GuardedPages pages;
    return pages;
  }

  /// This many bytes, whole pages that hold anything. Errors: Error if there is no memory.
  std::byte* take(int64_t bytes) {
    Kept memory = kept(bytes);
    if (memory.pages == nullptr) memory = map(bytes);
    std::byte* taken = memory.pages + (memory.bytes - bytes);  // right before the upper guard
    ::mprotect(taken, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE);
    if (memory.pooled != nullptr) map_pages(taken, static_cast<size_t>(bytes));
    const std::scoped_lock lock(mutex_);
    taken_.emplace(taken, memory);
    return taken;
  }
  void give_back(std::byte* taken, int64_t bytes) {
    const std::scoped_lock lock(mutex_);
    const Kept memory = taken_.extract(taken).mapped();
    if (kept_bytes_ + memory.bytes > kMostKept) {
      release(memory.pages, memory.bytes);
      if (memory.pooled != nullptr) give_back_pooled(memory.pooled, static_cast<size_t>(memory.bytes));
      return;
    }
    ::mprotect(taken, static_cast<size_t>(bytes), PROT_NONE);
    kept_.emplace(memory.bytes, memory);
    kept_bytes_ += memory.bytes;
  }

 private:
  static constexpr int64_t kMostKept = int64_t{1} << 30;
  struct Kept {
    std::byte* pages = nullptr;
    int64_t bytes = 0;
    std::byte* pooled = nullptr;  ///< where else the pages are seen, if they are the pool's
  };

  /// The smallest that is large enough, unless it is so large that others will miss it.
  Kept kept(int64_t bytes) {
    constexpr int64_t kMostTimes = 4;
    const std::scoped_lock lock(mutex_);
    const auto found = kept_.lower_bound(bytes);
    if (found == kept_.end() || found->first > kMostTimes * bytes) return {};
    const Kept memory = found->second;
    kept_.erase(found);
    kept_bytes_ -= memory.bytes;
    return memory;
  }
  static Kept map(int64_t bytes) {
    std::byte* pages = reserve(bytes);
    if (pages == nullptr)
      fail("[verify] cannot map {} bytes of memory for a trial: {}", bytes, std::strerror(errno));
    std::byte* pooled = take_pooled(static_cast<size_t>(bytes));
    if (pooled != nullptr && PagePool::serving()->show_at(pages, pooled, bytes))
      return {.pages = pages, .bytes = bytes, .pooled = pooled};
    if (pooled != nullptr) give_back_pooled(pooled, static_cast<size_t>(bytes));
    advise_huge_pages(pages, static_cast<size_t>(bytes));
    return {.pages = pages, .bytes = bytes};
  }

  std::mutex mutex_;
  std::multimap<int64_t, Kept> kept_;  ///< by bytes
  std::map<std::byte*, Kept> taken_;   ///< in which memory they lie
  int64_t kept_bytes_ = 0;
};

int64_t whole_pages(int64_t bytes) {
  const int64_t page = ::sysconf(_SC_PAGESIZE);
  return (std::max<int64_t>(bytes, 1) + page - 1) / page * page;
}

}  // namespace

GuardedMemory::GuardedMemory(int64_t size_bytes, int64_t alignment, Place place) : size_bytes_(size_bytes) {
  inner_bytes_ = whole_pages(size_bytes + (place == Place::NextToStart ? alignment : 0));
  inner_ = GuardedPages::of_process().take(inner_bytes_);
  data_ = inner_ + (place == Place::AtStart       ? 0
                    : place == Place::NextToStart ? alignment
                                                  : (inner_bytes_ - size_bytes) / alignment * alignment);
}

GuardedMemory::~GuardedMemory() {
  if (inner_ != nullptr) GuardedPages::of_process().give_back(inner_, inner_bytes_);
}

GuardedMemory::GuardedMemory(GuardedMemory&& other) noexcept
    : inner_(std::exchange(other.inner_, nullptr)),
      data_(other.data_),
      size_bytes_(other.size_bytes_),
      inner_bytes_(other.inner_bytes_),
      pattern_(other.pattern_) {}

void GuardedMemory::fill(std::byte pattern) {
  pattern_ = pattern;
  std::memset(inner_, static_cast<int>(pattern), static_cast<size_t>(inner_bytes_));
}

void GuardedMemory::fill_around(std::byte pattern) {
  pattern_ = pattern;
  std::fill(inner_, data_, pattern);
  std::fill(data_ + size_bytes_, inner_ + inner_bytes_, pattern);
}

int64_t GuardedMemory::stray_writes() const {
  const auto changed = [&](std::byte b) { return b != pattern_; };
  return std::count_if(inner_, data_, changed) +
         std::count_if(data_ + size_bytes_, inner_ + inner_bytes_, changed);
}

std::optional<GuardedView> GuardedView::of(std::span<const std::byte> memory) {
  const int64_t page = ::sysconf(_SC_PAGESIZE), bytes = static_cast<int64_t>(memory.size());
  const PagePool* pool = PagePool::serving();
  if (bytes == 0 || bytes % page != 0 || reinterpret_cast<intptr_t>(memory.data()) % page != 0 ||
      pool == nullptr || !pool->owns(memory.data()))
    return std::nullopt;
  std::byte* place = reserve(bytes);
  if (place == nullptr) return std::nullopt;
  if (!pool->show_at(place, memory.data(), bytes) || ::mprotect(place, memory.size(), PROT_READ) != 0) {
    release(place, bytes);
    return std::nullopt;
  }
  return GuardedView(place, bytes);
}

GuardedView::~GuardedView() {
  if (data_ != nullptr) release(data_, bytes_);
}
GuardedView::GuardedView(GuardedView&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
GuardedView& GuardedView::operator=(GuardedView&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace luminal::search
