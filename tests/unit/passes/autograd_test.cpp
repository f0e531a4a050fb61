#include "luminal/autograd.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "gradient_check.h"
#include "luminal/ops.h"
#include "luminal/passes.h"

namespace luminal {
namespace {

using test::Argument;
using test::expect_gradients;
using test::gradient_of;
using Doubles = std::vector<double>;
using Tensors = std::vector<GraphTensor>;

TEST(Autograd, ReturnsOneGradientForEachParameterInOrder) {
  Graph cx;
  auto w = cx.tensor({2, 3}).set({{1, 2, 3}, {4, 5, 6}});
  auto b = cx.tensor({3}).set({10, 20, 30});
  auto loss = (w * b).sum();
  auto gradients = cx.run_pass(Autograd({b, w}, loss));
  ASSERT_EQ(gradients.size(), 2U);
  retrieve(gradients);
  cx.execute();
  EXPECT_EQ(gradients[0].data<float>(), (std::vector<float>{5, 7, 9}));
  EXPECT_EQ(gradients[1].data<float>(), (std::vector<float>{10, 20, 30, 10, 20, 30}));
  EXPECT_EQ(gradients[1].type(), w.type());
}

TEST(Autograd, UnreachableParametersGetZeros) {
  Graph cx;
  auto x = cx.tensor({2}).set({1, 2}), unused = cx.tensor({2, 2}, Dtype::F64).set({{1, 2}, {3, 4}});
  auto detached = cx.tensor({2}).set({5, 6});
  auto loss = (x * detached.stop_gradient() + x.floor()).sum();
  auto gradients = cx.run_pass(Autograd({x, unused, detached}, loss));
  retrieve(gradients);
  cx.execute();
  EXPECT_EQ(gradients[0].data<float>(), (std::vector<float>{5, 6}));  // floor gives nothing
  EXPECT_EQ(gradients[1].data<double>(), Doubles(4, 0));
  EXPECT_EQ(gradients[1].type(), unused.type());
  EXPECT_EQ(gradients[2].data<float>(), (std::vector<float>{0, 0}));
}

TEST(Autograd, SumsOverAllReadersOfAValue) {
  Graph cx;
  auto x = cx.tensor({3}, Dtype::F64).set({1, 2, 3});
  auto shared = x * x;
  auto loss = (shared + shared.flip(0) * 2 + shared.slice({{0, 1}}).expand({3})).sum() + x.sum();
  auto gradient = cx.run_pass(Autograd({x}, loss))[0].retrieve();
  cx.execute();
  // d/dx of 3 x^2 everywhere, and 3 x0^2 more for the first, and x.
  EXPECT_EQ(gradient.data<double>(), (Doubles{13, 13, 19}));
}

TEST(Autograd, LossOfSeveralElementsStandsForItsSum) {
  Graph cx;
  auto x = cx.tensor({2, 2}, Dtype::F64).set({{1, 2}, {3, 4}});
  auto loss = (x * x).t().slice({{0, 1}, {0, 2}});  // a view of the squares: column 0 of x
  auto gradient = cx.run_pass(Autograd({x}, loss))[0].retrieve();
  cx.execute();
  EXPECT_EQ(gradient.data<double>(), (Doubles{2, 0, 6, 0}));
}

TEST(Autograd, ParameterMayBeComputedOrTheLossItself) {
  Graph cx;
  auto x = cx.tensor({2}, Dtype::F64).set({3, 5});
  auto hidden = x * 2;
  auto loss = (hidden * hidden).sum();
  auto gradients = cx.run_pass(Autograd({hidden, x, loss}, loss));
  retrieve(gradients);
  cx.execute();
  EXPECT_EQ(gradients[0].data<double>(), (Doubles{12, 20}));
  EXPECT_EQ(gradients[1].data<double>(), (Doubles{24, 40}));
  EXPECT_EQ(gradients[2].data<double>(), (Doubles{1}));
}

TEST(Autograd, ParameterThatIsAViewGetsTheSameView) {
  Graph cx;
  auto w = cx.tensor({2, 3}, Dtype::F64).set({{1, 2, 3}, {4, 5, 6}});
  auto transposed = w.t(), padded = w.pad({{1, 0}, {0, 0}}, 9);
  auto loss = (w * w).sum();
  auto gradients = cx.run_pass(Autograd({transposed, padded}, loss));
  retrieve(gradients);
  cx.execute();
  EXPECT_EQ(gradients[0].data<double>(), (Doubles{2, 8, 4, 10, 6, 12}));
  EXPECT_EQ(gradients[1].data<double>(), (Doubles{0, 0, 0, 2, 4, 6, 8, 10, 12}));
}

TEST(Autograd, VisitsOnlyWhatLiesBetweenParametersAndLoss) {
  Graph cx;
  auto x = cx.tensor({4}), w = cx.tensor({4});
  auto expensive = x;
  for (int i = 0; i < 50; ++i) expensive = expensive.sin();
  auto loss = (expensive * w).sum();
  const size_t before = cx.node_count();
  (void)cx.run_pass(Autograd({w}, loss));
  EXPECT_LT(cx.node_count() - before,
            8U);  // a seed, the product's gradient, its views: nothing for the sines
}

TEST(Autograd, NodesOfAGradientKnowWhereTheyComeFrom) {
  Graph cx;
  auto x = cx.tensor({4});
  auto loss = x.exp2().sum();
  const uint32_t line = __LINE__ - 1;
  auto gradient = cx.run_pass(Autograd({x}, loss))[0];
  const Origin& origin = *cx.node(gradient.node()).origin;
  EXPECT_EQ(origin.ops.back(), "gradient");
  EXPECT_EQ(origin.file, "autograd_test.cpp");
  EXPECT_EQ(origin.line, line);
}

TEST(Autograd, GradientHasTheDtypeOfItsParameter) {
  Graph cx;
  auto half = cx.tensor({2}, Dtype::F16).set({1, 2});
  auto single = cx.tensor({2}).set({3, 4});
  auto loss = (half.cast(Dtype::F32) * single).sum().cast(Dtype::F64);
  auto gradients = cx.run_pass(Autograd({half, single}, loss));
  retrieve(gradients);
  cx.execute();
  EXPECT_EQ(gradients[0].dtype(), Dtype::F16);
  EXPECT_EQ(gradients[1].dtype(), Dtype::F32);
  EXPECT_EQ(gradients[0].data<float>(), (std::vector<float>{3, 4}));
  EXPECT_EQ(gradients[1].data<float>(), (std::vector<float>{1, 2}));
}

TEST(Autograd, GradientsSurviveTheGenericPassesOfTheSameTuple) {
  Graph cx;
  auto x = cx.tensor({3}, Dtype::F64).set({1, 2, 3});
  auto loss = (x * 1.0 + 0.0).square().sum();
  auto [gradients, unused] = cx.run_pass(std::tuple(Autograd({x}, loss), GenericPasses()));
  gradients[0].retrieve();
  cx.execute();
  EXPECT_EQ(gradients[0].data<double>(), (Doubles{2, 4, 6}));
}

TEST(Autograd, EveryDegreeOfDerivative) {
  Graph cx;
  auto x = cx.tensor({3}, Dtype::F64).set({0.5, -1, 2});
  GraphTensor derivative = x.square() * x.square() * x;  // x^5
  for (int degree = 0; degree < 5; ++degree) derivative = cx.run_pass(Autograd({x}, derivative))[0];
  derivative.retrieve();
  cx.execute();
  EXPECT_THAT(derivative.data<double>(), testing::Each(testing::DoubleEq(120)));
}

TEST(Autograd, DynamicDims) {
  Graph cx;
  auto x = cx.tensor({"n", 3}, Dtype::F64);
  auto w = cx.tensor({3, 2}, Dtype::F64).set({{1, 2}, {3, 4}, {5, 6}});
  auto loss = x.matmul(w).square().sum();
  auto gradients = cx.run_pass(Autograd({x, w}, loss));
  retrieve(gradients);
  for (const int64_t n : {1, 4, 7}) {
    Doubles values(static_cast<size_t>(n * 3));
    for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<double>(i));
    x.set_dyn(values, {n, 3});
    cx.execute();
    const double weights[3][2] = {{1, 2}, {3, 4}, {5, 6}};
    Doubles dx(values.size(), 0), dw(6, 0);
    for (int64_t i = 0; i < n; ++i)
      for (int j = 0; j < 2; ++j) {
        double y = 0;
        for (int k = 0; k < 3; ++k) y += values[static_cast<size_t>(i * 3 + k)] * weights[k][j];
        for (int k = 0; k < 3; ++k) {
          dx[static_cast<size_t>(i * 3 + k)] += 2 * y * weights[k][j];
          dw[static_cast<size_t>(k * 2 + j)] += 2 * y * values[static_cast<size_t>(i * 3 + k)];
        }
      }
    EXPECT_THAT(gradients[0].data<double>(), testing::Pointwise(testing::DoubleNear(1e-12), dx))
        << "n = " << n;
    EXPECT_THAT(gradients[1].data<double>(), testing::Pointwise(testing::DoubleNear(1e-12), dw))
        << "n = " << n;
  }
}

// --- What earlier systems got silently wrong

TEST(Autograd, MaxPoolWhoseInputIsComputedElsewhereToo) {
  const auto function = [](Graph&, const Tensors& in) {
    const GraphTensor hidden = in[0].sin();
    return max_pool2d(hidden, {.kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}}) + hidden * 2;
  };
  expect_gradients({{{1, 2, 5, 4}}}, function);
}

TEST(Autograd, MaxPoolGivesTheGradientToTheFirstOfEqualMaxima) {
  Graph cx;
  auto x = cx.tensor({1, 1, 2, 2}, Dtype::F64).set(Doubles{1, 1, 1, 1});
  auto gradient = cx.run_pass(Autograd({x}, max_pool2d(x)))[0].retrieve();
  cx.execute();
  EXPECT_EQ(gradient.data<double>(), (Doubles{1, 0, 0, 0}));
}

/// Over any axes, beside a loop over the elements in row-major order.
TEST(Autograd, TheFirstOfEqualMaximaIsTheFirstInRowMajorOrder) {
  constexpr int64_t kA = 3, kB = 4, kC = 5;
  Doubles values;
  for (int64_t i = 0; i < kA * kB * kC; ++i)
    values.push_back(static_cast<double>(i * i % 7));  // many are equal
  const std::vector<std::vector<int>> lists{{0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}, {0, 1, 2}};
  for (const std::vector<int>& axes : lists) {
    const auto is_reduced = [&](int axis) { return std::ranges::find(axes, axis) != axes.end(); };
    std::map<std::vector<int64_t>, int64_t> first;  // by row
    for (int64_t i = 0; i < kA * kB * kC; ++i) {
      std::vector<int64_t> row{i / (kB * kC), i / kC % kB, i % kC};
      for (int axis = 0; axis < 3; ++axis)
        if (is_reduced(axis)) row[static_cast<size_t>(axis)] = 0;
      const auto [known, fresh] = first.emplace(row, i);
      if (!fresh && values[static_cast<size_t>(i)] > values[static_cast<size_t>(known->second)])
        known->second = i;
    }
    Doubles expected(values.size(), 0);
    for (const auto& [row, winner] : first) expected[static_cast<size_t>(winner)] = 1;
    for (const bool is_named : {false, true}) {
      Graph cx;
      auto x = cx.tensor({is_named ? Expression::dim("a") : Expression(kA), kB, kC}, Dtype::F64);
      auto gradient = cx.run_pass(Autograd({x}, x.max(axes, false, Ties::First)))[0].retrieve();
      if (is_named)
        x.set_dyn(values, {kA, kB, kC});
      else
        x.set(values);
      cx.execute();
      EXPECT_EQ(gradient.data<double>(), expected) << testing::PrintToString(axes) << is_named;
    }
  }
}

TEST(Autograd, ProductWithZeros) {
  Graph cx;
  auto x = cx.tensor({3, 3}, Dtype::F64).set({{2, 0, 3}, {0, 0, 5}, {2, 3, 4}});
  auto gradient = cx.run_pass(Autograd({x}, x.prod(1)))[0].retrieve();
  cx.execute();
  EXPECT_EQ(gradient.data<double>(), (Doubles{0, 6, 0, 0, 0, 0, 12, 8, 6}));
}

TEST(Autograd, OverlappingPoolAtSymbolicSizes) {
  Graph cx;
  auto x = cx.tensor({Expression::dim("n", {.min = 5})}, Dtype::F64);
  auto windows = x.pool_last_dim(3, 2, 2);  // x[2w], x[2w + 2], x[2w + 4]
  auto loss = (windows * windows * windows).sum();
  auto gradient = cx.run_pass(Autograd({x}, loss))[0].retrieve();
  for (const size_t n : {5U, 6U, 9U, 12U}) {
    Doubles values(n), expected(n, 0);
    for (size_t i = 0; i < n; ++i) values[i] = static_cast<double>(i) - 3;
    for (size_t w = 0; 2 * w + 4 < n; ++w)
      for (const size_t k : {0U, 2U, 4U}) expected[2 * w + k] += 3 * values[2 * w + k] * values[2 * w + k];
    x.set_dyn(values, {static_cast<int64_t>(n)});
    cx.execute();
    EXPECT_EQ(gradient.data<double>(), expected) << "n = " << n;
  }
}

TEST(Autograd, RowThatIsMaskedWholeHasFiniteGradientsElsewhere) {
  Graph cx;
  constexpr double kInf = std::numeric_limits<double>::infinity();
  auto x = cx.tensor({2, 2}, Dtype::F64).set({{1, 2}, {3, 4}});
  auto mask = cx.tensor({2, 2}, Dtype::F64).set({{0.0, 0.0}, {-kInf, -kInf}});
  auto loss = ((x + mask).softmax(-1) * x.stop_gradient()).slice({{0, 1}, {0, 2}}).sum();
  auto gradient = cx.run_pass(Autograd({x}, loss))[0].retrieve();
  cx.execute();
  const double p = 1 / (1 + std::exp(1.0)), q = 1 - p, mean = p * 1 + q * 2;
  EXPECT_NEAR(gradient.data<double>()[0], p * (1 - mean), 1e-12);
  EXPECT_NEAR(gradient.data<double>()[1], q * (2 - mean), 1e-12);
}

// --- Against finite differences

TEST(AutogradDifferences, Convolution) {
  const auto conv = [](Graph&, const Tensors& in) {
    return conv2d(in[0], in[1], {.stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}, .groups = 2});
  };
  expect_gradients({{{2, 4, 5, 6}}, {{2, 2, 3, 2}}}, conv);
  expect_gradients({{{1, 2, 4, 5}}, {{2, 1, 2, 2}}}, gradient_of(conv));
}

TEST(AutogradDifferences, Pooling) {
  expect_gradients({{{1, 2, 5, 6}}}, [](Graph&, const Tensors& in) { return max_pool2d(in[0]); });
  const auto overlapping = [](Graph&, const Tensors& in) {
    return avg_pool2d(in[0].square(), {.kernel = {3, 2}, .stride = {1, 2}, .padding = {1, 1}});
  };
  expect_gradients({{{1, 2, 5, 6}}}, overlapping);
  expect_gradients({{{1, 1, 4, 3}}}, gradient_of(overlapping));
}

TEST(AutogradDifferences, Normalisation) {
  expect_gradients({{{3, 4}}}, [](Graph&, const Tensors& in) { return in[0].softmax(-1); });
  expect_gradients({{{3, 4}}}, [](Graph&, const Tensors& in) { return in[0].log_softmax({0, 1}); });
  expect_gradients({{{3, 4}}}, [](Graph&, const Tensors& in) { return in[0].layer_norm(-1); });
  expect_gradients({{{2, 3}}}, gradient_of([](Graph&, const Tensors& in) { return in[0].layer_norm(-1); }));
  expect_gradients({{{2, 3}}}, gradient_of([](Graph&, const Tensors& in) { return in[0].softmax(0); }));
}

TEST(AutogradDifferences, Reductions) {
  expect_gradients({{{3, 4}}}, [](Graph&, const Tensors& in) { return in[0].prod(0); });
  expect_gradients({{{3, 4}}}, [](Graph&, const Tensors& in) { return in[0].max(1) + in[0].min(Axes()); });
  expect_gradients({{{3, 4}}}, [](Graph&, const Tensors& in) { return in[0].cumsum(0) * in[0].cumprod(1); });
  expect_gradients({{{3, 4}}}, [](Graph&, const Tensors& in) { return in[0].cummax(1); });
  expect_gradients({{{2, 5}}}, gradient_of([](Graph&, const Tensors& in) { return in[0].cumprod(1); }));
  expect_gradients({{{5, 2}}},
                   gradient_of([](Graph&, const Tensors& in) { return in[0].cumprod(0).square(); }));
  expect_gradients({{{3, 4}}},
                   gradient_of([](Graph&, const Tensors& in) { return in[0].cummax(0) * in[0].cumsum(1); }));
  expect_gradients(
      {{{3, 4}}}, [](Graph&, const Tensors& in) { return in[0].var(1) + in[0].std(1) + in[0].logsumexp(1); });
  expect_gradients({{{2, 3}}}, gradient_of([](Graph&, const Tensors& in) { return in[0].prod(1); }));
}

TEST(AutogradDifferences, WalksAlongAnAxis) {
  for (const OpDef* op : {&kCumsum, &kCumprod, &kCummax, &kLinearRecurrence})
    for (const bool reverse : {false, true})
      for (const int64_t axis : {0, 1}) {
        const auto function = [=](Graph& cx, const Tensors& in) {
          auto node = cx.add_op(*op);
          for (int i = 0; i < op->arity; ++i) node.input(in[static_cast<size_t>(i)]);
          return node.attribute("axis", axis).attribute("reverse", reverse).finish();
        };
        const std::vector<Argument> arguments(static_cast<size_t>(op->arity), Argument{{4, 3}});
        SCOPED_TRACE(op->name);
        expect_gradients(arguments, function);
        expect_gradients(arguments, gradient_of(function));
      }
}

TEST(AutogradDifferences, Gather) {
  const auto function = [](Graph& cx, const Tensors& in) {
    auto index = cx.iota(Expression::flat_index() * 5 % 7, {4, 3});
    auto rows = cx.iota(Expression::flat_index() % 3, {4});
    return in[0].gather(index).square() + in[0].index_select(0, rows).sum(1, true);
  };
  expect_gradients({{{3, 4}}}, function);
  expect_gradients({{{3, 4}}}, gradient_of(function));
}

TEST(AutogradDifferences, Products) {
  expect_gradients({{{2, 1, 3, 4}}, {{3, 4, 2}}},
                   [](Graph&, const Tensors& in) { return in[0].matmul(in[1]); });
  expect_gradients({{{2, 3, 4}}, {{2, 3, 4}}, {{2, 3, 4}}}, [](Graph&, const Tensors& in) {
    return attention(in[0], in[1], in[2], {.causal = true});
  });
  expect_gradients({{{3, 2}}, {{2, 3}}},
                   gradient_of([](Graph&, const Tensors& in) { return in[0].matmul(in[1]).tanh(); }));
}

TEST(AutogradDifferences, ConcatPadSliceAndExpand) {
  const auto function = [](Graph&, const Tensors& in) {
    auto joined = concat({in[0].square(), in[1].t(), in[0].flip(1)}, 0);
    return joined.pad({{1, 2}, {0, 1}}, 3).slice({{1, 6}, {0, 4}}) * in[1].slice_along(0, 0, 3, 2).sum();
  };
  expect_gradients({{{2, 3}}, {{3, 2}}}, function);
  expect_gradients({{{2, 3}}, {{3, 2}}}, gradient_of(function));
}

// --- Random composite expressions

/// Applies random differentiable ops to rank-2 tensors and keeps values in a range where all of them are
/// smooth.
GraphTensor random_expression(Graph& cx, const Tensors& in, uint64_t seed, int steps) {
  std::mt19937_64 random(seed);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  Tensors pool = in;
  using Step = std::function<GraphTensor(const GraphTensor&, const GraphTensor&)>;
  const std::vector<Step> steps_of = {
      [](auto& a, auto&) { return a.tanh(); },
      [](auto& a, auto&) { return a.sin() + a.cos(); },
      [](auto& a, auto&) { return (a.tanh() + 2).log() + (a.tanh() + 1.5).sqrt(); },
      [](auto& a, auto&) {
        return a.tanh().exp() - a.tanh().expm1().reciprocal() * 0.01 * a.tanh().square();
      },
      [](auto& a, auto&) { return a.sigmoid() * a.erf() + (a.square() + 1).log2(); },
      [](auto& a, auto&) { return (a.tanh() + 2).pow(1.7) + a.tanh().tan() + (a.square()).log1p(); },
      [](auto& a, auto&) { return a.gelu() + a.silu() + a.softplus() * 0.5; },
      [](auto& a, auto& b) { return a * b.tanh(); },
      [](auto& a, auto& b) { return a / (b.square() + 1); },
      [](auto& a, auto& b) { return a - b.exp2().tanh(); },
      [](auto& a, auto& b) { return a.maximum(b); },
      [](auto& a, auto& b) { return (a.lt(b)).where(a * 2, b.sin()); },
      [](auto& a, auto&) { return a.softmax(0) + a.sum(1, true).tanh(); },
      [](auto& a, auto&) { return a.t().reshape(a.dims()); },
      [](auto& a, auto&) { return a.flip(0) + a.max(1, true); },
      [](auto& a, auto&) { return a.pad({{1, 0}, {0, 2}}, 0.5).slice({{0, 3}, {2, 6}}); },
      [](auto& a, auto&) { return a.pool_last_dim(2, 1, 2).sum(-1).pad({{0, 0}, {1, 1}}, -1); },
      [](auto& a, auto& b) { return concat({a, b}, 0).slice_along(0, 1, 6, 2); },
      [](auto& a, auto&) { return a.cumsum(1) * 0.3; },
      [](auto& a, auto& b) { return a.matmul(b.t()).matmul(b) * 0.1; },
      [](auto& a, auto&) { return a.reshape({2, 6}).merge_dims(0, 1).split_dims(0, 4) + a.mean(); },
  };
  for (int i = 0; i < steps; ++i) {
    const GraphTensor &a = pool[below(pool.size())], &b = pool[below(pool.size())];
    pool.push_back(steps_of[below(steps_of.size())](a, b));
  }
  (void)cx;
  return pool.back() + pool[pool.size() - 2];
}

TEST(AutogradDifferences, RandomExpressions) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    expect_gradients(
        {{{3, 4}}, {{3, 4}}},
        [&](Graph& cx, const Tensors& in) { return random_expression(cx, in, seed, 6); }, seed);
  }
}

TEST(AutogradDifferences, GradientsOfGradientsOfRandomExpressions) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    expect_gradients(
        {{{3, 4}}, {{3, 4}}},
        gradient_of([&](Graph& cx, const Tensors& in) { return random_expression(cx, in, seed, 3); }), seed);
  }
}

}  // namespace
}  // namespace luminal
