#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "luminal/graph.h"
#include "luminal/models/decoder.h"
#include "luminal/session.h"
#include "models/shared_weights.h"
#include "models/text_cache.h"

namespace luminal::models {

/// Runs a token of each of several texts at once (Decoder::JointStep), in a graph of its own. Texts come and go between
/// runs.
class JointStep {
 public:
  struct Parts {
    const DecoderOptions& sizes;
    const std::string& device;  ///< empty: the default
    CompilationMode mode;
    int64_t texts;     ///< at most, in a run
    Dtype cache;       ///< of keys and values
    int64_t capacity;  ///< rows of a cache
    const WeightsByName& weights;
  };
  explicit JointStep(const Parts& parts);

  /// Token i follows what text i has seen. Appends its rows to the text's cache; logits [texts, vocabulary], valid until
  /// the next run.
  [[nodiscard]] std::span<const float> run(std::span<const text::TokenId> tokens,
                                           std::span<TextCache* const> texts);
  [[nodiscard]] int64_t texts() const { return texts_; }
  [[nodiscard]] double compile_seconds() const { return compile_s_; }

 private:
  int64_t texts_, vocabulary_;
  CompilationMode mode_;
  Graph cx_;
  GraphTensor tokens_, past_, logits_;
  std::vector<CacheInputs> caches_;  ///< by place
  FreshRows fresh_;
  std::optional<Compiled> compiled_;
  std::vector<float> numbers_;
  double compile_s_ = 0;
};

}  // namespace luminal::models
