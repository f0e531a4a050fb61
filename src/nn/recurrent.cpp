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

void check_options(const GraphSite& cx, Cell cell, int64_t in, int64_t hidden,
                   const RecurrentOptions& options) {
  const std::string_view name = name_of(cell);
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

}  // namespace

/// What one direction of one layer hands from step to step.
struct Recurrent::Step {
  GraphTensor hidden, cell;
};

Recurrent::Recurrent(GraphSite cx, Cell cell, int64_t in, int64_t hidden, RecurrentOptions options)
    : cell_(cell), in_(in), hidden_(hidden), options_(std::move(options)) {
  check_options(cx, cell, in, hidden, options_);
  const int64_t rows = gates_of(cell) * hidden, directions = options_.bidirectional ? 2 : 1;
  for (int64_t layer = 0; layer < options_.num_layers; ++layer)
    for (int64_t d = 0; d < directions; ++d) {
      Weights w{.suffix = fmt::format("_l{}{}", layer, d == 1 ? "_reverse" : "")};
      const int64_t width = layer == 0 ? in : directions * hidden;
      w.input = fan_in_weight(cx, "weight_ih" + w.suffix, {rows, width}, hidden, options_.dtype);
      w.hidden = fan_in_weight(cx, "weight_hh" + w.suffix, {rows, hidden}, hidden, options_.dtype);
      if (options_.bias) {
        w.input_bias = fan_in_weight(cx, "bias_ih" + w.suffix, {rows}, hidden, options_.dtype);
        w.hidden_bias = fan_in_weight(cx, "bias_hh" + w.suffix, {rows}, hidden, options_.dtype);
      }
      weights_.push_back(std::move(w));
    }
}

void Recurrent::serialize(Serializer& s) const {
  for (const Weights& w : weights_) {
    s.tensor("weight_ih" + w.suffix, w.input);
    s.tensor("weight_hh" + w.suffix, w.hidden);
    if (w.input_bias) s.tensor("bias_ih" + w.suffix, *w.input_bias);
    if (w.hidden_bias) s.tensor("bias_hh" + w.suffix, *w.hidden_bias);
  }
  s.mode(mode_);
}

/// One step from the input's share of the gates, [N, gates * hidden].
Recurrent::Step Recurrent::step(const Weights& w, const GraphTensor& projected, const Step& before) const {
  GraphTensor recurrent = before.hidden.matmul(w.hidden.t());
  if (w.hidden_bias) recurrent = recurrent + *w.hidden_bias;
  const auto gate = [&](const GraphTensor& all, int64_t which) {
    return all.slice_along(-1, which * hidden_, (which + 1) * hidden_);
  };
  switch (cell_) {
    case Cell::Rnn: {
      const GraphTensor sum = projected + recurrent;
      return {options_.nonlinearity == "relu" ? sum.relu() : sum.tanh(), {}};
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

/// All steps of one direction of one layer; x is [T, N, in] and the result [T, N, hidden]. `state` holds the
/// first and then the last.
GraphTensor Recurrent::direction(const Weights& w, const GraphTensor& x, Step& state, bool backwards) const {
  GraphTensor projected = x.matmul(w.input.t());  // of all steps at once
  if (w.input_bias) projected = projected + *w.input_bias;
  std::vector<GraphTensor> first{state.hidden};
  if (state.cell.valid()) first.push_back(state.cell);
  const auto [last, outputs] =
      scan(std::move(first), {projected},
           [&](std::span<const GraphTensor> carry, std::span<const GraphTensor> element) -> ScanStep {
             const Step next = step(w, element[0], {carry[0], carry.size() > 1 ? carry[1] : GraphTensor()});
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
      Step state{hidden[at], cell_ == Cell::Lstm ? cell[at] : GraphTensor()};
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

}  // namespace luminal::nn
