#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

/// Code that nobody has judged yet runs in a process of its own: a crash, a hang, an exit or a write to any
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

 private:
  std::byte* data_ = nullptr;
  int64_t size_bytes_ = 0;
};

/// What a contained process tells of its progress: each change gives it the whole timeout again.
using Progress = std::atomic<uint64_t>;

/// Calls `body(progress)` in a process of its own. Returns "" if it came to its end, and otherwise what
/// became of the process: "crashed with signal 11 (Segmentation fault)", "ended early with status 0", "took
/// more than 20000 ms". What `body` writes to memory stays there, but for SharedBytes. The process dies with
/// the thread that called. Errors: Error if no process can be made.
[[nodiscard]] std::string run_contained(const std::function<void(Progress& progress)>& body,
                                        std::chrono::milliseconds timeout);

/// What `action(0)` ... `action(count - 1)` return, called one after the other in one contained process. One
/// that crashes or takes longer than `timeout` says so and takes none of the others with it. Texts are cut at
/// 1,000 bytes.
[[nodiscard]] std::vector<std::string> run_contained_each(size_t count,
                                                          const std::function<std::string(size_t)>& action,
                                                          std::chrono::milliseconds timeout);

/// part(0) ... part(count - 1) at the same time, each in a process, for use inside a contained one: what was
/// forked from a process of several threads starts none (POSIX leaves it undefined). Ends the calling process
/// as the first of them ends that does not end well.
void run_in_processes(int64_t count, const std::function<void(int64_t)>& part,
                      std::chrono::milliseconds timeout);

}  // namespace luminal::search
