#include "base/thread.h"

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

ThreadLimit::ThreadLimit(int count) { threads_left = count; }
ThreadLimit::~ThreadLimit() { threads_left = INT_MAX; }

}  // namespace luminal
