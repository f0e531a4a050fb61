#pragma once
#include <cstdint>

#include "luminal/nn.h"

namespace luminal::models {

/// A language model of LSTM layers between an embedding and a head, as the word language model of PyTorch's
/// examples, with its names ("encoder.weight", "rnn.weight_ih_l0", "decoder.bias") and initial values.
/// Shapes: integers [T, N] below vocabulary -> logits [T, N, vocabulary]; each run starts from zeros.
/// Source: Zaremba et al. 2014; github.com/pytorch/examples/tree/main/word_language_model.
struct LstmText {
  struct Options {
    int64_t vocabulary = 256, embedding = 512, hidden = 512, layers = 2;
    double dropout = 0;
    bool tied = false;  ///< the head shares the embedding's table
    Dtype dtype = Dtype::F32;
  };
  Options options;
  nn::Embedding encoder;
  nn::LSTM rnn;
  nn::Linear decoder;
  nn::Dropout dropout;

  /// Errors: Error if a size is below 1 or the dropout no probability; ShapeError if tied and the sizes of
  /// embedding and hidden state differ.
  LstmText(nn::GraphSite cx, const Options& options);
  [[nodiscard]] GraphTensor forward(const GraphTensor& tokens) const;
  void serialize(nn::Serializer& s) const;
};

}  // namespace luminal::models
