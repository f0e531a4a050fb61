#include "base/thread.h"

#ifdef __linux__
#include <sched.h>
#endif

#include <array>
#include <atomic>
#include <climits>

#include "base/log.h"

namespace luminal {
namespace {

std::atomic<int> threads_left{INT_MAX};

}  // namespace

namespace detail {

void count_thread() {
  if (threads_left.load(std::memory_order_relaxed) == INT_MAX) return;
  if (threads_left.fetch_sub(1) <= 0)
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
}

void tell_no_thread(const std::system_error& error) {
  static std::atomic<bool> told{false};
  if (told.exchange(true)) return;
  log_line(fmt::format("[threads] the system cannot start another thread ({}); continuing with fewer",
                       error.code().message()));
}

}  // namespace detail

int processor_here() {
#ifdef __linux__
  return ::sched_getcpu();
#else
  return -1;
#endif
}

void begin_on_own_processor([[maybe_unused]] int number, [[maybe_unused]] int home) {
#ifdef __linux__
  cpu_set_t allowed;
  if (home < 0 || ::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  // Allocates nothing: a thread may begin while a program is in its steady state.
  std::array<int, CPU_SETSIZE> processors;
  size_t count = 0, at = 0;  // of them; of `home`
  for (int p = 0; p < CPU_SETSIZE; ++p) {
    if (!CPU_ISSET(p, &allowed)) continue;
    if (p == home) at = count;
    processors[count++] = p;
  }
  cpu_set_t own;
  CPU_ZERO(&own);
  CPU_SET(processors[(at + static_cast<size_t>(number)) % count], &own);
  if (::sched_setaffinity(0, sizeof(own), &own) == 0) ::sched_setaffinity(0, sizeof(allowed), &allowed);
#endif
}

ThreadLimit::ThreadLimit(int count) { threads_left = count; }
ThreadLimit::~ThreadLimit() { threads_left = INT_MAX; }

}  // namespace luminal
