#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "backends/device.h"
#include "luminal/compile_report.h"
#include "luminal/luminal.h"

// Attention as people write it in plain math: each spelling is one kernel of the family `stream` in Fast mode,
// and its values are those of the reference device.
namespace luminal::search {
namespace {

constexpr int64_t kBatch = 2, kHeadCount = 2, kQueryCount = 520, kKeyCount = 520, kHeadSize = 32;

/// Builds a spelling's graph over inputs that it makes itself.
class Scene {
 public:
  GraphTensor input(Shape dims) {
    const GraphTensor x = cx.tensor(std::move(dims));
    inputs_.push_back(x);
    return x;
  }
  GraphTensor q() { return input({kBatch, kHeadCount, kQueryCount, kHeadSize}); }
  GraphTensor k() { return input({kBatch, kHeadCount, kKeyCount, kHeadSize}); }
  GraphTensor v() { return input({kBatch, kHeadCount, kKeyCount, kHeadSize}); }
  /// 0, 1, ... along an axis of scores [.., queries, keys].
  GraphTensor row() { return cx.arange(kQueryCount).unsqueeze(1); }
  GraphTensor key() { return cx.arange(kKeyCount).unsqueeze(0); }
  GraphTensor seen() { return key().le(row()); }

  void set(uint64_t seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal;
    for (GraphTensor& x : inputs_) {
      int64_t count = 1;
      for (int axis = 0; axis < x.rank(); ++axis) count *= *x.dim(axis).constant();
      std::vector<float> data(static_cast<size_t>(count));
      for (float& each : data) each = normal(random);
      x.set(data);
    }
  }
  Graph cx;

 private:
  std::vector<GraphTensor> inputs_;
};

constexpr double kScale = 0.2, kLowest = std::numeric_limits<float>::lowest();

struct Spelling {
  const char* name;
  std::function<GraphTensor(Scene&)> build;
};

GraphTensor plain(const GraphTensor& scores, const GraphTensor& v) { return scores.softmax(-1).matmul(v); }
GraphTensor hidden(const GraphTensor& seen, const GraphTensor& scores, double low = -HUGE_VAL) {
  return where(seen, scores, low);
}

const std::vector<Spelling>& spellings() {
  static const std::vector<Spelling> list{
      {"full", [](Scene& s) { return plain(s.q().matmul(s.k().t()) * kScale, s.v()); }},
      {"scale on q", [](Scene& s) { return plain((s.q() * kScale).matmul(s.k().t()), s.v()); }},
      {"scale on k", [](Scene& s) { return plain(s.q().matmul((s.k() * kScale).t()), s.v()); }},
      {"divided scores", [](Scene& s) { return plain(s.q().matmul(s.k().t()) / 5.0, s.v()); }},
      {"softmax by hand",
       [](Scene& s) {
         const GraphTensor x = s.q().matmul(s.k().t()) * kScale, e = (x - x.max({-1}, true)).exp();
         return (e / e.sum({-1}, true)).matmul(s.v());
       }},
      {"divided at the end",
       [](Scene& s) {
         const GraphTensor x = s.q().matmul(s.k().t()) * kScale, e = (x - x.max({-1}, true)).exp();
         return e.matmul(s.v()) / e.sum({-1}, true);
       }},
      {"causal by where",
       [](Scene& s) { return plain(hidden(s.seen(), s.q().matmul(s.k().t()) * kScale), s.v()); }},
      {"causal by a large negative number",
       [](Scene& s) { return plain(hidden(s.seen(), s.q().matmul(s.k().t()) * kScale, -1e9), s.v()); }},
      {"causal by adding",
       [](Scene& s) {
         const GraphTensor bias = where(s.seen(), s.cx.constant(0.0), -1e9);
         return plain(s.q().matmul(s.k().t()) * kScale + bias, s.v());
       }},
      {"causal by adding a product",
       [](Scene& s) {
         const GraphTensor mask = s.seen().cast(Dtype::F32);
         return plain(s.q().matmul(s.k().t()) * kScale + (1 - mask) * -1e9, s.v());
       }},
      {"causal by adding a product of tril",
       [](Scene& s) {
         const GraphTensor ones = s.cx.constant(1.0).expand({kQueryCount, kKeyCount}).tril();
         return plain(s.q().matmul(s.k().t()) * kScale + (1 - ones) * -1e4, s.v());
       }},
      {"causal by adding before the scale",
       [](Scene& s) {
         const GraphTensor bias = where(s.seen(), s.cx.constant(0.0), kLowest);
         return plain((s.q().matmul(s.k().t()) + bias) * kScale, s.v());
       }},
      {"padded keys by adding a product",
       [](Scene& s) {
         const GraphTensor mask = s.input({kBatch, 1, 1, kKeyCount}).gt(-0.5).cast(Dtype::F32);
         return plain(s.q().matmul(s.k().t()) * kScale + (1 - mask) * -1e9, s.v());
       }},
      {"causal by tril",
       [](Scene& s) {
         const GraphTensor ones = s.cx.constant(1.0).expand({kQueryCount, kKeyCount}).tril();
         return plain(hidden(ones.gt(0.5), s.q().matmul(s.k().t()) * kScale), s.v());
       }},
      {"the attention op", [](Scene& s) { return attention(s.q(), s.k(), s.v()); }},
      {"the attention op, causal", [](Scene& s) { return attention(s.q(), s.k(), s.v(), {.causal = true}); }},
      {"padded keys",
       [](Scene& s) {
         const GraphTensor seen = s.input({kBatch, 1, 1, kKeyCount}).gt(-0.5);
         return plain(hidden(seen, s.q().matmul(s.k().t()) * kScale), s.v());
       }},
      {"boolean mask",
       [](Scene& s) {
         const GraphTensor seen = s.input({kQueryCount, kKeyCount}).gt(-0.5);
         return plain(hidden(seen, s.q().matmul(s.k().t()) * kScale), s.v());
       }},
      {"additive mask",
       [](Scene& s) {
         return plain(s.q().matmul(s.k().t()) * kScale + s.input({kQueryCount, kKeyCount}), s.v());
       }},
      {"ALiBi",
       [](Scene& s) {
         const GraphTensor far = (s.key() - s.row()).cast(Dtype::F32);
         const GraphTensor slope = s.input({kHeadCount, 1, 1}) * 0.02;
         return plain(hidden(s.seen(), s.q().matmul(s.k().t()) * kScale + far * slope), s.v());
       }},
      {"grouped queries",
       [](Scene& s) {
         const GraphTensor q = s.input({kBatch, kHeadCount, 2, kQueryCount, kHeadSize});
         const GraphTensor k = s.input({kBatch, kHeadCount, 1, kKeyCount, kHeadSize}),
                           v = s.input({kBatch, kHeadCount, 1, kKeyCount, kHeadSize});
         return plain(q.matmul(k.t()) * kScale, v);
       }},
      {"one key head",
       [](Scene& s) {
         const GraphTensor k = s.input({kBatch, 1, kKeyCount, kHeadSize}),
                           v = s.input({kBatch, 1, kKeyCount, kHeadSize});
         return plain(s.q().matmul(k.t()) * kScale, v);
       }},
      {"soft cap",
       [](Scene& s) { return plain((s.q().matmul(s.k().t()) * (kScale / 30)).tanh() * 30.0, s.v()); }},
      {"sliding window",
       [](Scene& s) {
         const GraphTensor far = s.row() - s.key();
         return plain(hidden(far.ge(0).logical_and(far.lt(17)), s.q().matmul(s.k().t()) * kScale), s.v());
       }},
      {"cross attention",
       [](Scene& s) {
         const GraphTensor k = s.input({kBatch, kHeadCount, 110, kHeadSize}),
                           v = s.input({kBatch, kHeadCount, 110, 40});
         return plain(s.q().matmul(k.t()) * kScale, v);
       }},
      {"attention sinks",
       [](Scene& s) {
         const GraphTensor sink = s.input({kHeadCount, 1, 1});
         const GraphTensor x = s.q().matmul(s.k().t()) * kScale;
         const GraphTensor m = x.max({-1}, true).maximum(sink), e = (x - m).exp();
         return (e / (e.sum({-1}, true) + (sink - m).exp())).matmul(s.v());
       }},
      {"einsum",
       [](Scene& s) {
         const GraphTensor x = einsum("bhid,bhjd->bhij", {s.q(), s.k()}) * kScale;
         return einsum("bhij,bhjd->bhid", {x.softmax(-1), s.v()});
       }},
      {"heads behind the sequence",
       [](Scene& s) {
         const Shape dims{kBatch, kQueryCount, kHeadCount, kHeadSize};
         const GraphTensor x = einsum("bihd,bjhd->bhij", {s.input(dims), s.input(dims)}) * kScale;
         return einsum("bhij,bjhd->bihd", {x.softmax(-1), s.input(dims)});
       }},
      {"heads behind the sequence, by transposing",
       [](Scene& s) {
         const auto heads = [&] {
           return s.input({kBatch, kQueryCount, kHeadCount, kHeadSize}).transpose(1, 2);
         };
         const GraphTensor q = heads(), k = heads(), v = heads();
         return plain(q.matmul(k.t()) * kScale, v).transpose(1, 2) * 1.5;
       }},
      {"dropout",
       [](Scene& s) { return (s.q().matmul(s.k().t()) * kScale).softmax(-1).dropout(0.2).matmul(s.v()); }},
      {"dropout, causal",
       [](Scene& s) {
         const GraphTensor x = hidden(s.seen(), s.q().matmul(s.k().t()) * kScale);
         return x.softmax(-1).dropout(0.2).matmul(s.v());
       }},
      {"the attention op with dropout",
       [](Scene& s) { return attention(s.q(), s.k(), s.v(), {.dropout = 0.2}); }},
      {"decode against a cache",
       [](Scene& s) {
         const GraphTensor filled = s.key().cast(Dtype::F32).le(s.input({1, 1}).abs() * 100);
         const GraphTensor q = s.input({kBatch, kHeadCount, 1, kHeadSize});
         return plain(hidden(filled, q.matmul(s.k().t()) * kScale), s.v());
       }},
      {"decode with a new key behind the cache",
       [](Scene& s) {
         const auto row = [&] { return s.input({kBatch, kHeadCount, 1, kHeadSize}); };
         const GraphTensor q = row(), k = concat({s.k(), row()}, 2), v = concat({s.v(), row()}, 2);
         return plain(q.matmul(k.t()) * kScale, v);
       }},
      {"grouped queries by repeating keys",
       [](Scene& s) {
         const auto repeated = [&] {
           const GraphTensor few = s.input({kBatch, kHeadCount / 2, 1, kKeyCount, kHeadSize});
           return few.expand({kBatch, kHeadCount / 2, 2, kKeyCount, kHeadSize})
               .reshape({kBatch, kHeadCount, kKeyCount, kHeadSize});
         };
         const GraphTensor k = repeated(), v = repeated();
         return plain(s.q().matmul(k.t()) * kScale, v);
       }},
      {"no heads",
       [](Scene& s) {
         const Shape dims{kQueryCount, kHeadSize};
         return plain(s.input(dims).matmul(s.input(dims).t()) * kScale, s.input(dims));
       }},
  };
  return list;
}

std::vector<float> values_on(Graph& cx, GraphTensor& y, const char* device) {
  cx.set_device(device);
  cx.set_step(0);  // random numbers are those of the run
  cx.execute();
  return y.data<float>();
}

/// Where vectors are short, what a stream computes anew for each score takes twice as long. There the model may find it
/// cheaper to store a scaled or compared input first, and for a soft cap to store the scores.
bool has_short_vectors() {
  static const bool kShort = backends::make_cpu_device()->target().vector_bytes < 64;
  return kShort;
}

class AttentionSpelled : public testing::TestWithParam<Spelling> {};

TEST_P(AttentionSpelled, IsOneKernelThatStreams) {
  Scene scene;
  GraphTensor y = GetParam().build(scene).retrieve();
  scene.set(7);
  scene.cx.set_device("cpu");
  if (has_short_vectors()) scene.cx.set_search({.large_bytes = 0});
  const CompileReport report = scene.cx.compile(Fast{}).details();
  std::vector<std::string> families;
  for (const KernelReport& kernel : report.kernels)
    if (!has_short_vectors() || kernel.schedule != "map") families.push_back(kernel.schedule);
  EXPECT_EQ(families, std::vector<std::string>{"stream"}) << to_text(report);
  EXPECT_LT(report.arena_bytes, 4 * kQueryCount * kKeyCount) << "scores are stored: " << to_text(report);
  scene.cx.set_step(0);
  scene.cx.compile(Fast{})();
  const std::vector<float> got = y.data<float>();
  const std::vector<float> want = values_on(scene.cx, y, "reference");
  EXPECT_THAT(got, testing::Pointwise(testing::FloatNear(3e-6F), want));
}

std::string test_name(const testing::TestParamInfo<Spelling>& info) {
  std::string name = info.param.name;
  std::erase_if(name, [](char c) { return c == ','; });
  std::ranges::replace(name, ' ', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Table, AttentionSpelled, testing::ValuesIn(spellings()), test_name);

/// Halves are stored and f32 computed: nothing but casts of what is stored stands beside the stream.
TEST(Attention, OfShortFloatsIsOneStream) {
  for (const Dtype dtype : {Dtype::F16, Dtype::BF16}) {
    Scene scene;
    const auto half = [&] {
      return scene.input({kBatch, kHeadCount, kQueryCount, kHeadSize / 2}).cast(dtype);
    };
    const GraphTensor q = half(), k = half();
    GraphTensor y = plain(hidden(scene.seen(), q.matmul(k.t()) * kScale), half()).cast(Dtype::F32).retrieve();
    scene.set(13);
    scene.cx.set_search({.large_bytes = 0});
    scene.cx.set_device("cpu");
    const CompileReport report = scene.cx.compile(Fast{}).details();
    EXPECT_EQ(std::ranges::count(report.kernels, "stream", &KernelReport::schedule), 1) << to_text(report);
    for (const KernelReport& kernel : report.kernels)
      EXPECT_TRUE(kernel.schedule == "stream" || kernel.schedule == "map") << to_text(report);
    EXPECT_LT(report.arena_bytes, int64_t{2} * kBatch * kHeadCount * kQueryCount * kKeyCount);
    scene.cx.compile(Fast{})();
    const std::vector<float> got = y.data<float>(), want = values_on(scene.cx, y, "reference");
    const float tolerance = dtype == Dtype::F16 ? 2e-3F : 2e-2F;  // of weights and results that are rounded
    EXPECT_THAT(got, testing::Pointwise(testing::FloatNear(tolerance), want));
  }
}

void expect_as_reference(Scene& scene, GraphTensor& y, float tolerance = 3e-6F) {
  scene.cx.set_device("cpu");
  scene.cx.compile(Fast{})();
  const std::vector<float> got = y.data<float>(), want = values_on(scene.cx, y, "reference");
  ASSERT_EQ(got.size(), want.size());
  for (size_t k = 0; k < got.size(); ++k) {
    if (std::isnan(got[k]) && std::isnan(want[k])) continue;
    ASSERT_NEAR(got[k], want[k], tolerance) << "element " << k;
  }
}

/// A row that sees no key: NaN where minus infinity stands for what is hidden, the mean of all values where a
/// large negative number does, zeros where the maximum is kept finite.
TEST(Attention, RowsMaskedWholeAreAsInThePlainGraph) {
  const auto all = [](Scene& s) { return s.row().gt(20); };
  for (const double low : {-HUGE_VAL, -1e9}) {
    Scene scene;
    GraphTensor y =
        plain(hidden(all(scene), scene.q().matmul(scene.k().t()) * kScale, low), scene.v()).retrieve();
    scene.set(11);
    expect_as_reference(scene, y);
    EXPECT_EQ(std::isnan(y.data<float>()[0]), low == -HUGE_VAL);
  }
  Scene scene;
  const GraphTensor seen = all(scene);
  GraphTensor y = attention(scene.q(), scene.k(), scene.v(), seen).retrieve();
  scene.set(11);
  expect_as_reference(scene, y);
  EXPECT_EQ(y.data<float>()[0], 0);
}

/// A mask that is added leaves the scores of such a row apart from each other, if it is not too large for them.
TEST(Attention, RowsHiddenByAddingAreAsInThePlainGraph) {
  for (const double low : {-1e4, -1e9, kLowest})
    for (const bool product : {false, true}) {
      SCOPED_TRACE(testing::Message() << low << (product ? " as a product" : " chosen"));
      Scene scene;
      const GraphTensor seen = scene.seen().logical_and(scene.row().gt(20));
      const GraphTensor mask =
          product ? (1 - seen.cast(Dtype::F32)) * low : where(seen, scene.cx.constant(0.0), low);
      GraphTensor y = plain(scene.q().matmul(scene.k().t()) * kScale + mask, scene.v()).retrieve();
      scene.set(11);
      expect_as_reference(scene, y, low == -1e4 ? 1e-3F : 3e-6F);  // scores are rounded to 2^-10 beside 1e4
    }
}

/// Values of keys that no query of the first block sees are not read for it: NaN would reach its result.
TEST(Attention, BlocksHiddenByAddingAreLeftOut) {
  constexpr int64_t kLong = 1024, kFirst = 256;
  for (const bool product : {false, true}) {
    Graph cx;
    GraphTensor q = cx.tensor({kLong, kHeadSize}), k = cx.tensor({kLong, kHeadSize}),
                v = cx.tensor({kLong, kHeadSize});
    const GraphTensor seen = cx.arange(kLong).unsqueeze(0).le(cx.arange(kLong).unsqueeze(1));
    const GraphTensor mask =
        product ? (1 - seen.cast(Dtype::F32)) * -1e9 : where(seen, cx.constant(0.0), -1e9);
    GraphTensor y = plain(q.matmul(k.t()) * kScale + mask, v).retrieve();
    std::vector<float> data(kLong * kHeadSize, 0.5F);
    q.set(data), k.set(data);
    std::fill(data.begin() + kFirst * kHeadSize * 2, data.end(), NAN);
    v.set(data);
    cx.set_device("cpu");
    cx.compile(Fast{})();
    const std::vector<float> got = y.data<float>();
    EXPECT_TRUE(
        std::none_of(got.begin(), got.begin() + kFirst * kHeadSize, [](float x) { return std::isnan(x); }));
    EXPECT_TRUE(std::isnan(got.back()));
  }
}

TEST(Attention, RandomSizes) {
  std::mt19937_64 random(5);
  int streams = 0;
  for (int seed = 0; seed < 12; ++seed) {
    const auto positive = [&](uint64_t most) { return 1 + static_cast<int64_t>(random() % most); };
    const int64_t heads = positive(4), queries = positive(150), keys = positive(300), width = positive(70),
                  columns = positive(70);
    SCOPED_TRACE(testing::Message() << heads << " heads, " << queries << " queries, " << keys << " keys of "
                                    << width << ", " << columns << " columns");
    Scene scene;
    const GraphTensor q = scene.input({heads, queries, width}), k = scene.input({heads, keys, width}),
                      v = scene.input({heads, keys, columns});
    GraphTensor y = attention(q, k, v, {.causal = seed % 2 == 0 && keys >= queries}).retrieve();
    scene.set(static_cast<uint64_t>(seed));
    expect_as_reference(scene, y);
    scene.cx.set_device("cpu");
    for (const KernelReport& kernel : scene.cx.compile(Fast{}).details().kernels)
      streams += kernel.schedule == "stream" ? 1 : 0;
  }
  EXPECT_GE(streams, 3);
}

}  // namespace
}  // namespace luminal::search
