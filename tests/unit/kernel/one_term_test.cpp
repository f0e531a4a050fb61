#include "kernel/one_term.h"

#include <gtest/gtest.h>

#include "kernel/cost.h"
#include "spec_builder.h"

// Sums of one term: which are found, and which only look like them.
namespace luminal::kernel {
namespace {

using test::SpecBuilder;
using Scalars = std::span<const Scalar>;
using Body = std::function<Scalar(ScalarBuilder&, Scalars)>;

/// Y[i] = sum k in 7 (and l in `also`): body(k, P[i], A[i,k]) with P of `places` and A of `dtype`.
SpecParts sum_of(const Body& body, Dtype dtype = Dtype::F32, Dtype places = Dtype::I64, int64_t also = 1,
                 Monoid monoid = Monoid::Add) {
  SpecBuilder s;
  const Expression i = s.axis(5), k = s.axis(7);
  std::vector<int> reduced{1};
  Expression more = 0;
  if (also > 1) {
    more = s.axis(also);
    reduced.push_back(2);
  }
  const int p = s.slot(5, places), a = s.slot(35 * also, dtype);
  const int y = s.value({0}, reduced, monoid,
                        {SpecBuilder::number(k), s.load(p, i), s.load(a, (i * 7 + k) * also + more)}, body);
  s.output(y, i, 5);
  return s.parts();
}
std::optional<OneTerm> term_of(SpecParts parts, MathMode mode = MathMode::Relaxed) {
  const KernelSpec spec = canonical(std::move(parts), {}, mode).spec;
  EXPECT_EQ(spec.values().size(), 1U);
  return one_term_of(spec.values(), 0);
}

Scalar chosen(ScalarBuilder& b, Scalars v) {
  return b.select(b.eq(v[0], v[1]), v[2], b.constant(b.dtype(v[2]), 0));
}
Scalar scaled(ScalarBuilder& b, Scalars v) { return b.mul(v[2], b.convert(b.eq(v[0], v[1]), b.dtype(v[2]))); }

TEST(OneTerm, IsAChoiceOfZeroWhereAnIndexIsAnother) {
  for (const MathMode mode : {MathMode::Strict, MathMode::Relaxed})
    EXPECT_TRUE(term_of(sum_of(chosen), mode));
  EXPECT_TRUE(term_of(sum_of([](ScalarBuilder& b, Scalars v) {
    return b.select(b.ne(v[1], v[0]), b.constant(Dtype::F32, 0), b.neg(v[2]));
  })));
  EXPECT_TRUE(term_of(sum_of([](ScalarBuilder& b, Scalars v) {  // neither below nor above
    const Scalar other = b.bit_or(b.lt(v[0], v[1]), b.lt(v[1], v[0]));
    return b.select(b.bit_not(other), v[2], b.constant(Dtype::F32, 0));
  })));
  EXPECT_TRUE(term_of(sum_of([](ScalarBuilder& b, Scalars v) {  // and something more
    const Scalar both = b.bit_and(b.lt(b.constant(Dtype::F32, 0), v[2]), b.eq(v[0], v[1]));
    return b.select(both, v[2], b.constant(Dtype::F32, 0));
  })));
  EXPECT_TRUE(term_of(sum_of(
      [](ScalarBuilder& b, Scalars v) {
        return b.select(b.eq(b.convert(v[0], Dtype::I32), v[1]), v[2], b.constant(Dtype::F32, 0));
      },
      Dtype::F32, Dtype::I32)));
}

TEST(OneTerm, IsMadeOfAProductWithAOneHotRow) {
  EXPECT_TRUE(term_of(sum_of(scaled)));
  EXPECT_TRUE(term_of(sum_of([](ScalarBuilder& b, Scalars v) {
    const Scalar half = b.convert(b.convert(b.eq(v[0], v[1]), Dtype::BF16), Dtype::F32);
    return b.mul(b.mul(v[2], half), v[2]);
  })));
  EXPECT_TRUE(term_of(sum_of(scaled, Dtype::I32), MathMode::Strict)) << "0 times an integer is 0";
}

TEST(OneTerm, IsNoneThatOnlyLooksLikeIt) {
  EXPECT_FALSE(term_of(sum_of(scaled), MathMode::Strict)) << "0 times an infinity is NaN";
  const auto is_none = [](const Body& body) { return !term_of(sum_of(body)); };
  EXPECT_TRUE(is_none([](ScalarBuilder& b, Scalars v) {
    return b.select(b.eq(v[0], v[1]), v[2], b.constant(Dtype::F32, 1));
  })) << "the others are 1";
  EXPECT_TRUE(is_none([](ScalarBuilder& b, Scalars v) {
    return b.select(b.ne(v[0], v[1]), v[2], b.constant(Dtype::F32, 0));
  })) << "all but one";
  EXPECT_TRUE(is_none([](ScalarBuilder& b, Scalars v) {
    return b.select(b.le(v[0], v[1]), v[2], b.constant(Dtype::F32, 0));
  })) << "as many as come before";
  EXPECT_TRUE(is_none([](ScalarBuilder& b, Scalars v) {
    const Scalar either = b.bit_or(b.lt(b.constant(Dtype::F32, 0), v[2]), b.eq(v[0], v[1]));
    return b.select(either, v[2], b.constant(Dtype::F32, 0));
  })) << "or something else";
  EXPECT_TRUE(is_none([](ScalarBuilder& b, Scalars v) {
    const Scalar other = b.bit_or(b.lt(v[0], v[1]), b.lt(v[0], v[1]));
    return b.select(b.bit_not(other), v[2], b.constant(Dtype::F32, 0));
  })) << "not below, perhaps above";
  EXPECT_TRUE(is_none([](ScalarBuilder& b, Scalars v) {
    return b.select(b.eq(v[0], b.mul(v[0], v[1])), v[2], b.constant(Dtype::F32, 0));
  })) << "a place that depends on the index";
  EXPECT_TRUE(is_none([](ScalarBuilder& b, Scalars v) {
    return b.add(v[2], b.convert(b.eq(v[0], v[1]), Dtype::F32));
  })) << "a summand";
  EXPECT_TRUE(is_none([](ScalarBuilder& b, Scalars v) {
    return b.select(b.eq(b.mul(v[0], v[0]), v[1]), v[2], b.constant(Dtype::F32, 0));
  })) << "no index";
  EXPECT_FALSE(term_of(sum_of(chosen, Dtype::F32, Dtype::I64, 3))) << "another axis";
  EXPECT_FALSE(term_of(sum_of(chosen, Dtype::F32, Dtype::I64, 1, Monoid::Max))) << "a maximum";
}

/// Y[i] = sum k: k == P[i] ? (sum l: A[k,l]) : 0. What stands inside of the sum depends on its axis.
TEST(OneTerm, IsNoneOverAnotherReduction) {
  SpecBuilder s;
  const Expression i = s.axis(5), k = s.axis(7), l = s.axis(3);
  const int p = s.slot(5, Dtype::I64), a = s.slot(21);
  const int inner =
      s.value({1}, {2}, Monoid::Max, {s.load(a, k * 3 + l)}, [](ScalarBuilder&, Scalars v) { return v[0]; });
  const int y = s.value({0}, {1}, Monoid::Add, {SpecBuilder::number(k), s.load(p, i), s.read(inner)}, chosen);
  s.output(y, i, 5);
  const KernelSpec spec = s.finish().spec;
  for (size_t v = 0; v < spec.values().size(); ++v) EXPECT_FALSE(one_term_of(spec.values(), v));
}

TEST(OneTerm, SaysThePlace) {
  const SpecParts parts = sum_of([](ScalarBuilder& b, Scalars v) {
    const Scalar place = b.add(v[1], b.constant(Dtype::I64, 2));
    return b.select(b.eq(place, v[0]), v[2], b.constant(Dtype::F32, 0));
  });
  const auto term = term_of(parts);
  ASSERT_TRUE(term);
  EXPECT_EQ(term->place.nodes().size(), 3U) << term->place.to_string();
  EXPECT_EQ(term->place[term->place.outputs()[0]].op, ScalarOp::Add);
}

/// Y[i] = sum k: k == P[i] ? A[i,k] : 0, beside the sum of each row if `more`.
KernelSpec element_of_each_row(int64_t rows, int64_t length, bool more) {
  SpecBuilder s;
  const Expression i = s.axis(rows), k = s.axis(length);
  const int p = s.slot(rows, Dtype::I64), a = s.slot(rows * length);
  const Operand element = s.load(a, i * length + k);
  int y = s.value({0}, {1}, Monoid::Add, {SpecBuilder::number(k), s.load(p, i), element}, chosen);
  if (more) {
    const int sum = s.value({0}, {1}, Monoid::Add, {element}, [](ScalarBuilder&, Scalars v) { return v[0]; });
    y = s.value({0}, {}, std::nullopt, {s.read(y), s.read(sum)},
                [](ScalarBuilder& b, Scalars v) { return b.add(v[0], v[1]); });
  }
  s.output(y, i, rows);
  return s.finish().spec;
}

TEST(OneTerm, CostsWhatItReads) {
  constexpr int64_t kRows = 100, kLength = 5000;
  constexpr double kPlaces = 8 * kRows, kElements = 4 * kRows, kAll = 4.0 * kRows * kLength;
  const Work alone = work_of(element_of_each_row(kRows, kLength, false), {});
  EXPECT_EQ(alone.bytes_read, kPlaces + kElements);
  EXPECT_LT(alone.operations, 20 * kRows);
  const Work beside = work_of(element_of_each_row(kRows, kLength, true), {});
  EXPECT_EQ(beside.bytes_read, kPlaces + kAll);
  EXPECT_LT(beside.operations, kRows * (kLength + 30.0));
}

}  // namespace
}  // namespace luminal::kernel
