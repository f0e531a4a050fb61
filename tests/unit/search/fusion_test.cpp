#include "search/cover/fusion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "unit/search/pipeline.h"

namespace luminal::search {
namespace {

std::vector<float> wave(size_t count, size_t phase) {
  std::vector<float> list;
  for (size_t i = 0; i < count; ++i) list.push_back(std::sin(0.7F * static_cast<float>(i + phase)));
  return list;
}

/// A stack of layers that are alike.
void build_layers(Graph& cx, int layers) {
  GraphTensor x = cx.tensor({4, 8}).set(wave(32, 0));
  for (int i = 0; i < layers; ++i) {
    const auto phase = static_cast<size_t>(i) + 1;
    const GraphTensor weight = cx.tensor({8, 8}).set(wave(64, phase)),
                      bias = cx.tensor({8}).set(wave(8, 2 * phase));
    x = (x.matmul(weight) + bias.expand_dim(0, 4)).relu().softmax(1) + x * 0.5F;
  }
  x.retrieve();
}

struct Fused {
  test::Searched searched;
  Structure structure;
  std::vector<std::vector<Fusion>> fusions;

  explicit Fused(const Graph& graph) : searched(test::search(graph)) {
    structure = structure_of(searched.saturated.cover, *searched.store);
    const SpecCost cost = test::roofline();
    CostTable costs(*searched.store, cost);
    fusions = find_fusions(searched.saturated.cover, structure, *searched.store, costs, 8);
  }
};

// Those that a class took from another one, too.
TEST(Fusions, EachComputesItsClass) {
  Graph cx;
  build_layers(cx, 8);
  const Fused fused(cx);
  const CoverProblem& problem = fused.searched.saturated.cover;
  test::Evaluation values(cx, fused.searched);
  for (bool progress = true; progress;) {
    progress = false;
    for (int c = 0; c < static_cast<int>(problem.classes.size()); ++c) {
      if (values.has(c)) continue;
      for (const auto& alternative : problem.classes[static_cast<size_t>(c)].alternatives) {
        if (!std::ranges::all_of(alternative.arguments, [&](int a) { return values.has(a); })) continue;
        values.kernel(alternative.spec, alternative.arguments, {c});
        progress = true;
        break;
      }
    }
  }
  size_t grown = 0;
  for (int c = 0; c < static_cast<int>(problem.classes.size()); ++c)
    for (const Fusion& fusion : fused.fusions[static_cast<size_t>(c)]) {
      const TensorData wanted = values.of(c);
      values.kernel(fusion.spec, fusion.leaves, {c});
      test::expect_near(values.of(c), wanted, 1e-4, "class " + std::to_string(c));
      if (HasFatalFailure()) return;
      EXPECT_TRUE(std::ranges::is_sorted(fusion.interior));
      grown += fusion.interior.empty() ? 0 : 1;
    }
  EXPECT_GT(grown, 40U);
}

TEST(Fusions, OfLayersThatAreAlikeAreAlike) {
  Graph cx;
  build_layers(cx, 24);
  const Fused fused(cx);
  std::map<uint64_t, std::map<std::vector<SpecId>, int>> lists;  // how often, by shape
  for (size_t c = 0; c < fused.fusions.size(); ++c) {
    std::vector<SpecId> specs;
    for (const Fusion& fusion : fused.fusions[c]) specs.push_back(fusion.spec);
    ++lists[fused.structure.shape[c]][specs];
  }
  size_t shapes = 0;
  for (const auto& [shape, by_specs] : lists) {
    int all = 0, most = 0;
    for (const auto& [specs, count] : by_specs) {
      all += count;
      most = std::max(most, count);
    }
    if (all < 12) continue;
    ++shapes;
    // A fusion reaches over a few layers, so that those at both ends have others.
    EXPECT_GE(most, all - 8) << "classes of one shape have " << by_specs.size() << " lists of fusions";
  }
  EXPECT_GE(shapes, 3U);
}

}  // namespace
}  // namespace luminal::search
