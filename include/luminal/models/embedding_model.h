#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "luminal/dtype.h"
#include "luminal/session.h"
#include "luminal/text/tokenizer.h"

/// Texts as vectors: what means the like lies close together.
///
///   models::EmbeddingModel model("all-MiniLM-L6-v2");  // a Hugging Face folder, or a GGUF file
///   const auto found = model.embed(std::vector<std::string>{"a cat sleeps", "the kitten is napping"});
///   float likeness = 0;  // of vectors of length 1: the cosine of the angle between them
///   for (size_t i = 0; i < found[0].values.size(); ++i) likeness += found[0].values[i] * found[1].values[i];
///
/// Known are BERT and what has its shape, such as MiniLM (docs/language_models.md).
namespace luminal::models {

struct Embedding {
  std::vector<float> values = {};
  int64_t tokens = 0;  ///< of the text, with those that the tokenizer puts around it
};

/// Thread safety: one thread at a time.
class EmbeddingModel {
 public:
  struct Options {
    std::string device = {};  ///< empty: the default
    CompilationMode mode = Fast{};
    /// What block-quantised weights become: f16, bf16 or f32. Nothing: kernels read the blocks.
    std::optional<Dtype> decoded = {};
    bool normalize = true;  ///< vectors have the length 1
    bool truncate = false;  ///< what is longer than context() is cut, where it would be an error
  };

  /// Reads what the files say, and how a folder of sentence-transformers pools; weights are read when a run first
  /// needs them. Errors: FormatError for files that are missing or damaged, for models that make texts, and for
  /// modules of sentence-transformers that are not known.
  explicit EmbeddingModel(const std::filesystem::path& path, Options options);
  explicit EmbeddingModel(const std::filesystem::path& path) : EmbeddingModel(path, Options()) {}
  EmbeddingModel(EmbeddingModel&&) noexcept;
  EmbeddingModel& operator=(EmbeddingModel&&) noexcept;
  ~EmbeddingModel();

  /// As files name it: "bert", "BertModel".
  [[nodiscard]] const std::string& architecture() const;
  /// Of a vector.
  [[nodiscard]] int64_t size() const;
  /// Tokens of a text at most.
  [[nodiscard]] int64_t context() const;
  [[nodiscard]] int64_t parameter_count() const;
  [[nodiscard]] int64_t weight_bytes() const;
  [[nodiscard]] const text::Tokenizer& tokenizer() const;

  /// A vector of each text, in their order. Several are computed at once, those of like length together.
  /// Errors: FormatError for a text that is not UTF-8; Error for one without tokens, and for one longer than context()
  /// without `truncate`; Cancelled.
  [[nodiscard]] std::vector<Embedding> embed(std::span<const std::string> texts);
  /// How long kernels were compiled so far.
  [[nodiscard]] double compile_seconds() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace luminal::models
