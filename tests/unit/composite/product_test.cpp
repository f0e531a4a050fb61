#include "run.h"

// Products against loops in f64: matmul, einsum, convolution, pooling, attention.
namespace luminal::composite_test {
namespace {

using Values = std::vector<float>;

TEST(Matmul, ThreeSizesWithBatchBroadcasting) {
  Graph cx;
  const GraphTensor a = cx.tensor({2, 1, "m", "k"}), b = cx.tensor({3, "k", 4});
  const GraphTensor c = a.matmul(b).retrieve();
  EXPECT_EQ(c.dims(), (Shape{2, 3, "m", 4}));
  for (const auto& [m, k] : {std::pair<int64_t, int64_t>{1, 1}, {5, 3}, {4, 0}}) {
    const Values av = random_values(2 * m * k, 1), bv = random_values(3 * k * 4, 2);
    GraphTensor(a).set_dyn(av, {2, 1, m, k});
    GraphTensor(b).set_dyn(bv, {3, k, 4});
    cx.execute();
    std::vector<double> wanted;
    for (int64_t p = 0; p < 2; ++p)
      for (int64_t q = 0; q < 3; ++q)
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < 4; ++j) {
            double sum = 0;
            for (int64_t e = 0; e < k; ++e)
              sum += static_cast<double>(av[static_cast<size_t>((p * m + i) * k + e)]) *
                     bv[static_cast<size_t>((q * k + e) * 4 + j)];
            wanted.push_back(sum);
          }
    EXPECT_TRUE(near(c.data<double>(), wanted, 1e-6, 1e-6)) << m << " x " << k;
  }
}

TEST(Matmul, VectorsAsInPyTorch) {
  Graph cx;
  const GraphTensor m = input(cx, {2, 3}, {1, 2, 3, 4, 5, 6}), v = input(cx, {3}, {1, 0, -1}),
                    w = input(cx, {2}, {1, 2});
  EXPECT_TRUE(near(run(m.matmul(v)), {-2, -2}));
  EXPECT_TRUE(near(run(w.matmul(m)), {9, 12, 15}));
  EXPECT_TRUE(near(run(v.matmul(v)), {2}));
  EXPECT_TRUE(near(run(v.dot(v)), {2}));
  EXPECT_EQ(v.matmul(v).rank(), 0);
  EXPECT_EQ(m.unsqueeze(0).matmul(v).dims(), (Shape{1, 2}));
  EXPECT_EQ(w.matmul(m.expand({4, 2, 3})).dims(), (Shape{4, 3}));
  const GraphTensor n = cx.tensor({1, 2}, Dtype::I32).set({{65537, 65537}});
  EXPECT_EQ(n.matmul(n.t()).dtype(), Dtype::I32);
  EXPECT_EQ(run<int32_t>(n.matmul(n.t()))[0], 262146);  // 2 * (2^16 + 1)^2 modulo 2^32
}

TEST(Matmul, MakesOneMultiplyAndOneSum) {
  Graph cx;
  const GraphTensor a = cx.tensor({8, 2, 3}), b = cx.tensor({3, 5});
  const size_t before = cx.node_count();
  (void)a.matmul(b);
  EXPECT_EQ(cx.node_count(), before + 2);
}

TEST(Matmul, Gradients) {
  Graph cx;
  const GraphTensor a = input(cx, {1, 2}, {2, 3}), b = input(cx, {2, 2}, {5, 7, 11, 13});
  EXPECT_TRUE(near(slope(cx, a, a.matmul(b)), {12, 24}));
  EXPECT_TRUE(near(slope(cx, b, a.matmul(b)), {2, 2, 3, 3}));
}

// --- einsum

TEST(Einsum, AgainstOtherOps) {
  Graph cx;
  const GraphTensor a = input(cx, {3, 4}, random_values(12, 1)), b = input(cx, {4, 5}, random_values(20, 2)),
                    c = input(cx, {5, 3}, random_values(15, 3)), q = input(cx, {3, 3}, random_values(9, 4)),
                    t = input(cx, {2, 3, 4}, random_values(24, 5));
  const auto same = [](const GraphTensor& x, const GraphTensor& y) {
    EXPECT_EQ(x.dims(), y.dims());
    return near(run(x), run(y), 1e-5, 1e-6);
  };
  EXPECT_TRUE(same(einsum("ij,jk->ik", {a, b}), a.matmul(b)));
  EXPECT_TRUE(same(einsum("ij,jk", {a, b}), a.matmul(b)));
  EXPECT_TRUE(same(einsum("ba", {a}), a.t()));  // letters of the output in alphabetical order
  EXPECT_TRUE(same(einsum("i j -> j", {a}), a.sum(0)));
  EXPECT_TRUE(same(einsum("ij->", {a}), a.sum()));
  EXPECT_TRUE(same(einsum("ij,jk,kl->il", {a, b, c}), a.matmul(b).matmul(c)));
  EXPECT_TRUE(same(einsum("ij,jk,ki->", {a, b, c}), (a.matmul(b) * c.t()).sum()));
  EXPECT_TRUE(same(einsum("ii->", {q}), (q * cx.eye(3)).sum()));
  EXPECT_TRUE(same(einsum("ii->i", {q}), (q * cx.eye(3)).sum(0)));
  EXPECT_TRUE(same(einsum("ii,ij->ij", {q, a}), (q * cx.eye(3)).sum(1, true) * a));
  EXPECT_TRUE(same(einsum("...ij,...jk->...ik", {t, b}), t.matmul(b)));
  EXPECT_TRUE(
      same(einsum("...j,j->...", {t, a.slice({{0, 1}}).squeeze(0)}), t.matmul(a.slice({{0, 1}}).squeeze(0))));
  EXPECT_TRUE(same(einsum("bij,ij->b...", {t, a}), (t * a).sum({1, 2})));
  EXPECT_TRUE(same(einsum("ij,kl->ijkl", {a, q}), a.reshape({3, 4, 1, 1}) * q));
  EXPECT_TRUE(same(einsum("ij,ij->ij", {a, a}), a * a));
  EXPECT_TRUE(near(slope(cx, q, einsum("ii->i", {q}) * 2), {2, 0, 0, 0, 2, 0, 0, 0, 2}));
}

TEST(Einsum, SymbolicDiagonal) {
  Graph cx;
  const GraphTensor x = cx.tensor({"n", "n"}), trace = einsum("ii->", {x}).retrieve();
  const GraphTensor gradient = cx.run_pass(Autograd({x}, trace)).at(0).retrieve();
  for (const int64_t n : {1, 3, 6}) {
    const Values values = random_values(n * n, 9);
    GraphTensor(x).set_dyn(values, {n, n});
    cx.execute();
    double sum = 0;
    std::vector<double> eye;
    for (int64_t i = 0; i < n * n; ++i) {
      eye.push_back(i % (n + 1) == 0);
      if (i % (n + 1) == 0) sum += values[static_cast<size_t>(i)];
    }
    EXPECT_NEAR(trace.data<double>()[0], sum, 1e-6);
    EXPECT_TRUE(near(gradient.data<double>(), eye));
  }
}

// --- Convolution and pooling

struct Geometry {
  int64_t batch, channels, height, width, out, kernel_h, kernel_w;
  Conv2dOptions options;
};

std::vector<double> convolved(const Values& x, const Values& weight, const Geometry& g, int64_t& out_h,
                              int64_t& out_w) {
  const auto& o = g.options;
  out_h = (g.height + 2 * o.padding[0] - o.dilation[0] * (g.kernel_h - 1) - 1) / o.stride[0] + 1;
  out_w = (g.width + 2 * o.padding[1] - o.dilation[1] * (g.kernel_w - 1) - 1) / o.stride[1] + 1;
  const int64_t per_group = g.channels / o.groups, outs = g.out / o.groups;
  std::vector<double> result;
  for (int64_t n = 0; n < g.batch; ++n)
    for (int64_t f = 0; f < g.out; ++f)
      for (int64_t y = 0; y < out_h; ++y)
        for (int64_t z = 0; z < out_w; ++z) {
          double sum = 0;
          for (int64_t c = 0; c < per_group; ++c)
            for (int64_t u = 0; u < g.kernel_h; ++u)
              for (int64_t v = 0; v < g.kernel_w; ++v) {
                const int64_t row = y * o.stride[0] + u * o.dilation[0] - o.padding[0];
                const int64_t column = z * o.stride[1] + v * o.dilation[1] - o.padding[1];
                if (row < 0 || row >= g.height || column < 0 || column >= g.width) continue;
                const int64_t channel = f / outs * per_group + c;
                sum += static_cast<double>(x[static_cast<size_t>(
                           ((n * g.channels + channel) * g.height + row) * g.width + column)]) *
                       weight[static_cast<size_t>(((f * per_group + c) * g.kernel_h + u) * g.kernel_w + v)];
              }
          result.push_back(sum);
        }
  return result;
}

TEST(Conv2d, AgainstLoops) {
  const std::vector<Geometry> cases = {
      {2, 3, 5, 6, 4, 3, 3, {}},
      {1, 2, 7, 6, 2, 3, 2, {.stride = {2, 1}, .padding = {1, 2}}},
      {2, 4, 8, 8, 6, 3, 3, {.stride = {1, 2}, .padding = {2, 1}, .dilation = {2, 3}, .groups = 2}},
      {1, 3, 4, 4, 3, 2, 2, {.groups = 3}},
      {1, 1, 3, 3, 2, 1, 1, {.stride = {3, 3}}},
  };
  for (const Geometry& g : cases) {
    const int64_t per_group = g.channels / g.options.groups;
    const Values xv = random_values(g.batch * g.channels * g.height * g.width, 1);
    const Values wv = random_values(g.out * per_group * g.kernel_h * g.kernel_w, 2);
    Graph cx;
    const GraphTensor x = input(cx, {g.batch, g.channels, g.height, g.width}, xv);
    const GraphTensor w = input(cx, {g.out, per_group, g.kernel_h, g.kernel_w}, wv);
    const GraphTensor y = conv2d(x, w, g.options);
    int64_t out_h = 0, out_w = 0;
    const std::vector<double> wanted = convolved(xv, wv, g, out_h, out_w);
    EXPECT_EQ(y.dims(), (Shape{g.batch, g.out, out_h, out_w}));
    EXPECT_TRUE(near(run(y), wanted, 1e-5, 1e-6));
  }
}

TEST(Conv2d, SymbolicBatchAndImageAtThreeSizes) {
  Graph cx;
  const GraphTensor x = cx.tensor({"n", 2, "h", "w"}), w = input(cx, {3, 2, 3, 3}, random_values(54, 8));
  const Conv2dOptions options{.stride = {2, 1}, .padding = {1, 1}};
  const GraphTensor y = conv2d(x, w, options).retrieve();
  const GraphTensor gradient = cx.run_pass(Autograd({w}, y.sum())).at(0).retrieve();
  for (const auto& [n, h, v] : {std::array<int64_t, 3>{1, 3, 4}, {3, 6, 5}, {2, 1, 1}}) {
    const Values xv = random_values(n * 2 * h * v, 4);
    GraphTensor(x).set_dyn(xv, {n, 2, h, v});
    cx.execute();
    int64_t out_h = 0, out_w = 0;
    const std::vector<double> wanted =
        convolved(xv, random_values(54, 8), {n, 2, h, v, 3, 3, 3, options}, out_h, out_w);
    EXPECT_TRUE(near(y.data<double>(), wanted, 1e-5, 1e-6));
    // The result is linear in the weight: its sum by one weight is the sum with that weight alone being 1.
    for (const size_t probe : {size_t{0}, size_t{13}, size_t{53}}) {
      Values unit(54, 0);
      unit[probe] = 1;
      double sum = 0;
      for (const double value : convolved(xv, unit, {n, 2, h, v, 3, 3, 3, options}, out_h, out_w))
        sum += value;
      EXPECT_NEAR(gradient.data<double>()[probe], sum, 1e-4);
    }
  }
}

TEST(Conv2d, CopiesNothing) {
  Graph cx;
  const GraphTensor x = cx.tensor({1, 4, 8, 8}), w = cx.tensor({4, 2, 3, 3});
  const size_t before = cx.node_count();
  (void)conv2d(x, w, {.stride = {2, 2}, .padding = {1, 1}, .groups = 2});
  EXPECT_EQ(cx.node_count(), before + 2);  // the multiply and the sum
}

TEST(Pool2d, AgainstLoops) {
  const Values values = random_values(2 * 6 * 7, 6);
  Graph cx;
  const GraphTensor x = input(cx, {1, 2, 6, 7}, values);
  const Pool2dOptions options{.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 1}, .dilation = {1, 2}};
  std::vector<double> most, mean;
  for (int64_t c = 0; c < 2; ++c)
    for (int64_t y = 0; y < 3; ++y)
      for (int64_t z = 0; z < 7; ++z) {
        double top = -kInf, sum = 0;
        for (int64_t u = 0; u < 3; ++u)
          for (int64_t v = 0; v < 2; ++v) {
            const int64_t row = y * 2 + u - 1, column = z + v * 2 - 1;
            if (row < 0 || row >= 6 || column < 0 || column >= 7) continue;
            top = std::max(top, static_cast<double>(values[static_cast<size_t>((c * 6 + row) * 7 + column)]));
            sum += values[static_cast<size_t>((c * 6 + row) * 7 + column)];
          }
        most.push_back(top);
        mean.push_back(sum / 6);
      }
  EXPECT_TRUE(near(run(max_pool2d(x, options)), most));
  EXPECT_TRUE(near(run(avg_pool2d(x, options)), mean, 1e-5, 1e-7));
  EXPECT_EQ(max_pool2d(x).dims(), (Shape{1, 2, 3, 3}));
  EXPECT_EQ(max_pool2d(x.squeeze(0)).dims(), (Shape{2, 3, 3}));
}

TEST(Pool2d, FirstMaximumGetsTheGradient) {
  Graph cx;
  const GraphTensor x = input(cx, {1, 1, 2, 4}, {1, 1, 5, 5, 1, 1, 5, 7});
  EXPECT_TRUE(near(slope(cx, x, max_pool2d(x)), {1, 0, 0, 0, 0, 0, 0, 1}));
  const GraphTensor n = input(cx, {1, 1, 2, 2}, {-3, NAN, -1, -2});
  EXPECT_TRUE(near(run(max_pool2d(n)), {kNaN}));
  EXPECT_TRUE(near(run(max_pool2d(n.slice_along(3, 0, 1), {.kernel = {2, 1}, .padding = {1, 0}})), {-3, -1}));
  EXPECT_TRUE(
      near(run(max_pool2d(cx.tensor({1, 2, 2}, Dtype::U8).set(std::vector<uint8_t>{3, 0, 1, 2}))), {3}));
}

// --- Attention

std::vector<double> attended(const Values& q, const Values& k, const Values& v, int64_t s, int64_t t,
                             int64_t e, const std::function<double(int64_t, int64_t)>& bias) {
  std::vector<double> result;
  for (int64_t i = 0; i < s; ++i) {
    std::vector<double> p(static_cast<size_t>(t));
    double total = 0;
    for (int64_t j = 0; j < t; ++j) {
      double score = 0;
      for (int64_t d = 0; d < e; ++d)
        score += static_cast<double>(q[static_cast<size_t>(i * e + d)]) * k[static_cast<size_t>(j * e + d)];
      p[static_cast<size_t>(j)] = std::exp(score / std::sqrt(static_cast<double>(e)) + bias(i, j));
      total += p[static_cast<size_t>(j)];
    }
    for (int64_t d = 0; d < e; ++d) {
      double sum = 0;
      for (int64_t j = 0; j < t; ++j) sum += p[static_cast<size_t>(j)] * v[static_cast<size_t>(j * e + d)];
      result.push_back(total == 0 ? 0 : sum / total);
    }
  }
  return result;
}

TEST(Attention, AgainstLoopsAtThreeSizes) {
  Graph cx;
  const GraphTensor q = cx.tensor({"s", 4}), k = cx.tensor({"t", 4}), v = cx.tensor({"t", 4});
  const GraphTensor plain = attention(q, k, v).retrieve(),
                    causal = attention(q, k, v, {.causal = true}).retrieve();
  const GraphTensor bias = cx.iota(Expression::flat_index() % 3, {"s", "t"}, Dtype::F32);
  const GraphTensor added = attention(q, k, v, bias).retrieve();
  const GraphTensor seen = cx.iota(Expression::flat_index() % 3, {"s", "t"}).ne(0);
  const GraphTensor masked = attention(q, k, v, seen).retrieve();
  for (const auto& [s, t] : {std::pair<int64_t, int64_t>{1, 5}, {4, 4}, {5, 3}}) {
    const Values qv = random_values(s * 4, 1, -3, 3), kv = random_values(t * 4, 2, -3, 3),
                 vv = random_values(t * 4, 3);
    GraphTensor(q).set_dyn(qv, {s, 4});
    GraphTensor(k).set_dyn(kv, {t, 4});
    GraphTensor(v).set_dyn(vv, {t, 4});
    cx.execute();
    const auto check = [&](const GraphTensor& got, const std::function<double(int64_t, int64_t)>& f) {
      return near(got.data<double>(), attended(qv, kv, vv, s, t, 4, f), 2e-5, 1e-6);
    };
    const auto width = t;
    const auto offset = t - s;
    EXPECT_TRUE(check(plain, [](int64_t, int64_t) { return 0.0; }));
    EXPECT_TRUE(check(causal, [=](int64_t i, int64_t j) { return j <= i + offset ? 0 : -kInf; }));
    EXPECT_TRUE(check(added, [=](int64_t i, int64_t j) { return static_cast<double>((i * width + j) % 3); }));
    EXPECT_TRUE(check(masked, [=](int64_t i, int64_t j) { return (i * width + j) % 3 != 0 ? 0 : -kInf; }));
  }
}

TEST(Attention, HeadsShareKeysByBroadcasting) {
  Graph cx;
  const GraphTensor q = input(cx, {6, 2, 4}, random_values(48, 1)),
                    k = input(cx, {2, 3, 4}, random_values(24, 2)),
                    v = input(cx, {2, 3, 5}, random_values(30, 3));
  const GraphTensor shared = attention(q.split_dims(0, 3), k.unsqueeze(1), v.unsqueeze(1)).merge_dims(0, 1);
  EXPECT_EQ(shared.dims(), (Shape{6, 2, 5}));
  const GraphTensor copied =
      attention(q, k.expand_dim(1, 3).merge_dims(0, 1), v.expand_dim(1, 3).merge_dims(0, 1));
  EXPECT_TRUE(near(run(shared), run(copied), 1e-6));
}

}  // namespace
}  // namespace luminal::composite_test
