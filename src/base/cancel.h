#pragma once
#include <atomic>
#include <stop_token>

#include "luminal/cancel.h"

namespace luminal {

/// Something that may ask the work of this thread to stop: a stop token, or a flag that a signal handler
/// sets. It counts for all that the thread does while the scope lives, within other scopes too, and for the
/// jobs that it gives a Team. Long work looks at the heads of its loops:
///
///   for (Job& job : jobs) {
///     throw_if_cancelled();
///     tune(job);
///   }
class CancelScope {
 public:
  explicit CancelScope(std::stop_token token);
  /// The flag outlives the scope.
  explicit CancelScope(const std::atomic<bool>& flag);
  CancelScope(const CancelScope&) = delete;
  CancelScope& operator=(const CancelScope&) = delete;
  ~CancelScope();

  /// The innermost scope of this thread, or null.
  [[nodiscard]] static const CancelScope* current();
  /// While it lives, this thread works under the scopes of another one, which waits for it.
  class Lent {
   public:
    explicit Lent(const CancelScope* of_lender);
    Lent(const Lent&) = delete;
    Lent& operator=(const Lent&) = delete;
    ~Lent();

   private:
    const CancelScope* before_;
  };

 private:
  friend bool is_cancelled();
  std::stop_token token_;
  const std::atomic<bool>* flag_ = nullptr;
  const CancelScope* outer_;
};

[[nodiscard]] bool is_cancelled();
/// Errors: Cancelled.
void throw_if_cancelled();

}  // namespace luminal
