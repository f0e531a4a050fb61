#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "luminal/egraph.h"
#include "luminal/error.h"
#include "unit/egraph/core_random_program.h"

namespace luminal::egraph {
namespace {

using testing::fingerprint;
using ::testing::HasSubstr;
using testing::RandomProgram;

struct Group {
  Group() {
    g.enable_explanations();
    e = g.eq_sort("E");
    g.constructor("One", {}, e);
    g.constructor("Inv", {e}, e);
    g.constructor("Mul", {e, e}, e);
    g.constructor("X", {kI64}, e);
    rules = g.ruleset("group");
    g.rewrite(rules, "assoc", "(Mul (Mul ?a ?b) ?c)", "(Mul ?a (Mul ?b ?c))");
    g.rewrite(rules, "one-left", "(Mul (One) ?a)", "?a");
    g.rewrite(rules, "one-right", "(Mul ?a (One))", "?a");
    g.rewrite(rules, "inverse", "(Mul (Inv ?a) ?a)", "(One)");
  }
  EGraph g;
  SortId e{};
  RulesetId rules{};
};

TEST(Explanations, AChainOfRulesAndCongruences) {
  Group t;
  const Value left = t.g.add_term("(Mul (Mul (X 3) (Inv (X 1))) (Mul (X 1) (X 2)))");
  const Value right = t.g.add_term("(Mul (X 3) (X 2))");
  // x3 (x1' (x1 x2)): the inner product needs associativity the other way, given as a fact.
  t.g.unite(t.g.add_term("(Mul (Inv (X 1)) (Mul (X 1) (X 2)))"),
            t.g.add_term("(Mul (Mul (Inv (X 1)) (X 1)) (X 2))"));
  t.g.run(t.rules, 5);
  ASSERT_EQ(t.g.find(left), t.g.find(right));
  const Explanation why = t.g.explain(left, right);
  EXPECT_EQ(t.g.check_explanation(left, right, why), "");
  const std::string text = t.g.to_string(why, left);
  EXPECT_THAT(text, HasSubstr("(Mul (Mul (X 3) (Inv (X 1))) (Mul (X 1) (X 2)))\n= "));
  EXPECT_THAT(text, HasSubstr("by assoc"));
  EXPECT_THAT(text, HasSubstr("by congruence"));
  bool inverse = false, one = false, given = false;
  for (const ExplanationStep& step : why.steps) {
    inverse |= step.kind == ExplanationStep::Kind::Rule && t.g.spec(step.rule).name == "inverse";
    one |= step.kind == ExplanationStep::Kind::Rule && t.g.spec(step.rule).name == "one-left";
    given |= step.kind == ExplanationStep::Kind::Given;
  }
  EXPECT_TRUE(inverse && one && given) << text;
}

TEST(Explanations, TheCheckerRefusesWhatDoesNotFollow) {
  Group t;
  const Value left = t.g.add_term("(Mul (One) (Mul (X 1) (One)))"), right = t.g.add_term("(X 1)");
  t.g.run(t.rules, 4);
  const Explanation why = t.g.explain(left, right);
  ASSERT_EQ(t.g.check_explanation(left, right, why), "");
  const auto refused = [&](auto&& spoil) {
    Explanation wrong = why;
    spoil(wrong);
    return t.g.check_explanation(left, right, wrong);
  };
  size_t rule_step = 0;
  while (why.steps[rule_step].kind != ExplanationStep::Kind::Rule) rule_step++;
  ASSERT_FALSE(why.steps[rule_step].bindings.empty());
  EXPECT_NE(refused([&](Explanation& x) { x.steps[rule_step].bindings[0] = t.g.add_term("(X 7)"); }), "");
  EXPECT_NE(refused([&](Explanation& x) { x.steps[rule_step].rule = RuleId{0}; }), "");
  EXPECT_NE(refused([&](Explanation& x) { x.steps[rule_step].to = t.g.add_term("(X 8)"); }), "");
  EXPECT_NE(refused([&](Explanation& x) { x.steps[rule_step].premises.assign(1, right); }), "");
  EXPECT_NE(refused([&](Explanation& x) { x.chain.pop_back(); }), "");
  EXPECT_NE(refused([&](Explanation& x) { x.chain[0].backward = !x.chain[0].backward; }), "");
  EXPECT_NE(refused([&](Explanation& x) { x.chain[0].step = 99; }), "");
  EXPECT_EQ(t.g.check_explanation(left, left, {}), "");
  EXPECT_NE(t.g.check_explanation(left, right, {}), "");
}

TEST(Explanations, AskingForTooMuchIsAnError) {
  Group t;
  const Value a = t.g.add_term("(X 1)"), b = t.g.add_term("(X 2)");
  EXPECT_THROW((void)t.g.explain(a, b), Error);
  EGraph off;
  off.constructor("A", {}, off.eq_sort("E"));
  const Value x = off.add_term("(A)");
  EXPECT_THROW((void)off.explain(x, x), Error);
  EXPECT_THROW(off.enable_explanations(), Error);
}

// The same database with explanations as without, and every equality in it has an explanation that holds.
TEST(Explanations, RandomProgramsAreExplained) {
  size_t explained = 0, steps = 0, spoiled = 0, noticed = 0;
  for (uint64_t seed = 1; seed <= 1500; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    EGraph plain, logged;
    logged.enable_explanations();
    RandomProgram program(plain, seed, false), same(logged, seed, false);
    program.add_facts(nullptr, 7);
    same.add_facts(nullptr, 7);
    for (int i = 0; i < 4 && plain.row_count() < 300; i++) {
      plain.run(program.ruleset());
      logged.run(same.ruleset());
      ASSERT_EQ(fingerprint(plain), fingerprint(logged)) << "after iteration " << i;
    }
    std::map<Value, Value> seen;  // class to a member of it
    for (Value id = 0; id < 2000; id++) {
      try {
        (void)logged.term_of(id);
      } catch (const Error&) {
        break;
      }
      const auto [other, fresh] = seen.try_emplace(logged.find(id), id);
      if (fresh) continue;
      const Explanation why = logged.explain(id, other->second);
      ASSERT_EQ(logged.check_explanation(id, other->second, why), "") << logged.to_string(why, id);
      explained++;
      steps += why.steps.size();
      for (size_t i = 0; i + 1 < why.steps.size() && i < 3; i++) {
        Explanation wrong = why;
        std::swap(wrong.steps[i].from, wrong.steps.back().from);
        spoiled++;
        noticed += logged.check_explanation(id, other->second, wrong).empty() ? 0 : 1;
      }
    }
  }
  EXPECT_GT(explained, 1000u);
  EXPECT_GT(steps, 2 * explained);
  EXPECT_GT(noticed * 2, spoiled);
}

}  // namespace
}  // namespace luminal::egraph
