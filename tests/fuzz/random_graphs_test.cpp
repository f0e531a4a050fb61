// Random graphs compiled for the CPU against the reference interpreter.
#include <gtest/gtest.h>

#include "fuzz/symbolic_graph.h"
#include "luminal/luminal.h"
#include "support/effort.h"
#include "unit/passes/random_graph.h"
#include "unit/search/pipeline.h"

namespace luminal {
namespace {

using test::RandomGraph;
using test::SymbolicGraph;

/// Runs `count` random graphs on the reference, then compiled in `mode`.
void compare(uint64_t first_seed, int64_t count, const CompilationMode& mode, int nodes,
             MathMode math = MathMode::Relaxed, RandomGraph::Kind kind = RandomGraph::Kind::Tame) {
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t seed = effort::seed(first_seed) + static_cast<uint64_t>(i);
    SCOPED_TRACE(testing::Message() << "LUMINAL_TEST_SEED=" << seed);
    RandomGraph random(seed, kind, nodes);
    Graph& cx = random.graph();
    cx.set_search({.math = math});
    std::vector<TensorData> wanted;
    cx.set_device("reference");
    cx.execute();
    for (const auto& item : random.outputs()) wanted.push_back(*cx.value(item.tensor.edge().source));
    cx.set_step(0);
    cx.set_device("cpu");
    testing::internal::CaptureStderr();
    cx.compile(mode)();
    ASSERT_EQ(testing::internal::GetCapturedStderr(), "") << "no kernel of these is wrong";
    for (size_t k = 0; k < wanted.size(); ++k) {
      const auto& item = random.outputs()[k];
      search::test::expect_near(*cx.value(item.tensor.edge().source), wanted[k], 4 * item.error + 1e-12,
                                "output");
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(RandomGraphs, OfEveryShapeEqualTheReference) { compare(70'000, effort::cases(700, 3000), Fast{}, 24); }

TEST(RandomGraphs, OfAllKindsOfOpsEqualTheReference) {
  compare(60'000, effort::cases(900, 5000), Fast{}, 16, MathMode::Relaxed, RandomGraph::Kind::Wide);
}

TEST(RandomGraphs, SearchedInFullEqualTheReference) {
  compare(75'000, effort::cases(80, 300), Optimal{}, 14);
}

/// Judged on NaN and infinities too.
TEST(RandomGraphs, SearchedInFullAndStrictlyEqualTheReference) {
  compare(77'000, effort::cases(20, 100), Optimal{}, 14, MathMode::Strict);
}

TEST(RandomGraphs, OfSymbolicSizeEqualTheReferenceAtThreeSizes) {
  int64_t compared = 0;
  for (uint64_t seed = effort::seed(80'000); compared < effort::cases(400, 2000); ++seed) {
    SCOPED_TRACE(testing::Message() << "LUMINAL_TEST_SEED=" << seed);
    SymbolicGraph random(seed);
    Graph& cx = random.graph();
    if (random.outputs().empty()) continue;
    ++compared;
    for (const int64_t n : {int64_t{1}, int64_t{7}, int64_t{32}}) {
      random.feed(n);
      std::vector<TensorData> wanted;
      cx.set_device("reference");
      cx.execute();
      for (const auto& item : random.outputs()) wanted.push_back(*cx.value(item.tensor.edge().source));
      cx.set_device("cpu");
      cx.execute();
      for (size_t k = 0; k < wanted.size(); ++k) {
        const auto& item = random.outputs()[k];
        search::test::expect_near(*cx.value(item.tensor.edge().source), wanted[k], 8 * item.error + 1e-6,
                                  "n = " + std::to_string(n));
        if (HasFatalFailure()) return;
      }
    }
  }
}

/// In f64 and over data without ties, so that what amplifies rounding does not need to be known.
TEST(RandomGraphs, HaveTheReferencesGradients) {
  int64_t compared = 0;
  for (uint64_t seed = effort::seed(85'000); compared < effort::cases(150, 1000); ++seed) {
    SCOPED_TRACE(testing::Message() << "LUMINAL_TEST_SEED=" << seed);
    SymbolicGraph random(seed, 10, Dtype::F64);
    Graph& cx = random.graph();
    const std::vector<GraphTensor> gradients = random.gradients();
    if (gradients.empty()) continue;
    ++compared;
    random.feed(1 + static_cast<int64_t>(seed % 9));
    std::vector<TensorData> wanted;
    cx.set_device("reference");
    cx.execute();
    for (const GraphTensor& g : gradients) wanted.push_back(*cx.value(g.edge().source));
    cx.set_device("cpu");
    cx.execute();
    for (size_t k = 0; k < wanted.size(); ++k) {
      double scale = 1;
      for (const double x : search::test::elements(wanted[k])) scale = std::max(scale, std::abs(x));
      search::test::expect_near(*cx.value(gradients[k].edge().source), wanted[k], 1e-10 * scale, "gradient");
      if (HasFatalFailure()) return;
    }
  }
}

/// With every value kept, each must be right, not only what is retrieved.
TEST(RandomGraphs, KeepEveryValueOnRequest) {
  for (uint64_t seed = 90'000; seed < 90'010; ++seed) {
    SCOPED_TRACE(seed);
    RandomGraph random(seed, RandomGraph::Kind::Tame, 10);
    Graph& cx = random.graph();
    cx.set_device("cpu");
    cx.execute_no_delete();
    for (const NodeId id : cx.nodes()) ASSERT_NE(cx.value({id, 0}), nullptr) << id.index;
  }
}

}  // namespace
}  // namespace luminal
