#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "luminal/autograd.h"
#include "luminal/error.h"
#include "luminal/nn.h"
#include "luminal/training.h"
#include "support/environment.h"
#include "support/files.h"
#include "unit/training/expectations.h"

namespace luminal::training {
namespace {

using test::error_of;
using testing::HasSubstr;

/// A regression with known weights.
struct Regression {
  Graph cx;
  nn::Linear model;
  GraphTensor x, y, loss;
  explicit Regression(Dtype dtype = Dtype::F32) : model(cx, 3, 1, {.dtype = dtype}) {
    x = cx.tensor({"rows", 3}, dtype);
    y = cx.tensor({"rows", 1}, dtype);
    loss = mse(model.forward(x), y);
  }
  void feed(int64_t step, int64_t rows = 8) {
    std::vector<double> values;  // no column a combination of the others
    for (int64_t i = 0; i < 3 * rows; ++i)
      values.push_back(std::sin(0.37 * static_cast<double>(i * i) + 0.01 * static_cast<double>(step % 50)));
    std::vector<double> targets;
    for (size_t i = 0; i < values.size(); i += 3)
      targets.push_back(0.5 * values[i] - 2 * values[i + 1] + values[i + 2] + 0.3);
    x.set_dyn(values, {rows, 3});
    y.set_dyn(targets, {rows, 1});
  }
};

/// Everything a Trainer does, written out.
TEST(Trainer, IsWhatCouldBeWrittenOut) {
  Regression a, b;
  Trainer trainer(a.cx, a.model, a.loss, use<AdamW>({.learning_rate = 0.1}),
                  {.schedule = CosineSchedule{.start = 0.1, .steps = 20}, .clip_norm = 0.5, .accumulate = 2});
  const auto weights = nn::params(b.model);
  GradientAccumulator accumulator(b.cx, b.cx.run_pass(Autograd(weights, b.loss)), 2);
  const auto [clipped, norm] = clip_grad_norm(accumulator.gradients(), 0.5);
  AdamW adam(b.cx, weights, clipped, {.learning_rate = 0.1, .apply_if = accumulator.ready()});
  const CosineSchedule schedule{.start = 0.1, .steps = 20};
  b.loss.retrieve();
  for (int64_t step = 0; step < 20; ++step) {
    a.feed(step);
    b.feed(step);
    const double loss = trainer.step();
    adam.set_learning_rate(schedule(step / 2));
    b.cx.execute();
    EXPECT_EQ(loss, b.loss.data<double>()[0]);
  }
  EXPECT_EQ(a.model.weight.data<float>(), b.model.weight.data<float>());
  EXPECT_EQ(trainer.optimizer().steps(), 10);
}

TEST(Trainer, FitsInEveryPrecision) {
  for (const auto precision :
       {std::optional<Dtype>(), std::optional(Dtype::BF16), std::optional(Dtype::F16)}) {
    Regression r;
    Trainer trainer(r.cx, r.model, r.loss, use<Adam>({.learning_rate = 0.05}), {.precision = precision});
    double loss = 0;
    trainer.fit({.steps = 200,
                 .feed = [&](int64_t step) { r.feed(step); },
                 .seen = [&](const Trainer::Progress& p) { loss = p.loss; }});
    EXPECT_LT(loss, 5e-3);
    EXPECT_NEAR(r.model.weight.data<double>()[1], -2, 0.1);
  }
}

TEST(Trainer, ResumesToTheSameBits) {
  const test::TemporaryFolder folder;
  const auto weights_after = [](Trainer& trainer, Regression& r, int64_t steps,
                                CheckpointManager* checkpoints) {
    trainer.fit({.steps = steps,
                 .feed = [&](int64_t step) { r.feed(step); },
                 .checkpoints = checkpoints,
                 .save_every = 3});
    return r.model.weight.data<float>();
  };
  const Trainer::Options options{.clip_norm = 1, .accumulate = 2, .precision = Dtype::F16};
  Regression whole, first, second;
  Trainer a(whole.cx, whole.model, whole.loss, use<Adam>({.learning_rate = 0.05}), options);
  const auto expected = weights_after(a, whole, 12, nullptr);
  {
    Trainer b(first.cx, first.model, first.loss, use<Adam>({.learning_rate = 0.05}), options);
    CheckpointManager checkpoints(folder.path());
    (void)weights_after(b, first, 7, &checkpoints);  // saved at 3, 6 and, the last one, 7
  }
  Trainer c(second.cx, second.model, second.loss, use<Adam>({.learning_rate = 0.05}), options);
  CheckpointManager checkpoints(folder.path());
  EXPECT_EQ(checkpoints.list().back().step, 7);
  EXPECT_EQ(weights_after(c, second, 12, &checkpoints), expected);
  EXPECT_EQ(c.steps(), 12);
}

/// A run on the cpu device in two buckets of sizes: 8 rows, and 3 in every fourth run.
std::vector<float> trained(const std::filesystem::path& folder, int64_t steps, const CompilationMode& mode,
                           std::string_view device = "cpu", const SearchOptions& search = {}) {
  Regression r;
  r.cx.set_device(device);
  r.cx.set_search(search);
  Trainer trainer(r.cx, r.model, r.loss, use<Adam>({.learning_rate = 0.05}), {.clip_norm = 1, .mode = mode});
  CheckpointManager checkpoints(folder);
  trainer.fit({.steps = steps,
               .feed = [&](int64_t step) { r.feed(step, step % 4 == 3 ? 3 : 8); },
               .checkpoints = &checkpoints});
  return r.model.weight.data<float>();
}

class ResumedOnTheCpu : public testing::TestWithParam<CompilationMode> {};

TEST_P(ResumedOnTheCpu, GivesTheSameBitsUnderTheSamePlan) {
  const test::TemporaryFolder whole, parts;
  // A cache of this process: what another one tunes meanwhile may change the plan of the next run. It lives
  // as long as the process does, which opens it once.
  static const test::TemporaryFolder cache;
  const test::EnvironmentVariable own("LUMINAL_CACHE", cache.path());
  const auto expected = trained(whole.path(), 12, GetParam());
  (void)trained(parts.path(), 7, GetParam());
  testing::internal::CaptureStderr();
  EXPECT_EQ(trained(parts.path(), 12, GetParam()), expected);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  const auto plans = [](const test::TemporaryFolder& folder) {
    return CheckpointManager(folder.path()).list().back().plans;
  };
  EXPECT_EQ(plans(whole).size(), 2U);
  EXPECT_EQ(plans(parts), plans(whole));
}

std::string mode_name(const testing::TestParamInfo<CompilationMode>& mode) {
  return std::vector<std::string>{"Fast", "Optimal", "TimeBudget"}.at(mode.param.index());
}
INSTANTIATE_TEST_SUITE_P(Modes, ResumedOnTheCpu,
                         testing::Values(Fast{}, Optimal{}, TimeBudget{std::chrono::minutes(1)}), mode_name);

TEST(Trainer, SaysWhenItGoesOnUnderAnotherPlan) {
  const test::TemporaryFolder folder;
  const SearchOptions plain{.fusions = 1, .merge = false};
  const auto said = [&](int64_t steps, const SearchOptions& search, std::string_view device = "cpu") {
    testing::internal::CaptureStderr();
    (void)trained(folder.path(), steps, Fast{}, device, search);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(said(5, {}), "");
  const std::string other = said(8, plain);  // another bucket's plan is told of when it runs
  EXPECT_THAT(other,
              AllOf(HasSubstr("step-000000000005.safetensors' was trained under plan "),
                    HasSubstr("(rows 5..8) and continues under "), HasSubstr("(rows 3..4) and continues")));
  EXPECT_EQ(std::ranges::count(other, '\n'), 2) << other;
  EXPECT_EQ(said(9, plain), "");  // the new plan is what it was trained under by now
  EXPECT_THAT(said(10, plain, "reference"), HasSubstr("ran on 'cpu' and continues on 'reference'"));
}

TEST(Trainer, TellsOfALossThatIsNotFiniteAndKeepsTheWeights) {
  Regression r;
  Trainer trainer(r.cx, r.model, r.loss, use<SGD>({.learning_rate = 0.1}));
  r.feed(0);
  (void)trainer.step();
  const auto before = r.model.weight.data<float>();
  r.x.set_dyn(std::vector<float>{1, std::numeric_limits<float>::infinity(), 0}, {1, 3});
  r.y.set_dyn(std::vector<float>{0}, {1, 1});
  EXPECT_THAT(error_of<Error>([&] { (void)trainer.step(); }),
              AllOf(HasSubstr("in run 2 (learning rate 0.1, norm of the gradients "),
                    HasSubstr("the weights are unchanged. the input f32[rows, 3] (made at trainer_test.cpp:"),
                    HasSubstr("holds inf at [0, 1]; give it finite numbers")));
  EXPECT_EQ(r.model.weight.data<float>(), before);
  r.feed(1);
  EXPECT_TRUE(std::isfinite(trainer.step()));  // and goes on
  r.x.set_dyn(std::vector<float>{-std::numeric_limits<float>::infinity(), 0, 0}, {1, 3});
  r.y.set_dyn(std::vector<float>{0}, {1, 1});
  EXPECT_THAT(error_of<Error>([&] { (void)trainer.step(); }),  // as a mask may hold
              HasSubstr("All data and weights are finite"));
  r.x.set_dyn(std::vector<float>{3e30F, 0, 0}, {1, 3});  // finite, and its square is not
  r.y.set_dyn(std::vector<float>{0}, {1, 1});
  EXPECT_THAT(error_of<Error>([&] { (void)trainer.step(); }),
              HasSubstr("All data and weights are finite, so the computation produced it: lower the"));
}

/// A loop of one's own, without apply_if.
TEST(FiniteLoss, NamesTheDataOrTheWeight) {
  Regression r;
  const auto weights = nn::params(r.model);
  SGD sgd(r.cx, weights, r.cx.run_pass(Autograd(weights, r.loss)), {.learning_rate = 1e38});
  r.loss.retrieve();
  r.feed(0);
  r.cx.execute();
  EXPECT_EQ(finite_loss(r.loss), r.loss.data<double>()[0]);
  for (int i = 0; i < 3; ++i) r.cx.execute();
  EXPECT_THAT(error_of<Error>([&] { (void)finite_loss(r.loss); }),
              AllOf(HasSubstr("[finite_loss] the loss is nan after run 4. 'weight' f32[1, 3] (made at "),
                    HasSubstr("an earlier step was too large. Lower the learning rate")));
  r.x.set_dyn(std::vector<float>{0, 0, std::nanf("")}, {1, 3});
  r.y.set_dyn(std::vector<float>{0}, {1, 1});
  r.cx.execute();
  EXPECT_THAT(error_of<Error>([&] { (void)finite_loss(r.loss); }),
              HasSubstr("holds nan at [0, 2]; give it finite numbers"));
}

/// What one bad batch leaves in a sum of gradients never reaches the weights.
TEST(Trainer, ABadBatchSpoilsItsUpdateOnly) {
  Regression r;
  Trainer trainer(r.cx, r.model, r.loss, use<SGD>({.learning_rate = 0.1}), {.accumulate = 3});
  r.x.set_dyn(std::vector<float>{1, std::numeric_limits<float>::quiet_NaN(), 0}, {1, 3});
  r.y.set_dyn(std::vector<float>{0}, {1, 1});
  const auto before = r.model.weight.data<float>();
  (void)error_of<Error>([&] { (void)trainer.step(); });
  for (int i = 0; i < 2; ++i) {
    r.feed(i);
    EXPECT_THAT(error_of<Error>([&] { (void)trainer.step(); }), HasSubstr("norm of the gradients nan"));
  }
  EXPECT_EQ(r.model.weight.data<float>(), before);
  for (int i = 0; i < 3; ++i) {
    r.feed(i);
    EXPECT_TRUE(std::isfinite(trainer.step()));
  }
  EXPECT_NE(r.model.weight.data<float>(), before);
}

TEST(Trainer, RefusesWhatDoesNotFit) {
  Graph cx;
  const nn::Linear model(cx, 2, 1);
  const GraphTensor y = model.forward(cx.tensor({4, 2}));
  EXPECT_THAT(error_of<Error>([&] { Trainer(cx, model, y, use<SGD>({})); }),
              HasSubstr("[Trainer] the loss is f32[4, 1]; give one number"));
  EXPECT_THAT(error_of<Error>([&] { Trainer(cx, nn::ReLU(), y.mean(), use<SGD>({})); }),
              HasSubstr("there are no weights to train"));
  EXPECT_THAT(error_of<Error>([&] { Trainer(cx, model, y.mean(), use<SGD>({.momentum = -1})); }),
              HasSubstr("[SGD] momentum=-1 is out of range; give 0 or more (made at trainer_test.cpp:"));
  Trainer trainer(cx, model, y.mean(), use<SGD>({}));
  EXPECT_THAT(error_of<Error>([&] { trainer.fit({.steps = 1}); }), HasSubstr("fit has no feed"));
}

}  // namespace
}  // namespace luminal::training
