#include "search/verification/contain.h"

#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/cancel.h"
#include "base/fail.h"
#include "base/fork.h"
#include "base/memory.h"
#include "base/page_pool.h"
#include "base/team.h"
#include "search/watch.h"

namespace luminal::search {

SharedBytes::SharedBytes(int64_t size_bytes) : size_bytes_(size_bytes) {
  void* mapped = ::mmap(nullptr, static_cast<size_t>(std::max<int64_t>(size_bytes, 1)),
                        PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED)
    fail("[verify] cannot map {} bytes of shared memory: {}", size_bytes, std::strerror(errno));
  data_ = static_cast<std::byte*>(mapped);
}

SharedBytes::SharedBytes(SharedBytes&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_bytes_(other.size_bytes_) {}

SharedBytes::~SharedBytes() {
  if (data_) ::munmap(data_, static_cast<size_t>(std::max<int64_t>(size_bytes_, 1)));
}

using Clock = std::chrono::steady_clock;

namespace {

constexpr std::string_view kTimeoutText = "took more than ";

}  // namespace

bool is_timeout(std::string_view trouble) { return trouble.starts_with(kTimeoutText); }

namespace {

/// What a contained process tells the one that waits for it.
struct Board {
  Progress progress;
  std::atomic<size_t> item;    ///< that it works on
  std::atomic<bool> finished;  ///< an exit from within says 0 as well
  bool threw;
  char what[1000];
};

/// Trials take and return the same large tensors again and again: fresh pages for each of them would take
/// longer than most kernels.
void keep_freed_memory() {
#ifdef __GLIBC__
  ::mallopt(M_MMAP_MAX, 0);
  ::mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
#endif
}

/// Pools of pages, one for each group of contained processes that run at the same time.
class Pools {
 public:
  static Pools& of_process() {
    static Pools pools;
    return pools;
  }

  /// The first one that nobody has: processes that run alone are all served by the same.
  PagePool& lend() {
    const std::scoped_lock lock(mutex_);
    auto found = std::ranges::find(entries_, false, &Entry::is_lent);
    if (found == entries_.end())
      found = entries_.insert(found,
                              Entry{.pool = std::make_unique<PagePool>(most_bytes(), Team::shared().size())});
    found->is_lent = true;
    return *found->pool;
  }
  void take_back(const PagePool& pool) {
    const std::scoped_lock lock(mutex_);
    std::ranges::find(entries_, &pool, [](const Entry& entry) { return entry.pool.get(); })->is_lent = false;
    drop_unkept();
  }
  void add_keepers(int count) {
    const std::scoped_lock lock(mutex_);
    keepers_ += count;
    drop_unkept();
  }

 private:
  struct Entry {
    std::unique_ptr<PagePool> pool;
    bool is_lent = false;
  };
  static int64_t most_bytes() {
    constexpr int64_t kMost = int64_t{2} << 30, kOneIn = 8;
    return std::min(kMost, available_memory_bytes() / kOneIn);
  }
  void drop_unkept() {
    if (keepers_ == 0) std::erase_if(entries_, [](const Entry& entry) { return !entry.is_lent; });
  }

  std::mutex mutex_;
  int keepers_ = 0;
  std::vector<Entry> entries_;
};

class LentPool {
 public:
  LentPool() : pool_(Pools::of_process().lend()) {}
  LentPool(const LentPool&) = delete;
  LentPool& operator=(const LentPool&) = delete;
  ~LentPool() { Pools::of_process().take_back(pool_); }
  [[nodiscard]] PagePool& get() const { return pool_; }

 private:
  PagePool& pool_;
};

/// A pipe of which the other process holds the end to write: the end to read hangs up when it dies.
class Lifeline {
 public:
  Lifeline() {
    if (::pipe2(ends_, O_CLOEXEC) != 0) ends_[0] = ends_[1] = -1;  // its end is then seen a little later
  }
  Lifeline(Lifeline&& other) noexcept
      : ends_{std::exchange(other.ends_[0], -1), std::exchange(other.ends_[1], -1)} {}
  Lifeline& operator=(Lifeline&&) = delete;
  ~Lifeline() {
    close_end(0);
    close_end(1);
  }
  void hold() { close_end(0); }
  void watch() { close_end(1); }
  [[nodiscard]] pollfd watched() const { return {.fd = ends_[0], .events = 0, .revents = 0}; }

 private:
  void close_end(size_t end) {
    if (ends_[end] >= 0) ::close(std::exchange(ends_[end], -1));
  }
  int ends_[2];
};

/// A forked process and how long it may stay silent. Killed with the object.
class Worker {
 public:
  Worker(Board& board, PagePool& pool, const PagePool::Share& share, std::chrono::milliseconds timeout,
         const std::function<void()>& body)
      : board_(&board), timeout_(timeout), looked_(Clock::now()), seen_(board.progress) {
    const pid_t parent = ::getpid();
    process_ = ::fork();
    if (process_ != 0) {
      lifeline_.watch();
      return;
    }
    lifeline_.hold();
    die_with_parent(parent);
    keep_freed_memory();
    pool.serve(share);
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM}) ::signal(signal, SIG_DFL);
    ::signal(SIGINT, SIG_IGN);  // the terminal sends it to all: the parent decides
    try {
      body();
    } catch (const std::exception& error) {
      std::string_view(error.what()).copy(board.what, sizeof(board.what) - 1);
      board.threw = true;
    } catch (...) {
      ::_exit(2);
    }
    board.finished = true;
    ::_exit(0);
  }
  Worker(Worker&& other) noexcept
      : board_(other.board_),
        timeout_(other.timeout_),
        looked_(other.looked_),
        silent_(other.silent_),
        seen_(other.seen_),
        lifeline_(std::move(other.lifeline_)),
        process_(std::exchange(other.process_, -1)) {}
  Worker& operator=(Worker&&) = delete;
  ~Worker() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }

  [[nodiscard]] bool is_there() const { return process_ > 0; }
  [[nodiscard]] size_t item() const { return board_->item; }
  [[nodiscard]] pollfd watched() const { return lifeline_.watched(); }

  /// Nothing while it works; then "" or what became of it. Errors: Error with what its body threw.
  [[nodiscard]] std::optional<std::string> ended() {
    int status = 0;
    const pid_t done = ::waitpid(process_, &status, WNOHANG);
    if (done == process_) {
      process_ = -1;
      if (board_->threw) fail("{}", board_->what);
      if (WIFSIGNALED(status))
        return fmt::format("crashed with signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
      if (WEXITSTATUS(status) == 0 && board_->finished) return "";
      return fmt::format("ended early with status {}", WEXITSTATUS(status));
    }
    if (done < 0 && errno != EINTR) return fmt::format("was lost: {}", std::strerror(errno));
    if (const uint64_t now = board_->progress.load(); now != seen_) {
      seen_ = now;
      silent_ = {};
    }
    if (!is_overdue()) return std::nullopt;
    return fmt::format("{}{} ms", kTimeoutText, timeout_.count());
  }

 private:
  /// A look that comes late says that this process stood still as well (Ctrl-Z, a debugger, a machine that
  /// was suspended): of that time little counts.
  bool is_overdue() {
    const auto now = Clock::now();
    silent_ += std::min<Clock::duration>(now - std::exchange(looked_, now), timeout_ / 10);
    return silent_ > timeout_;
  }

  Board* board_;
  std::chrono::milliseconds timeout_;
  Clock::time_point looked_;
  Clock::duration silent_{};  ///< since its progress changed last
  uint64_t seen_;
  Lifeline lifeline_;
  pid_t process_ = -1;
};

/// Waits until one of the workers ends, or for `most`.
void wait_for_one(std::span<const std::optional<Worker>> running, std::chrono::milliseconds most) {
  std::vector<pollfd> lines;
  for (const auto& worker : running)
    if (worker) lines.push_back(worker->watched());
  const int ended = ::poll(lines.data(), lines.size(), static_cast<int>(most.count()));
  // What hung up is about to be seen by waitpid; or a kernel has closed the line, and goes on.
  constexpr auto kAbout = std::chrono::microseconds(50);
  if (ended > 0) std::this_thread::sleep_for(kAbout);
}

}  // namespace

KeptPages::KeptPages() { Pools::of_process().add_keepers(1); }
KeptPages::~KeptPages() { Pools::of_process().add_keepers(-1); }

Containment containment_of(const backends::Kernel& kernel) {
  return kernel.device() == nullptr ? Containment::Process : Containment::None;
}
Containment containment_of(const backends::Device& device) {
  return device.shares_host_memory() ? Containment::Process : Containment::None;
}

namespace {

std::vector<std::string> run_here(size_t count, const std::function<void(size_t, Progress&)>& action,
                                  Clock::time_point until) {
  std::vector<std::string> results(count);
  Progress progress{0};
  for (size_t item = 0; item < count; ++item) {
    throw_if_cancelled();
    if (is_over(until)) {
      results[item] = kNoTimeLeft;
      continue;
    }
    try {
      action(item, progress);
    } catch (const DeviceError& error) {
      results[item] = fmt::format("failed: {}", error.what());
    }
  }
  return results;
}

}  // namespace

std::vector<std::string> run_contained_each(size_t count,
                                            const std::function<void(size_t, Progress&)>& action,
                                            std::chrono::milliseconds timeout, int workers,
                                            Containment containment, Clock::time_point until) {
  if (containment == Containment::None) return run_here(count, action, until);
  const size_t most = std::min(count, static_cast<size_t>(std::max(workers, 1)));
  const SharedBytes shared_boards(static_cast<int64_t>(most * sizeof(Board)));
  const SharedBytes shared_next(sizeof(std::atomic<size_t>));
  const SharedBytes shared_done(static_cast<int64_t>(count * sizeof(std::atomic<bool>)));
  const SharedBytes shared_taken(static_cast<int64_t>(count * sizeof(std::atomic<bool>)));
  const auto done = shared_done.as<std::atomic<bool>>(), taken = shared_taken.as<std::atomic<bool>>();
  const std::span<Board> boards = shared_boards.as<Board>();
  std::atomic<size_t>& next = shared_next.as<std::atomic<size_t>>()[0];
  std::vector<std::string> results(count);
  const LentPool pool;
  const std::vector<PagePool::Share> shares = pool.get().shares(static_cast<int>(std::max<size_t>(most, 1)));
  std::vector<std::optional<Worker>> running(most);
  // An item, or else the next one that nobody has taken.
  const auto take = [&next, taken, count](size_t item) {
    while (item < count && taken[item].exchange(true)) item = next++;
    return item;
  };
  const auto have_all_ended = [&running] {
    return std::ranges::none_of(running, [](const auto& worker) { return worker.has_value(); });
  };
  const auto start = [&](size_t w) {
    Board& board = *new (&boards[w]) Board{};
    board.item = count;
    running[w].emplace(board, pool.get(), shares[w], timeout, [&board, &next, &action, take, done, count, w] {
      for (size_t item = take(w); item < count; item = take(next++)) {
        board.item = item;
        ++board.progress;
        action(item, board.progress);
        done[item] = true;
      }
    });
    if (running[w]->is_there()) return;
    running[w].reset();  // others may do its work
    if (have_all_ended()) fail("[verify] cannot start a process for a trial: {}", std::strerror(errno));
  };
  for (size_t w = 0; w < most; ++w) start(w);
  // A worker's silence is measured by looks at it (Worker::is_overdue).
  const auto pause = std::clamp(timeout / 50, std::chrono::milliseconds(1), std::chrono::milliseconds(10));
  for (;;) {
    for (size_t w = 0; w < most; ++w) {
      if (!running[w]) continue;
      const std::optional<std::string> trouble = running[w]->ended();
      if (!trouble) continue;
      const size_t item = running[w]->item();
      running[w].reset();
      if (trouble->empty()) continue;
      if (item == count) fail("[verify] a process for trials {} before its first trial", *trouble);
      results[item] = *trouble;
      if (!std::ranges::all_of(taken, [](const std::atomic<bool>& is_taken) { return is_taken.load(); }))
        start(w);
    }
    if (have_all_ended()) return results;
    throw_if_cancelled();
    if (is_over(until)) break;
    wait_for_one(running, pause);
  }
  running.clear();  // ends them
  for (size_t item = 0; item < count; ++item)
    if (!done[item] && results[item].empty()) results[item] = kNoTimeLeft;
  return results;
}

std::string run_contained(const std::function<void(Progress&)>& body, std::chrono::milliseconds timeout,
                          Containment containment, Clock::time_point until) {
  return run_contained_each(
      1, [&](size_t, Progress& progress) { body(progress); }, timeout, 1, containment, until)[0];
}

}  // namespace luminal::search
