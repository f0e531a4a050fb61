#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "base/philox.h"
#include "luminal/error.h"
#include "luminal/nn.h"
#include "support/files.h"

namespace luminal::nn {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pointwise;

struct Net {
  Linear first;
  std::vector<Linear> blocks;
  static constexpr int kLine = __LINE__ + 1;
  Net(Graph& cx) : first(cx, 2, 3), blocks{Linear(cx, 3, 3), Linear(cx, 3, 1, {.bias = false})} {}
  [[nodiscard]] GraphTensor forward(const GraphTensor& x) const {
    return SequentialOf(blocks).forward(first.forward(x).relu());
  }
  void serialize(Serializer& s) const {
    s.module("first", first);
    s.module("blocks", blocks);
  }
};

struct Whole {
  Linear linear;
  Net net;
  TransformerEncoderBlock block;
  LSTM lstm;
  static constexpr int kLine = __LINE__ + 1;
  Whole(Graph& cx) : linear(cx, 2, 3), net(cx), block(cx, 4, 2), lstm(cx, 4, 2) {}
  void serialize(Serializer& s) const {
    s.module("linear", linear);
    s.module("net", net);
    s.module("block", block);
    s.module("lstm", lstm);
  }
};

TEST(Names, WeightsAreCalledByTheirPathAndHaveTheUsersLine) {
  Graph cx;
  const Whole model(cx);
  GraphTensor mine = model.linear.weight;
  mine.set_name("mine");
  const auto weights = param_dict(model);
  const auto told = [&](const std::string& path) {
    GraphTensor weight = weights.at(path);
    weight.drop();
    return test::error_of<Error>([&] { (void)weight.data<float>(); });
  };
  const auto at = [](int where) {
    return " (made at nn_test.cpp:" + std::to_string(where) + ") has no value";
  };
  EXPECT_THAT(told("linear/weight"), HasSubstr("'mine' f32[3, 2]" + at(Whole::kLine)));
  EXPECT_THAT(told("linear/bias"), HasSubstr("'linear/bias' f32[3]" + at(Whole::kLine)));
  EXPECT_THAT(told("net/blocks/1/weight"), HasSubstr("'net/blocks/1/weight' f32[1, 3]" + at(Net::kLine)));
  EXPECT_THAT(told("block/self_attn/out_proj/weight"),
              HasSubstr("'block/self_attn/out_proj/weight' f32[4, 4]" + at(Whole::kLine)));
  EXPECT_THAT(told("lstm/weight_ih_l0"), HasSubstr("'lstm/weight_ih_l0' f32[8, 4]" + at(Whole::kLine)));
  EXPECT_THAT(cx.to_string(), HasSubstr("input \"block/linear1/weight\""));
  // What a model computes has the line of its call, also through Sequential.
  const Sequential plain{Linear(cx, 2, 3), ReLU()};
  const GraphTensor y = plain.forward(cx.tensor({1, 2}));
  EXPECT_EQ(cx.node(y.node()).origin->line, static_cast<uint32_t>(__LINE__ - 1));
}

TEST(Serializer, NamesArePathsAndPyTorchs) {
  Graph cx;
  const Net net(cx);
  std::vector<std::string> paths;
  for (const auto& [name, tensor] : param_dict(net)) paths.push_back(name);
  EXPECT_THAT(paths, ElementsAre("blocks/0/bias", "blocks/0/weight", "blocks/1/weight", "first/bias",
                                 "first/weight"));
  EXPECT_EQ(params(net).size(), 5U);
  EXPECT_TRUE(state_dict(net).contains("blocks.0.weight"));
  Serializer twice;
  twice.tensor("w", net.first.weight);
  EXPECT_THAT(test::error_of<Error>([&] { twice.tensor("w", net.first.weight); }),
              HasSubstr("two tensors are called 'w'"));
}

TEST(Serializer, StateGoesFromOneModelToAnother) {
  Graph a, b;
  a.set_seed(1);
  b.set_seed(2);
  const Net from(a), to(b);
  GraphTensor x = a.tensor({2, 2}).set({{1, 2}, {-3, 4}}), y = from.forward(x).retrieve();
  GraphTensor u = b.tensor({2, 2}).set({{1, 2}, {-3, 4}}), v = to.forward(u).retrieve();
  a.execute();
  b.execute();
  EXPECT_NE(y.data<float>(), v.data<float>());
  load_state_dict(to, state_dict(from));
  b.execute();
  EXPECT_EQ(y.data<float>(), v.data<float>());
}

TEST(Serializer, WrongStateChangesNothing) {
  Graph cx;
  const Net net(cx);
  const auto before = net.first.weight.data<float>();
  auto state = state_dict(net);
  state["first.weight"].as<float>()[0] = 99;
  auto missing = state;
  missing.erase("first.bias");
  missing.emplace("extra", TensorData(Dtype::F32, {1}));
  EXPECT_THAT(test::error_of<Error>([&] { load_state_dict(net, missing); }),
              HasSubstr("missing [first.bias], unexpected [extra]"));
  auto wrong = state;
  wrong["blocks.1.weight"] = TensorData(Dtype::F32, {7});
  EXPECT_THAT(test::error_of<Error>([&] { load_state_dict(net, wrong); }),
              HasSubstr("'blocks.1.weight' is f32[7] in the file and f32[1, 3] in the model"));
  EXPECT_EQ(net.first.weight.data<float>(), before);
  load_state_dict(net, missing, false);
  EXPECT_EQ(net.first.weight.data<float>()[0], 99);
}

// Expected values from PyTorch 2.15 in f64.
TEST(Layers, LinearAndConvFollowPyTorch) {
  Graph cx;
  Linear linear(cx, 3, 2, {.dtype = Dtype::F64});
  linear.weight.set({{1, 2, 3}, {-1, 0.5, 2}});
  linear.bias->set({0.5, -1});
  GraphTensor x = cx.tensor({2, 3}, Dtype::F64).set({{1, 1, 1}, {0, 2, -1}}),
              y = linear.forward(x).retrieve();
  Linear permuted(cx, 3, 2, {.permuted = true, .dtype = Dtype::F64});
  permuted.weight.set({{1, -1}, {2, 0.5}, {3, 2}});
  permuted.bias->set({0.5, -1});
  GraphTensor same = permuted.forward(x).retrieve();

  Conv2d conv(cx, 2, 4, {2, 3}, {.stride = {2, 1}, .padding = {1, 1}, .groups = 2, .dtype = Dtype::F64});
  std::vector<double> weight, image;
  for (int i = 0; i < 24; ++i) weight.push_back(std::cos(0.1 * i));
  for (int i = 0; i < 40; ++i) image.push_back(std::sin(0.3 * i));
  conv.weight.set(weight);
  conv.bias->set(std::vector<float>{0.1F, 0.2F, 0.3F, 0.4F});
  GraphTensor z = conv.forward(cx.tensor({1, 2, 4, 5}, Dtype::F64).set(image)).retrieve();
  cx.execute();
  EXPECT_THAT(y.data<double>(), ElementsAre(6.5, 0.5, 1.5, -2.0));
  EXPECT_THAT(same.data<double>(), ElementsAre(6.5, 0.5, 1.5, -2.0));
  EXPECT_EQ(to_string(z.dims()), "[1, 4, 3, 5]");
  std::vector<double> values = z.data<double>();
  double sum = 0, squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  values.resize(8);
  EXPECT_THAT(values, Pointwise(DoubleNear(1e-12), {0.3593433815423469, 0.8677125251396793, 1.589825432137668,
                                                    2.178856670490305, 1.706805628141761, 2.038492447442602,
                                                    2.513655549978655, 1.4328833105680543}));
  EXPECT_NEAR(sum, 14.87652096871382, 1e-11);
  EXPECT_NEAR(squares, 90.13262489494996, 1e-11);
  EXPECT_THAT(test::error_of<Error>([&] { Conv2d(cx, 3, 4, {3, 3}, {.groups = 2}); }),
              HasSubstr("must be positive multiples of groups=2"));
}

TEST(Sequential, RunsInOrder) {
  Graph cx;
  const Sequential layers(Identity(), ReLU(), MaxPool2d(2), Flatten());
  GraphTensor x = cx.tensor({1, 1, 2, 4}).set({-1, 2, -3, -4, 5, -6, -7, -8});
  GraphTensor y = layers.forward(x).retrieve();
  cx.execute();
  EXPECT_THAT(y.data<float>(), ElementsAre(5, 0));
}

// Mean and deviation of many draws within five standard errors; equal seeds give equal weights.
/// Numbers come from their places in the stream, whatever thread draws them.
TEST(Init, ElementsOfLargeTensorsAreTheStreamsInOrder) {
  Graph cx;
  const init::Stream stream(cx);
  constexpr uint64_t kCount = 3 * 65536 + 5;
  const auto number = [&](uint64_t place) {  // by the definition of the stream
    const auto words =
        philox4x32({static_cast<uint32_t>(place / 2), 0, static_cast<uint32_t>(stream.number()), 0x696e6974},
                   {static_cast<uint32_t>(stream.seed()), static_cast<uint32_t>(stream.seed() >> 32)});
    const uint64_t word = (uint64_t{words[place % 2 * 2]} << 32) | words[place % 2 * 2 + 1];
    return (static_cast<double>(word >> 11) + 0.5) * 0x1p-53;
  };
  const TensorData uniform = init::uniform(stream, {kCount}, -1, 3);
  const TensorData normal = init::normal(stream, {kCount}, 0.5, 2);
  for (const uint64_t i : {uint64_t{0}, uint64_t{65535}, uint64_t{65536}, uint64_t{131073}, kCount - 1}) {
    EXPECT_EQ(uniform.as<float>()[i], static_cast<float>(-1 + 4 * number(i))) << i;
    const double radius = std::sqrt(-2 * std::log(number(2 * i)));
    const double gauss = radius * std::cos(2 * std::numbers::pi * number(2 * i + 1));
    EXPECT_FLOAT_EQ(normal.as<float>()[i], static_cast<float>(0.5 + 2 * gauss)) << i;
  }
}

TEST(Init, DistributionsAreWhatTheySay) {
  Graph cx;
  cx.set_seed(7);
  struct Case {
    TensorData data;
    double mean, deviation;
  };
  const std::vector<int64_t> dims{200, 100};
  const std::vector<Case> cases{
      {init::uniform(cx, dims, -1, 3), 1, 4 / std::sqrt(12.0)},
      {init::normal(cx, dims, 0.5, 2), 0.5, 2},
      {init::truncated_normal(cx, dims), 0, 0.8796256610342398},  // of a normal cut at two deviations
      {init::kaiming_uniform(cx, dims), 0, std::sqrt(2.0 / 100)},
      {init::kaiming_normal(cx, dims), 0, std::sqrt(2.0 / 100)},
      {init::xavier_uniform(cx, dims), 0, std::sqrt(2.0 / 300)},
      {init::xavier_normal(cx, dims, 2), 0, 2 * std::sqrt(2.0 / 300)},
      {init::kaiming_uniform(cx, dims, 0.5, init::Fan::Out), 0, std::sqrt(2.0 / 1.25 / 200)},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    double sum = 0, squares = 0;
    for (const float value : cases[i].data.as<float>()) {
      sum += value;
      squares += (value - cases[i].mean) * (value - cases[i].mean);
    }
    const auto count = static_cast<double>(cases[i].data.element_count());
    EXPECT_NEAR(sum / count, cases[i].mean, 5 * cases[i].deviation / std::sqrt(count)) << i;
    EXPECT_NEAR(std::sqrt(squares / count), cases[i].deviation, 5 * cases[i].deviation / std::sqrt(count))
        << i;
  }
  for (const float value : cases[2].data.as<float>()) ASSERT_LE(std::abs(value), 2);
  Graph a, b;
  a.set_seed(3);
  b.set_seed(3);
  EXPECT_EQ(init::uniform(a, {4}, 0, 1).bytes, init::uniform(b, {4}, 0, 1).bytes);
  EXPECT_NE(init::uniform(a, {4}, 0, 1).bytes, init::uniform(a, {4}, 0, 1).bytes);
  EXPECT_THAT(test::error_of<Error>([&] { (void)init::kaiming_normal(a, {4}); }),
              HasSubstr("[init] a weight of [4] has no fan-in"));
}

TEST(Init, OrthogonalRowsStandAtRightAngles) {
  Graph cx;
  for (const std::vector<int64_t>& dims : {std::vector<int64_t>{3, 5}, {5, 3}, {4, 2, 2}}) {
    const TensorData data = init::orthogonal(cx, dims, 2);
    const auto rows = static_cast<size_t>(dims[0]), columns = data.as<float>().size() / rows;
    const auto at = [&](size_t i, size_t j) {
      return static_cast<double>(data.as<float>()[i * columns + j]);
    };
    const bool wide = rows <= columns;
    const size_t count = wide ? rows : columns, length = wide ? columns : rows;
    for (size_t a = 0; a < count; ++a)
      for (size_t b = 0; b < count; ++b) {
        double dot = 0;
        for (size_t k = 0; k < length; ++k) dot += wide ? at(a, k) * at(b, k) : at(k, a) * at(k, b);
        EXPECT_NEAR(dot, a == b ? 4 : 0, 1e-6);
      }
  }
  EXPECT_EQ(init::eye({2, 3}).as<float>()[4], 1);
  EXPECT_DOUBLE_EQ(init::gain("tanh"), 5.0 / 3);
  EXPECT_THAT(test::error_of<Error>([] { (void)init::gain("sine"); }),
              HasSubstr("[init] no gain is known for the nonlinearity 'sine'"));
}

// PyTorch's defaults: uniform within 1/sqrt(fan_in), embeddings N(0, 1), attention Xavier.
TEST(Init, ModulesStartAsPyTorchs) {
  Graph cx;
  const auto moments = [](const GraphTensor& w) {
    double sum = 0, squares = 0;
    const auto values = w.data<double>();
    for (const double v : values) {
      sum += v;
      squares += v * v;
    }
    return std::pair(sum / static_cast<double>(values.size()), squares / static_cast<double>(values.size()));
  };
  const auto expect_variance = [&](const GraphTensor& w, double variance) {
    const auto [mean, square] = moments(w);
    const auto count = static_cast<double>(w.data<double>().size());
    EXPECT_NEAR(mean, 0, 5 * std::sqrt(variance / count));
    EXPECT_NEAR(square, variance, 5 * variance * std::sqrt(2 / count));  // a normal's, the widest of these
  };
  expect_variance(Linear(cx, 50, 80).weight, 1.0 / 50 / 3);
  expect_variance(Conv2d(cx, 8, 20, {3, 3}).weight, 1.0 / 72 / 3);
  expect_variance(ConvTranspose2d(cx, 20, 8, {3, 3}).weight, 1.0 / 72 / 3);
  expect_variance(Embedding(cx, 100, 40).weight, 1);
  expect_variance(*MultiheadAttention(cx, 40, 4).in_proj_weight, 2.0 / (40 + 120));
  const MultiheadAttention attention(cx, 4, 2);
  EXPECT_THAT(attention.out_proj.bias->data<float>(), testing::Each(0));
  expect_variance(Transformer(cx, 32, 2, {1, 1}).encoder.layers[0].feed_forward.linear1.weight,
                  2.0 / (32 + 2048));
}

}  // namespace
}  // namespace luminal::nn
