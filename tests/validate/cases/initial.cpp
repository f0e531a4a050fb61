#include <fmt/format.h>
#include <fmt/ranges.h>

#include "luminal/nn.h"
#include "validate/cases/case.h"

// Initial weights: those of the filling functions and of the modules are distributed as PyTorch's. The
// expressions give how far two samples are from having one distribution, in units of what chance allows.
namespace luminal::validate {
namespace {

namespace init = nn::init;

void add(Suite& suite, std::string group, std::string torch, std::function<Results(Graph&)> draw) {
  ProcedureSpec spec;
  spec.group = std::move(group);
  spec.label = torch;
  spec.torch = "procedures." + torch;
  spec.tolerance = 1;
  spec.torch_gives_error = true;
  spec.run = [draw = std::move(draw)](const Place& place) {
    Graph cx;
    cx.set_device(place.device);
    return draw(cx);
  };
  suite.procedures.push_back(std::move(spec));
}

void add_filling(Suite& suite) {
  using Fill = std::function<TensorData(Graph&, std::vector<int64_t>)>;
  const std::pair<const char*, Fill> all[] = {
      {"uniform_(w, -1, 3)", [](Graph& cx, auto dims) { return init::uniform(cx, dims, -1, 3); }},
      {"normal_(w, 0.5, 2)", [](Graph& cx, auto dims) { return init::normal(cx, dims, 0.5, 2); }},
      {"trunc_normal_(w)", [](Graph& cx, auto dims) { return init::truncated_normal(cx, dims); }},
      {"trunc_normal_(w, 0.5, 2, -1, 1.5)",
       [](Graph& cx, auto dims) { return init::truncated_normal(cx, dims, 0.5, 2, -1, 1.5); }},
      {"kaiming_uniform_(w)", [](Graph& cx, auto dims) { return init::kaiming_uniform(cx, dims); }},
      {"kaiming_uniform_(w, 0.5, 'fan_out')",
       [](Graph& cx, auto dims) { return init::kaiming_uniform(cx, dims, 0.5, init::Fan::Out); }},
      {"kaiming_normal_(w, 0.2)", [](Graph& cx, auto dims) { return init::kaiming_normal(cx, dims, 0.2); }},
      {"xavier_uniform_(w, 0.7)", [](Graph& cx, auto dims) { return init::xavier_uniform(cx, dims, 0.7); }},
      {"xavier_normal_(w)", [](Graph& cx, auto dims) { return init::xavier_normal(cx, dims); }},
      {"orthogonal_(w, 2)", [](Graph& cx, auto dims) { return init::orthogonal(cx, dims, 2); }},
  };
  for (const auto& [torch, fill] : all) {
    const std::string name = std::string(torch).substr(0, std::string(torch).find('('));
    add(suite, "initial " + name, fmt::format("filled(t, lambda w: torch.nn.init.{})", torch),
        [fill](Graph& cx) {
          const std::vector<int64_t> dims{96, 32, 3};
          return Results{{"out/first", fill(cx, dims)}, {"out/second", fill(cx, dims)}};
        });
  }
}

/// What is the same each time, to the last bit: constants, unit matrices, fans, gains.
void add_values(Suite& suite) {
  const auto add_value = [&](const char* group, std::string torch, std::function<TensorData()> make) {
    ProcedureSpec spec;
    spec.group = std::string("initial ") + group;
    spec.label = torch;
    spec.torch = fmt::format("{{'value': {}}}", torch);
    spec.tolerance = 1e-15;
    spec.run = [make = std::move(make)](const Place&) { return Results{{"out/value", make()}}; };
    suite.procedures.push_back(std::move(spec));
  };
  add_value("constant_", "torch.nn.init.constant_(torch.empty(2, 3), -1.5)",
            [] { return init::constant({2, 3}, -1.5); });
  add_value("constant_", "torch.nn.init.zeros_(torch.empty(4))", [] { return init::constant({4}, 0); });
  for (const int64_t rows : {2, 3, 5})
    add_value("eye_", fmt::format("torch.nn.init.eye_(torch.empty({}, 3))", rows),
              [rows] { return init::eye({rows, 3}); });
  const auto number = [](double value) {
    TensorData data(Dtype::F64, {});
    data.as<double>()[0] = value;
    return data;
  };
  for (const char* name : {"linear", "conv1d", "conv2d", "conv3d", "sigmoid", "tanh", "relu", "selu"})
    add_value("calculate_gain",
              fmt::format("torch.tensor(torch.nn.init.calculate_gain('{}'), dtype=torch.double)", name),
              [=] { return number(init::gain(name)); });
  for (const char* slope : {"0.01", "0.3"})
    add_value("calculate_gain",
              fmt::format("torch.tensor(torch.nn.init.calculate_gain('leaky_relu', {}), dtype=torch.double)",
                          slope),
              [=] { return number(init::gain("leaky_relu", std::stod(slope))); });
  for (const std::vector<int64_t>& dims : {std::vector<int64_t>{5, 7}, {4, 3, 2}, {6, 4, 3, 3}})
    add_value("fans",
              fmt::format("torch.tensor(torch.nn.init._calculate_fan_in_and_fan_out(torch.empty({})))",
                          fmt::join(dims, ", ")),
              [=] {
                const init::Fans fans = init::fans(dims);
                TensorData data(Dtype::I64, {2});
                data.as<int64_t>()[0] = fans.in, data.as<int64_t>()[1] = fans.out;
                return data;
              });
}

template <class Make>
void add_module(Suite& suite, const char* torch, Make make) {
  add(suite, "initial weights of modules", fmt::format("initial_weights(t, lambda: nn.{})", torch),
      [make](Graph& cx) {
        Results results;
        for (auto& [name, data] : nn::state_dict(make(cx))) results.emplace("out/" + name, std::move(data));
        return results;
      });
}

void add_module_weights(Suite& suite) {
  add_module(suite, "Linear(64, 256)", [](Graph& cx) { return nn::Linear(cx, 64, 256); });
  add_module(suite, "Embedding(256, 64)", [](Graph& cx) { return nn::Embedding(cx, 256, 64); });
  add_module(suite, "Conv1d(16, 128, 5, groups=4)",
             [](Graph& cx) { return nn::Conv1d(cx, 16, 128, {5}, {.groups = 4}); });
  add_module(suite, "Conv2d(16, 128, 3)", [](Graph& cx) { return nn::Conv2d(cx, 16, 128, {3, 3}); });
  add_module(suite, "Conv3d(8, 64, 3)", [](Graph& cx) { return nn::Conv3d(cx, 8, 64, {3, 3, 3}); });
  add_module(suite, "ConvTranspose2d(16, 128, 3, groups=2)",
             [](Graph& cx) { return nn::ConvTranspose2d(cx, 16, 128, {3, 3}, {.groups = 2}); });
  add_module(suite, "RNN(32, 64, num_layers=2)",
             [](Graph& cx) { return nn::RNN(cx, 32, 64, {.num_layers = 2}); });
  add_module(suite, "GRU(32, 64)", [](Graph& cx) { return nn::GRU(cx, 32, 64); });
  add_module(suite, "LSTM(32, 64, bidirectional=True)",
             [](Graph& cx) { return nn::LSTM(cx, 32, 64, {.bidirectional = true}); });
  add_module(suite, "MultiheadAttention(64, 4)", [](Graph& cx) { return nn::MultiheadAttention(cx, 64, 4); });
  add_module(suite, "MultiheadAttention(64, 4, kdim=32, vdim=48)",
             [](Graph& cx) { return nn::MultiheadAttention(cx, 64, 4, {.kdim = 32, .vdim = 48}); });
  add_module(suite, "LayerNorm(64)", [](Graph& cx) { return nn::LayerNorm(cx, 64); });
  add_module(suite, "RMSNorm(64)", [](Graph& cx) { return nn::RMSNorm(cx, 64); });
  add_module(suite, "GroupNorm(4, 64)", [](Graph& cx) { return nn::GroupNorm(cx, 4, 64); });
  add_module(suite, "BatchNorm2d(64)", [](Graph& cx) { return nn::BatchNorm2d(cx, 64); });
  add_module(suite, "PReLU(8)", [](Graph& cx) { return nn::PReLU(cx, 8); });
  add_module(suite, "TransformerEncoderLayer(64, 4, 128)",
             [](Graph& cx) { return nn::TransformerEncoderLayer(cx, 64, 4, {.dim_feedforward = 128}); });
  add_module(suite, "Transformer(64, 4, 1, 1, 128)",
             [](Graph& cx) { return nn::Transformer(cx, 64, 4, {1, 1}, {.dim_feedforward = 128}); });
}

}  // namespace

void add_initial(Suite& suite) {
  add_filling(suite);
  add_values(suite);
  add_module_weights(suite);
}

}  // namespace luminal::validate
