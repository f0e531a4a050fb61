#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "luminal/models/decoder.h"
#include "luminal/tensor_data.h"
#include "models/families/facts.h"

/// Families of models: what their files call things, and which options of Decoder they are.
namespace luminal::models {

/// A fact that is an option.
struct FamilyField {
  FactKey key;
  std::variant<int64_t DecoderOptions::*, double DecoderOptions::*> option;
  bool required = true;
};

/// A tensor's names, with "{}" for the layer and, in Hugging Face's, "{expert}" where each expert's is a tensor.
struct FamilyTensor {
  enum class Presence { Always, Maybe };
  enum class Bias { None, Always, Maybe };
  std::string_view gguf, huggingface;  ///< without ".weight" and ".bias"
  Presence presence = Presence::Always;
  Bias bias = Bias::None;
  bool transposed = false;  ///< Hugging Face's weight is [in, out]
  /// The name by which Decoder asks for it, where files for GGML have another one.
  std::string_view role = {};
  /// All experts of a kind in one tensor of Hugging Face's, "name" and "name_bias": no ".weight" behind it. Halves
  /// take every second row, from the first or from the second on.
  enum class Bare { No, Whole, FirstHalf, SecondHalf };
  Bare bare = Bare::No;
};

/// Whether a file has a tensor, by GGUF's name without ".weight" and ".bias"; and whether that has a bias.
struct TensorPresence {
  std::function<bool(std::string_view name)> weight, bias;
};

/// Reads a small tensor of the file as f32, by its name there; empty if there is none.
using SmallTensor = std::function<std::vector<double>(std::string_view name)>;

struct Family {
  std::string_view gguf;                      ///< "general.architecture"
  std::vector<std::string_view> huggingface;  ///< "architectures" of config.json
  std::vector<FamilyField> fields;
  std::vector<FamilyTensor> tensors;
  /// The options that follow from several facts.
  void (*complete)(DecoderOptions& options, const Facts& facts, const SmallTensor& tensor);
  /// Adds to a config.json what `fields` do not say: "model_type", "architectures" where a family has several, and
  /// the options that are the family's own.
  void (*configure)(const DecoderOptions& options, const TensorPresence& has, nlohmann::json& config);
  /// Tensors of Hugging Face's files that hold nothing of their own, by the end of their names.
  std::vector<std::string_view> ignored = {};
  /// Adds to GGUF metadata what `fields` do not say.
  void (*describe)(const DecoderOptions& options, GgufMetadata& metadata) = nullptr;
  bool encodes = false;  ///< for Encoder, not for Decoder
};

/// All families. A new one is a file with its record and a line in registry.cpp.
[[nodiscard]] std::span<const Family* const> families();
/// Errors: FormatError with the known ones, the nearest first.
[[nodiscard]] const Family& family_of_gguf(std::string_view architecture);
[[nodiscard]] const Family& family_of_huggingface(std::string_view architecture);

/// Options that a file states, without those of the vocabulary (its table says it). Errors: FormatError for facts
/// that are missing or of another kind.
[[nodiscard]] DecoderOptions read_options(const Family& family, const Facts& facts,
                                          const SmallTensor& tensor);

// --- What families share
/// Sizes and the norm's epsilon under the names that nearly all families have.
[[nodiscard]] std::vector<FamilyField> common_fields();
/// Names of Llama's tensors; `more` are added, and replace those of the same name.
[[nodiscard]] std::vector<FamilyTensor> llama_tensors(std::vector<FamilyTensor> more = {});
/// The option that differs between two models, with its values; empty if none does. How files keep norms and pairs
/// of rotary positions may differ.
[[nodiscard]] std::string difference_of(const DecoderOptions& a, const DecoderOptions& b);
/// Rotary positions as the file scales them. `kind`: of the layers they are for, where files tell them apart.
/// `truncates`: whether YaRN rounds the bounds between which it stretches, where files do not say it.
[[nodiscard]] Rotary rotary_of(const DecoderOptions& options, const Facts& facts, const SmallTensor& tensor,
                               std::string_view kind = "", bool truncates = true);
/// What a GGUF file says of the rotary positions of a config.json: keys behind "<architecture>.", and tensors.
struct RotaryMetadata {
  GgufMetadata keys = {};
  std::vector<std::pair<std::string, std::vector<float>>> tensors = {};
};
[[nodiscard]] RotaryMetadata rotary_metadata(const DecoderOptions& options, const Facts& config);
/// What a config.json says of the rotary positions of a GGUF file. Errors: FormatError for factors that no kind of
/// scaling gives.
void configure_rotary(const DecoderOptions& options, const Facts& file, const SmallTensor& tensor,
                      nlohmann::json& config);
/// Positions without any scaling.
[[nodiscard]] Rotary plain_rotary(int64_t size, double base);
/// The local layers by "layer_types", or by `otherwise` where a file does not say it.
[[nodiscard]] std::vector<bool> local_layers(const DecoderOptions& options, const Facts& facts,
                                             const std::function<bool(int64_t layer)>& otherwise);

}  // namespace luminal::models
