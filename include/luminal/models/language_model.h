#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "luminal/dtype.h"
#include "luminal/models/decoder.h"
#include "luminal/session.h"
#include "luminal/text/tokenizer.h"

/// Language models from the files that people have.
///
///   models::LanguageModel model("SmolLM2-135M-Instruct");  // a Hugging Face folder, or a GGUF file
///   std::vector<text::TokenId> ids = model.tokenizer().encode("Once upon a time");
///   text::Sampler choose({.temperature = 0});
///   while (ids.size() < 100) ids.push_back(choose.sample(model.logits(ids)));
///
/// Known are Llama 1 to 3, SmolLM2, Mistral, Mixtral, Qwen 2 to 3 with and without experts, Phi 3, Gemma 2 and 3,
/// gpt-oss and GPT-2 (docs/language_models.md).
namespace luminal::models {

/// Thread safety: one thread at a time.
class LanguageModel {
 public:
  struct Options {
    std::string device = {};  ///< empty: the default
    CompilationMode mode = Fast{};
    int64_t context = 0;  ///< tokens of a text at most; 0: as trained, up to 4096
    /// Of keys and values: f32, bf16, f16, or i8: rounded to blocks of 32 numbers of 8 bits with an f32 scale each.
    Dtype cache = Dtype::F32;
    /// What block-quantised weights become: f16, bf16 or f32. Nothing: kernels read the blocks.
    std::optional<Dtype> decoded = {};
    /// Activations are rounded to blocks of 8 bits before products with weights in blocks: several times as fast, and
    /// less exact (luminal perplexity tells). Without effect on other weights.
    bool rounded_activations = false;
    bool scores = false;  ///< for losses() instead of logits()
    /// Texts whose keys and values are kept at once, each in a cache of its own.
    int64_t sequences = 1;
  };

  /// Reads what the files say; weights are read when a run first needs them. Errors: FormatError for files that are
  /// missing or damaged, for an architecture that is not known and for tensors that it does not have.
  explicit LanguageModel(const std::filesystem::path& path, Options options);
  explicit LanguageModel(const std::filesystem::path& path) : LanguageModel(path, Options()) {}
  LanguageModel(LanguageModel&&) noexcept;
  LanguageModel& operator=(LanguageModel&&) noexcept;
  ~LanguageModel();

  /// As files name it: "llama", "LlamaForCausalLM".
  [[nodiscard]] const std::string& architecture() const;
  [[nodiscard]] const DecoderOptions& sizes() const;
  /// Numbers that it has learned, and the bytes that they take in memory.
  [[nodiscard]] int64_t parameter_count() const;
  [[nodiscard]] int64_t weight_bytes() const;
  /// Tokens of a text at most.
  [[nodiscard]] int64_t context() const;
  /// Errors: FormatError if the files have none, or one that is not understood.
  [[nodiscard]] const text::Tokenizer& tokenizer();
  /// Tokens that end an answer.
  [[nodiscard]] const std::vector<text::TokenId>& end_tokens();

  /// Texts whose keys and values are kept, and the bytes that the cache of one takes.
  [[nodiscard]] int64_t sequences() const;
  [[nodiscard]] int64_t cache_bytes() const;

  /// What follows `text`, the whole of it from its first token on: a number for each token of the vocabulary. Keys
  /// and values are kept, so that of a text which begins as the one before in the same sequence, only what differs is
  /// computed; the last token always is. The result stays valid until the next call. Errors: Error for no text, one
  /// longer than context(), tokens out of range and a sequence that there is not; Cancelled, after which what was
  /// computed so far is kept.
  [[nodiscard]] std::span<const float> logits(std::span<const text::TokenId> text, int64_t sequence = 0);
  /// What follows each of the last `count` tokens of `text`, [count, vocabulary], of one step: to see at once whether
  /// tokens that were guessed are right. These are computed even where they are known. The result stays valid until the
  /// next call. Errors: as logits(); Error for a count that is not 1 to kMostLastLogits, or exceeds the text.
  [[nodiscard]] std::span<const float> last_logits(std::span<const text::TokenId> text, int64_t count,
                                                   int64_t sequence = 0);
  static constexpr int64_t kMostLastLogits = 8;
  struct SequenceText {
    int64_t sequence;
    std::span<const text::TokenId> text;
  };
  /// What follows each of 1 to 16 texts of different sequences, [texts, vocabulary], from one step that reads the weights
  /// once for all of them. The sequences hold all but the last token of their texts. The result stays valid until the next
  /// call. Errors: as logits(); Error for a sequence that lacks more, or is named twice.
  [[nodiscard]] std::span<const float> joint_logits(std::span<const SequenceText> texts);
  /// Joint steps are compiled for so many texts at most each: the least that do.
  static constexpr std::array<int64_t, 3> kJointTexts{4, 8, 16};
  static constexpr int64_t kMostJointTexts = kJointTexts.back();
  /// How many tokens at the start of `text` the cache of a sequence holds. Errors: Error for a sequence that there is
  /// not.
  [[nodiscard]] int64_t known_tokens(std::span<const text::TokenId> text, int64_t sequence = 0) const;
  /// Gives a sequence the first `count` tokens that another one holds, in place of its own: two texts that begin alike
  /// compute their beginning once. Errors: Error for sequences that there are not, and more tokens than `from` holds.
  void copy_tokens(int64_t from, int64_t to, int64_t count);
  /// -log of the share that the model gives to each token of `text` behind the first, in natural units. Nothing is
  /// reused from the call before. Errors: as logits(); Error for a model that was not opened with `scores`, and from
  /// logits() for one that was.
  [[nodiscard]] std::vector<float> losses(std::span<const text::TokenId> text);
  /// How many tokens the last call computed, and how often kernels were compiled so far.
  [[nodiscard]] int64_t computed_tokens() const;
  [[nodiscard]] double compile_seconds() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace luminal::models
