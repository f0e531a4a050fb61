#include "luminal/convolution.h"

#include <gmock/gmock.h>

#include "run.h"

// Convolutions of one and three axes, transposed ones, pools and resizing against loops in f64.
namespace luminal::composite_test {
namespace {

/// y[o][t] = sum x[c][i] w[c][o][k] over i * stride + k * dilation = t + padding; groups of channels.
std::vector<double> transposed_by_loops(const std::vector<float>& x, const std::vector<float>& w, int64_t c,
                                        int64_t n, int64_t o, int64_t k, const ConvTransposeOptions<1>& how) {
  const int64_t length =
      (n - 1) * how.stride[0] - 2 * how.padding[0] + how.dilation[0] * (k - 1) + how.output_padding[0] + 1;
  std::vector<double> y(static_cast<size_t>(o * how.groups * length));
  for (int64_t ci = 0; ci < c; ++ci)
    for (int64_t oi = 0; oi < o; ++oi)
      for (int64_t i = 0; i < n; ++i)
        for (int64_t ki = 0; ki < k; ++ki) {
          const int64_t t = i * how.stride[0] + ki * how.dilation[0] - how.padding[0];
          const int64_t out = ci / (c / how.groups) * o + oi;
          if (t >= 0 && t < length)
            y[static_cast<size_t>(out * length + t)] +=
                static_cast<double>(x[static_cast<size_t>(ci * n + i)]) *
                w[static_cast<size_t>((ci * o + oi) * k + ki)];
        }
  return y;
}

TEST(ConvTranspose, AgainstLoops) {
  for (const int64_t stride : {1, 2, 3})
    for (const int64_t dilation : {1, 2})
      for (const int64_t kernel : {1, 2, 3, 4})
        for (const int64_t groups : {1, 2}) {
          if (dilation * (kernel - 1) < 1) continue;
          const ConvTransposeOptions<1> how{.stride = {stride},
                                            .padding = {1},
                                            .output_padding = {stride - 1},
                                            .dilation = {dilation},
                                            .groups = groups};
          Graph cx;
          const auto xv = random_values(4 * 5, 1), wv = random_values(4 * 3 * kernel, 2);
          const GraphTensor y =
              conv_transpose1d(input(cx, {1, 4, 5}, xv), input(cx, {4, 3, kernel}, wv), how);
          EXPECT_TRUE(near(run(y), transposed_by_loops(xv, wv, 4, 5, 3, kernel, how), 1e-5, 1e-6))
              << "stride " << stride << " dilation " << dilation << " kernel " << kernel;
        }
}

TEST(ConvTranspose, IsTheGradientOfTheConvolution) {
  Graph cx;
  const Conv2dOptions forward{.stride = {2, 3}, .padding = {1, 0}, .dilation = {1, 2}};
  const GraphTensor x = input(cx, {2, 3, 7, 11}, random_values(2 * 3 * 77, 1));
  const GraphTensor w = input(cx, {4, 3, 3, 3}, random_values(4 * 27, 2));
  const GraphTensor y = conv2d(x, w, forward);
  const GraphTensor up = input(cx, y.dims(), random_values(2 * 4 * 4 * 3, 3));
  const GraphTensor back = conv_transpose2d(
      up, w, {.stride = {2, 3}, .padding = {1, 0}, .output_padding = {0, 0}, .dilation = {1, 2}});
  EXPECT_EQ(back.dims(), x.dims());
  EXPECT_TRUE(near(run(back), slope(cx, x, y * up), 1e-5, 1e-6));
}

TEST(Conv, StridedGradientReadsEachTapOnce) {
  // The gradient by x sums, for each place, kernel / stride taps per axis: not all of them.
  Graph cx;
  const GraphTensor x = cx.tensor({1, 4, 32, 32}), w = cx.tensor({4, 4, 4, 4});
  const GraphTensor y = conv2d(x, w, {.stride = {2, 2}, .padding = {1, 1}});
  const GraphTensor dx = cx.run_pass(Autograd({x}, y)).at(0);
  (void)dx;
  double most = 0;
  for (const NodeId id : cx.topological_order()) {
    double elements = 1;
    for (const Expression& dim : cx.node(id).outputs.at(0).dims)
      elements *= static_cast<double>(dim.constant().value_or(1));
    most = std::max(most, elements);
  }
  EXPECT_LE(most, 4 * 4 * 34 * 34 * 4.0);
}

TEST(Conv, OneAndThreeAxesAgreeWithTwo) {
  Graph cx;
  const GraphTensor x = input(cx, {2, 4, 9}, random_values(72, 1)),
                    w = input(cx, {6, 2, 3}, random_values(36, 2));
  const Conv1dOptions along{.stride = {2}, .padding = {2}, .dilation = {2}, .groups = 2};
  const GraphTensor flat = conv2d(x.unsqueeze(2), w.unsqueeze(2),
                                  {.stride = {1, 2}, .padding = {0, 2}, .dilation = {1, 2}, .groups = 2});
  // Sums of six products below 1 may be added in any order.
  const auto agree = [&](const GraphTensor& other, const GraphTensor& wanted) {
    return near(run(other), run(wanted), 1e-6, 1e-6);
  };
  EXPECT_TRUE(agree(conv1d(x, w, along), flat));
  EXPECT_TRUE(agree(conv1d(x.slice({{0, 1}}).squeeze(0), w, along), flat.slice({{0, 1}})));
  const GraphTensor deep =
      conv3d(x.unsqueeze(2).unsqueeze(2), w.unsqueeze(2).unsqueeze(2),
             {.stride = {1, 1, 2}, .padding = {0, 0, 2}, .dilation = {1, 1, 2}, .groups = 2});
  EXPECT_TRUE(agree(deep, flat));
}

TEST(Conv, SizesKnownAtRunTimeOnly) {
  Graph cx;
  const GraphTensor x = cx.tensor({"cb", 2, "cn"}), w = input(cx, {3, 2, 3}, random_values(18, 2)),
                    v = input(cx, {2, 3, 3}, random_values(18, 3));
  const GraphTensor y = conv1d(x, w, {.stride = {2}, .padding = {1}}).retrieve();
  const GraphTensor t = conv_transpose1d(x, v, {.stride = {2}, .padding = {1}}).retrieve();
  const GraphTensor a = adaptive_avg_pool(x, {3}).retrieve();
  const GraphTensor u = upsample(x, 2, {.mode = Interpolation::Linear}).retrieve();
  const GraphTensor m = avg_pool1d(x, {.kernel = {3}, .stride = {2}, .ceil_mode = true}).retrieve();
  for (const int64_t n : {5, 8}) {
    const auto values = random_values(2 * 2 * n, 4);
    GraphTensor(x).set_dyn(values, {2, 2, n});
    cx.execute();
    Graph known;
    const GraphTensor kx = input(known, {2, 2, n}, values),
                      kw = input(known, {3, 2, 3}, random_values(18, 2)),
                      kv = input(known, {2, 3, 3}, random_values(18, 3));
    EXPECT_TRUE(near(y.data<double>(), run(conv1d(kx, kw, {.stride = {2}, .padding = {1}}))));
    EXPECT_TRUE(near(t.data<double>(), run(conv_transpose1d(kx, kv, {.stride = {2}, .padding = {1}}))));
    EXPECT_TRUE(near(a.data<double>(), run(adaptive_avg_pool(kx, {3}))));
    EXPECT_TRUE(near(u.data<double>(), run(upsample(kx, 2, {.mode = Interpolation::Linear}))));
    EXPECT_TRUE(
        near(m.data<double>(), run(avg_pool1d(kx, {.kernel = {3}, .stride = {2}, .ceil_mode = true}))));
  }
}

TEST(Pools, CeilModeAndPaddingByHand) {
  Graph cx;
  const GraphTensor x = input(cx, {1, 1, 5}, {1, 2, 3, 4, 5});
  EXPECT_TRUE(near(run(max_pool1d(x, {.kernel = {2}, .ceil_mode = true})), {2, 4, 5}));
  EXPECT_TRUE(near(run(avg_pool1d(x, {.kernel = {2}, .ceil_mode = true})), {1.5, 3.5, 5}));
  EXPECT_TRUE(near(run(avg_pool1d(x, {.kernel = {2}, .padding = {1}})), {0.5, 2.5, 4.5}));
  EXPECT_TRUE(
      near(run(avg_pool1d(x, {.kernel = {2}, .padding = {1}, .count_include_pad = false})), {1, 2.5, 4.5}));
  EXPECT_TRUE(near(run(adaptive_avg_pool(x, {2})), {2, 4}));
  EXPECT_TRUE(near(run(adaptive_avg_pool(x, {5})), {1, 2, 3, 4, 5}));
}

TEST(Convolutions, WrongInputSaysWhatToDo) {
  Graph cx;
  const GraphTensor x = cx.tensor({1, 4, 8}), w = cx.tensor({4, 2, 3});
  const auto said = [](const std::function<void()>& action) { return message_of<ShapeError>(action); };
  EXPECT_THAT(said([&] { (void)conv1d(cx.tensor({8}), w); }),
              testing::HasSubstr("give [batch, channels, length] or [channels, length]"));
  EXPECT_THAT(said([&] { (void)conv_transpose1d(x, w, {.output_padding = {1}}); }),
              testing::HasSubstr("the output padding 1 is not below the stride 1 or the dilation 1"));
  EXPECT_THAT(said([&] { (void)conv_transpose1d(x, cx.tensor({3, 2, 3})); }),
              testing::HasSubstr("has 4 channels, but weight f32[3, 2, 3] has 3"));
  EXPECT_THAT(said([&] { (void)conv_transpose1d(x, w, {.padding = {9}}); }),
              testing::HasSubstr("padding 9 leaves nothing"));
  EXPECT_THAT(said([&] { (void)adaptive_avg_pool(x, {0}); }), testing::HasSubstr("give sizes above 0"));
  EXPECT_THAT(said([&] { (void)upsample(x, 0); }), testing::HasSubstr("give 1 or more"));
  EXPECT_THAT(message_of<DtypeError>(
                  [&] { (void)interpolate(x.cast(Dtype::I32), {4}, {.mode = Interpolation::Linear}); }),
              testing::HasSubstr("cast it to a float"));
  EXPECT_THAT(said([&] { (void)x.topk(9, 2); }), testing::HasSubstr("give a k from 0"));
  EXPECT_THAT(said([&] { (void)x.group_norm(3); }), testing::HasSubstr("do not divide the 4 channels"));
}

}  // namespace
}  // namespace luminal::composite_test
