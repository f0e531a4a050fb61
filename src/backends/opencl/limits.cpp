#include "backends/opencl/limits.h"

#include <algorithm>
#include <functional>

namespace luminal::backends::opencl {
namespace {

using codegen::Id;
using codegen::LoopKind;
using codegen::Program;
using codegen::Space;
using codegen::StageBuilder;
using codegen::Target;

/// Sizes of a probe, sorted by name: steps of a task, tasks, times that each repeats its steps.
const char* const kSteps = "steps";
const char* const kTasks = "tasks";
const char* const kTimes = "times";
Expression size(const char* name) { return Expression::dim(name, {.min = 1, .max = int64_t{1} << 40}); }

/// Drivers deal out tasks in groups: of as many tasks as there are units PoCL gives one unit all.
constexpr int kTasksOfAUnit = 8;
constexpr int kSums = 12;  ///< of one step, independent: they hide the latency of an operation

using Step = std::function<Id(StageBuilder& build, const Expression& place, Id sum)>;

/// Each task keeps kSums vectors and changes all of them in every step; `place` counts the vectors of all steps.
Program probe_of(std::string name, const Target& target, const Expression& input, const Step& step) {
  const int lanes = target.lanes(4);
  Program program{.name = std::move(name), .dims = {kSteps, kTasks, kTimes}};
  add_buffer(program, {"X", Space::Slot, 0, Dtype::F32, input * lanes});
  const int y = add_buffer(program, {"Y", Space::Output, 0, Dtype::F32, size(kTasks) * lanes});
  StageBuilder build(program, size(kTasks));
  const std::vector<Id> zeros(kSums, build.constant({Dtype::F32, lanes}, 0));
  const auto steps = [&](const Expression&, std::span<const Id> sums) {
    return build.loop(size(kSteps), LoopKind::Serial, {sums.begin(), sums.end()},
                      [&](const Expression& s, std::span<const Id> carried) {
                        std::vector<Id> next;
                        for (int k = 0; k < kSums; ++k)
                          next.push_back(step(build, (build.task() * size(kSteps) + s) * kSums + k,
                                              carried[static_cast<size_t>(k)]));
                        return next;
                      });
  };
  const std::vector<Id> sums = build.loop(size(kTimes), LoopKind::Serial, zeros, steps);
  Id total = sums[0];
  for (size_t k = 1; k < sums.size(); ++k) total = build.compute(ScalarOp::Add, {total, sums[k]});
  build.store(y, build.task() * lanes, total);
  build.finish();
  return program;
}

Program fma_probe(const Target& target) {
  const int lanes = target.lanes(4);
  return probe_of("probe_fma", target, 1, [lanes](StageBuilder& build, const Expression&, Id sum) {
    const Id x = build.load(0, 0, lanes);
    return build.compute(ScalarOp::Fma, {sum, x, x});
  });
}
Program read_probe(const Target& target) {
  const int lanes = target.lanes(4);
  return probe_of("probe_read", target, size(kTasks) * size(kSteps) * kSums,
                  [lanes](StageBuilder& build, const Expression& place, Id sum) {
                    return build.compute(ScalarOp::Add, {sum, build.load(0, place * lanes, lanes)});
                  });
}

}  // namespace

struct Probes::State {
  explicit State(Device& on)
      : device(on),
        fma(on.compile(fma_probe(on.target()))),
        read(on.compile(read_probe(on.target()))),
        stream(on.make_stream()),
        begin(on.make_event()),
        end(on.make_event()) {}

  /// The usual time of `launches` launches, one after the other.
  [[nodiscard]] double time_us(const Kernel& kernel, const std::vector<int64_t>& dims, int64_t input_bytes,
                               int launches = 1) const {
    Buffer input(device, input_bytes), output(device, dims[1] * device.target().vector_bytes);
    const auto list = device.prepare(std::vector<ListedLaunch>(
        static_cast<size_t>(launches), {.kernel = &kernel, .dims = dims, .buffers = 2, .after = {}}));
    for (int k = 0; k < launches; ++k) {
      list->bind(k, 0, input.address());
      list->bind(k, 1, output.address());
    }
    stream->fill(input.address(), std::byte{0}, input_bytes);
    stream->launch(*list, 0, launches);  // drivers generate code with the first launch
    std::vector<double> times;
    for (int run = 0; run < 5; ++run) {
      stream->record(*begin);
      stream->launch(*list, 0, launches);
      stream->record(*end);
      stream->synchronise();
      times.push_back(device.elapsed_us(*begin, *end));
    }
    std::ranges::sort(times);
    return std::max(times[times.size() / 2], 1e-3);
  }

  /// Bytes per us that many tasks read, each so many of its own, again and again.
  [[nodiscard]] double read_rate(int64_t bytes, int64_t repeats) const {
    const int64_t tasks = kTasksOfAUnit * device.target().threads;
    const int64_t step = int64_t{kSums} * device.target().vector_bytes,
                  steps = std::max<int64_t>(1, bytes / step);
    const int64_t all = tasks * steps * step;
    return static_cast<double>(all * repeats) / time_us(*read, {steps, tasks, repeats}, all);
  }

  Device& device;
  std::shared_ptr<const Kernel> fma, read;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Event> begin, end;
};

Probes::Probes(Device& device) : state_(std::make_unique<State>(device)) {}
Probes::~Probes() = default;

double Probes::fma_rate(int units) const {
  constexpr int64_t kRounds = 5'000;  // about 30 us
  const Target& target = state_->device.target();
  const int64_t tasks = units == 1 ? 1 : kTasksOfAUnit * units;
  const double flops = 2.0 * kRounds * kSums * target.lanes(4) * static_cast<double>(tasks);
  return flops / state_->time_us(*state_->fma, {kRounds, tasks, 1}, target.vector_bytes);
}

kernel::MachineLimits Probes::limits() const {
  const Target& target = state_->device.target();
  const int threads = target.threads;
  kernel::MachineLimits limits{.threads = threads,
                               .cache_bytes = target.l3_bytes,
                               .vector_bytes = target.vector_bytes,
                               .l2_bytes = target.l2_bytes};
  limits.flops_per_us = fma_rate(threads);
  limits.one_thread_flops_per_us = fma_rate(1);
  constexpr int kLaunches = 100;
  limits.launch_us =
      state_->time_us(*state_->fma, {1, threads, 1}, target.vector_bytes, kLaunches) / kLaunches;
  // What a task reads again lies in its unit's own cache, or in the last one. Beyond that nothing of a pass is left for
  // the next one.
  constexpr int64_t kRepeats = 8;
  limits.l2_bytes_per_us = state_->read_rate(target.l2_bytes / 2, kRepeats);
  limits.cache_bytes_per_us =
      state_->read_rate(std::min(4 * target.l2_bytes, target.l3_bytes / (2 * threads)), kRepeats);
  const int64_t beyond = std::clamp<int64_t>(2 * target.l3_bytes, int64_t{64} << 20, int64_t{256} << 20);
  limits.memory_bytes_per_us = state_->read_rate(beyond / (kTasksOfAUnit * threads), 1);
  return limits;
}

}  // namespace luminal::backends::opencl
