#include "egraph/core/team.h"

#include <algorithm>
#include <utility>

namespace luminal::egraph {

namespace {

constexpr int kSpins = 1000;  ///< up to a hundred microseconds

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// Waits until `value` is no longer `old`: briefly awake, then asleep.
uint32_t wait_for_change(const std::atomic<uint32_t>& value, uint32_t old) {
  for (int i = 0; i < kSpins; i++) {
    const uint32_t now = value.load(std::memory_order_acquire);
    if (now != old) return now;
    pause();
  }
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

}  // namespace

Team::Team(uint32_t threads) : size_(std::max<uint32_t>(1, threads)), next_(size_), thrown_(size_) {
  for (uint32_t t = 1; t < size_; t++) threads_.emplace_back([this] { work(); });
}

Team::~Team() {
  ends_.store(true, std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Team::run_job(Job job, const void* data) {
  job_ = job;
  data_ = data;
  unfinished_.store(size_, std::memory_order_relaxed);
  const uint32_t round = round_.load(std::memory_order_relaxed) + 1;
  next_.store(uint64_t{round} << 32, std::memory_order_release);
  round_.store(round, std::memory_order_release);
  round_.notify_all();
  take_pieces();
  for (uint32_t left = unfinished_.load(std::memory_order_acquire); left != 0;)
    left = wait_for_change(unfinished_, left);
  std::exception_ptr first;
  for (std::exception_ptr& thrown : thrown_) {
    const std::exception_ptr one = std::exchange(thrown, nullptr);
    if (first == nullptr) first = one;
  }
  if (first != nullptr) std::rethrow_exception(first);
}

// Whoever gets a number below the size has a piece of the job that is then going on: it can't end without it.
void Team::take_pieces() {
  while (static_cast<uint32_t>(next_.load(std::memory_order_relaxed)) < size_) {
    const uint32_t piece = static_cast<uint32_t>(next_.fetch_add(1, std::memory_order_acq_rel));
    if (piece >= size_) return;
    try {
      job_(data_, piece);
    } catch (...) {
      thrown_[piece] = std::current_exception();
    }
    if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished_.notify_one();
  }
}

void Team::work() {
  for (uint32_t seen = 0;;) {
    seen = wait_for_change(round_, seen);
    if (ends_.load(std::memory_order_relaxed)) return;
    take_pieces();
  }
}

}  // namespace luminal::egraph
