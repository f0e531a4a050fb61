// Every rule fires where its file says that it does, and not where it says that it must not.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>

#include "luminal/luminal.h"
#include "luminal/ops.h"
#include "unit/search/pipeline.h"

namespace luminal::search {
namespace {

using Example = std::function<void(Graph&)>;

GraphTensor matrix(Graph& cx) { return cx.tensor({3, 4}); }

/// The graphs that rule files name.
const std::map<std::string, Example>& examples() {
  static const std::map<std::string, Example> all = {
      {"matmul", [](Graph& cx) { matrix(cx).matmul(cx.tensor({4, 5})).retrieve(); }},
      {"identity-copy", [](Graph& cx) { (matrix(cx) * 1.0).retrieve(); }},
      {"transpose", [](Graph& cx) { (matrix(cx).transpose(0, 1) * 1.0).retrieve(); }},
      {"add-one", [](Graph& cx) { (matrix(cx) + 1.0).retrieve(); }},
      {"scale-by-tensor", [](Graph& cx) { (matrix(cx) * matrix(cx)).retrieve(); }},
      {"divide", [](Graph& cx) { (matrix(cx) / matrix(cx)).retrieve(); }},
      {"scale-by-constant-tensor",
       [](Graph& cx) {
         GraphTensor constant = cx.full({3, 4}, 2.0) * 3.0;
         constant.retrieve();
         (matrix(cx) * constant).retrieve();
       }},
      {"square-of-equal",
       [](Graph& cx) {
         GraphTensor x = matrix(cx), same = x + 0.0;  // equal by a law, and no copy
         same.retrieve();
         (x * same).retrieve();
       }},
      {"sum-of-scaled-rows",
       [](Graph& cx) { (matrix(cx) * cx.tensor({3}).expand_dim(1, 4)).sum(1).retrieve(); }},
      {"sum-of-doubled-rows", [](Graph& cx) { (matrix(cx) * 2.0).sum(1).retrieve(); }},
      {"sum-of-rows-by-the-least", [](Graph& cx) { (matrix(cx) * 0x1p-24).sum(1).retrieve(); }},
      {"sum-of-rows-below-the-least", [](Graph& cx) { (matrix(cx) * 0x1.fp-25).sum(1).retrieve(); }},
      {"sum-of-chosen-doubles",
       [](Graph& cx) {
         const GraphTensor x = matrix(cx);
         where(x.lt(0.0), x * 2.0, cx.full({3, 4}, 0.0)).sum(1).retrieve();
       }},
      {"sum-of-either",  // no branch is zero
       [](Graph& cx) {
         const GraphTensor x = matrix(cx);
         where(x.lt(0.0), x * 2.0, cx.full({3, 4}, 1.0)).sum(1).retrieve();
       }},
      {"sum-of-chosen-rows",
       [](Graph& cx) {
         const GraphTensor x = matrix(cx), scaled = x * cx.tensor({3}).expand_dim(1, 4);
         where(x.lt(0.0), scaled, cx.full({3, 4}, 0.0)).sum(1).retrieve();
       }},
      {"add-zero", [](Graph& cx) { (matrix(cx) + 0.0).retrieve(); }},
      {"sum-of-scaled-integer-rows",
       [](Graph& cx) {
         const GraphTensor rows = cx.tensor({3, 4}, Dtype::I64), scale = cx.tensor({3}, Dtype::I64);
         (rows * scale.expand_dim(1, 4)).sum(1).retrieve();
       }},
      {"max-of-doubled-rows", [](Graph& cx) { (matrix(cx) * 2.0).max(1).retrieve(); }},
      {"max-of-negated-rows", [](Graph& cx) { (matrix(cx) * -1.0).max(1).retrieve(); }},
      {"sum-of-repeated-rows", [](Graph& cx) { cx.tensor({3}).expand_dim(1, 4).sum(1).retrieve(); }},
      {"sum-of-repeated-integers",
       [](Graph& cx) { cx.tensor({3}, Dtype::I64).expand_dim(1, 4).sum(1).retrieve(); }},
      {"sum-of-shared-doubled-rows",
       [](Graph& cx) {
         GraphTensor doubled = matrix(cx) * 2.0;
         doubled.retrieve();
         doubled.sum(1).retrieve();
       }},
      {"sum-of-shared-doubled-integers",
       [](Graph& cx) {
         GraphTensor doubled = cx.tensor({3, 4}, Dtype::I64) * 2;
         doubled.retrieve();
         doubled.sum(1).retrieve();
       }},
      {"sum-of-shared-scaled-integers",
       [](Graph& cx) {
         GraphTensor scaled = cx.tensor({3, 4}, Dtype::I64) * cx.tensor({3}, Dtype::I64).expand_dim(1, 4);
         scaled.retrieve();
         scaled.sum(1).retrieve();
       }},
      {"sum-of-shared-scaled-rows",
       [](Graph& cx) {
         GraphTensor scaled = matrix(cx) * cx.tensor({3}).expand_dim(1, 4);
         scaled.retrieve();
         scaled.sum(1).retrieve();
       }},
      {"sum-of-scaled-columns",
       [](Graph& cx) { (matrix(cx) * cx.tensor({4}).expand_dim(0, 3)).sum(1).retrieve(); }},
      {"sum-of-copied-view",
       [](Graph& cx) {
         GraphTensor copy = matrix(cx).transpose(0, 1) * 1.0;
         copy.retrieve();
         copy.sum(1).retrieve();
       }},
      {"sum-of-product", [](Graph& cx) { (matrix(cx) * matrix(cx)).sum(1).retrieve(); }},
  };
  return all;
}

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
