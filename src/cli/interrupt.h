#pragma once
#include <csignal>

#include "base/cancel.h"

namespace luminal::cli {

/// While it lives, the first Ctrl-C (SIGINT, or SIGTERM) makes interrupted() true and asks the work of this
/// thread to stop (CancelScope): searches and runs throw Cancelled, loops that look at interrupted() save
/// what they have and report. The second ends the program at once. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  ~InterruptGuard();

 private:
  struct sigaction interrupt_{}, terminate_{};  // what was in force before
  CancelScope scope_;
};

/// While it lives, the first Ctrl-C makes `asked` true and does nothing else; what comes after it, and SIGTERM,
/// act as they did before. One at a time.
class SearchInterrupt {
 public:
  SearchInterrupt();
  SearchInterrupt(const SearchInterrupt&) = delete;
  SearchInterrupt& operator=(const SearchInterrupt&) = delete;
  ~SearchInterrupt();
  [[nodiscard]] bool asked() const;

 private:
  struct sigaction before_{};
};

[[nodiscard]] bool interrupted();
/// The exit code that shells give a program that the signal ended: 130 after SIGINT, 143 after SIGTERM.
[[nodiscard]] int interrupted_code();

}  // namespace luminal::cli
