#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "base/threads.h"
#include "luminal/error.h"
#include "luminal/scalar_math.h"
#include "scalar/interpreter.h"
#include "support/effort.h"

namespace luminal {
namespace {

constexpr uint64_t kMathSeed = 20240607;
const math::Function& function(std::string_view name) {
  for (const math::Function& f : math::functions())
    if (f.name == name) return f;
  throw InternalError("no such function");
}

ScalarInterpreter lowered(const math::Function& f, Dtype dtype) {
  ScalarBuilder b;
  std::vector<Scalar> inputs;
  for (int i = 0; i < f.arity; ++i) inputs.push_back(b.input(i, dtype));
  return ScalarInterpreter(b.finish(f.lower(b, inputs)));
}

/// The exact result as nearly as C's library gives it in the wider type W.
template <class W>
using Reference = W (*)(W);
template <class W>
Reference<W> reference_of(std::string_view name) {
  const std::pair<std::string_view, Reference<W>> all[] = {
      {"exp2", [](W x) { return std::exp2(x); }},      {"exp", [](W x) { return std::exp(x); }},
      {"expm1", [](W x) { return std::expm1(x); }},    {"log2", [](W x) { return std::log2(x); }},
      {"log", [](W x) { return std::log(x); }},        {"log1p", [](W x) { return std::log1p(x); }},
      {"sin", [](W x) { return std::sin(x); }},        {"cos", [](W x) { return std::cos(x); }},
      {"tan", [](W x) { return std::tan(x); }},        {"tanh", [](W x) { return std::tanh(x); }},
      {"erf", [](W x) { return std::erf(x); }},        {"sqrt", [](W x) { return std::sqrt(x); }},
      {"rsqrt", [](W x) { return 1 / std::sqrt(x); }}, {"reciprocal", [](W x) { return 1 / x; }},
  };
  for (const auto& [known, f] : all)
    if (known == name) return f;
  throw InternalError("no reference for this function");
}

/// Distance of `got` from `want` in units of the last place of want's binade. Results that are not finite
/// must agree in kind, zeros in sign; rounding to infinity is an error of the distance to 2^(largest exponent
/// + 1).
template <class T, class W>
double ulp_error(T got, W want) {
  using Limits = std::numeric_limits<T>;
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got) ? 0 : 1e30;
  if (std::isinf(want)) return static_cast<W>(got) == want ? 0 : 1e30;
  if (want == 0 || got == 0) {
    if (std::signbit(want) != std::signbit(got)) return 1e30;
  }
  const W beyond = std::ldexp(W{1}, Limits::max_exponent);
  if (std::fabs(want) >= beyond) return std::isinf(got) && std::signbit(got) == std::signbit(want) ? 0 : 1e30;
  const W value = std::isinf(got) ? std::copysign(beyond, static_cast<W>(got)) : static_cast<W>(got);
  const int exponent =
      std::max(want == 0 ? Limits::min_exponent : std::ilogb(want) + 1, Limits::min_exponent);
  return static_cast<double>(std::fabs(value - want) / std::ldexp(W{1}, exponent - Limits::digits));
}

template <class T>
struct Worst {
  double ulp = 0;
  T x = 0, y = 0, got = 0;
  void take(double error, T at, T at_y, T result) {
    if (error > ulp) *this = {error, at, at_y, result};
  }
};

template <class T, class W>
Worst<T> worst_error(const math::Function& f, const std::vector<T>& x, const std::vector<T>& y) {
  const ScalarInterpreter run = lowered(f, dtype_of<T>());
  std::vector<T> out(x.size());
  const void* inputs[] = {x.data(), y.data()};
  void* outputs[] = {out.data()};
  run(static_cast<int64_t>(x.size()), inputs, {}, outputs);
  Worst<T> worst;
  const Reference<W> one_argument = f.arity == 1 ? reference_of<W>(f.name) : nullptr;
  for (size_t i = 0; i < x.size(); ++i) {
    const T second = y.empty() ? T{0} : y[i];
    const W want = f.arity == 2 ? std::pow(W{x[i]}, W{second}) : one_argument(W{x[i]});
    worst.take(ulp_error(out[i], want), x[i], second, out[i]);
  }
  return worst;
}

template <class T>
std::vector<T> specials() {
  using L = std::numeric_limits<T>;
  std::vector<T> values;
  for (const T v : {T(0),    L::denorm_min(), L::min(), L::epsilon(), L::epsilon() / 4,
                    T(0.25), T(0.5),          T(0.7),   T(0.78),      T(0.785398163397448),
                    T(1),    T(1.5),          T(2),     T(3),         T(10),
                    T(20),   T(88),           T(89),    T(104),       T(128),
                    T(150),  T(709.5),        T(746),   T(1024),      T(1080),
                    T(1e10), T(1e22),         L::max(), L::infinity()})
    for (const T w : {v, std::nextafter(v, T(0)), std::nextafter(v, L::infinity())})
      for (const T s : {w, -w}) values.push_back(s);
  values.push_back(L::quiet_NaN());
  return values;
}

/// Random bit patterns reach every exponent; values around 1 and around the multiples of pi/2 are where most
/// of the trouble is.
template <class T>
std::vector<T> dense_sample(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<T> values = specials<T>();
  std::uniform_real_distribution<T> around_one(T(-2), T(2)), moderate(T(-120), T(120)),
      wide(T(-1100), T(1100));
  while (values.size() < count) {
    const uint64_t bits = random();
    if constexpr (sizeof(T) == 4)
      values.push_back(std::bit_cast<T>(static_cast<uint32_t>(bits)));
    else
      values.push_back(std::bit_cast<T>(bits));
    values.push_back(around_one(random));
    values.push_back(moderate(random));
    values.push_back(wide(random));
    values.push_back(static_cast<T>(1.57079632679489661923L * static_cast<long double>(bits % 100000)));
    values.push_back(T(1) + std::ldexp(around_one(random), -static_cast<int>(bits % 50)));
    values.push_back(std::ldexp(around_one(random), -static_cast<int>(bits % 40)));
  }
  return values;
}

class EveryFunction : public testing::TestWithParam<math::Function> {};

TEST_P(EveryFunction, F32WithinItsBound) {
  const math::Function f = GetParam();
  std::vector<float> x = dense_sample<float>(200000, kMathSeed), y;
  if (f.arity == 2) GTEST_SKIP() << "see Pow";
  const auto worst = worst_error<float, double>(f, x, y);
  EXPECT_LE(worst.ulp, f.ulp_f32) << f.name << "(" << worst.x << ") = " << worst.got << ", seed "
                                  << kMathSeed;
  RecordProperty("ulp", std::to_string(worst.ulp));
}

TEST_P(EveryFunction, F64WithinItsBound) {
  if (std::numeric_limits<long double>::digits < 64)
    GTEST_SKIP() << "long double is no wider than double here";
  const math::Function f = GetParam();
  std::vector<double> x = dense_sample<double>(200000, kMathSeed), y;
  if (f.arity == 2) GTEST_SKIP() << "see Pow";
  const auto worst = worst_error<double, long double>(f, x, y);
  EXPECT_LE(worst.ulp, f.ulp_f64) << f.name << "(" << worst.x << ") = " << worst.got << ", seed "
                                  << kMathSeed;
  RecordProperty("ulp", std::to_string(worst.ulp));
}

INSTANTIATE_TEST_SUITE_P(Math, EveryFunction,
                         testing::ValuesIn(math::functions().begin(), math::functions().end()),
                         [](const auto& p) { return std::string(p.param.name); });

/// All values of a 16-bit type: computed in f32 and rounded once, so hardly more than half a unit off.
template <class Half>
void expect_half_functions(double epsilon, double least_normal) {
  std::vector<Half> x(0x10000), out(x.size());
  for (uint32_t i = 0; i < 0x10000; ++i) x[i].bits = static_cast<uint16_t>(i);
  for (const math::Function& f : math::functions()) {
    if (f.arity != 1) continue;
    const void* inputs[] = {x.data()};
    void* outputs[] = {out.data()};
    lowered(f, dtype_of<Half>())(0x10000, inputs, {}, outputs);
    for (size_t i = 0; i < x.size(); ++i) {
      const double want = reference_of<double>(f.name)(static_cast<float>(x[i]));
      const double got = static_cast<float>(out[i]);
      const double unit = epsilon * std::max(least_normal, std::exp2(std::floor(std::log2(std::fabs(want)))));
      const bool overflow = std::isinf(got) && std::fabs(want) >= 65000;
      const bool near =
          std::isnan(want) ? std::isnan(got) : (want == got || std::fabs(got - want) <= 0.501 * unit);
      ASSERT_TRUE(near || (overflow && std::signbit(got) == std::signbit(want)))
          << f.name << "(" << static_cast<float>(x[i]) << ") = " << got << ", not " << want;
    }
  }
}

TEST(HalfFunctions, F16) { expect_half_functions<float16>(0x1p-10, 0x1p-14); }
TEST(HalfFunctions, Bf16) { expect_half_functions<bfloat16>(0x1p-7, 0x1p-126); }

/// pow where it is finite, at its limits, near 1 with large exponents, and at integers.
template <class T>
void pow_sample(std::vector<T>& x, std::vector<T>& y) {
  std::mt19937_64 random(kMathSeed);
  std::uniform_real_distribution<T> unit(T(-1), T(1));
  const T most = std::numeric_limits<T>::max_exponent;
  const std::vector<T> edge = specials<T>();
  for (const T a : edge)
    for (const T b : edge) x.push_back(a), y.push_back(b);
  for (int i = 0; i < 200000; ++i) {
    const T base = std::exp2(most * unit(random));
    const T near_one = 1 + std::ldexp(unit(random), -static_cast<int>(random() % 30));
    const T exponent = T(1.02) * most * unit(random);
    x.push_back(base), y.push_back(exponent / std::log2(base));  // results over the whole range
    x.push_back(near_one), y.push_back(exponent / std::log2(near_one));
    x.push_back(20 * unit(random)), y.push_back(static_cast<T>(static_cast<int>(random() % 61) - 30));
    x.push_back(10 * unit(random)), y.push_back(5 * unit(random));
  }
}

TEST(Pow, F32WithinItsBound) {
  std::vector<float> x, y;
  pow_sample(x, y);
  const math::Function& f = function("pow");
  const auto worst = worst_error<float, double>(f, x, y);
  EXPECT_LE(worst.ulp, f.ulp_f32) << "pow(" << worst.x << ", " << worst.y << ") = " << worst.got;
  RecordProperty("ulp", std::to_string(worst.ulp));
}

TEST(Pow, F64WithinItsBound) {
  if (std::numeric_limits<long double>::digits < 64)
    GTEST_SKIP() << "long double is no wider than double here";
  std::vector<double> x, y;
  pow_sample(x, y);
  const math::Function& f = function("pow");
  const auto worst = worst_error<double, long double>(f, x, y);
  EXPECT_LE(worst.ulp, f.ulp_f64) << "pow(" << worst.x << ", " << worst.y << ") = " << worst.got;
  RecordProperty("ulp", std::to_string(worst.ulp));
}

/// A few million doubles, seconds a function; in make test-full.
/// --gtest_filter='*Doubles*'
TEST_P(EveryFunction, ManyDoubles) {
  if (!effort::full_effort()) GTEST_SKIP() << "part of make test-full";
  const math::Function f = GetParam();
  if (f.arity == 2 || std::numeric_limits<long double>::digits < 64) GTEST_SKIP();
  const auto worst = worst_error<double, long double>(f, dense_sample<double>(4000000, kMathSeed + 1), {});
  std::printf("%s: at most %.3f ulp, at %a\n", std::string(f.name).c_str(), worst.ulp, worst.x);
  EXPECT_LE(worst.ulp, f.ulp_f64) << f.name << "(" << worst.x << ") = " << worst.got;
}

/// The nearest float is at most half a unit off: nothing to measure, and most results are that.
void take_unless_nearest(Worst<float>& worst, float x, float got, double want) {
  if (got == static_cast<float>(want) && want != 0) return worst.take(0.5, x, 0, got);
  if (std::isnan(got) && std::isnan(want)) return;
  worst.take(ulp_error(got, want), x, 0, got);
}

/// Every float there is. Minutes, so not in the default run:
/// LUMINAL_TEST_FULL=1 test_scalar --gtest_filter='*AllFloats*'
TEST_P(EveryFunction, AllFloats) {
  if (!effort::full_effort()) GTEST_SKIP() << "part of make test-full";
  const math::Function f = GetParam();
  if (f.arity == 2) GTEST_SKIP() << "too many pairs";
  const ScalarInterpreter run = lowered(f, Dtype::F32);
  const Reference<double> reference = reference_of<double>(f.name);
  constexpr int64_t kPiece = 1 << 14;
  std::mutex lock;
  Worst<float> worst;
  parallel_for((int64_t{1} << 32) / kPiece, 64, [&](int64_t begin, int64_t end) {
    std::vector<float> x(kPiece), out(kPiece);
    Worst<float> here;
    for (int64_t piece = begin; piece < end; ++piece) {
      for (int64_t i = 0; i < kPiece; ++i)
        x[static_cast<size_t>(i)] = std::bit_cast<float>(static_cast<uint32_t>(piece * kPiece + i));
      const void* inputs[] = {x.data()};
      void* outputs[] = {out.data()};
      run(kPiece, inputs, {}, outputs);
      for (size_t i = 0; i < x.size(); ++i) take_unless_nearest(here, x[i], out[i], reference(x[i]));
    }
    const std::lock_guard guard(lock);
    worst.take(here.ulp, here.x, 0, here.got);
  });
  std::printf("%s: at most %.3f ulp, at %a\n", std::string(f.name).c_str(), worst.ulp,
              static_cast<double>(worst.x));
  std::fflush(stdout);
  EXPECT_LE(worst.ulp, f.ulp_f32) << f.name << "(" << worst.x << ") = " << worst.got;
}

}  // namespace
}  // namespace luminal
