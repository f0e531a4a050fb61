#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace luminal::runtime {

inline constexpr int64_t kAlignment = 64;  ///< of every buffer: a cache line, the widest vector register
[[nodiscard]] constexpr int64_t aligned(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// A buffer to be placed: alive from step `first` to step `last`, both included.
struct Lifetime {
  int64_t bytes = 0;
  int first = 0, last = 0;
};

struct Placement {
  std::vector<int64_t> offsets;  ///< in the order of the lifetimes, multiples of kAlignment
  int64_t bytes = 0;             ///< of the arena
  int64_t lower_bound = 0;       ///< the most bytes alive at one step: no placement needs less
};

/// Offsets such that buffers alive at one step do not overlap. Several orders of greedy best-fit placement
/// are tried and the smallest arena wins; equal input gives equal output.
/// Source: Pisarchyk & Lee, "Efficient memory management for deep neural net inference", 2020 (greedy by size
/// and by breadth).
[[nodiscard]] Placement place(std::span<const Lifetime> buffers);

/// Memory that only grows, on huge pages where the system has them.
class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();
  /// At least `bytes` bytes; what was there is lost if it has to grow. Errors: Error if there is not so much.
  void reserve(int64_t bytes);
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] int64_t bytes() const { return bytes_; }

 private:
  void release();
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace luminal::runtime
