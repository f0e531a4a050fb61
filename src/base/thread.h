#pragma once
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

namespace luminal {

namespace detail {
/// Errors: std::system_error if a ThreadLimit allows no further thread.
void count_thread();
void tell_no_thread(const std::system_error& error);
}  // namespace detail

/// A thread (std::thread or std::jthread) that runs `body`; nothing if the system gives none, which is told
/// once. All threads are started here: work goes on with fewer, or none, and ends with the same result.
template <class Thread = std::thread, class Body>
[[nodiscard]] std::optional<Thread> start_thread(Body&& body) {
  try {
    detail::count_thread();
    return std::optional<Thread>(std::in_place, std::forward<Body>(body));
  } catch (const std::system_error& error) {
    detail::tell_no_thread(error);
    return std::nullopt;
  }
}

/// The processor that the calling thread runs on; -1 where the system does not say.
[[nodiscard]] int processor_here();

/// Moves the calling thread, the `number`th beside one on processor `home`, to a processor of its own if there are so
/// many; where it runs from then on is the system's choice, within the processors that the process may use. For threads of
/// a team, which wait in loops: those that begin on one processor may share it for 20 ms and more while others are idle,
/// for Linux spreads threads when they wake. Does nothing where the system does not say what runs where.
void begin_on_own_processor(int number, int home);

/// For tests: while it lives the system gives `count` further threads, as where a limit on processes is
/// reached. (Such limits do not hold for root, and tests may run as root.)
class ThreadLimit {
 public:
  explicit ThreadLimit(int count);
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;
  ~ThreadLimit();
};

}  // namespace luminal
