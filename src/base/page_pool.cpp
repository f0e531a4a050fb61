#include "base/page_pool.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <iterator>
#include <utility>

#include "base/memory.h"

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace luminal {
namespace {

constexpr int64_t kSmallPage = 4096, kHugePage = kHugePageBytes;

std::atomic<PagePool*> serving_pool{nullptr};

int64_t page_of(int64_t bytes) { return bytes >= kHugePage ? kHugePage : kSmallPage; }
int64_t in_whole_pages(int64_t bytes) {
  const int64_t page = page_of(bytes);
  return (bytes + page - 1) / page * page;
}

/// Whole huge pages of shared memory. Where shared memory has small pages the system makes huge ones of them (MADV_COLLAPSE,
/// Linux 6.1), quickly if of each only one is there. Where it does not they stay small.
void map_huge_pages([[maybe_unused]] std::byte* pages, [[maybe_unused]] int64_t bytes) {
#ifdef __linux__
  constexpr int kCollapse = 25;  // MADV_COLLAPSE, which older headers lack
  for (int64_t at = 0; at < bytes; at += kHugePage)
    static_cast<void>(*static_cast<const volatile std::byte*>(pages + at));
  ::madvise(pages, static_cast<size_t>(bytes), kCollapse);
  map_pages(pages, static_cast<size_t>(bytes));
#endif
}

}  // namespace

#ifdef __linux__
PagePool::PagePool(int64_t bytes) {
  const int64_t whole = bytes / kHugePage * kHugePage;
  if (whole <= 0) return;
  // Huge pages need an address and a place in the shared memory that are multiples of their size.
  std::byte* begin = reserve_pages(static_cast<size_t>(whole));
  if (begin == nullptr) return;
  if (::mmap(begin, static_cast<size_t>(whole), PROT_NONE,
             MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED) {
    ::munmap(begin, static_cast<size_t>(whole));
    return;
  }
  data_ = begin;
  bytes_ = whole;
  advise_huge_pages(data_, static_cast<size_t>(bytes_));
  free_.emplace(0, bytes_);
}

PagePool::~PagePool() {
  if (data_ != nullptr) ::munmap(data_, static_cast<size_t>(bytes_));
}

void PagePool::serve() {
  if (data_ == nullptr || ::mprotect(data_, static_cast<size_t>(bytes_), PROT_READ | PROT_WRITE) != 0) return;
  serving_pool = this;
}
#else
PagePool::PagePool(int64_t) {}
PagePool::~PagePool() = default;
void PagePool::serve() {}
#endif

PagePool* PagePool::serving() { return serving_pool; }

std::byte* PagePool::take(int64_t bytes) {
  const int64_t page = page_of(bytes), whole = in_whole_pages(bytes);
  const std::scoped_lock lock(mutex_);
  for (auto entry = free_.begin(); entry != free_.end(); ++entry) {
    const auto [begin, length] = *entry;
    const int64_t first = (begin + page - 1) / page * page, end = begin + length;
    if (first + whole > end) continue;
    free_.erase(entry);
    if (first > begin) free_.emplace(begin, first - begin);
    if (first + whole < end) free_.emplace(first + whole, end - first - whole);
    if (first + whole > mapped_) {
      const int64_t last = (first + whole + kHugePage - 1) / kHugePage * kHugePage;
      map_huge_pages(data_ + mapped_, last - mapped_);
      mapped_ = last;
    }
    return data_ + first;
  }
  return nullptr;
}

void PagePool::give_back(std::byte* memory, int64_t bytes) noexcept {
  const std::scoped_lock lock(mutex_);
  const auto repeated = repeated_.find(memory);
  if (repeated == repeated_.end()) return put_back(memory, bytes);
#ifdef __linux__
  ::munmap(memory, static_cast<size_t>(in_whole_pages(bytes)));
#endif
  put_back(repeated->second.data, repeated->second.bytes);
  repeated_.erase(repeated);
}

void PagePool::put_back(std::byte* memory, int64_t bytes) {
  auto entry = free_.emplace(memory - data_, in_whole_pages(bytes)).first;
  const auto next = std::next(entry);
  if (next != free_.end() && entry->first + entry->second == next->first) {
    entry->second += next->second;
    free_.erase(next);
  }
  if (entry == free_.begin()) return;
  const auto before = std::prev(entry);
  if (before->first + before->second != entry->first) return;
  before->second += entry->second;
  free_.erase(entry);
}

std::byte* PagePool::take_repeated(int64_t bytes, int64_t stretch,
                                   const std::function<void(std::span<std::byte>)>& fill) {
  std::byte* data = take(stretch);
  if (data == nullptr) return nullptr;
  const int64_t whole = in_whole_pages(bytes);
  std::byte* memory = reserve_pages(static_cast<size_t>(whole));
  bool is_there = memory != nullptr;
  for (int64_t at = 0; is_there && at < whole; at += stretch)
    is_there = show_at(memory + at, data, std::min(stretch, whole - at));
#ifdef __linux__
  is_there = is_there && ::mprotect(memory, static_cast<size_t>(whole), PROT_READ) == 0;
  if (!is_there && memory != nullptr) ::munmap(memory, static_cast<size_t>(whole));
#endif
  if (!is_there) {
    give_back(data, stretch);
    return nullptr;
  }
  fill({data, static_cast<size_t>(stretch)});
  const std::scoped_lock lock(mutex_);
  repeated_.emplace(memory, Stretch{data, stretch});
  return memory;
}

std::optional<PagePool::Stretch> PagePool::stretch_at(const void* memory) const {
  const std::scoped_lock lock(mutex_);
  const auto found = repeated_.find(memory);
  return found == repeated_.end() ? std::nullopt : std::optional(found->second);
}

bool PagePool::owns(const void* memory) const {
  const auto* at = static_cast<const std::byte*>(memory);
  return (data_ != nullptr && std::less_equal<>()(data_, at) && std::less<>()(at, data_ + bytes_)) ||
         stretch_at(memory);
}

bool PagePool::show_at([[maybe_unused]] std::byte* place, [[maybe_unused]] const std::byte* memory,
                       [[maybe_unused]] int64_t bytes) const {
#ifdef __linux__
  const Stretch seen = stretch_at(memory).value_or(Stretch{const_cast<std::byte*>(memory), bytes});
  for (int64_t at = 0; at < bytes; at += seen.bytes)
    // Of an old size of 0 the system maps shared pages once more (mremap(2)).
    if (::mremap(seen.data, 0, static_cast<size_t>(std::min(seen.bytes, bytes - at)),
                 MREMAP_MAYMOVE | MREMAP_FIXED, place + at) == MAP_FAILED)
      return false;
  return true;
#else
  return false;
#endif
}

namespace {

constexpr size_t kWorthIt = size_t{1} << 20;  // bytes: what is smaller never comes from a pool

thread_local std::byte* next_handed_out = nullptr;

}  // namespace

void hand_out_next(std::byte* memory) { next_handed_out = memory; }

std::byte* take_pooled(size_t bytes) {
  if (next_handed_out != nullptr) return std::exchange(next_handed_out, nullptr);
  PagePool* pool = PagePool::serving();
  return pool == nullptr || bytes < kWorthIt ? nullptr : pool->take(static_cast<int64_t>(bytes));
}

bool give_back_pooled(void* memory, size_t bytes) noexcept {
  PagePool* pool = PagePool::serving();
  if (pool == nullptr || bytes < kWorthIt || !pool->owns(memory)) return false;
  pool->give_back(static_cast<std::byte*>(memory), static_cast<int64_t>(bytes));
  return true;
}

}  // namespace luminal
