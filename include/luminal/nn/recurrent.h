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

/// What goes from step to step; no tensor: zeros, or none of the cell's.
struct RecurrentState {
  GraphTensor hidden, cell;
};

/// Weights of one cell: weight_ih [gates * hidden, in], weight_hh [gates * hidden, hidden], bias_ih and
/// bias_hh [gates * hidden], each with `suffix`; initial values U(-1/sqrt(hidden), 1/sqrt(hidden)).
struct RecurrentWeights {
  std::string suffix;
  GraphTensor input, hidden;
  std::optional<GraphTensor> input_bias, hidden_bias;
  struct Options {
    bool bias = true;
    Dtype dtype = Dtype::F32;
  };
  RecurrentWeights(GraphSite cx, Cell cell, int64_t in, int64_t hidden_size, std::string name_suffix,
                   const Options& options);
  void serialize(Serializer& s) const;
};

/// The stack of layers that the three share. Weights have the suffixes "_l0", "_l1" ..., and "_reverse" behind
/// those of the other direction.
class Recurrent {
 public:
  using State = RecurrentState;  ///< [layers * directions, N, hidden]
  struct Result {
    GraphTensor output;  ///< [T, N, directions * hidden], or as x is laid out
    State last;
  };
  Recurrent(GraphSite cx, Cell cell, int64_t in, int64_t hidden, RecurrentOptions options);
  /// Shapes: x [T, N, in], [N, T, in] if batch_first, or [T, in].  Errors: ShapeError.
  [[nodiscard]] Result run(const GraphTensor& x, const State& first) const;
  void serialize(Serializer& s) const;

 private:
  [[nodiscard]] GraphTensor direction(const RecurrentWeights& w, const GraphTensor& x, State& state,
                                      bool backwards) const;
  [[nodiscard]] GraphTensor arranged(const GraphTensor& x) const;
  [[nodiscard]] GraphTensor first_state(const GraphTensor& given, const GraphTensor& x, std::string_view what,
                                        bool batched) const;

  Cell cell_;
  int64_t in_, hidden_;
  RecurrentOptions options_;
  std::vector<RecurrentWeights> weights_;  ///< layer by layer, both directions of one beside each other
  Mode mode_;
};

/// One step, as torch.nn's cells.
class RecurrentStep {
 public:
  RecurrentStep(GraphSite cx, Cell cell, int64_t in, int64_t hidden, RecurrentOptions options);
  /// Shapes: x [N, in], states [N, hidden]; all without N as well.  Errors: ShapeError.
  [[nodiscard]] RecurrentState run(const GraphTensor& x, const RecurrentState& before) const;
  void serialize(Serializer& s) const { weights_.serialize(s); }

 private:
  Cell cell_;
  int64_t in_, hidden_;
  std::string nonlinearity_;
  RecurrentWeights weights_;
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

struct CellOptions {
  bool bias = true;
  std::string nonlinearity = "tanh";  ///< RNNCell only: or "relu"
  Dtype dtype = Dtype::F32;
};

/// One step of an RNN, a GRU or an LSTM, for loops of one's own: x [N, in] and states [N, hidden] (zeros if
/// absent) give the next state. Weights: weight_ih, weight_hh, bias_ih, bias_hh.
struct RNNCell {
  detail::RecurrentStep step;
  RNNCell(GraphSite cx, int64_t in, int64_t hidden, const CellOptions& options = {});
  [[nodiscard]] GraphTensor forward(const GraphTensor& x, const GraphTensor& hidden = {},
                                    Where where = Where::current()) const;
  void serialize(Serializer& s) const { step.serialize(s); }
};

struct GRUCell {
  detail::RecurrentStep step;
  GRUCell(GraphSite cx, int64_t in, int64_t hidden, const CellOptions& options = {});
  [[nodiscard]] GraphTensor forward(const GraphTensor& x, const GraphTensor& hidden = {},
                                    Where where = Where::current()) const;
  void serialize(Serializer& s) const { step.serialize(s); }
};

struct LSTMCell {
  detail::RecurrentStep step;
  struct Result {
    GraphTensor h, c;
  };
  LSTMCell(GraphSite cx, int64_t in, int64_t hidden, const CellOptions& options = {});
  [[nodiscard]] Result forward(const GraphTensor& x, const GraphTensor& h = {}, const GraphTensor& c = {},
                               Where where = Where::current()) const;
  void serialize(Serializer& s) const { step.serialize(s); }
};

}  // namespace luminal::nn
