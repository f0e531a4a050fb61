#include <gtest/gtest.h>

#include "kernel/evaluate.h"
#include "luminal/nn.h"
#include "luminal/reference.h"
#include "unit/kernel/fuse.h"
#include "unit/passes/random_graph.h"

namespace luminal::kernel::test {
namespace {

std::vector<TensorData> data_of(const Graph& graph, const Imported& s) {
  std::vector<TensorData> data;
  for (const luminal::Value& v : s.slots) data.push_back(*graph.value(v));
  return data;
}

void fill(GraphTensor t, uint64_t seed) {
  std::mt19937_64 random(seed);
  const Graph graph = t.graph();
  TensorData data(t.dtype(), exec(t.dims(), graph.dims()));
  visit_dtype(t.dtype(), [&]<class T>(T) {
    for (T& x : data.as<T>()) x = static_cast<T>(static_cast<float>(random() % 17) / 4.0F - 2.0F);
  });
  t.set(std::move(data));
}

/// Fuses all behind `out` in several orders: one spec each time, and the reference's values.
Imported check(Graph& graph, GraphTensor out, double tolerance = 1e-5) {
  out.retrieve();
  const luminal::Value root = graph.resolve(out.edge()).source;
  std::optional<Imported> first;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const auto fused = WholeFusion(graph, seed).run(root);
    EXPECT_TRUE(fused.has_value());
    if (!fused) return {};
    if (!first) first = fused;
    EXPECT_EQ(fused->spec, first->spec) << first->spec.to_string() << "and\n" << fused->spec.to_string();
  }
  graph.set_device("reference");
  graph.execute();
  const TensorData want = *graph.value(root);
  const TensorData got = evaluate(first->spec, data_of(graph, *first), graph.dims())[0];
  EXPECT_EQ(got.dtype, want.dtype);
  EXPECT_EQ(got.element_count(), want.element_count());
  visit_dtype(want.dtype, [&]<class T>(T) {
    for (size_t i = 0; i < want.as<T>().size(); ++i) {
      const double w = static_cast<double>(want.as<T>()[i]), g = static_cast<double>(got.as<T>()[i]);
      if (w == g || (std::isnan(w) && std::isnan(g))) continue;
      EXPECT_LE(std::abs(w - g), tolerance * std::max(1.0, std::abs(w))) << "at " << i;
    }
  });
  return *first;
}

TEST(Compose, ElementwiseChainsThroughViews) {
  Graph cx;
  auto x = cx.tensor({6, 4}), y = cx.tensor({4, 6});
  fill(x, 1), fill(y, 2);
  check(cx, (x.permute({1, 0}) * y + 1.0F).relu());
  check(cx, (x * 2.0F).reshape({4, 6}).flip(0) + y);
  check(cx, (x + 1.0F).pad_along(0, 1, 2, 3.0F) * 2.0F);
}

TEST(Compose, SoftmaxIsOneSpec) {
  Graph cx;
  auto x = cx.tensor({5, 7});
  fill(x, 1);
  const Imported s = check(cx, x.softmax(-1));
  EXPECT_EQ(s.spec.values().size(), 3);
  EXPECT_EQ(s.spec.extents().size(), 2) << "maximum, sum and result share the axis";
}

TEST(Compose, MatmulWithPrologueAndEpilogue) {
  Graph cx;
  auto x = cx.tensor({5, 7}), w = cx.tensor({7, 3}), bias = cx.tensor({3});
  fill(x, 1), fill(w, 2), fill(bias, 3);
  check(cx, ((x * 2.0F).matmul(w) + bias.expand_dim(0, 5)).relu());
}

TEST(Compose, AttentionNests) {
  Graph cx;
  auto q = cx.tensor({5, 4}), k = cx.tensor({5, 4}), v = cx.tensor({5, 4});
  fill(q, 1), fill(k, 2), fill(v, 3);
  const Imported s = check(cx, (q.matmul(k.permute({1, 0})) * 0.5F).softmax(-1).matmul(v));
  EXPECT_EQ(s.spec.values().size(), 4);
}

}  // namespace
}  // namespace luminal::kernel::test
