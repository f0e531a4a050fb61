#include "search/contain.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "base/cancel.h"
#include "base/fail.h"

namespace luminal::search {

SharedBytes::SharedBytes(int64_t size_bytes) : size_bytes_(size_bytes) {
  void* mapped = ::mmap(nullptr, static_cast<size_t>(std::max<int64_t>(size_bytes, 1)),
                        PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED)
    fail("[verify] no {} bytes of shared memory: {}", size_bytes, std::strerror(errno));
  data_ = static_cast<std::byte*>(mapped);
}

SharedBytes::SharedBytes(SharedBytes&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_bytes_(other.size_bytes_) {}

SharedBytes::~SharedBytes() {
  if (data_) ::munmap(data_, static_cast<size_t>(std::max<int64_t>(size_bytes_, 1)));
}

namespace {

constexpr int kPartDone = 77;  ///< an exit from within a part rather says 0 or 1

/// What parent and child share of a contained run.
struct Board {
  Progress progress{0};
  std::atomic<bool> finished{false};  ///< an exit from within says 0 as well
};

/// Waits for the process. It has `timeout` from each time that its progress changes.
std::string wait_for(pid_t child, const Board& board, std::chrono::milliseconds timeout) {
  using Clock = std::chrono::steady_clock;
  uint64_t seen = 0;
  auto end = Clock::now() + timeout;
  auto pause = std::chrono::microseconds(50);
  for (;;) {
    int status = 0;
    const pid_t done = ::waitpid(child, &status, WNOHANG);
    if (done == child) {
      if (WIFSIGNALED(status))
        return fmt::format("crashed with signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
      if (WEXITSTATUS(status) == 0 && board.finished) return "";
      return fmt::format("ended early with status {}", WEXITSTATUS(status));
    }
    if (done < 0 && errno != EINTR) return fmt::format("was lost: {}", std::strerror(errno));
    if (const uint64_t now = board.progress.load(); now != seen) {
      seen = now;
      end = Clock::now() + timeout;
    }
    if (Clock::now() > end || is_cancelled()) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      throw_if_cancelled();
      return fmt::format("took more than {} ms", timeout.count());
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(2000));
  }
}

/// Nobody is left behind when a search is killed.
void die_with_parent(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(3);  // it died before it could be told
}

}  // namespace

std::string run_contained(const std::function<void(Progress&)>& body, std::chrono::milliseconds timeout) {
  const SharedBytes shared(sizeof(Board));
  auto* board = new (shared.bytes().data()) Board{};
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) fail("[verify] no process for a trial: {}", std::strerror(errno));
  if (child != 0) return wait_for(child, *board, timeout);
  die_with_parent(parent);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM}) ::signal(signal, SIG_DFL);
  ::signal(SIGINT, SIG_IGN);  // the terminal sends it to all: the parent decides
  try {
    body(board->progress);
  } catch (...) {
    ::_exit(2);
  }
  board->finished = true;
  ::_exit(0);
}

std::vector<std::string> run_contained_each(size_t count, const std::function<std::string(size_t)>& action,
                                            std::chrono::milliseconds timeout) {
  constexpr size_t kText = 1000;
  struct Said {
    std::atomic<bool> done;
    size_t length;
    char text[kText];
  };
  const SharedBytes shared(static_cast<int64_t>(count * sizeof(Said)));
  auto* said = reinterpret_cast<Said*>(shared.bytes().data());
  std::vector<std::string> results(count);
  for (size_t first = 0; first < count;) {
    const std::string trouble = run_contained(
        [&](Progress& progress) {
          for (size_t i = first; i < count; ++i) {
            const std::string text = action(i);
            said[i].length = text.copy(said[i].text, kText);
            said[i].done = true;
            ++progress;
          }
        },
        timeout);
    for (; first < count && said[first].done; ++first)
      results[first].assign(said[first].text, said[first].length);
    if (first < count) results[first++] = trouble;
  }
  return results;
}

void run_in_processes(int64_t count, const std::function<void(int64_t)>& part,
                      std::chrono::milliseconds timeout) {
  std::vector<pid_t> helpers;
  const pid_t parent = ::getpid();
  for (int64_t i = 1; i < count; ++i) {
    const pid_t helper = ::fork();
    if (helper < 0) {  // the system gives no more: this one does its part
      part(i);
      continue;
    }
    if (helper == 0) {
      die_with_parent(parent);
      ::alarm(static_cast<unsigned>(timeout.count() / 1000 + 1));  // should nobody be left who waits
      part(i);
      ::_exit(kPartDone);
    }
    helpers.push_back(helper);
  }
  part(0);
  for (const pid_t helper : helpers) {
    int status = 0;
    ::waitpid(helper, &status, 0);
    if (WIFSIGNALED(status)) ::raise(WTERMSIG(status));
    if (WEXITSTATUS(status) != kPartDone) ::_exit(WEXITSTATUS(status));
  }
}

}  // namespace luminal::search
