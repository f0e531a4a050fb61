#include "search/verification/value_range.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "search/verification/test_inputs.h"
#include "search/verification/verify.h"

// How elements are spread in runs of the graph, and inputs that are spread alike.
namespace luminal::search {
namespace {

constexpr double kInf = HUGE_VAL;

ValueRange range_of_numbers(const std::vector<float>& numbers) {
  const TensorData data = TensorData::of<float>({static_cast<int64_t>(numbers.size())}, numbers);
  return range_of(elements_of(data));
}

std::vector<float> drawn_from(const ValueRange& range, int64_t count, uint64_t seed = 1) {
  const auto data = test_input(kGraphKind, {Dtype::F32, {count}}, {}, seed, 0, range);
  return {data->as<float>().begin(), data->as<float>().end()};
}

TEST(ValueRange, HoldsTheEndsAndWhatLiesBetween) {
  std::vector<float> numbers(100'001);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i * 7919 % numbers.size());
  const ValueRange range = range_of_numbers(numbers);
  EXPECT_EQ(range.at(0), 0);
  EXPECT_EQ(range.at(1), 1e5);
  EXPECT_NEAR(range.at(0.5), 5e4, 500);
  EXPECT_EQ(range.reach(), 1e5);
  EXPECT_TRUE(range.is_whole());
}

TEST(ValueRange, SeesTheGreatestOfManyElements) {
  std::vector<float> numbers(200'000, 0.5F);
  numbers[123'457] = -7.25F;
  const ValueRange range = range_of_numbers(numbers);
  EXPECT_EQ(range.at(0), -7.25);
  EXPECT_EQ(range.at(1), 0.5);
  EXPECT_FALSE(range.is_whole());
}

TEST(ValueRange, LeavesNanOutAndKeepsInfinities) {
  EXPECT_TRUE(range_of_numbers({NAN, NAN}).quantiles.empty());
  EXPECT_TRUE(range_of_numbers({}).quantiles.empty());
  const ValueRange mask = range_of_numbers({0, -INFINITY, 0, NAN});
  EXPECT_EQ(mask.at(0), -kInf);
  EXPECT_EQ(mask.at(1), 0);
  EXPECT_EQ(mask.reach(), kInf);
  for (const float x : drawn_from(mask, 1000)) EXPECT_TRUE(x == 0 || x == -INFINITY) << x;
}

TEST(ValueRange, LiesAtEqualDistancesInOrder) {
  for (const size_t count : {1, 2, 5, 32, 33, 34, 1000, 16'384}) {
    std::vector<float> numbers(count);
    for (size_t i = 0; i < count; ++i) numbers[i] = static_cast<float>(i * 7919 % 1009);
    const ValueRange range = range_of_numbers(numbers);
    std::ranges::sort(numbers);
    ASSERT_EQ(range.quantiles.size(), ValueRange::kMost);
    for (size_t k = 0; k < ValueRange::kMost; ++k)
      EXPECT_EQ(range.quantiles[k], numbers[k * (count - 1) / (ValueRange::kMost - 1)]) << count << " " << k;
  }
}

TEST(ValueRange, OfOneElementIsThatElement) {
  const ValueRange range = range_of_numbers({3.25F});
  EXPECT_THAT(drawn_from(range, 100), testing::Each(3.25F));
}

TEST(GraphInputs, AreSpreadAsTheNumbersAre) {
  std::vector<float> numbers(1000, 0.0F);  // three in four are zero, as behind a relu
  for (size_t i = 0; i < 250; ++i) numbers[4 * i] = 5000 + 0.25F * static_cast<float>(i);
  const std::vector<float> drawn = drawn_from(range_of_numbers(numbers), 10'000);
  const auto zeros = std::ranges::count(drawn, 0.0F);
  EXPECT_GT(zeros, 6800);
  EXPECT_LT(zeros, 8000);
  EXPECT_LE(std::ranges::max(drawn), 5062.25F);
  const auto among = std::ranges::count_if(drawn, [](float x) { return x > 5020 && x < 5024; });
  EXPECT_GT(among, 30);
}

TEST(GraphInputs, OfWholeNumbersAreWholeNumbers) {
  const ValueRange range = range_of_numbers({0, 1, 2, 40});
  for (const float x : drawn_from(range, 1000)) {
    EXPECT_EQ(x, std::rint(x));
    EXPECT_GE(x, 0);
    EXPECT_LE(x, 40);
  }
  const TensorData indices = TensorData::of<int32_t>({3}, std::vector<int32_t>{3, 9, 17});
  const auto drawn = test_input(kGraphKind, {Dtype::I32, {1000}}, {}, 1, 0, range_of(elements_of(indices)));
  EXPECT_EQ(std::ranges::min(drawn->as<int32_t>()), 3);
  EXPECT_EQ(std::ranges::max(drawn->as<int32_t>()), 17);
}

TEST(GraphInputs, OfNoKnownRangeArePlain) {
  const std::vector<float> drawn = drawn_from({}, 1000);
  EXPECT_GE(std::ranges::min(drawn), -2);
  EXPECT_LE(std::ranges::max(drawn), 2);
}

/// y = 2 x as one kernel, with what is known of x.
struct TwiceX {
  Graph cx;
  GraphTensor x = cx.tensor({4096}), y = x + x;
  Unit unit{.tensors = {{.type = x.type(), .value = x.edge().source, .aliases = {}},
                        {.type = y.type(), .value = y.edge().source, .aliases = {}}},
            .kernels = {{.inputs = {0}, .outputs = {1}}}};

  [[nodiscard]] VerificationSuite suite(const std::vector<float>& numbers, bool strict = false) const {
    SuiteOptions options{.strict = strict};
    options.ranges =
        std::make_shared<const ValueRanges>(ValueRanges{{x.edge().source, range_of_numbers(numbers)}});
    return prepare_suite(cx, {}, unit, options);
  }
};

TEST(GraphInputs, AreAKindOfWhatIsKnownAlone) {
  const TwiceX doubled;
  const auto kinds = [](const VerificationSuite& suite) {
    std::vector<std::string> names;
    for (const VerificationCase& test_case : suite.cases) names.push_back(test_case.name);
    return names;
  };
  EXPECT_THAT(kinds(doubled.suite({1000, 1001})), testing::Contains("graph"));
  EXPECT_THAT(kinds(prepare_suite(doubled.cx, {}, doubled.unit, {})),
              testing::Not(testing::Contains("graph")));
  EXPECT_THAT(kinds(doubled.suite({NAN})), testing::Not(testing::Contains("graph")));
}

TEST(GraphInputs, AreJudgedByTheNodesUnlessTheyAreGreat) {
  const TwiceX doubled;
  const auto is_beyond = [](const VerificationSuite& suite) { return suite.cases.back().beyond_laws; };
  ASSERT_EQ(doubled.suite({1000}).cases.back().name, "graph");
  EXPECT_FALSE(is_beyond(doubled.suite({1000, -2000})));
  EXPECT_TRUE(is_beyond(doubled.suite({1000, -3e30F})));
  EXPECT_TRUE(is_beyond(doubled.suite({0, -INFINITY})));
  EXPECT_FALSE(is_beyond(doubled.suite({1000, -3e30F}, true)));
}

TEST(GraphInputs, AreDrawnAgainInAReplay) {
  const TwiceX doubled;
  const VerificationSuite suite = doubled.suite({0.1F, 77.7F, 1e-30F, -INFINITY});
  const VerificationSuite again = parse_suite(to_json(suite));
  const VerificationCase &first = suite.cases.back(), &second = again.cases.back();
  ASSERT_EQ(second.name, "graph");
  EXPECT_EQ(second.ranges, first.ranges);
  EXPECT_EQ(second.tensors[0]->bytes, first.tensors[0]->bytes);
  EXPECT_EQ(to_json(again), to_json(suite));
}

TEST(GraphInputs, OfAReplayThatWasChangedAreRefused) {
  const std::string text = to_json(TwiceX().suite({0.25F, 77}));
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    const size_t at = other.find(from, other.find("quantiles"));
    EXPECT_NE(at, std::string::npos);
    return other.replace(at, from.size(), to);
  };
  EXPECT_THROW((void)parse_suite(changed("77.0", "78.0")), FormatError) << "the hash is another";
  EXPECT_THROW((void)parse_suite(changed("77.0", "-5.0")), FormatError) << "not in order";
  EXPECT_THROW((void)parse_suite(changed("77.0", "\"nan\"")), FormatError);
}

}  // namespace
}  // namespace luminal::search
