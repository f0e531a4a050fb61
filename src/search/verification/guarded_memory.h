#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace luminal::search {

/// Bytes between two stretches of address space that nobody may touch, each at least a megabyte and at least
/// as long as the data. The data ends right before the upper one (rounded down to `alignment`), starts right behind the
/// lower one, or `alignment` bytes behind it.
///
/// What is given back is kept for the next one of its size: it holds anything. Until then `close_returned` puts it out of
/// reach.
class GuardedMemory {
 public:
  enum class Place : uint8_t { AtEnd, AtStart, NextToStart };
  /// No bytes, at an address that nobody may touch.
  GuardedMemory();
  GuardedMemory(int64_t size_bytes, int64_t alignment, Place place);
  ~GuardedMemory();
  GuardedMemory(GuardedMemory&& other) noexcept;  ///< `other` may only be destroyed
  GuardedMemory& operator=(GuardedMemory&&) = delete;
  /// Whoever touches memory that was given back dies from now on; for before a launch.
  static void close_returned();
  [[nodiscard]] std::span<std::byte> bytes() const { return {data_, static_cast<size_t>(size_bytes_)}; }
  /// The data and what else its pages hold.
  void fill(std::byte pattern);
  /// What else the data's pages hold.
  void fill_around(std::byte pattern);
  /// Bytes of the data's own pages, outside the data, that no longer hold what was filled in.
  [[nodiscard]] int64_t stray_writes() const;

 private:
  std::byte* inner_ = nullptr;  ///< the data's pages
  std::byte* data_ = nullptr;
  int64_t size_bytes_ = 0, inner_bytes_ = 0;
  std::byte pattern_{};
};

/// Memory of the process's pool, seen a second time between such stretches, to read only: nothing is copied. All that see
/// the same memory at one time share a view.
class GuardedView {
 public:
  /// Null where the memory is no whole pages, or not the pool's.
  [[nodiscard]] static std::shared_ptr<const GuardedView> of(std::span<const std::byte> memory);
  GuardedView(const GuardedView&) = delete;
  GuardedView& operator=(const GuardedView&) = delete;
  ~GuardedView();
  [[nodiscard]] const std::byte* data() const { return data_; }

 private:
  GuardedView(std::byte* data, int64_t bytes) : data_(data), bytes_(bytes) {}

  std::byte* data_;
  int64_t bytes_;
};

}  // namespace luminal::search
