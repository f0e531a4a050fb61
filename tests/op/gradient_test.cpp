#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "luminal/autograd.h"
#include "op/op_case.h"
#include "support/effort.h"

/// Gradients of every differentiable op, and gradients of those gradients, against central differences in
/// f64.
namespace luminal::op_test {
namespace {

const std::vector<Shape> kGradientShapes = {{}, {4}, {2, 3}, {"a", 2}, {2, "a", 2}};
const DimMap kGradientSizes = {{"a", 3}};

using Interval = std::pair<double, double>;
constexpr Interval kIntervals[] = {{-1.9, -1.1}, {-0.9, -0.3}, {0.3, 0.9}, {1.1, 1.9}, {2.2, 2.9}};

double value_at(const Case& one, const std::vector<double>& x) {
  std::vector<TensorData> inputs;
  std::vector<const void*> pointers;
  for (size_t k = 0; k < x.size(); ++k) {
    inputs.emplace_back(one.dtypes[k], std::vector<int64_t>{1});
    write(inputs[k], 0, static_cast<long double>(x[k]));
  }
  for (const TensorData& input : inputs) pointers.push_back(input.bytes.data());
  double out = 0;
  one.op->elementwise(one.dtypes, Dtype::F64)(pointers.data(), &out, 1, one.attributes);
  return out;
}

/// Whether an elementwise op is finite and without kink or jump around a point: a kink's second difference is
/// of the order of the step, a smooth function's of its square.
bool is_smooth_at(const Case& one, const std::vector<double>& x) {
  constexpr double kStep = 1e-3;
  for (size_t k = 0; k < x.size(); ++k) {
    if (one.dtypes[k] == Dtype::Bool) continue;
    std::vector<double> left = x, right = x;
    left[k] -= kStep;
    right[k] += kStep;
    const double a = value_at(one, left), middle = value_at(one, x), b = value_at(one, right);
    if (!(std::fabs(a - 2 * middle + b) < 1e-4) || !(std::fabs(b - a) < 0.05)) return false;
  }
  return true;
}

/// Intervals, one for each input, over which the op is smooth for all combinations of values.
std::vector<std::vector<Interval>> smooth_domains(const Case& one) {
  const size_t inputs = one.dtypes.size();
  std::vector<std::vector<Interval>> domains;
  if (one.op->monoid) return {{{-1.9, 1.9}}};
  size_t combinations = 1;
  for (size_t k = 0; k < inputs; ++k) combinations *= std::size(kIntervals);
  std::mt19937_64 random(3);
  for (size_t choice = 0; choice < combinations; ++choice) {
    std::vector<Interval> domain;
    for (size_t k = 0, rest = choice; k < inputs; ++k, rest /= std::size(kIntervals))
      domain.push_back(kIntervals[rest % std::size(kIntervals)]);
    bool smooth = true;
    for (int trial = 0; trial < 40 && smooth; ++trial) {
      std::vector<double> x;
      for (const auto& [low, high] : domain) x.push_back(std::uniform_real_distribution(low, high)(random));
      smooth = is_smooth_at(one, x);
    }
    if (smooth) domains.push_back(domain);
  }
  return domains;
}

TensorData random_data(Dtype dtype, std::vector<int64_t> dims, Interval interval, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(interval.first, interval.second);
  TensorData data(dtype, std::move(dims));
  for (int64_t i = 0; i < data.element_count(); ++i)
    write(data, i,
          dtype == Dtype::Bool ? Exact(static_cast<Integer>(random() % 2))
                               : Exact(static_cast<long double>(uniform(random))));
  return data;
}

/// The op in a graph, with `level` differentiations behind it: a number, by the op's inputs.
struct Built {
  Graph cx;
  std::vector<GraphTensor> buffers, floats;
  GraphTensor number;
};

/// sum of tensor * fixed random weights
GraphTensor weighted(Graph& cx, const GraphTensor& tensor, uint64_t seed) {
  GraphTensor weights = cx.tensor(tensor.dims(), Dtype::F64);
  weights.set(random_data(Dtype::F64, exec(tensor.dims(), kGradientSizes), {0.5, 1.5}, seed));
  return (tensor * weights).sum();
}

Built build(const Case& one, int level) {
  Built built;
  Graph& cx = built.cx;
  cx.set_device(one.device);
  OpBuilder builder = cx.add_op(*one.op);
  for (const Dtype dtype : one.dtypes) {
    built.buffers.push_back(cx.tensor(buffer_dims(one.view, one.dims), dtype));
    if (dtype == Dtype::F64) built.floats.push_back(built.buffers.back());
    builder.input(viewed(one.view, built.buffers.back(), one.dims));
  }
  for (const auto& [key, value] : one.attributes.entries()) builder.attribute(key, value);
  const GraphTensor result = builder.finish();
  for (const std::string& dim : cx.dim_names()) cx.set_dim(dim, kGradientSizes.at(dim));
  built.number = weighted(cx, result, 11);
  for (int i = 0; i < level; ++i) {
    const auto gradients = cx.run_pass(Autograd(built.floats, built.number));
    GraphTensor sum = weighted(cx, gradients[0], 20);
    for (size_t k = 1; k < gradients.size(); ++k) sum = sum + weighted(cx, gradients[k], 20 + k);
    built.number = sum;
  }
  return built;
}

/// Derivative of level `level`'s number, analytic against differences.
void check_level(const Case& one, int level, const std::vector<Interval>& domain) {
  Built plain = build(one, level), derived = build(one, level);
  std::vector<TensorData> data;
  for (size_t k = 0; k < plain.buffers.size(); ++k)
    data.push_back(random_data(one.dtypes[k], exec(buffer_dims(one.view, one.dims), kGradientSizes),
                               domain[k], one.seed + k));
  std::vector<GraphTensor> gradients = derived.cx.run_pass(Autograd(derived.floats, derived.number));
  retrieve(gradients);
  for (size_t k = 0; k < data.size(); ++k) derived.buffers[k].set(data[k]);
  derived.cx.execute();

  plain.number.retrieve();
  for (size_t k = 0; k < data.size(); ++k) plain.buffers[k].set(data[k]);
  const auto number_with = [&](size_t k, const TensorData& changed) {
    plain.buffers[k].set(changed);
    plain.cx.execute();
    return plain.number.data<double>()[0];
  };
  constexpr double kStep = 1e-5;
  for (size_t k = 0, g = 0; k < data.size(); ++k) {
    if (one.dtypes[k] != Dtype::F64) continue;
    const std::vector<double> gradient = gradients[g++].data<double>();
    for (size_t i = 0; i < gradient.size(); ++i) {
      TensorData left = data[k], right = data[k];
      left.as<double>()[i] -= kStep;
      right.as<double>()[i] += kStep;
      const double difference = (number_with(k, right) - number_with(k, left)) / (2 * kStep);
      if (std::fabs(gradient[i] - difference) <= 1e-6 * (1 + std::fabs(difference))) continue;
      ADD_FAILURE() << one.replay() << "\n  order " << level + 1 << ", input " << k << ", element " << i
                    << ": gradient " << gradient[i] << ", differences give " << difference;
    }
    (void)number_with(k, data[k]);
  }
}

bool is_differentiable(const Case& one) {
  for (const Dtype dtype : one.dtypes)
    if (dtype != Dtype::F64 && dtype != Dtype::Bool) return false;
  std::vector<TensorType> types;
  for (const Dtype dtype : one.dtypes) types.push_back({dtype, {}});
  Attributes attributes = one.attributes;
  attributes.set("axes", std::vector<int64_t>{});
  return std::ranges::find(one.dtypes, Dtype::F64) != one.dtypes.end() &&
         one.op->infer(types, attributes)[0].dtype == Dtype::F64;
}

class OpGradient : public testing::TestWithParam<Driven> {};

TEST_P(OpGradient, MatchesDifferences) {
  const OpDef& op = find_op(GetParam().op);
  if (!op.gradient) GTEST_SKIP() << "no gradient";
  std::vector<Case> cases;
  for (const Case& one : all_cases(op, GetParam().device, kGradientShapes))
    if (is_differentiable(one)) cases.push_back(one);
  ASSERT_FALSE(cases.empty());
  std::vector<Case> chosen;
  const auto wanted = static_cast<size_t>(
      effort::cases(sample_of(GetParam().device, 60), static_cast<int64_t>(cases.size())));
  const size_t stride = std::max<size_t>(1, cases.size() / wanted) | 1U;
  for (size_t i = 0; i < cases.size(); ++i) {
    cases[i].seed = effort::seed(1) + i;
    if (i % stride == effort::seed(1) % stride) chosen.push_back(cases[i]);
  }
  for_each_case(std::getenv("LUMINAL_OP_CASE") != nullptr ? cases : chosen, [](const Case& one) {
    try {
      const auto domains = smooth_domains(one);
      ASSERT_FALSE(domains.empty()) << one.to_string();
      const auto& domain = domains[one.seed % domains.size()];
      for (const int level : {0, 1}) check_level(one, level, domain);
    } catch (const std::exception& error) {
      ADD_FAILURE() << one.replay() << "\n  " << error.what();
    }
  });
}

// What a trait promises in place of a gradient.
TEST_P(OpGradient, ZeroGradientStopsSilently) {
  const OpDef& op = find_op(GetParam().op);
  if (!op.is(Trait::ZeroGradient)) GTEST_SKIP() << "has a gradient";
  EXPECT_FALSE(op.gradient);
  for (const Case& typed : typed_cases(op, GetParam().device)) {
    if (!is_differentiable(typed)) continue;
    Case one = typed;
    one.dims = {3};
    Built built = build(one, 0);
    std::vector<GraphTensor> gradients = built.cx.run_pass(Autograd(built.floats, built.number));
    retrieve(gradients);
    for (size_t k = 0; k < built.buffers.size(); ++k)
      built.buffers[k].set(random_data(one.dtypes[k], {3}, {-2, 2}, k));
    built.cx.execute();
    for (const GraphTensor& gradient : gradients)
      EXPECT_EQ(gradient.data<double>(), (std::vector<double>{0, 0, 0})) << one.replay();
  }
}

INSTANTIATE_TEST_SUITE_P(All, OpGradient, testing::ValuesIn(driven()),
                         [](const auto& test) { return name_of(test.param); });

}  // namespace
}  // namespace luminal::op_test
