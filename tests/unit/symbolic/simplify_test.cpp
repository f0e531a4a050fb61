#include <gtest/gtest.h>

#include "luminal/expression.h"
#include "oracle.h"
#include "symbolic/node.h"

/// simplify(): the same values at every assignment, never a longer formula, and the laws it is for.
namespace luminal {
namespace {

TEST(Simplify, FindsWhatTheCanonicalFormDoesNot) {
  const Expression s = "s", t = "t", u = "u", z = Expression::flat_index();
  const std::pair<Expression, Expression> cases[] = {
      {s - 4 * (s / 4), s % 4},
      {s + t - 4 * (s / 4), s % 4 + t},
      {(s + 1).min(t + 1), s.min(t) + 1},
      {(s * u).min(t * u), u * s.min(t)},
      {(s + u).max(t + u), s.max(t) + u},
      {s.min(t) + s.max(t), s + t},
      {s.min(s.max(t)), s},
      {s.max(s.min(t)), s},
      {1 - s.lt(t), s.gte(t)},
      {z.lt(3) * z.lt(5), z.lt(3)},
      {(s.lt(5) & t.lt(3)) | s.lt(5), s.lt(5)},
      {-((-s).min(-t)), s.max(t)},
  };
  for (const auto& [from, to] : cases)
    EXPECT_EQ(from.simplify(), to) << from.to_string() << " became " << from.simplify().to_string();
}

TEST(Simplify, LeavesUnknownsAlone) {
  const Expression s = "s", t = "t", v = Expression::dim("v", {.min = -5, .max = 5});
  EXPECT_EQ((s / s).simplify(), s / s);
  EXPECT_EQ(((s * t) / 4).simplify(), (s * t) / 4);
  EXPECT_EQ(v.max(0).simplify(), v.max(0));
  EXPECT_EQ((s * v).min(t * v).simplify(), (s * v).min(t * v));  // v may be negative
}

using Child = std::shared_ptr<oracle::Tree>;

Child with_common_part(oracle::Random& random, const Child& a, const Child& b, const Child& c) {
  const char outer = random.pick(std::vector<char>{'m', 'M', '<', '&', '|', '+'});
  const char inner = random.pick(std::vector<char>{'+', '*', 'm', 'M', '&', '|'});
  if (random.chance(50)) return node(outer, node(inner, a, c), node(inner, b, c));
  return node(outer, a, node(inner, a, b));
}

TEST(Simplify, KeepsValuesAndNeverGrows) {
  const uint64_t seed = 31 + static_cast<uint64_t>(GTEST_FLAG_GET(random_seed));
  oracle::Random random(seed);
  const auto variables = oracle::dims_and_indices();
  int shrunk = 0;
  for (int i = 0; i < 600; ++i) {
    auto tree = random.tree(variables, static_cast<int>(random.between(1, 3)));
    // Every other formula is one of a kind that has something to find: op(a + c, b + c), or a op1 (a op2 b).
    if (i % 2 == 0)
      tree = with_common_part(random, tree, random.tree(variables, 2), random.tree(variables, 1));
    const Expression e = build(*tree, variables), simple = e.simplify();
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + e.to_text() + " became " + simple.to_text());
    ASSERT_LE(simple.node().size, e.node().size);
    shrunk += simple.node().size < e.node().size;
    ASSERT_EQ(e.simplify(), simple);
    for (int k = 0; k < 12; ++k) {
      const oracle::Assignment a = random.assignment(variables, true);
      if (const auto want = oracle::evaluate(*tree, variables, a)) {
        ASSERT_EQ(simple.exec(a.dims, a.indices), static_cast<int64_t>(*want));
      }
    }
  }
  EXPECT_GT(shrunk, 8);
}

}  // namespace
}  // namespace luminal
