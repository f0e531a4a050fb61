#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "luminal/models/decoder.h"
#include "luminal/safetensors.h"
#include "luminal/tensor_data.h"
#include "luminal/text/tokenizer.h"
#include "models/families/family.h"

/// Files of language models behind one interface, with GGUF's names for tensors.
namespace luminal::models {

/// Thread safety: any number of threads may read; one at a time asks `find`.
class ModelFile {
 public:
  virtual ~ModelFile() = default;
  [[nodiscard]] virtual const std::string& architecture() const = 0;
  [[nodiscard]] virtual const Family& family() const = 0;
  /// What the file says, for texts of up to `context` tokens (0: what it was trained for, up to a usual length).
  [[nodiscard]] virtual Facts facts(int64_t context) const = 0;
  /// Options for texts of up to `context` tokens (0: what it was trained for, up to a usual length).
  [[nodiscard]] virtual DecoderOptions options(int64_t context) = 0;
  /// A tensor as `read` gives it; nothing if the family does without. Errors: FormatError if the family has it and
  /// the file does not.
  [[nodiscard]] virtual std::optional<TensorInfo> find(const std::string& name) = 0;
  [[nodiscard]] virtual TensorData read(const std::string& name) const = 0;
  /// Tensors that nobody asked for and that hold something.
  [[nodiscard]] virtual std::vector<std::string> unused() const = 0;
  [[nodiscard]] virtual text::TokenizerSpec tokenizer() const = 0;
  /// Tokens that end an answer, beside the tokenizer's own.
  [[nodiscard]] virtual std::vector<text::TokenId> end_tokens() const = 0;
};

/// A GGUF file, or a folder with config.json and safetensors files. `decoded`: what block-quantised tensors become;
/// nothing: they stay. Errors: FormatError.
[[nodiscard]] std::unique_ptr<ModelFile> open_model(const std::filesystem::path& path,
                                                    std::optional<Dtype> decoded);
[[nodiscard]] std::unique_ptr<ModelFile> open_gguf_model(const std::filesystem::path& path,
                                                         std::optional<Dtype> decoded);
[[nodiscard]] std::unique_ptr<ModelFile> open_model_folder(const std::filesystem::path& folder,
                                                           std::optional<Dtype> decoded);

/// The context that a file is opened with where none is asked for.
[[nodiscard]] inline int64_t usual_context(int64_t trained) { return std::min<int64_t>(trained, 4096); }

/// "blk.3.attn_q.weight" as a family's row: which one, of which layer, and "weight" or "bias".
struct FamilyRow {
  const FamilyTensor* row = nullptr;
  std::string layer, part;
};
/// By the name that Decoder asks for, or the one in GGUF files. Nothing if the family has no such tensor.
[[nodiscard]] std::optional<FamilyRow> row_of(const Family& family, std::string_view name);
[[nodiscard]] std::optional<FamilyRow> row_of_gguf(const Family& family, std::string_view name);
/// Its name in GGUF files, and the one that Decoder asks for.
[[nodiscard]] std::string gguf_name(const FamilyRow& row);
[[nodiscard]] std::string role_name(const FamilyRow& row);
/// Whether the family is never without it.
[[nodiscard]] bool is_needed(const FamilyRow& row);
[[nodiscard]] std::string huggingface_name(const FamilyRow& row);

}  // namespace luminal::models
