#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "luminal/compile_report.h"
#include "luminal/luminal.h"

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

constexpr std::string_view kWrong = R"(; slots-any-swap (strict)
; Wrong: as if every kernel were symmetric.
(rule ((= t (Op s a)) (use a i x) (use a j y) (< i j))
      ((union t (Op s (swap a i j))))
      :ruleset strict :name "slots-any-swap")
)";

TEST(OwnRules, OneThatIsWrongIsToldAndNotUsed) {
  for (const CompilationMode& mode : {CompilationMode(Fast{}), CompilationMode(Optimal{})}) {
    Graph cx;
    cx.set_device("cpu");
    cx.set_search({.rules = std::string(kWrong)});
    const auto x = cx.tensor({4}).set(std::vector<float>{1, 2, 3, 4}),
               y = cx.tensor({4}).set(std::vector<float>{9, 8, 7, 6});
    // Both orders are wanted: by the wrong law they are one value.
    auto a = (x / y).retrieve(), b = (y / x).retrieve();
    testing::internal::CaptureStderr();
    cx.compile(mode)();
    const std::string told = testing::internal::GetCapturedStderr();
    EXPECT_THAT(a.data<float>(), testing::ElementsAre(testing::FloatEq(1.F / 9), 0.25F,
                                                      testing::FloatEq(3.F / 7), testing::FloatEq(4.F / 6)));
    EXPECT_THAT(b.data<float>(), testing::ElementsAre(9, 4, testing::FloatEq(7.F / 3), 1.5F));
    EXPECT_THAT(told, testing::HasSubstr("compiled without laws"));
  }
}

TEST(OwnRules, AnInputIsNoOtherValueBecauseALawSaysSo) {
  Graph cx;
  cx.set_device("cpu");
  cx.set_search({.rules = R"(; kernel-any-vanishes (strict)
; Wrong: every elementwise kernel is its first argument.
(rule ((= t (Op s a)) (elementwise s) (= x (arg a 0)))
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

TEST(OwnRules, StrictModeKeepsTheOrderOfSums) {
  CopiedView graph;
  graph.cx.set_search({.math = MathMode::Strict});
  EXPECT_FALSE(fired(graph.report(), "sum-factor-leaves-rounded"));
}

}  // namespace
}  // namespace luminal
