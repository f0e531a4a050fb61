#include "cli/interrupt.h"

#include <atomic>

namespace luminal::cli {
namespace {

std::atomic<bool> flag{false};
std::atomic<int> number{SIGINT};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free,
              "a signal handler may touch nothing else");

void on_signal(int signal) {
  if (flag.exchange(true)) {  // asked twice: the signal acts as if nobody had caught it
    std::signal(signal, SIG_DFL);
    std::raise(signal);
    return;
  }
  number = signal;
}

}  // namespace

InterruptGuard::InterruptGuard() : scope_(flag) {
  flag = false;
  struct sigaction action{};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &interrupt_);
  sigaction(SIGTERM, &action, &terminate_);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &interrupt_, nullptr);
  sigaction(SIGTERM, &terminate_, nullptr);
}

bool interrupted() { return flag; }

int interrupted_code() { return 128 + number; }

}  // namespace luminal::cli
