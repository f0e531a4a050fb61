#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "luminal/autograd.h"
#include "luminal/error.h"
#include "luminal/training.h"
#include "support/files.h"

// Numbers from PyTorch 2.15 in f64.
namespace luminal::training {
namespace {

using testing::DoubleNear;
using testing::HasSubstr;
using testing::Pointwise;

TEST(Adam, FollowsPyTorch) {
  const std::vector<std::pair<double, std::vector<double>>> cases{
      {0.0, {0.5260876529901508, -2.5046915542661132, 2.5059217253652557}},
      {0.1, {0.5254704288924805, -2.504714006759472, 2.505882006704696}},
  };
  for (const auto& [decay, expected] : cases) {
    Graph cx;
    GraphTensor p = cx.tensor({3}, Dtype::F64).set({1, -2, 3});
    const GraphTensor loss = p.pow(3).sum();
    const auto gradients = cx.run_pass(Autograd({p}, loss));
    Adam adam(cx, {p}, gradients,
              {.learning_rate = 0.1, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6, .weight_decay = decay});
    for (int i = 0; i < 5; ++i) cx.execute();
    EXPECT_THAT(p.data<double>(), Pointwise(DoubleNear(1e-12), expected)) << "weight_decay " << decay;
  }
}

TEST(Adam, ALearningRateOfZeroMovesNothingAndCanChange) {
  Graph cx;
  GraphTensor p = cx.tensor({2}).set({1, 2});
  const GraphTensor loss = p.square().sum();
  Adam adam(cx, {p}, cx.run_pass(Autograd({p}, loss)), {.learning_rate = 0.5});
  adam.set_learning_rate(0);
  cx.execute();
  EXPECT_THAT(p.data<float>(), testing::ElementsAre(1, 2));
  adam.set_learning_rate(0.5);
  cx.execute();
  EXPECT_NEAR(p.data<float>()[0], 0.5, 1e-5);
  nn::Serializer s;
  adam.serialize(s);
  std::vector<std::string> names;
  for (const auto& entry : s.entries()) names.push_back(entry.name);
  EXPECT_THAT(names, testing::ElementsAre("step", "beta1_power", "beta2_power", "0/exp_avg", "0/exp_avg_sq"));
  EXPECT_EQ(s.entries()[0].tensor.data<int64_t>()[0], 2);
}

TEST(Adam, RefusesWhatDoesNotFit) {
  Graph cx;
  GraphTensor p = cx.tensor({2}).set({1, 2}), other = cx.tensor({3});
  EXPECT_THAT(test::error_of<Error>([&] { Adam(cx, {p}, {}, {}); }),
              HasSubstr("[Adam] 1 parameters and 0 gradients; give one gradient for each"));
  EXPECT_THAT(test::error_of<Error>([&] { Adam(cx, {p}, {other}, {}); }),
              HasSubstr("[Adam] parameter 0 is f32[2] but its gradient f32[3]"));
  EXPECT_THAT(test::error_of<Error>([&] { Adam(cx, {p}, {p}, {.beta1 = 1}); }),
              HasSubstr("give a number in [0, 1)"));
  EXPECT_THAT(test::error_of<Error>([&] {
                GraphTensor i = cx.tensor({1}, Dtype::I64);
                Adam(cx, {i}, {i}, {});
              }),
              HasSubstr("only floats can be trained"));
}

struct Case {
  CrossEntropyOptions options;
  double loss;
  std::vector<double> gradient;
};

TEST(CrossEntropy, ClassIndicesFollowPyTorch) {
  const std::vector<Case> cases{
      {{},
       2.1072991306352464,
       {0.0864988201141397, 0.23512817089941374, -0.3216269910135534, -0.3091595181064174,
        0.014662160097352614, 0.29449735800906474, 0.011706342319779909, -0.0982051624339196,
        0.0864988201141397}},
      {{.label_smoothing = 0.1},
       2.073965797301913,
       {0.07538770900302859, 0.2240170597883026, -0.2994047687913312, -0.2869372958841952,
        0.003551048986241505, 0.2833862468979537, 0.0005952312086687999, -0.07598294021169735,
        0.0753877090030286}},
      {{.ignore_index = 0},
       1.8490122167681862,
       {0.12974823017120957, 0.3526922563491206, -0.4824404865203301, 0, 0, 0, 0.017559513479669865,
        -0.1473077436508794, 0.12974823017120957}},
      {{.label_smoothing = 0.2, .ignore_index = 0},
       1.815678883434853,
       {0.09641489683787624, 0.3193589230157873, -0.41577381985366346, 0, 0, 0, -0.015773819853663468,
        -0.08064107698421275, 0.09641489683787624}},
      {{.reduce = Reduce::Sum},
       6.32189739190574,
       {0.25949646034241913, 0.7053845126982412, -0.9648809730406602, -0.9274785543192523,
        0.043986480292057845, 0.8834920740271943, 0.03511902695933973, -0.2946154873017588,
        0.25949646034241913}},
  };
  for (const Case& c : cases) {
    Graph cx;
    GraphTensor logits = cx.tensor({"rows", 3}, Dtype::F64);
    logits.set_dyn(std::vector<double>{1, 2, -1, 0.5, 0, 3, -2, 1, 0}, {3, 3});
    GraphTensor target = cx.tensor({"rows"}, Dtype::I32).set({2, 0, 1});
    GraphTensor loss = cross_entropy(logits, target, c.options);
    GraphTensor gradient = cx.run_pass(Autograd({logits}, loss))[0];
    loss.retrieve();
    gradient.retrieve();
    cx.execute();
    EXPECT_NEAR(loss.data<double>()[0], c.loss, 1e-12);
    EXPECT_THAT(gradient.data<double>(), Pointwise(DoubleNear(1e-12), c.gradient));
  }
}

TEST(CrossEntropy, ProbabilitiesAndMoreAxesFollowPyTorch) {
  Graph cx;
  GraphTensor logits = cx.tensor({3, 3}, Dtype::F64).set({{1, 2, -1}, {0.5, 0, 3}, {-2, 1, 0}});
  GraphTensor target = cx.tensor({3, 3}, Dtype::F64).set({{0.2, 0.3, 0.5}, {1, 0, 0}, {0.1, 0.8, 0.1}});
  GraphTensor plain = cross_entropy(logits, target).retrieve(),
              smooth = cross_entropy(logits, target, {.label_smoothing = 0.1}).retrieve();
  std::vector<double> wave;
  for (int i = 0; i < 12; ++i) wave.push_back(std::sin(0.37 * i));
  GraphTensor image = cx.tensor({2, 3, 2}, Dtype::F64).set(wave),
              classes = cx.tensor({2, 2}, Dtype::I64).set({{0, 2}, {1, 1}});
  GraphTensor pixels = cross_entropy(image, classes).retrieve();
  cx.execute();
  EXPECT_NEAR(plain.data<double>()[0], 1.8072991306352468, 1e-12);
  EXPECT_NEAR(smooth.data<double>()[0], 1.8039657973019132, 1e-12);
  EXPECT_NEAR(pixels.data<double>()[0], 1.281832951100456, 1e-12);
}

TEST(CrossEntropy, StableAndHonestAtTheExtremes) {
  Graph cx;
  GraphTensor logits = cx.tensor({2, 2}).set({{1e30, -1e30}, {-1e30, 1e30}});
  GraphTensor right = cx.tensor({2}, Dtype::I64).set({0, 1}), beyond = cx.tensor({2}, Dtype::I64).set({0, 2});
  GraphTensor good = cross_entropy(logits, right).retrieve(),
              bad = cross_entropy(logits, beyond * 1).retrieve();
  cx.execute();
  EXPECT_EQ(good.data<float>()[0], 0);
  EXPECT_TRUE(
      std::isnan(bad.data<float>()[0]));  // a computed target out of range is never taken for another class
  GraphTensor strange = cx.tensor({3}, Dtype::I64);
  EXPECT_THAT(test::error_of<Error>([&] { (void)cross_entropy(logits, strange); }),
              HasSubstr("[cross_entropy] target i64[3] fits neither class indices (integers [2]) nor "
                        "probabilities (floats [2, 2])"));
  EXPECT_THAT(test::error_of<Error>([&] { (void)cross_entropy(right, right); }),
              HasSubstr("they must be floats of [N, C]"));
}

TEST(CosineSchedule, GoesFromStartToFloor) {
  const CosineSchedule schedule{.start = 1, .steps = 10, .floor = 0.2};
  EXPECT_DOUBLE_EQ(schedule(0), 1);
  EXPECT_DOUBLE_EQ(schedule(5), 0.6);
  EXPECT_DOUBLE_EQ(schedule(10), 0.2);
  EXPECT_DOUBLE_EQ(schedule(1000), 0.2);
  EXPECT_NEAR(schedule(2), 0.2 + 0.4 * (1 + std::cos(0.2 * 3.14159265358979)), 1e-12);
}

}  // namespace
}  // namespace luminal::training
