#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "luminal/ops.h"

/// Sums, products, maxima and recurrences along axes of all kinds of shape, by plain loops.
namespace luminal {
namespace {

/// One of the ops: how an element follows the state, in the type in which the op says it computes.
template <class State, class Step>
struct Walked {
  const OpDef& op;
  State start;
  Step step;  ///< of the state, an element of each input
};

/// Integers wrap.
template <class S>
S plus(S a, S b) {
  if constexpr (std::is_integral_v<S>)
    return static_cast<S>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else
    return a + b;
}
template <class S>
S times(S a, S b) {
  if constexpr (std::is_integral_v<S>)
    return static_cast<S>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  else
    return a * b;
}

struct Case {
  std::vector<int64_t> dims;
  int64_t axis;
};
std::vector<Case> cases(const OpDef& op) {
  std::vector<Case> cases{{{1}, 0},
                          {{7, 5000}, 1},       // rows, some at a time
                          {{3, 33'000}, 1},     // in pieces
                          {{100'003}, 0},       // one row of pieces
                          {{40'000, 3}, 0},     // columns of pieces
                          {{2, 40'001, 2}, 1},  // the same twice
                          {{200, 1500}, 0},     // blocks of columns
                          {{30, 70, 9}, 1},     // short ones
                          {{0, 3}, 0},
                          {{3, 0}, 0}};
  if (&op == &kCumsum) {
    cases.push_back({{3000, 3000}, 0});  // more than caches hold
    cases.push_back({{3000, 3001}, 1});  // the same in rows
  }
  return cases;
}

/// Numbers whose sums are exact in f64 in any order, and whose products stay far from the ends of f64.
template <class T>
TensorData numbers(const std::vector<int64_t>& dims, int64_t seed, bool are_factors) {
  TensorData x(dtype_of<T>(), dims);
  for (T& value : x.as<T>()) {
    seed = (seed * 16'807 + 7) % 2'147'483'647;
    if (std::is_integral_v<T>)
      value = static_cast<T>(are_factors ? seed | 1 : seed);
    else if (are_factors)
      value = static_cast<T>(static_cast<float>(seed % 401 + 800) / 1000.0F * (seed % 3 == 0 ? -1.0F : 1.0F));
    else
      value = static_cast<T>(static_cast<float>(seed % 201 - 90) / 16);
  }
  return x;
}

template <class T, class State, class Step>
void expect_walks(const Walked<State, Step>& walked) {
  for (const auto& [dims, axis] : cases(walked.op)) {
    const bool is_sum = walked.op.name == "cumsum" || walked.op.name == "cummax";
    const TensorData x = numbers<T>(dims, 1, !is_sum), y = numbers<T>(dims, 5, false);
    const bool takes_two = walked.op.arity == 2;
    int64_t outer = 1, inner = 1;
    const auto on = static_cast<size_t>(axis);
    for (size_t d = 0; d < dims.size(); ++d)
      if (d != on) (d < on ? outer : inner) *= dims[d];
    for (const bool reverse : {false, true}) {
      std::vector<T> wanted(x.as<T>().size());
      for (int64_t o = 0; o < outer; ++o)
        for (int64_t i = 0; i < inner; ++i) {
          State state = walked.start;
          for (int64_t j = 0; j < dims[on]; ++j) {
            const auto at =
                static_cast<size_t>((o * dims[on] + (reverse ? dims[on] - 1 - j : j)) * inner + i);
            state = walked.step(state, static_cast<State>(x.as<T>()[at]), static_cast<State>(y.as<T>()[at]));
            wanted[at] = static_cast<T>(state);
          }
        }
      std::vector<TensorData> outputs{TensorData(dtype_of<T>(), dims)};
      std::ranges::fill(outputs[0].bytes, std::byte{0xA5});
      std::vector<const TensorData*> inputs{&x};
      if (takes_two) inputs.push_back(&y);
      const Attributes attributes{{"axis", axis}, {"reverse", reverse}};
      const DimMap sizes;
      EvalContext context{inputs, outputs, attributes, sizes, 0};
      walked.op.evaluate(context);
      const auto found = outputs[0].as<T>();
      const auto differs = std::ranges::mismatch(
          found, wanted, [](const T& a, const T& b) { return std::memcmp(&a, &b, sizeof(T)) == 0; });
      EXPECT_EQ(differs.in1 - found.begin(), static_cast<ptrdiff_t>(wanted.size()))
          << fmt::format("the first wrong element of {} of [{}] along {}", walked.op.name,
                         fmt::join(dims, ", "), axis)
          << (reverse ? ", from the end" : "");
    }
  }
}

template <class T>
class Cumulative : public testing::Test {};
using Types = testing::Types<float, double, bfloat16, float16, int64_t, int32_t, uint8_t>;
TYPED_TEST_SUITE(Cumulative, Types);

TYPED_TEST(Cumulative, SumsAreThoseOfALoop) {
  using State = std::conditional_t<std::is_integral_v<TypeParam>, TypeParam, double>;
  expect_walks<TypeParam>(Walked{kCumsum, State{0}, [](State sum, State x, State) { return plus(sum, x); }});
}

TYPED_TEST(Cumulative, ProductsAreThoseOfALoop) {
  using State =
      std::conditional_t<std::is_same_v<TypeParam, float> || std::is_same_v<TypeParam, double>, double,
                         std::conditional_t<std::is_integral_v<TypeParam>, TypeParam, float>>;
  expect_walks<TypeParam>(
      Walked{kCumprod, State{1}, [](State product, State x, State) { return times(product, x); }});
}

TYPED_TEST(Cumulative, MaximaAreThoseOfALoop) {
  using State = std::conditional_t<std::is_integral_v<TypeParam>, TypeParam, double>;
  const State least = std::is_integral_v<TypeParam> ? std::numeric_limits<State>::lowest()
                                                    : -std::numeric_limits<State>::infinity();
  expect_walks<TypeParam>(Walked{kCummax, least, [](State m, State x, State) { return std::max(m, x); }});
}

TYPED_TEST(Cumulative, RecurrencesAreThoseOfALoop) {
  using State = std::conditional_t<std::is_integral_v<TypeParam>, TypeParam, double>;
  expect_walks<TypeParam>(
      Walked{kLinearRecurrence, State{0}, [](State s, State a, State b) { return plus(times(a, s), b); }});
}

/// What `op` makes of a row.
std::vector<float> walked(const OpDef& op, const std::vector<float>& row) {
  const TensorData x = TensorData::of<float>({static_cast<int64_t>(row.size())}, row);
  std::vector<TensorData> outputs{TensorData(Dtype::F32, x.dims)};
  const std::vector<const TensorData*> inputs{&x};
  const Attributes attributes{{"axis", int64_t{0}}, {"reverse", false}};
  const DimMap sizes;
  EvalContext context{inputs, outputs, attributes, sizes, 0};
  op.evaluate(context);
  const auto found = outputs[0].as<float>();
  return {found.begin(), found.end()};
}

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

void expect_row(const OpDef& op, const std::vector<float>& row, const std::vector<float>& wanted) {
  const std::vector<float> found = walked(op, row);
  for (size_t i = 0; i < row.size(); ++i)
    EXPECT_TRUE(found[i] == wanted[i] || (std::isnan(found[i]) && std::isnan(wanted[i])))
        << op.name << " at " << i << ": " << found[i] << ", not " << wanted[i];
}

TEST(CumulativeWalks, InfinitiesAndNaNStayFromWhereTheyStand) {
  expect_row(kCumsum, {1, kInf, 2, -kInf, 3}, {1, kInf, kInf, kNan, kNan});
  expect_row(kCumprod, {2, kInf, -1e-30F, 0, 3}, {2, kInf, -kInf, kNan, kNan});
  expect_row(kCummax, {-kInf, -3, kInf, kNan, 5}, {-kInf, -3, kInf, kNan, kNan});
}

/// A long row is cut into pieces where these can be joined: the maximum, and NaN, of one are those of all behind it.
TEST(CumulativeWalks, WhatStandsInOnePieceReachesAllBehindIt) {
  std::vector<float> row(100'000, -1), greatest(row.size(), -1), wanted(row.size(), -1);
  row[20'000] = 7, row[70'000] = kNan;
  for (size_t i = 20'000; i < row.size(); ++i) wanted[i] = i < 70'000 ? 7 : kNan;
  expect_row(kCummax, row, wanted);
  // Products of a stretch underflow, and what stands before them is infinite.
  std::vector<float> halves(100'000, 0.5F), infinite(halves.size(), kInf);
  halves[0] = kInf;
  expect_row(kCumprod, halves, infinite);
}

}  // namespace
}  // namespace luminal
