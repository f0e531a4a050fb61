#include "search/cover/cover.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "search/cover/selection.h"
#include "search/tuning/implementation.h"
#include "support/effort.h"
#include "support/guessed.h"
#include "unit/passes/random_graph.h"
#include "unit/search/numbering.h"
#include "unit/search/pipeline.h"

namespace luminal::search {
namespace {

using luminal::test::RandomGraph;
using test::Evaluation;
using test::launches;
using test::renumbered;
using test::roofline;

/// Every class is made before it is read, and what is wanted is made.
void check_order(const CoverProblem& problem, const Cover& cover) {
  std::vector<char> made(problem.classes.size(), 0);
  for (size_t c = 0; c < made.size(); ++c)
    made[c] = problem.classes[c].alternatives.empty() && problem.classes[c].host < 0 ? 1 : 0;
  for (const CoverStep& step : cover.steps) {
    if (step.host >= 0) {
      for (const int c : problem.hosts[static_cast<size_t>(step.host)].inputs)
        ASSERT_TRUE(made[static_cast<size_t>(c)]);
      for (size_t c = 0; c < made.size(); ++c)
        if (problem.classes[c].host == step.host) made[c] = 1;
      continue;
    }
    const CoverKernel& kernel = cover.kernels[static_cast<size_t>(step.kernel)];
    for (const int c : kernel.inputs) ASSERT_TRUE(made[static_cast<size_t>(c)]) << "class " << c;
    for (const int c : kernel.outputs) made[static_cast<size_t>(c)] = 1;
  }
  for (size_t c = 0; c < made.size(); ++c)
    ASSERT_TRUE(made[c] || !problem.classes[c].wanted) << "class " << c;
}

TEST(Cover, OfRandomGraphsEqualsTheReference) {
  for (int64_t i = 0; i < effort::cases(60, 1000); ++i) {
    const uint64_t seed = effort::seed(1) + static_cast<uint64_t>(i);
    SCOPED_TRACE(testing::Message() << "LUMINAL_TEST_SEED=" << seed);
    RandomGraph random(seed, RandomGraph::Kind::Tame);
    Graph& cx = random.graph();
    const auto searched = test::search(cx);
    const Cover cover = find_cover(searched.saturated.cover, *searched.store, roofline(), {});
    check_order(searched.saturated.cover, cover);
    Evaluation values(cx, searched);
    values.cover(cover);
    if (HasFatalFailure()) return;
    cx.set_device("reference");
    cx.execute();
    for (const auto& item : random.outputs()) {
      const Value value = item.tensor.edge().source;
      const auto result =
          std::ranges::find(searched.kernel_graph.results, value, [](const auto& r) { return r.first; });
      if (result == searched.kernel_graph.results.end()) continue;  // an input
      test::expect_near(values.of_tensor(result->second), *cx.value(value), 4 * item.error + 1e-12, "output");
      if (HasFatalFailure()) return;
    }
  }
}

/// Any program that can be extracted computes the same.
TEST(Cover, RandomTermsOfTheEGraphEqualTheReference) {
  for (int64_t i = 0; i < effort::cases(40, 400); ++i) {
    const uint64_t seed = effort::seed(9000) + static_cast<uint64_t>(i);
    SCOPED_TRACE(testing::Message() << "LUMINAL_TEST_SEED=" << seed);
    RandomGraph random(seed, RandomGraph::Kind::Tame);
    Graph& cx = random.graph();
    const auto searched = test::search(cx);
    const CoverProblem& problem = searched.saturated.cover;
    Evaluation values(cx, searched);
    std::mt19937_64 chance(seed);
    // Classes in any order in which they can be made, each by any alternative that is ready.
    for (bool progress = true; progress;) {
      progress = false;
      for (size_t h = 0; h < problem.hosts.size(); ++h) {
        const auto& host = problem.hosts[h];
        const auto& out = searched.kernel_graph.hosts[h].outputs;
        const bool ready = std::ranges::all_of(host.inputs, [&](int c) { return values.has(c); });
        if (!ready || out.empty() || values.has(searched.saturated.class_of[static_cast<size_t>(out[0])]))
          continue;
        values.host(static_cast<int>(h));
        progress = true;
      }
      for (size_t c = 0; c < problem.classes.size(); ++c) {
        if (values.has(static_cast<int>(c))) continue;
        std::vector<const CoverProblem::Alternative*> ready;
        for (const auto& alternative : problem.classes[c].alternatives)
          if (std::ranges::all_of(alternative.arguments, [&](int a) { return values.has(a); }))
            ready.push_back(&alternative);
        if (ready.empty()) continue;
        const auto& pick = *ready[chance() % ready.size()];
        values.kernel(pick.spec, pick.arguments, {static_cast<int>(c)});
        progress = true;
      }
    }
    cx.set_device("reference");
    cx.execute();
    for (const auto& item : random.outputs()) {
      const Value value = item.tensor.edge().source;
      const auto result =
          std::ranges::find(searched.kernel_graph.results, value, [](const auto& r) { return r.first; });
      if (result == searched.kernel_graph.results.end()) continue;
      test::expect_near(values.of_tensor(result->second), *cx.value(value), 4 * item.error + 1e-12, "output");
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Cover, IsTheSameForAnyNumbering) {
  for (uint64_t seed = 100; seed < 130; ++seed) {
    SCOPED_TRACE(seed);
    RandomGraph random(seed, RandomGraph::Kind::Tame, 30);
    const auto searched = test::search(random.graph());
    const CoverProblem& problem = searched.saturated.cover;
    const Cover cover = find_cover(problem, *searched.store, roofline(), {});
    std::mt19937_64 chance(seed);
    for (int repeat = 0; repeat < 3; ++repeat) {
      std::vector<int> order(problem.classes.size());
      std::iota(order.begin(), order.end(), 0);
      std::ranges::shuffle(order, chance);
      const Cover other = find_cover(renumbered(problem, order), *searched.store, roofline(), {});
      ASSERT_EQ(launches(other, *searched.store), launches(cover, *searched.store));
      ASSERT_EQ(other.cost_us, cover.cost_us);
    }
  }
}

/// E-graphs whose classes can be computed from each other.
TEST(Cover, IsAcyclicOnEGraphsWithCycles) {
  for (int64_t i = 0; i < effort::cases(150, 3000); ++i) {
    const uint64_t seed = effort::seed(500) + static_cast<uint64_t>(i);
    SCOPED_TRACE(testing::Message() << "LUMINAL_TEST_SEED=" << seed);
    RandomGraph random(seed, RandomGraph::Kind::Tame, 20);
    const auto searched = test::search(random.graph());
    CoverProblem problem = searched.saturated.cover;
    std::mt19937_64 chance(seed);
    // Alternatives move to other classes of the same size: nonsense as values, fair as a shape of e-graph.
    const auto elements = [&](size_t c) {
      const auto& list = problem.classes[c].alternatives;
      return list.empty() ? std::string()
                          : searched.store->at(list[0].spec).outputs()[0].elements.to_string() +
                                std::string(name(searched.store->at(list[0].spec).result().dtype()));
    };
    for (int repeat = 0; repeat < 12; ++repeat) {
      const size_t a = chance() % problem.classes.size(), b = chance() % problem.classes.size();
      if (a == b || elements(a).empty() || elements(a) != elements(b)) continue;
      const auto copied = problem.classes[b].alternatives;
      problem.classes[a].alternatives.insert(problem.classes[a].alternatives.end(), copied.begin(),
                                             copied.end());
    }
    const Cover cover = find_cover(problem, *searched.store, roofline(), {});
    check_order(problem, cover);
    if (HasFatalFailure()) return;
    const SpecCost cost = roofline();
    CostTable costs(*searched.store, cost);
    const Structure structure = structure_of(problem, *searched.store);
    const auto fusions = find_fusions(problem, structure, *searched.store, costs, 8);
    for (const double most : {1.05, 2.0, 4.0}) {
      for (auto& each : problem.classes) each.no_recompute = chance() % 3 == 0;
      const test::GuessedChoice guessed(problem, structure, fusions, 0.02, most);
      EXPECT_NEAR(guessed.selection.cost_us, guessed.true_cost_us, 1e-9 * guessed.true_cost_us);
    }
  }
}

/// Every subset of the classes that may leave memory, over the same fusions.
double exhaustive(Selector& selector, const std::vector<char>& forced) {
  std::vector<size_t> open;
  for (size_t c = 0; c < forced.size(); ++c)
    if (forced[c] == 0) open.push_back(c);
  double best = std::numeric_limits<double>::infinity();
  for (uint64_t subset = 0; subset < (uint64_t{1} << open.size()); ++subset) {
    std::vector<char> in_memory = forced;
    for (size_t i = 0; i < open.size(); ++i)
      if ((subset >> i & 1) != 0) in_memory[open[i]] = 1;
    best = std::min(best, selector.cost_of(in_memory));
  }
  return best;
}

struct FusionsOfARandomGraph {
  explicit FusionsOfARandomGraph(uint64_t seed)
      : searched(test::search(RandomGraph(seed, RandomGraph::Kind::Tame, 14).graph())),
        structure(structure_of(problem(), *searched.store)) {
    const SpecCost cost = roofline();
    CostTable costs(*searched.store, cost);
    fusions = find_fusions(problem(), structure, *searched.store, costs, 8);
  }
  [[nodiscard]] const CoverProblem& problem() const { return searched.saturated.cover; }
  test::Searched searched;
  Structure structure;
  std::vector<std::vector<Fusion>> fusions;
};

TEST(Cover, FlipsComeCloseToTheBestChoice) {
  int compared = 0;
  double worst = 0, found_sum = 0, best_sum = 0;
  for (uint64_t seed = 2000; seed < 2120; ++seed) {
    const FusionsOfARandomGraph random(seed);
    Selector selector(random.problem(), random.structure, random.fusions);
    if (std::ranges::count(selector.forced(), 0) > 12) continue;
    const double found = selector.run().cost_us, best = exhaustive(selector, selector.forced());
    ASSERT_GE(found, best * (1 - 1e-9));
    worst = std::max(worst, found / best - 1);
    found_sum += found;
    best_sum += best;
    ++compared;
  }
  EXPECT_GE(compared, 40);
  EXPECT_LE(found_sum / best_sum, 1.02);
  RecordProperty("worst_loss_percent", std::to_string(100 * worst));
}

// Prices are asked for where a plan takes a kernel, each once, and lead to plans as good as if all were
// known.
TEST(Cover, PricesAreAskedForWhereTheyMatter) {
  double guessed_sum = 0, known_sum = 0;
  size_t asked = 0, specs = 0;
  for (uint64_t seed = 2500; seed < 2600; ++seed) {
    const FusionsOfARandomGraph random(seed);
    const test::GuessedChoice guessed(random.problem(), random.structure, random.fusions);
    EXPECT_NEAR(guessed.selection.cost_us, guessed.true_cost_us, 1e-9 * guessed.true_cost_us)
        << "a guess is left";
    EXPECT_LE(guessed.asked, guessed.specs);
    EXPECT_GE(guessed.selection.unfused_us, guessed.selection.cost_us);
    EXPECT_TRUE(std::isfinite(guessed.selection.unfused_us));
    guessed_sum += guessed.true_cost_us;
    known_sum += Selector(random.problem(), random.structure, random.fusions).run().cost_us;
    asked += guessed.asked;
    specs += guessed.specs;
  }
  EXPECT_LE(guessed_sum / known_sum, 1.01);
  EXPECT_LT(asked, specs * 3 / 4);
}

// What a process has compiled before costs no time again, and has no say.
TEST(Cover, IsTheSameWhateverPricesAreKnown) {
  for (uint64_t seed = 2600; seed < 2640; ++seed) {
    SCOPED_TRACE(seed);
    RandomGraph random(seed, RandomGraph::Kind::Tame, 30);
    const auto searched = test::search(random.graph());
    const SpecCost rough = roofline();
    int asked = 0;
    const SpecCost fine = [&](const kernel::KernelSpec& spec) {
      ++asked;
      return rough(spec) * (0.7 + 0.1 * static_cast<double>(spec.hash() % 11));
    };
    CostMemory memory;
    const auto cover = [&] {
      return find_cover(searched.saturated.cover, *searched.store, {rough, fine, &memory}, {});
    };
    const Cover first = cover();
    EXPECT_GT(asked, 0);
    asked = 0;
    EXPECT_EQ(launches(cover(), *searched.store), launches(first, *searched.store));
    EXPECT_EQ(asked, 0);
    memory.fine.resize(searched.store->size(), -1);
    for (SpecId spec = 0; spec < searched.store->size(); ++spec)
      if (memory.fine[spec] < 0) memory.fine[spec] = fine(searched.store->at(spec));
    EXPECT_EQ(launches(cover(), *searched.store), launches(first, *searched.store));
  }
}

// Threads that share the work number specs as they come, which has no say: plans are those of one thread.
TEST(Cover, IsTheSameHoweverManyThreadsFindIt) {
  for (uint64_t seed = 2700; seed < 2740; ++seed) {
    SCOPED_TRACE(seed);
    RandomGraph random(seed, RandomGraph::Kind::Tame, 40);
    const SpecCost rough = roofline();
    const SpecCost fine = [&](const kernel::KernelSpec& spec) {
      return rough(spec) * (0.7 + 0.1 * static_cast<double>(spec.hash() % 11));
    };
    const auto alone = test::search(random.graph()), together = test::search(random.graph());
    const Cover one = find_cover(alone.saturated.cover, *alone.store, CoverCosts{rough, fine}, {});
    const Cover many = find_cover(together.saturated.cover, *together.store,
                                  {.rough = rough, .fine = fine, .shared = true}, {});
    EXPECT_EQ(launches(many, *together.store), launches(one, *alone.store));
    EXPECT_EQ(many.cost_us, one.cost_us);
    EXPECT_EQ(many.flips, one.flips);
  }
}

// Where memory is what counts, a softmax reads its rows once and writes them once. The way there leads over
// values that are in memory and that no kernel reads.
TEST(Cover, ASoftmaxOfRowsIsOneKernelThatKeepsNothing) {
  Graph cx;
  cx.tensor({2048, 2048}).softmax(1).retrieve();
  const auto searched = test::search(cx);
  kernel::MachineLimits limits;
  limits.flops_per_us = 300e3;
  limits.cache_bytes_per_us = limits.memory_bytes_per_us = 40e3;
  const SpecCost rough = [&](const kernel::KernelSpec& spec) {
    return kernel::predicted_us(spec, {}, limits);
  };
  const codegen::Target target{.vector_bytes = 64,
                               .vector_registers = 32,
                               .threads = 2,
                               .l1_bytes = 48 << 10,
                               .l2_bytes = 2 << 20,
                               .l3_bytes = 105 << 20};
  const SpecCost as_run = [&](const kernel::KernelSpec& spec) {
    return best_by_model(spec, {}, target).predicted_us;
  };
  const Cover cover = find_cover(searched.saturated.cover, *searched.store, CoverCosts{rough, as_run}, {});
  ASSERT_EQ(cover.kernels.size(), 1U);
  EXPECT_EQ(cover.kernels[0].outputs.size(), 1U);
}

TEST(Cover, EightFusionsLoseLittleAgainstSixtyFour) {
  double eight = 0, many = 0;
  for (uint64_t seed = 3000; seed < 3060; ++seed) {
    RandomGraph random(seed, RandomGraph::Kind::Tame, 24);
    const auto searched = test::search(random.graph());
    eight += find_cover(searched.saturated.cover, *searched.store, roofline(), {.fusions = 8}).cost_us;
    many += find_cover(searched.saturated.cover, *searched.store, roofline(), {.fusions = 64}).cost_us;
  }
  EXPECT_LE(eight, 1.02 * many);
}

// Each step reads the last at two places: inlined freely, a fusion of n steps would compute the first 2^n
// times.
TEST(Cover, ChainsThatReadTwiceTakeEffortInProportion) {
  const auto specs = [](int steps) {
    Graph cx;
    GraphTensor x = cx.tensor({4, 1024});
    for (int i = 0; i < steps; ++i)
      x = x.exp() + x.slice({{0, 4}, {0, 1024 - (1 << i % 5)}}).pad({{0, 0}, {1 << i % 5, 0}});
    x.retrieve();
    const auto searched = test::search(cx);
    const Cover cover = find_cover(searched.saturated.cover, *searched.store, roofline(), {});
    double once = 0, done = 0;
    for (const CoverProblem::Class& each : searched.saturated.cover.classes)
      if (!each.alternatives.empty()) once += searched.store->operations(each.alternatives[0].spec);
    for (const CoverKernel& kernel : cover.kernels) done += searched.store->operations(kernel.spec);
    EXPECT_LE(done, FusionLimits().repeats * once) << steps << " steps";
    return searched.store->size();
  };
  const size_t few = specs(10), many = specs(40);
  EXPECT_LE(many, 5 * few) << few << " specs for a quarter of the steps";
}

/// Layers that are alike get the same kernels, however many there are.
TEST(Cover, RepeatedLayersShareTheirKernels) {
  const auto distinct = [](int layers) {
    Graph cx;
    GraphTensor x = cx.tensor({32, 64});
    for (int i = 0; i < layers; ++i)
      x = (x.matmul(cx.tensor({64, 64})) + cx.tensor({64}).expand_dim(0, 32)).relu().softmax(1) + x;
    x.retrieve();
    const auto searched = test::search(cx);
    const Cover cover = find_cover(searched.saturated.cover, *searched.store, roofline(), {});
    EXPECT_GE(cover.kernels.size(), static_cast<size_t>(layers));
    std::set<SpecId> specs;
    for (const CoverKernel& kernel : cover.kernels) specs.insert(kernel.spec);
    return specs.size();
  };
  // The first layers and the last ones have other neighbours.
  EXPECT_LE(distinct(24), 4U);
}

/// What extraction by tree cost would run: each class takes the fusion of the cheapest tree, in which a value
/// that two kernels read is paid twice.
double cost_by_trees(const CoverProblem& problem, const Structure& structure,
                     const std::vector<std::vector<Fusion>>& fusions) {
  std::vector<int> order(fusions.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](int c) { return structure.depth[static_cast<size_t>(c)]; });
  std::vector<double> tree(fusions.size(), 0);
  std::vector<const Fusion*> pick(fusions.size(), nullptr);
  for (const int c : order)
    for (const Fusion& fusion : fusions[static_cast<size_t>(c)]) {
      double total = fusion.cost_us;
      for (const int leaf : fusion.leaves) total += tree[static_cast<size_t>(leaf)];
      if (pick[static_cast<size_t>(c)] != nullptr && total >= tree[static_cast<size_t>(c)]) continue;
      tree[static_cast<size_t>(c)] = total;
      pick[static_cast<size_t>(c)] = &fusion;
    }
  std::vector<char> paid(fusions.size(), 0);
  std::vector<int> stack;
  for (size_t c = 0; c < fusions.size(); ++c)
    if (problem.classes[c].wanted) stack.push_back(static_cast<int>(c));
  double cost = 0;
  while (!stack.empty()) {
    const auto c = static_cast<size_t>(stack.back());
    stack.pop_back();
    if (pick[c] == nullptr || paid[c]++ != 0) continue;
    cost += pick[c]->cost_us;
    stack.insert(stack.end(), pick[c]->leaves.begin(), pick[c]->leaves.end());
  }
  return cost;
}

TEST(Cover, BeatsTreeCostWhereAValueIsShared) {
  Graph cx;
  const GraphTensor x = cx.tensor({512, 512}), w = cx.tensor({512, 512});
  const GraphTensor shared = x.matmul(w);
  shared.exp2().retrieve();
  shared.sin().retrieve();
  const auto searched = test::search(cx);
  const CoverProblem& problem = searched.saturated.cover;
  const Structure structure = structure_of(problem, *searched.store);
  const SpecCost cost = roofline();
  CostTable costs(*searched.store, cost);
  const auto fusions = find_fusions(problem, structure, *searched.store, costs, 8);
  const double found = Selector(problem, structure, fusions).run().cost_us;
  EXPECT_GT(cost_by_trees(problem, structure, fusions), 1.4 * found) << "the product is computed twice";
}

/// The same tensors, made in another order.
TEST(Cover, IsTheSameForAnyOrderOfCreation) {
  const auto build = [](Graph& cx, bool swapped) {
    const GraphTensor x = cx.tensor({64, 96}), w = cx.tensor({96, 32});
    const auto left = [&] { return x.matmul(w).softmax(1); };
    const auto right = [&] { return (x.exp2().sum(1).expand_dim(1, 32) + 1.0).sin(); };
    GraphTensor a, b;
    if (swapped) {
      b = right();
      a = left();
    } else {
      a = left();
      b = right();
    }
    (a * b).retrieve();
    a.retrieve();
  };
  Graph first, second;
  build(first, false);
  build(second, true);
  const auto one = test::search(first), other = test::search(second);
  const Cover a = find_cover(one.saturated.cover, *one.store, roofline(), {}),
              b = find_cover(other.saturated.cover, *other.store, roofline(), {});
  EXPECT_EQ(launches(a, *one.store), launches(b, *other.store));
}

}  // namespace
}  // namespace luminal::search
