// Several threads: the same database, ids and order of rows included, as one thread gives.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "egraph/core/state.h"
#include "egraph/core/team.h"
#include "unit/egraph/core_dump.h"
#include "unit/egraph/core_random_program.h"

namespace luminal::egraph {
namespace {

using testing::dump;
using testing::RandomProgram;

/// Even the smallest jobs are shared out.
void use_threads(EGraph& g, uint32_t threads) {
  g.set_threads(threads);
  if (threads > 1) g.state().parallel->least_items = 1;
}

TEST(Team, RunsEachPieceOnceAndPassesExceptionsOn) {
  Team team(3);
  std::vector<std::atomic<int>> seen(3);
  for (int round = 1; round <= 2000; round++) {
    team.run(3, [&](uint32_t p) { seen[p]++; });
    for (const auto& count : seen) ASSERT_EQ(count.load(), round);
  }
  // More pieces than threads and fewer, in turn: a thread that comes late must not take one of the wrong job.
  std::vector<std::atomic<int>> each(16);
  int expected[16] = {};
  for (uint32_t round = 0; round < 4000; round++) {
    const uint32_t count = round * 7 % 17;
    team.run(count, [&](uint32_t p) { each[p]++; });
    for (uint32_t p = 0; p < count; p++) expected[p]++;
    for (uint32_t p = 0; p < 16; p++) ASSERT_EQ(each[p].load(), expected[p]);
  }
  EXPECT_THROW(team.run(3,
                        [](uint32_t p) {
                          if (p > 0) throw std::runtime_error("piece");
                        }),
               std::runtime_error);
  std::vector<int> items(1000, 0);
  team.split(items.size(), [&](uint32_t, size_t begin, size_t end) {
    for (size_t i = begin; i < end; i++) items[i]++;
  });
  EXPECT_EQ(std::accumulate(items.begin(), items.end(), 0), 1000);
  EXPECT_EQ(*std::max_element(items.begin(), items.end()), 1);
}

class Threads : public ::testing::TestWithParam<bool> {};

TEST_P(Threads, RandomProgramsGiveTheSameRows) {
  size_t rows = 0;
  for (uint64_t seed = 1; seed <= 250; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    EGraph one, many;
    use_threads(many, 2 + seed % 3);
    RandomProgram program(one, seed, GetParam()), same(many, seed, GetParam());
    program.add_facts(nullptr, seed % 3 == 0 ? 90 : 12);
    same.add_facts(nullptr, seed % 3 == 0 ? 90 : 12);
    const Budget budget{.nodes = 5000};
    for (int i = 0; i < 4; i++) {
      const Report a = one.run(program.ruleset(), 1, budget), b = many.run(same.ruleset(), 1, budget);
      ASSERT_EQ(dump(one), dump(many)) << "after iteration " << i;
      ASSERT_EQ(one.state().ids.size(), many.state().ids.size());
      ASSERT_EQ(a.stop, b.stop);
      ASSERT_EQ(a.unions, b.unions);
      if (a.stop == StopReason::NodeBudget) break;
    }
    rows += one.row_count();
  }
  EXPECT_GT(rows, 10000u) << "the programs have become trivial";
}

INSTANTIATE_TEST_SUITE_P(SemiNaiveAndNaive, Threads, ::testing::Bool());

TEST(ManyThreads, ZeroIsRefused) {
  EGraph g;
  EXPECT_EQ(g.threads(), 1u);
  EXPECT_ANY_THROW(g.set_threads(0));
  g.set_threads(2);
  EXPECT_EQ(g.threads(), 2u);
}

}  // namespace
}  // namespace luminal::egraph
