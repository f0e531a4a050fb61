// Every node on every type it takes, against plain C++ in wider types: all pairs of special values and random
// ones.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "luminal/scalar.h"
#include "scalar/interpreter.h"

namespace luminal {
namespace {

__extension__ typedef __int128 Wide;
constexpr uint64_t kNodeSeed = 7;

template <class T>
std::vector<T> special_values() {
  using L = std::numeric_limits<T>;
  if constexpr (std::is_integral_v<T>) {
    std::vector<T> values{L::min(), static_cast<T>(L::min() + 1), L::max(), static_cast<T>(L::max() - 1)};
    for (const int v : {0, 1, 2, 3, 5, 7, 8, 9, 31, 32, 63, 64, 100}) {
      values.push_back(static_cast<T>(v));
      values.push_back(static_cast<T>(-v));
    }
    return values;
  } else {
    std::vector<T> values{L::quiet_NaN()};
    for (const T v : {T(0), T(1), T(0.5), T(1.5), T(2.5), T(3), L::min(), L::denorm_min(), L::max(),
                      L::infinity(), T(127.5), T(255.5), T(2147483520.0), T(2147483648.0),
                      T(9223371487098961920.0), T(9223372036854775808.0)})
      for (const T w : {v, -v}) values.push_back(w);
    return values;
  }
}

template <class T>
T random_value(std::mt19937_64& random) {
  const uint64_t bits = random();
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(bits >> (bits % 3 == 0 ? 60 : 0));
  } else {
    if (bits % 2 == 0) return static_cast<T>(static_cast<int64_t>(bits >> 40)) / T(64);
    T value;
    const uint64_t pattern = random();
    std::memcpy(&value, &pattern, sizeof value);
    return value;
  }
}

template <class T>
bool same_bits(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return std::memcmp(&a, &b, sizeof a) == 0;
}

/// Three columns of operands: all triples of specials would be too many, so the third is drawn.
template <class T>
std::vector<std::vector<T>> operand_columns() {
  std::mt19937_64 random(kNodeSeed);
  std::vector<std::vector<T>> columns(3);
  const std::vector<T> special = special_values<T>();
  for (const T a : special)
    for (const T b : special) columns[0].push_back(a), columns[1].push_back(b);
  while (columns[0].size() < 4000)
    columns[0].push_back(random_value<T>(random)), columns[1].push_back(random_value<T>(random));
  while (columns[2].size() < columns[0].size())
    columns[2].push_back(random() % 4 == 0 ? special[random() % special.size()] : random_value<T>(random));
  return columns;
}

template <class T>
uint64_t element_bits(T value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

/// Runs `op` on arrays and, for every operand, on constants (which fold), and compares both with `want`.
template <class T, class R = T, class F>
void expect_node(ScalarOp op, F&& want) {
  SCOPED_TRACE(std::string(name(op)) + " of " + std::string(name(dtype_of<T>())));
  ScalarBuilder b;
  const auto operands = operand_columns<T>();
  const auto stored = [](Dtype d) { return d; };
  ScalarNode node{
      .op = op, .dtype = std::is_same_v<R, bool> ? Dtype::Bool : stored(dtype_of<T>()), .operands = {}};
  for (int k = 0; k < arity(op); ++k) node.operands[static_cast<size_t>(k)] = b.input(k, dtype_of<T>());
  const ScalarInterpreter run(b.finish(b.make(node)));
  using Out = std::conditional_t<std::is_same_v<R, bool>, uint8_t, R>;
  std::vector<Out> out(operands[0].size());
  const void* inputs[] = {operands[0].data(), operands[1].data(), operands[2].data()};
  void* outputs[] = {out.data()};
  run(static_cast<int64_t>(out.size()), inputs, {}, outputs);
  for (size_t i = 0; i < out.size(); ++i) {
    const T x = operands[0][i], y = operands[1][i], z = operands[2][i];
    const Out expected = static_cast<Out>(want(x, y, z));
    ASSERT_TRUE(same_bits(out[i], expected))
        << +out[i] << " for " << +x << ", " << +y << ", " << +z << ", not " << +expected;
    ScalarNode folded = node;
    for (int k = 0; k < arity(op); ++k)
      folded.operands[static_cast<size_t>(k)] =
          b.constant_bits(dtype_of<T>(), element_bits(operands[static_cast<size_t>(k)][i]));
    const ScalarNode& constant = b[b.make(folded)];
    ASSERT_EQ(constant.op, ScalarOp::Constant);
    Out value;
    std::memcpy(&value, &constant.payload, sizeof value);
    ASSERT_TRUE(same_bits(value, expected))
        << "folded: " << +value << " for " << +x << ", " << +y << ", " << +z;
  }
}

template <class T>
class Integers : public testing::Test {};
using IntegerTypes = testing::Types<int8_t, uint8_t, int32_t, int64_t>;
TYPED_TEST_SUITE(Integers, IntegerTypes);

/// Mathematical floor of a / b, from the definition.
Wide floor_quotient(Wide a, Wide b) {
  Wide q = a / b;
  while (b > 0 ? q * b > a : q * b < a) --q;
  return q;
}

TYPED_TEST(Integers, Arithmetic) {
  using T = TypeParam;
  const auto wrap = [](Wide v) { return static_cast<T>(v); };
  expect_node<T>(ScalarOp::Add, [&](T a, T b, T) { return wrap(Wide{a} + b); });
  expect_node<T>(ScalarOp::Sub, [&](T a, T b, T) { return wrap(Wide{a} - b); });
  expect_node<T>(ScalarOp::Mul, [&](T a, T b, T) { return wrap(Wide{a} * b); });
  expect_node<T>(ScalarOp::Neg, [&](T a, T, T) { return wrap(-Wide{a}); });
  expect_node<T>(ScalarOp::Abs, [&](T a, T, T) { return wrap(Wide{a} < 0 ? -Wide{a} : Wide{a}); });
  expect_node<T>(ScalarOp::Minimum, [](T a, T b, T) { return std::min(a, b); });
  expect_node<T>(ScalarOp::Maximum, [](T a, T b, T) { return std::max(a, b); });
  expect_node<T>(ScalarOp::FloorDiv, [&](T a, T b, T) { return b == 0 ? T{0} : wrap(floor_quotient(a, b)); });
  expect_node<T>(ScalarOp::FloorMod,
                 [&](T a, T b, T) { return b == 0 ? T{0} : wrap(a - b * floor_quotient(a, b)); });
}

TYPED_TEST(Integers, Bits) {
  using T = TypeParam;
  using U = std::make_unsigned_t<T>;
  constexpr int kWidth = 8 * sizeof(T);
  expect_node<T>(ScalarOp::And, [](T a, T b, T) { return a & b; });
  expect_node<T>(ScalarOp::Or, [](T a, T b, T) { return a | b; });
  expect_node<T>(ScalarOp::Xor, [](T a, T b, T) { return a ^ b; });
  expect_node<T>(ScalarOp::Not, [](T a, T, T) { return ~a; });
  // Shifting a bit at a time, as far as there are bits.
  const auto steps = [](T amount) {
    return amount < 0 || amount > T(kWidth) ? kWidth : static_cast<int>(amount);
  };
  expect_node<T>(ScalarOp::ShiftLeft, [&](T a, T b, T) {
    U v = static_cast<U>(a);
    for (int i = 0; i < steps(b); ++i) v = static_cast<U>(v + v);
    return v;
  });
  expect_node<T>(ScalarOp::ShiftRightLogical, [&](T a, T b, T) {
    U v = static_cast<U>(a);
    for (int i = 0; i < steps(b); ++i) v = static_cast<U>(v / 2);
    return v;
  });
  expect_node<T>(ScalarOp::ShiftRightArithmetic, [&](T a, T b, T) {
    Wide v = static_cast<std::make_signed_t<T>>(a);
    for (int i = 0; i < steps(b); ++i) v = floor_quotient(v, 2);
    return static_cast<T>(v);
  });
}

TYPED_TEST(Integers, Comparisons) {
  using T = TypeParam;
  expect_node<T, bool>(ScalarOp::Lt, [](T a, T b, T) { return a < b; });
  expect_node<T, bool>(ScalarOp::Le, [](T a, T b, T) { return a <= b; });
  expect_node<T, bool>(ScalarOp::Eq, [](T a, T b, T) { return a == b; });
  expect_node<T, bool>(ScalarOp::Ne, [](T a, T b, T) { return a != b; });
}

template <class T>
class Reals : public testing::Test {};
using RealTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(Reals, RealTypes);

TYPED_TEST(Reals, Arithmetic) {
  using T = TypeParam;
  expect_node<T>(ScalarOp::Add, [](T a, T b, T) { return a + b; });
  expect_node<T>(ScalarOp::Sub, [](T a, T b, T) { return a - b; });
  expect_node<T>(ScalarOp::Mul, [](T a, T b, T) { return a * b; });
  expect_node<T>(ScalarOp::Div, [](T a, T b, T) { return a / b; });
  expect_node<T>(ScalarOp::Fma, [](T a, T b, T c) { return std::fma(a, b, c); });
  expect_node<T>(ScalarOp::Sqrt, [](T a, T, T) { return std::sqrt(a); });
  expect_node<T>(ScalarOp::Remainder, [](T a, T b, T) { return std::fmod(a, b); });
  expect_node<T>(ScalarOp::Neg, [](T a, T, T) { return std::copysign(a, std::signbit(a) ? T(1) : T(-1)); });
  expect_node<T>(ScalarOp::Abs, [](T a, T, T) { return std::copysign(a, T(1)); });
}

TYPED_TEST(Reals, Rounding) {
  using T = TypeParam;
  expect_node<T>(ScalarOp::Floor, [](T a, T, T) { return std::floor(a); });
  expect_node<T>(ScalarOp::RoundEven, [](T a, T, T) {  // from trunc, so not from the rounding mode
    const T whole = std::trunc(a), rest = std::fabs(a - whole);
    const bool up = rest > T(0.5) || (rest == T(0.5) && std::fmod(whole, T(2)) != 0);
    return std::copysign(up ? whole + std::copysign(T(1), a) : whole, a);
  });
}

TYPED_TEST(Reals, MinimumAndMaximumFollowIeee2019) {
  using T = TypeParam;
  const auto pick = [](T a, T b, bool larger) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
    if (a == 0 && b == 0) return std::signbit(a) == larger ? b : a;  // the one with the wanted sign, if any
    return (a > b) == larger ? a : b;
  };
  expect_node<T>(ScalarOp::Minimum, [&](T a, T b, T) { return pick(a, b, false); });
  expect_node<T>(ScalarOp::Maximum, [&](T a, T b, T) { return pick(a, b, true); });
}

TYPED_TEST(Reals, Comparisons) {
  using T = TypeParam;
  expect_node<T, bool>(ScalarOp::Lt, [](T a, T b, T) { return std::isless(a, b); });
  expect_node<T, bool>(ScalarOp::Le, [](T a, T b, T) { return std::islessequal(a, b); });
  expect_node<T, bool>(ScalarOp::Eq,
                       [](T a, T b, T) { return !std::islessgreater(a, b) && !std::isunordered(a, b); });
  expect_node<T, bool>(ScalarOp::Ne,
                       [](T a, T b, T) { return std::islessgreater(a, b) || std::isunordered(a, b); });
}

TEST(Booleans, TruthTables) {
  using Table = std::function<bool(bool, bool)>;
  const std::vector<std::pair<ScalarOp, Table>> tables{
      {ScalarOp::And, [](bool a, bool b) { return a && b; }},
      {ScalarOp::Or, [](bool a, bool b) { return a || b; }},
      {ScalarOp::Xor, [](bool a, bool b) { return a != b; }},
      {ScalarOp::Minimum, [](bool a, bool b) { return a && b; }},
      {ScalarOp::Maximum, [](bool a, bool b) { return a || b; }},
      {ScalarOp::Lt, [](bool a, bool b) { return !a && b; }},
      {ScalarOp::Le, [](bool a, bool b) { return !a || b; }},
      {ScalarOp::Eq, [](bool a, bool b) { return a == b; }},
      {ScalarOp::Ne, [](bool a, bool b) { return a != b; }},
  };
  const uint8_t x[] = {0, 0, 1, 1}, y[] = {0, 1, 0, 1};
  for (const auto& [op, table] : tables) {
    ScalarBuilder b;
    const Scalar p = b.input(0, Dtype::Bool), q = b.input(1, Dtype::Bool);
    const Scalar r = b.make({.op = op, .dtype = Dtype::Bool, .operands = {p, q, Scalar{}}});
    const std::vector<Scalar> results{r, b.bit_not(r)};
    uint8_t out[4], inverse[4];
    const void* inputs[] = {x, y};
    void* outputs[] = {out, inverse};
    ScalarInterpreter(b.finish(results))(4, inputs, {}, outputs);
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(out[i], table(x[i] != 0, y[i] != 0)) << name(op) << " " << +x[i] << +y[i];
      EXPECT_EQ(inverse[i], 1 - out[i]) << name(op);
    }
  }
}

template <class From, class To>
To converted(From a) {
  if constexpr (std::is_same_v<To, bool>) {
    return a != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    const long double t = std::trunc(static_cast<long double>(a));
    if (std::isnan(a)) return 0;
    if (t < static_cast<long double>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    if (t > static_cast<long double>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    return static_cast<To>(t);
  } else if constexpr (std::is_integral_v<From> && std::is_integral_v<To>) {
    return static_cast<To>(static_cast<uint64_t>(static_cast<int64_t>(a)));
  } else if constexpr (std::is_floating_point_v<To>) {
    return static_cast<To>(static_cast<long double>(a));
  }
}

template <class From, class To>
void expect_conversion() {
  ScalarBuilder b;
  const ScalarInterpreter run(b.finish(b.convert(b.input(0, dtype_of<From>()), dtype_of<To>())));
  std::vector<From> x = operand_columns<From>()[0];
  using Out = std::conditional_t<std::is_same_v<To, bool>, uint8_t, To>;
  std::vector<Out> out(x.size());
  const void* inputs[] = {x.data()};
  void* outputs[] = {out.data()};
  run(static_cast<int64_t>(x.size()), inputs, {}, outputs);
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_TRUE(same_bits(out[i], static_cast<Out>(converted<From, To>(x[i]))))
        << name(dtype_of<From>()) << " " << +x[i] << " to " << name(dtype_of<To>()) << " gave " << +out[i];
}

template <class From>
void expect_conversions() {
  expect_conversion<From, float>();
  expect_conversion<From, double>();
  expect_conversion<From, int8_t>();
  expect_conversion<From, uint8_t>();
  expect_conversion<From, int32_t>();
  expect_conversion<From, int64_t>();
  expect_conversion<From, bool>();
}

TEST(Convert, EveryPairOfComputingTypes) {
  if (std::numeric_limits<long double>::digits < 64)
    GTEST_SKIP() << "needs a long double that holds every i64";
  expect_conversions<float>();
  expect_conversions<double>();
  expect_conversions<int8_t>();
  expect_conversions<uint8_t>();
  expect_conversions<int32_t>();
  expect_conversions<int64_t>();
}

/// Sets f16 or bf16 to the neighbour of `x` that is nearest, by search over all of them.
template <class Half>
Half nearest_half(double x) {
  Half best;
  best.bits = 0;
  double best_error = std::numeric_limits<double>::infinity();
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    Half h;
    h.bits = static_cast<uint16_t>(bits);
    const double v = static_cast<double>(static_cast<float>(h));
    if (!std::isfinite(v) || std::signbit(v) != std::signbit(x)) continue;
    const double error = std::fabs(v - x);
    if (error < best_error || (error == best_error && bits % 2 == 0)) best = h, best_error = error;
  }
  return best;
}

template <class Half>
void expect_half_storage() {
  ScalarBuilder b;
  const Dtype half = dtype_of<Half>();
  const Scalar x = b.input(0, half), y = b.input(1, half);
  const std::vector<Scalar> results{b.add(x, y), b.mul(x, y), b.div(x, y)};
  const ScalarInterpreter run(b.finish(results));
  std::mt19937_64 random(kNodeSeed);
  std::uniform_real_distribution<float> values(-200, 200);
  for (int i = 0; i < 40; ++i) {
    const Half p(values(random)), q(values(random));
    Half sum, product, quotient;
    const void* inputs[] = {&p, &q};
    void* outputs[] = {&sum, &product, &quotient};
    run(1, inputs, {}, outputs);
    const double u = static_cast<float>(p),
                 v = static_cast<float>(q);  // exact in double; the quotient nearly
    EXPECT_EQ(sum.bits, nearest_half<Half>(u + v).bits) << u << " + " << v;
    EXPECT_EQ(product.bits, nearest_half<Half>(u * v).bits) << u << " * " << v;
    EXPECT_EQ(quotient.bits, nearest_half<Half>(u / v).bits) << u << " / " << v;
  }
}

TEST(HalfStorage, F16ComputesInF32AndRoundsOnce) { expect_half_storage<float16>(); }
TEST(HalfStorage, Bf16ComputesInF32AndRoundsOnce) { expect_half_storage<bfloat16>(); }

TEST(Bitcast, KeepsEveryBit) {
  ScalarBuilder b;
  const std::vector<Scalar> results{b.bitcast(b.input(0, Dtype::F32), Dtype::I32),
                                    b.bitcast(b.input(1, Dtype::I64), Dtype::F64),
                                    b.bitcast(b.input(2, Dtype::F16), Dtype::BF16)};
  const uint32_t x = 0x7f812345;  // a signalling NaN
  const uint64_t y = 0xfff0000000000001;
  const uint16_t z = 0x7d01;
  uint32_t x_out;
  uint64_t y_out;
  uint16_t z_out;
  const void* inputs[] = {&x, &y, &z};
  void* outputs[] = {&x_out, &y_out, &z_out};
  ScalarInterpreter(b.finish(results))(1, inputs, {}, outputs);
  EXPECT_EQ(x_out, x);
  EXPECT_EQ(y_out, y);
  EXPECT_EQ(z_out, z);
}

struct DivModCase {
  double a, b, quotient, rest;
};
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(FloatFloorDivision, AsNumPy) {
  // What numpy.floor_divide and numpy.mod give (NumPy 2).
  const DivModCase cases[] = {
      {5.5, -2, -3, -0.5},   {-5.5, 2, -3, 0.5},
      {-0.0, 3, -0.0, 0.0},  {0.0, -3, -0.0, -0.0},
      {3, kInf, 0, 3},       {-3, kInf, -1, kInf},
      {1, 0, kInf, kNan},    {-1, 0, -kInf, kNan},
      {0, 0, kNan, kNan},    {1, 0.1, 9, 0.09999999999999995},
      {kInf, 2, kNan, kNan}, {-6, 3, -2, 0},
      {5e-324, -1, -1, -1},
  };
  ScalarBuilder b;
  const Scalar x = b.input(0, Dtype::F64), y = b.input(1, Dtype::F64);
  const std::vector<Scalar> results{b.floor_div(x, y), b.floor_mod(x, y)};
  const ScalarInterpreter run(b.finish(results));
  for (const DivModCase& c : cases) {
    double quotient = 0, rest = 0;
    const void* inputs[] = {&c.a, &c.b};
    void* outputs[] = {&quotient, &rest};
    run(1, inputs, {}, outputs);
    EXPECT_TRUE(same_bits(quotient, c.quotient)) << c.a << " // " << c.b << " gave " << quotient;
    EXPECT_TRUE(same_bits(rest, c.rest)) << c.a << " % " << c.b << " gave " << rest;
  }
}

}  // namespace
}  // namespace luminal
