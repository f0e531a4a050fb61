#include <gtest/gtest.h>

#include <random>

#include "cases.h"
#include "codegen/schedules/families.h"
#include "unit/kernel/variance_specs.h"

// Sums of rows and their squared deviations block by block, beside their own definition.
namespace luminal::codegen {
namespace {

using namespace test_cases;
using kernel::test::Variance;

void check_moments(const Variance& variance, const Bucket& bucket = {},
                   const std::vector<DimMap>& sizes = {{}}) {
  constexpr double kTolerance = 2e-6;
  for (const Target& target : {avx512(), avx2()})
    check_candidates(moments_schedule(), variance.spec(), bucket, target, sizes, kTolerance);
}

TEST(Moments, TakesRowsOfAnyLength) {
  for (const int64_t length : {1025, 2500, 4096, 5001}) check_moments({.length = length});
  check_moments({.rows = 1, .length = 20000});
}

TEST(Moments, TakesAnythingThatIsSquared) {
  for (const bool of_products : {false, true})
    for (const bool adds : {false, true})
      for (const bool from_given : {false, true})
        check_moments({.of_products = of_products, .from_given = from_given, .adds = adds});
  check_moments({.padded = true});
  check_moments({.with_least = true});
  check_moments({.dtype = Dtype::F64});
  check_moments({.by_column = true});
}

TEST(Moments, TakesNamedSizes) {
  const Expression n = Expression::dim("n"), m = Expression::dim("m");
  const Bucket bucket{.facts = {{"m", {.min = 1, .max = 4}}, {"n", {.min = 1, .max = 3000}}}};
  check_moments({.rows = m, .length = n}, bucket,
                {{{"m", 4}, {"n", 3000}}, {{"m", 1}, {"n", 1}}, {{"m", 3}, {"n", 1031}}});
}

/// Over images and their pixels: a block is a part of an image, or several.
TEST(Moments, TakesRowsInPieces) {
  for (const int64_t pixels : {49, 300, 3000}) {
    kernel::test::SpecBuilder s;
    const Expression c = s.axis(3), n = s.axis(60000 / pixels / 3), p = s.axis(pixels);
    const int64_t images = 60000 / pixels / 3;
    const int x = s.slot(images * 3 * pixels);
    const Operand load = s.load(x, (n * 3 + c) * pixels + p);
    const int sum = s.value({0}, {1, 2}, Monoid::Add, {load},
                            [](ScalarBuilder&, std::span<const Scalar> v) { return v[0]; });
    const int squares = s.value(
        {0}, {1, 2}, Monoid::Add, {load, s.read(sum)}, [&](ScalarBuilder& b, std::span<const Scalar> v) {
          const Scalar d = b.sub(v[0], b.div(v[1], b.constant(Dtype::F32, images * pixels)));
          return b.mul(d, d);
        });
    s.output(squares, c, 3);
    check_candidates(moments_schedule(), s.finish().spec, {}, avx512(), {{}}, 2e-6);
  }
}

/// Far from zero, and rising: squares that are subtracted from one another would have lost all digits.
TEST(Moments, LosesNoDigitsFarFromZero) {
  constexpr int64_t kLength = 20000;
  const KernelSpec spec = Variance{.rows = 1, .length = kLength}.spec();
  TensorData x(Dtype::F32, {kLength});
  std::mt19937_64 random(3);
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < kLength; ++i) {
    float& each = x.as<float>()[static_cast<size_t>(i)];
    each = 1000 + static_cast<float>(i) / kLength + static_cast<float>(random() % 1000) / 1000;
    sum += static_cast<double>(each);
  }
  for (const float each : x.as<float>()) squares += std::pow(static_cast<double>(each) - sum / kLength, 2);
  // The first output is what the spec's first one is: the squares.
  for (const Candidate& c : points_of(moments_schedule(), spec, {}, avx512())) {
    const Program program = moments_schedule().lower(spec, c.parameters, {}, avx512());
    const double got = static_cast<double>(interpret(program, std::vector{x}, {})[0].as<float>()[0]);
    EXPECT_NEAR(got, squares, 2e-6 * squares) << to_string(c.parameters);
  }
}

TEST(Moments, LeavesOthersToOthers) {
  const auto takes = [](const Variance& v) {
    return !points_of(moments_schedule(), v.spec(), {}, avx512()).empty();
  };
  EXPECT_TRUE(takes({}));
  EXPECT_FALSE(takes({.length = 1024}));  // a row is one block
  // In strict math terms are what the user wrote.
  const KernelSpec strict = kernel::canonical(Variance{}.spec().parts(), {}, MathMode::Strict).spec;
  EXPECT_TRUE(points_of(moments_schedule(), strict, {}, avx512()).empty());
  // Deviations along the row; deviations from a number made of deviations.
  kernel::test::SpecBuilder along;
  {
    const Expression r = along.axis(3), j = along.axis(2500);
    const Operand load = along.load(along.slot(3 * 2500), r * 2500 + j);
    const int sum = along.value({0}, {1}, Monoid::Add, {load},
                                [](ScalarBuilder&, std::span<const Scalar> v) { return v[0]; });
    along.output(along.value({0, 1}, {}, std::nullopt, {load, along.read(sum)},
                             [](ScalarBuilder& b, std::span<const Scalar> v) { return b.sub(v[0], v[1]); }),
                 r * 2500 + j, 3 * 2500);
  }
  EXPECT_TRUE(points_of(moments_schedule(), along.finish().spec, {}, avx512()).empty());
  kernel::test::SpecBuilder nested;
  {
    const Expression r = nested.axis(3), j = nested.axis(2500);
    const Operand load = nested.load(nested.slot(3 * 2500), r * 2500 + j);
    const auto squares = [&](int from) {
      return nested.value({0}, {1}, Monoid::Add, {load, nested.read(from)},
                          [](ScalarBuilder& b, std::span<const Scalar> v) {
                            const Scalar d = b.sub(v[0], v[1]);
                            return b.mul(d, d);
                          });
    };
    const int sum = nested.value({0}, {1}, Monoid::Add, {load},
                                 [](ScalarBuilder&, std::span<const Scalar> v) { return v[0]; });
    nested.output(squares(squares(sum)), r, 3);
  }
  EXPECT_TRUE(points_of(moments_schedule(), nested.finish().spec, {}, avx512()).empty());
}

}  // namespace
}  // namespace luminal::codegen
