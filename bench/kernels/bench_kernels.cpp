// Kernels of the schedule families, each with its share of the machine's limit as measured in the same
// minute: the fma peak for contractions. LUMINAL_DEBUG=3 prints every candidate.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <tuple>

#include "../../tests/unit/codegen/specs.h"
#include "backends/host/device.h"
#include "base/environment.h"
#include "base/team.h"
#include "codegen/schedule.h"

namespace luminal::bench {
namespace {

using namespace codegen::test_cases;
using codegen::Id;

struct Aligned {
  explicit Aligned(int64_t bytes)
      : data(static_cast<std::byte*>(std::aligned_alloc(64, static_cast<size_t>((bytes + 127) / 64 * 64)))) {
    std::memset(data, 0, static_cast<size_t>(bytes));
  }
  Aligned(const Aligned&) = delete;
  ~Aligned() { std::free(data); }
  std::byte* data;
};

/// A compiled program with memory of its own, ready to run again and again.
class Launch {
 public:
  Launch(backends::Device& device, const codegen::Program& program)
      : compiled_(device.compile(program)), kernel_(&backends::on_host(*compiled_)) {
    std::mt19937 random(1);
    for (const codegen::Buffer& b : program.buffers) {
      if (b.space != codegen::Space::Slot && b.space != codegen::Space::Output) continue;
      const int64_t count = b.elements.exec();
      memory_.push_back(std::make_unique<Aligned>(count * element_bytes(b.dtype)));
      buffers_.push_back(memory_.back()->data);
      if (b.dtype == Dtype::F32)
        for (int64_t i = 0; i < count; ++i)
          reinterpret_cast<float*>(buffers_.back())[i] = static_cast<float>(random() % 1000) * 1e-3F - 0.5F;
    }
    shared_ = std::make_unique<Aligned>(kernel_->shared_bytes({}));
    for (int t = 0; t < Team::shared().size(); ++t)
      local_.push_back(std::make_unique<Aligned>(kernel_->local_bytes({})));
  }

  /// Seconds of one run on so many threads.
  double run(int threads) {
    const auto begin = std::chrono::steady_clock::now();
    for (int s = 0; s < kernel_->stage_count(); ++s) {
      const int64_t tasks = kernel_->tasks(s, {});
      std::atomic<int64_t> next{0};
      const auto work = [&](int t) {
        const backends::LaunchArguments arguments{.buffers = buffers_.data(),
                                                  .shared = shared_->data,
                                                  .local = local_[static_cast<size_t>(t)]->data};
        for (int64_t i = next++; i < tasks; i = next++) kernel_->run(s, arguments, i, i + 1);
      };
      threads == 1 ? work(0) : Team::shared().run(threads, work);
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  double best(int threads, int repeats) {
    double seconds = 1e9;
    for (int r = 0; r < repeats; ++r) seconds = std::min(seconds, run(threads));
    return seconds;
  }

 private:
  std::shared_ptr<const backends::Kernel> compiled_;
  const backends::HostKernel* kernel_;
  std::vector<std::unique_ptr<Aligned>> memory_, local_;
  std::vector<void*> buffers_;
  std::unique_ptr<Aligned> shared_;
};

/// Independent chains of fused multiply-adds in registers: the most this machine can do.
codegen::Program peak_program(const codegen::Target& target, int64_t steps) {
  codegen::Program p{.name = "peak"};
  const int out =
      add_buffer(p, {.name = "Y", .space = codegen::Space::Output, .number = 0, .elements = 64 * 12 * 16});
  const int lanes = target.lanes(4);
  codegen::StageBuilder b(p, target.threads);
  const Id x = b.constant({Dtype::F32, lanes}, 0.999), y = b.constant({Dtype::F32, lanes}, 1e-3);
  std::vector<Id> chains;
  for (int k = 0; k < 12; ++k) chains.push_back(b.constant({Dtype::F32, lanes}, k));
  chains = b.loop(steps, codegen::LoopKind::Serial, chains, [&](const Expression&, std::span<const Id> c) {
    std::vector<Id> next;
    for (const Id id : c) next.push_back(b.compute(ScalarOp::Fma, {id, x, y}));
    return next;
  });
  for (int k = 0; k < 12; ++k) b.store(out, (b.task() * 12 + k) * lanes, chains[static_cast<size_t>(k)]);
  b.finish();
  return p;
}

struct Case {
  std::string name;
  KernelSpec spec;
  double flops;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto matmul = [&](int64_t m, int64_t n, int64_t k, bool a = false, bool b = false) {
    all.push_back({fmt::format("matmul/{}x{}x{}{}{}", m, n, k, a ? "/at" : "", b ? "/bt" : ""),
                   Matmul{.m = m, .n = n, .k = k, .turned_a = a, .turned_b = b}.spec().spec,
                   2.0 * double(m) * double(n) * double(k)});
  };
  for (const int64_t n : {64, 128, 256, 512, 1024, 2048}) matmul(n, n, n);
  matmul(1024, 1024, 1024, true, false), matmul(1024, 1024, 1024, false, true);
  matmul(8, 4096, 4096), matmul(16, 11008, 4096, false, true);
  // The layers of a small convolutional network at batch 64, and their gradients.
  const Conv first{.images = 64, .channels = 1, .height = 28, .width = 28, .filters = 16};
  const Conv second{.images = 64, .channels = 16, .height = 14, .width = 14, .filters = 32};
  const auto flops = [](const Conv& c) {
    return 2.0 * 64 * double(c.channels * c.filters * 9 * c.height * c.width);
  };
  all.push_back({"conv1/forward", first.forward().spec, flops(first)});
  all.push_back({"conv1/weights", first.weight_gradient().spec, flops(first)});
  all.push_back({"conv2/forward", second.forward().spec, flops(second)});
  all.push_back({"conv2/weights", second.weight_gradient().spec, flops(second)});
  all.push_back({"conv2/input", second.input_gradient().spec, flops(second)});
  matmul(64, 128, 1568, false, true), matmul(64, 1568, 128), matmul(128, 1568, 64, true, false);
  matmul(64, 10, 128, false, true), matmul(64, 128, 10), matmul(10, 128, 64, true, false);
  const Conv resnet{.images = 1, .channels = 128, .height = 28, .width = 28, .filters = 128};
  all.push_back({"conv/resnet28x128", resnet.forward().spec, 2.0 * 128 * 128 * 9 * 28 * 28});
  return all;
}

backends::Device& backend() {
  static const auto b = backends::make_cpu_device();
  return *b;
}

/// The fastest candidate by a few runs each.
std::pair<std::unique_ptr<Launch>, std::string> fastest(const Case& c) {
  std::pair<std::unique_ptr<Launch>, std::string> best;
  double least = 1e9;
  for (const codegen::Schedule* schedule : codegen::schedules()) {
    if (best.first) break;  // families stand in the order of how special they are
    for (const codegen::Candidate& candidate : schedule->candidates(c.spec, {}, backend().target())) {
      const auto begin = std::chrono::steady_clock::now();
      auto launch = std::make_unique<Launch>(
          backend(), schedule->lower(c.spec, candidate.parameters, {}, backend().target()));
      const double compiled = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      const double seconds =
          launch->best(backend().target().threads,
                       5 + static_cast<int>(0.05 / (launch->run(backend().target().threads) + 1e-6)));
      if (environment::debug_level() >= 3)
        fmt::print(stderr, "{} {:8.1f} us (predicted {:8.1f}) {:6.1f} GFLOP/s compiled in {:.0f} ms  {}\n",
                   c.name, seconds * 1e6, candidate.predicted_us, c.flops / seconds * 1e-9, compiled * 1e3,
                   codegen::to_string(candidate.parameters));
      if (seconds >= least) continue;
      least = seconds;
      best = {std::move(launch), codegen::to_string(candidate.parameters)};
    }
  }
  return best;
}

void run_case(benchmark::State& state, const Case& c) {
  const int threads = backend().target().threads;
  constexpr int64_t kSteps = 100000;
  Launch peak(backend(), peak_program(backend().target(), kSteps));
  // Google Benchmark calls this several times; candidates are compared once.
  static std::map<std::string, std::pair<std::unique_ptr<Launch>, std::string>> tuned;
  auto& [launch, parameters] = tuned[c.name];
  if (!launch) std::tie(launch, parameters) = fastest(c);
  double peak_s = 1e9, one_s = 1e9, best_s = 1e9;
  for (auto _ : state) {
    peak_s = std::min(peak_s, peak.run(threads));
    one_s = std::min(one_s, launch->run(1));
    const double seconds = launch->run(threads);
    best_s = std::min(best_s, seconds);
    state.SetIterationTime(seconds);
  }
  const double limit = 2.0 * 12 * backend().target().lanes(4) * kSteps * threads / peak_s;
  state.counters["gflops"] = c.flops / best_s * 1e-9;
  state.counters["peak_gflops"] = limit * 1e-9;
  state.counters["share"] = c.flops / best_s / limit;
  state.counters["speedup"] = one_s / best_s;
  state.SetLabel(parameters);
}

const bool kRegistered = [] {
  for (const Case& c : cases())
    benchmark::RegisterBenchmark(c.name.c_str(), [c](benchmark::State& state) { run_case(state, c); })
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond)
        ->MinTime(0.3);
  return true;
}();

}  // namespace
}  // namespace luminal::bench
