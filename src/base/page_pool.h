#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace luminal {

/// Memory that processes forked one after the other hand on to each other. The system zeroes fresh pages one by
/// one, which takes longer than to run most kernels; pages of a pool are fresh once.
///
///   PagePool pool(most_bytes);          // takes nothing from the system yet
///   if (fork() == 0) pool.serve();      // large tensors of this process now come from the pool
///
/// The process that makes a pool cannot reach its pages, and one process at a time may be served. What a pool gives
/// holds anything.
class PagePool {
 public:
  /// Room for `bytes`; for nothing where the system has no such memory.
  explicit PagePool(int64_t bytes);
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;
  ~PagePool();

  /// This process takes from the pool until it ends.
  void serve();
  /// The pool that serves this process; null if none does.
  [[nodiscard]] static PagePool* serving();

  /// Whole pages, huge ones where that many bytes fill one. Null if there is no room.
  [[nodiscard]] std::byte* take(int64_t bytes);
  void give_back(std::byte* memory, int64_t bytes) noexcept;
  [[nodiscard]] bool owns(const void* memory) const;

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  std::mutex mutex_;
  int64_t mapped_ = 0;  ///< of the first so many bytes all pages are mapped in the process that is served
  std::map<int64_t, int64_t> free_;  ///< bytes that are free, by where they begin
};

/// From the pool that serves this process, if there is one, it has room, and so many bytes are worth it; null
/// otherwise.
[[nodiscard]] std::byte* take_pooled(size_t bytes);
/// False if the memory comes from elsewhere.
bool give_back_pooled(void* memory, size_t bytes) noexcept;

}  // namespace luminal
