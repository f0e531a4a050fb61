#include "kernel/one_term.h"

#include <gtest/gtest.h>

#include "kernel/cost.h"
#include "one_term_specs.h"

// Sums of one term: which are found, and which only look like them.
namespace luminal::kernel {
namespace {

using test::element_of_each_row;
using test::SpecBuilder;
using Scalars = std::span<const Scalar>;
using Body = std::function<Scalar(ScalarBuilder&, Scalars)>;

constexpr int64_t kBeyondI32 = int64_t{1} << 32;

struct Sum {
  Dtype dtype = Dtype::F32, places = Dtype::I64;
  int64_t length = 7, also = 1;
  Monoid monoid = Monoid::Add;
};
/// Y[i] = sum k in `length`, l in `also`: body(k, P[i], A[i,k,l], T[k], i, 2 * k + 1)
SpecParts sum_of(const Body& body, const Sum& sum = {}) {
  SpecBuilder s;
  const Expression i = s.axis(5), k = s.axis(sum.length);
  std::vector<int> reduced{1};
  Expression more = 0;
  if (sum.also > 1) {
    more = s.axis(sum.also);
    reduced.push_back(2);
  }
  const int p = s.slot(5, sum.places), a = s.slot(5 * sum.length * sum.also, sum.dtype),
            t = s.slot(sum.length, Dtype::I64);
  const int y =
      s.value({0}, reduced, sum.monoid,
              {SpecBuilder::number(k), s.load(p, i), s.load(a, (i * sum.length + k) * sum.also + more),
               s.load(t, k), SpecBuilder::number(i), SpecBuilder::number(k * 2 + 1)},
              body);
  s.output(y, i, 5);
  return s.parts();
}
std::optional<OneTerm> term_of(SpecParts parts, MathMode mode = MathMode::Relaxed) {
  const KernelSpec spec = canonical(std::move(parts), {}, mode).spec;
  EXPECT_EQ(spec.values().size(), 1U);
  return one_term_of(spec.values(), 0);
}

Scalar chosen(ScalarBuilder& b, Scalars v) { return test::chosen(b, v[1], v[0], v[2]); }
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
      {.places = Dtype::I32})));
  EXPECT_TRUE(term_of(sum_of([](ScalarBuilder& b, Scalars v) {  // at most and at least
    const Scalar both = b.bit_and(b.le(v[0], v[1]), b.le(v[1], v[0]));
    return b.select(both, v[2], b.constant(Dtype::F32, 0));
  })));
  EXPECT_TRUE(term_of(sum_of(chosen, {.length = kBeyondI32})));
}

TEST(OneTerm, IsMadeOfAProductWithAOneHotRow) {
  EXPECT_TRUE(term_of(sum_of(scaled)));
  EXPECT_TRUE(term_of(sum_of([](ScalarBuilder& b, Scalars v) {
    const Scalar half = b.convert(b.convert(b.eq(v[0], v[1]), Dtype::BF16), Dtype::F32);
    return b.mul(b.mul(v[2], half), v[2]);
  })));
  EXPECT_TRUE(term_of(sum_of([](ScalarBuilder& b, Scalars v) {  // as one_hot says it
    const Scalar other = b.bit_or(b.lt(v[0], v[1]), b.lt(v[1], v[0]));
    return b.mul(v[2], b.convert(b.bit_not(other), Dtype::F32));
  })));
  EXPECT_TRUE(term_of(sum_of(scaled, {.dtype = Dtype::I32}), MathMode::Strict)) << "0 times an integer is 0";
}

TEST(OneTerm, LeavesOtherProductsAsTheyAre) {
  const auto is_product = [](const Body& body, const Sum& sum) {
    const KernelSpec spec = canonical(sum_of(body, sum)).spec;
    const ScalarFunction& made = spec.values()[0].body;
    return made[made.outputs()[0]].op == ScalarOp::Mul;
  };
  EXPECT_TRUE(is_product(scaled, {.also = 3})) << "summed over another axis";
  EXPECT_TRUE(is_product(scaled, {.monoid = Monoid::Max})) << "a maximum";
  EXPECT_TRUE(is_product(
      [](ScalarBuilder& b, Scalars v) { return b.mul(v[2], b.convert(b.lt(v[0], v[1]), Dtype::F32)); }, {}))
      << "of as many as come before";
  EXPECT_FALSE(is_product(scaled, {}));
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
  EXPECT_TRUE(is_none([](ScalarBuilder& b, Scalars v) {
    return b.select(b.ne(v[0], v[1]), b.constant(Dtype::F32, 1), v[2]);
  })) << "the others are 1, said the other way round";
  EXPECT_TRUE(is_none([](ScalarBuilder& b, Scalars v) {
    return b.select(b.eq(v[3], v[1]), v[2], b.constant(Dtype::F32, 0));
  })) << "what a table says of the index";
  EXPECT_TRUE(is_none([](ScalarBuilder& b, Scalars v) {
    return b.select(b.eq(v[4], v[1]), v[2], b.constant(Dtype::F32, 0));
  })) << "the index of the row";
  EXPECT_TRUE(is_none([](ScalarBuilder& b, Scalars v) {
    return b.select(b.eq(v[5], v[1]), v[2], b.constant(Dtype::F32, 0));
  })) << "a multiple of the index";
  EXPECT_FALSE(term_of(sum_of(chosen, {.also = 3}))) << "another axis";
  EXPECT_FALSE(term_of(sum_of(chosen, {.monoid = Monoid::Max}))) << "a maximum";
}

TEST(OneTerm, IsNoneWhereSeveralPlacesAreMeant) {
  const auto is_none = [](const std::function<Scalar(ScalarBuilder&, Scalars)>& others) {
    return !term_of(sum_of([&](ScalarBuilder& b, Scalars v) {
      return b.select(others(b, v), b.constant(Dtype::F32, 0), v[2]);
    }));
  };
  const auto shifted = [](ScalarBuilder& b, Scalar place, int64_t by) {
    return b.add(place, b.constant(Dtype::I64, by));
  };
  EXPECT_TRUE(is_none([&](ScalarBuilder& b, Scalars v) {
    return b.bit_or(b.lt(v[0], v[1]), b.lt(shifted(b, v[1], 3), v[0]));
  })) << "from a place to one behind it";
  EXPECT_TRUE(is_none([&](ScalarBuilder& b, Scalars v) {
    return b.bit_or(b.lt(v[1], v[0]), b.lt(v[0], shifted(b, v[1], -3)));
  })) << "from before a place to it";
  for (const bool is_below : {false, true})
    for (const bool is_turned : {false, true})
      EXPECT_TRUE(is_none([&](ScalarBuilder& b, Scalars v) {
        const Scalar order = is_below ? b.lt(v[0], v[1]) : b.lt(v[1], v[0]);
        return b.bit_or(order, is_turned ? b.eq(v[1], v[0]) : b.eq(v[0], v[1]));
      })) << "all on one side of it";
}

// An index that does not fit its type is that of several places.
TEST(OneTerm, IsNoneOfAnIndexThatWraps) {
  const auto narrow = [](Dtype dtype) {
    return [dtype](ScalarBuilder& b, Scalars v) {
      return b.select(b.eq(b.convert(v[0], dtype), v[1]), v[2], b.constant(Dtype::F32, 0));
    };
  };
  EXPECT_TRUE(term_of(sum_of(narrow(Dtype::I32), {.places = Dtype::I32})));
  EXPECT_FALSE(term_of(sum_of(narrow(Dtype::I32), {.places = Dtype::I32, .length = kBeyondI32})));
  EXPECT_FALSE(term_of(sum_of(narrow(Dtype::U8), {.places = Dtype::U8, .length = 300})));
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
