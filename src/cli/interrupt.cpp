#include "cli/interrupt.h"

#include <atomic>

namespace luminal::cli {
namespace {

std::atomic<bool> flag{false};
std::atomic<int> signal_number{SIGINT};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free,
              "a signal handler may touch nothing else");

void on_signal(int signal) {
  if (flag.exchange(true)) {  // asked twice: the signal acts as if nobody had caught it
    std::signal(signal, SIG_DFL);
    std::raise(signal);
    return;
  }
  signal_number = signal;
}

std::atomic<bool> end_of_search{false};

void listen(int signal, void (*handler)(int), struct sigaction* before) {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, before);
}

std::atomic<bool> guarded{false};  // an InterruptGuard lives

void on_signal_in_search(int signal) {
  if (!flag && !end_of_search.exchange(true)) return;
  if (guarded) return on_signal(signal);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

SearchInterrupt::SearchInterrupt() {
  end_of_search = false;
  listen(SIGINT, on_signal_in_search, &before_);
}
SearchInterrupt::~SearchInterrupt() { sigaction(SIGINT, &before_, nullptr); }

bool SearchInterrupt::asked() const { return end_of_search; }

InterruptGuard::InterruptGuard() : scope_(flag) {
  flag = false;
  guarded = true;
  listen(SIGINT, on_signal, &interrupt_);
  listen(SIGTERM, on_signal, &terminate_);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &interrupt_, nullptr);
  sigaction(SIGTERM, &terminate_, nullptr);
  guarded = false;
}

bool interrupted() { return flag; }

int interrupted_code() { return 128 + signal_number; }

}  // namespace luminal::cli
