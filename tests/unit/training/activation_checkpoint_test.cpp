#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "luminal/autograd.h"
#include "luminal/compile_report.h"
#include "luminal/nn.h"
#include "luminal/ops.h"
#include "luminal/passes.h"
#include "luminal/training.h"
#include "unit/training/expectations.h"

namespace luminal::training {
namespace {

/// A deep net with dropout and norms; every two layers are one marked part.
struct DeepNet {
  Graph cx;
  std::vector<nn::Linear> layers;
  GraphTensor loss;
  std::vector<GraphTensor> gradients;
  RecomputeCheckpoints::Report report;

  explicit DeepNet(bool marked, bool generic = false) {
    constexpr int64_t kWidth = 16, kDepth = 32, kBatch = 64;
    for (int64_t i = 0; i < kDepth; ++i) layers.emplace_back(cx, kWidth, kWidth);
    GraphTensor x = cx.tensor({kBatch, kWidth}).set(test::wave(kBatch * kWidth));
    for (size_t i = 0; i < layers.size(); i += 2) {
      const auto part = [&](const GraphTensor& in) {
        const GraphTensor hidden = layers[i].forward(in).gelu().dropout(0.2);
        return layers[i + 1].forward(hidden).layer_norm().tanh();
      };
      x = marked ? checkpoint(part, x) : part(x);
    }
    loss = x.square().mean();
    std::vector<GraphTensor> weights;
    for (const auto& layer : layers)
      for (const GraphTensor& w : nn::params(layer)) weights.push_back(w);
    gradients = cx.run_pass(Autograd(weights, loss));
    cx.run_pass(RemoveUnusedNodes(), loss, gradients);
    report = cx.run_pass(RecomputeCheckpoints(), loss, gradients);
    if (generic) {
      cx.run_pass(GenericPasses(), loss, gradients);
      cx.run_pass(DepthFirst(), loss, gradients);
    }
    loss.retrieve();
    retrieve(gradients);
  }

  std::vector<std::vector<float>> results() {
    cx.execute();
    std::vector<std::vector<float>> all{loss.data<float>()};
    for (const GraphTensor& gradient : gradients) all.push_back(gradient.data<float>());
    return all;
  }
};

TEST(ActivationCheckpoints, GiveTheSameBitsInLessMemory) {
  DeepNet plain(false), marked(true);
  EXPECT_EQ(plain.report.parts, 0);
  EXPECT_EQ(plain.report.peak_bytes_before, plain.report.peak_bytes_after);
  EXPECT_EQ(marked.report.parts, 16);
  EXPECT_GT(marked.report.copied_nodes, 16);
  EXPECT_EQ(marked.report.peak_bytes_before, plain.report.peak_bytes_before);
  // At the peak is a dropout: node by node its random numbers are stored, which compiled plans never do.
  EXPECT_LT(marked.report.peak_bytes_after * 100, marked.report.peak_bytes_before * 65);
  EXPECT_THAT(
      marked.report.to_string(),
      testing::MatchesRegex("16 checkpointed parts, [0-9]+ nodes computed again; planned peak 0.[0-9]+ MB "
                            "before, 0.[0-9]+ MB after"));
  for (int run = 0; run < 2; ++run) EXPECT_EQ(plain.results(), marked.results());  // another mask in each run
}

/// Later passes must not find the copies equal to what they copy.
TEST(ActivationCheckpoints, SurviveTheGenericPasses) {
  DeepNet plain(false, true), marked(true, true);
  EXPECT_LT(planned_peak_bytes(marked.cx) * 10, planned_peak_bytes(plain.cx) * 6);
  const auto a = plain.results(), b = marked.results();
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t k = 0; k < a[i].size(); ++k) ASSERT_NEAR(a[i][k], b[i][k], 1e-6 * (1 + std::abs(a[i][k])));
}

/// To an e-graph equal nodes are one, and kernels run in an order of their own: still the memory is saved.
TEST(ActivationCheckpoints, SaveMemoryInCompiledPlans) {
  DeepNet plain(false), marked(true);
  const auto arena = [](DeepNet& net) {
    net.cx.set_device("cpu");
    Compiled run = net.cx.compile(Fast{});
    run();
    return run.details().arena_bytes;
  };
  const int64_t before = arena(plain), after = arena(marked);
  EXPECT_LT(after * 10, before * 7) << before << " bytes without, " << after << " with checkpoints";
  const auto a = plain.results(), b = marked.results();
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t k = 0; k < a[i].size(); ++k) ASSERT_NEAR(a[i][k], b[i][k], 1e-5 * (1 + std::abs(a[i][k])));
}

using Activation = GraphTensor (*)(const GraphTensor&);
constexpr int64_t kDepth = 16, kTensorBytes = int64_t{512} * 32 * 4;

/// A compiled step of a chain of linear layers; four layers are a part.
CompileReport step_of_chain(Activation activation, bool marked) {
  Graph cx;
  cx.set_device("cpu");
  std::vector<nn::Linear> layers;
  for (int64_t i = 0; i < kDepth; ++i) layers.emplace_back(cx, 32, 32);
  GraphTensor x = cx.tensor({512, 32}).set(test::wave(512 * 32));
  for (size_t i = 0; i < layers.size(); i += 4) {
    const auto part = [&](const GraphTensor& in) {
      GraphTensor y = in;
      for (size_t k = i; k < i + 4; ++k) y = activation(layers[k].forward(y));
      return y;
    };
    x = marked ? checkpoint(part, x) : part(x);
  }
  GraphTensor loss = x.square().mean();
  std::vector<GraphTensor> weights;
  for (const auto& layer : layers)
    for (const GraphTensor& w : nn::params(layer)) weights.push_back(w);
  auto gradients = cx.run_pass(Autograd(weights, loss));
  cx.run_pass(RecomputeCheckpoints(), loss, gradients);
  loss.retrieve();
  retrieve(gradients);
  Compiled run = cx.compile(Fast{});
  run();
  return run.details();
}

/// Copies wait for the gradient that comes to their part, whatever the part's last op reads: relu's gradient
/// reads what lies inside of the part, a dropout's a mask of its own.
TEST(ActivationCheckpoints, SaveMemoryWhateverAPartEndsWith) {
  const std::pair<const char*, Activation> all[] = {
      {"relu", [](const GraphTensor& x) { return x.relu(); }},
      {"dropout", [](const GraphTensor& x) { return x.dropout(0.2); }},
      {"relu and dropout", [](const GraphTensor& x) { return x.relu().dropout(0.2); }},
      {"gelu and dropout", [](const GraphTensor& x) { return x.gelu().dropout(0.2); }}};
  for (const auto& [name, activation] : all) {
    const int64_t before = step_of_chain(activation, false).arena_bytes,
                  after = step_of_chain(activation, true).arena_bytes;
    EXPECT_LT(after * 100, before * 75) << name << ": " << before << " bytes without, " << after << " with";
  }
}

/// A dropout costs a compiled step no mask for each layer: masks are drawn again. (What a layer drops from
/// may be kept beside what is left, where this machine reads faster than it computes.)
TEST(Dropout, MasksAreNotStoredInCompiledPlans) {
  const CompileReport without = step_of_chain([](const GraphTensor& x) { return x.relu(); }, false),
                      with = step_of_chain([](const GraphTensor& x) { return x.relu().dropout(0.2); }, false);
  EXPECT_EQ(std::ranges::count(with.host_launches, "random"), 2 * kDepth);
  EXPECT_LE(with.arena_bytes, without.arena_bytes + kDepth * kTensorBytes);
  EXPECT_GE(without.arena_bytes, (kDepth - 1) * kTensorBytes);  // what each layer's weights are learnt from
}

TEST(ActivationCheckpoints, PartsMayHaveSeveralResultsAndLieWithinOthers) {
  const auto run = [](bool recompute) {
    Graph cx;
    GraphTensor x = cx.tensor({8}, Dtype::F64).set(test::wave(8));
    const auto outer = checkpoint(
        [](std::span<const GraphTensor> in) {
          const GraphTensor a = (in[0] * in[1]).sin();
          const GraphTensor b = checkpoint([](const GraphTensor& y) { return y.exp().tanh(); }, a);
          return std::vector{a * b, b.square()};
        },
        {x, x * 2});
    GraphTensor loss = (outer[0] * outer[1]).sum();
    GraphTensor gradient = cx.run_pass(Autograd({x}, loss))[0];
    if (recompute) {
      EXPECT_EQ(cx.run_pass(RecomputeCheckpoints(), loss, gradient).parts, 1);
    }
    gradient.retrieve();
    cx.execute();
    return gradient.data<double>();
  };
  EXPECT_EQ(run(false), run(true));
}

/// BatchNorm's statistics move once, not once more for the copy.
TEST(ActivationCheckpoints, StateIsUpdatedOnce) {
  const auto run = [](bool recompute) {
    Graph cx;
    const nn::BatchNorm1d norm(cx, 2);
    GraphTensor x = cx.tensor({4, 2}).set(test::wave(8));
    GraphTensor y = checkpoint([&](const GraphTensor& in) { return norm.forward(in.tanh()).tanh(); }, x);
    const GraphTensor loss = y.square().sum();
    SGD sgd(cx, nn::params(norm), cx.run_pass(Autograd(nn::params(norm), loss)), {.learning_rate = 0.1});
    if (recompute) cx.run_pass(RecomputeCheckpoints(), loss);
    cx.execute();
    cx.execute();
    return nn::state_dict(norm);
  };
  const auto a = run(false), b = run(true);
  for (const auto& [name, data] : a) EXPECT_EQ(data.bytes, b.at(name).bytes) << name;
}

/// No gradient reads the forward pass's mask: it has a draw of its own, of the same stream.
TEST(Dropout, MasksAreDrawnAgainInTheBackwardPass) {
  Graph cx;
  GraphTensor x = cx.tensor({4, 4}), y = x;
  for (int i = 0; i < 3; ++i) y = y.tanh().dropout(0.1);
  const GraphTensor gradient = cx.run_pass(Autograd({x}, y.sum()))[0];
  const auto in_backward = [&](NodeId id) {
    const auto& origin = cx.node(id).origin;
    return origin && std::ranges::find(origin->ops, "gradient") != origin->ops.end();
  };
  std::map<int64_t, int> draws;
  int masks = 0;
  for (const NodeId id : cx.nodes()) {
    if (cx.node(id).op == &kRandom) ++draws[cx.node(id).attributes.get<int64_t>("stream")];
    if (cx.node(id).op != &kLessThan) continue;
    ++masks;
    std::set<bool> readers;
    for (const Use& use : cx.uses(id)) readers.insert(in_backward(use.node));
    EXPECT_EQ(readers.size(), 1U) << "a mask is kept from the forward to the backward pass";
  }
  EXPECT_EQ(masks, 6);
  EXPECT_THAT(draws, testing::ElementsAre(testing::Pair(0, 2), testing::Pair(1, 2), testing::Pair(2, 2)));
  (void)gradient;
}

}  // namespace
}  // namespace luminal::training
