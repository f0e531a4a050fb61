#include <fmt/format.h>

#include <algorithm>

#include "luminal/nn.h"
#include "validate/cases/case.h"

// Modules: the same weights, forward, backward by inputs and weights, and what training leaves in the
// buffers.
namespace luminal::validate {
namespace {

using T = Tensors;

/// One row of the list. `make` takes the graph, `call` the module and the inputs.
template <class Make, class Call>
void add(Suite& suite, const char* group, std::string torch, std::vector<InputSpec> inputs, Make make,
         Call call, std::string torch_call = "m(x)", bool modes_differ = false) {
  ModuleSpec spec;
  spec.group = std::string("nn ") + group;
  spec.torch = std::move(torch);
  spec.call = std::move(torch_call);
  spec.inputs = std::move(inputs);
  spec.modes_differ = modes_differ;
  spec.make = [make, call](Graph& cx, const T& in, bool train) {
    const auto module = make(cx);
    nn::train(module, train);
    ModuleSpec::Made made;
    made.outputs = call(module, in);
    for (const nn::Serializer::Entry& entry : nn::entries(module)) {
      std::string name = entry.name;
      std::ranges::replace(name, '/', '.');
      (entry.trainable ? made.weights : made.buffers).emplace_back(name, entry.tensor);
    }
    return made;
  };
  suite.modules.push_back(std::move(spec));
}

/// With a plain forward(x).
template <class Make>
void add(Suite& suite, const char* group, std::string torch, std::vector<int64_t> dims, Make make,
         bool modes_differ = false) {
  add(
      suite, group, std::move(torch), std::vector<InputSpec>{{std::move(dims)}}, make,
      [](const auto& m, const T& in) { return T{m.forward(in[0])}; }, "m(x)", modes_differ);
}

void add_linear(Suite& suite) {
  add(suite, "Linear", "nn.Linear(4, 3)", {2, 5, 4}, [](Graph& cx) { return nn::Linear(cx, 4, 3); });
  add(suite, "Linear", "nn.Linear(4, 3, bias=False)", {5, 4},
      [](Graph& cx) { return nn::Linear(cx, 4, 3, {.bias = false}); });
  const InputSpec index{{2, 3}, 0, 6, Values::Integers, Dtype::I64};
  add(
      suite, "Embedding", "nn.Embedding(6, 4)", {index}, [](Graph& cx) { return nn::Embedding(cx, 6, 4); },
      [](const nn::Embedding& m, const T& in) { return T{m.forward(in[0])}; });
  add(
      suite, "Embedding", "nn.Embedding(6, 4, padding_idx=2)", {index},
      [](Graph& cx) { return nn::Embedding(cx, 6, 4, {.padding_idx = 2}); },
      [](const nn::Embedding& m, const T& in) { return T{m.forward(in[0])}; });
  add(suite, "Sequential", "nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))", {5, 4},
      [](Graph& cx) { return nn::Sequential(nn::Linear(cx, 4, 8), nn::ReLU(), nn::Linear(cx, 8, 2)); });
}

void add_convolutions(Suite& suite) {
  add(suite, "Conv1d", "nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2)", {2, 4, 9},
      [](Graph& cx) { return nn::Conv1d(cx, 4, 6, {3}, {.stride = {2}, .padding = {1}, .groups = 2}); });
  add(suite, "Conv2d", "nn.Conv2d(3, 4, 3)", {2, 3, 7, 6},
      [](Graph& cx) { return nn::Conv2d(cx, 3, 4, {3, 3}); });
  add(suite, "Conv2d", "nn.Conv2d(3, 4, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2), bias=False)",
      {2, 3, 7, 6}, [](Graph& cx) {
        return nn::Conv2d(cx, 3, 4, {3, 2},
                          {.stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}, .bias = false});
      });
  add(suite, "Conv3d", "nn.Conv3d(2, 3, 2)", {1, 2, 4, 4, 3},
      [](Graph& cx) { return nn::Conv3d(cx, 2, 3, {2, 2, 2}); });
  add(suite, "ConvTranspose2d",
      "nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2)", {2, 4, 5, 4},
      [](Graph& cx) {
        return nn::ConvTranspose2d(
            cx, 4, 6, {3, 3}, {.stride = {2, 2}, .padding = {1, 1}, .output_padding = {1, 1}, .groups = 2});
      });
  add(suite, "ConvTranspose1d", "nn.ConvTranspose1d(4, 3, 4, stride=3)", {2, 4, 5},
      [](Graph& cx) { return nn::ConvTranspose1d(cx, 4, 3, {4}, {.stride = {3}}); });
  add(suite, "MaxPool2d", "nn.MaxPool2d(2)", {2, 3, 6, 6}, [](Graph&) { return nn::MaxPool2d(2); });
  add(suite, "AvgPool2d", "nn.AvgPool2d(3)", {2, 3, 7, 6}, [](Graph&) { return nn::AvgPool2d(3); });
  add(suite, "AdaptiveAvgPool2d", "nn.AdaptiveAvgPool2d(3)", {2, 3, 7, 5},
      [](Graph&) { return nn::AdaptiveAvgPool2d(3); });
}

void add_norms(Suite& suite) {
  add(suite, "LayerNorm", "nn.LayerNorm(5)", {2, 3, 5}, [](Graph& cx) { return nn::LayerNorm(cx, 5); });
  add(suite, "LayerNorm", "nn.LayerNorm((3, 5), eps=1e-3)", {2, 3, 5},
      [](Graph& cx) { return nn::LayerNorm(cx, std::vector<int64_t>{3, 5}, {.eps = 1e-3}); });
  add(suite, "LayerNorm", "nn.LayerNorm(5, elementwise_affine=False)", {2, 3, 5},
      [](Graph& cx) { return nn::LayerNorm(cx, 5, {.elementwise_affine = false}); });
  add(suite, "RMSNorm", "nn.RMSNorm(5, eps=1e-6)", {2, 3, 5},
      [](Graph& cx) { return nn::RMSNorm(cx, 5, {.eps = 1e-6}); });
  add(suite, "GroupNorm", "nn.GroupNorm(2, 4)", {2, 4, 3, 3},
      [](Graph& cx) { return nn::GroupNorm(cx, 2, 4); });
  add(
      suite, "BatchNorm1d", "nn.BatchNorm1d(4)", {6, 4}, [](Graph& cx) { return nn::BatchNorm1d(cx, 4); },
      true);
  add(
      suite, "BatchNorm2d", "nn.BatchNorm2d(3, momentum=0.3)", {4, 3, 3, 2},
      [](Graph& cx) { return nn::BatchNorm2d(cx, 3, {.momentum = 0.3}); }, true);
  add(
      suite, "BatchNorm2d", "nn.BatchNorm2d(3, momentum=None)", {4, 3, 3, 2},
      [](Graph& cx) { return nn::BatchNorm2d(cx, 3, {.momentum = {}}); }, true);
  add(
      suite, "BatchNorm2d", "nn.BatchNorm2d(3, affine=False, track_running_stats=False)", {4, 3, 3, 2},
      [](Graph& cx) { return nn::BatchNorm2d(cx, 3, {.affine = false, .track_running_stats = false}); },
      true);
}

void add_activations(Suite& suite) {
  const std::vector<int64_t> dims{3, 6};
  add(suite, "ReLU", "nn.ReLU()", dims, [](Graph&) { return nn::ReLU(); });
  add(suite, "Sigmoid", "nn.Sigmoid()", dims, [](Graph&) { return nn::Sigmoid(); });
  add(suite, "Tanh", "nn.Tanh()", dims, [](Graph&) { return nn::Tanh(); });
  add(suite, "SiLU", "nn.SiLU()", dims, [](Graph&) { return nn::SiLU(); });
  add(suite, "Hardswish", "nn.Hardswish()", dims, [](Graph&) { return nn::Hardswish(); });
  add(suite, "Mish", "nn.Mish()", dims, [](Graph&) { return nn::Mish(); });
  add(suite, "GELU", "nn.GELU()", dims, [](Graph&) { return nn::GELU(); });
  add(suite, "GELU", "nn.GELU('tanh')", dims, [](Graph&) { return nn::GELU{"tanh"}; });
  add(suite, "LeakyReLU", "nn.LeakyReLU()", dims, [](Graph&) { return nn::LeakyReLU(); });
  add(suite, "ELU", "nn.ELU()", dims, [](Graph&) { return nn::ELU(); });
  add(suite, "Softplus", "nn.Softplus()", dims, [](Graph&) { return nn::Softplus(); });
  add(suite, "Softmax", "nn.Softmax(-1)", dims, [](Graph&) { return nn::Softmax(); });
  add(suite, "LogSoftmax", "nn.LogSoftmax(-1)", dims, [](Graph&) { return nn::LogSoftmax(); });
  add(suite, "GLU", "nn.GLU()", dims, [](Graph&) { return nn::GLU(); });
  add(suite, "PReLU", "nn.PReLU(6)", dims, [](Graph& cx) { return nn::PReLU(cx, 6); });
  add(suite, "Flatten", "nn.Flatten()", {2, 3, 4}, [](Graph&) { return nn::Flatten(); });
  // While it trains it draws at random: its statistics are among the procedures.
  add(suite, "Dropout", "nn.Dropout(0.0)", dims, [](Graph&) { return nn::Dropout(0.0); }, true);
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
    add(
        suite, name, fmt::format("nn.{}(4, 3{})", name, way.text), {{{5, 2, 4}}},
        [options = way.options](Graph& cx) { return M(cx, 4, 3, options); }, outputs, call);
}

void add_attention(Suite& suite) {
  using nn::MultiheadAttention;
  const InputSpec x{{5, 2, 8}}, keys{{4, 2, 8}};
  add(
      suite, "MultiheadAttention", "nn.MultiheadAttention(8, 2)", {x},
      [](Graph& cx) { return MultiheadAttention(cx, 8, 2); },
      [](const MultiheadAttention& m, const T& in) { return T{m.forward(in[0])}; },
      "m(x, x, x, need_weights=False)[0]");
  add(
      suite, "MultiheadAttention", "nn.MultiheadAttention(8, 4, bias=False, batch_first=True)",
      {x, {{5, 3, 8}}},
      [](Graph& cx) { return MultiheadAttention(cx, 8, 4, {.bias = false, .batch_first = true}); },
      [](const MultiheadAttention& m, const T& in) { return T{m.forward(in[0], in[1], in[1])}; },
      "m(x, y, y, need_weights=False)[0]");
  add(
      suite, "MultiheadAttention", "nn.MultiheadAttention(8, 2, kdim=6, vdim=5)",
      {x, {{4, 2, 6}}, {{4, 2, 5}}},
      [](Graph& cx) { return MultiheadAttention(cx, 8, 2, {.kdim = 6, .vdim = 5}); },
      [](const MultiheadAttention& m, const T& in) { return T{m.forward(in[0], in[1], in[2])}; },
      "m(x, y, z, need_weights=False)[0]");
  add(
      suite, "MultiheadAttention", "nn.MultiheadAttention(8, 2)", {x, keys},
      [](Graph& cx) { return MultiheadAttention(cx, 8, 2); },
      [](const MultiheadAttention& m, const T& in) {
        const auto result = m.forward_with_weights(in[0], in[1], in[1]);
        return T{result.output, result.weights};
      },
      "m(x, y, y)");
  suite.modules.back().torch = "nn.MultiheadAttention(8, 2, dropout=0.0)";
  add(
      suite, "MultiheadAttention", "nn.MultiheadAttention(8, 2, add_zero_attn=False)", {x},
      [](Graph& cx) { return MultiheadAttention(cx, 8, 2); },
      [](const MultiheadAttention& m, const T& in) {
        return T{m.forward(in[0], in[0], in[0], {.causal = true})};
      },
      "m(x, x, x, need_weights=False, attn_mask=torch.ones(5, 5).triu(1).bool())[0]");
}

void add_transformers(Suite& suite) {
  const nn::TransformerOptions plain{.dim_feedforward = 12, .dropout = 0};
  nn::TransformerOptions other = plain;
  other.activation = "gelu", other.batch_first = true, other.norm_first = true;
  const std::string first = "dim_feedforward=12, dropout=0.0",
                    second = first + ", activation='gelu', batch_first=True, norm_first=True";
  for (const auto& [options, text] : {std::pair{plain, first}, {other, second}}) {
    add(
        suite, "TransformerEncoderLayer", fmt::format("nn.TransformerEncoderLayer(8, 2, {})", text),
        {4, 2, 8}, [options](Graph& cx) { return nn::TransformerEncoderLayer(cx, 8, 2, options); }, true);
    add(
        suite, "TransformerDecoderLayer", fmt::format("nn.TransformerDecoderLayer(8, 2, {})", text),
        {{{4, 2, 8}}, {{4, 2, 8}}},
        [options](Graph& cx) { return nn::TransformerDecoderLayer(cx, 8, 2, options); },
        [](const nn::TransformerDecoderLayer& m, const T& in) { return T{m.forward(in[0], in[1])}; },
        "m(x, y)");
    add(
        suite, "Transformer",
        fmt::format("nn.Transformer(8, 2, num_encoder_layers=2, num_decoder_layers=1, {})", text),
        {{{4, 2, 8}}, {{4, 2, 8}}},
        [options](Graph& cx) { return nn::Transformer(cx, 8, 2, {2, 1}, options); },
        [](const nn::Transformer& m, const T& in) { return T{m.forward(in[0], in[1])}; }, "m(x, y)");
  }
}

}  // namespace

void add_modules(Suite& suite) {
  add_linear(suite);
  add_convolutions(suite);
  add_norms(suite);
  add_activations(suite);
  add_recurrent<nn::RNN>(suite, "RNN");
  add_recurrent<nn::GRU>(suite, "GRU");
  add_recurrent<nn::LSTM>(suite, "LSTM");
  add_attention(suite);
  add_transformers(suite);
}

}  // namespace luminal::validate
