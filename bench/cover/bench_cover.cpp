// How encode, saturate and cover grow with a graph: recurrent nets by steps, transformers by layers, sorting
// networks, convolutional nets. Kernels are priced for one fixed target, so that plans are the same on every
// machine; each case has sizes of its own, so that it meets no specs of the cases before it. Times are of the
// processor, not of the clock on the wall.
#include <benchmark/benchmark.h>

#include <ctime>
#include <functional>
#include <set>

#include "luminal/luminal.h"
#include "search/encode/kernel_graph.h"
#include "search/pipeline.h"
#include "search/tuning/implementation.h"

namespace luminal::bench {
namespace {

const codegen::Target kTarget{.vector_bytes = 64,
                              .vector_registers = 32,
                              .threads = 2,
                              .l1_bytes = 48 << 10,
                              .l2_bytes = 2 << 20,
                              .l3_bytes = 105 << 20};

kernel::MachineLimits limits() {
  kernel::MachineLimits limits;
  limits.threads = kTarget.threads;
  limits.flops_per_us = 300e3;
  limits.cache_bytes_per_us = 80e3;
  limits.memory_bytes_per_us = 30e3;
  return limits;
}

double cpu_ms() { return 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

using Build = std::function<void(Graph&)>;

void search_times(benchmark::State& state, const Build& build) {
  Graph cx;
  build(cx);
  for ([[maybe_unused]] const auto& iteration : state) {
    const double begin = cpu_ms();
    const search::KernelGraph kernel_graph = search::encode(cx, false, MathMode::Relaxed);
    const double encoded = cpu_ms();
    const search::FrontEnd front_end = search::run_front_end(cx, false, {});
    const search::SpecCost rough = [&](const kernel::KernelSpec& spec) {
      return kernel::predicted_us(spec, {}, limits());
    };
    const search::SpecCost fine = [&](const kernel::KernelSpec& spec) {
      return search::best_by_model(spec, {}, kTarget).predicted_us;
    };
    const double saturated = cpu_ms();
    const search::Cover cover =
        search::find_cover(front_end.saturated.cover, *front_end.store, {rough, fine, nullptr}, {});
    const double covered = cpu_ms(), encode_ms = encoded - begin;
    std::set<search::SpecId> specs;
    for (const search::CoverKernel& kernel : cover.kernels) specs.insert(kernel.spec);
    state.SetIterationTime((covered - encoded) / 1e3);
    const auto count = [&](const char* name, auto value) {
      state.counters[name] = static_cast<double>(value);
    };
    count("nodes", cx.nodes().size());
    count("classes", front_end.saturated.cover.classes.size());
    count("encode_ms", encode_ms);
    count("saturate_ms", saturated - encoded - encode_ms);
    count("cover_ms", covered - saturated);
    count("rounds", front_end.rounds);
    count("kernels", cover.kernels.size());
    count("specs", specs.size());
    count("flips", cover.flips);
    count("merges", cover.merges);
    count("predicted_us", cover.cost_us);
  }
}

void add(const std::string& name, Build build) {
  benchmark::RegisterBenchmark(name.c_str(), search_times, std::move(build))
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond)
      ->Iterations(1);
}

/// A training step: gradients and AdamW.
void train(Graph& cx, const std::vector<GraphTensor>& weights, GraphTensor loss) {
  const auto gradients = cx.run_pass(Autograd(weights, loss));
  const training::AdamW adam(cx, weights, gradients, {});
  loss.retrieve();
}

int64_t own_size() {
  static int64_t size = 8;
  return ++size;
}

/// Two cells, step by step: as one loop a recurrent layer is one small graph whatever its length.
void add_recurrent() {
  for (const int64_t steps : {8, 16, 32, 64, 128, 256})
    add("lstm/steps:" + std::to_string(steps), [=, batch = own_size()](Graph& cx) {
      const std::vector<nn::LSTMCell> cells{nn::LSTMCell(cx, 64, 64), nn::LSTMCell(cx, 64, 64)};
      const GraphTensor x = cx.tensor({steps, batch, 64});
      std::vector<nn::LSTMCell::Result> states(cells.size());
      std::vector<GraphTensor> outputs;
      for (int64_t t = 0; t < steps; ++t) {
        GraphTensor in = x.slice_along(0, t, t + 1).squeeze(0);
        for (size_t layer = 0; layer < cells.size(); ++layer) {
          states[layer] = cells[layer].forward(in, states[layer].h, states[layer].c);
          in = states[layer].h;
        }
        outputs.push_back(in);
      }
      std::vector<GraphTensor> weights;
      for (const nn::LSTMCell& cell : cells)
        for (const GraphTensor& weight : nn::params(cell)) weights.push_back(weight);
      train(cx, weights, stack(outputs).square().mean());
    });
}

void add_transformers() {
  for (const int layers : {2, 6, 12, 24, 48})
    for (const bool training : {false, true})
      add(std::string(training ? "gpt training" : "gpt") + "/layers:" + std::to_string(layers),
          [=, batch = own_size()](Graph& cx) {
            std::vector<nn::TransformerEncoderBlock> blocks;
            const nn::TransformerOptions options{.dim_feedforward = 1536,
                                                 .dropout = 0,
                                                 .activation = "gelu",
                                                 .batch_first = true,
                                                 .norm_first = true};
            for (int i = 0; i < layers; ++i) blocks.emplace_back(cx, 384, 6, options);
            const nn::Linear head(cx, 384, 65);
            GraphTensor x = cx.tensor({batch, 256, 384});
            for (const auto& block : blocks) x = block.forward(x, {.causal = true});
            GraphTensor logits = head.forward(x);
            if (!training) return (void)logits.retrieve();
            GraphTensor loss = training::cross_entropy(logits.reshape({batch * 256, 65}),
                                                       cx.tensor({batch * 256}, Dtype::I32));
            std::vector<GraphTensor> weights = nn::params(head);
            for (const auto& block : blocks)
              for (const GraphTensor& weight : nn::params(block)) weights.push_back(weight);
            train(cx, weights, loss);
          });
}

/// Batcher's odd-even merge sort of columns.
void sorting_network(Graph& cx, int64_t count, int64_t rows) {
  std::vector<GraphTensor> wires;
  for (int64_t i = 0; i < count; ++i) wires.push_back(cx.tensor({rows}));
  for (int64_t p = 1; p < count; p *= 2)
    for (int64_t k = p; k >= 1; k /= 2)
      for (int64_t j = k % p; j + k < count; j += 2 * k)
        for (int64_t i = 0; i < std::min(k, count - j - k); ++i)
          if ((i + j) / (2 * p) == (i + j + k) / (2 * p)) {
            GraphTensor &low = wires[static_cast<size_t>(i + j)],
                        &high = wires[static_cast<size_t>(i + j + k)];
            const GraphTensor least = low.minimum(high), most = low.maximum(high);
            low = least, high = most;
          }
  for (GraphTensor& wire : wires) wire.retrieve();
}

void add_others() {
  for (const int64_t count : {8, 16, 24, 32, 64})
    add("sorting network/wires:" + std::to_string(count),
        [=, rows = 1000 * own_size()](Graph& cx) { sorting_network(cx, count, rows); });
  add("digits training", [batch = 4 * own_size()](Graph& cx) {
    const models::MnistCnn model(cx);
    const GraphTensor images = cx.tensor({batch, 1, 28, 28}), labels = cx.tensor({batch}, Dtype::I32);
    train(cx, nn::params(model), training::cross_entropy(model.forward(images), labels));
  });
  add("softmax", [](Graph& cx) { cx.tensor({1024, 1000}).softmax(1).retrieve(); });
  add("layer norm", [](Graph& cx) { cx.tensor({1024, 768}).layer_norm(1).retrieve(); });
  add("conv block", [](Graph& cx) {
    const nn::Conv2d conv(cx, 32, 64, {3, 3}, {.padding = {1, 1}});
    conv.forward(cx.tensor({8, 32, 56, 56})).relu().retrieve();
  });
  add("bilinear and conv", [](Graph& cx) {
    const nn::Conv2d conv(cx, 64, 32, {3, 3}, {.padding = {1, 1}});
    conv.forward(interpolate(cx.tensor({4, 64, 32, 32}), {64, 64}, {.mode = Interpolation::Linear}))
        .relu()
        .retrieve();
  });
}

}  // namespace
}  // namespace luminal::bench

int main(int argc, char** argv) {
  luminal::bench::add_recurrent();
  luminal::bench::add_transformers();
  luminal::bench::add_others();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
