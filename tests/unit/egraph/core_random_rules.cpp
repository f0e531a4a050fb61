// Random rule systems: the engine against the naive evaluator of core_naive.h, after every iteration.
#include <gtest/gtest.h>

#include "unit/egraph/core_random_program.h"

namespace luminal::egraph {
namespace {

using testing::fingerprint;
using testing::NaiveEngine;
using testing::RandomProgram;

constexpr size_t kMostRows = 400;

/// The parameter: rules marked `:naive`.
class RandomRules : public ::testing::TestWithParam<bool> {};

TEST_P(RandomRules, SameDatabaseAsTheNaiveEvaluatorAfterEachIteration) {
  size_t compared = 0, rows = 0;
  for (uint64_t seed = 1; seed <= 1500; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    EGraph g;
    RandomProgram program(g, seed, GetParam());
    NaiveEngine naive(g);
    // Small ones go deep, large ones make joins use indexes.
    program.add_facts(&naive, seed % 8 == 0 ? 90 : 7);
    for (int iteration = 0; iteration < 5; iteration++) {
      ASSERT_EQ(fingerprint(g), fingerprint(g, naive)) << "before iteration " << iteration;
      compared++;
      naive.step(program.rules());
      if (naive.row_count() > kMostRows) break;
      g.run(program.ruleset());
      ASSERT_EQ(g.row_count(), naive.row_count()) << "after iteration " << iteration;
    }
    rows += naive.row_count();
  }
  EXPECT_GT(compared, 3000u);
  EXPECT_GT(rows, 20000u) << "the programs have become trivial";
}

INSTANTIATE_TEST_SUITE_P(SemiNaiveAndNaive, RandomRules, ::testing::Bool());

}  // namespace
}  // namespace luminal::egraph
