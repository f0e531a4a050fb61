#include "luminal/models/lstm.h"

#include "base/fail.h"
#include "models/initial.h"

namespace luminal::models {
namespace {

const LstmText::Options& checked_lstm(const LstmText::Options& options) {
  if (options.tied && options.embedding != options.hidden)
    fail<ShapeError>("[model] a table of rows of {} cannot be the head of a state of {}; choose one size",
                     options.embedding, options.hidden);
  return options;
}

nn::Linear lstm_head(nn::GraphSite cx, const LstmText::Options& options) {
  nn::Linear head(cx, options.hidden, options.vocabulary, {.dtype = options.dtype});
  start_constant(*head.bias, 0);
  return head;
}

}  // namespace

LstmText::LstmText(nn::GraphSite cx, const Options& sizes)
    : options(checked_lstm(sizes)),
      encoder(cx, sizes.vocabulary, sizes.embedding, {.dtype = sizes.dtype}),
      rnn(cx, sizes.embedding, sizes.hidden,
          {.num_layers = sizes.layers, .dropout = sizes.dropout, .dtype = sizes.dtype}),
      decoder(lstm_head(cx, sizes)),
      dropout(sizes.dropout) {
  constexpr double kBound = 0.1;
  const auto start_uniform = [&](const GraphTensor& weight) {
    start(cx, weight, [](nn::init::Stream stream, const std::vector<int64_t>& dims) {
      return nn::init::uniform(stream, dims, -kBound, kBound);
    });
  };
  start_uniform(encoder.weight);
  if (sizes.tied)
    decoder.weight = encoder.weight;
  else
    start_uniform(decoder.weight);
}

GraphTensor LstmText::forward(const GraphTensor& tokens) const {
  if (tokens.rank() != 2)
    fail<ShapeError>("[model] tokens are {} and must be [length, batch]", tokens.type().to_string());
  const GraphTensor x = dropout.forward(encoder.forward(tokens));
  return decoder.forward(dropout.forward(rnn.forward(x).output));
}

void LstmText::serialize(nn::Serializer& s) const {
  dropout.serialize(s);
  s.module("encoder", encoder);
  s.module("rnn", rnn);
  s.module("decoder", decoder);
}

}  // namespace luminal::models
