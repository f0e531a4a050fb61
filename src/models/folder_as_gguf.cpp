// What llama.cpp's convert_hf_to_gguf.py makes of a folder: its keys, names, orders and types.
#include <algorithm>

#include "base/fail.h"
#include "luminal/models/gguf_tokenizer.h"
#include "models/gguf_source.h"
#include "models/model_file.h"
#include "models/quantize_mix.h"
#include "models/weight_layout.h"

namespace luminal::models {
namespace {

constexpr uint32_t file_type_of(Dtype dtype) {
  return dtype == Dtype::F16 ? 1 : dtype == Dtype::BF16 ? 32 : 0;
}

/// The options that a folder states, as metadata.
GgufMetadata options_metadata(const Family& family, const DecoderOptions& options, const Facts& config) {
  GgufMetadata metadata;
  const auto say = [&](std::string_view key, GgufValue value) {
    set_metadata(metadata, fmt::format("{}.{}", family.gguf, key), std::move(value));
  };
  for (const FamilyField& field : family.fields) {
    if (field.key.gguf.empty()) continue;
    std::visit(
        [&]<class T>(T DecoderOptions::* option) {
          if (options.*option == T() && !field.required) return;
          if constexpr (std::is_same_v<T, double>)
            say(field.key.gguf, GgufValue(static_cast<float>(options.*option)));
          else
            say(field.key.gguf, GgufValue(static_cast<uint32_t>(options.*option)));
        },
        field.option);
    if (field.key.gguf == "attention.key_length")
      say("attention.value_length", GgufValue(static_cast<uint32_t>(options.head_size)));
  }
  say("vocab_size", GgufValue(static_cast<uint32_t>(options.vocabulary)));
  for (auto& [key, value] : rotary_metadata(options, config).keys) say(key, std::move(value));
  if (family.describe) family.describe(options, metadata);
  return metadata;
}

/// A folder's tensors in GGUF's order of rows, with norms as GGUF files keep them.
class FolderSource final : public GgufSource {
 public:
  explicit FolderSource(const std::filesystem::path& path)
      : folder_(open_model_folder(path, std::nullopt)), options_(folder_->options(0)) {
    const Facts config = folder_->facts(0);
    for (auto& [name, values] : rotary_metadata(options_, config).tensors) {
      TensorData data = TensorData::of<float>({std::ssize(values)}, values);
      add(name, {Dtype::F32, data.dims}, false);
      made_.emplace_back(std::move(data));
    }
    add_metadata(path, config);
    check_options(config);
    add_weights();
  }

  [[nodiscard]] const GgufMetadata& metadata() const override { return metadata_; }
  [[nodiscard]] const std::vector<GgufTensorInfo>& tensors() const override { return tensors_; }
  [[nodiscard]] std::vector<std::byte> read(size_t index) const override {
    const TensorData data = index < made_.size() ? made_[index] : weight(tensors_[index]);
    return {data.bytes.begin(), data.bytes.end()};
  }

 private:
  void add(const std::string& name, const TensorInfo& info, bool narrow) {
    const Dtype dtype = narrow ? info.dtype : Dtype::F32;
    tensors_.push_back({name, &gguf_type(luminal::name(dtype)), info.dims});
  }

  void add_metadata(const std::filesystem::path& path, const Facts& config) {
    const Family& family = folder_->family();
    const auto table = folder_->find("token_embd.weight");
    std::filesystem::path name = path.filename();
    if (name.empty()) name = path.parent_path().filename();
    metadata_ = {{"general.architecture", GgufValue(std::string(family.gguf))},
                 {"general.type", GgufValue(std::string("model"))},
                 {"general.name", GgufValue(name.string())},
                 {"general.file_type", GgufValue(file_type_of(table->dtype))},
                 {"general.quantization_version", GgufValue(uint32_t{2})}};
    for (auto& entry : options_metadata(family, options_, config)) metadata_.push_back(std::move(entry));
    if (!std::filesystem::exists(path / "tokenizer.json")) return;
    for (auto& entry : gguf_tokenizer_metadata(folder_->tokenizer(), folder_->end_tokens(), family.gguf))
      metadata_.push_back(std::move(entry));
  }

  /// What the metadata says, read back, is what the folder says; what differs is the order of rows and the offset of
  /// norms. Errors: FormatError for what GGUF metadata cannot say.
  void check_options(const Facts& config) {
    const Facts written(metadata_, std::string(folder_->family().gguf), config.context());
    const DecoderOptions back =
        read_options(folder_->family(), written, [this](std::string_view name) -> std::vector<double> {
          const auto found = std::ranges::find(tensors_, name, &GgufTensorInfo::name);
          if (found == tensors_.end()) return {};
          const auto values = made_[static_cast<size_t>(found - tensors_.begin())].as<float>();
          return {values.begin(), values.end()};
        });
    if (const std::string difference = difference_of(options_, back); !difference.empty())
      fail<FormatError>("[convert] GGUF metadata of {} models cannot say what config.json says ({})",
                        folder_->family().gguf, difference);
    pairs_rows_ = back.rotary.interleaved && !options_.rotary.interleaved;
    if (pairs_rows_ && 2 * std::ssize(options_.rotary.frequencies) != options_.head_size)
      fail<FormatError>(
          "[convert] rotary positions turn a part of each head, for which {} files have no order",
          folder_->family().gguf);
    norm_offset_ = options_.norm_offset - back.norm_offset;
  }

  void add_weights() {
    std::vector<std::string> names;
    for (const FamilyTensor& row : folder_->family().tensors) {
      if (row.gguf.find("{}") == std::string_view::npos)
        names.emplace_back(row.gguf);
      else
        for (int64_t layer = 0; layer < options_.layers; ++layer)
          names.push_back(std::string(row.gguf).replace(row.gguf.find("{}"), 2, std::to_string(layer)));
    }
    for (const std::string& stem : names)
      for (const char* part : {".weight", ".bias"}) add_weight(stem + part);
    if (const auto left = folder_->unused(); !left.empty())
      fail<FormatError>("[convert] {} models have no tensor '{}'; it is of another kind",
                        folder_->architecture(), left.front());
  }

  void add_weight(const std::string& name) {
    const auto row = row_of_gguf(folder_->family(), name);
    if (!row || (options_.tied && name == "output.weight") || is_of_other_kind(*row)) return;
    if (const auto info = folder_->find(role_name(*row)))
      add(name, *info, may_be_quantized(name, info->dims.size()));
  }

  /// Families list the tensors of models with experts beside those of models without.
  [[nodiscard]] bool is_of_other_kind(const FamilyRow& row) const {
    const std::string_view name = row.row->gguf;
    const bool of_experts = name.ends_with("_exps") || name.ends_with("ffn_gate_inp");
    const bool of_one = name.ends_with("ffn_gate") || name.ends_with("ffn_up") || name.ends_with("ffn_down");
    return options_.experts > 0 ? of_one : of_experts;
  }

  [[nodiscard]] TensorData weight(const GgufTensorInfo& tensor) const {
    const FamilyRow row = *row_of_gguf(folder_->family(), tensor.name);
    TensorData data = folder_->read(role_name(row));
    if (*tensor.type->dtype == Dtype::F32) data = widened_floats(data);
    if (norm_offset_ != 0 && row.row->gguf.find("norm") != std::string_view::npos)
      for (float& value : data.as<float>()) value += static_cast<float>(norm_offset_);
    if (!pairs_rows_) return data;
    if (row.row->gguf.ends_with("attn_q")) return paired_rows(data, options_.heads);
    if (row.row->gguf.ends_with("attn_k")) return paired_rows(data, options_.kv_heads);
    return data;
  }

  std::unique_ptr<ModelFile> folder_;
  DecoderOptions options_;
  GgufMetadata metadata_;
  std::vector<GgufTensorInfo> tensors_;
  std::vector<TensorData> made_;  ///< of the first tensors, which are not in the folder
  bool pairs_rows_ = false;
  double norm_offset_ = 0;
};

}  // namespace

std::unique_ptr<GgufSource> folder_as_gguf(const std::filesystem::path& folder) {
  return std::make_unique<FolderSource>(folder);
}

}  // namespace luminal::models
