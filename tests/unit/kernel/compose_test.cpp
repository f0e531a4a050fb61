#include "kernel/axes.h"
#include "luminal/autograd.h"
#include "luminal/convolution.h"
#include "luminal/nn.h"
#include "unit/kernel/check.h"
#include "unit/passes/random_graph.h"

namespace luminal::kernel::test {
namespace {

TEST(Compose, ElementwiseChainsThroughViews) {
  Graph cx;
  auto x = cx.tensor({6, 4}), y = cx.tensor({4, 6});
  fill(x, 1), fill(y, 2);
  EXPECT_TRUE(check(cx, (x.permute({1, 0}) * y + 1.0F).relu()));
  EXPECT_TRUE(check(cx, (x * 2.0F).reshape({4, 6}).flip(0) + y));
  EXPECT_TRUE(check(cx, (x + 1.0F).pad_along(0, 1, 2, 3.0F) * 2.0F));
  EXPECT_TRUE(check(cx, (x + 1.0F).pad_along(0, 1, 2, 0.0F).relu().pad_along(1, 1, 0, 0.0F)));
}

TEST(Compose, ReluUnderPaddingNeedsNoSelect) {
  Graph cx;
  auto x = cx.tensor({6, 4});
  fill(x, 1);
  const auto s = check(cx, x.relu().pad_along(0, 1, 2, 0.0F) * 2.0F);
  ASSERT_TRUE(s);
  EXPECT_EQ(s->spec.to_string(),
            "kernel f32[9,4]\n"
            "  i in 9, j in 4: Y[i,j] = max(A[i-1,j]{0 <= i-1 < 6 else 0}, 0) * 2\n");
}

TEST(Compose, SoftmaxIsOneSpec) {
  Graph cx;
  auto x = cx.tensor({32, 1000});
  fill(x, 1);
  const auto s = check(cx, x.softmax(-1));
  ASSERT_TRUE(s);
  EXPECT_EQ(s->spec.to_string(),
            "kernel f32[32,1000]\n"
            "  i in 32:\n"
            "    m = max j in 1000: A[i,j]\n"
            "    s = online sum j in 1000: exp(A[i,j] - m)\n"
            "    j in 1000: Y[i,j] = exp(A[i,j] - m) * recip(s)\n");
}

TEST(Compose, SoftmaxOfColumns) {
  Graph cx;
  auto x = cx.tensor({5, 7});
  fill(x, 1);
  const auto s = check(cx, x.softmax(0));
  ASSERT_TRUE(s);
  EXPECT_EQ(s->spec.extents().size(), 2) << s->spec.to_string();
}

TEST(Compose, MatmulWithPrologueAndEpilogue) {
  Graph cx;
  auto x = cx.tensor({5, 7}), w = cx.tensor({7, 3}), bias = cx.tensor({3});
  fill(x, 1), fill(w, 2), fill(bias, 3);
  const auto s = check(cx, ((x * 2.0F).matmul(w) + bias.expand_dim(0, 5)).relu());
  ASSERT_TRUE(s);
  EXPECT_EQ(s->spec.to_string(),
            "kernel f32[5,3]\n"
            "  i in 5, j in 3:\n"
            "    s = sum k in 7: A[i,k] * 2 * B[k,j]\n"
            "    Y[i,j] = max(s + C[j], 0)\n");
}

TEST(Compose, AttentionNests) {
  Graph cx;
  auto q = cx.tensor({5, 4}), k = cx.tensor({5, 4}), v = cx.tensor({5, 4});
  fill(q, 1), fill(k, 2), fill(v, 3);
  const auto s = check(cx, (q.matmul(k.permute({1, 0})) * 0.5F).softmax(-1).matmul(v));
  ASSERT_TRUE(s);
  EXPECT_EQ(s->spec.values().size(), 5) << s->spec.to_string();  // the division left the sum
}

TEST(Compose, ConvolutionBiasRelu) {
  Graph cx;
  auto x = cx.tensor({"n", 16, 14, 14}), w = cx.tensor({32, 16, 3, 3}), b = cx.tensor({32});
  cx.set_dim("n", 1);
  fill(x, 1), fill(w, 2), fill(b, 3);
  auto y = conv2d(x, w, {.padding = {1, 1}});
  const auto s = check(cx, (y + b.reshape({1, 32, 1, 1})).relu());
  ASSERT_TRUE(s);
  EXPECT_EQ(
      s->spec.to_string(),
      "kernel f32[n,32,14,14]\n"
      "  i in n, j in 32, k in 14, l in 14:\n"
      "    s = sum u in 16, v in 3, w in 3: A[i,u,k+v-1,l+w-1]{0 <= k+v-1 < 14 and 0 <= l+w-1 < 14 else 0} * "
      "B[j,u,v,w]\n"
      "    Y[i,j,k,l] = max(s + C[j], 0)\n");
}

/// Every gradient of a convolution as one spec without quotients left where the stride is 1.
TEST(Compose, GradientsOfConvolution) {
  for (const int stride : {1, 2}) {
    Graph cx;
    auto x = cx.tensor({2, 3, 8, 8}), w = cx.tensor({4, 3, 3, 3});
    fill(x, 1), fill(w, 2);
    auto y = conv2d(x, w, {.stride = {stride, stride}, .padding = {1, 1}});
    auto upstream = cx.tensor(y.dims());
    fill(upstream, 3);
    const auto gradients = cx.run_pass(Autograd({x, w}, (y * upstream).sum()));
    for (const GraphTensor& g : gradients) {
      const auto s = check(cx, g);
      ASSERT_TRUE(s);
      EXPECT_EQ(s->spec.values().size(), 1) << "a contraction";
      EXPECT_EQ(s->spec.to_string().find('/'), std::string::npos) << s->spec.to_string();
    }
  }
}

// Whether there is a pixel is asked of the pixel alone: a weight that depended on the place would make the places a
// batch of the contraction.
TEST(Compose, WeightsOfStridedGradientsAskForTheirOwnTapsAlone) {
  for (const int kernel : {3, 5}) {
    Graph cx;
    auto x = cx.tensor({2, 3, 12, 12}), w = cx.tensor({4, 3, kernel, kernel});
    fill(x, 1), fill(w, 2);
    auto y = conv2d(x, w, {.stride = {2, 2}, .padding = {kernel / 2, kernel / 2}});
    auto upstream = cx.tensor(y.dims());
    fill(upstream, 3);
    const auto s = check(cx, cx.run_pass(Autograd({x}, (y * upstream).sum()))[0]);
    ASSERT_TRUE(s);
    const Value& sum = s->spec.result();
    EXPECT_TRUE(sum.masked_terms_vanish);
    const auto weight = std::ranges::find_if(sum.operands, [&](const Operand& o) {
      return s->slots[static_cast<size_t>(o.slot)] == w.edge().source;
    });
    ASSERT_NE(weight, sum.operands.end());
    for (const Mask& m : weight->masks)
      EXPECT_EQ(axes_of(m.predicate) & ~axes_of(weight->index), 0U) << s->spec.to_string();
  }
}

TEST(Compose, MaxPoolAndItsGradient) {
  Graph cx;
  auto x = cx.tensor({2, 3, 8, 8});
  fill(x, 1);
  auto y = max_pool2d(x.relu(), {.kernel = {2, 2}});
  auto upstream = cx.tensor(y.dims());
  fill(upstream, 3);
  const auto forward = check(cx, y);
  ASSERT_TRUE(forward);
  const auto gradients = cx.run_pass(Autograd({x}, (y * upstream).sum()));
  const auto s = check(cx, gradients[0]);
  ASSERT_TRUE(s);
}

TEST(Compose, InputGradientReadsThroughTheInverseMap) {
  Graph cx;
  auto x = cx.tensor({2, 3, 8, 8}), w = cx.tensor({4, 3, 3, 3});
  fill(x, 1), fill(w, 2);
  auto y = conv2d(x, w, {.padding = {1, 1}});
  auto upstream = cx.tensor(y.dims());
  fill(upstream, 3);
  const auto s = check(cx, cx.run_pass(Autograd({x}, (y * upstream).sum()))[0]);
  ASSERT_TRUE(s);
  EXPECT_EQ(s->spec.to_string(),
            "kernel f32[2,3,8,8]\n"
            "  i in 2, j in 3, k in 8, l in 8: Y[i,j,k,l] = sum u in 4, v in 3, w in 3: "
            "A[i,u,k-w+1,l-v+1]{0 <= k-w+1 < 8 and 0 <= l-v+1 < 8 else 0} * B[u,j,w,v]\n");
}

/// An axis that was merged from others is split again, whichever way and in whatever steps it is walked.
TEST(Compose, MergedAxesAreSplitAgain) {
  Graph cx;
  const auto product = [&](const GraphTensor& x, const GraphTensor& w) {
    fill(x, 1), fill(w, 2);
    const GraphTensor merged = x.permute({1, 0, 2}).merge_dims(0, 1);
    for (const GraphTensor& walked : {merged, merged.flip(0)}) {
      const auto s = check(cx, walked * w);
      ASSERT_TRUE(s);
      EXPECT_EQ(s->spec.to_string().find('/'), std::string::npos) << s->spec.to_string();
      EXPECT_EQ(s->spec.to_string().find('%'), std::string::npos) << s->spec.to_string();
    }
  };
  product(cx.tensor({4, 6, 8}), cx.tensor({24, 8}));
  const GraphTensor x = cx.tensor({"s", 6, 8}), w = cx.tensor({Expression("s") * 6, 8});
  cx.set_dim("s", 5);
  product(x, w);
}

/// A batch axis of both sides stays apart from the rows: what reads the other side would need a quotient.
TEST(Compose, BatchedProductsAreFreeOfQuotients) {
  Graph cx;
  for (const Expression b : {Expression(8), Expression("b")})
    for (const Expression n : {Expression(6), Expression("n")}) {
      auto x = cx.tensor({b, n, 4}), w = cx.tensor({b, 4, n});
      for (const std::string& name : cx.dim_names()) cx.set_dim(name, name == "b" ? 8 : 6);
      fill(x, 1), fill(w, 2);
      const auto s = check(cx, x.matmul(w));
      ASSERT_TRUE(s);
      EXPECT_EQ(s->spec.extents().size(), 4U) << s->spec.to_string();
      EXPECT_EQ(s->spec.to_string().find('/'), std::string::npos) << s->spec.to_string();
    }
}

TEST(Compose, LayerNorm) {
  Graph cx;
  auto x = cx.tensor({4, 6}), w = cx.tensor({6});
  fill(x, 1), fill(w, 2);
  auto y = x.layer_norm(1, 1e-5) * w.expand_dim(0, 4);
  const auto s = check(cx, y);
  ASSERT_TRUE(s);
}

TEST(Compose, SymbolicDims) {
  Graph cx;
  auto x = cx.tensor({"b", 6}), w = cx.tensor({6, "h"});
  cx.set_dim("b", 3);
  cx.set_dim("h", 5);
  fill(x, 1), fill(w, 2);
  EXPECT_TRUE(check(cx, x.matmul(w).relu().pad_along(1, 1, 1, 0.0F).softmax(-1)));
  EXPECT_TRUE(check(cx, (x.softmax(0) * 2.0F).matmul(w).permute({1, 0})));
}

/// What a window reads nine times is computed once and stored, unless that costs next to nothing.
TEST(Compose, CapsRepeatedEvaluation) {
  Graph cx;
  auto x = cx.tensor({1, 4, 8, 8}), w = cx.tensor({4, 4, 3, 3});
  const auto whole = [&](GraphTensor t) { return *WholeFusion(cx, 1).run(cx.resolve(t.edge()).source); };
  // Composes the convolution of `input` with its producer under the default limits.
  const auto over = [&](GraphTensor input) {
    auto y = conv2d(input, w, {.padding = {1, 1}});
    const Imported sum = import_node(cx, cx.resolve(y.edge()).source.node);
    const Imported conv = *fuse(sum, 0, import_node(cx, sum.slots[0].node));
    const luminal::Value producer = cx.resolve(input.edge()).source;
    const auto slot = std::ranges::find(conv.slots, producer) - conv.slots.begin();
    return fuse(conv, static_cast<int>(slot), whole(input), ComposeLimits{}).has_value();
  };
  EXPECT_TRUE(over(x.relu()));
  EXPECT_FALSE(over(x.exp()));
  EXPECT_FALSE(over(conv2d(x, w, {.padding = {1, 1}})));
  auto conv = conv2d(x, w, {.padding = {1, 1}});
  const Imported pool = import_node(cx, cx.resolve(max_pool2d(conv, {.kernel = {2, 2}}).edge()).source.node);
  EXPECT_TRUE(fuse(pool, 0, whole(conv), ComposeLimits{})) << "each element is read once";
}

/// Random graphs with views, reductions and all dtypes, composed in four orders.
void random_graphs(luminal::test::RandomGraph::Kind kind, uint64_t first, uint64_t count, int steps) {
  constexpr ComposeLimits kSome{.slots = 64, .operations = 600, .exports = 64, .evaluations = 1e18};
  uint64_t composed = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    luminal::test::RandomGraph random(seed, kind, steps);
    const GraphTensor out = random.outputs()[0].tensor;
    const bool half = out.dtype() == Dtype::F16 || out.dtype() == Dtype::BF16;
    composed += check(random.graph(), out, half ? 2e-2 : 2e-4, kSome).has_value();
    if (testing::Test::HasFatalFailure() || testing::Test::HasNonfatalFailure()) return;
  }
  EXPECT_GT(composed, count * 6 / 10);
}
TEST(Compose, RandomTameGraphs) { random_graphs(luminal::test::RandomGraph::Kind::Tame, 1, 200, 9); }
TEST(Compose, RandomWildGraphs) { random_graphs(luminal::test::RandomGraph::Kind::Wild, 1, 200, 9); }

}  // namespace
}  // namespace luminal::kernel::test
