#include <fmt/format.h>
#include <gmock/gmock.h>

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

const Schedule& dot() { return find_schedule("dot"); }

/// Each result is within rounding of the sum of the decoded values' products: less than 40 roundings, each of a partial
/// sum that is no greater than the sum of magnitudes.
void expect_sums(const TensorData& got, const TensorData& x, const TensorData& w, int64_t n, int64_t k) {
  const TensorData left = dequantize(x), right = dequantize(w);
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
        expect_sums(interpret(program, slots)[0], x, w, kColumns, kLength);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
}

TEST(Dot, TakesTwoOperandsInBlocksAlone) {
  EXPECT_TRUE(dot().candidates(product_of_blocks(Dtype::F32, Dtype::Q8_0, 1, 5, 512), {}, avx512()).empty());
  // Signs by position: levels are no bytes of one form.
  EXPECT_TRUE(
      dot().candidates(product_of_blocks(Dtype::Q8_0, Dtype::IQ2_XXS, 1, 5, 512), {}, avx512()).empty());
  // Offsets on both sides.
  EXPECT_TRUE(dot().candidates(product_of_blocks(Dtype::Q4_1, Dtype::Q4_1, 1, 5, 512), {}, avx512()).empty());
}

}  // namespace
}  // namespace luminal::codegen
