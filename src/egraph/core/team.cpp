#include "egraph/core/team.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/thread.h"

namespace luminal::egraph {

namespace {

// Between two jobs the caller works alone for up to some hundred microseconds, and waking a thread takes as
// long. Who waits lets others have the processor after a few microseconds.
constexpr int kSpins = 300;
constexpr std::chrono::microseconds kAwake{500};

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
  const auto end = std::chrono::steady_clock::now() + kAwake;
  while (std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
    const uint32_t now = value.load(std::memory_order_acquire);
    if (now != old) return now;
  }
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

}  // namespace

Team::Team(uint32_t threads) : size_(std::max<uint32_t>(1, threads)) {
  threads_.reserve(size_ - 1);
  const int home = processor_here();
  for (uint32_t t = 1; t < size_; t++) {
    auto thread = start_thread([this, t, home] {
      begin_on_own_processor(static_cast<int>(t), home);
      work();
    });
    if (!thread) break;  // whoever is there takes all pieces
    threads_.push_back(std::move(*thread));
  }
}

Team::~Team() {
  ends_.store(true, std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Team::run_job(Job job, const void* data, uint32_t count) {
  job_ = job;
  data_ = data;
  count_ = count;
  if (thrown_.size() < count) thrown_.resize(count);
  unfinished_.store(count, std::memory_order_relaxed);
  const uint32_t round = round_.load(std::memory_order_relaxed) + 1;
  open_.store((uint64_t{round} << 32) | count, std::memory_order_release);
  round_.store(round, std::memory_order_release);
  round_.notify_all();
  take_pieces(true);
  for (uint32_t left = unfinished_.load(std::memory_order_acquire); left != 0;)
    left = wait_for_change(unfinished_, left);
  std::exception_ptr first;
  for (std::exception_ptr& thrown : thrown_) {
    const std::exception_ptr one = std::exchange(thrown, nullptr);
    if (first == nullptr) first = one;
  }
  if (first != nullptr) std::rethrow_exception(first);
}

// Whoever takes a piece does so of the job that is then going on: it can't end without it. The caller takes
// the first, workers the last: what one of two threads had in its caches in one job comes to it in the next.
void Team::take_pieces(bool from_front) {
  uint64_t open = open_.load(std::memory_order_acquire);
  for (;;) {
    const uint32_t first = static_cast<uint16_t>(open >> 16), end = static_cast<uint16_t>(open);
    if (first == end) return;
    const uint64_t rest = from_front ? open + (1 << 16) : open - 1;
    if (!open_.compare_exchange_weak(open, rest, std::memory_order_acq_rel, std::memory_order_acquire))
      continue;
    const uint32_t piece = from_front ? first : end - 1;
    try {
      job_(data_, piece);
    } catch (...) {
      thrown_[piece] = std::current_exception();
    }
    if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished_.notify_one();
    open = open_.load(std::memory_order_acquire);
  }
}

void Team::work() {
  for (uint32_t seen = 0;;) {
    seen = wait_for_change(round_, seen);
    if (ends_.load(std::memory_order_relaxed)) return;
    take_pieces(false);
  }
}

}  // namespace luminal::egraph
