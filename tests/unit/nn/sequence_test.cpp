#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "luminal/error.h"
#include "luminal/nn.h"
#include "support/files.h"
#include "unit/nn/pytorch_case.h"

// Recurrent layers, attention and transformers against PyTorch (tools/pytorch_modules.py).
namespace luminal::nn {
namespace {

using test::error_of;
using test::kF64;
using test::PyTorchCase;
using testing::HasSubstr;

const std::vector<std::pair<std::string, RecurrentOptions>> kRecurrent{
    {"_plain", {.dtype = kF64}},
    {"_deep", {.num_layers = 2, .batch_first = true, .bidirectional = true, .dtype = kF64}},
    {"_no_bias", {.bias = false, .dtype = kF64}},
};

template <class M>
void expect_hidden(const std::string& kind) {
  for (const auto& [name, options] : kRecurrent) {
    PyTorchCase c(kind + name);
    const M module(c.cx, 3, 4, options);
    const auto [output, h_n] = module.forward(c.in(0));
    c.expect(module, {output, h_n});
  }
  PyTorchCase c(kind + "_state");
  const M module(c.cx, 3, 4, {.num_layers = 2, .dtype = kF64});
  const auto [output, h_n] = module.forward(c.in(0), c.in(1));
  c.expect(module, {output, h_n});
}

TEST(Recurrent, RnnFollowsPyTorch) {
  expect_hidden<RNN>("RNN");
  PyTorchCase c("RNN_relu");
  const RNN module(c.cx, 3, 4, {.nonlinearity = "relu", .dtype = kF64});
  const auto [output, h_n] = module.forward(c.in(0));
  c.expect(module, {output, h_n});
}

TEST(Recurrent, GruFollowsPyTorch) { expect_hidden<GRU>("GRU"); }

TEST(Recurrent, LstmFollowsPyTorch) {
  for (const auto& [name, options] : kRecurrent) {
    PyTorchCase c("LSTM" + name);
    const LSTM module(c.cx, 3, 4, options);
    const auto [output, h_n, c_n] = module.forward(c.in(0));
    c.expect(module, {output, h_n, c_n});
  }
  PyTorchCase c("LSTM_state");
  const LSTM module(c.cx, 3, 4, {.num_layers = 2, .dtype = kF64});
  const auto [output, h_n, c_n] = module.forward(c.in(0), c.in(1), c.in(2));
  c.expect(module, {output, h_n, c_n});
}

TEST(Recurrent, DropoutActsBetweenLayersWhileTraining) {
  Graph cx;
  const GRU module(cx, 3, 4, {.num_layers = 2, .dropout = 0.5});
  GraphTensor x = cx.ones({3, 2, 3});
  GraphTensor a = module.forward(x).output.retrieve(), b = module.forward(x).output.retrieve();
  eval(module);
  GraphTensor c = module.forward(x).output.retrieve(), d = module.forward(x).output.retrieve();
  cx.execute();
  EXPECT_NE(a.data<float>(), b.data<float>());
  EXPECT_EQ(c.data<float>(), d.data<float>());
}

TEST(Recurrent, RefusesWhatDoesNotFit) {
  Graph cx;
  EXPECT_THAT(error_of<Error>([&] { LSTM(cx, 3, 4, {.nonlinearity = "relu"}); }),
              HasSubstr("[LSTM] unknown nonlinearity 'relu'"));
  const RNN rnn(cx, 3, 4);
  EXPECT_THAT(error_of<Error>([&] { (void)rnn.forward(cx.tensor({2, 5})); }),
              HasSubstr("[RNN] x is f32[2, 5] and must be [length, batch, 3] or [length, 3]"));
  EXPECT_THAT(error_of<Error>([&] { (void)rnn.forward(cx.tensor({0, 2, 3})); }),
              HasSubstr("has no steps; give a length of at least 1"));
  EXPECT_THAT(error_of<Error>([&] { (void)rnn.forward(cx.tensor({5, 2, 3}), cx.tensor({2, 2, 4})); }),
              HasSubstr("[RNN] h_0 is f32[2, 2, 4] and must be [1, 2, 4]"));
}

TEST(Attention, MultiheadFollowsPyTorch) {
  {
    PyTorchCase c("mha");
    const MultiheadAttention m(c.cx, 8, 2, {.dtype = kF64});
    const auto [output, weights] = m.forward_with_weights(c.in(0), c.in(0), c.in(0));
    c.expect(m, {output, weights});
  }
  {
    PyTorchCase c("mha_unbatched");
    const MultiheadAttention m(c.cx, 8, 4, {.bias = false, .dtype = kF64});
    const auto [output, weights] = m.forward_with_weights(c.in(0), c.in(0), c.in(0));
    c.expect(m, {output, weights});
  }
  {
    PyTorchCase c("mha_cross");
    const MultiheadAttention m(c.cx, 8, 2, {.kdim = 5, .vdim = 6, .batch_first = true, .dtype = kF64});
    const auto [output, weights] = m.forward_with_weights(c.in(0), c.in(1), c.in(2));
    c.expect(m, {output, weights});
  }
}

TEST(Attention, MasksFollowPyTorch) {
  {
    PyTorchCase c("mha_masks");
    const MultiheadAttention m(c.cx, 8, 2, {.batch_first = true, .dtype = kF64});
    GraphTensor padding = c.cx.tensor({2, 4}, Dtype::Bool)
                              .set(std::vector<bool>{false, false, false, true, false, true, false, false});
    const GraphTensor later = c.cx.triu(4, 4, 1, Dtype::Bool);
    const auto [output, weights] =
        m.forward_with_weights(c.in(0), c.in(0), c.in(0), {.mask = later, .key_padding = padding});
    // The same with `causal` in place of the mask.
    GraphTensor causal =
        m.forward(c.in(0), c.in(0), c.in(0), {.key_padding = padding, .causal = true}).retrieve();
    c.expect(m, {output, weights});
    const auto a = causal.data<double>(), b = output.data<double>();
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-12);
  }
  {
    PyTorchCase c("mha_added");
    const MultiheadAttention m(c.cx, 8, 2, {.batch_first = true, .dtype = kF64});
    const auto [output, weights] = m.forward_with_weights(c.in(0), c.in(1), c.in(1), {.mask = c.in(2)});
    c.expect(m, {output, weights});
  }
}

/// Grouped queries: as many heads of keys as heads, equal within each group, give the same.
TEST(Attention, SharedKeysAreRepeatedKeys) {
  Graph cx;
  MultiheadAttention few(cx, 8, 4, {.kv_heads = 2, .batch_first = true, .dtype = kF64});
  MultiheadAttention all(cx, 8, 4, {.batch_first = true, .dtype = kF64});
  const auto rows = [](const GraphTensor& w, int64_t head) {
    return w.slice_along(0, 2 * head, 2 * head + 2);
  };
  const GraphTensor k = *few.k_proj_weight, v = *few.v_proj_weight;
  std::vector<double> joined = few.q_proj_weight->data<double>();
  for (const GraphTensor* each : {&k, &v})
    for (const int64_t head : {0, 0, 1, 1})
      for (const double value : rows(*each, head).data<double>()) joined.push_back(value);
  all.in_proj_weight->set(joined);
  all.out_proj.weight.set(few.out_proj.weight.data<double>());
  const GraphTensor x = cx.tensor({1, 3, 8}, kF64).set([] {
    std::vector<double> values;
    for (int i = 0; i < 24; ++i) values.push_back(std::sin(i));
    return values;
  }());
  GraphTensor a = few.forward(x, x, x, {.causal = true}).retrieve();
  GraphTensor b = all.forward(x, x, x, {.causal = true}).retrieve();
  cx.execute();
  const auto left = a.data<double>(), right = b.data<double>();
  for (size_t i = 0; i < left.size(); ++i) EXPECT_NEAR(left[i], right[i], 1e-13);
}

TEST(Attention, RotaryPositionsFollowThePublishedCode) {
  struct None {
    void serialize(Serializer&) const {}
  };
  {
    PyTorchCase c("rope");
    c.expect(None(), {RotaryEmbedding{.size = 6}.forward(c.in(0))});
  }
  PyTorchCase c("rope_interleaved");
  c.expect(None(), {RotaryEmbedding{.size = 6, .base = 500, .interleaved = true}.forward(c.in(0), 7)});
}

TEST(Attention, CausalFollowsPyTorch) {
  {
    PyTorchCase c("causal");
    const CausalSelfAttention m(c.cx, 8, 4, {.bias = true, .dtype = kF64});
    c.expect(m, {m.forward(c.in(0))});
  }
  PyTorchCase c("causal_gqa");
  const CausalSelfAttention m(c.cx, 8, 4, {.kv_heads = 2, .dtype = kF64});
  c.expect(m, {m.forward(c.in(0))});
}

/// A prompt of three tokens, then one by one: the rows of one pass over all six.
TEST(Attention, TheCacheGivesWhatOnePassGives) {
  Graph cx;
  const CausalSelfAttention m(cx, 8, 4, {.kv_heads = 2, .dtype = kF64});
  std::vector<double> values;
  for (int i = 0; i < 48; ++i) values.push_back(std::cos(0.9 * i));
  GraphTensor whole = cx.tensor({1, 6, 8}, kF64).set(values);
  GraphTensor expected = m.forward(whole).retrieve();
  cx.execute();
  const std::vector<double> rows = expected.data<double>();
  expected.drop();

  const KvCache cache(cx, 1, 2, 10, 2, "past", kF64);
  GraphTensor x = cx.tensor({1, "new", 8}, kF64);
  GraphTensor y = m.forward(x, cache).retrieve();
  int64_t past = 0;
  for (const int64_t count : {3, 1, 1, 1}) {
    cx.set_dim("past", past);
    x.set_dyn(std::vector<double>(values.begin() + past * 8, values.begin() + (past + count) * 8),
              {1, count, 8});
    cx.execute();
    const std::vector<double> got = y.data<double>();
    ASSERT_EQ(got.size(), static_cast<size_t>(count * 8));
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], rows[static_cast<size_t>(past * 8) + i], 1e-12);
    past += count;
  }
  cx.set_dim("past", 10);  // full
  EXPECT_THAT(
      error_of<ShapeError>([&] { cx.execute(); }),
      HasSubstr("[KvCache] new + past rows do not fit in axis 2 of the cache f64[1, 2, 10, 2], which has 10; "
                "make it larger, or set past back to 0 (at new = 1, past = 10) (made at sequence_test.cpp:"));
  EXPECT_EQ(y.data<double>().size(), 8);  // nothing ran
}

TEST(Attention, RefusesWhatDoesNotFit) {
  Graph cx;
  EXPECT_THAT(error_of<Error>([&] { MultiheadAttention(cx, 8, 3); }),
              HasSubstr("[MultiheadAttention] embed=8 is not a multiple of heads=3"));
  EXPECT_THAT(error_of<Error>([&] { MultiheadAttention(cx, 8, 4, {.kv_heads = 3}); }),
              HasSubstr("[MultiheadAttention] 4 heads cannot share 3 heads of keys"));
  const MultiheadAttention m(cx, 8, 2);
  const GraphTensor x = cx.tensor({3, 2, 8});
  EXPECT_THAT(error_of<Error>([&] { (void)m.forward(x, x, cx.tensor({3, 2, 7})); }),
              HasSubstr("[MultiheadAttention] value is f32[3, 2, 7] and must end in 8"));
  EXPECT_THAT(error_of<Error>([&] { (void)m.forward(x, x, x, {.mask = cx.tensor({3, 3}, Dtype::I32)}); }),
              HasSubstr("the mask is i32[3, 3]; give bool (true = not seen)"));
  EXPECT_THAT(error_of<Error>([&] { (void)RotaryEmbedding{.size = 5}.forward(x); }),
              HasSubstr("[RotaryEmbedding] the size 5 cannot be split into pairs"));
}

const TransformerOptions kSmall{.dim_feedforward = 10, .dropout = 0, .dtype = kF64};
const TransformerOptions kNormFirst{.dim_feedforward = 10,
                                    .dropout = 0,
                                    .activation = "gelu",
                                    .batch_first = true,
                                    .norm_first = true,
                                    .dtype = kF64};

TEST(Transformers, BlocksFollowPyTorch) {
  for (const auto& [suffix, options] : {std::pair("", kSmall), std::pair("_norm_first", kNormFirst)}) {
    PyTorchCase c(std::string("encoder_block") + suffix);
    const TransformerEncoderLayer encoder(c.cx, 6, 2, options);
    c.expect(encoder, {encoder.forward(c.in(0))});
    PyTorchCase d(std::string("decoder_block") + suffix);
    const TransformerDecoderLayer decoder(d.cx, 6, 2, options);
    d.expect(decoder, {decoder.forward(d.in(0), d.in(1))});
  }
}

TEST(Transformers, TheWholeFollowsPyTorch) {
  {
    PyTorchCase c("encoder");
    TransformerOptions options = kSmall;
    options.batch_first = true;
    const TransformerEncoder m(c.cx, 2, 6, 2, options, true);
    GraphTensor padding =
        c.cx.tensor({2, 3}, Dtype::Bool).set(std::vector<bool>{false, false, true, false, false, false});
    c.expect(m, {m.forward(c.in(0), {.key_padding = padding})});
  }
  {
    PyTorchCase c("transformer");
    const Transformer m(c.cx, 6, 2, {1, 2}, kSmall);
    c.expect(m, {m.forward(c.in(0), c.in(1), {.target = {.causal = true}})});
  }
  PyTorchCase c("transformer_eval");
  TransformerOptions options = kSmall;
  options.dropout = 0.5;
  const Transformer m(c.cx, 6, 2, {1, 1}, options);
  eval(m);
  c.expect(m, {m.forward(c.in(0), c.in(1))});
}

TEST(Transformers, MlpFollowsPyTorch) {
  PyTorchCase c("mlp");
  const Mlp m(c.cx, 4, 6, {.dtype = kF64});
  c.expect(m, {m.forward(c.in(0))});
}

/// A model whose batch (and where it can be, length) is a named dim gives at each size what a static one
/// gives.
template <class Make>
void expect_dynamic(const std::string& name, const Make& make, Shape dims, std::vector<int64_t> last) {
  SCOPED_TRACE(name);
  Graph cx;
  const auto forward = make(cx);
  GraphTensor x = cx.tensor(dims);
  GraphTensor y = forward(x).retrieve();
  GraphTensor gradient = cx.run_pass(Autograd({x}, y.square().sum()))[0].retrieve();
  y.retrieve();
  for (const int64_t batch : {2, 3}) {
    std::vector<int64_t> sizes{batch};
    sizes.insert(sizes.end(), last.begin(), last.end());
    int64_t count = 1;
    for (const int64_t size : sizes) count *= size;
    std::vector<float> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(std::sin(0.37F * static_cast<float>(i * i)));
    x.set_dyn(values, sizes);
    cx.execute();
    Graph other;
    other.set_seed(cx.seed());
    const auto same = make(other);  // draws the same weights
    GraphTensor u = other.tensor(Shape(sizes.begin(), sizes.end())).set(values);
    GraphTensor v = same(u).retrieve();
    GraphTensor slope = other.run_pass(Autograd({u}, v.square().sum()))[0].retrieve();
    v.retrieve();
    other.execute();
    EXPECT_EQ(y.data<float>(), v.data<float>()) << batch;
    const auto a = gradient.data<float>(), b = slope.data<float>();
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5 * (1 + std::abs(b[i]))) << batch;
  }
}

/// Recurrent layers over any length: outputs, last states and gradients are those of a graph
/// made for that length.
template <class Layer>
void expect_any_length(const std::string& name) {
  SCOPED_TRACE(name);
  const RecurrentOptions options{.num_layers = 2, .bidirectional = true};
  const auto loss_of = [](const auto& result) {
    return result.output.square().sum() + result.h_n.sin().sum();
  };
  Graph cx;
  const Layer layer(cx, 3, 4, options);
  GraphTensor x = cx.tensor({"length", "batch", 3});
  auto result = layer.forward(x);
  GraphTensor loss = loss_of(result);
  const auto weights = params(layer);
  std::vector<GraphTensor> wanted = weights;
  wanted.push_back(x);
  auto slopes = cx.run_pass(Autograd(wanted, loss));
  slopes.push_back(result.output);
  slopes.push_back(result.h_n);
  retrieve(slopes);
  for (const int64_t length : {2, 5, 1, 17}) {
    std::vector<float> values;
    for (int64_t i = 0; i < length * 6; ++i) values.push_back(std::sin(0.37F * static_cast<float>(i * i)));
    x.set_dyn(values, {length, 2, 3});
    cx.execute();
    Graph other;
    const Layer same(other, 3, 4, options);
    load_state_dict(same, state_dict(layer));
    GraphTensor u = other.tensor({length, 2, 3}).set(values);
    const auto expected = same.forward(u);
    GraphTensor value = loss_of(expected);
    std::vector<GraphTensor> to = params(same);
    to.push_back(u);
    auto checks = other.run_pass(Autograd(to, value));
    checks.push_back(expected.output);
    checks.push_back(expected.h_n);
    retrieve(checks);
    other.execute();
    ASSERT_EQ(slopes.size(), checks.size());
    for (size_t i = 0; i < slopes.size(); ++i) {
      const auto a = slopes[i].template data<float>(), b = checks[i].template data<float>();
      ASSERT_EQ(a.size(), b.size());
      for (size_t k = 0; k < a.size(); ++k)
        ASSERT_NEAR(a[k], b[k], 2e-6 * (1 + std::abs(b[k]))) << "length " << length << " value " << i;
    }
  }
}

TEST(Dynamic, RecurrentLayersOverAnyLength) {
  expect_any_length<RNN>("RNN");
  expect_any_length<LSTM>("LSTM");
  expect_any_length<GRU>("GRU");
}

TEST(Dynamic, BatchesOfAnySize) {
  expect_dynamic("LSTM",
                 [](Graph& cx) {
                   return [m = LSTM(cx, 3, 4, {.batch_first = true, .bidirectional = true})](
                              const GraphTensor& x) { return m.forward(x).output; };
                 },
                 {"batch", 5, 3}, {5, 3});
  expect_dynamic("encoder",
                 [](Graph& cx) {
                   return [m = TransformerEncoder(cx, 1, 4, 2,
                                                  {.dim_feedforward = 6, .dropout = 0, .batch_first = true})](
                              const GraphTensor& x) { return m.forward(x, {.causal = true}); };
                 },
                 {"batch", "length", 4}, {5, 4});
  expect_dynamic("causal attention",
                 [](Graph& cx) {
                   return [m = CausalSelfAttention(cx, 8, 4, {.kv_heads = 2})](const GraphTensor& x) {
                     return m.forward(x);
                   };
                 },
                 {"batch", "length", 8}, {3, 8});
  expect_dynamic("image",
                 [](Graph& cx) {
                   return [m = Sequential{Conv2d(cx, 2, 4, {3, 3}, {.padding = {1, 1}}), BatchNorm2d(cx, 4),
                                          GroupNorm(cx, 2, 4), ReLU(), MaxPool2d(2), AdaptiveAvgPool2d(1),
                                          Flatten(), Linear(cx, 4, 3)}](const GraphTensor& x) {
                     return m.forward(x);
                   };
                 },
                 {"batch", 2, 6, 4}, {2, 6, 4});
}

/// Half precision: weights, inputs and outputs round, what lies between is computed in f32.
TEST(HalfPrecision, ModulesStayNearSinglePrecision) {
  const auto output = [](Dtype dtype) {
    Graph cx;
    const TransformerEncoder m(cx, 1, 8, 2,
                               {.dim_feedforward = 16, .dropout = 0, .batch_first = true, .dtype = dtype});
    std::vector<float> values;
    for (int i = 0; i < 48; ++i) values.push_back(std::sin(0.37F * static_cast<float>(i * i)));
    GraphTensor y = m.forward(cx.tensor({2, 3, 8}, dtype).set(values)).retrieve();
    EXPECT_EQ(y.dtype(), dtype);
    cx.execute();
    return y.data<double>();
  };
  const auto exact = output(Dtype::F32), half = output(Dtype::F16), brain = output(Dtype::BF16);
  for (size_t i = 0; i < exact.size(); ++i) {
    EXPECT_NEAR(half[i], exact[i], 8 * 0x1p-11 * 3) << i;  // a few roundings of values up to 3
    EXPECT_NEAR(brain[i], exact[i], 8 * 0x1p-8 * 3) << i;
  }
}

}  // namespace
}  // namespace luminal::nn
