#include "search/trial.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <thread>

#include "base/fail.h"

namespace luminal::search {
namespace {

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

}  // namespace

GuardedMemory::GuardedMemory(int64_t size_bytes, int64_t alignment, Place place, bool shared)
    : size_bytes_(size_bytes), page_(::sysconf(_SC_PAGESIZE)) {
  const int64_t inner = round_up(std::max<int64_t>(size_bytes, 1), page_);
  mapped_bytes_ = inner + 2 * page_;
  void* mapped = ::mmap(nullptr, static_cast<size_t>(mapped_bytes_), PROT_READ | PROT_WRITE,
                        (shared ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED)
    fail("[verify] no {} bytes of memory for a trial: {}", mapped_bytes_, std::strerror(errno));
  base_ = static_cast<std::byte*>(mapped);
  ::mprotect(base_, static_cast<size_t>(page_), PROT_NONE);
  ::mprotect(base_ + page_ + inner, static_cast<size_t>(page_), PROT_NONE);
  data_ = base_ + page_ + (place == Place::AtStart ? 0 : (inner - size_bytes) / alignment * alignment);
}

GuardedMemory::~GuardedMemory() {
  if (base_) ::munmap(base_, static_cast<size_t>(mapped_bytes_));
}

GuardedMemory::GuardedMemory(GuardedMemory&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)),
      data_(other.data_),
      size_bytes_(other.size_bytes_),
      mapped_bytes_(other.mapped_bytes_),
      page_(other.page_),
      pattern_(other.pattern_) {}

void GuardedMemory::fill(std::byte pattern) {
  pattern_ = pattern;
  std::memset(base_ + page_, static_cast<int>(pattern), static_cast<size_t>(mapped_bytes_ - 2 * page_));
}

int64_t GuardedMemory::stray_writes() const {
  const auto changed = [&](std::byte b) { return b != pattern_; };
  return std::count_if(base_ + page_, data_, changed) +
         std::count_if(data_ + size_bytes_, base_ + mapped_bytes_ - page_, changed);
}

namespace {

struct Workspace {
  std::vector<GuardedMemory> buffers;
  std::vector<void*> pointers;
  std::unique_ptr<GuardedMemory> shared;
  std::vector<GuardedMemory> locals;
};

constexpr int64_t kWorkspaceAlignment = 64;

using Part = std::function<void(int64_t)>;

/// part(0) .. part(count - 1), each in a thread.
void in_threads(int64_t count, const Part& part) {
  std::vector<std::thread> helpers;
  for (int64_t i = 1; i < count; ++i) helpers.emplace_back(part, i);
  part(0);
  for (std::thread& helper : helpers) helper.join();
}

/// The same, each in a process: what was forked from a process of several threads starts none (POSIX leaves
/// it undefined, and the thread sanitizer does not follow). Ends as a helper that does not end well.
void in_processes(int64_t count, const Part& part, std::chrono::milliseconds timeout) {
  std::vector<pid_t> helpers;
  for (int64_t i = 1; i < count; ++i) {
    const pid_t helper = ::fork();
    if (helper < 0) ::_exit(3);
    if (helper == 0) {
      ::alarm(static_cast<unsigned>(timeout.count() / 1000 + 1));  // should nobody be left who waits
      part(i);
      ::_exit(0);
    }
    helpers.push_back(helper);
  }
  part(0);
  for (const pid_t helper : helpers) {
    int status = 0;
    ::waitpid(helper, &status, 0);
    if (WIFSIGNALED(status)) ::raise(WTERMSIG(status));
    if (WEXITSTATUS(status) != 0) ::_exit(WEXITSTATUS(status));
  }
}

/// All tasks of all stages; stages one after the other.
void run_stages(const backends::Kernel& kernel, const Workspace& work, std::span<const int64_t> dims,
                const TrialOptions& options) {
  for (int stage = 0; stage < kernel.stage_count(); ++stage) {
    const int64_t tasks = kernel.tasks(stage, dims);
    const auto threads = static_cast<int64_t>(work.locals.size());
    const Part part = [&](int64_t thread) {
      const int64_t begin = tasks * thread / threads, end = tasks * (thread + 1) / threads;
      if (begin == end) return;
      const backends::LaunchArguments arguments{
          .buffers = work.pointers.data(),
          .dims = dims.data(),
          .shared = work.shared->bytes().data(),
          .local = work.locals[static_cast<size_t>(thread)].bytes().data()};
      kernel.run(stage, arguments, begin, end);
    };
    if (options.contained)
      in_processes(threads, part, options.timeout);
    else
      in_threads(threads, part);
  }
}

/// Waits for the process that runs a kernel. "" if it ended well. It has `timeout` from each time that
/// `progress` changes.
std::string wait_for(pid_t child, std::chrono::milliseconds timeout,
                     const std::atomic<size_t>* progress = nullptr) {
  using Clock = std::chrono::steady_clock;
  size_t seen = 0;
  auto end = Clock::now() + timeout;
  auto pause = std::chrono::microseconds(50);
  for (;;) {
    int status = 0;
    const pid_t done = ::waitpid(child, &status, WNOHANG);
    if (done == child) {
      if (WIFSIGNALED(status))
        return fmt::format("crashed with signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
      return WEXITSTATUS(status) == 0 ? "" : fmt::format("ended with status {}", WEXITSTATUS(status));
    }
    if (const size_t now = progress != nullptr ? progress->load() : 0; now != seen) {
      seen = now;
      end = Clock::now() + timeout;
    }
    if (Clock::now() > end) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      return fmt::format("took more than {} ms", timeout.count());
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(2000));
  }
}

/// A process of its own that calls `body`; "" or what became of it.
std::string in_process(const std::function<void()>& body, std::chrono::milliseconds timeout,
                       const std::atomic<size_t>* progress = nullptr) {
  const pid_t child = ::fork();
  if (child < 0) fail("[verify] no process for a trial: {}", std::strerror(errno));
  if (child != 0) return wait_for(child, timeout, progress);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) ::signal(signal, SIG_DFL);
  try {
    body();
  } catch (...) {
    ::_exit(2);
  }
  ::_exit(0);
}

Workspace prepare(const backends::Kernel& kernel, std::span<const TensorData> inputs,
                  std::span<const TrialOutput> outputs, std::span<const int64_t> dims,
                  const TrialOptions& options) {
  Workspace work;
  const auto alignment = [&](Dtype dtype) { return std::max(options.alignment, element_bytes(dtype)); };
  for (const TensorData& input : inputs) {
    GuardedMemory memory(static_cast<int64_t>(input.bytes.size()), alignment(input.dtype), options.place,
                         options.contained);
    memory.fill(options.pattern);
    if (!input.bytes.empty()) std::memcpy(memory.bytes().data(), input.bytes.data(), input.bytes.size());
    work.buffers.push_back(std::move(memory));
  }
  for (const TrialOutput& output : outputs) {
    work.buffers.emplace_back(size_bytes(output.dtype, output.elements), alignment(output.dtype),
                              options.place, options.contained);
    work.buffers.back().fill(options.pattern);
  }
  for (const GuardedMemory& buffer : work.buffers) work.pointers.push_back(buffer.bytes().data());
  if (options.in_place >= 0)
    work.pointers[inputs.size()] = work.pointers[static_cast<size_t>(options.in_place)];
  const auto workspace = [&](int64_t bytes) {
    GuardedMemory memory(round_up(bytes, kWorkspaceAlignment), kWorkspaceAlignment,
                         GuardedMemory::Place::AtEnd, options.contained);
    memory.fill(options.pattern);
    return memory;
  };
  work.shared = std::make_unique<GuardedMemory>(workspace(kernel.shared_bytes(dims)));
  for (int thread = 0; thread < options.threads; ++thread)
    work.locals.push_back(workspace(kernel.local_bytes(dims)));
  return work;
}

/// The outputs, or what was written where it must not be.
TrialResult judge_memory(const Workspace& work, std::span<const TensorData> inputs,
                         std::span<const TrialOutput> outputs, int in_place) {
  TrialResult result;
  for (size_t k = 0; k < work.buffers.size(); ++k) {
    const GuardedMemory& memory = work.buffers[k];
    if (const int64_t stray = memory.stray_writes(); stray != 0)
      result.trouble =
          fmt::format("wrote {} bytes outside {} {}", stray, k < inputs.size() ? "input" : "output",
                      k < inputs.size() ? k : k - inputs.size());
    if (k < inputs.size()) {
      if (!inputs[k].bytes.empty() && static_cast<int>(k) != in_place &&
          std::memcmp(memory.bytes().data(), inputs[k].bytes.data(), inputs[k].bytes.size()) != 0)
        result.trouble = fmt::format("wrote to its input {}", k);
      continue;
    }
    const TrialOutput& output = outputs[k - inputs.size()];
    TensorData data(output.dtype, {output.elements});
    if (!data.bytes.empty()) std::memcpy(data.bytes.data(), work.pointers[k], data.bytes.size());
    result.outputs.push_back(std::move(data));
  }
  return result;
}

}  // namespace

TrialResult run_trial(const backends::Kernel& kernel, std::span<const TensorData> inputs,
                      std::span<const TrialOutput> outputs, const DimMap& dims, const TrialOptions& options) {
  std::vector<int64_t> sizes;
  for (const std::string& name : kernel.dims()) sizes.push_back(dims.at(name));
  const Workspace work = prepare(kernel, inputs, outputs, sizes, options);

  TrialResult result;
  if (!options.contained) {
    run_stages(kernel, work, sizes, options);
    return judge_memory(work, inputs, outputs, options.in_place);
  }
  result.trouble = in_process([&] { run_stages(kernel, work, sizes, options); }, options.timeout);
  return result.trouble.empty() ? judge_memory(work, inputs, outputs, options.in_place) : result;
}

std::vector<std::string> run_contained(size_t count, const std::function<std::string(size_t)>& action,
                                       std::chrono::milliseconds timeout) {
  constexpr size_t kText = 1000;
  struct Said {
    size_t length;
    char text[kText];
  };
  struct Board {
    std::atomic<size_t> finished;
    Said said[1];
  };
  const auto bytes = static_cast<int64_t>(sizeof(Board) + count * sizeof(Said));
  const GuardedMemory memory(bytes, alignof(Board), GuardedMemory::Place::AtStart, true);
  auto* board = new (memory.bytes().data()) Board{};
  std::vector<std::string> results(count);
  for (size_t first = 0; first < count;) {
    board->finished = first;
    const auto body = [&] {
      for (size_t i = first; i < count; ++i) {
        const std::string text = action(i);
        Said& said = board->said[i];
        said.length = text.copy(said.text, kText);
        ++board->finished;
      }
    };
    const std::string trouble = in_process(body, timeout, &board->finished);
    const size_t finished = board->finished;
    for (size_t i = first; i < finished; ++i) results[i].assign(board->said[i].text, board->said[i].length);
    if (finished < count) results[finished] = trouble;
    first = finished + 1;
  }
  return results;
}

}  // namespace luminal::search
