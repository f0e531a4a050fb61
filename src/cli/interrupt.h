#pragma once
#include <csignal>

namespace luminal::cli {

/// While it lives, the first Ctrl-C (SIGINT, or SIGTERM) only makes interrupted() true, so that long work can
/// stop at a good point, save and report; the second ends the program at once. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  ~InterruptGuard();

 private:
  struct sigaction interrupt_{}, terminate_{};  // what was in force before
};

[[nodiscard]] bool interrupted();

}  // namespace luminal::cli
