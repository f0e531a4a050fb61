// Programs in the egglog language, run by our engine. bench/egraph/compare.py runs the same ones with egglog.
// Each program is also written to <temporary folder>/luminal-bench-egraph/<name>/, for that script.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/environment.h"
#include "base/stopwatch.h"
#include "luminal/egglog.h"
#include "programs.h"

namespace luminal::bench {
namespace {

std::filesystem::path write_case(const EgglogCase& c) {
  const auto folder = std::filesystem::temp_directory_path() / "luminal-bench-egraph" / c.name;
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "setup.egg") << c.setup;
  std::ofstream(folder / "run.egg") << c.run;
  for (const auto& [name, text] : c.fact_files) std::ofstream(folder / name) << text;
  return folder;
}

/// Most memory the process ever held, in KiB (not getrusage's figure, which starts with the parent's).
uint64_t peak_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stoull(line.substr(6));
  return 0;
}

/// Nanoseconds until a thread sees what another one wrote. It tells where the system keeps the two: some 20
/// on one core, 50 on cores that share a cache, 250 on those that do not; what two threads gain hangs on
/// that.
double handover_ns() {
  constexpr int kTurns = 5000;
  alignas(128) std::atomic<int> ping = 0;
  alignas(128) std::atomic<int> pong = 0;
  std::thread other([&] {
    for (int i = 1; i <= kTurns; i++) {
      while (ping.load() != i) {
      }
      pong.store(i);
    }
  });
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 1; i <= kTurns; i++) {
    ping.store(i);
    while (pong.load() != i) {
    }
  }
  const std::chrono::duration<double, std::nano> passed = std::chrono::steady_clock::now() - begin;
  other.join();
  return passed.count() / (2 * kTurns);
}

void run_case(benchmark::State& state, const EgglogCase& c) {
  const std::filesystem::path folder = write_case(c);
  uint64_t rows = 0, bytes = 0;
  // Of the first run in this process: the peak tells of one case only if no other ran before.
  static const uint64_t peak_before = peak_kib();
  static uint64_t peak = 0;
  double cpu_s = std::numeric_limits<double>::infinity();
  std::vector<double> handovers;
  for (auto _ : state) {
    egraph::EgglogOptions options;
    options.fact_directory = folder;
    options.threads = static_cast<uint32_t>(environment::threads());
    egraph::EgglogProgram program(options);
    program.run(c.setup);
    if (options.threads > 1) handovers.push_back(handover_ns());
    const auto begin = std::chrono::steady_clock::now();
    const std::clock_t cpu_begin = std::clock();
    program.run(c.run);
    cpu_s = std::min(cpu_s, static_cast<double>(std::clock() - cpu_begin) / CLOCKS_PER_SEC);
    state.SetIterationTime(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    rows = 0;  // as print-size counts: without those that hold globals
    for (const egraph::FunctionId f : program.graph().functions_listed())
      rows += program.graph().row_count(f);
    bytes = program.graph().size_bytes();
    if (peak == 0) peak = peak_kib() - peak_before;
  }
  state.counters["run_cpu_ms"] = cpu_s * 1e3;  // the best: other processes disturb CPU time little
  if (!handovers.empty()) state.counters["handover_ns"] = median(handovers);
  state.counters["rows"] = static_cast<double>(rows);
  state.counters["peak_kib"] = static_cast<double>(peak);
  state.counters["bytes_per_row"] = static_cast<double>(bytes) / static_cast<double>(rows);
}

const bool kRegistered = [] {
  for (const EgglogCase& c : egglog_cases())
    benchmark::RegisterBenchmark(c.name.c_str(), [c](benchmark::State& state) { run_case(state, c); })
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
  return true;
}();

}  // namespace
}  // namespace luminal::bench
