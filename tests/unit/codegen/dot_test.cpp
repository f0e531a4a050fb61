#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <tuple>

#include "cases.h"
#include "luminal/block_format.h"

namespace luminal::codegen {
namespace {

using namespace test_cases;

/// Y[m, n] = sum k: X[m, k] W[n, k], both in blocks.
KernelSpec product_of_blocks(Dtype left, Dtype right, int64_t m, int64_t n, int64_t k) {
  SpecBuilder s;
  const Expression i = s.axis(m), j = s.axis(n), r = s.axis(k);
  const int x = s.slot(m * k, left), w = s.slot(n * k, right);
  const int y = s.value({0, 1}, {2}, Monoid::Add, {s.load(x, i * k + r), s.load(w, j * k + r)}, product);
  s.output(y, i * n + j, m * n);
  return s.finish().spec;
}

/// The same with X = I8 numbers times a scale for each `group` of them, along an axis of its own or not.
KernelSpec product_of_scaled(Dtype weights, int64_t m, int64_t n, int64_t k, int64_t group, bool own_axis,
                             bool is_frozen = false) {
  SpecBuilder s;
  const Expression i = s.axis(m), j = s.axis(n), g = s.axis(own_axis ? k / group : k);
  Expression position = g, of_scale = g / group;
  std::vector<int> reduced{2};
  if (own_axis) {
    position = g * group + s.axis(group), of_scale = g;
    reduced.push_back(3);
  }
  const int x = s.slot(m * k, Dtype::I8), t = s.slot(m * k / group), w = s.slot(n * k, weights);
  const auto body = [](ScalarBuilder& b, std::span<const Scalar> in) {
    return b.mul(in[0], b.mul(b.convert(in[1], Dtype::F32), in[2]));
  };
  const int y = s.value(
      {0, 1}, reduced, Monoid::Add,
      {s.load(w, j * k + position), s.load(x, i * k + position), s.load(t, i * (k / group) + of_scale)},
      body);
  s.output(y, i * n + j, m * n);
  KernelSpec spec = s.finish().spec;
  std::vector<bool> frozen;
  for (const kernel::Slot& slot : spec.slots()) frozen.push_back(is_frozen && slot.dtype == weights);
  return kernel::with_frozen(spec, frozen);
}

const Schedule& dot() { return find_schedule("dot"); }
Target vnni() {
  Target target = avx512();
  target.dots = true;
  return target;
}

/// Numbers and scales of all signs.
TensorData random_bytes(int64_t count, uint64_t seed) {
  TensorData data(Dtype::I8, {count});
  std::mt19937_64 random(seed);
  for (int8_t& x : data.as<int8_t>()) x = static_cast<int8_t>(static_cast<int>(random() % 255) - 127);
  return data;
}
TensorData random_scales(int64_t count, uint64_t seed) {
  TensorData data(Dtype::F32, {count});
  std::mt19937_64 random(seed);
  for (float& x : data.as<float>()) x = std::uniform_real_distribution<float>(-1, 1)(random);
  return data;
}
TensorData scaled(const TensorData& numbers, const TensorData& scales, int64_t group) {
  TensorData data(Dtype::F32, numbers.dims);
  for (size_t i = 0; i < data.as<float>().size(); ++i)
    data.as<float>()[i] =
        static_cast<float>(numbers.as<int8_t>()[i]) * scales.as<float>()[i / static_cast<size_t>(group)];
  return data;
}

/// Each result is within rounding of the sum of the decoded values' products: less than 40 roundings, each of a partial
/// sum that is no greater than the sum of magnitudes.
void expect_sums(const TensorData& got, const TensorData& left, const TensorData& right, int64_t n,
                 int64_t k) {
  for (int64_t i = 0; i < got.element_count(); ++i) {
    double sum = 0, magnitudes = 0;
    for (int64_t r = 0; r < k; ++r) {
      const double term = static_cast<double>(left.as<float>()[static_cast<size_t>(i / n * k + r)]) *
                          static_cast<double>(right.as<float>()[static_cast<size_t>(i % n * k + r)]);
      sum += term, magnitudes += std::abs(term);
    }
    ASSERT_NEAR(got.as<float>()[static_cast<size_t>(i)], sum, 40 * 0x1p-24 * magnitudes) << "element " << i;
  }
}

TEST(Dot, AddsTheProductsOfTheValuesOfFormatsOfAllKinds) {
  constexpr int64_t kColumns = 5, kLength = 512;
  for (const Dtype weights : {Dtype::Q8_0, Dtype::Q4_0, Dtype::Q4_1, Dtype::Q5_0, Dtype::IQ4_NL, Dtype::Q4_K,
                              Dtype::Q6_K, Dtype::Q2_K, Dtype::Q3_K})
    for (const int64_t m : {1, 3}) {
      SCOPED_TRACE(fmt::format("{} rows of {}", m, name(weights)));
      const KernelSpec spec = product_of_blocks(Dtype::Q8_0, weights, m, kColumns, kLength);
      const TensorData x = random_blocks(Dtype::Q8_0, {m * kLength}, 1);
      const TensorData w = random_blocks(weights, {kColumns * kLength}, 2);
      const auto candidates = dot().candidates(spec, {}, avx512());
      ASSERT_FALSE(candidates.empty());
      // Slots in the spec's order, which need not be that of the arguments.
      const bool x_first =
          spec.slots()[0].elements == Expression(m * kLength) && spec.slots()[0].dtype == Dtype::Q8_0;
      const std::vector<TensorData> slots = x_first ? std::vector{x, w} : std::vector{w, x};
      for (const Candidate& c : candidates) {
        const Program program = dot().lower(spec, c.parameters, {}, avx512());
        verify(program);
        expect_sums(interpret(program, slots)[0], dequantize(x), dequantize(w), kColumns, kLength);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
}

bool is_packed(const Candidate& c) { return c.parameters.contains("packed"); }

/// Slots in the spec's order: by dtype, as no two have the same.
std::vector<TensorData> in_order(const KernelSpec& spec, const std::vector<TensorData>& slots) {
  std::vector<TensorData> ordered;
  for (const kernel::Slot& slot : spec.slots())
    ordered.push_back(*std::ranges::find(slots, slot.dtype, &TensorData::dtype));
  return ordered;
}

class DotOfFormats : public testing::TestWithParam<Dtype> {};

TEST_P(DotOfFormats, AddsTheProductsOfBlocksAndScaledNumbers) {
  const Dtype weights = GetParam();
  for (const auto& [m, n, k, own_axis, is_frozen] :
       {std::tuple(1, 5, 512, true, false), std::tuple(3, 5, 256, false, false),
        std::tuple(6, 9, 256, true, false), std::tuple(9, 21, 256, false, false),
        std::tuple(1, 37, 512, true, true), std::tuple(11, 21, 256, false, true)}) {
    SCOPED_TRACE(fmt::format("{} x {} x {} of {}, {}, {}", m, n, k, name(weights), own_axis, is_frozen));
    constexpr int64_t kGroup = 32;
    const KernelSpec spec = product_of_scaled(weights, m, n, k, kGroup, own_axis, is_frozen);
    const TensorData x = random_bytes(m * k, 1), t = random_scales(m * k / kGroup, 2);
    const TensorData w = random_blocks(weights, {int64_t{n} * k}, 3);
    for (const Target& target : {vnni(), avx2()}) {
      const auto candidates = dot().candidates(spec, {}, target);
      ASSERT_FALSE(candidates.empty());
      EXPECT_EQ(std::ranges::any_of(candidates, is_packed), is_frozen);
      for (const Candidate& c : candidates) {
        const Program program = dot().lower(spec, c.parameters, {}, target);
        verify(program);
        expect_sums(interpret(program, in_order(spec, {x, t, w}))[0], scaled(x, t, kGroup), dequantize(w), n,
                    k);
        if (testing::Test::HasFatalFailure()) FAIL() << text_of(c.parameters);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, DotOfFormats,
                         testing::Values(Dtype::Q8_0, Dtype::Q4_0, Dtype::Q4_1, Dtype::Q5_0, Dtype::Q5_1,
                                         Dtype::MXFP4, Dtype::IQ4_NL, Dtype::IQ4_XS, Dtype::Q2_K, Dtype::Q3_K,
                                         Dtype::Q4_K, Dtype::Q5_K, Dtype::Q6_K),
                         [](const auto& test) { return std::string(name(test.param)); });

// In integers terms of both signs would make one infinity.
TEST(Dot, ScalesThatOverflowGiveNan) {
  const KernelSpec spec = product_of_scaled(Dtype::Q4_0, 8, 20, 256, 32, false, true);
  const TensorData x = random_bytes(8 * 256, 1), w = random_blocks(Dtype::Q4_0, {20 * 256}, 3);
  TensorData t = random_scales(8 * 8, 2);
  t.as<float>()[9] = std::numeric_limits<float>::infinity();  // of the second row
  t.as<float>()[31] = std::numeric_limits<float>::max();      // of the fourth
  for (const Candidate& c : dot().candidates(spec, {}, vnni())) {
    const TensorData got =
        interpret(dot().lower(spec, c.parameters, {}, vnni()), in_order(spec, {x, t, w}))[0];
    for (size_t i = 0; i < 8 * 20; ++i)
      EXPECT_EQ(std::isnan(got.as<float>()[i]), i / 20 == 1 || i / 20 == 3) << text_of(c.parameters) << i;
  }
}

TEST(Dot, MakesPanelsWhereThereAreSeveralColumns) {
  const auto has_panels = [](const Candidate& c) { return c.parameters.contains("panels"); };
  const auto candidates = [](int64_t m, const Target& target) {
    return dot().candidates(product_of_scaled(Dtype::Q4_0, m, 64, 256, 32, false), {}, target);
  };
  EXPECT_TRUE(std::ranges::any_of(candidates(8, vnni()), has_panels));
  EXPECT_TRUE(std::ranges::none_of(candidates(1, vnni()), has_panels));
  EXPECT_TRUE(std::ranges::none_of(candidates(8, avx2()), has_panels));
  EXPECT_TRUE(std::ranges::none_of(candidates(8, avx512()), has_panels));
}

TEST(Dot, PacksWeightsThatStayTheSame) {
  const auto candidates = [](bool is_frozen, const Target& target, Dtype weights, int64_t group) {
    return dot().candidates(product_of_scaled(weights, 1, 64, 512, group, false, is_frozen), {}, target);
  };
  EXPECT_TRUE(std::ranges::any_of(candidates(true, vnni(), Dtype::Q4_0, 32), is_packed));
  EXPECT_TRUE(std::ranges::any_of(candidates(true, vnni(), Dtype::Q4_K, 256), is_packed));
  EXPECT_TRUE(std::ranges::none_of(candidates(false, vnni(), Dtype::Q4_0, 32), is_packed));
  // Lanes are rows, however many there are.
  EXPECT_TRUE(std::ranges::any_of(candidates(true, avx2(), Dtype::Q4_0, 32), is_packed));
  const Target few{.features = "", .vector_bytes = 16, .vector_registers = 16, .threads = 2};
  EXPECT_TRUE(std::ranges::none_of(candidates(true, few, Dtype::Q4_0, 32), is_packed));
  // Activations whose scales change within a group of the weights.
  EXPECT_TRUE(std::ranges::none_of(candidates(true, vnni(), Dtype::Q4_0, 16), is_packed));
  // All forms of a product pack alike, so that one copy serves all of them.
  uint64_t known = 0;
  for (const int64_t m : {1, 9}) {
    const KernelSpec spec = product_of_scaled(Dtype::Q6_K, m, 64, 512, 32, false, true);
    for (const Candidate& c : dot().candidates(spec, {}, vnni())) {
      if (!is_packed(c)) continue;
      const uint64_t made = preparation_of(dot().lower(spec, c.parameters, {}, vnni())).hash;
      EXPECT_NE(made, 0U);
      if (known == 0) known = made;
      EXPECT_EQ(made, known) << m << " " << text_of(c.parameters);
    }
  }
}

TEST(Dot, TakesBlocksOf32InRowsThatAreNoMultipleOf256) {
  const KernelSpec spec = product_of_scaled(Dtype::Q8_0, 2, 3, 96, 32, false);
  const TensorData x = random_bytes(2 * 96, 1), t = random_scales(2 * 3, 2),
                   w = random_blocks(Dtype::Q8_0, {3 * 96}, 3);
  for (const Candidate& c : dot().candidates(spec, {}, avx2()))
    expect_sums(interpret(dot().lower(spec, c.parameters, {}, avx2()), in_order(spec, {x, t, w}))[0],
                scaled(x, t, 32), dequantize(w), 3, 96);
}

TEST(Dot, TakesScalesOfGroupsOfOtherSizes) {
  for (const int64_t group : {16, 64, 256}) {
    SCOPED_TRACE(group);
    const KernelSpec spec = product_of_scaled(Dtype::Q4_K, 2, 3, 512, group, false);
    const TensorData x = random_bytes(2 * 512, 1), t = random_scales(2 * 512 / group, 2),
                     w = random_blocks(Dtype::Q4_K, {3 * 512}, 3);
    const auto candidates = dot().candidates(spec, {}, vnni());
    ASSERT_FALSE(candidates.empty());
    expect_sums(
        interpret(dot().lower(spec, candidates[0].parameters, {}, vnni()), in_order(spec, {x, t, w}))[0],
        scaled(x, t, group), dequantize(w), 3, 512);
  }
  EXPECT_TRUE(dot().candidates(product_of_scaled(Dtype::Q8_0, 1, 3, 64, 8, false), {}, vnni()).empty());
}

TEST(Dot, TakesTwoOperandsInBlocksAlone) {
  EXPECT_TRUE(dot().candidates(product_of_blocks(Dtype::F32, Dtype::Q8_0, 1, 5, 512), {}, vnni()).empty());
  // Signs by position: levels are no bytes of one form.
  EXPECT_TRUE(
      dot().candidates(product_of_blocks(Dtype::Q8_0, Dtype::IQ2_XXS, 1, 5, 512), {}, vnni()).empty());
  // Offsets on both sides.
  EXPECT_TRUE(dot().candidates(product_of_blocks(Dtype::Q4_1, Dtype::Q4_1, 1, 5, 512), {}, vnni()).empty());
}

}  // namespace
}  // namespace luminal::codegen
