#include "kernel/branch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "scalar/element.h"
#include "spec_builder.h"

// Which conditions leave results out.
namespace luminal::kernel {
namespace {

using test::SpecBuilder;
using testing::ElementsAre;
using testing::IsEmpty;

Scalar product(ScalarBuilder& b, std::span<const Scalar> x) { return b.mul(x[0], x[1]); }

/// Y[e,t,o] = f(C[e,t], sum i: W[e,o,i] * X[t,i]) over 6 experts; without `rows` there is no t.
struct Experts {
  std::function<Scalar(ScalarBuilder&, Scalar on, Scalar sum)> body =
      [](ScalarBuilder& b, Scalar on, Scalar sum) { return b.select(on, sum, b.constant(Dtype::F32, 0)); };
  Expression rows = 1;
  bool share_weights = false;  ///< W[o,i], of one sum for all places
  int64_t inputs = 900;

  [[nodiscard]] KernelSpec spec() const {
    constexpr int64_t kExperts = 6, kOut = 50;
    SpecBuilder s;
    const Expression e = s.axis(kExperts), t = s.axis(rows), o = s.axis(kOut), i = s.axis(inputs);
    const int w = s.slot((share_weights ? 1 : kExperts) * kOut * inputs), x = s.slot(rows * inputs),
              c = s.slot(rows * kExperts, Dtype::Bool);
    const Expression at = share_weights ? o : e * kOut + o;
    const std::vector<int> axes = share_weights ? std::vector{1, 2} : std::vector{0, 1, 2};
    const int sum =
        s.value(axes, {3}, Monoid::Add, {s.load(w, at * inputs + i), s.load(x, t * inputs + i)}, product);
    const int all =
        s.value({0, 1, 2}, {}, std::nullopt, {s.load(c, e * rows + t), s.read(sum)},
                [&](ScalarBuilder& b, std::span<const Scalar> in) { return body(b, in[0], in[1]); });
    s.output(all, (e * rows + t) * kOut + o, kExperts * rows * kOut);
    return s.plain();
  }
};

TEST(Branch, IsFoundWhereResultsAreConstantsWithoutTheCondition) {
  const auto found = branch_of(Experts{.rows = 3}.spec(), {});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->axis, 0);
  EXPECT_EQ(found->places, 6);
  EXPECT_THAT(found->others, ElementsAre(1));
  EXPECT_THAT(found->constants, ElementsAre(0));
  EXPECT_EQ(found->condition.dtype, Dtype::Bool);
}

TEST(Branch, ConstantsAreWhatIsMadeOfTheOtherCase) {
  const auto found = branch_of(Experts{.body =
                                           [](ScalarBuilder& b, Scalar on, Scalar sum) {
                                             const Scalar y =
                                                 b.select(on, b.neg(sum), b.constant(Dtype::F32, 3));
                                             return b.add(y, b.constant(Dtype::F32, 0.5));
                                           }}
                                   .spec(),
                               {});
  ASSERT_TRUE(found);
  ScalarBuilder b;
  EXPECT_THAT(found->constants, ElementsAre(b[b.constant(Dtype::F32, 3.5)].payload));
}

TEST(Branch, IsNoneWhereResultsAreStillComputed) {
  // 0 * sum is NaN where the sum is.
  EXPECT_FALSE(branch_of(Experts{.body =
                                     [](ScalarBuilder& b, Scalar on, Scalar sum) {
                                       const Scalar factor =
                                           b.select(on, b.constant(Dtype::F32, 1), b.constant(Dtype::F32, 0));
                                       return b.mul(factor, sum);
                                     }}
                             .spec(),
                         {}));
  EXPECT_FALSE(
      branch_of(Experts{.body = [](ScalarBuilder& b, Scalar on,
                                   Scalar sum) { return b.select(on, b.constant(Dtype::F32, 0), sum); }}
                    .spec(),
                {}));
  EXPECT_FALSE(branch_of(Experts{.share_weights = true}.spec(), {})) << "one sum serves all places";
}

TEST(Branch, IsNoneWherePlacesAreSmallOrReadTheSame) {
  EXPECT_FALSE(branch_of(Experts{.inputs = 9}.spec(), {}));
  // Masked rows: Y[r,o] = where(C[r], sum i: X[r,i] * W[i,o], 0).
  SpecBuilder s;
  const Expression r = s.axis(64), o = s.axis(100), i = s.axis(5000);
  const int x = s.slot(64 * 5000), w = s.slot(5000 * 100), c = s.slot(64, Dtype::Bool);
  const int sum =
      s.value({0, 1}, {2}, Monoid::Add, {s.load(x, r * 5000 + i), s.load(w, i * 100 + o)}, product);
  const int all = s.value({0, 1}, {}, std::nullopt, {s.load(c, r), s.read(sum)},
                          [](ScalarBuilder& b, std::span<const Scalar> in) {
                            return b.select(in[0], in[1], b.constant(Dtype::F32, 0));
                          });
  s.output(all, r * 100 + o, 6400);
  EXPECT_FALSE(branch_of(s.plain(), {}));
}

TEST(Branch, MoreRowsAreMoreLikelyToNeedAPlace) {
  const auto share = [](const Expression& rows, const DimMap& dims) {
    const KernelSpec spec = Experts{.rows = rows}.spec();
    return expected_share(spec, branch_of(spec, dims).value(), dims);
  };
  EXPECT_LT(share(2, {}), share(3, {}));
  EXPECT_LT(share("n", {{"n", 4}}), share("n", {{"n", 9}}));
  EXPECT_LE(share("n", {{"n", 9}}), 1);
}

}  // namespace
}  // namespace luminal::kernel
