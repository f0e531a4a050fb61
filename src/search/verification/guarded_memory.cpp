#include "search/verification/guarded_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>
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
/// Makes pages a mapping of their own: the system joins those that differ in their protection alone to the guards beside
/// them, and cuts them out again, which takes longer than to change the protection.
void keep_apart([[maybe_unused]] std::byte* pages, [[maybe_unused]] int64_t bytes) {
#ifdef MADV_DONTDUMP
  ::madvise(pages, static_cast<size_t>(bytes), MADV_DONTDUMP);
#endif
}

/// Pages between guards. What is given back is kept for those that take no more: fresh pages take longer than most
/// kernels. It stays open until somebody closes it: protecting memory that is taken again at once takes longer than small
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
    memory.open(bytes);
    std::byte* taken = memory.end() - bytes;
    if (memory.pooled != nullptr) map_pages(taken, static_cast<size_t>(bytes));
    const std::scoped_lock lock(mutex_);
    taken_.emplace(taken, memory);
    return taken;
  }
  void give_back(std::byte* taken) {
    const std::scoped_lock lock(mutex_);
    const Kept memory = taken_.extract(taken).mapped();
    if (kept_bytes_ + memory.bytes > kMostKept) {
      release(memory.pages, memory.bytes);
      if (memory.pooled != nullptr) give_back_pooled(memory.pooled, static_cast<size_t>(memory.bytes));
      return;
    }
    kept_.emplace(memory.bytes, memory);
    kept_bytes_ += memory.bytes;
    are_closed_ = false;
  }
  void close_kept() {
    const std::scoped_lock lock(mutex_);
    if (!std::exchange(are_closed_, true))
      for (auto& entry : kept_) entry.second.open(0);
  }

 private:
  static constexpr int64_t kMostKept = int64_t{1} << 30;
  struct Kept {
    std::byte* pages = nullptr;
    int64_t bytes = 0;
    std::byte* pooled = nullptr;  ///< where else the pages are seen, if they are the pool's
    int64_t open_bytes = 0;       ///< right before the upper guard, that may be written

    [[nodiscard]] std::byte* end() const { return pages + bytes; }
    void open(int64_t count) {
      const int64_t before = std::exchange(open_bytes, count);
      if (count > before) ::mprotect(end() - count, static_cast<size_t>(count), PROT_READ | PROT_WRITE);
      if (count < before) ::mprotect(end() - before, static_cast<size_t>(before - count), PROT_NONE);
    }
  };

  /// The smallest that is large enough, unless it is so large that others will miss it; of these one that is open already.
  Kept kept(int64_t bytes) {
    constexpr int64_t kMostTimes = 4;
    const std::scoped_lock lock(mutex_);
    auto found = kept_.lower_bound(bytes);
    if (found == kept_.end() || found->first > kMostTimes * bytes) return {};
    const auto [first, last] = kept_.equal_range(found->first);
    if (const auto open = std::find_if(
            first, last, [bytes](const auto& entry) { return entry.second.open_bytes == bytes; });
        open != last)
      found = open;
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
    keep_apart(pages, bytes);
    return {.pages = pages, .bytes = bytes};
  }

  std::mutex mutex_;
  std::multimap<int64_t, Kept> kept_;  ///< by bytes
  bool are_closed_ = true;             ///< all that are kept
  std::map<std::byte*, Kept> taken_;   ///< in which memory they lie
  int64_t kept_bytes_ = 0;
};

int64_t whole_pages(int64_t bytes) {
  const int64_t page = ::sysconf(_SC_PAGESIZE);
  return (std::max<int64_t>(bytes, 1) + page - 1) / page * page;
}

}  // namespace

GuardedMemory::GuardedMemory() {
  static std::byte* const nowhere = reserve(whole_pages(1));
  if (nowhere == nullptr) fail("[verify] no address space for a page: {}", std::strerror(errno));
  inner_ = data_ = nowhere;
}

GuardedMemory::GuardedMemory(int64_t size_bytes, int64_t alignment, Place place) : size_bytes_(size_bytes) {
  inner_bytes_ = whole_pages(size_bytes + (place == Place::NextToStart ? alignment : 0));
  inner_ = GuardedPages::of_process().take(inner_bytes_);
  data_ = inner_ + (place == Place::AtStart       ? 0
                    : place == Place::NextToStart ? alignment
                                                  : (inner_bytes_ - size_bytes) / alignment * alignment);
}

GuardedMemory::~GuardedMemory() {
  if (inner_bytes_ > 0) GuardedPages::of_process().give_back(inner_);
}

void GuardedMemory::close_returned() { GuardedPages::of_process().close_kept(); }

GuardedMemory::GuardedMemory(GuardedMemory&& other) noexcept
    : inner_(other.inner_),
      data_(other.data_),
      size_bytes_(other.size_bytes_),
      inner_bytes_(std::exchange(other.inner_bytes_, 0)),
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
  const auto changed = [this](const std::byte* begin, const std::byte* end) -> int64_t {
    if (begin == end || (*begin == pattern_ && std::equal(begin, end - 1, begin + 1))) return 0;
    return (end - begin) - std::count(begin, end, pattern_);
  };
  return changed(inner_, data_) + changed(data_ + size_bytes_, inner_ + inner_bytes_);
}

std::shared_ptr<const GuardedView> GuardedView::of(std::span<const std::byte> memory) {
  const int64_t page = ::sysconf(_SC_PAGESIZE), bytes = static_cast<int64_t>(memory.size());
  const PagePool* pool = PagePool::serving();
  if (bytes == 0 || bytes % page != 0 || reinterpret_cast<intptr_t>(memory.data()) % page != 0 ||
      pool == nullptr || !pool->owns(memory.data()))
    return nullptr;
  using Key = std::tuple<const std::byte*, int64_t, uint64_t>;
  static std::mutex mutex;
  static std::map<Key, std::weak_ptr<const GuardedView>> views;
  const std::scoped_lock lock(mutex);
  const Key key{memory.data(), bytes, pool->number_of_repeated(memory.data())};
  if (const auto known = views.find(key); known != views.end())
    if (auto view = known->second.lock()) return view;
  std::byte* place = reserve(bytes);
  if (place == nullptr) return nullptr;
  if (!pool->show_at(place, memory.data(), bytes) || ::mprotect(place, memory.size(), PROT_READ) != 0) {
    release(place, bytes);
    return nullptr;
  }
  const std::shared_ptr<const GuardedView> view(new GuardedView(place, bytes));
  std::erase_if(views, [](const auto& entry) { return entry.second.expired(); });
  views.insert_or_assign(key, view);
  return view;
}

GuardedView::~GuardedView() { release(data_, bytes_); }

}  // namespace luminal::search
