#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/file.h"
#include "luminal/compile_report.h"
#include "luminal/luminal.h"
#include "support/files.h"

// Laws that a program brings with it; docs/adding_a_rule.md, followed to the letter.
namespace luminal {
namespace {

std::string documented_rule() {
  const std::string text = read_file(LUMINAL_SOURCE_DIR "/docs/adding_a_rule.md");
  const size_t begin = text.find("```\n; ") + 4;
  return text.substr(begin, text.find("```", begin) - begin);
}

/// The sum over a copy of a transposed matrix that is wanted itself.
struct CopiedView {
  Graph cx;
  GraphTensor x = cx.tensor({3, 4}).set(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  GraphTensor copy = (x.transpose(0, 1) * 1.0).retrieve(), sums = copy.sum(1).retrieve();
  CopiedView() { cx.set_device("cpu"); }

  [[nodiscard]] CompileReport report() {
    const auto executable = make_session("cpu")->compile(cx, Fast{});
    return dynamic_cast<const Explained&>(*executable).details();
  }
};

bool fired(const CompileReport& report, std::string_view rule) {
  return std::ranges::find(report.rules, rule, &CompileReport::Rule::name) != report.rules.end();
}

TEST(OwnRules, TheDocumentsRuleWorksInPlaceOfOurs) {
  CopiedView graph;
  EXPECT_TRUE(fired(graph.report(), "view-copy-read-through"));
  graph.cx.set_search({.rules_off = {"view-copy-read-through"}});
  EXPECT_FALSE(fired(graph.report(), "view-copy-read-through"));
  graph.cx.set_search({.rules_off = {"view-copy-read-through"}, .rules = documented_rule()});
  EXPECT_TRUE(fired(graph.report(), "view-copied-read"));
  graph.cx.execute();
  EXPECT_THAT(graph.sums.data<float>(), testing::ElementsAre(15, 18, 21, 24));
}

TEST(OwnRules, AnInputIsNoOtherValueBecauseALawSaysSo) {
  const test::WorkingFolder folder;
  Graph cx;
  cx.set_device("cpu");
  cx.set_search({.rules = R"(; kernel-any-vanishes (strict)
; Wrong: every elementwise kernel is its first argument.
(rule ((= t (Op k)) (elementwise k) (= x (arg k 0)))
      ((union t x))
      :ruleset strict :name "kernel-any-vanishes")
)"});
  const auto x = cx.tensor({4}).set(std::vector<float>{1, 2, 3, 4});
  auto y = (x * 2).retrieve();
  cx.execute();
  EXPECT_THAT(y.data<float>(), testing::ElementsAre(2, 4, 6, 8));
}

std::string error_of(const SearchOptions& options) {
  CopiedView graph;
  graph.cx.set_search(options);
  try {
    graph.cx.execute();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(OwnRules, MistakesSayWhatIsWrong) {
  EXPECT_THAT(error_of({.rules_off = {"view-copy-read-thru"}}),
              testing::AllOf(testing::HasSubstr("'view-copy-read-thru'"),
                             testing::HasSubstr("view-copy-read-through")));
  EXPECT_THAT(error_of({.rules = "(rule"}), testing::HasSubstr("SearchOptions::rules:1"));
  std::string doubled = documented_rule();
  EXPECT_THAT(error_of({.rules = doubled + "\n" + doubled}),
              testing::HasSubstr("two rules 'view-copied-read'"));
  std::string typo = documented_rule();
  typo.replace(typo.find("copy-only"), 9, "copi-only");
  EXPECT_THAT(error_of({.rules = typo}), testing::HasSubstr("copi-only"));
}

/// What is told of a graph that is compiled with `rules`, whose result must be right all the same.
std::string told_with(std::string_view rules) {
  const test::WorkingFolder folder;
  Graph cx;
  cx.set_device("cpu");
  cx.set_search({.rules = std::string(rules)});
  const auto x = cx.tensor({2, 3}).set(std::vector<float>{1, 2, 3, 4, 5, 6});
  const auto y = cx.tensor({2, 3}).set(std::vector<float>{6, 5, 4, 3, 2, 1});
  auto product = (x * y).retrieve(), sums = product.exp().sum(1).retrieve();
  cx.full({2, 3}, 0.5F).retrieve();  // a kernel that is a constant, for laws that ask for one
  testing::internal::CaptureStderr();
  cx.compile(Fast{})();
  std::string told = testing::internal::GetCapturedStderr();
  EXPECT_THAT(product.data<float>(), testing::ElementsAre(6, 10, 12, 12, 10, 6));
  EXPECT_NEAR(sums.data<float>()[0] / (std::exp(6.F) + std::exp(10.F) + std::exp(12.F)), 1, 1e-4);
  return told;
}

TEST(OwnRules, KernelsThatCannotBeAreToldAndNotUsed) {
  EXPECT_THAT(told_with(R"(; kernel-sum-vanishes (strict)
; Wrong: a sum is smaller than what it sums.
(rule ((= t (Op k)) (= x (arg k 0)))
      ((union t x))
      :ruleset strict :name "kernel-sum-vanishes")
)"),
              testing::AllOf(testing::HasSubstr("a law makes f32["),
                             testing::HasSubstr("again without 'kernel-sum-vanishes'")));
}

TEST(OwnRules, WhatALawAsksOfSlotsThatAreNotThereIsUndefined) {
  EXPECT_EQ(told_with(R"(; slots-far-apart (strict)
; Slots of which most kernels have fewer.
(rule ((= t (Op k)) (symmetric k 3 7) (= o (swap k 3 7)))
      ((union t (Op o)))
      :ruleset strict :name "slots-far-apart")
; slots-far-compose (strict)
; Kernels that do not read each other.
(rule ((= t (Op k)) (= x (Op p)) (= o (compose k 9 p)))
      ((union t (Op o)))
      :ruleset strict :name "slots-far-compose")
; slots-below-first (strict)
; So far before the first slot that nothing is there to be read.
(rule ((= t (Op k)) (symmetric k -1000000000 0))
      ((union t (Op (swap k 0 0))))
      :ruleset strict :name "slots-below-first")
; slots-beyond-last (strict)
; So far beyond the last one.
(rule ((= t (Op k)) (symmetric k 1000000000 0))
      ((union t (Op (swap k 0 0))))
      :ruleset strict :name "slots-beyond-last")
; slots-far-swap (strict)
; An argument that is not there.
(rule ((= t (Op k)) (= o (swap k 0 9)))
      ((union t (Op o)))
      :ruleset strict :name "slots-far-swap")
; slots-far-constant (strict)
; A constant where nothing is read.
(rule ((= t (Op k)) (= x (Op c)) (= o (fold-constant k 5 c)))
      ((union t (Op o)))
      :ruleset strict :name "slots-far-constant")
)"),
            "");
}

/// A sum of integers has as many elements as a sum of floats reads, and another type.
TEST(OwnRules, AKernelOfAnotherTypeIsNotComposed) {
  const test::WorkingFolder folder;
  Graph cx;
  cx.set_device("cpu");
  cx.set_search({.rules = R"(; sum-any-compose (strict)
; Wrong: what reads floats cannot read integers.
(rule ((= t (Op k)) (rounds k) (= x (Op p)) (exact p) (= o (compose k 0 p)))
      ((union t (Op o)))
      :ruleset strict :name "sum-any-compose")
)"});
  const auto x = cx.tensor({2, 2}).set(std::vector<float>{1, 2, 3, 4});
  const auto k = cx.tensor({4, 2}, Dtype::I32).set(std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 8});
  auto floats = x.sum(1).retrieve(), integers = k.sum(1).retrieve();
  testing::internal::CaptureStderr();
  cx.compile(Fast{})();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_THAT(floats.data<float>(), testing::ElementsAre(3, 7));
  EXPECT_THAT(integers.data<int64_t>(), testing::ElementsAre(3, 7, 11, 15));
}

TEST(OwnRules, StrictModeKeepsTheOrderOfSums) {
  CopiedView graph;
  graph.cx.set_search({.math = MathMode::Strict});
  EXPECT_FALSE(fired(graph.report(), "sum-factor-leaves-rounded"));
}

}  // namespace
}  // namespace luminal
