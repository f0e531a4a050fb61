#include "kernel/routed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/cost.h"
#include "routed_specs.h"

// Which sums are routed.
namespace luminal::kernel {
namespace {

using test::RoutedProducts;
using test::SpecBuilder;
using testing::ElementsAre;

TEST(Routed, IsFoundWhereAnIndexNamesTheTerm) {
  const auto found = routed_of(RoutedProducts{}.spec());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->term.axis, 3);
  EXPECT_EQ(found->sum, 1);
  EXPECT_THAT(found->places, ElementsAre(0));
}

TEST(Routed, IsFoundHoweverTheConditionIsWritten) {
  const auto neither = [](ScalarBuilder& b, Scalar place, Scalar named, Scalar term) {
    return b.select(b.bit_or(b.lt(place, named), b.lt(named, place)), b.constant(Dtype::F32, 0), term);
  };
  EXPECT_TRUE(routed_of(RoutedProducts{.choice = neither}.spec()));
  const auto widened = [](ScalarBuilder& b, Scalar place, Scalar named, Scalar term) {
    return test::chosen(b, b.convert(place, Dtype::I64), b.convert(named, Dtype::I64), term);
  };
  EXPECT_TRUE(routed_of(RoutedProducts{.choice = widened}.spec()));
}

TEST(Routed, IsNoneWhereMoreThanTheIndexDecides) {
  const auto positive = [](ScalarBuilder& b, Scalar place, Scalar named, Scalar term) {
    const Scalar zero = b.constant(Dtype::F32, 0);
    return b.select(b.bit_and(b.eq(place, named), b.lt(zero, term)), term, zero);
  };
  EXPECT_FALSE(routed_of(RoutedProducts{.choice = positive}.spec()));
  const auto below = [](ScalarBuilder& b, Scalar place, Scalar named, Scalar term) {
    return b.select(b.lt(place, named), term, b.constant(Dtype::F32, 0));
  };
  EXPECT_FALSE(routed_of(RoutedProducts{.choice = below}.spec())) << "several terms";
  const auto other_than_zero = [](ScalarBuilder& b, Scalar place, Scalar named, Scalar term) {
    return b.select(b.eq(place, named), term, b.constant(Dtype::F32, 1));
  };
  EXPECT_FALSE(routed_of(RoutedProducts{.choice = other_than_zero}.spec()));
  const auto narrowed = [](ScalarBuilder& b, Scalar place, Scalar named, Scalar term) {
    return test::chosen(b, b.convert(place, Dtype::U8), b.convert(named, Dtype::U8), term);
  };
  EXPECT_FALSE(routed_of(RoutedProducts{.choice = narrowed}.spec())) << "3 and 259 are one as bytes";
}

TEST(Routed, IsNoneWhereAllTermsAreOneFold) {
  EXPECT_FALSE(routed_of(RoutedProducts{.is_shared = true}.spec()));
  EXPECT_FALSE(routed_of(test::element_of_each_row(7, 20, false))) << "nothing is folded: a gather";
  EXPECT_FALSE(routed_of(RoutedProducts{.is_one_row = true}.spec())) << "a term is the same at all places";
}

TEST(Routed, IsNoneWhereOutputsAreNotByPlace) {
  EXPECT_FALSE(routed_of(RoutedProducts{.exports_terms = true}.spec()));
  EXPECT_FALSE(routed_of(RoutedProducts{.exports_shift = true}.spec()));
}

/// Rows of X find their expert by a sum of their own: Y[b] = sum e: e == (sum j: P[b,j]) ? (sum i: W[e,i] * X[b,i]) : 0
TEST(Routed, IsNoneWhereTheNameHasToBeComputed) {
  SpecBuilder s;
  const Expression b = s.axis(5), e = s.axis(4), i = s.axis(9), j = s.axis(3);
  const int w = s.slot(36), x = s.slot(45), p = s.slot(15, Dtype::I64);
  const int name = s.value({0}, {3}, Monoid::Add, {s.load(p, b * 3 + j)},
                           [](ScalarBuilder&, std::span<const Scalar> v) { return v[0]; });
  const int product = s.value({0, 1}, {2}, Monoid::Add, {s.load(w, e * 9 + i), s.load(x, b * 9 + i)},
                              [](ScalarBuilder& f, std::span<const Scalar> v) { return f.mul(v[0], v[1]); });
  const int sum =
      s.value({0}, {1}, Monoid::Add, {SpecBuilder::number(e), s.read(name), s.read(product)},
              [](ScalarBuilder& f, std::span<const Scalar> v) { return test::chosen(f, v[0], v[1], v[2]); });
  s.output(sum, b, 5);
  EXPECT_FALSE(routed_of(s.plain()));
}

TEST(Routed, WorkIsThatOfTheTermsThatAreNamed) {
  const auto work = [](int64_t blocks, int64_t experts) {
    return work_of(
        RoutedProducts{.blocks = blocks, .rows = 1, .experts = experts, .out = 100, .in = 1000}.spec(), {});
  };
  const Work few = work(4, 8), more = work(4, 64), all = work(100, 64);
  EXPECT_DOUBLE_EQ(few.flops, more.flops);
  EXPECT_DOUBLE_EQ(few.bytes_read, more.bytes_read);
  EXPECT_NEAR(all.flops, 25 * more.flops, 0.01 * all.flops);
  EXPECT_NEAR(all.bytes_read, 16 * more.bytes_read, 0.1 * all.bytes_read) << "64 experts, not 100 blocks";
}

}  // namespace
}  // namespace luminal::kernel
