#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "luminal/luminal.h"
#include "pipeline.h"
#include "search/verification/compare.h"
#include "search/verification/judge.h"
#include "search/verification/verify.h"

// Every element of a result beside an independent kernel's, and which of those that differ the user's nodes are asked about.
namespace luminal::search {
namespace {

/// y = 2 x, of which the samples allow an error of 1000 each.
class Judge : public testing::Test {
 protected:
  static constexpr int64_t kRows = 64, kColumns = 96;

  Judge() {
    const GraphTensor x = graph_.tensor({kRows, kColumns}), y = (x * 2).retrieve();
    Unit unit{.tensors = {{.type = graph_.type(x.edge().source), .value = x.edge().source, .aliases = {}},
                          {.type = graph_.type(y.edge().source), .value = y.edge().source, .aliases = {}}},
              .kernels = {{.inputs = {0}, .outputs = {1}, .spec = {}}}};
    suite_ = prepare_suite(graph_, {}, unit, {.samples = 4, .kinds = {"plain"}});
    right_.resize(2);
    right_[1] = TensorData(Dtype::F32, {kRows, kColumns});
    const auto in = suite_.cases[0].tensors[0]->as<float>();
    std::ranges::transform(in, right_[1].as<float>().begin(), [](float value) { return 2 * value; });
  }
  void allow(double error) {
    for (VerificationCase::Expectation& samples : suite_.cases[0].expectations)
      samples.errors.assign(samples.errors.size(), error);
  }
  [[nodiscard]] std::optional<Fault> fault_of(const std::vector<TensorData>& made) const {
    return compare_in_full(suite_, suite_.cases[0], elements_of(std::span(made)), right_, false).fault;
  }

  Graph graph_;
  VerificationSuite suite_;
  std::vector<TensorData> right_;
};

TEST_F(Judge, FindsWrongLeadingDigitsWithinMarginsThatSayLittle) {
  allow(1000);
  EXPECT_FALSE(fault_of(right_));
  std::vector<TensorData> wrong = right_;
  const auto samples = suite_.cases[0].expectations[0].positions;
  int64_t at = 0;  // an element of which no sample was taken
  while (std::ranges::find(samples, at) != samples.end() || std::abs(right_[1].as<float>()[at]) < 1) ++at;
  wrong[1].as<float>()[at] *= 1.5F;
  const auto fault = fault_of(wrong);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->position, at);
}

TEST_F(Judge, LeavesRoundingAlone) {
  allow(1000);
  std::vector<TensorData> rounded = right_;
  for (float& value : rounded[1].as<float>()) value *= 1 + 1e-6F;
  EXPECT_FALSE(fault_of(rounded));
}

/// All samples may hang on comparisons that are too close to call, and asking about an element may take too long.
TEST_F(Judge, AllowsForRoundingWhereNoSampleIsKnown) {
  for (VerificationCase::Expectation& samples : suite_.cases[0].expectations)
    samples.known.assign(samples.known.size(), false);
  suite_.graph = nullptr;
  std::vector<TensorData> made = right_;
  made[1].as<float>()[100] += 1e-5F;
  EXPECT_FALSE(fault_of(made));
  made[1].as<float>()[100] += 0.5F;
  EXPECT_TRUE(fault_of(made));
}

/// Sums of rows. Nobody can be asked: the suite has no graph.
VerificationSuite suite_of_sums(int64_t rows, int64_t terms) {
  Graph cx;
  (void)cx.tensor({rows, terms}).sum(1).retrieve();
  const test::Searched s = test::search(cx);
  const Cover cover = find_cover(s.saturated.cover, *s.store, test::roofline(), {});
  EXPECT_EQ(cover.kernels.size(), 1U);
  VerificationSuite suite;
  suite.unit = {.tensors = {{.type = {Dtype::F32, {rows, terms}}, .value = {}, .aliases = {}},
                            {.type = {Dtype::F32, {rows}}, .value = {}, .aliases = {}}},
                .kernels = {{.inputs = {0}, .outputs = {1}, .spec = s.store->at(cover.kernels[0].spec)}}};
  return suite;
}

/// Of a mean of equal numbers, subtracted from them, rounding alone is left.
TEST(JudgeWithoutOracle, AllowsForRoundingsThatGoOneWay) {
  constexpr int64_t kTerms = 100'000;
  const VerificationSuite suite = suite_of_sums(2, kTerms);
  const auto is_fault = [&](std::string_view kind, float off) {
    const auto input = std::make_shared<const TensorData>(Dtype::F32, std::vector<int64_t>{2, kTerms});
    const VerificationCase test_case{.name = std::string(kind), .tensors = {input, nullptr}};
    std::vector<TensorData> right(2), made(2);
    right[1] = TensorData::of<float>({2}, std::array{15.F, 1.F});
    made[1] = TensorData::of<float>({2}, std::array{15.F + off, 1.F});
    return compare_in_full(suite, test_case, elements_of(std::span(made)), right, false).fault.has_value();
  };
  EXPECT_FALSE(is_fault("constant", 0.02F));
  EXPECT_TRUE(is_fault("constant", 1.F));
  EXPECT_TRUE(is_fault("plain", 0.02F));
  EXPECT_FALSE(is_fault("plain", 1e-3F));
}

/// Where the order of a sum decides whether it overflows, any result is right; beside it nothing is.
TEST(JudgeWithoutOracle, SamplesOfSumsThatOverflowAreOpen) {
  const VerificationSuite suite = suite_of_sums(2, 3);
  const auto input = std::make_shared<const TensorData>(
      TensorData::of<float>({2, 3}, std::array{3e38F, 3e38F, -3e38F, 1.F, 2.F, 3.F}));
  VerificationCase test_case{.name = "extreme", .tensors = {input, nullptr}, .beyond_laws = true};
  test_case.expectations = {{.tensor = 1,
                             .positions = {0, 1},
                             .values = {HUGE_VAL, 6},
                             .errors = {0, 0},
                             .known = {true, true},
                             .promised = {false, false}}};
  const auto is_fault = [&](float first, float second) {
    std::vector<TensorData> made(2);
    made[1] = TensorData::of<float>({2}, std::array{first, second});
    return check_expectations(suite, test_case, elements_of(std::span(made)), Samples::All, false, "once")
        .has_value();
  };
  EXPECT_FALSE(is_fault(3e38F, 6));
  EXPECT_TRUE(is_fault(3e38F, 7));
}

TEST_F(Judge, AsksAboutTheFurthestAndAboutOthersInTurn) {
  allow(0.01);
  const Margins margins(suite_.cases[0].expectations[0]);
  std::vector<TensorData> wrong = right_;
  const auto values = wrong[1].as<float>();
  for (size_t i = 0; i < values.size(); ++i) values[i] += i < 100 ? 50.F : 1.F;
  const Mismatches found = mismatches(right_[1], wrong[1].bytes, margins);
  ASSERT_EQ(found.beyond.size(), 64U);
  const auto is_far = [](const Mismatch& m) { return m.position < 100; };
  EXPECT_TRUE(is_far(found.beyond[0]));
  EXPECT_TRUE(is_far(found.beyond[2]));
  EXPECT_FALSE(is_far(found.beyond[3]));
  EXPECT_EQ(std::ranges::count_if(found.beyond, is_far), 24 + 1);  // of the spread ones the first
  EXPECT_TRUE(found.doubtful.empty());
}

}  // namespace
}  // namespace luminal::search
