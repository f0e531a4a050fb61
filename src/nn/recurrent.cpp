#include "luminal/nn/recurrent.h"

#include <algorithm>
#include <array>

#include "luminal/scan.h"
#include "nn/weights.h"

namespace luminal::nn {
namespace detail {
namespace {

std::string_view name_of(Cell cell) {
  return cell == Cell::Rnn ? "RNN" : cell == Cell::Lstm ? "LSTM" : "GRU";
}
int64_t gates_of(Cell cell) { return cell == Cell::Rnn ? 1 : cell == Cell::Lstm ? 4 : 3; }

void check_options(const GraphSite& cx, std::string_view name, Cell cell, int64_t in, int64_t hidden,
                   const RecurrentOptions& options) {
  const CallSite site(name, cx.where);
  check_size(name, "in", in);
  check_size(name, "hidden", hidden);
  check_size(name, "num_layers", options.num_layers);
  check_probability(name, options.dropout);
  check_float(name, options.dtype);
  if (options.nonlinearity != "tanh" && !(cell == Cell::Rnn && options.nonlinearity == "relu"))
    fail("[{}] unknown nonlinearity '{}'; {}", name, options.nonlinearity,
         cell == Cell::Rnn ? "choose 'tanh' or 'relu'" : "leave it at 'tanh'");
}

/// One step from the input's share of the gates, [N, gates * hidden].
RecurrentState next_state(Cell cell_kind, std::string_view nonlinearity, const RecurrentWeights& w,
                          const GraphTensor& projected, const RecurrentState& before) {
  const int64_t size = *w.hidden.dim(1).constant();
  GraphTensor recurrent = before.hidden.matmul(w.hidden.t());
  if (w.hidden_bias) recurrent = recurrent + *w.hidden_bias;
  const auto gate = [&](const GraphTensor& all, int64_t which) {
    return all.slice_along(-1, which * size, (which + 1) * size);
  };
  switch (cell_kind) {
    case Cell::Rnn: {
      const GraphTensor sum = projected + recurrent;
      return {nonlinearity == "relu" ? sum.relu() : sum.tanh(), {}};
    }
    case Cell::Lstm: {
      const GraphTensor sum = projected + recurrent;
      const GraphTensor cell =
          gate(sum, 1).sigmoid() * before.cell + gate(sum, 0).sigmoid() * gate(sum, 2).tanh();
      return {gate(sum, 3).sigmoid() * cell.tanh(), cell};
    }
    case Cell::Gru: {
      const GraphTensor reset = (gate(projected, 0) + gate(recurrent, 0)).sigmoid();
      const GraphTensor update = (gate(projected, 1) + gate(recurrent, 1)).sigmoid();
      const GraphTensor fresh = (gate(projected, 2) + reset * gate(recurrent, 2)).tanh();
      return {(1 - update) * fresh + update * before.hidden, {}};
    }
  }
  throw InternalError("a recurrent cell that is none of the three");
}

}  // namespace

RecurrentWeights::RecurrentWeights(GraphSite cx, Cell cell, int64_t in, int64_t hidden_size,
                                   std::string name_suffix, const Options& options)
    : suffix(std::move(name_suffix)) {
  const int64_t rows = gates_of(cell) * hidden_size;
  input = fan_in_weight(cx, "weight_ih" + suffix, {rows, in}, hidden_size, options.dtype);
  hidden = fan_in_weight(cx, "weight_hh" + suffix, {rows, hidden_size}, hidden_size, options.dtype);
  if (!options.bias) return;
  input_bias = fan_in_weight(cx, "bias_ih" + suffix, {rows}, hidden_size, options.dtype);
  hidden_bias = fan_in_weight(cx, "bias_hh" + suffix, {rows}, hidden_size, options.dtype);
}

void RecurrentWeights::serialize(Serializer& s) const {
  s.tensor("weight_ih" + suffix, input);
  s.tensor("weight_hh" + suffix, hidden);
  if (input_bias) s.tensor("bias_ih" + suffix, *input_bias);
  if (hidden_bias) s.tensor("bias_hh" + suffix, *hidden_bias);
}

Recurrent::Recurrent(GraphSite cx, Cell cell, int64_t in, int64_t hidden, RecurrentOptions options)
    : cell_(cell), in_(in), hidden_(hidden), options_(std::move(options)) {
  check_options(cx, name_of(cell), cell, in, hidden, options_);
  const int64_t directions = options_.bidirectional ? 2 : 1;
  for (int64_t layer = 0; layer < options_.num_layers; ++layer)
    for (int64_t d = 0; d < directions; ++d)
      weights_.emplace_back(cx, cell, layer == 0 ? in : directions * hidden, hidden,
                            fmt::format("_l{}{}", layer, d == 1 ? "_reverse" : ""),
                            RecurrentWeights::Options{.bias = options_.bias, .dtype = options_.dtype});
}

void Recurrent::serialize(Serializer& s) const {
  for (const RecurrentWeights& w : weights_) w.serialize(s);
  s.mode(mode_);
}

/// All steps of one direction of one layer; x is [T, N, in] and the result [T, N, hidden]. `state` holds the
/// first and then the last.
GraphTensor Recurrent::direction(const RecurrentWeights& w, const GraphTensor& x, State& state,
                                 bool backwards) const {
  GraphTensor projected = x.matmul(w.input.t());  // of all steps at once
  if (w.input_bias) projected = projected + *w.input_bias;
  std::vector<GraphTensor> first{state.hidden};
  if (state.cell.valid()) first.push_back(state.cell);
  const auto [last, outputs] =
      scan(std::move(first), {projected},
           [&](std::span<const GraphTensor> carry, std::span<const GraphTensor> element) -> ScanStep {
             const State before{carry[0], carry.size() > 1 ? carry[1] : GraphTensor()};
             const State next = next_state(cell_, options_.nonlinearity, w, element[0], before);
             ScanStep made{.carry = {next.hidden}, .outputs = {next.hidden}};
             if (next.cell.valid()) made.carry.push_back(next.cell);
             return made;
           },
           {.reverse = backwards});
  state = {last[0], last.size() > 1 ? last[1] : GraphTensor()};
  return outputs[0];
}

/// x as [T, N, in].
GraphTensor Recurrent::arranged(const GraphTensor& x) const {
  if ((x.rank() != 2 && x.rank() != 3) || !known_to_be(x.dim(-1), in_))
    fail<ShapeError>("[{}] x is {} and must be [{}, {}] or [length, {}]", name_of(cell_),
                     x.type().to_string(), options_.batch_first ? "batch, length" : "length, batch", in_,
                     in_);
  const GraphTensor steps = x.rank() == 2 ? x.unsqueeze(1) : options_.batch_first ? x.transpose(0, 1) : x;
  const Expression& length = steps.dim(0);
  if (length.range().max < 1)
    fail<ShapeError>("[{}] x {} has no steps; give a length of at least 1", name_of(cell_),
                     x.type().to_string());
  return steps;
}

GraphTensor Recurrent::first_state(const GraphTensor& given, const GraphTensor& x, std::string_view what,
                                   bool batched) const {
  const auto count = static_cast<int64_t>(weights_.size());
  Graph cx = x.graph();
  const Shape wanted{count, x.dim(1), hidden_};
  if (!given.valid()) return cx.zeros(wanted, x.dtype());
  const GraphTensor state = !batched && given.rank() == 2 ? given.unsqueeze(1) : given;
  if (state.rank() != 3 || !known_to_be(state.dim(0), count) || !known_to_be(state.dim(2), hidden_))
    fail<ShapeError>("[{}] {} is {} and must be {}", name_of(cell_), what, given.type().to_string(),
                     to_string(wanted));
  return state;
}

Recurrent::Result Recurrent::run(const GraphTensor& x, const State& first) const {
  const bool batched = x.rank() != 2;
  GraphTensor steps = arranged(x);
  const GraphTensor hidden = first_state(first.hidden, steps, "h_0", batched);
  const GraphTensor cell =
      cell_ == Cell::Lstm ? first_state(first.cell, steps, "c_0", batched) : GraphTensor();
  const size_t directions = options_.bidirectional ? 2 : 1;
  std::vector<GraphTensor> last_hidden, last_cell;
  for (size_t layer = 0; layer < weights_.size() / directions; ++layer) {
    if (layer > 0 && mode_.training() && options_.dropout > 0) steps = steps.dropout(options_.dropout);
    std::vector<GraphTensor> sides;
    for (size_t d = 0; d < directions; ++d) {
      const auto at = static_cast<int64_t>(layer * directions + d);
      State state{hidden[at], cell_ == Cell::Lstm ? cell[at] : GraphTensor()};
      sides.push_back(direction(weights_[layer * directions + d], steps, state, d == 1));
      last_hidden.push_back(state.hidden);
      if (cell_ == Cell::Lstm) last_cell.push_back(state.cell);
    }
    steps = directions == 1 ? sides[0] : concat(sides, -1);
  }
  const auto laid_out = [&](const GraphTensor& y) { return batched ? y : y.squeeze(1); };
  Result result{.output = !batched               ? steps.squeeze(1)
                          : options_.batch_first ? steps.transpose(0, 1)
                                                 : steps,
                .last = {laid_out(stack(last_hidden)), {}}};
  if (cell_ == Cell::Lstm) result.last.cell = laid_out(stack(last_cell));
  return result;
}

namespace {

std::string_view name_of_cell(Cell cell) {
  return cell == Cell::Rnn ? "RNNCell" : cell == Cell::Lstm ? "LSTMCell" : "GRUCell";
}

/// [N, size], zeros if no tensor is given. Errors: ShapeError unless it is that, or [size] where N is left out.
GraphTensor step_input(const GraphTensor& given, const GraphTensor& x, std::string_view module,
                       std::string_view what, int64_t size) {
  const bool batched = x.rank() == 2;
  if (!given.valid()) {
    Graph cx = x.graph();
    return cx.zeros({batched ? x.dim(0) : Expression(1), size}, x.dtype());
  }
  if (given.rank() != (batched ? 2 : 1) || !known_to_be(given.dim(-1), size))
    fail<ShapeError>("[{}] {} is {} and must be {}[{}]", module, what, given.type().to_string(),
                     batched ? "[batch, size] of " : "", size);
  return batched ? given : given.unsqueeze(0);
}

}  // namespace

RecurrentStep::RecurrentStep(GraphSite cx, Cell cell, int64_t in, int64_t hidden, RecurrentOptions options)
    : cell_(cell),
      in_(in),
      hidden_(hidden),
      nonlinearity_(options.nonlinearity),
      weights_((check_options(cx, name_of_cell(cell), cell, in, hidden, options), cx), cell, in, hidden, "",
               {.bias = options.bias, .dtype = options.dtype}) {}

RecurrentState RecurrentStep::run(const GraphTensor& x, const RecurrentState& before) const {
  const std::string_view name = name_of_cell(cell_);
  GraphTensor projected = step_input(x, x, name, "x", in_).matmul(weights_.input.t());
  if (weights_.input_bias) projected = projected + *weights_.input_bias;
  RecurrentState next = next_state(
      cell_, nonlinearity_, weights_, projected,
      {step_input(before.hidden, x, name, "the hidden state", hidden_),
       cell_ == Cell::Lstm ? step_input(before.cell, x, name, "the cell state", hidden_) : GraphTensor()});
  if (x.rank() == 2) return next;
  return {next.hidden.squeeze(0), next.cell.valid() ? next.cell.squeeze(0) : GraphTensor()};
}

}  // namespace detail

using detail::Cell;

RNN::RNN(GraphSite cx, int64_t in, int64_t hidden, RecurrentOptions options)
    : layers(cx, Cell::Rnn, in, hidden, std::move(options)) {}
RNN::Result RNN::forward(const GraphTensor& x, Where where) const { return forward(x, GraphTensor(), where); }
RNN::Result RNN::forward(const GraphTensor& x, const GraphTensor& h_0, Where where) const {
  const CallSite site("RNN", where);
  auto [output, last] = layers.run(x, {h_0, {}});
  return {output, last.hidden};
}

GRU::GRU(GraphSite cx, int64_t in, int64_t hidden, RecurrentOptions options)
    : layers(cx, Cell::Gru, in, hidden, std::move(options)) {}
GRU::Result GRU::forward(const GraphTensor& x, Where where) const { return forward(x, GraphTensor(), where); }
GRU::Result GRU::forward(const GraphTensor& x, const GraphTensor& h_0, Where where) const {
  const CallSite site("GRU", where);
  auto [output, last] = layers.run(x, {h_0, {}});
  return {output, last.hidden};
}

LSTM::LSTM(GraphSite cx, int64_t in, int64_t hidden, RecurrentOptions options)
    : layers(cx, Cell::Lstm, in, hidden, std::move(options)) {}
LSTM::Result LSTM::forward(const GraphTensor& x, Where where) const { return forward(x, {}, {}, where); }
LSTM::Result LSTM::forward(const GraphTensor& x, const GraphTensor& h_0, const GraphTensor& c_0,
                           Where where) const {
  const CallSite site("LSTM", where);
  auto [output, last] = layers.run(x, {h_0, c_0});
  return {output, last.hidden, last.cell};
}

namespace {

RecurrentOptions options_of_cell(const CellOptions& options) {
  RecurrentOptions all;
  all.nonlinearity = options.nonlinearity, all.bias = options.bias, all.dtype = options.dtype;
  return all;
}

}  // namespace

RNNCell::RNNCell(GraphSite cx, int64_t in, int64_t hidden, const CellOptions& options)
    : step(cx, Cell::Rnn, in, hidden, options_of_cell(options)) {}
GraphTensor RNNCell::forward(const GraphTensor& x, const GraphTensor& hidden, Where where) const {
  const CallSite site("RNNCell", where);
  return step.run(x, {hidden, {}}).hidden;
}

GRUCell::GRUCell(GraphSite cx, int64_t in, int64_t hidden, const CellOptions& options)
    : step(cx, Cell::Gru, in, hidden, options_of_cell(options)) {}
GraphTensor GRUCell::forward(const GraphTensor& x, const GraphTensor& hidden, Where where) const {
  const CallSite site("GRUCell", where);
  return step.run(x, {hidden, {}}).hidden;
}

LSTMCell::LSTMCell(GraphSite cx, int64_t in, int64_t hidden, const CellOptions& options)
    : step(cx, Cell::Lstm, in, hidden, options_of_cell(options)) {}
LSTMCell::Result LSTMCell::forward(const GraphTensor& x, const GraphTensor& h, const GraphTensor& c,
                                   Where where) const {
  const CallSite site("LSTMCell", where);
  auto [hidden, cell] = step.run(x, {h, c});
  return {hidden, cell};
}

}  // namespace luminal::nn
