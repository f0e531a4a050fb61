#pragma once
#include <vector>

#include "luminal/models/decoder.h"

namespace luminal::models {

/// BERT's encoder: each token sees all tokens of its text, and norms stand behind the sums (Devlin et al. 2019).
/// Thread safety: as the graph.
class Encoder {
 public:
  /// Errors: ShapeError for sizes that contradict each other; Error for weights that `weights` does not have.
  Encoder(DecoderOptions options, const DecoderWeights& weights);

  /// Integers [texts, T] of which each text has `lengths` [texts], at least one; padding is behind them.
  /// Returns: f32[texts, size], pooled as the options say.
  [[nodiscard]] GraphTensor forward(const GraphTensor& tokens, const GraphTensor& lengths) const;

 private:
  struct Affine {
    GraphTensor weight, bias;
  };
  struct Layer {
    Affine query, key, value, output, attention_norm, up, down, norm;
  };
  [[nodiscard]] GraphTensor embedded(const GraphTensor& tokens) const;
  /// `seen`: bool [texts, 1, 1, T].
  [[nodiscard]] GraphTensor attended(const Layer& layer, const GraphTensor& x, const GraphTensor& seen) const;
  [[nodiscard]] GraphTensor normed(const GraphTensor& x, const Affine& norm) const;

  DecoderOptions options_;
  GraphTensor embedding_, positions_, types_;
  Affine embedding_norm_;
  std::vector<Layer> layers_;
};

}  // namespace luminal::models
