#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "backends/device.h"

/// Code that has not been verified runs in a process of its own: a crash, a hang, an exit or a write to any
/// address ends that process and nothing else.
namespace luminal::search {

/// Bytes that processes forked later share with this one; zeros at first. Errors: Error if there is no
/// memory.
class SharedBytes {
 public:
  explicit SharedBytes(int64_t size_bytes);
  SharedBytes(SharedBytes&& other) noexcept;
  SharedBytes& operator=(SharedBytes&&) = delete;
  ~SharedBytes();
  [[nodiscard]] std::span<std::byte> bytes() const { return {data_, static_cast<size_t>(size_bytes_)}; }
  /// The bytes as zero-initialised records of a trivial type.
  template <class T>
  [[nodiscard]] std::span<T> as() const {
    static_assert(std::is_trivially_destructible_v<T>);
    return {reinterpret_cast<T*>(data_), static_cast<size_t>(size_bytes_) / sizeof(T)};
  }

 private:
  std::byte* data_ = nullptr;
  int64_t size_bytes_ = 0;
};

/// While one lives, contained processes find the pages that earlier ones have touched: fresh pages take longer than
/// most kernels.
class KeptPages {
 public:
  KeptPages();
  KeptPages(const KeptPages&) = delete;
  KeptPages& operator=(const KeptPages&) = delete;
  ~KeptPages();
};

/// What a contained process tells of its progress: each change gives it the whole timeout again.
using Progress = std::atomic<uint64_t>;

/// Kernels of devices that do not follow into a forked process are run in this one: their drivers report what
/// they do wrong, as DeviceError, and nothing ends what hangs.
enum class Containment : uint8_t { Process, None };
[[nodiscard]] Containment containment_of(const backends::Kernel& kernel);
[[nodiscard]] Containment containment_of(const backends::Device& device);

/// What `run_contained` and its sister say of what was not finished at `until`, or when a search was asked to
/// end (search/watch.h).
inline constexpr auto kNoDeadline = std::chrono::steady_clock::time_point::max();
inline constexpr std::string_view kNoTimeLeft = "was not finished in time";
/// Whether they say that a process was ended because its timeout had passed.
[[nodiscard]] bool is_timeout(std::string_view trouble);

/// Calls `body(progress)` in a process of its own. Returns "" if it came to its end, and otherwise what
/// became of the process: "crashed with signal 11 (Segmentation fault)", "ended early with status 0", "took
/// more than 20000 ms". What `body` writes to memory stays there, but for SharedBytes. The process dies with
/// the thread that called. Errors: Error if no process can be made, and with the message of what `body`
/// throws.
[[nodiscard]] std::string run_contained(const std::function<void(Progress& progress)>& body,
                                        std::chrono::milliseconds timeout,
                                        Containment containment = Containment::Process,
                                        std::chrono::steady_clock::time_point until = kNoDeadline);

/// action(i, progress) for each i below `count` as in run_contained, in as few processes as it takes,
/// `workers` of them at the same time. Says by item what became of its process; an item that ends it takes
/// none of the others with it.
[[nodiscard]] std::vector<std::string> run_contained_each(
    size_t count, const std::function<void(size_t item, Progress& progress)>& action,
    std::chrono::milliseconds timeout, int workers = 1, Containment containment = Containment::Process,
    std::chrono::steady_clock::time_point until = kNoDeadline);

}  // namespace luminal::search
