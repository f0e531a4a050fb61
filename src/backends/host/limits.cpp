#include "backends/host/limits.h"

#include <algorithm>
#include <chrono>

#include "backends/host/memory.h"
#include "backends/host/stage_scheduler.h"
#include "base/cancel.h"
#include "base/team.h"

namespace luminal::backends {
namespace {

using codegen::Id;
using codegen::LoopKind;
using codegen::Program;
using codegen::Space;
using codegen::StageBuilder;
using codegen::Target;

/// Dims of the probes: tasks of a stage, steps of each task.
const char* const kTasks = "tasks";
const char* const kSteps = "steps";

Expression dim(const char* name) { return Expression::dim(name, {.min = 1, .max = int64_t{1} << 40}); }

/// As many independent accumulators as hide the latency of an operation and leave registers for operands.
int accumulators(const Target& target) { return target.vector_registers >= 32 ? 24 : 12; }

/// Each task runs `steps` rounds of one fma on every accumulator: acc = acc * x + y.
Program fma_probe(const Target& target) {
  const int lanes = target.lanes(4), count = accumulators(target);
  Program program{.name = "probe_fma", .dims = {kSteps, kTasks}};
  const int x = add_buffer(program, {"X", Space::Slot, 0, Dtype::F32, 2 * lanes});
  const int y = add_buffer(program, {"Y", Space::Output, 0, Dtype::F32, dim(kTasks) * lanes});
  StageBuilder build(program, dim(kTasks));
  const Id factor = build.load(x, 0, lanes), term = build.load(x, lanes, lanes);
  const auto sums =
      build.loop(dim(kSteps), LoopKind::Serial, std::vector<Id>(static_cast<size_t>(count), term),
                 [&](const Expression&, std::span<const Id> carried) {
                   std::vector<Id> next;
                   for (const Id id : carried)
                     next.push_back(build.compute(ScalarOp::Fma, {id, factor, term}));
                   return next;
                 });
  Id total = sums[0];
  for (size_t i = 1; i < sums.size(); ++i) total = build.compute(ScalarOp::Add, {total, sums[i]});
  build.store(y, build.task() * lanes, total);
  build.finish();
  return program;
}

constexpr int kLoads = 8;  // vectors read in one round

/// Each task adds up `steps` rounds of vectors, its own part of X.
Program read_probe(const Target& target) {
  const int lanes = target.lanes(4), round = kLoads * lanes;
  Program program{.name = "probe_read", .dims = {kSteps, kTasks}};
  const int x = add_buffer(program, {"X", Space::Slot, 0, Dtype::F32, dim(kTasks) * dim(kSteps) * round});
  const int y = add_buffer(program, {"Y", Space::Output, 0, Dtype::F32, dim(kTasks) * lanes});
  StageBuilder build(program, dim(kTasks));
  const Id zero = build.constant({Dtype::F32, lanes}, 0);
  const auto sums =
      build.loop(dim(kSteps), LoopKind::Serial, std::vector<Id>(kLoads, zero),
                 [&](const Expression& step, std::span<const Id> carried) {
                   std::vector<Id> next;
                   for (int i = 0; i < kLoads; ++i) {
                     const Expression place = (build.task() * dim(kSteps) + step) * round + i * lanes;
                     next.push_back(build.compute(
                         ScalarOp::Add, {carried[static_cast<size_t>(i)], build.load(x, place, lanes)}));
                   }
                   return next;
                 });
  Id total = sums[0];
  for (size_t i = 1; i < sums.size(); ++i) total = build.compute(ScalarOp::Add, {total, sums[i]});
  build.store(y, build.task() * lanes, total);
  build.finish();
  return program;
}

using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::duration<double, std::micro>;

/// A compiled probe with its buffers.
class Probe {
 public:
  Probe(HostDevice& device, const Program& program, std::byte* input, std::byte* output)
      : compiled_(device.compile(program)), kernel_(&on_host(*compiled_)), buffers_{input, output} {}

  /// The least time in us of `stages` stages that follow each other, with a task for every thread.
  [[nodiscard]] double chain_us(int threads, int stages) const {
    const int64_t dims[] = {1, threads};
    const LaunchArguments arguments{.buffers = buffers_, .dims = dims};
    std::vector<StageWork> list;
    for (int i = 0; i < stages; ++i)
      list.push_back({kernel_, 0, threads, arguments, i > 0 ? std::vector<int>{i - 1} : std::vector<int>()});
    StageScheduler scheduler(std::move(list), threads);
    double least = 1e18;
    const auto end = Clock::now() + std::chrono::milliseconds(10);
    for (int run = 0; run < 3 || Clock::now() < end; ++run) {
      const auto begin = Clock::now();
      scheduler.run(Team::shared(), 0, stages);
      least = std::min(least, Microseconds(Clock::now() - begin).count());
    }
    return std::max(least, 1e-3);
  }

  /// What tasks of `steps` rounds read from one run to the next: the same again, or pieces of a long buffer.
  struct Reading {
    int64_t stride_bytes = 0, wrap_bytes = 1;
  };
  enum class Take { Best, Median };

  /// Tasks that `threads` threads finish in a us, all running at the same time: the sum of what each of them
  /// reaches, at its best or usually. A thread that the system does not let run is waited for, not counted as
  /// slow: what others do on the machine meanwhile is not its limit.
  [[nodiscard]] double tasks_per_us(int threads, int64_t steps, Take take, Reading reading,
                                    std::chrono::milliseconds time = std::chrono::milliseconds(8)) const {
    const int64_t dims[] = {steps, threads};
    std::vector<double> times(static_cast<size_t>(threads), 0);
    for (int attempt = 0; attempt < 5 && std::ranges::count(times, 0) > 0; ++attempt) {
      std::atomic<int> there{0};
      Team::shared().run(threads, [&](int worker) {
        ++there;
        const auto patience = Clock::now() + std::chrono::milliseconds(30);
        while (there < threads && Clock::now() < patience) std::this_thread::yield();
        std::vector<double> list;
        for (const auto end = Clock::now() + time;
             list.size() < 5 || (list.size() < 100 && Clock::now() < end);) {
          const auto piece = static_cast<int64_t>(list.size()) * reading.stride_bytes % reading.wrap_bytes;
          void* const buffers[] = {static_cast<std::byte*>(buffers_[0]) + piece, buffers_[1]};
          const auto begin = Clock::now();
          kernel_->run(0, {.buffers = buffers, .dims = dims}, worker, worker + 1);
          list.push_back(Microseconds(Clock::now() - begin).count());
        }
        std::ranges::sort(list);
        const double us = take == Take::Best ? list.front() : list[list.size() / 2];
        times[static_cast<size_t>(worker)] = std::max(us, 1e-3);  // what pretends to run takes no time
      });
    }
    // Threads that never came would have been as fast as the others.
    double rate = 0;
    for (const double us : times) rate += us > 0 ? 1 / us : 0;
    const auto came = static_cast<double>(threads - std::ranges::count(times, 0));
    return rate * threads / came;
  }

 private:
  std::shared_ptr<const Kernel> compiled_;
  const HostKernel* kernel_;
  void* buffers_[2];
};

/// Twice the last cache, so that nothing of the last pass is left; no more than is touched in a blink.
int64_t memory_probe_bytes(const Target& target) {
  return std::clamp<int64_t>(2 * target.l3_bytes, int64_t{64} << 20, int64_t{256} << 20);
}

constexpr int64_t kFmaSteps = 20'000;  // about 100 us
double fma_flops(const Target& target) { return 2.0 * kFmaSteps * accumulators(target) * target.lanes(4); }

}  // namespace

struct FmaRate::State {
  explicit State(HostDevice& device)
      : target(device.target()),
        threads(std::min(target.threads, Team::shared().size())),
        memory(int64_t{target.vector_bytes} * (2 + threads)),
        probe(device, fma_probe(target), memory.data(), memory.data() + 2 * target.vector_bytes) {}
  Target target;
  int threads;
  MappedMemory memory;
  Probe probe;
};
FmaRate::FmaRate(HostDevice& device) : state_(std::make_unique<State>(device)) {}
FmaRate::~FmaRate() = default;
double FmaRate::measure() const {
  return fma_flops(state_->target) * state_->probe.tasks_per_us(state_->threads, kFmaSteps,
                                                                Probe::Take::Median, {},
                                                                std::chrono::milliseconds(2));
}

kernel::MachineLimits measure_host_limits(HostDevice& device) {
  const Target& target = device.target();
  const int threads = std::min(target.threads, Team::shared().size());
  const int64_t bytes = memory_probe_bytes(target);
  const MappedMemory input(bytes), output(int64_t{threads} * target.vector_bytes);
  Team::shared().run(threads, [&, next = std::atomic<int64_t>(0)](int) mutable {
    constexpr int64_t kPart = int64_t{4} << 20;
    for (int64_t at = kPart * next++; at < bytes; at = kPart * next++)
      std::fill_n(input.data() + at, std::min(kPart, bytes - at), std::byte{0});
  });

  kernel::MachineLimits limits{.threads = threads,
                               .cache_bytes = target.l3_bytes,
                               .vector_bytes = target.vector_bytes,
                               .l2_bytes = target.l2_bytes};
  using Take = Probe::Take;
  throw_if_cancelled();
  const Probe fma(device, fma_probe(target), input.data(), output.data());
  const double flops = fma_flops(target);
  // What lasts: processors run faster for some hundred microseconds than they go on to.
  limits.one_thread_flops_per_us = flops * fma.tasks_per_us(1, kFmaSteps, Take::Median, {});
  limits.flops_per_us = flops * fma.tasks_per_us(threads, kFmaSteps, Take::Median, {});
  constexpr int kStages = 200;
  limits.launch_us = fma.chain_us(threads, kStages) / kStages;

  const Probe read(device, read_probe(target), input.data(), output.data());
  const auto rate = [&](int64_t bytes_each, Take take, int64_t wrap_bytes) {
    throw_if_cancelled();
    const int64_t steps = std::max<int64_t>(1, bytes_each / (kLoads * target.vector_bytes));
    const int64_t task = steps * kLoads * target.vector_bytes;
    return static_cast<double>(task) *
           read.tasks_per_us(threads, steps, take, {task * threads, std::max<int64_t>(1, wrap_bytes)});
  };
  // A thread's own caches; four times as much, which only the last one holds; and pieces of a buffer of twice
  // the last cache, so that nothing of a piece is left when it comes again. Those that share a cache or the
  // memory slow each other down: what is usual counts there, not the best moment of each.
  limits.l2_bytes_per_us = rate(target.l2_bytes / 2, Take::Best, 0);
  limits.cache_bytes_per_us =
      rate(std::min(4 * target.l2_bytes, target.l3_bytes / (2 * threads)), Take::Median, 0);
  const int64_t piece = std::min(int64_t{4} << 20, bytes / (2 * threads));
  limits.memory_bytes_per_us = rate(piece, Take::Median, bytes - piece * threads);
  return limits;
}

}  // namespace luminal::backends
