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

TEST(RandomGraphs, OfEveryShapeEqualTheReference) {
  for (int64_t i = 0; i < effort::cases(60, 500); ++i) {
    const uint64_t seed = effort::seed(70'000) + static_cast<uint64_t>(i);
    SCOPED_TRACE(testing::Message() << "LUMINAL_TEST_SEED=" << seed);
    RandomGraph random(seed, RandomGraph::Kind::Tame);
    Graph& cx = random.graph();
    std::vector<TensorData> wanted;
    cx.set_device("reference");
    cx.execute();
    for (const auto& item : random.outputs()) wanted.push_back(*cx.value(item.tensor.edge().source));
    cx.set_step(0);
    cx.set_device("cpu");
    cx.execute();
    for (size_t k = 0; k < wanted.size(); ++k) {
      const auto& item = random.outputs()[k];
      search::test::expect_near(*cx.value(item.tensor.edge().source), wanted[k], 4 * item.error + 1e-12,
                                "output");
      if (HasFatalFailure()) return;
    }
  }
}

TEST(RandomGraphs, OfSymbolicSizeEqualTheReferenceAtThreeSizes) {
  for (int64_t i = 0; i < effort::cases(40, 500); ++i) {
    const uint64_t seed = effort::seed(80'000) + static_cast<uint64_t>(i);
    SCOPED_TRACE(testing::Message() << "LUMINAL_TEST_SEED=" << seed);
    SymbolicGraph random(seed);
    Graph& cx = random.graph();
    if (random.outputs().empty()) continue;
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
