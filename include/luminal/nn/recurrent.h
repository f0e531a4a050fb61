#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "luminal/nn/module.h"

/// Recurrent layers with PyTorch's names, defaults, gates and weight layouts. Each layer and direction is one
/// loop (luminal/scan.h), whose body is compiled once; batch and length may be named dims. The input's share
/// of the gates is computed for all steps at once, before the loop.
/// Thread safety: as the graph they belong to.
namespace luminal::nn {

struct RecurrentOptions {
  int64_t num_layers = 1;
  std::string nonlinearity = "tanh";  ///< RNN only: or "relu"
  bool bias = true;
  bool batch_first = false;
  double dropout = 0;  ///< after each layer but the last, while training
  bool bidirectional = false;
  Dtype dtype = Dtype::F32;
};

namespace detail {

enum class Cell { Rnn, Lstm, Gru };

/// The stack of layers that the three share. Weights: weight_ih_l0 [gates * hidden, in], weight_hh_l0
/// [gates * hidden, hidden], bias_ih_l0 and bias_hh_l0 [gates * hidden], "_reverse" behind those of the other
/// direction; initial values U(-1/sqrt(hidden), 1/sqrt(hidden)).
class Recurrent {
 public:
  struct State {
    GraphTensor hidden, cell;  ///< [layers * directions, N, hidden]; no tensor: zeros
  };
  struct Result {
    GraphTensor output;  ///< [T, N, directions * hidden], or as x is laid out
    State last;
  };
  Recurrent(GraphSite cx, Cell cell, int64_t in, int64_t hidden, RecurrentOptions options);
  /// Shapes: x [T, N, in], [N, T, in] if batch_first, or [T, in].  Errors: ShapeError.
  [[nodiscard]] Result run(const GraphTensor& x, const State& first) const;
  void serialize(Serializer& s) const;

 private:
  struct Weights {
    std::string suffix;
    GraphTensor input, hidden;
    std::optional<GraphTensor> input_bias, hidden_bias;
  };
  struct Step;
  [[nodiscard]] Step step(const Weights& w, const GraphTensor& projected, const Step& before) const;
  [[nodiscard]] GraphTensor direction(const Weights& w, const GraphTensor& x, Step& state,
                                      bool backwards) const;
  [[nodiscard]] GraphTensor arranged(const GraphTensor& x) const;
  [[nodiscard]] GraphTensor first_state(const GraphTensor& given, const GraphTensor& x, std::string_view what,
                                        bool batched) const;

  Cell cell_;
  int64_t in_, hidden_;
  RecurrentOptions options_;
  std::vector<Weights> weights_;  ///< layer by layer, both directions of one beside each other
  Mode mode_;
};

}  // namespace detail

/// h' = tanh(W_ih x + b_ih + W_hh h + b_hh).  Source: Elman 1990.
struct RNN {
  detail::Recurrent layers;
  struct Result {
    GraphTensor output, h_n;  ///< h_n [layers * directions, N, hidden]
  };
  RNN(GraphSite cx, int64_t in, int64_t hidden, RecurrentOptions options = {});
  [[nodiscard]] Result forward(const GraphTensor& x, Where where = Where::current()) const;
  [[nodiscard]] Result forward(const GraphTensor& x, const GraphTensor& h_0,
                               Where where = Where::current()) const;
  void serialize(Serializer& s) const { layers.serialize(s); }
};

/// Gates r, z, n in this order: n = tanh(W_in x + b_in + r * (W_hn h + b_hn)), h' = (1 - z) n + z h.
/// Source: Cho et al. 2014, with the reset gate behind the product as in cuDNN and PyTorch.
struct GRU {
  detail::Recurrent layers;
  using Result = RNN::Result;
  GRU(GraphSite cx, int64_t in, int64_t hidden, RecurrentOptions options = {});
  [[nodiscard]] Result forward(const GraphTensor& x, Where where = Where::current()) const;
  [[nodiscard]] Result forward(const GraphTensor& x, const GraphTensor& h_0,
                               Where where = Where::current()) const;
  void serialize(Serializer& s) const { layers.serialize(s); }
};

/// Gates i, f, g, o in this order: c' = f c + i g, h' = o tanh(c').  Source: Hochreiter and Schmidhuber 1997.
struct LSTM {
  detail::Recurrent layers;
  struct Result {
    GraphTensor output, h_n, c_n;
  };
  LSTM(GraphSite cx, int64_t in, int64_t hidden, RecurrentOptions options = {});
  [[nodiscard]] Result forward(const GraphTensor& x, Where where = Where::current()) const;
  [[nodiscard]] Result forward(const GraphTensor& x, const GraphTensor& h_0, const GraphTensor& c_0,
                               Where where = Where::current()) const;
  void serialize(Serializer& s) const { layers.serialize(s); }
};

}  // namespace luminal::nn
