// Extraction against brute force on random e-graphs, and the textbook case where sharing matters.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "luminal/egraph.h"

namespace luminal::egraph {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

struct Node {
  FunctionId function;
  std::vector<Value> children;
};

struct RandomGraph {
  explicit RandomGraph(uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto pick = [&](size_t n) { return static_cast<size_t>(random() % n); };
    e = g.eq_sort("E");
    for (int i = 0; i < 3; i++)
      g.constructor("A" + std::to_string(i), {}, e, static_cast<double>(1 + pick(9)));
    for (int i = 0; i < 3; i++) g.constructor("U" + std::to_string(i), {e}, e, static_cast<double>(pick(5)));
    for (int i = 0; i < 3; i++)
      g.constructor("B" + std::to_string(i), {e, e}, e, static_cast<double>(1 + pick(5)));
    std::vector<Value> ids;
    for (int i = 0; i < 3; i++) ids.push_back(g.add(FunctionId(i), {}));
    for (size_t i = 4 + pick(6); i > 0; i--) {
      if (pick(3) == 0)
        ids.push_back(g.add(FunctionId(3 + pick(3)), {ids[pick(ids.size())]}));
      else
        ids.push_back(g.add(FunctionId(6 + pick(3)), {ids[pick(ids.size())], ids[pick(ids.size())]}));
    }
    for (size_t i = pick(6); i > 0; i--)
      g.unite(ids[pick(ids.size())], ids[pick(ids.size())]);  // makes cycles
    g.rebuild();
    for (const FunctionId f : g.functions_listed())
      g.for_each_row(f, [&](auto args, Value out, bool) {
        nodes[out].push_back({f, {args.begin(), args.end()}});
        return true;
      });
  }
  [[nodiscard]] double own(const Node& n) const { return g.spec(n.function).cost; }

  /// Least tree cost of trees at most `depth` high.
  double tree_cost(Value id, int depth) {
    if (depth == 0) return kInfinite;
    const auto key = std::make_pair(id, depth);
    if (const auto known = memo.find(key); known != memo.end()) return known->second;
    double best = kInfinite;
    for (const Node& n : nodes[id]) {
      double cost = own(n);
      for (const Value c : n.children) cost += tree_cost(c, depth - 1);
      best = std::min(best, cost);
    }
    return memo[key] = best;
  }

  /// All trees at most `depth` high, by cost.
  void all_costs(Value id, int depth, std::multiset<double>& out) {
    if (depth == 0) return;
    for (const Node& n : nodes[id]) {
      std::vector<double> costs{own(n)};
      for (const Value c : n.children) {
        std::multiset<double> below;
        all_costs(c, depth - 1, below);
        std::vector<double> next;
        for (const double a : costs)
          for (const double b : below) next.push_back(a + b);
        std::sort(next.begin(), next.end());
        if (next.size() > 300) next.resize(300);
        costs = std::move(next);
      }
      out.insert(costs.begin(), costs.end());
    }
  }

  /// Least cost of an acyclic choice of one node per needed class: every choice is tried.
  double dag_cost(Value root) {
    std::map<Value, size_t> choice;
    double best = kInfinite;
    const std::function<void(std::vector<Value>, double)> search = [&](std::vector<Value> open, double paid) {
      while (!open.empty() && choice.contains(open.back())) open.pop_back();
      if (open.empty()) {
        if (acyclic(root, choice)) best = std::min(best, paid);
        return;
      }
      const Value id = open.back();
      open.pop_back();
      for (size_t i = 0; i < nodes[id].size(); i++) {
        choice[id] = i;
        std::vector<Value> next = open;
        next.insert(next.end(), nodes[id][i].children.begin(), nodes[id][i].children.end());
        search(std::move(next), paid + own(nodes[id][i]));
      }
      choice.erase(id);
    };
    search({root}, 0);
    return best;
  }
  bool acyclic(Value root, const std::map<Value, size_t>& choice) {
    std::set<Value> open, done;
    const std::function<bool(Value)> visit = [&](Value id) {
      if (done.contains(id)) return true;
      if (!open.insert(id).second) return false;
      for (const Value c : nodes[id][choice.at(id)].children)
        if (!visit(c)) return false;
      done.insert(id);
      return true;
    };
    return visit(root);
  }

  EGraph g;
  SortId e{};
  std::map<Value, std::vector<Node>> nodes;
  std::map<std::pair<Value, int>, double> memo;
};

/// Tree cost of a term and its validity: every node is a row of the class it stands for.
double checked_cost(RandomGraph& r, const TermDag& term, Value root, bool shared) {
  EXPECT_EQ(r.g.find(term.nodes[term.root].value), r.g.find(root));
  std::vector<double> cost(term.nodes.size());
  double sum = 0;
  for (size_t i = 0; i < term.nodes.size(); i++) {
    const TermDag::Node& n = term.nodes[i];
    std::vector<Value> args;
    cost[i] = r.g.spec(n.function).cost;
    sum += cost[i];
    for (const uint32_t c : n.children) {
      EXPECT_LT(c, i);
      args.push_back(term.nodes[c].value);
      cost[i] += cost[c];
    }
    EXPECT_EQ(r.g.lookup(n.function, args), std::optional(n.value));
  }
  return shared ? sum : cost[term.root];
}

TEST(Extraction, TreeCostsAreTheLeast) {
  for (uint64_t seed = 1; seed <= 300; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomGraph r(seed);
    const Extractor extractor(r.g);
    for (const auto& [id, rows] : r.nodes) {
      const double expected = r.tree_cost(id, 14);
      const auto term = extractor.best(r.e, id);
      ASSERT_TRUE(term.has_value());
      EXPECT_EQ(term->cost, expected);
      EXPECT_EQ(checked_cost(r, *term, id, false), expected);
      const auto variants = extractor.variants(r.e, id, 100);
      EXPECT_EQ(variants.size(), rows.size());
      EXPECT_EQ(variants.front().cost, expected);
      for (const TermDag& v : variants) EXPECT_EQ(checked_cost(r, v, id, false), v.cost);
    }
  }
}

TEST(Extraction, KBestAreTheKCheapestTrees) {
  for (uint64_t seed = 1; seed <= 120; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomGraph r(seed);
    const Extractor extractor(r.g);
    for (const auto& [id, rows] : r.nodes) {
      constexpr size_t kCount = 6;
      const std::vector<TermDag> terms = extractor.k_best(r.e, id, kCount);
      // Trees of limited height: an upper bound that is exact where costs rise with height.
      std::multiset<double> all;
      r.all_costs(id, 4, all);
      std::set<std::string> different;
      double last = 0;
      size_t at = 0;
      auto brute = all.begin();
      for (const TermDag& t : terms) {
        EXPECT_GE(t.cost, last);
        last = t.cost;
        EXPECT_EQ(checked_cost(r, t, id, false), t.cost);
        different.insert(r.g.to_string(t));
        if (brute != all.end()) {
          EXPECT_LE(t.cost, *brute) << "number " << at;
          ++brute;
        }
        at++;
      }
      EXPECT_EQ(different.size(), terms.size());
      EXPECT_GE(terms.size(), std::min(kCount, all.size()));
      EXPECT_EQ(terms.front().cost, extractor.best(r.e, id)->cost);
    }
  }
}

TEST(Extraction, SharedTermsAreExactOnSmallGraphs) {
  size_t better = 0;
  for (uint64_t seed = 1; seed <= 300; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomGraph r(seed);
    const Extractor extractor(r.g);
    for (const auto& [id, rows] : r.nodes) {
      const auto exact = extractor.best_dag(r.e, id), greedy = extractor.best_dag(r.e, id, 0);
      ASSERT_TRUE(exact && greedy);
      EXPECT_EQ(exact->cost, r.dag_cost(id));
      EXPECT_EQ(checked_cost(r, *exact, id, true), exact->cost);
      EXPECT_EQ(checked_cost(r, *greedy, id, true), greedy->cost);
      const auto tree = extractor.best(r.e, id);
      const double tree_shared = checked_cost(r, *tree, id, true);
      EXPECT_LE(greedy->cost, tree_shared);
      better += exact->cost < tree_shared ? 1 : 0;
    }
  }
  EXPECT_GT(better, 20u);
}

// Tree cost pays the big subterm twice and prefers a form without it; sharing makes the big one cheaper.
TEST(Extraction, TreeCostPicksTheWrongTermAndDagCostTheRightOne) {
  EGraph g;
  const SortId e = g.eq_sort("E");
  g.constructor("X", {}, e, 1);
  g.constructor("Big", {e}, e, 10);
  g.constructor("Twice", {e, e}, e, 1);
  g.constructor("Other", {e}, e, 15);
  const Value twice = g.add_term("(Twice (Big (X)) (Big (X)))");
  g.unite(twice, g.add_term("(Other (X))"));
  const Extractor extractor(g);
  EXPECT_EQ(g.to_string(*extractor.best(e, twice)), "(Other (X))");
  EXPECT_EQ(extractor.best(e, twice)->cost, 16);
  EXPECT_EQ(g.to_string(*extractor.best_dag(e, twice)), "(Twice (Big (X)) (Big (X)))");
  EXPECT_EQ(extractor.best_dag(e, twice)->cost, 12);
}

TEST(Extraction, CustomCostsAndUnextractableConstructors) {
  EGraph g;
  const SortId e = g.eq_sort("E");
  const FunctionId x = g.constructor("X", {kI64}, e), y = g.constructor("Y", {kI64}, e);
  FunctionSpec hidden{.name = "H", .inputs = {kI64}, .output = e};
  hidden.unextractable = true;
  hidden.cost = 0;
  const FunctionId h = g.function(hidden);
  const Value v = g.add(x, {g.i64(4)});
  g.unite(v, g.add(y, {g.i64(3)}));
  g.unite(v, g.add(h, {g.i64(1)}));
  const Value lost = g.add(h, {g.i64(2)});
  EXPECT_EQ(g.to_string(*Extractor(g).best(e, v)), "(X 4)");  // a tie: the older row
  CostModel by_value;
  by_value.node = [&](FunctionId, std::span<const Value> args, std::span<const Cost>) {
    return static_cast<Cost>(g.as_i64(args[0]));
  };
  const Extractor extractor(g, by_value);
  EXPECT_EQ(g.to_string(*extractor.best(e, v)), "(Y 3)");
  EXPECT_EQ(extractor.cost(e, v), std::optional<Cost>(3));
  EXPECT_FALSE(extractor.best(e, lost).has_value());
}

}  // namespace
}  // namespace luminal::egraph
