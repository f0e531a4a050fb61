// Every rule fires where its file says that it does, and not where it says that it must not.
#include <gtest/gtest.h>

#include <set>

#include "rule/examples.h"
#include "unit/search/pipeline.h"

namespace luminal::search {
namespace {

using test::examples;

/// Rules of a mode run together with those of the stricter ones; equal tensors mostly come from relaxed ones.
MathMode mode_of(const RuleText& rule) { return std::max(rule.mode, MathMode::Relaxed); }

/// How much the rule added to the e-graph of the example.
uint64_t applied(const RuleText& rule, const std::string& example) {
  const auto found = examples().find(example);
  EXPECT_NE(found, examples().end()) << rule.file << " names the unknown example '" << example << "'";
  if (found == examples().end()) return 0;
  Graph cx;
  found->second(cx);
  const auto searched = test::search(cx, {.math = mode_of(rule)});
  const auto* report = searched.rule(rule.name);
  return report == nullptr ? 0 : report->applied;
}

TEST(Rules, FireWhereTheirFilesSay) {
  ASSERT_GE(rule_texts().size(), 12U);
  for (const RuleText& rule : rule_texts())
    for (const std::string& example : rule.fires)
      EXPECT_GT(applied(rule, example), 0U) << rule.name << " on " << example;
}

TEST(Rules, StayQuietWhereTheirFilesSay) {
  for (const RuleText& rule : rule_texts())
    for (const std::string& example : rule.not_fires)
      EXPECT_EQ(applied(rule, example), 0U) << rule.name << " on " << example;
}

/// What a rule asks beyond what its terms bind: a law that holds only then needs a graph where it must not
/// fire.
TEST(Rules, OfEveryConditionHaveANearMiss) {
  for (const RuleText& rule : rule_texts())
    EXPECT_TRUE(!rule.not_fires.empty() || rule.name == "kernel-slot-read")
        << rule.file << ": " << rule.name << " names no graph on which it must not fire";
}

TEST(Rules, HaveUniqueNamesOfThreeParts) {
  std::set<std::string> names;
  for (const RuleText& rule : rule_texts()) {
    EXPECT_TRUE(names.insert(rule.name).second) << rule.name;
    EXPECT_GE(std::count(rule.name.begin(), rule.name.end(), '-'), 2) << rule.name;
  }
}

TEST(Rules, BelongToTheirMathMode) {
  Graph cx;
  examples().at("sum-of-doubled-rows")(cx);
  const auto strict = test::search(cx, {.math = MathMode::Strict}), relaxed = test::search(cx);
  EXPECT_EQ(strict.rule("sum-factor-leaves-rounded"), nullptr);
  EXPECT_EQ(strict.rows_after, strict.rows_before);
  EXPECT_GT(relaxed.rows_after, relaxed.rows_before);
}

/// Whether the rule makes a difference to the e-graph of its first example.
bool matters(const RuleText& rule, MathMode mode) {
  Graph cx;
  examples().at(rule.fires.at(0))(cx);
  const auto on = test::search(cx, {.math = mode});
  const auto off = test::search(cx, {.math = mode, .rules_off = {rule.name}});
  EXPECT_EQ(off.rule(rule.name), nullptr);
  return on.language->graph().to_json() != off.language->graph().to_json();
}

TEST(Rules, SwitchedOffOnesChangeTheEGraph) {
  // In a looser mode another rule may do the same.
  for (const RuleText& rule : rule_texts())
    EXPECT_TRUE(matters(rule, rule.mode) || matters(rule, mode_of(rule))) << rule.name;
}

}  // namespace
}  // namespace luminal::search
