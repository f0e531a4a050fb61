#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "luminal/autograd.h"
#include "luminal/error.h"
#include "luminal/training.h"
#include "support/files.h"
#include "unit/training/expectations.h"

// Losses and schedules against PyTorch: values and gradients (tools/pytorch_training.py).
namespace luminal::training {
namespace {

using test::error_of;
using test::expect_near;
using testing::HasSubstr;

using Loss = std::function<GraphTensor(const GraphTensor& input, const GraphTensor& target)>;

void expect_loss(const std::string& name, const Loss& loss) {
  SCOPED_TRACE(name);
  Graph cx;
  std::vector<GraphTensor> inputs, wanted;
  std::vector<std::string> names{"loss/" + name + "/value"};
  for (int i = 0; test::expectations().contains("loss/" + name + "/in/" + std::to_string(i)); ++i)
    inputs.push_back(test::input(cx, "loss/" + name + "/in/" + std::to_string(i)));
  GraphTensor value = loss(inputs[0], inputs[1]);
  wanted.push_back(value);
  std::vector<GraphTensor> parameters;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string gradient = "loss/" + name + "/grad/" + std::to_string(i);
    if (!test::expectations().contains(gradient)) continue;
    names.push_back(gradient);
    parameters.push_back(inputs[i]);
  }
  const GraphTensor angle = cx.iota(Expression::flat_index(), value.dims()).cast(Dtype::F64) * 0.7 + 0.3;
  if (!parameters.empty())
    for (const GraphTensor& g : cx.run_pass(Autograd(parameters, (value * angle.cos()).sum())))
      wanted.push_back(g);
  retrieve(wanted);
  cx.execute();
  for (size_t i = 0; i < names.size(); ++i) expect_near(wanted[i].data<double>(), names[i]);
}

const std::map<std::string, Reduce> kReductions{
    {"mean", Reduce::Mean}, {"sum", Reduce::Sum}, {"none", Reduce::None}};

TEST(Losses, RegressionFollowsPyTorch) {
  for (const auto& [suffix, reduce] : kReductions) {
    const Reduce how = reduce;
    expect_loss("mse_" + suffix, [=](const auto& x, const auto& y) { return mse(x, y, how); });
    expect_loss("mae_" + suffix, [=](const auto& x, const auto& y) { return mae(x, y, how); });
    expect_loss("huber_" + suffix, [=](const auto& x, const auto& y) { return huber(x, y, 0.6, how); });
    expect_loss("smooth_l1_" + suffix,
                [=](const auto& x, const auto& y) { return smooth_l1(x, y, 0.6, how); });
  }
  expect_loss("rmse", [](const auto& x, const auto& y) { return rmse(x, y); });
  expect_loss("huber_default", [](const auto& x, const auto& y) { return huber(x, y); });
  expect_loss("smooth_l1_default", [](const auto& x, const auto& y) { return smooth_l1(x, y); });
}

TEST(Losses, HaveTheNamesOfTorchFunctional) {
  expect_loss("mse_mean", [](const auto& x, const auto& y) { return mse_loss(x, y); });
  expect_loss("mae_sum", [](const auto& x, const auto& y) { return l1_loss(x, y, Reduce::Sum); });
  expect_loss("huber_default", [](const auto& x, const auto& y) { return huber_loss(x, y); });
  expect_loss("smooth_l1_default", [](const auto& x, const auto& y) { return smooth_l1_loss(x, y); });
  expect_loss("cross_entropy_mean", [](const auto& x, const auto& y) { return cross_entropy_loss(x, y); });
  expect_loss("nll_images", [](const auto& x, const auto& y) { return nll_loss(x, y); });
}

TEST(Losses, ClassesFollowPyTorch) {
  const auto weight = [](const GraphTensor& x) {
    return x.graph().tensor({4}, Dtype::F64).set({0.5, 1.0, 2.0, 0.3});
  };
  for (const auto& [suffix, reduce] : kReductions) {
    const Reduce how = reduce;
    expect_loss("cross_entropy_" + suffix,
                [=](const auto& x, const auto& y) { return cross_entropy(x, y, {.reduce = how}); });
    expect_loss("cross_entropy_weight_" + suffix, [&](const auto& x, const auto& y) {
      return cross_entropy(x, y,
                           {.label_smoothing = 0.2, .ignore_index = 1, .reduce = how, .weight = weight(x)});
    });
    expect_loss("nll_" + suffix, [&](const auto& x, const auto& y) {
      return nll(x, y, {.ignore_index = 3, .reduce = how, .weight = weight(x)});
    });
  }
  expect_loss("cross_entropy_probabilities", [&](const auto& x, const auto& y) {
    return cross_entropy(x, y, {.label_smoothing = 0.1, .weight = weight(x)});
  });
  expect_loss("cross_entropy_images", [](const auto& x, const auto& y) { return cross_entropy(x, y); });
  expect_loss("nll_images", [](const auto& x, const auto& y) { return nll(x, y); });
}

TEST(Losses, DistributionsFollowPyTorch) {
  std::map<std::string, Reduce> reductions = kReductions;
  reductions.emplace("batchmean", Reduce::BatchMean);
  for (const auto& [suffix, reduce] : reductions) {
    const Reduce how = reduce;
    expect_loss("kl_div_" + suffix,
                [=](const auto& x, const auto& y) { return kl_div(x, y, {.reduce = how}); });
  }
  expect_loss("kl_div_log", [](const auto& x, const auto& y) {
    return kl_div(x, y, {.reduce = Reduce::BatchMean, .log_target = true});
  });
}

TEST(Losses, BinaryFollowsPyTorch) {
  for (const auto& [suffix, reduce] : kReductions) {
    const Reduce how = reduce;
    expect_loss("bce_" + suffix,
                [=](const auto& p, const auto& y) { return binary_cross_entropy(p, y, {.reduce = how}); });
  }
  expect_loss("bce_extreme", [](const auto& p, const auto& y) {
    return binary_cross_entropy(p, y, {.reduce = Reduce::None});
  });
  expect_loss("bce_logits",
              [](const auto& x, const auto& y) { return binary_cross_entropy_with_logits(x, y); });
  expect_loss("bce_logits_weights", [](const auto& x, const auto& y) {
    const GraphTensor w = x.graph().tensor({3}, Dtype::F64).set({1.0, 0.5, 2.0});
    return binary_cross_entropy_with_logits(x, y, {.weight = w, .pos_weight = w * 1.5});
  });
  expect_loss("focal", [](const auto& x, const auto& y) { return focal(x, y); });
  expect_loss("focal_options",
              [](const auto& x, const auto& y) { return focal(x, y, {.alpha = -1, .gamma = 1.5}); });
}

TEST(Losses, AreStableInSinglePrecision) {
  Graph cx;
  GraphTensor x = cx.tensor({4}).set({-200.0, 200.0, 1e30, -1e30}), y = cx.tensor({4}).set({0, 1, 0, 1});
  GraphTensor loss = binary_cross_entropy_with_logits(x, y, {.reduce = Reduce::None});
  GraphTensor slope = cx.run_pass(Autograd({x}, loss))[0];
  GraphTensor fit = rmse(y, y), flat = cx.run_pass(Autograd({y}, fit))[0];
  retrieve(std::vector{loss, slope, fit, flat});
  cx.execute();
  EXPECT_THAT(loss.data<float>(), testing::ElementsAre(0, 0, 1e30F, 1e30F));
  EXPECT_THAT(slope.data<float>(), testing::ElementsAre(0, 0, 1, -1));
  EXPECT_EQ(fit.data<float>()[0], 0);
  EXPECT_THAT(flat.data<float>(), testing::Each(0));
}

TEST(Losses, HalfPrecisionIsComputedInSingle) {
  Graph cx;
  GraphTensor x = cx.tensor({1000}, Dtype::F16).set(std::vector<float>(1000, 300)),
              y = cx.tensor({1000}, Dtype::F16);
  y.set(std::vector<float>(1000, 0));
  GraphTensor loss = mse(x, y, Reduce::Sum);  // 9e7: beyond f16
  EXPECT_EQ(loss.dtype(), Dtype::F32);
  loss.retrieve();
  cx.execute();
  EXPECT_EQ(loss.data<float>()[0], 9e7F);
}

TEST(Losses, RefuseWhatDoesNotFit) {
  Graph cx;
  const GraphTensor x = cx.tensor({4, 3}), column = cx.tensor({4, 1}), classes = cx.tensor({4}, Dtype::I64);
  EXPECT_THAT(error_of<Error>([&] { (void)mse(x, column); }),
              HasSubstr("[mse] input f32[4, 3] and target f32[4, 1] must have the same dims"));
  EXPECT_THAT(error_of<Error>([&] { (void)mae(classes, classes); }), HasSubstr("[mae] the input is i64[4]"));
  EXPECT_THAT(error_of<Error>([&] { (void)huber(x, x, 0); }), HasSubstr("[huber] delta=0 is out of range"));
  EXPECT_THAT(
      error_of<Error>([&] { (void)nll(x, x); }),
      HasSubstr("[nll] target f32[4, 3] does not fit log-probabilities f32[4, 3]; give class indices, "
                "integers of [4]"));
  EXPECT_THAT(error_of<Error>([&] { (void)cross_entropy(x, classes, {.weight = column}); }),
              HasSubstr("[cross_entropy] the weight is f32[4, 1] and must be floats of [3]"));
  EXPECT_THAT(error_of<Error>([&] { (void)binary_cross_entropy(x, x, {.pos_weight = x}); }),
              HasSubstr("pos_weight belongs to logits"));
  const std::vector<int32_t> targets{0, 2, -100, 3};
  EXPECT_THAT(error_of<Error>([&] { check_targets(targets, 3); }),
              HasSubstr("[targets] the target at row 3 is 3, which is none of the 3 classes 0..2; fix the "
                        "data (classes count from 0), or give it the ignored index -100"));
  check_targets(targets, 4);
}

/// Inputs that are class indices are looked at whenever they are given data.
TEST(Losses, RefuseClassesThatAreNone) {
  Graph cx;
  const GraphTensor logits = cx.ones({2, 3, 2});
  GraphTensor classes = cx.named_tensor("classes", {2, 2}, Dtype::U8);
  GraphTensor loss = cross_entropy(logits, classes, {.ignore_index = 255}).retrieve();
  classes.set({{0, 2}, {255, 1}});
  EXPECT_THAT(error_of<Error>([&] { classes.set({{0, 1}, {7, 1}}); }),
              HasSubstr("[cross_entropy] the target at [1, 0] is 7, which is none of the 3 classes 0..2; fix "
                        "the data, or give it the ignored index 255 (made at loss_test.cpp:"));
  cx.execute();  // on what it held before
  EXPECT_NEAR(loss.data<float>()[0], std::log(3.0), 1e-6);
  classes.set_deferred([] { return TensorData::of<uint8_t>({2, 2}, std::vector<uint8_t>{0, 1, 2, 3}); });
  EXPECT_THAT(error_of<Error>([&] { cx.execute(); }), HasSubstr("the target at [1, 1] is 3"));
  GraphTensor wrong = cx.tensor({2}, Dtype::I64).set({1, -1});  // it has its data already
  EXPECT_THAT(error_of<Error>([&] { (void)nll(cx.ones({2, 3}), wrong); }),
              HasSubstr("[nll] the target at row 1 is -1"));
}

template <class S>
void expect_schedule(const std::string& name, const S& schedule) {
  const std::vector<double> wanted = test::expected("schedule/" + name);
  for (size_t i = 0; i < wanted.size(); ++i)
    ASSERT_NEAR(schedule(static_cast<int64_t>(i)), wanted[i], 1e-13) << name << " step " << i;
}

TEST(Schedules, FollowPyTorch) {
  expect_schedule("step", StepSchedule{.start = 0.5, .every = 7, .gamma = 0.3});
  expect_schedule("exponential", ExponentialSchedule{.start = 0.5, .gamma = 0.93});
  expect_schedule("cosine", CosineSchedule{.start = 0.5, .steps = 39, .floor = 0.01});
  expect_schedule("linear",
                  LinearSchedule{.start = 0.5, .start_factor = 0.2, .end_factor = 0.9, .steps = 15});
  expect_schedule("linear_default", LinearSchedule{.start = 0.5});
  expect_schedule("one_cycle", OneCycleSchedule{.max = 0.5, .steps = 30});
  expect_schedule(
      "one_cycle_linear",
      OneCycleSchedule{.max = 0.8, .steps = 33, .rise = 0.4, .div = 10, .final_div = 100, .linear = true});
  expect_schedule("polynomial", PolynomialSchedule{.start = 0.5, .steps = 20, .power = 2});
}

TEST(Schedules, WarmUpThenCosine) {
  const WarmupCosineSchedule schedule{.peak = 1, .warmup = 4, .steps = 14, .floor = 0.2};
  EXPECT_DOUBLE_EQ(schedule(0), 0.25);
  EXPECT_DOUBLE_EQ(schedule(3), 1);
  EXPECT_DOUBLE_EQ(schedule(4), 1);
  EXPECT_DOUBLE_EQ(schedule(9), 0.6);
  EXPECT_DOUBLE_EQ(schedule(14), 0.2);
  EXPECT_DOUBLE_EQ(schedule(99), 0.2);
  EXPECT_DOUBLE_EQ(ConstantSchedule{0.3}(7), 0.3);
}

TEST(Schedules, ReduceOnPlateauFollowsPyTorchAndResumes) {
  const std::vector<double> metrics = test::expected("plateau/metrics");
  const std::map<std::string, ReduceOnPlateau::Options> cases{
      {"default", {.start = 1, .factor = 0.5, .patience = 2}},
      {"max",
       {.start = 1,
        .lower_is_better = false,
        .factor = 0.3,
        .patience = 1,
        .cooldown = 2,
        .threshold = 0.1,
        .relative_threshold = false,
        .floor = 0.01}}};
  for (const auto& [name, options] : cases) {
    const std::vector<double> wanted = test::expected("plateau/" + name);
    ReduceOnPlateau schedule(options);
    for (size_t i = 0; i < metrics.size(); ++i) {
      ReduceOnPlateau other(options);  // goes on from the saved state
      other.load(schedule.state());
      EXPECT_NEAR(schedule.update(metrics[i]), wanted[i], 1e-12) << name << " step " << i;
      EXPECT_EQ(other.update(metrics[i]), schedule.rate());
    }
  }
  EXPECT_THAT(error_of<Error>([] { ReduceOnPlateau({.factor = 1}); }), HasSubstr("factor=1 does not reduce"));
  EXPECT_THAT(error_of<Error>([] { ReduceOnPlateau({}).load({{"rate", 1}}); }),
              HasSubstr("the state has no 'best'"));
}

}  // namespace
}  // namespace luminal::training
