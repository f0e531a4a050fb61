// Relaxed math keeps within the range that docs/design.md promises ("Math modes").
#include <gtest/gtest.h>

#include <cmath>

#include "luminal/luminal.h"

namespace luminal {
namespace {

std::vector<float> run(Graph& cx, GraphTensor y, MathMode math, const CompilationMode& mode) {
  y.retrieve();
  cx.set_device("cpu");
  cx.set_search({.math = math});
  cx.compile(mode)();
  return y.data<float>();
}

std::vector<CompilationMode> modes() { return {Fast{}, Optimal{}}; }

GraphTensor full_input(Graph& cx, Shape dims, int64_t count, float value) {
  return cx.tensor(std::move(dims)).set(std::vector<float>(static_cast<size_t>(count), value));
}

/// The shares of the keys are numbers up to 1, so a result is no greater than the values. Relaxed math adds them
/// up before it divides by what the shares add up to, so 64 values of 5e36 are the most.
TEST(RelaxedRange, AttentionOverGreatValuesStaysFinite) {
  for (const MathMode math : {MathMode::Strict, MathMode::Relaxed})
    for (const CompilationMode& mode : modes())
      for (const float value : {1e30F, 5e36F, 1e38F, 3e38F}) {
        if (math == MathMode::Relaxed && value > 5e36F) continue;
        Graph cx;
        const GraphTensor q = full_input(cx, {8, 4}, 32, 0.5F), k = full_input(cx, {64, 4}, 256, 0.25F);
        const GraphTensor v = full_input(cx, {64, 4}, 256, value);
        for (const float x : run(cx, attention(q, k, v), math, mode))
          EXPECT_NEAR(x / value, 1, 1e-5) << value;
      }
}

TEST(RelaxedRange, ATensorsFactorNeverMakesASumOverflow) {
  for (const CompilationMode& mode : modes()) {
    Graph cx;
    const GraphTensor x = full_input(cx, {3, 64}, 192, 1e38F), small = full_input(cx, {3}, 3, 1e-30F);
    for (const float y : run(cx, (x * small.expand_dim(1, 64)).sum(1), MathMode::Relaxed, mode))
      EXPECT_NEAR(y / 6.4e9F, 1, 1e-5);
  }
}

/// A masked row whose sum of weights is 0: its factor is infinite, and never taken.
TEST(RelaxedRange, AnInfiniteFactorThatIsNotChosenMakesNoNaN) {
  for (const CompilationMode& mode : modes()) {
    Graph cx;
    const GraphTensor x = full_input(cx, {2, 4}, 8, 1), total = cx.tensor({2}).set(std::vector<float>{0, 4});
    const GraphTensor seen = cx.tensor({2, 4}).set(std::vector<float>{0, 0, 0, 0, 1, 1, 1, 1});
    const GraphTensor share = where(seen.gt(0.5), x / total.expand_dim(1, 4), cx.full({2, 4}, 0.0));
    EXPECT_EQ(run(cx, share.sum(1), MathMode::Relaxed, mode), (std::vector<float>{0, 1}));
  }
}

/// Norms divide sums, so that there is no factor in them to leave: rows are right as far as docs/design.md
/// says in every mode, and beyond that what it says.
TEST(RelaxedRange, NormsAreRightWhileSumsFit) {
  const auto row = [](Graph& cx, float scale, bool alike) {
    std::vector<float> values(64, scale);
    for (size_t i = 0; i < 32 && !alike; ++i) values[2 * i] = -scale;
    return cx.tensor({64}).set(values);
  };
  for (const MathMode math : {MathMode::Strict, MathMode::Relaxed})
    for (const CompilationMode& mode : modes()) {
      const auto of_row = [&](float scale, bool alike, GraphTensor (*compute)(const GraphTensor&)) {
        Graph cx;
        return run(cx, compute(row(cx, scale, alike)), math, mode);
      };
      const auto norm = [](const GraphTensor& x) { return x.layer_norm(); };
      const auto spread = [](const GraphTensor& x) { return x.var(0, false, 0); };
      for (const float x : of_row(1e18F, false, norm)) EXPECT_NEAR(std::abs(x), 1, 1e-5);
      for (const float x : of_row(5e36F, true, norm)) EXPECT_EQ(x, 0);
      EXPECT_NEAR(of_row(1e18F, false, spread)[0] / 1e36F, 1, 1e-5);
      EXPECT_EQ(of_row(5e36F, true, spread)[0], 0);
      for (const float x : of_row(1e20F, false, norm)) EXPECT_EQ(x, 0);
      for (const float x : of_row(1e38F, true, norm)) EXPECT_TRUE(std::isnan(x));
      EXPECT_TRUE(std::isinf(of_row(1e20F, false, spread)[0]));
      EXPECT_EQ(of_row(1e38F, true, spread)[0], 0);
    }
}

/// The bound as it is promised: constants down to 2^-24 leave a sum, so nothing overflows where the terms add
/// up to less than 2^-24 of the greatest number; smaller ones do not leave.
TEST(RelaxedRange, ConstantsOverflowNothingWithinTheBound) {
  for (const CompilationMode& mode : modes())
    for (const auto& [factor, value] :
         {std::pair{0x1p-24F, 1e37F}, {0x1p-20F, 5e36F}, {0x1p-25F, 3e38F}, {1e-30F, 3e38F}}) {
      Graph cx;
      const GraphTensor x = full_input(cx, {3, 32}, 96, value);
      for (const float y : run(cx, (x * factor).sum(1), MathMode::Relaxed, mode))
        EXPECT_NEAR(y / (32.0 * value * factor), 1, 1e-5) << factor;
    }
}

}  // namespace
}  // namespace luminal
