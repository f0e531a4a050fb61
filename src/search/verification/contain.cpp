#include "search/verification/contain.h"

#include <malloc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <limits>
#include <optional>
#include <thread>
#include <utility>

#include "base/cancel.h"
#include "base/fail.h"
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

/// What a contained process tells the one that waits for it.
struct Board {
  Progress progress;
  std::atomic<size_t> item;    ///< that it works on
  std::atomic<bool> finished;  ///< an exit from within says 0 as well
  bool threw;
  char what[1000];
};

/// Nobody is left behind when a search is killed.
void die_with_parent(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(3);  // the parent died before its death could be signalled
}

/// Trials take and return the same large tensors again and again: fresh pages for each of them would take
/// longer than most kernels.
void keep_freed_memory() {
#ifdef __GLIBC__
  ::mallopt(M_MMAP_MAX, 0);
  ::mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
#endif
}

/// A forked process and how long it may stay silent. Killed with the object.
class Worker {
 public:
  Worker(Board& board, std::chrono::milliseconds timeout, const std::function<void()>& body)
      : board_(&board), timeout_(timeout), looked_(Clock::now()), seen_(board.progress) {
    const pid_t parent = ::getpid();
    process_ = ::fork();
    if (process_ != 0) return;
    die_with_parent(parent);
    keep_freed_memory();
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
        process_(std::exchange(other.process_, -1)) {}
  Worker& operator=(Worker&&) = delete;
  ~Worker() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }

  [[nodiscard]] bool is_there() const { return process_ > 0; }
  [[nodiscard]] size_t item() const { return board_->item; }

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
    return fmt::format("took more than {} ms", timeout_.count());
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
  pid_t process_ = -1;
};

}  // namespace

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
  const auto done = shared_done.as<std::atomic<bool>>();
  const std::span<Board> boards = shared_boards.as<Board>();
  std::atomic<size_t>& next = shared_next.as<std::atomic<size_t>>()[0];
  std::vector<std::string> results(count);
  std::vector<std::optional<Worker>> running(most);
  const auto start = [&](size_t w) {
    Board& board = *new (&boards[w]) Board{};
    board.item = count;
    running[w].emplace(board, timeout, [&board, &next, &action, done, count] {
      for (size_t item = next++; item < count; item = next++) {
        board.item = item;
        ++board.progress;
        action(item, board.progress);
        done[item] = true;
      }
    });
    if (running[w]->is_there()) return;
    running[w].reset();  // others may do its work
    if (std::ranges::none_of(running, [](const auto& worker) { return worker.has_value(); }))
      fail("[verify] cannot start a process for a trial: {}", std::strerror(errno));
  };
  for (size_t w = 0; w < most; ++w) start(w);
  auto pause = std::chrono::microseconds(50);
  for (;;) {
    bool all_ended = true;
    for (size_t w = 0; w < most; ++w) {
      if (!running[w]) continue;
      all_ended = false;
      const std::optional<std::string> trouble = running[w]->ended();
      if (!trouble) continue;
      const size_t item = running[w]->item();
      running[w].reset();
      if (trouble->empty()) continue;
      if (item == count) fail("[verify] a process for trials {} before its first trial", *trouble);
      results[item] = *trouble;
      if (next < count) start(w);
    }
    if (all_ended) return results;
    throw_if_cancelled();
    if (is_over(until)) break;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(2000));
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
