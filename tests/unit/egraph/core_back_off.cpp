// The back-off scheduler: what it holds back, that nothing is lost, and that threads and budgets change
// nothing.
#include <gtest/gtest.h>

#include <vector>

#include "egraph/core/state.h"
#include "luminal/egraph.h"
#include "unit/egraph/core_dump.h"
#include "unit/egraph/core_random_program.h"

namespace luminal::egraph {
namespace {

using testing::dump;
using testing::RandomProgram;

/// Sums of n numbers with the laws of order and grouping.
struct Sums {
  explicit Sums(int64_t n, uint32_t threads = 1, bool explain = false) {
    if (explain) g.enable_explanations();
    g.set_threads(threads);
    if (threads > 1) g.state().parallel->least_items = 1;
    const SortId sum = g.eq_sort("Sum");
    const FunctionId num = g.constructor("Num", {kI64}, sum);
    plus = g.constructor("Plus", {sum, sum}, sum);
    rules = g.ruleset("rules");
    g.rewrite(rules, "order", "(Plus ?a ?b)", "(Plus ?b ?a)");
    g.rewrite(rules, "group", "(Plus ?a (Plus ?b ?c))", "(Plus (Plus ?a ?b) ?c)");
    whole = g.add(num, {g.i64(n)});
    for (int64_t i = n - 1; i >= 1; i--) whole = g.add(plus, {g.add(num, {g.i64(i)}), whole});
  }
  [[nodiscard]] uint64_t rows() const { return g.row_count(plus); }
  EGraph g;
  FunctionId plus{};
  RulesetId rules{};
  Value whole = 0;
};

// Rows after each number of steps, as egglog-experimental's scheduler gives them (egglog 13.2).
TEST(BackOffScheduler, BansAsEgglogDoes) {
  struct Row {
    uint64_t limit, ban;
    std::vector<uint64_t> rows;
  };
  const Row expected[] = {
      {3, 2, {10, 10, 24, 24, 24, 51, 51, 112, 112, 136, 136, 171, 188, 180}},
      {10, 5, {14, 40, 40, 40, 93, 93, 130, 130, 157, 157, 157, 157, 178, 178, 182, 180}},
      {50, 1, {14, 40, 93, 93, 157, 178, 178, 182, 180}},
  };
  for (const Row& row : expected) {
    for (const uint32_t threads : {1U, 3U}) {
      Sums sums(5, threads);
      const BackOff scheduler(row.limit, row.ban);
      for (const uint64_t rows : row.rows) {
        sums.g.run(Schedule::run_with(scheduler, sums.rules));
        EXPECT_EQ(sums.rows(), rows) << row.limit << " " << row.ban;
      }
    }
  }
}

TEST(BackOffScheduler, SaturatesToWhatAPlainRunGives) {
  for (const uint64_t limit : {0U, 1U, 7U, 100U, 100000U}) {
    Sums sums(6), plain(6);
    const Report report = sums.g.run(
        Schedule::saturate(Schedule::run_with(BackOff(limit == 0 ? 1 : limit, limit % 3), sums.rules)));
    EXPECT_EQ(report.stop, StopReason::Saturated);
    EXPECT_FALSE(report.held_back);
    plain.g.run(Schedule::saturate(Schedule::run(plain.rules)));
    EXPECT_EQ(sums.rows(), 602U);  // 3^6 - 2^7 + 1
    EXPECT_EQ(plain.rows(), 602U);
    EXPECT_EQ(sums.g.class_count(), plain.g.class_count());
  }
}

TEST(BackOffScheduler, AStepThatOnlyHoldsBackIsNotSaturated) {
  Sums sums(4);
  const BackOff scheduler(1, 3);
  const Report report = sums.g.run(Schedule::run_with(scheduler, sums.rules));
  EXPECT_FALSE(report.updated);
  EXPECT_TRUE(report.held_back);
  EXPECT_EQ(report.stop, StopReason::Finished);
  EXPECT_EQ(sums.rows(), 3U);
  // A plain run in between sees all by itself; what is held is applied once more and changes nothing.
  EXPECT_TRUE(sums.g.run(sums.rules).updated);
  sums.g.run(Schedule::saturate(Schedule::run(sums.rules)));
  EXPECT_FALSE(sums.g.run(Schedule::saturate(Schedule::run_with(scheduler, sums.rules))).updated);
  EXPECT_EQ(sums.rows(), 50U);  // 3^4 - 2^5 + 1
}

TEST(BackOffScheduler, ThreadsGiveTheSameRows) {
  for (uint64_t seed = 1; seed <= 60; seed++) {
    SCOPED_TRACE(seed);
    std::vector<Value> one;
    for (const uint32_t threads : {1U, 3U}) {
      EGraph g;
      g.set_threads(threads);
      if (threads > 1) g.state().parallel->least_items = 1;
      RandomProgram program(g, seed, false);
      program.add_facts(nullptr, 30);
      g.run(Schedule::repeat(6, Schedule::run_with(BackOff(5, 2), program.ruleset())), {.nodes = 3000});
      if (threads == 1)
        one = dump(g);
      else
        EXPECT_EQ(dump(g), one);
    }
  }
}

TEST(BackOffScheduler, GoesOnAfterABudget) {
  for (const uint64_t nodes : {20U, 60U, 200U, 500U}) {
    Sums sums(6);
    const BackOff scheduler(8, 2);
    const Schedule all = Schedule::saturate(Schedule::run_with(scheduler, sums.rules));
    EXPECT_EQ(sums.g.run(all, {.nodes = nodes}).stop, StopReason::NodeBudget);
    EXPECT_LT(sums.rows(), 602U);
    // What was held when the budget ended the step is applied or found again.
    EXPECT_EQ(sums.g.run(all).stop, StopReason::Saturated);
    EXPECT_EQ(sums.rows(), 602U);
  }
}

TEST(BackOffScheduler, ItsUnionsCanBeExplained) {
  Sums sums(5, 1, true);
  sums.g.run(Schedule::saturate(Schedule::run_with(BackOff(3, 2), sums.rules)));
  EXPECT_EQ(sums.rows(), 180U);
  const Value other = sums.g.add_term("(Plus (Plus (Num 5) (Num 3)) (Plus (Num 1) (Plus (Num 4) (Num 2))))");
  const Explanation why = sums.g.explain(sums.whole, other);
  EXPECT_EQ(sums.g.check_explanation(sums.whole, other, why), "");
}

}  // namespace
}  // namespace luminal::egraph
