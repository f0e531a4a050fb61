#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "luminal/autograd.h"
#include "luminal/error.h"
#include "luminal/training.h"
#include "support/files.h"
#include "unit/training/expectations.h"

// Optimizers, clipping and accumulation against PyTorch (tools/pytorch_training.py), 100 steps in f64.
namespace luminal::training {
namespace {

using test::error_of;
using test::expect_near;
using test::wave;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr Dtype kF64 = Dtype::F64;

/// The script's problem, in f64.
struct Problem {
  Graph cx;
  std::vector<GraphTensor> weights;
  GraphTensor loss;
  std::vector<GraphTensor> gradients;

  Problem() {
    std::vector<double> bias = wave(4, 1.3);
    for (double& value : bias) value *= 0.5;
    weights = {cx.tensor({3, 4}, kF64).set(wave(12)), cx.tensor({4}, kF64).set(bias)};
    const GraphTensor x = cx.tensor({5, 3}, kF64).set(wave(15, 2.1)),
                      y = cx.tensor({5, 4}, kF64).set(wave(20, 0.9));
    loss = ((x.matmul(weights[0]) + weights[1]).tanh() - y).square().mean() + weights[0].pow(4).sum() * 0.01;
    gradients = cx.run_pass(Autograd(weights, loss));
  }
};

template <class O>
void expect_steps(const std::string& name, double rate, typename O::Options options,
                  double tolerance = 1e-9) {
  SCOPED_TRACE(name);
  Problem p;
  options.learning_rate = rate;
  O optimizer(p.cx, p.weights, p.gradients, options);
  for (int step = 1; step <= 100; ++step) {
    if (step == 51) optimizer.set_learning_rate(rate / 2);
    p.cx.execute();
    if (step != 1 && step != 10 && step != 100) continue;
    for (size_t i = 0; i < 2; ++i)
      expect_near(p.weights[i].data<double>(),
                  "optimizer/" + name + "/" + std::to_string(step) + "/" + std::to_string(i), tolerance);
  }
  EXPECT_EQ(optimizer.steps(), 100);
}

TEST(Optimizers, SgdFollowsPyTorch) {
  expect_steps<SGD>("sgd", 0.1, {});
  expect_steps<SGD>("sgd_momentum", 0.05, {.momentum = 0.9, .dampening = 0.3, .weight_decay = 0.02});
  expect_steps<SGD>("sgd_nesterov", 0.05, {.momentum = 0.8, .nesterov = true});
}

TEST(Optimizers, AdamFollowsPyTorch) {
  expect_steps<Adam>("adam", 0.05, {});
  expect_steps<Adam>("adam_decay", 0.05, {.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6, .weight_decay = 0.1});
  expect_steps<Adam>("adam_amsgrad", 0.05, {.beta1 = 0.9, .beta2 = 0.9, .amsgrad = true});
  expect_steps<AdamW>("adamw", 0.05, {});
  expect_steps<AdamW>("adamw_amsgrad", 0.05, {.weight_decay = 0.2, .amsgrad = true});
}

TEST(Optimizers, RmspropFollowsPyTorch) {
  expect_steps<RMSprop>("rmsprop", 0.01, {});
  // Centered: a difference of nearly equal numbers, which magnifies what rounding makes of them.
  expect_steps<RMSprop>(
      "rmsprop_all", 0.01,
      {.alpha = 0.9, .epsilon = 1e-4, .weight_decay = 0.01, .momentum = 0.5, .centered = true}, 1e-7);
}

TEST(Optimizers, LambAndLionFollowTheirPapers) {
  expect_steps<LAMB>("lamb", 0.02, {});
  expect_steps<LAMB>("lamb_plain", 0.02, {.beta1 = 0.8, .beta2 = 0.9, .epsilon = 1e-4, .weight_decay = 0});
  expect_steps<Lion>("lion", 0.01, {});
  expect_steps<Lion>("lion_decay", 0.01, {.beta1 = 0.95, .beta2 = 0.98, .weight_decay = 0.1});
}

/// Steps of 1e-3 on a weight of 1 in bf16, whose next number is 1 - 2^-8: without f32 masters nothing would
/// move.
TEST(Optimizers, HalfPrecisionWeightsHaveMasters) {
  for (const Dtype dtype : {Dtype::BF16, Dtype::F16}) {
    Graph cx;
    GraphTensor w = cx.tensor({2}, dtype).set({1, -1});
    const GraphTensor loss = (w * cx.tensor({2}, dtype).set({1, -1})).sum();
    SGD sgd(cx, {w}, cx.run_pass(Autograd({w}, loss)), {.learning_rate = 1e-3 / 4});
    for (int i = 0; i < 400; ++i) cx.execute();
    EXPECT_NEAR(w.data<double>()[0], 0.9, 4e-3) << name(dtype);
    EXPECT_NEAR(w.data<double>()[1], -0.9, 4e-3) << name(dtype);
    std::vector<std::string> names;
    for (const auto& entry : nn::entries(sgd)) names.push_back(entry.name);
    EXPECT_THAT(names, ElementsAre("step", "0/master"));
  }
}

/// Weights that are loaded after the optimizer was made are what training goes on from.
TEST(Optimizers, MastersGiveWayToWeightsThatAreSet) {
  Graph cx;
  GraphTensor w = cx.tensor({2}, Dtype::BF16).set({1, 1});
  const GraphTensor loss = w.sum();
  SGD sgd(cx, {w}, cx.run_pass(Autograd({w}, loss)), {.learning_rate = 0.25});
  cx.execute();
  w.set({8, w.data<float>()[1]});
  cx.execute();
  EXPECT_THAT(w.data<float>(), ElementsAre(7.75F, 0.5F));
}

TEST(Optimizers, ARunThatDoesNotCountChangesNothing) {
  Graph cx;
  GraphTensor w = cx.tensor({1}).set({1}), go = cx.tensor({}, Dtype::Bool).set(std::vector<bool>{false});
  const GraphTensor loss = w.square().sum() / 0.0 * 0.0;  // NaN, and so is the gradient
  Adam adam(cx, {w}, cx.run_pass(Autograd({w}, loss)), {.apply_if = go});
  cx.execute();
  EXPECT_EQ(w.data<float>()[0], 1);
  EXPECT_EQ(adam.steps(), 0);
  for (const auto& entry : nn::entries(adam))
    for (const double value : entry.tensor.data<double>()) EXPECT_TRUE(std::isfinite(value)) << entry.name;
}

/// Groups train as optimizers of their own would.
template <class O>
void expect_groups(const std::function<void(typename O::Options&)>& change) {
  Problem together, apart;
  const typename O::Options options{.learning_rate = 0.05, .weight_decay = 0.1};
  typename O::Options changed = options;
  change(changed);
  O both(together.cx, together.weights, together.gradients, options, {{{together.weights[1]}, change}});
  O one(apart.cx, {apart.weights[0]}, {apart.gradients[0]}, options);
  O other(apart.cx, {apart.weights[1]}, {apart.gradients[1]}, changed);
  for (int step = 0; step < 6; ++step) {
    if (step == 3) {
      both.set_learning_rate(0.025);
      one.set_learning_rate(0.025);
      other.set_learning_rate(changed.learning_rate / 2);
    }
    together.cx.execute();
    apart.cx.execute();
    for (size_t i = 0; i < 2; ++i)
      EXPECT_EQ(together.weights[i].data<double>(), apart.weights[i].data<double>()) << step;
  }
}

TEST(Optimizers, GroupsHaveOptionsOfTheirOwn) {
  expect_groups<SGD>([](SGD::Options& o) { o.momentum = 0.9, o.weight_decay = 0; });
  expect_groups<Adam>([](Adam::Options& o) { o.learning_rate = 0.2, o.beta1 = 0.5; });
  expect_groups<AdamW>([](AdamW::Options& o) { o.weight_decay = 0; });
  expect_groups<RMSprop>([](RMSprop::Options& o) { o.centered = true, o.alpha = 0.9; });
  expect_groups<LAMB>([](LAMB::Options& o) { o.learning_rate = 0.1, o.beta2 = 0.9; });
  expect_groups<Lion>([](Lion::Options& o) { o.learning_rate = 0.1, o.beta1 = 0.5; });
}

TEST(Optimizers, GroupsKeepTheNamesOfACheckpoint) {
  Problem plain, grouped;
  const Adam without(plain.cx, plain.weights, plain.gradients, {});
  const Adam with(grouped.cx, grouped.weights, grouped.gradients, {},
                  {{{grouped.weights[0]}, [](auto& options) { options.weight_decay = 0.1; }}});
  std::vector<std::string> names, more;
  for (const auto& entry : nn::entries(without)) names.push_back(entry.name);
  for (const auto& entry : nn::entries(with)) more.push_back(entry.name);
  EXPECT_THAT(names, ElementsAre("step", "beta1_power", "beta2_power", "0/exp_avg", "0/exp_avg_sq",
                                 "1/exp_avg", "1/exp_avg_sq"));
  names.insert(names.end(), {"group1/beta1_power", "group1/beta2_power"});
  EXPECT_THAT(more, testing::UnorderedElementsAreArray(names));
}

TEST(Optimizers, GroupsFollowTheLearningRate) {
  Problem p;
  SGD sgd(p.cx, p.weights, p.gradients, {.learning_rate = 0.1},
          {{{p.weights[1]}, [](auto& options) { options.learning_rate = 0.4; }}, {{}, {}}});
  EXPECT_EQ(sgd.learning_rate(1), 0.4);
  sgd.set_learning_rate(0.05);
  EXPECT_EQ(sgd.learning_rate(), 0.05);
  EXPECT_EQ(sgd.learning_rate(1), 0.2);
  sgd.set_learning_rate(7, 1);
  EXPECT_EQ(sgd.learning_rate(), 0.05);
  EXPECT_EQ(sgd.learning_rate(1), 7);
  EXPECT_EQ(error_of<Error>([&] { sgd.set_learning_rate(1, 3); }),
            "[learning_rate] there is no group 3; the optimizer has 2, counted from 1, and 0 for the other "
            "parameters");
}

TEST(Optimizers, RefuseGroupsThatDoNotFit) {
  Problem p;
  const GraphTensor stranger = p.cx.tensor({2}), go = p.cx.tensor({}, Dtype::Bool);
  const auto message = [&](std::vector<ParameterGroup<SGD::Options>> groups) {
    return error_of<Error>([&] { SGD(p.cx, p.weights, p.gradients, {.learning_rate = 0}, groups); });
  };
  EXPECT_THAT(
      message({{{p.weights[0], stranger}, {}}}),
      HasSubstr("[SGD] tensor 1 of group 1 is f32[2] and none of the 2 parameters; name parameters of this "
                "optimizer"));
  EXPECT_THAT(message({{{p.weights[1]}, {}}, {{p.weights[1]}, {}}}),
              HasSubstr("[SGD] parameter 1 is named in group 1 and in group 2; name it once"));
  EXPECT_THAT(message({{{p.weights[1]}, [](auto& options) { options.momentum = -1; }}}),
              HasSubstr("[SGD, group 1] momentum=-1 is out of range; give 0 or more"));
  EXPECT_THAT(
      message({{{p.weights[1]}, [&](auto& options) { options.apply_if = go; }}}),
      HasSubstr("[SGD, group 1] apply_if holds for all parameters; give it in the optimizer's own options"));
  SGD frozen(p.cx, p.weights, p.gradients, {.learning_rate = 0},
             {{{p.weights[1]}, [](auto& options) { options.learning_rate = 1; }}});
  EXPECT_THAT(
      error_of<Error>([&] { frozen.set_learning_rate(1); }),
      HasSubstr("[set_learning_rate] the optimizer was made with a rate of 0, and the rates of its 1 groups "
                "follow no factor of that; give each its own with set_learning_rate(rate, group)"));
}

TEST(Optimizers, RefuseWhatDoesNotFit) {
  Graph cx;
  GraphTensor p = cx.tensor({2}).set({1, 2});
  EXPECT_THAT(error_of<Error>([&] { SGD(cx, {p}, {p}, {.nesterov = true}); }),
              HasSubstr("[SGD] nesterov with momentum=0 and dampening=0 is not defined"));
  EXPECT_THAT(error_of<Error>([&] { RMSprop(cx, {p}, {p}, {.alpha = 1}); }), HasSubstr("[RMSprop] alpha=1"));
  EXPECT_THAT(error_of<Error>([&] { Lion(cx, {p}, {p}, {.learning_rate = -1}); }),
              HasSubstr("[Lion] learning_rate=-1 is out of range; give 0 or more"));
  EXPECT_THAT(error_of<Error>([&] { AdamW(cx, {p}, {p}, {.apply_if = p}); }),
              HasSubstr("[AdamW] the condition is f32[2]; give one bool"));
  EXPECT_THAT(error_of<Error>([&] { SGD(cx, {p, p}, {p, p}, {}); }),
              HasSubstr("[SGD] parameter 1 is given twice"));
  const SGD first(cx, {p}, {p}, {});
  EXPECT_THAT(error_of<Error>([&] { Adam(cx, {p}, {p}, {}); }),
              HasSubstr("[Adam] parameter 0 already has an update; give each weight to one optimizer"));
  GraphTensor q = cx.tensor({2}).set({1, 2});
  EXPECT_THAT(error_of<Error>([&] { SGD(cx, {q}, {q}, {}).set_learning_rate(-0.1); }),
              HasSubstr("[set_learning_rate] the rate is -0.1"));
}

TEST(Clipping, FollowsPyTorch) {
  const auto gradients = [](Graph& cx) {
    std::vector<double> a = wave(12, 0.4), b = wave(4, 0.8);
    for (double& value : a) value *= 2;
    for (double& value : b) value *= 3;
    return std::vector{cx.tensor({3, 4}, kF64).set(a), cx.tensor({4}, kF64).set(b)};
  };
  struct Case {
    std::string name;
    double limit, type;
  };
  for (const Case& c : {Case{"norm", 1.5, 2}, Case{"norm_loose", 100, 2}, Case{"norm_3", 1.5, 3},
                        Case{"norm_inf", 0.5, std::numeric_limits<double>::infinity()}}) {
    Graph cx;
    auto [clipped, norm] = clip_grad_norm(gradients(cx), c.limit, c.type);
    retrieve(clipped);
    norm.retrieve();
    cx.execute();
    expect_near(norm.data<double>(), "clip/" + c.name + "/norm");
    for (size_t i = 0; i < 2; ++i)
      expect_near(clipped[i].data<double>(), "clip/" + c.name + "/" + std::to_string(i));
  }
  Graph cx;
  auto clipped = clip_grad_value(gradients(cx), 0.7);
  retrieve(clipped);
  cx.execute();
  for (size_t i = 0; i < 2; ++i) expect_near(clipped[i].data<double>(), "clip/value/" + std::to_string(i));
  EXPECT_THAT(error_of<Error>([&] { (void)clip_grad_norm({}, 1); }), HasSubstr("there are no gradients"));
  EXPECT_THAT(error_of<Error>([&] { (void)clip_grad_norm(clipped, -1); }), HasSubstr("max_norm=-1"));
  EXPECT_THAT(error_of<Error>([&] { (void)clip_grad_norm(clipped, 1, 0); }), HasSubstr("norm_type=0"));
}

/// Four batches of one row train like one batch of four.
TEST(GradientAccumulator, SmallBatchesTrainLikeALargeOne) {
  const auto loss_of = [](const GraphTensor& x, const GraphTensor& w) { return x.matmul(w).square().mean(); };
  const std::vector<double> rows = wave(24);
  Graph large;
  GraphTensor w = large.tensor({3, 2}, kF64).set(wave(6, 1.1));
  GraphTensor x = large.tensor({4, 3}, kF64);
  Adam whole(large, {w}, large.run_pass(Autograd({w}, loss_of(x, w))), {.learning_rate = 0.1});
  Graph small;
  GraphTensor v = small.tensor({3, 2}, kF64).set(wave(6, 1.1));
  GraphTensor row = small.tensor({1, 3}, kF64);
  const GradientAccumulator accumulator(small, small.run_pass(Autograd({v}, loss_of(row, v))), 4);
  Adam pieces(small, {v}, accumulator.gradients(), {.learning_rate = 0.1, .apply_if = accumulator.ready()});
  for (int update = 0; update < 2; ++update) {
    const auto first = rows.begin() + update * 12;
    x.set(std::vector<double>(first, first + 12));
    large.execute();
    for (int i = 0; i < 4; ++i) {
      const auto before = v.data<double>();
      row.set(std::vector<double>(first + 3 * i, first + 3 * i + 3));
      small.execute();
      EXPECT_EQ(v.data<double>() == before, i < 3) << "run " << i;
    }
    const auto a = w.data<double>(), b = v.data<double>();
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-14);
  }
  EXPECT_EQ(pieces.steps(), 2);
  EXPECT_THAT(error_of<Error>([&] { GradientAccumulator(small, {v}, 0); }), HasSubstr("steps is 0"));
}

}  // namespace
}  // namespace luminal::training
