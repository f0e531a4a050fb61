#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "luminal/autograd.h"
#include "luminal/error.h"
#include "luminal/graph.h"

/// How the tests of the high-level ops compute and compare.
namespace luminal::composite_test {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// The value of `x`, computed now.
template <class T = double>
std::vector<T> run(GraphTensor x) {
  x.retrieve();
  Graph graph = x.graph();
  graph.execute();
  return x.data<T>();
}

/// Equal values, NaN with NaN, or within `relative` of the wanted value (and `absolute` of it).
inline ::testing::AssertionResult near(const std::vector<double>& got, const std::vector<double>& wanted,
                                       double relative = 1e-6, double absolute = 0) {
  if (got.size() != wanted.size())
    return ::testing::AssertionFailure() << got.size() << " values instead of " << wanted.size();
  for (size_t i = 0; i < got.size(); ++i) {
    const bool same = got[i] == wanted[i] || (std::isnan(got[i]) && std::isnan(wanted[i])) ||
                      std::abs(got[i] - wanted[i]) <= relative * std::abs(wanted[i]) + absolute;
    if (!same)
      return ::testing::AssertionFailure() << "value " << i << " is " << got[i] << ", not " << wanted[i];
  }
  return ::testing::AssertionSuccess();
}

/// Random values, the same for one seed.
inline std::vector<float> random_values(int64_t count, uint32_t seed, float low = -1, float high = 1) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> draw(low, high);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = draw(engine);
  return values;
}

inline GraphTensor input(Graph& cx, Shape dims, const std::vector<float>& values) {
  return cx.tensor(std::move(dims)).set(values);
}
inline GraphTensor input64(Graph& cx, Shape dims, const std::vector<double>& values) {
  return cx.tensor(std::move(dims), Dtype::F64).set(values);
}

/// The gradient of the sum of `y` by `x`.
inline std::vector<double> slope(Graph& cx, const GraphTensor& x, const GraphTensor& y) {
  return run(cx.run_pass(Autograd({x}, y.sum())).at(0));
}

/// The message of the error that `action` throws.
template <class E>
std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("an error of another type: ") + error.what();
  }
  return "no error";
}

}  // namespace luminal::composite_test
