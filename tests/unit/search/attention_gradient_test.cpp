#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "luminal/compile_report.h"
#include "luminal/luminal.h"

// Attention and its gradients as one graph: no value of queries x keys is in memory, and the gradients are those of
// the reference device and of finite differences.
namespace luminal::search {
namespace {

constexpr int64_t kGradientHeads = 2, kLength = 250, kWidth = 16;
constexpr double kFactor = 0.25;

struct Training {
  Graph cx;
  std::vector<GraphTensor> inputs,
      results;  ///< results: the loss, then the gradients of the first `weights` inputs
  size_t weights = 3;
  int64_t length = kLength;

  GraphTensor input(Shape dims) { return inputs.emplace_back(cx.tensor(std::move(dims))); }
  /// As long and wide as attention is where it is worth a stream that makes its random numbers itself.
  Shape longer() {
    length = 640;
    return {kGradientHeads, length, 64};
  }
  GraphTensor rows() { return input({kGradientHeads, length, kWidth}); }
  /// 0, 1, ... along an axis of scores [.., queries, keys].
  GraphTensor row() { return cx.arange(length).unsqueeze(1); }
  GraphTensor key() { return cx.arange(length).unsqueeze(0); }
  GraphTensor seen() { return key().le(row()); }

  void finish(const GraphTensor& y) {
    const GraphTensor upstream = inputs.emplace_back(cx.tensor(y.dims()));
    const GraphTensor loss = (y * upstream).sum();
    results = {loss};
    const std::vector<GraphTensor> given(inputs.begin(),
                                         inputs.begin() + static_cast<std::ptrdiff_t>(weights));
    for (const GraphTensor& gradient : cx.run_pass(Autograd(given, loss))) results.push_back(gradient);
    for (GraphTensor& each : results) each.retrieve();
  }
  /// Normal numbers, with `step` times a direction of their own added to the weights.
  void set(double step = 0) {
    std::mt19937_64 random(3);
    std::normal_distribution<float> normal;
    for (size_t k = 0; k < inputs.size(); ++k) {
      std::vector<float> data(elements(inputs[k])), direction = data;
      for (float& each : data) each = normal(random);
      for (float& each : direction) each = normal(random);
      for (size_t i = 0; k < weights && i < data.size(); ++i)
        data[i] += static_cast<float>(step) * direction[i];
      inputs[k].set(data);
      if (directions.size() <= k) directions.push_back(direction);
    }
  }
  static size_t elements(const GraphTensor& x) {
    int64_t count = 1;
    for (int axis = 0; axis < x.rank(); ++axis) count *= *x.dim(axis).constant();
    return static_cast<size_t>(count);
  }
  std::vector<std::vector<float>> run(const char* device) {
    cx.set_device(device);
    cx.set_step(0);  // the same random numbers in each run
    cx.execute();
    std::vector<std::vector<float>> values;
    for (GraphTensor& each : results) values.push_back(each.data<float>());
    return values;
  }
  std::vector<std::vector<float>> directions;
};

struct GradientSpelling {
  const char* name;
  std::function<GraphTensor(Training&)> build;
};

GraphTensor weighed(const GraphTensor& scores, const GraphTensor& v) { return scores.softmax(-1).matmul(v); }

const std::vector<GradientSpelling>& gradient_spellings() {
  static const std::vector<GradientSpelling> list{
      {"full",
       [](Training& t) {
         const GraphTensor q = t.rows(), k = t.rows();
         return weighed(q.matmul(k.t()) * kFactor, t.rows());
       }},
      {"scale_on_q",
       [](Training& t) {
         const GraphTensor q = t.rows(), k = t.rows();
         return weighed((q * kFactor).matmul(k.t()), t.rows());
       }},
      {"the_attention_op",
       [](Training& t) {
         const GraphTensor q = t.rows(), k = t.rows();
         return attention(q, k, t.rows());
       }},
      {"the_attention_op_causal",
       [](Training& t) {
         const GraphTensor q = t.rows(), k = t.rows();
         return attention(q, k, t.rows(), {.causal = true});
       }},
      {"causal_by_where",
       [](Training& t) {
         const GraphTensor q = t.rows(), k = t.rows();
         return weighed(where(t.seen(), q.matmul(k.t()) * kFactor, -HUGE_VAL), t.rows());
       }},
      {"causal_by_a_large_negative_number",
       [](Training& t) {
         const GraphTensor q = t.rows(), k = t.rows();
         return weighed(where(t.seen(), q.matmul(k.t()) * kFactor, -1e9), t.rows());
       }},
      {"causal_by_adding",
       [](Training& t) {
         const GraphTensor q = t.rows(), k = t.rows(), mask = where(t.seen(), t.cx.constant(0.0), -1e9);
         return weighed(q.matmul(k.t()) * kFactor + mask, t.rows());
       }},
      {"causal_by_adding_a_product",
       [](Training& t) {
         const GraphTensor q = t.rows(), k = t.rows(), mask = (1 - t.seen().cast(Dtype::F32)) * -1e9;
         return weighed(q.matmul(k.t()) * kFactor + mask, t.rows());
       }},
      {"dropout",
       [](Training& t) {
         const Shape dims = t.longer();
         const GraphTensor q = t.input(dims), k = t.input(dims);
         return (q.matmul(k.t()) * kFactor).softmax(-1).dropout(0.2).matmul(t.input(dims));
       }},
      {"the_attention_op_with_a_mask_and_dropout",
       [](Training& t) {
         const Shape dims = t.longer();
         const GraphTensor q = t.input(dims), k = t.input(dims);
         return attention(q, k, t.input(dims), {.causal = true, .dropout = 0.2});
       }},
      {"additive_bias",
       [](Training& t) {
         const GraphTensor q = t.rows(), k = t.rows(), v = t.rows();
         return weighed(q.matmul(k.t()) * kFactor + t.input({kLength, kLength}), v);
       }},
      {"sliding_window",
       [](Training& t) {
         const GraphTensor q = t.rows(), k = t.rows(), far = t.row() - t.key();
         const GraphTensor near = far.ge(0).logical_and(far.lt(17));
         return weighed(where(near, q.matmul(k.t()) * kFactor, -HUGE_VAL), t.rows());
       }},
      {"boolean_mask",
       [](Training& t) {
         const GraphTensor q = t.rows(), k = t.rows(), v = t.rows();
         return weighed(where(t.input({kLength, kLength}).gt(-0.5), q.matmul(k.t()) * kFactor, -HUGE_VAL), v);
       }},
      {"padded_keys",
       [](Training& t) {
         const GraphTensor q = t.rows(), k = t.rows(), v = t.rows();
         return weighed(where(t.input({1, 1, kLength}).gt(-0.5), q.matmul(k.t()) * kFactor, -HUGE_VAL), v);
       }},
      {"one_key_head",
       [](Training& t) {
         const GraphTensor q = t.rows(), k = t.input({1, kLength, kWidth});
         return weighed(q.matmul(k.t()) * kFactor, t.input({1, kLength, kWidth}));
       }},
      {"cross_attention",
       [](Training& t) {
         const GraphTensor q = t.rows(), k = t.input({kGradientHeads, 110, kWidth});
         return weighed(q.matmul(k.t()) * kFactor, t.input({kGradientHeads, 110, 24}));
       }},
      {"grouped_queries",
       [](Training& t) {
         const GraphTensor q = t.input({kGradientHeads, 2, kLength, kWidth});
         const Shape shared{kGradientHeads, 1, kLength, kWidth};
         const GraphTensor k = t.input(shared);
         return weighed(q.matmul(k.t()) * kFactor, t.input(shared));
       }},
      {"einsum",
       [](Training& t) {
         const GraphTensor q = t.rows(), k = t.rows(), x = einsum("hid,hjd->hij", {q, k}) * kFactor;
         return einsum("hij,hjd->hid", {x.softmax(-1), t.rows()});
       }},
      {"heads_behind_the_sequence",
       [](Training& t) {
         const Shape dims{kLength, kGradientHeads, kWidth};
         const GraphTensor q = t.input(dims), k = t.input(dims), x = einsum("ihd,jhd->hij", {q, k}) * kFactor;
         return einsum("hij,jhd->ihd", {x.softmax(-1), t.input(dims)});
       }},
  };
  return list;
}

class AttentionGradient : public testing::TestWithParam<GradientSpelling> {};

TEST_P(AttentionGradient, StoresNothingOfQueriesTimesKeys) {
  Training t;
  t.finish(GetParam().build(t));
  t.cx.set_search({.large_bytes = 0});
  t.set();
  t.cx.set_device("cpu");
  const CompileReport report = t.cx.compile(Fast{}).details();
  EXPECT_LT(report.arena_bytes, 4 * kGradientHeads * t.length * t.length) << to_text(report);
  t.cx.set_step(0);
  t.cx.compile(Fast{})();
  std::vector<std::vector<float>> got;
  for (GraphTensor& each : t.results) got.push_back(each.data<float>());
  const auto want = t.run("reference");
  for (size_t k = 1; k < got.size(); ++k)
    EXPECT_THAT(got[k], testing::Pointwise(testing::FloatNear(2e-5F), want[k])) << "gradient " << k;
}

TEST_P(AttentionGradient, IsThatOfFiniteDifferences) {
  Training t;
  t.finish(GetParam().build(t));
  t.cx.set_search({.large_bytes = 0});
  t.set();
  const auto at = t.run("cpu");
  double expected = 0, size = 0;
  for (size_t k = 0; k < t.weights; ++k)
    for (size_t i = 0; i < at[k + 1].size(); ++i) {
      expected += static_cast<double>(at[k + 1][i]) * t.directions[k][i];
      size += std::abs(static_cast<double>(at[k + 1][i]) * t.directions[k][i]);
    }
  constexpr double kStep = 1e-3;
  t.set(kStep);
  const double above = t.run("reference-f64")[0][0];
  t.set(-kStep);
  const double below = t.run("reference-f64")[0][0];
  EXPECT_NEAR((above - below) / (2 * kStep), expected, 1e-3 * size);
}

INSTANTIATE_TEST_SUITE_P(Table, AttentionGradient, testing::ValuesIn(gradient_spellings()),
                         [](const auto& each) { return std::string(each.param.name); });

/// The oracle of verification draws the same numbers as the kernels, from whatever key and run it makes up.
TEST(AttentionGradient, WithDropoutPassesVerification) {
  Training t;
  const Shape dims{kGradientHeads, 96, kWidth};
  t.length = 96;
  const GraphTensor q = t.input(dims), k = t.input(dims);
  t.finish((q.matmul(k.t()) * kFactor).softmax(-1).dropout(0.2).matmul(t.input(dims)));
  t.cx.set_search({.large_bytes = 0});
  t.set();
  t.cx.set_device("cpu");
  t.cx.set_step(0);
  Compiled searched = t.cx.compile(Optimal{});
  const CompileReport report = searched.details();
  for (const KernelReport& kernel : report.kernels) {
    EXPECT_TRUE(kernel.verified) << to_text(report);
    for (const auto& other : kernel.rejected) EXPECT_TRUE(other.is_sound()) << other.reason;
  }
  EXPECT_THAT(report.laws_left_out, testing::IsEmpty());
  searched();
  std::vector<std::vector<float>> got;
  for (GraphTensor& each : t.results) got.push_back(each.data<float>());
  const auto want = t.run("reference");
  for (size_t g = 1; g < got.size(); ++g)
    EXPECT_THAT(got[g], testing::Pointwise(testing::FloatNear(2e-5F), want[g])) << "gradient " << g;
}

/// Causal attention of several blocks of keys. Blocks that the mask excludes are left out, in both directions: a NaN
/// there does not reach a gradient, as it would if it were multiplied by a weight of 0.
class CausalGradient : public testing::TestWithParam<GradientSpelling> {
 protected:
  static constexpr int64_t kKeys = 640, kPoisoned = 64;

  CausalGradient() {
    t.length = kKeys;
    t.finish(GetParam().build(t));
    t.cx.set_search({.large_bytes = 0});
    t.set();
    t.cx.set_device("cpu");
  }
  /// NaN in rows `first` .. `last` - 1 of an input.
  void poison(size_t input, int64_t first, int64_t last) {
    std::vector<float> data(Training::elements(t.inputs[input]), 0.5F);
    for (int64_t head = 0; head < kGradientHeads; ++head)
      for (int64_t k = first * kWidth; k < last * kWidth; ++k)
        data[static_cast<size_t>(head * kKeys * kWidth + k)] = NAN;
    t.inputs[input].set(data);
  }
  [[nodiscard]] static bool holds_numbers(const std::vector<float>& x, int64_t first, int64_t last) {
    for (int64_t head = 0; head < kGradientHeads; ++head)
      for (int64_t k = first * kWidth; k < last * kWidth; ++k)
        if (std::isnan(x[static_cast<size_t>(head * kKeys * kWidth + k)])) return false;
    return true;
  }
  [[nodiscard]] static bool adds() {
    return std::string(GetParam().name).find("adding") != std::string::npos;
  }
  Training t;
};

TEST_P(CausalGradient, IsThatOfTheReference) {
  const CompileReport report = t.cx.compile(Fast{}).details();
  for (const KernelReport& kernel : report.kernels)  // the loss is a sum; gradients may be scaled
    EXPECT_TRUE(kernel.schedule == "stream" || kernel.schedule == "reduce" ||
                (kernel.schedule == "map" && adds()))
        << to_text(report);
  EXPECT_LT(report.arena_bytes, kKeys * kKeys) << "a mask is stored: " << to_text(report);
  const auto got = t.run("cpu"), want = t.run("reference");
  for (size_t k = 1; k < got.size(); ++k)
    EXPECT_THAT(got[k], testing::Pointwise(testing::FloatNear(3e-5F), want[k])) << "gradient " << k;
}

/// A key that is NaN gives a score of NaN, which nothing that is added to it hides. Its value is not read.
TEST_P(CausalGradient, OfQueriesLeavesOutKeysBehindThem) {
  poison(adds() ? 2 : 1, kKeys - kPoisoned, kKeys);
  const std::vector<float> q = t.run("cpu")[1];
  EXPECT_TRUE(holds_numbers(q, 0, 256));
  EXPECT_FALSE(holds_numbers(q, kKeys - 1, kKeys));
}

TEST_P(CausalGradient, OfKeysAndValuesLeavesOutQueriesBeforeThem) {
  poison(3, 0, kPoisoned);
  const auto gradients = t.run("cpu");
  for (const size_t k : {2, 3}) {
    EXPECT_TRUE(holds_numbers(gradients[k], 384, kKeys)) << k;
    EXPECT_FALSE(holds_numbers(gradients[k], 0, 1)) << k;
  }
}

std::vector<GradientSpelling> causal_spellings() {
  std::vector<GradientSpelling> list = gradient_spellings();
  std::erase_if(list,
                [](const auto& each) { return std::string(each.name).find("causal") == std::string::npos; });
  return list;
}
INSTANTIATE_TEST_SUITE_P(Table, CausalGradient, testing::ValuesIn(causal_spellings()),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace luminal::search
