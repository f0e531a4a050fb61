#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace luminal {

/// Memory that processes forked one after the other hand on to each other. The system zeroes fresh pages one by
/// one, which takes longer than to run most kernels; pages of a pool are fresh once.
///
///   PagePool pool(most_bytes);          // takes nothing from the system yet
///   if (fork() == 0) pool.serve();      // large tensors of this process now come from the pool
///
/// The process that makes a pool cannot reach its pages. One process at a time may be served, or several that have
/// different shares. What a pool gives holds anything.
class PagePool {
 public:
  /// Room for `bytes` for each of so many processes at a time; for nothing where the system has no such memory.
  explicit PagePool(int64_t bytes, int processes = 1);
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;
  ~PagePool();

  /// Whole huge pages of the pool, as stretches.
  struct Stretch {
    int64_t begin, bytes;
  };
  using Share = std::vector<Stretch>;
  /// For each of so many processes its own part, no larger than the `bytes` of the pool: of the pages that earlier ones
  /// have touched all get the same number, and of the others.
  [[nodiscard]] std::vector<Share> shares(int processes) const;
  /// This process takes from its share of the pool until it ends.
  void serve(const Share& share);
  void serve() { serve(shares(1).front()); }
  /// The pool that serves this process; null if none does.
  [[nodiscard]] static PagePool* serving();

  /// Whole pages, huge ones where that many bytes fill one. Null if there is no room.
  [[nodiscard]] std::byte* take(int64_t bytes);
  void give_back(std::byte* memory, int64_t bytes) noexcept;
  /// Address space for `bytes`, to be read alone, in which one stretch of memory appears again and again: whole pages,
  /// which `fill` writes. So a tensor that repeats itself takes no more memory than its stretch, however long it is. Null
  /// where there is no room, or the system cannot.
  [[nodiscard]] std::byte* take_repeated(int64_t bytes, int64_t stretch,
                                         const std::function<void(std::span<std::byte>)>& fill);
  /// Also what `take_repeated` gave.
  [[nodiscard]] bool owns(const void* memory) const;
  /// Of memory that `take_repeated` gave: what no other has, even if it begins at the same address later; 0 for all other
  /// memory, which is the same wherever it is seen.
  [[nodiscard]] uint64_t number_of_repeated(const void* memory) const;
  /// What lies in memory of the pool is seen at `place` as well, which becomes pages of its own. Whether the system does
  /// that.
  [[nodiscard]] bool show_at(std::byte* place, const std::byte* memory, int64_t bytes) const;

 private:
  /// What appears again and again in memory that `take_repeated` gave.
  struct Repeated {
    std::byte* data;
    int64_t bytes;
    uint64_t number;  ///< from 1
  };
  /// Of the memory that begins there; nothing if it is no such.
  [[nodiscard]] std::optional<Repeated> repeated_at(const void* memory) const;
  void put_back(int64_t begin, int64_t bytes);
  void map_what_is_not(int64_t begin, int64_t bytes);
  [[nodiscard]] bool is_touched(size_t page) const;

  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;           ///< of the pool
  int64_t share_bytes_ = 0;     ///< of a process, at most
  uint8_t* touched_ = nullptr;  ///< by huge page: one of the processes has mapped it; all of them share this
  mutable std::mutex mutex_;
  std::vector<bool> mapped_;                  ///< by huge page: it is mapped in the process that is served
  std::map<int64_t, int64_t> free_;           ///< bytes that are free, by where they begin
  std::map<const void*, Repeated> repeated_;  ///< by where what repeats it begins
  uint64_t last_number_ = 0;                  ///< of what repeats
};

/// From the pool that serves this process, if there is one, it has room, and so many bytes are worth it; null
/// otherwise.
[[nodiscard]] std::byte* take_pooled(size_t bytes);
/// False if the memory comes from elsewhere.
bool give_back_pooled(void* memory, size_t bytes) noexcept;
/// The thread's next call of take_pooled gives this, so that a tensor has it.
void hand_out_next(std::byte* memory);

}  // namespace luminal
