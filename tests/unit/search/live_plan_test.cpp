#include "search/cover/live_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <utility>

#include "search/cover/selection.h"
#include "support/effort.h"
#include "unit/passes/random_graph.h"
#include "unit/search/pipeline.h"

namespace luminal::search {
namespace {

using luminal::test::RandomGraph;
using test::roofline;

/// A cover problem with its fusions.
struct CoverOf {
  test::Searched searched;
  CoverProblem problem;
  Structure structure;
  std::vector<std::vector<Fusion>> fusions;

  explicit CoverOf(const Graph& graph) : searched(test::search(graph)), problem(searched.saturated.cover) {}
  void find() {
    structure = structure_of(problem, *searched.store);
    const SpecCost cost = roofline();
    CostTable costs(*searched.store, cost);
    fusions = find_fusions(problem, structure, *searched.store, costs, 8);
  }
  /// Alternatives move to other classes of the same size, so that classes can be computed from each other:
  /// nonsense as values, fair as a shape of e-graph.
  void mix(std::mt19937_64& chance) {
    const auto elements = [&](size_t c) {
      const auto& list = problem.classes[c].alternatives;
      if (list.empty()) return std::string();
      const kernel::KernelSpec& spec = searched.store->at(list[0].spec);
      return spec.outputs()[0].elements.to_string() + std::string(name(spec.result().dtype()));
    };
    for (int repeat = 0; repeat < 12; ++repeat) {
      const size_t a = chance() % problem.classes.size(), b = chance() % problem.classes.size();
      if (a == b || elements(a).empty() || elements(a) != elements(b)) continue;
      const auto copied = problem.classes[b].alternatives;
      auto& own = problem.classes[a].alternatives;
      own.insert(own.end(), copied.begin(), copied.end());
    }
  }
  [[nodiscard]] std::vector<int> open(const std::vector<char>& forced) const {
    std::vector<int> list;
    for (size_t c = 0; c < forced.size(); ++c)
      if (forced[c] == 0) list.push_back(static_cast<int>(c));
    return list;
  }
};

/// Whether the kernels that a plan takes wait for each other.
bool waits_in_a_circle(const CoverOf& cover, const std::vector<int>& fusion) {
  enum class Mark : char { New, Open, Done };
  std::vector<Mark> marks(fusion.size(), Mark::New);
  const std::function<bool(int)> meets_itself = [&](int c) {
    const auto at = static_cast<size_t>(c);
    if (marks[at] != Mark::New) return marks[at] == Mark::Open;
    marks[at] = Mark::Open;
    if (fusion[at] >= 0)
      for (const int leaf : cover.fusions[at][static_cast<size_t>(fusion[at])].leaves)
        if (meets_itself(leaf)) return true;
    marks[at] = Mark::Done;
    return false;
  };
  for (size_t c = 0; c < fusion.size(); ++c)
    if (meets_itself(static_cast<int>(c))) return true;
  return false;
}

TEST(LivePlan, AfterAnyStepsIsThePlanMadeFromNothing) {
  int cyclic = 0, impossible = 0, compared = 0;
  for (int64_t i = 0; i < effort::cases(60, 1000); ++i) {
    const uint64_t seed = effort::seed(7000) + static_cast<uint64_t>(i);
    SCOPED_TRACE(testing::Message() << "LUMINAL_TEST_SEED=" << seed);
    RandomGraph random(seed, RandomGraph::Kind::Tame, 24);
    CoverOf cover(random.graph());
    std::mt19937_64 chance(seed);
    if (seed % 2 == 0) cover.mix(chance);
    cover.find();
    if (seed % 3 == 0)
      for (auto& each : cover.problem.classes) each.no_recompute = chance() % 3 == 0;
    Selector selector(cover.problem, cover.structure, cover.fusions);
    const std::vector<int> open = cover.open(selector.forced());
    if (open.empty()) continue;
    LivePlan live(selector.graph());
    live.start(std::vector<char>(cover.problem.classes.size(), 1));
    for (int step = 0; step < 60; ++step) {
      std::set<int> group;
      for (size_t size = 1 + chance() % 3; group.size() < std::min(size, open.size());)
        group.insert(open[chance() % open.size()]);
      const std::vector<int> classes(group.begin(), group.end());
      const double before_us = live.cost_us();
      live.flip(classes);
      const Selection plan = selector.plan_of(live.in_memory());
      ASSERT_EQ(live.is_cyclic(), waits_in_a_circle(cover, live.fusions()));
      cyclic += live.is_cyclic() ? 1 : 0;
      if (!live.is_cyclic()) {
        if (!std::isfinite(plan.cost_us)) {
          ++impossible;
          ASSERT_FALSE(std::isfinite(live.cost_us()));
        } else {
          ++compared;
          ASSERT_NEAR(live.cost_us(), plan.cost_us, 1e-9 * plan.cost_us);
          ASSERT_EQ(live.fusions(), plan.fusion);
        }
      }
      if (chance() % 3 != 0) continue;
      live.undo(classes);
      ASSERT_EQ(live.cost_us(), before_us);
    }
  }
  EXPECT_GT(compared, 1000);
  EXPECT_GT(cyclic, 0);
  EXPECT_GT(impossible, 0);
}

// What bits say of fusions is what their lists say, also where a class asks for more others than a word has bits.
TEST(PlanGraph, TakesTheCheapestFusionWhoseLeavesAreInMemory) {
  constexpr size_t kClasses = 200;
  std::mt19937_64 chance(effort::seed(7300));
  CoverProblem problem;
  problem.classes.resize(kClasses);
  Structure structure;
  std::vector<std::vector<Fusion>> fusions(kClasses);
  std::vector<int> others(kClasses);
  std::iota(others.begin(), others.end(), 0);
  const auto some = [&](size_t count) {
    std::ranges::shuffle(others, chance);
    return std::vector<int>(others.begin(), others.begin() + static_cast<std::ptrdiff_t>(count));
  };
  for (size_t c = 0; c < kClasses; ++c) {
    structure.depth.push_back(static_cast<int>(c));
    structure.shape.push_back(c);
    structure.exact.push_back(c);
    problem.classes[c].alternatives.emplace_back();
    problem.classes[c].no_recompute = chance() % 8 == 0;
    for (uint64_t left = chance() % 12; left > 0; --left)
      fusions[c].push_back({.leaves = some(chance() % 40),
                            .interior = some(chance() % 6),
                            .cost_us = static_cast<double>(chance() % 16),
                            .downhill = chance() % 2 == 0});
  }
  const PlanGraph graph(problem, structure, fusions, false);
  int found = 0;
  for (int round = 0; round < 50; ++round) {
    std::vector<char> in_memory(kClasses);
    for (char& there : in_memory) there = static_cast<char>(chance() % 20 != 0);
    const auto is_there = [&](int c) { return in_memory[static_cast<size_t>(c)] != 0; };
    const PlanGraph::Ready ready = graph.ready_of(in_memory);
    for (size_t c = 0; c < kClasses; ++c)
      for (const bool downhill : {false, true}) {
        PlanGraph::Entry cheapest{-1, kImpossible};
        for (int number = 0; std::cmp_less(number, fusions[c].size()); ++number) {
          const Fusion& fusion = fusions[c][static_cast<size_t>(number)];
          const auto is_computed_elsewhere = [&](int inner) {
            return is_there(inner) && problem.classes[static_cast<size_t>(inner)].no_recompute;
          };
          if (fusion.cost_us < cheapest.cost_us && (fusion.downhill || !downhill) &&
              std::ranges::all_of(fusion.leaves, is_there) &&
              std::ranges::none_of(fusion.interior, is_computed_elsewhere))
            cheapest = {number, fusion.cost_us};
        }
        const PlanGraph::Entry entry = graph.cheapest(static_cast<int>(c), ready, downhill);
        ASSERT_EQ(entry.fusion, cheapest.fusion);
        found += entry.fusion >= 0 ? 1 : 0;
      }
  }
  EXPECT_GT(found, 1000);
}

TEST(LivePlan, KnowsTheDearestGuess) {
  RandomGraph random(7100, RandomGraph::Kind::Tame, 30);
  CoverOf cover(random.graph());
  cover.find();
  PlanGraph graph(cover.problem, cover.structure, cover.fusions, true);
  LivePlan live(graph);
  live.start(std::vector<char>(cover.problem.classes.size(), 1));
  int asked = 0;
  while (const auto guess = live.dearest_guess()) {
    double dearest = 0;
    const std::vector<int> taken = live.fusions();
    for (int c = 0; c < graph.class_count(); ++c)
      if (const int number = taken[static_cast<size_t>(c)]; number >= 0)
        if (graph.guess(c, number) >= 0) dearest = std::max(dearest, graph.fusion(c, number).cost_us);
    const SpecId spec = graph.guesses()[static_cast<size_t>(*guess)].spec;
    const double cost = roofline()(cover.searched.store->at(spec));
    ASSERT_EQ(cost, dearest);
    live.reprice(*guess, graph.set_price(*guess, ++asked % 2 == 0 ? cost : 1.5 * cost));
  }
  EXPECT_GT(asked, 2);
  double cost_us = 0;
  for (int c = 0; c < graph.class_count(); ++c)
    if (live.fusions()[static_cast<size_t>(c)] >= 0)
      cost_us += graph.cheapest(c, graph.ready_of(live.in_memory()), false).cost_us;
  EXPECT_NEAR(live.cost_us(), cost_us, 1e-9 * cost_us);
}

// A step looks at its neighbourhood, however large the graph is.
TEST(LivePlan, AStepCostsWhatItTouches) {
  const auto work_of_a_step = [](int layers) {
    Graph cx;
    GraphTensor x = cx.tensor({32, 64});
    for (int i = 0; i < layers; ++i)
      x = (x.matmul(cx.tensor({64, 64})) + cx.tensor({64}).expand_dim(0, 32)).relu().softmax(1) + x;
    x.retrieve();
    CoverOf cover(cx);
    cover.find();
    Selector selector(cover.problem, cover.structure, cover.fusions);
    LivePlan live(selector.graph());
    live.start(std::vector<char>(cover.problem.classes.size(), 1));
    const uint64_t before = live.work();
    const std::vector<int> open = cover.open(selector.forced());
    for (const int c : open) {
      live.flip(std::span(&c, 1));
      live.undo(std::span(&c, 1));
    }
    return static_cast<double>(live.work() - before) / static_cast<double>(open.size());
  };
  EXPECT_LT(work_of_a_step(48), 1.2 * work_of_a_step(8));
}

TEST(TopologicalOrder, StaysOneAsReadingsCome) {
  constexpr int kNodes = 30;
  std::mt19937_64 chance(5);
  for (int graph = 0; graph < 50; ++graph) {
    std::vector<int> places(kNodes);
    for (int i = 0; i < kNodes; ++i) places[static_cast<size_t>(i)] = i;
    std::ranges::shuffle(places, chance);
    TopologicalOrder order(places);
    std::vector<std::vector<int>> reads(kNodes), readers(kNodes);
    const std::function<bool(int, int)> reaches = [&](int from, int to) {
      return from == to || std::ranges::any_of(reads[static_cast<size_t>(from)],
                                               [&](int next) { return reaches(next, to); });
    };
    const auto reads_of = [&](int node) -> const auto& { return reads[static_cast<size_t>(node)]; };
    const auto readers_of = [&](int node) -> const auto& { return readers[static_cast<size_t>(node)]; };
    for (int edge = 0; edge < 60; ++edge) {
      const int a = static_cast<int>(chance() % kNodes), b = static_cast<int>(chance() % kNodes);
      if (a == b) continue;
      const bool possible = !reaches(b, a);
      EXPECT_EQ(order.needs(a, b, true, reads_of), reaches(a, b));
      ASSERT_EQ(order.put_behind(a, b, reads_of, readers_of, [](int, int) { return true; }), possible);
      if (!possible) continue;
      reads[static_cast<size_t>(a)].push_back(b);
      readers[static_cast<size_t>(b)].push_back(a);
      for (int node = 0; node < kNodes; ++node)
        for (const int read : reads_of(node)) ASSERT_GT(order.place(node), order.place(read));
    }
  }
}

}  // namespace
}  // namespace luminal::search
