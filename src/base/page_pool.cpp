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

constexpr int64_t kSmallPage = kSmallPageBytes, kHugePage = kHugePageBytes;

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
PagePool::PagePool(int64_t bytes, int processes) {
  const int64_t each = bytes / kHugePage * kHugePage, whole = each * processes;
  if (whole <= 0) return;
  const auto pages = static_cast<size_t>(whole / kHugePage);
  void* touched = ::mmap(nullptr, pages, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);  // zeros
  if (touched == MAP_FAILED) return;
  // Huge pages need an address and a place in the shared memory that are multiples of their size.
  std::byte* begin = reserve_pages(static_cast<size_t>(whole));
  if (begin == nullptr ||
      ::mmap(begin, static_cast<size_t>(whole), PROT_NONE,
             MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED) {
    if (begin != nullptr) ::munmap(begin, static_cast<size_t>(whole));
    ::munmap(touched, pages);
    return;
  }
  data_ = begin;
  bytes_ = whole;
  share_bytes_ = each;
  touched_ = static_cast<uint8_t*>(touched);
  advise_huge_pages(data_, static_cast<size_t>(bytes_));
}

PagePool::~PagePool() {
  if (data_ == nullptr) return;
  ::munmap(data_, static_cast<size_t>(bytes_));
  ::munmap(touched_, static_cast<size_t>(bytes_ / kHugePage));
}

void PagePool::serve(const Share& share) {
  if (data_ == nullptr || ::mprotect(data_, static_cast<size_t>(bytes_), PROT_READ | PROT_WRITE) != 0) return;
  mapped_.assign(static_cast<size_t>(bytes_ / kHugePage), false);
  free_.clear();
  for (const Stretch& stretch : share) put_back(stretch.begin, stretch.bytes);
  serving_pool = this;
}
#else
PagePool::PagePool(int64_t, int) {}
PagePool::~PagePool() = default;
void PagePool::serve(const Share&) {}
#endif

bool PagePool::is_touched(size_t page) const {
  return std::atomic_ref(touched_[page]).load(std::memory_order_relaxed) != 0;
}

std::vector<PagePool::Share> PagePool::shares(int processes) const {
  std::vector<Share> shares(static_cast<size_t>(processes));
  const auto pages = static_cast<size_t>(bytes_ / kHugePage);
  std::vector<size_t> both[2];  // pages that nobody has touched, and those that somebody has
  for (size_t page = 0; page < pages; ++page) both[is_touched(page) ? 1 : 0].push_back(page);
  const size_t most = std::min(pages / shares.size(), static_cast<size_t>(share_bytes_ / kHugePage));
  const size_t old = std::min(both[1].size() / shares.size(), most), fresh = most - old;
  for (size_t process = 0; process < shares.size(); ++process) {
    std::vector<size_t> own;
    for (const auto& [list, count] : {std::pair(&both[1], old), std::pair(&both[0], fresh)}) {
      const size_t first = std::min(process * count, list->size()),
                   last = std::min(first + count, list->size());
      own.insert(own.end(), list->begin() + static_cast<ptrdiff_t>(first),
                 list->begin() + static_cast<ptrdiff_t>(last));
    }
    std::ranges::sort(own);
    for (const size_t page : own) {
      const int64_t begin = static_cast<int64_t>(page) * kHugePage;
      Share& share = shares[process];
      if (!share.empty() && share.back().begin + share.back().bytes == begin)
        share.back().bytes += kHugePage;
      else
        share.push_back({begin, kHugePage});
    }
  }
  return shares;
}

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
    map_what_is_not(first, whole);
    return data_ + first;
  }
  return nullptr;
}

void PagePool::map_what_is_not(int64_t begin, int64_t bytes) {
  const auto last = static_cast<size_t>((begin + bytes + kHugePage - 1) / kHugePage);
  for (auto page = static_cast<size_t>(begin / kHugePage); page < last; ++page) {
    const size_t first = page;
    for (; page < last && !mapped_[page]; ++page) {
      mapped_[page] = true;
      std::atomic_ref(touched_[page]).store(1, std::memory_order_relaxed);
    }
    if (page > first)
      map_huge_pages(data_ + static_cast<int64_t>(first) * kHugePage,
                     static_cast<int64_t>(page - first) * kHugePage);
  }
}

void PagePool::give_back(std::byte* memory, int64_t bytes) noexcept {
  const std::scoped_lock lock(mutex_);
  const auto repeated = repeated_.find(memory);
  if (repeated == repeated_.end()) return put_back(memory - data_, in_whole_pages(bytes));
#ifdef __linux__
  ::munmap(memory, static_cast<size_t>(in_whole_pages(bytes)));
#endif
  put_back(repeated->second.data - data_, in_whole_pages(repeated->second.bytes));
  repeated_.erase(repeated);
}

void PagePool::put_back(int64_t begin, int64_t bytes) {
  auto entry = free_.emplace(begin, bytes).first;
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
  repeated_.emplace(memory, Repeated{data, stretch, ++last_number_});
  return memory;
}

std::optional<PagePool::Repeated> PagePool::repeated_at(const void* memory) const {
  const std::scoped_lock lock(mutex_);
  const auto found = repeated_.find(memory);
  return found == repeated_.end() ? std::nullopt : std::optional(found->second);
}

bool PagePool::owns(const void* memory) const {
  const auto* at = static_cast<const std::byte*>(memory);
  return (data_ != nullptr && std::less_equal<>()(data_, at) && std::less<>()(at, data_ + bytes_)) ||
         repeated_at(memory).has_value();
}

uint64_t PagePool::number_of_repeated(const void* memory) const {
  const auto stretch = repeated_at(memory);
  return stretch ? stretch->number : 0;
}

bool PagePool::show_at([[maybe_unused]] std::byte* place, [[maybe_unused]] const std::byte* memory,
                       [[maybe_unused]] int64_t bytes) const {
#ifdef __linux__
  const auto stretch = repeated_at(memory);
  const Repeated seen = stretch.value_or(Repeated{const_cast<std::byte*>(memory), bytes, 0});
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
