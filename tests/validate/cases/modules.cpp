#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <type_traits>

#include "luminal/nn.h"
#include "validate/cases/module_row.h"

// Modules: the same weights, forward, backward by inputs and weights, and what training leaves in the
// buffers.
namespace luminal::validate {
namespace {

using T = Tensors;

/// All sizes may be named dims.
InputSpec sizes(std::vector<int64_t> dims) { return {.dims = std::move(dims)}; }
/// All but the last, or the channels, which the weights decide.
InputSpec rows(std::vector<int64_t> dims) { return {.dims = std::move(dims), .fixed = {-1}}; }
InputSpec channels(std::vector<int64_t> dims) { return {.dims = std::move(dims), .fixed = {1}}; }

void add_linear(Suite& suite) {
  add_row(suite, "Linear", "nn.Linear(4, 3)", rows({2, 5, 4}),
          [](Graph& cx, Dtype d) { return nn::Linear(cx, 4, 3, {.dtype = d}); });
  add_row(suite, "Linear", "nn.Linear(4, 3, bias=False)", rows({5, 4}),
          [](Graph& cx, Dtype d) { return nn::Linear(cx, 4, 3, {.bias = false, .dtype = d}); });
  const InputSpec index{{2, 3}, 0, 6, Values::Integers, Dtype::I64};
  add_row(
      suite, "Embedding", "nn.Embedding(6, 4)", std::vector{index},
      [](Graph& cx, Dtype d) { return nn::Embedding(cx, 6, 4, {.dtype = d}); },
      [](const nn::Embedding& m, const T& in) { return T{m.forward(in[0])}; });
  add_row(
      suite, "Embedding", "nn.Embedding(6, 4, padding_idx=2)", std::vector{index},
      [](Graph& cx, Dtype d) { return nn::Embedding(cx, 6, 4, {.padding_idx = 2, .dtype = d}); },
      [](const nn::Embedding& m, const T& in) { return T{m.forward(in[0])}; });
  add_row(suite, "Mlp", "modules.Mlp(4, 6)", rows({2, 5, 4}),
          [](Graph& cx, Dtype d) { return nn::Mlp(cx, 4, 6, {.dtype = d}); });
  add_row(suite, "Mlp", "modules.Mlp(4, 6, bias=True)", rows({5, 4}),
          [](Graph& cx, Dtype d) { return nn::Mlp(cx, 4, 6, {.bias = true, .dtype = d}); });
}

/// Layouts that PyTorch's own modules have not, and weights that two of them share.
void add_permuted_and_tied(Suite& suite) {
  add_row(suite, "Linear",
          "modules.Plain(lambda x, weight, bias: x @ weight + bias, weight=(4, 3), bias=(3,))", rows({5, 4}),
          [](Graph& cx, Dtype d) { return nn::Linear(cx, 4, 3, {.permuted = true, .dtype = d}); });
  add_row(suite, "Linear", "modules.Plain(lambda x, weight: x @ weight.t(), weight=(3, 4))", rows({5, 4}),
          [](Graph& cx, Dtype d) { return nn::Linear(nn::Embedding(cx, 3, 4, {.dtype = d}).weight); });
  const InputSpec index{{2, 3}, 0, 6, Values::Integers, Dtype::I64};
  add_row(
      suite, "Embedding", "modules.Plain(lambda x, weight: F.embedding(x, weight.t()), weight=(4, 6))",
      std::vector{index},
      [](Graph& cx, Dtype d) { return nn::Embedding(cx, 6, 4, {.permuted = true, .dtype = d}); },
      [](const nn::Embedding& m, const T& in) { return T{m.forward(in[0])}; });
  for (const bool permuted : {false, true})
    add_row(
        suite, "Embedding",
        permuted ? "modules.Plain(lambda x, weight: F.embedding(x, weight.t()) @ weight, weight=(4, 6))"
                 : "modules.Plain(lambda x, weight: F.embedding(x, weight) @ weight.t(), weight=(6, 4))",
        std::vector{index},
        [permuted](Graph& cx, Dtype d) {
          return nn::Embedding(cx, 6, 4, {.permuted = permuted, .dtype = d});
        },
        [](const nn::Embedding& m, const T& in) { return T{m.logits(m.forward(in[0]))}; });
}

void add_containers(Suite& suite) {
  const char* stack = "nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))";
  add_row(suite, "Sequential", stack, rows({5, 4}), [](Graph& cx, Dtype d) {
    return nn::Sequential(nn::Linear(cx, 4, 8, {.dtype = d}), nn::ReLU(), nn::Linear(cx, 8, 2, {.dtype = d}));
  });
  add_row(suite, "SequentialOf AnyModule", stack, rows({5, 4}), [](Graph& cx, Dtype d) {
    return nn::SequentialOf(std::vector<nn::AnyModule>{nn::Linear(cx, 4, 8, {.dtype = d}), nn::ReLU(),
                                                       nn::Linear(cx, 8, 2, {.dtype = d})});
  });
  add_row(suite, "SequentialOf", "nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))", rows({5, 4}),
          [](Graph& cx, Dtype d) {
            return nn::SequentialOf(
                std::array{nn::Linear(cx, 4, 4, {.dtype = d}), nn::Linear(cx, 4, 4, {.dtype = d})});
          });
  add_row(suite, "Identity", "nn.Identity()", sizes({5, 4}), [](Graph&, Dtype) { return nn::Identity(); });
}

void add_convolution_modules(Suite& suite) {
  add_row(suite, "Conv1d", "nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2)", channels({2, 4, 9}),
          [](Graph& cx, Dtype d) {
            return nn::Conv1d(cx, 4, 6, {3}, {.stride = {2}, .padding = {1}, .groups = 2, .dtype = d});
          });
  add_row(suite, "Conv2d", "nn.Conv2d(3, 4, 3)", channels({2, 3, 7, 6}),
          [](Graph& cx, Dtype d) { return nn::Conv2d(cx, 3, 4, {3, 3}, {.dtype = d}); });
  add_row(suite, "Conv2d",
          "nn.Conv2d(3, 4, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2), bias=False)",
          channels({2, 3, 7, 6}), [](Graph& cx, Dtype d) {
            return nn::Conv2d(
                cx, 3, 4, {3, 2},
                {.stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}, .bias = false, .dtype = d});
          });
  add_row(suite, "Conv3d", "nn.Conv3d(2, 3, 2)", channels({1, 2, 4, 4, 3}),
          [](Graph& cx, Dtype d) { return nn::Conv3d(cx, 2, 3, {2, 2, 2}, {.dtype = d}); });
  add_row(suite, "ConvTranspose2d",
          "nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2)",
          channels({2, 4, 5, 4}), [](Graph& cx, Dtype d) {
            return nn::ConvTranspose2d(
                cx, 4, 6, {3, 3},
                {.stride = {2, 2}, .padding = {1, 1}, .output_padding = {1, 1}, .groups = 2, .dtype = d});
          });
  add_row(suite, "ConvTranspose1d", "nn.ConvTranspose1d(4, 3, 4, stride=3)", channels({2, 4, 5}),
          [](Graph& cx, Dtype d) { return nn::ConvTranspose1d(cx, 4, 3, {4}, {.stride = {3}, .dtype = d}); });
  add_row(suite, "ConvTranspose3d", "nn.ConvTranspose3d(2, 3, 2)", channels({1, 2, 3, 2, 3}),
          [](Graph& cx, Dtype d) { return nn::ConvTranspose3d(cx, 2, 3, {2, 2, 2}, {.dtype = d}); });
  add_row(suite, "ConvTranspose3d",
          "nn.ConvTranspose3d(2, 4, 3, stride=(2, 1, 2), padding=1, dilation=(1, 2, 1), "
          "output_padding=(1, 0, 0), groups=2, bias=False)",
          channels({2, 2, 3, 2, 3}), [](Graph& cx, Dtype d) {
            return nn::ConvTranspose3d(cx, 2, 4, {3, 3, 3},
                                       {.stride = {2, 1, 2},
                                        .padding = {1, 1, 1},
                                        .output_padding = {1, 0, 0},
                                        .dilation = {1, 2, 1},
                                        .groups = 2,
                                        .bias = false,
                                        .dtype = d});
          });
}

/// The pools for N axes: with PyTorch's defaults, and with other strides and paddings.
template <size_t N, class Max, class Avg, class Adaptive>
void add_pool_modules(Suite& suite) {
  InputSpec dims = sizes({2, 3});
  for (size_t i = 0; i < N; ++i) dims.dims.push_back(7 - static_cast<int64_t>(i));
  const PoolOptions<N> other{
      .kernel = filled<N>(3), .stride = filled<N>(2), .padding = filled<N>(1), .ceil_mode = true};
  const std::string arguments = "3, stride=2, padding=1, ceil_mode=True";
  const auto pool = [&]<class M>(std::string_view kind, std::type_identity<M>) {
    const std::string name = fmt::format("{}Pool{}d", kind, N);
    add_row(suite, name.c_str(), fmt::format("nn.{}(2)", name), dims, [](Graph&, Dtype) { return M(2); });
    add_row(suite, name.c_str(), fmt::format("nn.{}({})", name, arguments), dims,
            [other](Graph&, Dtype) { return M(other); });
  };
  pool("Max", std::type_identity<Max>());
  pool("Avg", std::type_identity<Avg>());
  const std::string adaptive = fmt::format("AdaptiveAvgPool{}d", N);
  add_row(suite, adaptive.c_str(), fmt::format("nn.{}(3)", adaptive), dims,
          [](Graph&, Dtype) { return Adaptive(3); });
}

void add_norm_modules(Suite& suite) {
  add_row(suite, "LayerNorm", "nn.LayerNorm(5)", rows({2, 3, 5}),
          [](Graph& cx, Dtype d) { return nn::LayerNorm(cx, 5, {.dtype = d}); });
  add_row(suite, "LayerNorm", "nn.LayerNorm((3, 5), eps=1e-3)", {.dims = {2, 3, 5}, .fixed = {1, 2}},
          [](Graph& cx, Dtype d) {
            return nn::LayerNorm(cx, std::vector<int64_t>{3, 5}, {.eps = 1e-3, .dtype = d});
          });
  add_row(suite, "LayerNorm", "nn.LayerNorm(5, elementwise_affine=False)", rows({2, 3, 5}),
          [](Graph& cx, Dtype d) { return nn::LayerNorm(cx, 5, {.elementwise_affine = false, .dtype = d}); });
  add_row(suite, "LayerNorm", "nn.LayerNorm(5, bias=False)", rows({2, 3, 5}),
          [](Graph& cx, Dtype d) { return nn::LayerNorm(cx, 5, {.bias = false, .dtype = d}); });
  add_row(suite, "RMSNorm", "nn.RMSNorm((3, 5), elementwise_affine=False, eps=1e-3)",
          {.dims = {2, 3, 5}, .fixed = {1, 2}}, [](Graph& cx, Dtype d) {
            return nn::RMSNorm(cx, std::vector<int64_t>{3, 5},
                               {.eps = 1e-3, .elementwise_affine = false, .dtype = d});
          });
  add_row(
      suite, "GroupNorm", "nn.GroupNorm(4, 4, eps=1e-3, affine=False)", channels({2, 4, 3}),
      [](Graph& cx, Dtype d) { return nn::GroupNorm(cx, 4, 4, {.eps = 1e-3, .affine = false, .dtype = d}); });
  add_row(suite, "RMSNorm", "nn.RMSNorm(5, eps=1e-6)", rows({2, 3, 5}),
          [](Graph& cx, Dtype d) { return nn::RMSNorm(cx, 5, {.eps = 1e-6, .dtype = d}); });
  add_row(suite, "GroupNorm", "nn.GroupNorm(2, 4)", channels({2, 4, 3, 3}),
          [](Graph& cx, Dtype d) { return nn::GroupNorm(cx, 2, 4, {.dtype = d}); });
  add_row(
      suite, "BatchNorm1d", "nn.BatchNorm1d(4)", channels({6, 4}),
      [](Graph& cx, Dtype d) { return nn::BatchNorm1d(cx, 4, {.dtype = d}); }, true);
  add_row(
      suite, "BatchNorm3d", "nn.BatchNorm3d(2)", channels({3, 2, 2, 3, 2}),
      [](Graph& cx, Dtype d) { return nn::BatchNorm3d(cx, 2, {.dtype = d}); }, true);
  add_row(
      suite, "BatchNorm2d", "nn.BatchNorm2d(3, momentum=0.3)", channels({4, 3, 3, 2}),
      [](Graph& cx, Dtype d) { return nn::BatchNorm2d(cx, 3, {.momentum = 0.3, .dtype = d}); }, true);
  add_row(
      suite, "BatchNorm2d", "nn.BatchNorm2d(3, momentum=None)", channels({4, 3, 3, 2}),
      [](Graph& cx, Dtype d) { return nn::BatchNorm2d(cx, 3, {.momentum = {}, .dtype = d}); }, true);
  add_row(
      suite, "BatchNorm2d", "nn.BatchNorm2d(3, affine=False, track_running_stats=False)",
      channels({4, 3, 3, 2}),
      [](Graph& cx, Dtype d) {
        return nn::BatchNorm2d(cx, 3, {.affine = false, .track_running_stats = false, .dtype = d});
      },
      true);
}

void add_activation_modules(Suite& suite) {
  const InputSpec dims = sizes({3, 6});
  add_row(suite, "ReLU", "nn.ReLU()", dims, [](Graph&, Dtype) { return nn::ReLU(); });
  add_row(suite, "Sigmoid", "nn.Sigmoid()", dims, [](Graph&, Dtype) { return nn::Sigmoid(); });
  add_row(suite, "Tanh", "nn.Tanh()", dims, [](Graph&, Dtype) { return nn::Tanh(); });
  add_row(suite, "SiLU", "nn.SiLU()", dims, [](Graph&, Dtype) { return nn::SiLU(); });
  add_row(suite, "Hardswish", "nn.Hardswish()", dims, [](Graph&, Dtype) { return nn::Hardswish(); });
  add_row(suite, "Mish", "nn.Mish()", dims, [](Graph&, Dtype) { return nn::Mish(); });
  add_row(suite, "GELU", "nn.GELU()", dims, [](Graph&, Dtype) { return nn::GELU(); });
  add_row(suite, "GELU", "nn.GELU('tanh')", dims, [](Graph&, Dtype) { return nn::GELU{"tanh"}; });
  add_row(suite, "LeakyReLU", "nn.LeakyReLU()", dims, [](Graph&, Dtype) { return nn::LeakyReLU(); });
  add_row(suite, "ELU", "nn.ELU()", dims, [](Graph&, Dtype) { return nn::ELU(); });
  add_row(suite, "Softplus", "nn.Softplus()", dims, [](Graph&, Dtype) { return nn::Softplus(); });
  add_row(suite, "Softmax", "nn.Softmax(-1)", dims, [](Graph&, Dtype) { return nn::Softmax(); });
  add_row(suite, "LogSoftmax", "nn.LogSoftmax(-1)", dims, [](Graph&, Dtype) { return nn::LogSoftmax(); });
  add_row(suite, "GLU", "nn.GLU()", rows({3, 6}), [](Graph&, Dtype) { return nn::GLU(); });
  // What the options change.
  add_row(suite, "LeakyReLU", "nn.LeakyReLU(0.2)", dims, [](Graph&, Dtype) { return nn::LeakyReLU{0.2}; });
  add_row(suite, "ELU", "nn.ELU(0.7)", dims, [](Graph&, Dtype) { return nn::ELU{0.7}; });
  add_row(suite, "Softplus", "nn.Softplus(2.0, 1.0)", dims, [](Graph&, Dtype) { return nn::Softplus{2, 1}; });
  add_row(suite, "Softmax", "nn.Softmax(0)", dims, [](Graph&, Dtype) { return nn::Softmax{0}; });
  add_row(suite, "LogSoftmax", "nn.LogSoftmax(0)", dims, [](Graph&, Dtype) { return nn::LogSoftmax{0}; });
  add_row(suite, "GLU", "nn.GLU(1)", channels({3, 4, 2}), [](Graph&, Dtype) { return nn::GLU{1}; });
  add_row(suite, "Flatten", "nn.Flatten(0, 1)", sizes({2, 3, 4}),
          [](Graph&, Dtype) { return nn::Flatten{0, 1}; });
  add_row(suite, "PReLU", "nn.PReLU()", dims, [](Graph& cx, Dtype d) { return nn::PReLU(cx, 1, 0.25, d); });
  add_row(suite, "PReLU", "nn.PReLU(6)", channels({3, 6}),
          [](Graph& cx, Dtype d) { return nn::PReLU(cx, 6, 0.25, d); });
  add_row(suite, "Upsample", "nn.Upsample(scale_factor=2)", sizes({2, 3, 4}),
          [](Graph&, Dtype) { return nn::Upsample(2); });
  add_row(suite, "Upsample", "nn.Upsample(scale_factor=2, mode='bilinear', align_corners=True)",
          sizes({2, 3, 4, 5}), [](Graph&, Dtype) {
            return nn::Upsample(2, {.mode = Interpolation::Linear, .align_corners = true});
          });
  add_row(suite, "Flatten", "nn.Flatten()", sizes({2, 3, 4}), [](Graph&, Dtype) { return nn::Flatten(); });
  // While it trains it draws at random: its statistics are among the procedures.
  add_row(suite, "Dropout", "nn.Dropout(0.0)", dims, [](Graph&, Dtype) { return nn::Dropout(0.0); }, true);
}

template <class M>
void add_cell(Suite& suite, const char* name) {
  constexpr bool kIsLstm = std::is_same_v<M, nn::LSTMCell>;
  const InputSpec x{.dims = {2, 4}, .fixed = {1}}, state{.dims = {2, 3}, .fixed = {1}};
  const auto make = [](Graph& cx, Dtype d) { return M(cx, 4, 3, {.dtype = d}); };
  const auto tensors = [](const auto& result) {
    if constexpr (kIsLstm)
      return T{result.h, result.c};
    else
      return T{result};
  };
  add_row(
      suite, name, fmt::format("nn.{}(4, 3)", name), {x}, make,
      [=](const M& m, const T& in) { return tensors(m.forward(in[0])); }, "m(x)");
  std::vector<InputSpec> given{x, state};
  if (kIsLstm) given.push_back(state);
  add_row(
      suite, name, fmt::format("nn.{}(4, 3, bias=True)", name), given, make,
      [=](const M& m, const T& in) {
        if constexpr (kIsLstm)
          return tensors(m.forward(in[0], in[1], in[2]));
        else
          return tensors(m.forward(in[0], in[1]));
      },
      kIsLstm ? "m(x, (y, z))" : "m(x, y)");
  add_row(
      suite, name, fmt::format("nn.{}(4, 3, bias=False)", name), {InputSpec{.dims = {4}, .fixed = {0}}},
      [](Graph& cx, Dtype d) { return M(cx, 4, 3, {.bias = false, .dtype = d}); },
      [=](const M& m, const T& in) { return tensors(m.forward(in[0])); }, "m(x)");
}

template <class M>
void add_recurrent(Suite& suite, const char* name) {
  struct Way {
    const char* text;
    nn::RecurrentOptions options;
  };
  const auto outputs = [](const M& m, const T& in) {
    const auto result = m.forward(in[0]);
    if constexpr (requires { result.c_n; }) return T{result.output, result.h_n, result.c_n};
    return T{result.output, result.h_n};
  };
  const std::string call = std::string(name) == "LSTM" ? "(lambda o, s: (o, *s))(*m(x))" : "m(x)";
  for (const Way& way :
       {Way{"", {}}, Way{", num_layers=2, batch_first=True", {.num_layers = 2, .batch_first = true}},
        Way{", bidirectional=True", {.bidirectional = true}}, Way{", bias=False", {.bias = false}}})
    add_row(
        suite, name, fmt::format("nn.{}(4, 3{})", name, way.text),
        {{.dims = {5, 2, 4}, .fixed = {2}, .bounded = way.options.batch_first ? 1 : 0}},
        [options = way.options](Graph& cx, Dtype d) { return M(cx, 4, 3, with(options, d)); }, outputs, call);
  // From given first states.
  const InputSpec state{.dims = {2, 2, 3}, .fixed = {0, 2}};
  const std::vector<InputSpec> given{{.dims = {5, 2, 4}, .fixed = {2}, .bounded = 0}, state, state};
  const auto make = [](Graph& cx, Dtype d) { return M(cx, 4, 3, {.num_layers = 2, .dtype = d}); };
  const std::string torch = fmt::format("nn.{}(4, 3, num_layers=2, dropout=0.0)", name);
  if constexpr (std::is_same_v<M, nn::LSTM>)
    add_row(
        suite, name, torch, given, make,
        [](const M& m, const T& in) {
          const auto result = m.forward(in[0], in[1], in[2]);
          return T{result.output, result.h_n, result.c_n};
        },
        "(lambda o, s: (o, *s))(*m(x, (y, z)))");
  else
    add_row(
        suite, name, torch, {given[0], given[1]}, make,
        [](const M& m, const T& in) {
          const auto result = m.forward(in[0], in[1]);
          return T{result.output, result.h_n};
        },
        "m(x, y)");
}

void add_attention_modules(Suite& suite) {
  using nn::MultiheadAttention;
  const InputSpec x = rows({5, 2, 8}), keys = rows({4, 2, 8});
  add_row(
      suite, "MultiheadAttention", "nn.MultiheadAttention(8, 2)", {x},
      [](Graph& cx, Dtype d) { return MultiheadAttention(cx, 8, 2, {.dtype = d}); },
      [](const MultiheadAttention& m, const T& in) { return T{m.forward(in[0])}; },
      "m(x, x, x, need_weights=False)[0]");
  add_row(
      suite, "MultiheadAttention", "nn.MultiheadAttention(8, 4, bias=False, batch_first=True)",
      {x, rows({5, 3, 8})},
      [](Graph& cx, Dtype d) {
        return MultiheadAttention(cx, 8, 4, {.bias = false, .batch_first = true, .dtype = d});
      },
      [](const MultiheadAttention& m, const T& in) { return T{m.forward(in[0], in[1], in[1])}; },
      "m(x, y, y, need_weights=False)[0]");
  add_row(
      suite, "MultiheadAttention", "nn.MultiheadAttention(8, 2, kdim=6, vdim=5)",
      {x, rows({4, 2, 6}), rows({4, 2, 5})},
      [](Graph& cx, Dtype d) { return MultiheadAttention(cx, 8, 2, {.kdim = 6, .vdim = 5, .dtype = d}); },
      [](const MultiheadAttention& m, const T& in) { return T{m.forward(in[0], in[1], in[2])}; },
      "m(x, y, z, need_weights=False)[0]");
  add_row(
      suite, "MultiheadAttention", "nn.MultiheadAttention(8, 2)", {x, keys},
      [](Graph& cx, Dtype d) { return MultiheadAttention(cx, 8, 2, {.dtype = d}); },
      [](const MultiheadAttention& m, const T& in) {
        const auto result = m.forward_with_weights(in[0], in[1], in[1]);
        return T{result.output, result.weights};
      },
      "m(x, y, y)");
  suite.modules.back().torch = "nn.MultiheadAttention(8, 2, dropout=0.0)";
  add_row(
      suite, "MultiheadAttention", "nn.MultiheadAttention(8, 2, add_zero_attn=False)", {x},
      [](Graph& cx, Dtype d) { return MultiheadAttention(cx, 8, 2, {.dtype = d}); },
      [](const MultiheadAttention& m, const T& in) {
        return T{m.forward(in[0], in[0], in[0], {.causal = true})};
      },
      "m(x, x, x, need_weights=False, attn_mask=torch.ones(5, 5).triu(1).bool())[0]");
}

/// Who may not look at whom: bools, floats to be added, and keys that are padding.
void add_masks(Suite& suite) {
  using nn::MultiheadAttention;
  const InputSpec x = rows({5, 2, 8}), keys = rows({4, 2, 8});
  const InputSpec blocked{.dims = {5, 4}, .dtype = Dtype::Bool, .given = {0, 1, 0, 0, 1, 0, 0}};
  // A mask of each head has batch times heads rows: with these the batch is a number.
  const InputSpec few{.dims = {5, 2, 8}, .fixed = {1, 2}}, few_keys{.dims = {4, 2, 8}, .fixed = {1, 2}};
  const InputSpec each{
      .dims = {4, 5, 4}, .dtype = Dtype::Bool, .given = {0, 0, 1, 0, 1, 0, 0, 0, 1}, .fixed = {0}};
  const InputSpec padding{.dims = {2, 4}, .dtype = Dtype::Bool, .given = {0, 0, 0, 1, 0, 1, 0, 0}};
  const auto make = [](Graph& cx, Dtype d) { return MultiheadAttention(cx, 8, 2, {.dtype = d}); };
  const auto masked = [](const MultiheadAttention& m, const T& in) {
    return T{m.forward(in[0], in[1], in[1], {.mask = in[2]})};
  };
  const auto padded = [](const MultiheadAttention& m, const T& in) {
    return T{m.forward(in[0], in[1], in[1], {.key_padding = in[2]})};
  };
  const char* call = "m(x, y, y, need_weights=False, attn_mask=z)[0]";
  const char* group = "MultiheadAttention masks";
  add_row(suite, group, "nn.MultiheadAttention(8, 2)  # bool", {x, keys, blocked}, make, masked, call);
  add_row(suite, group, "nn.MultiheadAttention(8, 2)  # of each head", {few, few_keys, each}, make, masked,
          call);
  add_row(suite, group, "nn.MultiheadAttention(8, 2)  # added", {x, keys, {{5, 4}}}, make, masked, call);
  add_row(suite, group, "nn.MultiheadAttention(8, 2)  # padding", {x, keys, padding}, make, padded,
          "m(x, y, y, need_weights=False, key_padding_mask=z)[0]");
  add_row(
      suite, group, "nn.MultiheadAttention(8, 2)  # both", {x, keys, blocked, padding}, make,
      [](const MultiheadAttention& m, const T& in) {
        const auto result =
            m.forward_with_weights(in[0], in[1], in[1], {.mask = in[2], .key_padding = in[3]});
        return T{result.output, result.weights};
      },
      "m(x, y, y, attn_mask=z, key_padding_mask=w)");
}

/// What language models are made of; PyTorch's side stands in tools/validate/modules.py.
void add_decoding(Suite& suite) {
  struct Rotary {
    const char* text;
    nn::RotaryEmbedding module;
    int64_t first;
  };
  for (const Rotary& way : {Rotary{"6", {.size = 6}, 0}, Rotary{"6, base=500.0", {.size = 6, .base = 500}, 3},
                            Rotary{"6, interleaved=True", {.size = 6, .interleaved = true}, 2}})
    add_row(
        suite, "RotaryEmbedding", fmt::format("modules.RotaryEmbedding({})", way.text), {rows({2, 3, 5, 6})},
        [module = way.module](Graph&, Dtype) { return module; },
        [first = way.first](const nn::RotaryEmbedding& m, const T& in) { return T{m.forward(in[0], first)}; },
        fmt::format("m(x, {})", way.first));
  const std::vector<std::pair<const char*, nn::CausalSelfAttention::Options>> ways{
      {"8, 2", {}},
      {"8, 4, kv_heads=2, bias=True", {.kv_heads = 2, .bias = true}},
      {"8, 4, kv_heads=1, head_size=6, rope_base=500.0, rope_interleaved=True",
       {.kv_heads = 1, .head_size = 6, .rope_base = 500, .rope_interleaved = true}},
      {"8, 2, rope_base=None", {.rope_base = {}}}};
  for (const auto& [text, options] : ways)
    add_row(suite, "CausalSelfAttention", fmt::format("modules.CausalSelfAttention({})", text),
            rows({2, 5, 8}), [options](Graph& cx, Dtype d) {
              return nn::CausalSelfAttention(cx, 8, options.kv_heads == 0 ? 2 : 4, with(options, d));
            });
  add_row(
      suite, "MultiheadAttention", "modules.GroupedMultiheadAttention(8, 4, 2, 6, 5)",
      {rows({2, 5, 8}), rows({2, 4, 6}), rows({2, 4, 5})},
      [](Graph& cx, Dtype d) {
        return nn::MultiheadAttention(cx, 8, 4,
                                      {.kdim = 6, .vdim = 5, .kv_heads = 2, .batch_first = true, .dtype = d});
      },
      [](const nn::MultiheadAttention& m, const T& in) { return T{m.forward(in[0], in[1], in[2])}; },
      "m(x, y, z)");
}

/// Stacks of blocks with masks, and their feed-forward part alone.
void add_stacks(Suite& suite, const nn::TransformerOptions& options, const std::string& text) {
  const InputSpec x = rows({4, 2, 8});
  InputSpec memory = rows({3, 2, 8});
  if (options.batch_first) memory.dims = {4, 5, 8};
  const int64_t length = options.batch_first ? 2 : 4;
  const InputSpec blocked{.dims = {length, length}, .dtype = Dtype::Bool, .given = {0, 1, 0}};
  add_row(
      suite, "TransformerEncoder",
      fmt::format("nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, {}), 2, nn.LayerNorm(8), "
                  "enable_nested_tensor=False)",
                  text),
      {x, blocked},
      [options](Graph& cx, Dtype d) { return nn::TransformerEncoder(cx, 2, 8, 2, with(options, d), true); },
      [](const nn::TransformerEncoder& m, const T& in) { return T{m.forward(in[0], {.mask = in[1]})}; },
      "m(x, mask=y)", true);
  add_row(
      suite, "TransformerDecoder",
      fmt::format("nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, {}), 2)", text),
      {x, memory, blocked},
      [options](Graph& cx, Dtype d) { return nn::TransformerDecoder(cx, 2, 8, 2, with(options, d)); },
      [](const nn::TransformerDecoder& m, const T& in) {
        return T{m.forward(in[0], in[1], {.mask = in[2]})};
      },
      "m(x, y, tgt_mask=z)", true);
  add_row(suite, "FeedForward",
          fmt::format(
              "nn.Sequential(OrderedDict(linear1=nn.Linear(8, 12), act=nn.{}(), linear2=nn.Linear(12, 8)))",
              options.activation == "gelu" ? "GELU" : "ReLU"),
          rows({4, 2, 8}),
          [options](Graph& cx, Dtype d) { return nn::FeedForward(cx, 8, with(options, d)); });
}

void add_transformers(Suite& suite) {
  const nn::TransformerOptions plain{.dim_feedforward = 12, .dropout = 0};
  nn::TransformerOptions other = plain;
  other.activation = "gelu", other.batch_first = true, other.norm_first = true;
  const std::string first = "dim_feedforward=12, dropout=0.0",
                    second = first + ", activation='gelu', batch_first=True, norm_first=True";
  for (const auto& [options, text] : {std::pair{plain, first}, {other, second}}) {
    add_stacks(suite, options, text);
    add_row(
        suite, "TransformerEncoderLayer", fmt::format("nn.TransformerEncoderLayer(8, 2, {})", text),
        rows({4, 2, 8}),
        [options](Graph& cx, Dtype d) { return nn::TransformerEncoderLayer(cx, 8, 2, with(options, d)); },
        true);
    add_row(
        suite, "TransformerDecoderLayer", fmt::format("nn.TransformerDecoderLayer(8, 2, {})", text),
        {rows({4, 2, 8}), rows({4, 2, 8})},
        [options](Graph& cx, Dtype d) { return nn::TransformerDecoderLayer(cx, 8, 2, with(options, d)); },
        [](const nn::TransformerDecoderLayer& m, const T& in) { return T{m.forward(in[0], in[1])}; },
        "m(x, y)");
    add_row(
        suite, "Transformer",
        fmt::format("nn.Transformer(8, 2, num_encoder_layers=2, num_decoder_layers=1, {})", text),
        {rows({4, 2, 8}), rows({4, 2, 8})},
        [options](Graph& cx, Dtype d) { return nn::Transformer(cx, 8, 2, {2, 1}, with(options, d)); },
        [](const nn::Transformer& m, const T& in) { return T{m.forward(in[0], in[1])}; }, "m(x, y)");
  }
}

}  // namespace

void add_modules(Suite& suite) {
  add_linear(suite);
  add_permuted_and_tied(suite);
  add_containers(suite);
  add_convolution_modules(suite);
  add_pool_modules<1, nn::MaxPool1d, nn::AvgPool1d, nn::AdaptiveAvgPool1d>(suite);
  add_pool_modules<2, nn::MaxPool2d, nn::AvgPool2d, nn::AdaptiveAvgPool2d>(suite);
  add_pool_modules<3, nn::MaxPool3d, nn::AvgPool3d, nn::AdaptiveAvgPool3d>(suite);
  add_norm_modules(suite);
  add_activation_modules(suite);
  add_attention_modules(suite);
  add_masks(suite);
  add_decoding(suite);
  const size_t chains = suite.modules.size();
  add_recurrent<nn::RNN>(suite, "RNN");
  add_recurrent<nn::GRU>(suite, "GRU");
  add_recurrent<nn::LSTM>(suite, "LSTM");
  add_cell<nn::RNNCell>(suite, "RNNCell");
  add_cell<nn::GRUCell>(suite, "GRUCell");
  add_cell<nn::LSTMCell>(suite, "LSTMCell");
  add_transformers(suite);
  // Steps and blocks read what others have rounded.
  for (size_t i = chains; i < suite.modules.size(); ++i) suite.modules[i].half_ulps = 8;
}

}  // namespace luminal::validate
