#pragma once
#include <gtest/gtest.h>

#include <cmath>

#include "kernel/evaluate.h"
#include "luminal/reference.h"
#include "unit/kernel/fuse.h"

namespace luminal::kernel::test {

inline std::vector<TensorData> data_of(const Graph& graph, const Imported& s) {
  std::vector<TensorData> data;
  for (const luminal::Value& v : s.slots) data.push_back(*graph.value(v));
  return data;
}

/// Multiples of 1/4 in [-2, 2]: sums of products are exact, and values repeat (ties).
inline void fill(GraphTensor t, uint64_t seed) {
  std::mt19937_64 random(seed);
  const Graph graph = t.graph();
  TensorData data(t.dtype(), exec(t.dims(), graph.dims()));
  visit_dtype(t.dtype(), [&]<class T>(T) {
    for (T& x : data.as<T>()) x = static_cast<T>(static_cast<float>(random() % 17) / 4.0F - 2.0F);
  });
  t.set(std::move(data));
}

inline void expect_equal(const TensorData& got, const TensorData& want, double tolerance,
                         const std::string& what) {
  ASSERT_EQ(got.dtype, want.dtype) << what;
  ASSERT_EQ(got.element_count(), want.element_count()) << what;
  visit_dtype(want.dtype, [&]<class T>(T) {
    for (size_t i = 0; i < want.as<T>().size(); ++i) {
      const double w = static_cast<double>(want.as<T>()[i]), g = static_cast<double>(got.as<T>()[i]);
      if (w == g || (std::isnan(w) && std::isnan(g))) continue;
      ASSERT_LE(std::abs(w - g), tolerance * std::max(1.0, std::abs(w)))
          << "at " << i << ": " << g << ", should be " << w << "\n"
          << what;
    }
  });
}

/// Fuses all behind `out` in several orders: one spec each time, and the reference's values. Graphs that
/// break `limits` in every order give nothing.
inline std::optional<Imported> check(Graph& graph, GraphTensor out, double tolerance = 1e-5,
                                     const ComposeLimits& limits = kNoLimits) {
  out.retrieve();
  const luminal::Value root = graph.resolve(out.edge()).source;
  std::optional<Imported> first;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const auto fused = WholeFusion(graph, seed, limits).run(root);
    if (!fused) continue;
    if (!first) first = fused;
    EXPECT_EQ(fused->spec, first->spec) << "first\n"
                                        << first->spec.to_string() << "then\n"
                                        << fused->spec.to_string();
  }
  if (!first) return std::nullopt;
  for (const luminal::Value& v : first->slots) (void)graph.tensor_of(v).retrieve();
  graph.set_device("reference");
  graph.execute();
  const TensorData want = *graph.value(root);
  const TensorData got = evaluate(first->spec, data_of(graph, *first), graph.dims())[0];
  expect_equal(got, want, tolerance, first->spec.to_string());
  return first;
}

}  // namespace luminal::kernel::test
