#include "codegen/schedules/phases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cases.h"
#include "codegen/schedules/families.h"
#include "codegen/schedules/specialise.h"

namespace luminal::codegen {
namespace {

using namespace test_cases;

/// The input gradient of a convolution along a line with window 3, stride 2 and padding 1: n pairs of pixels,
/// `channels` of them, from `filters` filters.
///   Y[j,u,v] = sum w, x: A[w,u+v-x] * B[w,j,2*x-v+1]
/// Both factors are masked wherever one is, or where `weights_alone` each by what it must ask itself.
struct Gradient {
  int64_t channels = 5, n = 21, filters = 3;
  bool weights_alone = false;

  [[nodiscard]] SpecParts parts() const {
    SpecBuilder s;
    const Expression j = s.axis(channels), u = s.axis(n), v = s.axis(2), w = s.axis(filters), x = s.axis(2);
    const int a = s.slot(filters * n), b = s.slot(filters * channels * 3);
    const Expression pixel = u + v - x, tap = 2 * x - v + 1;
    const Expression inside = pixel.gte(0) & pixel.lt(n), within = tap.lt(3);
    const Expression all = inside & within;
    const int sum = s.value({0, 1, 2}, {3, 4}, Monoid::Add,
                            {s.load(a, w * n + pixel, {{all, 0}}),
                             s.load(b, (w * channels + j) * 3 + tap, {{weights_alone ? within : all, 0}})},
                            product);
    s.output(sum, (j * n + u) * 2 + v, channels * n * 2);
    return s.parts();
  }
};

TEST(Phases, EachHasItsOwnTaps) {
  const KernelSpec spec(Gradient{.weights_alone = true}.parts());
  const std::vector<KernelSpec> phases = phases_of(spec, {});
  ASSERT_EQ(phases.size(), 2);
  // Of an even pixel the middle tap alone, of an odd one both others.
  EXPECT_THAT(phases[0].result().reduced, testing::ElementsAre(3));
  EXPECT_THAT(phases[1].result().reduced, testing::ElementsAre(3, 4));
  for (const KernelSpec& phase : phases) EXPECT_TRUE(phase.result().operands[1].masks.empty());
}

TEST(Phases, ComputeWhatTheSpecSays) {
  for (const bool weights_alone : {false, true})
    for (const Gradient& g :
         {Gradient{}, Gradient{.channels = 1, .n = 1, .filters = 1},
          Gradient{.channels = 16, .n = 64, .filters = 8}, Gradient{.channels = 33, .n = 17}})
      for (const Target& target : {avx512(), avx2()}) {
        Gradient each = g;
        each.weights_alone = weights_alone;
        SpecParts parts = each.parts();
        parts.values[0].masked_terms_vanish = weights_alone;
        check_candidates(phases_schedule(), KernelSpec(std::move(parts)), {}, target, {{}});
      }
}

/// What phases pack of weights comes before all that the others do.
TEST(Phases, PrepareWeightsBeforeTheyCompute) {
  int prepared = 0;
  for (const std::vector<bool>& frozen : {std::vector{false, true}, {true, false}, {true, true}})
    for (const Target& target : {avx512(), avx2()}) {
      const KernelSpec spec =
          kernel::with_frozen(KernelSpec(Gradient{.channels = 33, .n = 64, .filters = 48}.parts()), frozen);
      for (const Candidate& candidate : phases_schedule().candidates(spec, {}, target))
        if (preparing_stages(phases_schedule().lower(spec, candidate.parameters, {}, target)) > 1) ++prepared;
      check_candidates(phases_schedule(), spec, {}, target, {{}});
    }
  EXPECT_GT(prepared, 0) << "of two phases";
}

TEST(Phases, TermsOfWhichAFactorIsReadStay) {
  // Where a weight is an infinity the term is NaN, unless the spec permits it to vanish.
  SpecParts parts = Gradient{.weights_alone = true}.parts();
  parts.values[0].operands[1].masks.clear();
  parts.slots[1].elements = parts.slots[1].elements + 1;
  EXPECT_TRUE(phases_of(KernelSpec(parts), {}).empty());
  parts.values[0].masked_terms_vanish = true;
  EXPECT_EQ(phases_of(KernelSpec(parts), {}).size(), 2);
}

// The input gradient of a maximum over windows of 3 with stride 2: a pixel gets what came for a window if it is the first
// one there that is as great. Of a tap that is masked off nothing comes, wherever the greatest was.
TEST(Phases, TermsThatAreNeutralWhateverIsReadGo) {
  constexpr int64_t kPairs = 21;
  SpecBuilder s;
  const Expression u = s.axis(kPairs), v = s.axis(2), x = s.axis(2);
  const int values = s.slot(2 * kPairs), peaks = s.slot(kPairs), firsts = s.slot(kPairs, Dtype::I32),
            came = s.slot(kPairs);
  const Expression window = u + v - x, tap = v - 2 * x + 1;
  const std::vector<kernel::Mask> there{{window.gte(0) & window.lt(kPairs) & (2 * x).lt(v + 2), 0}};
  const int sum = s.value({0, 1}, {2}, Monoid::Add,
                          {s.load(values, 2 * u + v), s.load(peaks, window, there), SpecBuilder::number(tap),
                           s.load(firsts, window, there), s.load(came, window, there)},
                          [](ScalarBuilder& b, std::span<const Scalar> in) {
                            const Scalar number = b.select(b.lt(in[0], in[1]), b.constant(Dtype::I32, 0),
                                                           b.convert(in[2], Dtype::I32));
                            const Scalar none = b.constant(Dtype::F32, 0);
                            return b.select(b.lt(number, in[3]), none, in[4]);
                          });
  s.output(sum, u * 2 + v, 2 * kPairs);
  const KernelSpec spec(s.parts());
  const std::vector<KernelSpec> phases = phases_of(spec, {});
  ASSERT_EQ(phases.size(), 2);
  EXPECT_THAT(phases[0].result().reduced, testing::IsEmpty());
  EXPECT_THAT(phases[1].result().reduced, testing::ElementsAre(2));
  for (const Target& target : {avx512(), avx2()}) check_candidates(phases_schedule(), spec, {}, target, {{}});
}

TEST(Phases, OutputsWithoutTermsAreNeutral) {
  // Stride 3 and a window of 1: of three pixels one is reached.
  SpecBuilder s;
  const Expression u = s.axis(10), v = s.axis(3), w = s.axis(4), x = s.axis(2);
  const int a = s.slot(40), b = s.slot(4);
  const kernel::Mask hit{(v + x).lt(1), 0};
  const int sum =
      s.value({0, 1}, {2, 3}, Monoid::Add, {s.load(a, w * 10 + u, {hit}), s.load(b, w, {hit})}, product);
  s.output(sum, u * 3 + v, 30);
  const KernelSpec spec(s.parts());
  const std::vector<KernelSpec> phases = phases_of(spec, {});
  ASSERT_EQ(phases.size(), 3);
  EXPECT_FALSE(phases[1].result().monoid);
  EXPECT_FALSE(phases[2].result().monoid);
  check_candidates(phases_schedule(), spec, {}, avx512(), {{}});
}

TEST(Phases, AxesThatAnotherValueFoldsOverAreNone) {
  // t[j] = max v: C[v,j] over the axis along which Y has its phases.
  SpecBuilder s;
  const Expression u = s.axis(10), v = s.axis(2), x = s.axis(2);
  const int a = s.slot(20), c = s.slot(2);
  const kernel::Mask hit{(v + x).lt(1), 0};
  const int peak = s.value({}, {1}, Monoid::Max, {s.load(c, v)},
                           [](ScalarBuilder&, std::span<const Scalar> in) { return in[0]; });
  const int sum =
      s.value({0, 1}, {2}, Monoid::Add, {s.load(a, u * 2 + x, {hit}), s.load(a, u * 2 + x, {hit})}, product);
  const int all = s.value({0, 1}, {}, std::nullopt, {s.read(sum), s.read(peak)}, product);
  s.output(all, u * 2 + v, 20);
  EXPECT_TRUE(phases_of(KernelSpec(s.parts()), {}).empty());
}

TEST(Phases, OthersAreLeftToOtherFamilies) {
  EXPECT_TRUE(phases_of(Matmul{.m = 4, .n = 4, .k = 4}.spec().spec, {}).empty());
  EXPECT_TRUE(phases_schedule().candidates(Matmul{.m = 4, .n = 4, .k = 4}.spec().spec, {}, avx512()).empty());
}

}  // namespace
}  // namespace luminal::codegen
