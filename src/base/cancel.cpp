#include "base/cancel.h"

#include <utility>

namespace luminal {
namespace {

thread_local const CancelScope* innermost = nullptr;

}  // namespace

CancelScope::CancelScope(std::stop_token token)
    : token_(std::move(token)), outer_(std::exchange(innermost, this)) {}
CancelScope::CancelScope(const std::atomic<bool>& flag)
    : flag_(&flag), outer_(std::exchange(innermost, this)) {}
CancelScope::~CancelScope() { innermost = outer_; }

const CancelScope* CancelScope::current() { return innermost; }

CancelScope::Lent::Lent(const CancelScope* of_lender) : before_(std::exchange(innermost, of_lender)) {}
CancelScope::Lent::~Lent() { innermost = before_; }

bool is_cancelled() {
  for (const CancelScope* scope = innermost; scope != nullptr; scope = scope->outer_)
    if ((scope->flag_ != nullptr && scope->flag_->load(std::memory_order_relaxed)) ||
        scope->token_.stop_requested())
      return true;
  return false;
}

void throw_if_cancelled() {
  if (is_cancelled()) throw Cancelled("[cancel] stopped before it was finished, as requested");
}

}  // namespace luminal
