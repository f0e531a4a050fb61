#include "base/team.h"

#include <unistd.h>

#include <algorithm>

#include "base/cancel.h"
#include "base/environment.h"
#include "base/thread.h"

namespace luminal {
namespace {

thread_local bool inside = false;

constexpr int64_t kSpinNs = 50'000;  // about what waking a sleeper costs, a few times over

/// `inside` for as long as a job's function runs on this thread.
class Inside {
 public:
  Inside() : before_(inside) { inside = true; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() { inside = before_; }

 private:
  bool before_;
};

}  // namespace

void relax_processor() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
  asm volatile("yield");
#else
  std::this_thread::yield();
#endif
}

Team::Team(int workers) {
  const auto processors = static_cast<int>(std::thread::hardware_concurrency());
  spin_ns_ = processors >= workers ? kSpinNs : 0;
  threads_.reserve(static_cast<size_t>(std::max(0, workers - 1)));  // a thread that runs is never dropped
  const int home = processor_here();
  for (int worker = 1; worker < workers; ++worker) {
    auto thread = start_thread([this, worker, home] {
      begin_on_own_processor(worker, home);
      work(worker);
    });
    if (!thread) break;
    threads_.push_back(std::move(*thread));
  }
}

Team::~Team() {
  stop_ = true;
  number_.fetch_add(1);
  number_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

Team& Team::shared() {
  static Team team(environment::threads());
  static const pid_t maker = ::getpid();
  if (::getpid() == maker) return team;
  // Threads do not follow into a forked process: it gets a team of its own, which lives as long as it does.
  static Team* forked = nullptr;
  static pid_t owner = 0;
  if (owner != ::getpid()) {
    inside = false;
    forked = new Team(environment::threads());
    owner = ::getpid();
  }
  return *forked;
}

bool Team::inside_job() { return inside; }

void Team::run_job(int limit, const void* context, Function function, bool waits) {
  if (inside) return function(context, 0);
  std::unique_lock one_job(job_mutex_, std::defer_lock);
  const bool has_others = limit > 1 && !threads_.empty();
  if (has_others && waits) one_job.lock();
  if (!has_others || !(waits || one_job.try_lock())) {
    const Inside mark;
    return function(context, 0);
  }
  function_ = function;
  context_ = context;
  scope_ = CancelScope::current();
  limit_ = limit;
  error_ = nullptr;
  const uint32_t number = number_.load(std::memory_order_relaxed) + 1;
  gate_.store(uint64_t{number} << 32, std::memory_order_release);
  number_.store(number);
  number_.notify_all();
  call(0);
  gate_.fetch_or(kClosed, std::memory_order_acq_rel);
  const auto empty = [this] { return (gate_.load(std::memory_order_acquire) & kInside) == 0; };
  while (!spin_until(spin_ns_, empty)) {
    const uint64_t now = gate_.load(std::memory_order_acquire);
    if ((now & kInside) != 0) gate_.wait(now);
  }
  if (error_) std::rethrow_exception(error_);
}

void Team::work(int worker) {
  uint32_t seen = 0;  // the last job looked at; the gate may run ahead of `number_`
  while (true) {
    uint32_t number = 0;
    const auto called = [&] {
      number = number_.load(std::memory_order_acquire);
      return static_cast<int32_t>(number - seen) > 0;
    };
    while (!spin_until(spin_ns_, called)) number_.wait(number);
    if (stop_) return;
    seen = std::max(number, take_part(worker), [&](uint32_t a, uint32_t b) { return a - seen < b - seen; });
  }
}

/// Joins the job if it is still open. Returns the job's number.
uint32_t Team::take_part(int worker) {
  uint64_t gate = gate_.load(std::memory_order_acquire);
  do {
    if ((gate & kClosed) != 0) return static_cast<uint32_t>(gate >> 32);
  } while (!gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acq_rel));
  if (worker < limit_) call(worker);
  if ((gate_.fetch_sub(1, std::memory_order_acq_rel) & (kClosed | kInside)) == (kClosed | 1))
    gate_.notify_one();
  return static_cast<uint32_t>(gate >> 32);
}

void Team::call(int worker) {
  const Inside mark;
  const CancelScope::Lent lent(scope_);
  try {
    function_(context_, worker);
  } catch (...) {
    const std::lock_guard lock(error_mutex_);
    if (!error_) error_ = std::current_exception();
  }
}

}  // namespace luminal
