// Budgets of time, rows and bytes hold inside long steps: a join without matches, the rebuild of one table,
// the growth of a hash.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "egraph/core/state.h"
#include "luminal/egraph.h"

namespace luminal::egraph {
namespace {

/// A table of n * n rows (P a b), and a rule that unites the n leaves in pairs: nearly all rows move.
struct OneTable {
  OneTable(int64_t n, uint32_t threads) {
    g.set_threads(threads);
    const SortId e = g.eq_sort("E");
    const FunctionId leaf = g.constructor("L", {kI64}, e), half = g.relation("half", {e, e});
    pair = g.constructor("P", {e, e}, e);
    rules = g.ruleset("rules");
    g.rule(rules, "unite", {"(half ?a ?b)"}, {"(union ?a ?b)"});
    std::vector<Value> leaves;
    for (int64_t i = 0; i < n; i++) leaves.push_back(g.add(leaf, {g.i64(i)}));
    for (const Value a : leaves)
      for (const Value b : leaves) g.add(pair, {a, b});
    for (int64_t i = 0; i + 1 < n; i += 2) g.add(half, {leaves[i], leaves[i + 1]});
  }
  EGraph g;
  FunctionId pair{};
  RulesetId rules{};
};

std::set<std::vector<Value>> rows_of(const EGraph& g, FunctionId f) {
  std::set<std::vector<Value>> rows;
  g.for_each_row(f, [&](std::span<const Value> args, Value output, bool) {
    std::vector<Value> row(args.begin(), args.end());
    row.push_back(output);
    rows.insert(std::move(row));
    return true;
  });
  return rows;
}

class Budgets : public ::testing::TestWithParam<uint32_t> {};

// Other programs may take the processor for a while: what holds must do so in one of several attempts.
constexpr int kAttempts = 5;

TEST_P(Budgets, TimeHoldsInsideTheRebuildOfOneTable) {
  constexpr int64_t kLeaves = 700;
  bool stopped_early = false;
  for (int attempt = 0; attempt < kAttempts && !stopped_early; attempt++) {
    OneTable whole(kLeaves, GetParam()), cut(kLeaves, GetParam());
    const double rebuild_s = whole.g.run(whole.rules, 1).rebuild_s;
    const Report first = cut.g.run(cut.rules, 1, {.seconds = rebuild_s / 10});
    stopped_early = first.stop == StopReason::TimeBudget && first.total_s < rebuild_s / 2 &&
                    cut.g.state().needs_rebuild();
    // It goes on in the next run, as often as need be, and ends as one that was not stopped.
    for (int runs = 0; cut.g.state().needs_rebuild() && runs < 20; runs++)
      cut.g.run(cut.rules, 1, {.seconds = rebuild_s / 5});
    EXPECT_EQ(cut.g.row_count(cut.pair), static_cast<uint64_t>(kLeaves * kLeaves / 4));
    EXPECT_EQ(cut.g.row_count(), whole.g.row_count());
    EXPECT_EQ(cut.g.class_count(), whole.g.class_count());
    EXPECT_EQ(rows_of(cut.g, cut.pair), rows_of(whole.g, whole.pair));
  }
  EXPECT_TRUE(stopped_early);
}

// a -> b -> c -> a never closes, as each edge a -> b -> c keeps even and odd numbers apart and the last one
// does not.
TEST_P(Budgets, TimeHoldsInsideAJoinThatMatchesNothing) {
  constexpr int64_t kNodes = 360;
  EGraph g;
  g.set_threads(GetParam());
  const FunctionId ab = g.relation("ab", {kI64, kI64}), bc = g.relation("bc", {kI64, kI64}),
                   ca = g.relation("ca", {kI64, kI64}), found = g.relation("found", {kI64});
  for (int64_t i = 0; i < kNodes; i++) {
    for (int64_t j = i % 2; j < kNodes; j += 2) {
      g.add(ab, {g.i64(i), g.i64(j)});
      g.add(bc, {g.i64(i), g.i64(j)});
      g.add(ca, {g.i64(i), g.i64(j ^ 1)});
    }
  }
  const RulesetId rules = g.ruleset("rules");
  g.rule(rules, "triangle", {"(ab ?a ?b)", "(bc ?b ?c)", "(ca ?c ?a)"}, {"(found ?a)"});
  bool stopped_early = false;
  for (int attempt = 0; attempt < kAttempts && !stopped_early; attempt++) {
    g.push();
    const Report whole = g.run(rules, 1);
    EXPECT_EQ(whole.stop, StopReason::Saturated);
    g.pop();
    g.push();
    const Report cut = g.run(rules, 1, {.seconds = whole.total_s / 10});
    g.pop();
    stopped_early = cut.stop == StopReason::TimeBudget && cut.total_s < whole.total_s / 2;
  }
  EXPECT_TRUE(stopped_early);
  EXPECT_EQ(g.row_count(found), 0u);
}

INSTANTIATE_TEST_SUITE_P(Threads, Budgets, ::testing::Values(1u, 2u));

/// Sums of 13 numbers, in all orders, as far as the budget lets them grow.
Report run_sums(EGraph& g, const Budget& budget) {
  constexpr int kLeaves = 13;
  const RulesetId rules = g.ruleset("rules");
  const SortId e = g.eq_sort("E");
  g.constructor("N", {kI64}, e);
  g.constructor("Add", {e, e}, e);
  g.rewrite(rules, "comm", "(Add ?a ?b)", "(Add ?b ?a)");
  g.rewrite(rules, "left", "(Add ?a (Add ?b ?c))", "(Add (Add ?a ?b) ?c)");
  std::string term = "(N 0)";
  for (int i = 1; i < kLeaves; i++) term = "(Add (N " + std::to_string(i) + ") " + term + ")";
  g.add_term(term);
  return g.run(Schedule::saturate(Schedule::run(rules)), budget);
}

// Hashes double and indexes are built: neither may go past the budget.
TEST(Budgets, BytesHoldWhereHashesDoubleAndIndexesAreBuilt) {
  for (const uint64_t bytes : {500'000u, 1'000'000u, 1'400'000u, 2'000'000u, 3'100'000u, 7'000'000u}) {
    SCOPED_TRACE(bytes);
    EGraph g;
    const Report report = run_sums(g, {.bytes = bytes});
    EXPECT_EQ(report.stop, StopReason::ByteBudget);
    EXPECT_LE(g.state().size_bytes(), bytes + bytes / 20);
    EXPECT_GT(g.state().size_bytes(), bytes / 4);
  }
}

TEST(Budgets, RowsHoldAtEverySize) {
  for (const uint64_t rows : {100u, 1000u, 5000u, 20'000u, 70'000u}) {
    SCOPED_TRACE(rows);
    EGraph g;
    const Report report = run_sums(g, {.nodes = rows});
    EXPECT_EQ(report.stop, StopReason::NodeBudget);
    EXPECT_LE(g.row_count(), rows + 1024);
    EXPECT_GE(g.row_count(), rows / 2);
  }
}

}  // namespace
}  // namespace luminal::egraph
