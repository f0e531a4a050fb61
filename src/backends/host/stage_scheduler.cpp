#include "backends/host/stage_scheduler.h"

#include <algorithm>

namespace luminal::backends {
namespace {

/// How far a thread looks ahead of the first stage that has tasks left when that one has to wait.
constexpr int kLookAhead = 16;
/// In how many pieces a worker claims its part: the grain of helping each other.
constexpr int64_t kPieces = 4;

/// What there is to claim of a stage. One without tasks is claimed once like any other: orders are reduced,
/// so whoever follows it relies on it not being complete before those that it follows.
int64_t claims(const StageWork& work) { return std::max<int64_t>(1, work.tasks); }

}  // namespace

StageScheduler::StageScheduler(std::vector<StageWork> stages, int workers)
    : stages_(std::move(stages)),
      workers_(workers),
      progress_(stages_.size()),
      parts_(stages_.size() * static_cast<size_t>(workers)) {}

void StageScheduler::run(Team& team, int begin, int end) {
  int64_t most_tasks = 0;
  for (int stage = begin; stage < end; ++stage) {
    const int64_t tasks = claims(stages_[static_cast<size_t>(stage)]);
    Progress& progress = progress_[static_cast<size_t>(stage)];
    progress.done.store(0, std::memory_order_relaxed);
    progress.exhausted.store(false, std::memory_order_relaxed);
    for (int worker = 0; worker < workers_; ++worker)
      part(stage, worker).next.store(tasks * worker / workers_, std::memory_order_relaxed);
    most_tasks = std::max(most_tasks, tasks);
  }
  begin_ = begin;
  end_ = end;
  failed_.store(false, std::memory_order_relaxed);
  spin_ns_ = team.spin_ns();
  // A single stage of one task is the caller's alone.
  const int limit = end - begin == 1 && most_tasks <= 1 ? 1 : workers_;
  team.run(limit, [this](int worker) { work(worker); });
}

bool StageScheduler::is_ready(int stage) const {
  return std::ranges::all_of(stages_[static_cast<size_t>(stage)].before, [this](int earlier) {
    return earlier < begin_ || progress_[static_cast<size_t>(earlier)].done.load(std::memory_order_acquire) ==
                                   claims(stages_[static_cast<size_t>(earlier)]);
  });
}

/// Claims and runs tasks of a ready stage until none is left. False if there was none to begin with.
bool StageScheduler::take(int stage, int worker) {
  const StageWork& work = stages_[static_cast<size_t>(stage)];
  LaunchArguments arguments = work.arguments;
  arguments.local = local_ + worker * local_bytes_;
  const int64_t all = claims(work);
  int64_t ran = 0;
  for (int i = 0; i < workers_; ++i) {
    const int owner = (worker + i) % workers_;
    const int64_t begin = all * owner / workers_, end = all * (owner + 1) / workers_;
    const int64_t piece = std::max<int64_t>(1, (end - begin) / kPieces);
    std::atomic<int64_t>& next = part(stage, owner).next;
    while (next.load(std::memory_order_relaxed) < end) {
      const int64_t first = next.fetch_add(piece, std::memory_order_relaxed);
      if (first >= end) break;
      const int64_t last = std::min(end, first + piece);
      if (work.tasks > 0) work.kernel->run(work.stage, arguments, first, last);
      ran += last - first;
    }
  }
  Progress& progress = progress_[static_cast<size_t>(stage)];
  progress.exhausted.store(true, std::memory_order_relaxed);
  if (ran > 0 && progress.done.fetch_add(ran, std::memory_order_acq_rel) + ran == all) {
    completed_.fetch_add(1);
    completed_.notify_all();
  }
  return ran > 0;
}

void StageScheduler::work(int worker) {
  try {
    walk(worker);
  } catch (...) {  // its stage never completes: nobody may wait for it
    failed_.store(true, std::memory_order_relaxed);
    completed_.fetch_add(1);
    completed_.notify_all();
    throw;
  }
}

void StageScheduler::walk(int worker) {
  int low = begin_;
  while (true) {
    const uint32_t seen = completed_.load();
    while (low < end_ && progress_[static_cast<size_t>(low)].exhausted.load(std::memory_order_relaxed)) ++low;
    if (low == end_ || failed_.load(std::memory_order_relaxed)) return;
    bool worked = false;
    for (int stage = low; stage < std::min(end_, low + kLookAhead) && !worked; ++stage)
      if (!progress_[static_cast<size_t>(stage)].exhausted.load(std::memory_order_relaxed) && is_ready(stage))
        worked = take(stage, worker);
    if (worked) continue;
    // What is left waits for tasks that other threads are running.
    if (progress_[static_cast<size_t>(low)].exhausted.load(std::memory_order_relaxed)) continue;
    const auto moved = [&] { return completed_.load(std::memory_order_acquire) != seen; };
    while (!spin_until(spin_ns_, moved)) completed_.wait(seen);
  }
}

}  // namespace luminal::backends
