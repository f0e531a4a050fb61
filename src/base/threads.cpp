#include "base/threads.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/environment.h"

namespace luminal {
namespace {

thread_local bool inside_piece = false;

/// A team of workers that sleep between jobs. One job at a time; pieces are handed out in order.
class Team {
 public:
  explicit Team(int workers) {
    for (int i = 1; i < workers; ++i) threads_.emplace_back([this](std::stop_token stop) { work(stop); });
  }

  [[nodiscard]] int64_t size() const { return static_cast<int64_t>(threads_.size()) + 1; }

  void run(int64_t pieces, const std::function<void(int64_t)>& piece) {
    const std::lock_guard one_job(job_mutex_);
    {
      const std::lock_guard lock(mutex_);
      piece_ = &piece;
      next_ = 0;
      pieces_ = pieces;
      unfinished_ = pieces;
      error_ = nullptr;
    }
    wake_.notify_all();
    take_pieces();
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return unfinished_ == 0; });
    piece_ = nullptr;
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void work(const std::stop_token& stop) {
    while (true) {
      {
        std::unique_lock lock(mutex_);
        if (!wake_.wait(lock, stop, [this] { return next_ < pieces_; })) return;
      }
      take_pieces();
    }
  }

  void take_pieces() {
    while (true) {
      int64_t mine = 0;
      const std::function<void(int64_t)>* piece = nullptr;
      {
        const std::lock_guard lock(mutex_);
        if (next_ >= pieces_) return;
        mine = next_++;
        piece = piece_;
      }
      std::exception_ptr thrown;
      inside_piece = true;
      try {
        (*piece)(mine);
      } catch (...) {
        thrown = std::current_exception();
      }
      inside_piece = false;
      const std::lock_guard lock(mutex_);
      if (thrown && !error_) error_ = thrown;
      if (--unfinished_ == 0) done_.notify_all();
    }
  }

  std::mutex job_mutex_, mutex_;
  std::condition_variable_any wake_;
  std::condition_variable done_;
  const std::function<void(int64_t)>* piece_ = nullptr;
  int64_t next_ = 0, pieces_ = 0, unfinished_ = 0;
  std::exception_ptr error_;
  std::vector<std::jthread> threads_;  // last: joined before what they use goes away
};

}  // namespace

void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  if (count <= 0) return;
  grain = std::max<int64_t>(1, grain);
  const int64_t most = (count + grain - 1) / grain;
  if (inside_piece || most == 1) return body(0, count);
  static Team team(environment::threads());
  const int64_t pieces =
      std::min(most, team.size() * 4);  // a few per thread, so that an uneven machine evens out
  if (team.size() == 1) return body(0, count);
  team.run(pieces, [&](int64_t i) { body(count * i / pieces, count * (i + 1) / pieces); });
}

}  // namespace luminal
