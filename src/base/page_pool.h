#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>

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
  /// Address space for `bytes`, to be read alone, in which one stretch of memory appears again and again: whole huge pages,
  /// which `fill` writes. So a tensor that repeats itself takes no more memory than its stretch, however long it is. Null
  /// where there is no room, or the system cannot.
  [[nodiscard]] std::byte* take_repeated(int64_t bytes, int64_t stretch,
                                         const std::function<void(std::span<std::byte>)>& fill);
  /// Also what `take_repeated` gave.
  [[nodiscard]] bool owns(const void* memory) const;
  /// What lies in memory of the pool is seen at `place` as well, which becomes pages of its own. Whether the system does
  /// that.
  [[nodiscard]] bool show_at(std::byte* place, const std::byte* memory, int64_t bytes) const;

 private:
  /// What appears again and again in memory that `take_repeated` gave.
  struct Stretch {
    std::byte* data;
    int64_t bytes;
  };
  /// Of the memory that begins there, if it is such; otherwise nothing.
  [[nodiscard]] std::optional<Stretch> stretch_at(const void* memory) const;
  void put_back(std::byte* memory, int64_t bytes);

  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  mutable std::mutex mutex_;
  int64_t mapped_ = 0;  ///< of the first so many bytes all pages are mapped in the process that is served
  std::map<int64_t, int64_t> free_;          ///< bytes that are free, by where they begin
  std::map<const void*, Stretch> repeated_;  ///< by where what repeats it begins
};

/// From the pool that serves this process, if there is one, it has room, and so many bytes are worth it; null
/// otherwise.
[[nodiscard]] std::byte* take_pooled(size_t bytes);
/// False if the memory comes from elsewhere.
bool give_back_pooled(void* memory, size_t bytes) noexcept;
/// The thread's next call of take_pooled gives this, so that a tensor has it.
void hand_out_next(std::byte* memory);

}  // namespace luminal
