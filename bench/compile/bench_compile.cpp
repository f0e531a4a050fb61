// How long small graphs take to become a plan of kernels: encode, saturate and cover, as the compile reports
// them (machine code is not in it). Every iteration has sizes that the process has not seen.
#include <benchmark/benchmark.h>

#include <functional>

#include "luminal/luminal.h"

namespace luminal::bench {
namespace {

/// Builds a graph of about that size.
using Build = std::function<void(Graph&, int64_t)>;

void small_graph(benchmark::State& state, const Build& build) {
  int64_t size = 512;
  const auto phases_s = [&] {
    Graph cx;
    cx.set_device("cpu");
    build(cx, size++);
    const Compiled compiled = cx.compile(Fast{});
    double sum = 0;
    for (const auto& [phase, seconds] : compiled.details().phases)
      if (phase == "encode" || phase == "saturate" || phase == "cover") sum += seconds;
    return sum;
  };
  (void)phases_s();  // reads the rules, measures the machine
  for ([[maybe_unused]] const auto& iteration : state) state.SetIterationTime(phases_s());
}

void add(const char* name, const Build& build) {
  benchmark::RegisterBenchmark(name, small_graph, build)
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond)
      ->Iterations(30);
}

void add_all() {
  add("compile/matmul", [](Graph& cx, int64_t n) { cx.tensor({n, n}).matmul(cx.tensor({n, n})).retrieve(); });
  add("compile/linear+relu", [](Graph& cx, int64_t n) {
    (cx.tensor({64, n}).matmul(cx.tensor({n, n})) + cx.tensor({n})).relu().retrieve();
  });
  add("compile/softmax", [](Graph& cx, int64_t n) { cx.tensor({64, n}).softmax(1).retrieve(); });
  add("compile/layer norm", [](Graph& cx, int64_t n) { cx.tensor({64, n}).layer_norm(1).retrieve(); });
  add("compile/matmul+relu+softmax", [](Graph& cx, int64_t n) {
    cx.tensor({64, n}).matmul(cx.tensor({n, n})).relu().softmax(1).retrieve();
  });
  add("compile/chain of ten", [](Graph& cx, int64_t n) {
    const GraphTensor x = cx.tensor({n, n});
    GraphTensor y = x;
    for (int i = 0; i < 5; ++i) y = (y * 0.5F).relu() * 1.5F + x;
    y.retrieve();
  });
}

}  // namespace
}  // namespace luminal::bench

int main(int argc, char** argv) {
  luminal::bench::add_all();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
