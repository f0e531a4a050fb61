#include "luminal/expression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "luminal/error.h"
#include "luminal/number.h"
#include "oracle.h"

namespace luminal {
namespace {

using testing::HasSubstr;

Expression index(int axis, const Expression& extent) { return Expression::index(axis, extent); }

template <class E, class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  return "no error";
}

TEST(Expression, PrintsCanonically) {
  const Expression s = "s", t = "t", u = "u", i = index(0, 4), j = index(1, s);
  const std::pair<Expression, const char*> cases[] = {
      {(s * 4 + 2) / 2, "2*s + 1"},
      {(2 * s) / 2, "s"},
      {s / 2 * 2, "2*(s/2)"},
      {s % -3, "-(-s%3)"},
      {s / -3, "-s/3"},
      {s - s, "0"},
      {(s + t) * (s - t), "s*s - t*t"},
      {s - t, "s - t"},
      {3 - s, "3 - s"},
      {-s - 1, "-s - 1"},
      {t * s + s * t, "2*s*t"},
      {(s * t) / u, "s*t/u"},  // not s*(t/u)
      {(s + 5) / 3, "(s + 2)/3 + 1"},
      {s / 2 / 3, "s/6"},
      {(s / 2 + 1) / 3, "(s + 2)/6"},
      {s % 12 % 4, "s%4"},
      {s % 12 / 4, "s/4%3"},
      {(6 * s + 5) % 4, "2*(3*s%2) + 1"},
      {s.lt(5) & s.lt(3), "s < 3"},
      {s.gte(2), "s >= 2"},
      {s.lt(t), "s < t"},
      {s.gte(t), "t <= s"},
      {(3 * s).lt(10), "s < 4"},
      {(s / 4).lt(3), "s < 12"},
      {(s / 4).gte(3), "s >= 12"},
      {s.lt(5).lt(1), "s >= 5"},
      {s.min(t).min(s), "min(s, t)"},
      {s.min(7).min(9), "min(7, s)"},
      {(s - 2).min(s), "s - 2"},
      {s.max(0), "s"},
      {(s - 1).max(0), "max(0, s - 1)"},
      {s.ceil_div(4), "(s + 3)/4"},
      {Expression::flat_index() % 8, "z%8"},
      {6 * i + j, "6*i0 + i1"},
  };
  for (const auto& [e, text] : cases) EXPECT_EQ(e.to_string(), text);
}

TEST(Expression, FactsDecide) {
  const Expression b = Expression::dim("batch", {.min = 1, .multiple_of = 4}), s = "s";
  EXPECT_EQ(b / 4 * 4, b);
  EXPECT_EQ(b % 4, 0);
  EXPECT_EQ((b + 3) % 4, 3);
  EXPECT_EQ((b * s) % 4, 0);
  EXPECT_EQ((b + s) / 4, b / 4 + s / 4);
  EXPECT_EQ(b / b, 1);
  EXPECT_EQ(2 * (b / 4), b / 2);
  EXPECT_EQ(b.range(), (Range{4, INT64_MAX}));  // the least multiple of 4 that is at least 1
  EXPECT_EQ((s + 1).range(), (Range{1, INT64_MAX}));
  EXPECT_EQ((4 * b * s).divisor(), 16);
  EXPECT_EQ((s % 7).range(), (Range{0, 6}));
  EXPECT_EQ(Expression().divisor(), 0);
}

TEST(Expression, UnknownFactsDecideNothing) {
  const Expression s = "s", t = "t", v = Expression::dim("v", {.min = -5, .max = 5});
  EXPECT_EQ((s / s).to_string(), "s/s");        // 0/0 at s = 0
  EXPECT_EQ((s * t / t).to_string(), "s*t/t");  // the same at t = 0
  EXPECT_EQ(v.max(0).to_string(), "max(0, v{-5..5})");
  EXPECT_EQ((v / 8).to_string(), "v{-5..5}/8");  // 0 or -1
  EXPECT_EQ((v * v).range().min, 0);
  EXPECT_NE(Expression("s"), Expression::dim("s", {.min = 1}));
}

TEST(Expression, IndexVariablesKnowTheirExtents) {
  const Expression n = "n", s = "s", t = "t";
  const Expression i = index(0, n), j = index(1, s), k = index(2, t);
  EXPECT_EQ((i * s + j) / s, i);
  EXPECT_EQ((i * s + j) % s, j);
  EXPECT_EQ((i * s * t + j * t + k) / (s * t), i);
  EXPECT_EQ((i * s * t + j * t + k) / t % s, j);
  EXPECT_EQ((i * (s + 2) + j) / (s + 2), i);
  EXPECT_EQ((i * (s + 2) + j + 1) % (s + 2), j + 1);
  EXPECT_EQ(j.lt(s), 1);
  EXPECT_EQ(j.gte(s), 0);
  EXPECT_EQ((i * s + j).lt(n * s), 1);
  EXPECT_EQ((s - 1 - j).gte(0), 1);
  EXPECT_EQ((j / s), 0);
  EXPECT_EQ(s * (Expression::flat_index() / s) + Expression::flat_index() % s, Expression::flat_index());
  EXPECT_EQ(index(3, 1), 0);
  EXPECT_TRUE(Expression::known_less(i * s + j, n * s));
  EXPECT_FALSE(Expression::known_less(i * s + j, n * s - 1));
  EXPECT_TRUE(Expression::known_less_equal(i * s + j, n * s - 1));
  // A pooling window stays inside at every size: w*2 + 3*k < N.
  const Expression windows = ((n - 7) / 2 + 1).max(0);
  EXPECT_TRUE(Expression::known_less(index(0, windows) * 2 + index(1, 3) * 3, n));
}

/// What stays below a factor of the divisor decides nothing.
TEST(Expression, QuotientsOfNestedIndices) {
  const Expression s = "s", d = "d", z = Expression::flat_index();
  const Expression i = index(0, 64), j = index(1, 24), k = index(2, s), l = index(3, 8);
  const std::pair<Expression, Expression> cases[] = {
      {(24 * i + j) / 192, i / 8},
      {(24 * i + j) % 192, 24 * (i % 8) + j},
      {(24 * i + j) / 192 * 192 + (24 * i + j) % 192, 24 * i + j},
      {(192 * i + 8 * j + l) / (192 * 16), i / 16},
      {(192 * i + 8 * j + l) % (192 * 16), 192 * (i % 16) + 8 * j + l},
      {(24 * z - 24 * i + j) / 192, (z - i) / 8},
      {(24 * i - j + 23) / 48, i / 2},
      {(6 * i + l / 4) / 4, 3 * i / 2},
      {(s * i + k) / (s * d), i / d},
      {(s * i + k) % (s * d), s * (i % d) + k},
      {(8 * s * i + 8 * k + l) / (64 * s), i / 8},
      {((s + 2) * i + index(4, s + 2)) / ((s + 2) * d), i / d},
      {(24 * z + l) / (8 * s), 3 * z / s},
      {k / (s * d), 0},
      {(-k - 1) / s, -1},
      {(-s * i - k - 1) % s, s - 1 - k},
      {(s * i - k - 1) / (s * d), (i - 1) / d},
      {(24 * i + j).gte(24), i.gte(1)},
      {(24 * i + j).lt(24 * s), i.lt(s)},
      {(24 * i + 8 * z + l).lt(48), (3 * i + z).lt(6)},
      {(s * i + k).gte(s), i.gte(1)},
      {(s * i + k).lt(s * d), i.lt(d)},
      {(s * i + k).lt(3 * s), i.lt(3)},
  };
  for (const auto& [e, wanted] : cases) EXPECT_EQ(e, wanted) << e.to_text() << " is not " << wanted.to_text();
  const Expression u = Expression::dim("u", {.multiple_of = 4});
  EXPECT_EQ(u / 4 / s, u / (4 * s));
  // One more than fits, a divisor that shares no factor, a sign that nobody knows.
  EXPECT_EQ(((24 * i + j + 1) / 192).to_string(), "(24*i0 + i1 + 1)/192");
  EXPECT_EQ(((24 * i - j) / 192).to_string(), "(24*i0 - i1)/192");
  EXPECT_EQ(((25 * i + j) / 192).to_string(), "(25*i0 + i1)/192");
  const Expression v = Expression::dim("v", {.min = -5, .max = 5});
  EXPECT_EQ(((s * i + k) / (s * v)).to_string(), "(s*i0 + i2)/(s*v{-5..5})");
}

TEST(Expression, NegativeNumbersFloor) {
  EXPECT_EQ(Expression(-7) / 2, -4);
  EXPECT_EQ(Expression(-7) % 2, 1);
  EXPECT_EQ(Expression(7) / -2, -4);
  EXPECT_EQ(Expression(7) % -2, -1);
  EXPECT_EQ(Expression(-7).ceil_div(2), -3);
  EXPECT_EQ((Expression("s") % -3).exec({{"s", 7}}), -2);
  EXPECT_EQ((-Expression("s") / 4).exec({{"s", 5}}), -2);
}

TEST(Expression, Values) {
  const Expression s = "s", b = "batch";
  EXPECT_EQ((s * 4).exec({{"s", 17}}), 68);
  EXPECT_EQ((s + index(1, 9)).exec({{"s", 1}}, std::vector<int64_t>{0, 5}), 6);
  EXPECT_EQ((Expression::flat_index() / 2).exec({{"z", 9}}), 4);
  EXPECT_DOUBLE_EQ((s / 4 + 1).exec_float({{"s", 2.0}}), 1.5);
  EXPECT_EQ(Expression(5).to_usize(), 5u);
  EXPECT_EQ(Expression(-5).to_usize(), std::nullopt);
  EXPECT_EQ(s.to_usize(), std::nullopt);
  EXPECT_EQ((s * b + s).to_symbols(), (std::set<std::string>{"batch", "s"}));
  EXPECT_EQ((index(3, s) + index(1, 7)).to_indices(), (std::set<int>{1, 3}));
  EXPECT_EQ((s * b).substitute("s", b + 1), b * b + b);
  EXPECT_EQ(index(0, s).substitute("s", 1), 0);
  EXPECT_EQ(to_string(Shape{b, 784}), "[batch, 784]");
  EXPECT_EQ(element_count(Shape{b, 2, 3}), 6 * b);
  // What a sum cannot hold on the way does not matter if the result fits.
  EXPECT_EQ((s * 3 - s * 2).exec({{"s", INT64_MAX}}), INT64_MAX);
  EXPECT_EQ((s + b - 1).exec({{"s", INT64_MAX}, {"batch", 1}}), INT64_MAX);
}

TEST(Expression, AffineForm) {
  const Expression s = "s", i = index(0, 8), j = index(1, s);
  const auto affine = (s * i + 3 * j + s - 2).as_affine();
  ASSERT_TRUE(affine);
  EXPECT_EQ(affine->constant, s - 2);
  EXPECT_EQ(affine->coefficients.at(0), s);
  EXPECT_EQ(affine->coefficients.at(1), 3);
  EXPECT_FALSE((i * j).as_affine());
  EXPECT_FALSE((i / 2).as_affine());
  EXPECT_TRUE((s / 2 + i).as_affine());
}

TEST(Expression, ErrorsNameWhatIsWrong) {
  const Expression s = "seq", b = Expression::dim("b", {.min = 1, .max = 64, .multiple_of = 4});
  EXPECT_THAT(message_of<Error>([&] { (void)s.exec({{"sequ", 3}}); }),
              HasSubstr("dim 'seq' has no value; did you mean 'sequ'?"));
  EXPECT_THAT(message_of<Error>([&] { (void)(7 / (s - 3)).exec({{"seq", 3}}); }),
              HasSubstr("division by zero in 7/(seq - 3)"));
  EXPECT_THAT(message_of<Error>([&] { (void)b.exec({{"b", 6}}); }), HasSubstr("dim 'b' is 6"));
  EXPECT_THAT(message_of<Error>([&] { (void)(s * s).exec({{"seq", int64_t{1} << 32}}); }),
              HasSubstr("does not fit in 64 bits"));
  EXPECT_THAT(message_of<Error>([&] { (void)(Expression(INT64_MAX) + 1); }),
              HasSubstr("does not fit in 64 bits"));
  EXPECT_THAT(message_of<Error>([&] { (void)Expression("i3"); }), HasSubstr("name of an index variable"));
  EXPECT_THAT(message_of<Error>([&] { (void)Expression("a b"); }), HasSubstr("cannot name a dim"));
  EXPECT_THAT(message_of<Error>([&] { (void)Expression::dim("d", {.min = 3, .max = 2}); }),
              HasSubstr("above max 2"));
  EXPECT_THAT(message_of<Error>([&] { (void)Expression::dim("d", {.min = 1, .max = 3, .multiple_of = 4}); }),
              HasSubstr("no multiple of 4"));
  EXPECT_THAT(message_of<Error>([&] { (void)(Expression(1) / 0).exec(); }), HasSubstr("division by zero"));
  EXPECT_THAT(message_of<Error>([&] { (void)(s + index(2, 4)).exec({{"seq", 1}}); }),
              HasSubstr("i2 has no value"));
}

TEST(Expression, DeepFormulasAreRefusedNotCrashed) {
  Expression e = "s";
  EXPECT_THROW(for (int k = 0; k < 100000; ++k) e = (e / 2 + Expression("t")) % 7, Error);
}

TEST(Expression, HugeProductsStayCorrect) {
  Expression product = 1;
  DimMap at;
  int64_t want = 1;
  for (int k = 0; k < 12; ++k) {
    const std::string name = "d" + std::to_string(k);
    product *= Expression(name) + 1;
    at[name] = 1 + k % 2;
    want *= 2 + k % 2;
  }
  EXPECT_EQ(product.exec(at), want);
}

TEST(Number, KeepsBitsAndReadsBack) {
  EXPECT_EQ(Number(int64_t{9007199254740993}).as<int64_t>(), 9007199254740993);
  EXPECT_EQ(Number(0.5).to_string(), "0.5");
  EXPECT_EQ(Number(3).to_string(), "3");
  EXPECT_EQ(Number(3.0).to_string(), "3.0");
  EXPECT_EQ(Number(-INFINITY).to_string(), "-inf");
  EXPECT_EQ(Number(NAN).to_string(), "nan");
  EXPECT_EQ(Number(1e300).as<int32_t>(), INT32_MAX);
  EXPECT_EQ(Number(-INFINITY).as<int64_t>(), INT64_MIN);
  EXPECT_EQ(Number(NAN).as<int>(), 0);
  EXPECT_EQ(Number(-1).as<float>(), -1.0f);
  EXPECT_NE(Number(1), Number(1.0));
  EXPECT_NE(Number(0.0), Number(-0.0));
  EXPECT_EQ(Number(NAN), Number(NAN));
  EXPECT_EQ(Number(2.5).hash(), Number(2.5).hash());
}

TEST(Interner, ThreadsAgreeOnNodes) {
  // All threads build the same formulas, in different order; equal content must be one node.
  constexpr int kThreads = 4, kCount = 400;
  const auto variables = oracle::dims_and_indices();
  std::vector<std::vector<Expression>> made(kThreads, std::vector<Expression>(kCount));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int k = 0; k < kCount; ++k) {
        const int at = t % 2 == 0 ? k : kCount - 1 - k;
        oracle::Random random(static_cast<uint64_t>(at));
        const auto tree = random.tree(variables, 4);
        made[static_cast<size_t>(t)][static_cast<size_t>(at)] = build(*tree, variables);
      }
    });
  for (std::thread& t : threads) t.join();
  for (int t = 1; t < kThreads; ++t) EXPECT_EQ(made[static_cast<size_t>(t)], made[0]);
}

// What was substituted before is remembered by what it was replaced with.
TEST(Expression, IndicesAreSubstitutedByWhatIsGiven) {
  const Expression i = Expression::index(0, 8), j = Expression::index(1, 16), k = Expression::index(2, 4);
  const Expression formula = i * 16 + j % 4 + k / 2;
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(formula.substitute_indices(std::vector{j, i, k}), j * 16 + i % 4 + k / 2);
    EXPECT_EQ(formula.substitute_indices(std::vector{i, j, Expression(3)}), i * 16 + j % 4 + 1);
    EXPECT_EQ(formula.substitute_indices(std::vector{i, j}), formula) << "what is not given stays";
    EXPECT_EQ(formula.substitute_indices(std::vector{i, k}), i * 16 + k % 4 + k / 2);
    EXPECT_EQ(i.substitute_indices(std::vector{k}), k);
    EXPECT_EQ(k.substitute_indices(std::vector{i}), k);
  }
  Expression many = 0, shifted = 0;  // more axes than are remembered
  std::vector<Expression> next;
  for (int axis = 0; axis < 9; ++axis) {
    many += Expression::index(axis, 10) * (axis + 1);
    shifted += Expression::index(axis + 1, 10) * (axis + 1);
    next.push_back(Expression::index(axis + 1, 10));
  }
  EXPECT_EQ(many.substitute_indices(next), shifted);
}

}  // namespace
}  // namespace luminal
