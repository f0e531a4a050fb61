#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/fail.h"
#include "luminal/model_folder.h"
#include "luminal/quantized.h"
#include "models/model_file.h"
#include "models/sentence_modules.h"
#include "models/weight_layout.h"

namespace luminal::models {
namespace {

using nlohmann::json;

std::string architecture_of_config(const json& config) {
  const auto list = config.find("architectures");
  if (list == config.end() || !list->is_array() || list->empty() || !list->front().is_string())
    fail<FormatError>("[model] config.json does not say its \"architectures\"");
  return list->front().get<std::string>();
}

class FolderModel final : public ModelFile {
 public:
  FolderModel(const std::filesystem::path& path, std::optional<Dtype> decoded)
      : folder_(path),
        config_(parse_bounded_json(folder_.config(), "model")),
        architecture_(architecture_of_config(config_)),
        family_(family_of_huggingface(architecture_)),
        decoded_(decoded),
        left_(folder_.names().begin(), folder_.names().end()) {
    if (family_.encodes) config_[kPoolingKey] = read_pooling(path);
  }

  [[nodiscard]] const std::string& architecture() const override { return architecture_; }

  [[nodiscard]] const Family& family() const override { return family_; }

  [[nodiscard]] Facts facts(int64_t context) const override {
    const Facts sizes(config_, 0);
    int64_t trained = usual_context(INT64_MAX);
    for (const char* key : {"max_position_embeddings", "n_positions"})
      if (const auto stated = sizes.integer({"", key})) trained = *stated;
    return {config_, context > 0 ? context : usual_context(trained)};
  }

  [[nodiscard]] DecoderOptions options(int64_t context) override {
    DecoderOptions options =
        read_options(family_, facts(context), [](std::string_view) { return std::vector<double>(); });
    const auto table = find("token_embd.weight");
    if (!table || table->dims.size() != 2) fail<FormatError>("[model] the table of embeddings is no matrix");
    options.vocabulary = table->dims[0];
    if (const auto types = find("token_types.weight")) options.token_types = types->dims.at(0);
    options.tied =
        facts(context).flag({"", "tie_word_embeddings"}).value_or(!folder_.contains("lm_head.weight"));
    if (options.tied) left_.erase("lm_head.weight");
    return options;
  }

  [[nodiscard]] std::optional<TensorInfo> find(const std::string& name) override {
    const auto row = row_of(family_, name);
    if (!row) return std::nullopt;
    const std::vector<std::string> names = parts_of(*row);
    if (names.empty()) {
      if (is_needed(*row))
        fail<FormatError>("[model] the folder lacks '{}', which {} has", huggingface_name(*row),
                          architecture_);
      return std::nullopt;
    }
    for (const std::string& each : names) left_.erase(each);
    TensorInfo info = folder_.info(names.front());
    if (row->row->bare != FamilyTensor::Bare::No) return bare_info(*row, names, std::move(info));
    if (!is_float(info.dtype))
      fail<FormatError>("[model] '{}' is {}; weights are floats", names.front(), luminal::name(info.dtype));
    if (is_transposed(*row, info)) std::swap(info.dims[0], info.dims[1]);
    if (is_of_experts(*row)) info.dims.insert(info.dims.begin(), static_cast<int64_t>(names.size()));
    return info;
  }

  [[nodiscard]] TensorData read(const std::string& name) const override {
    const auto row = row_of(family_, name);
    LUMINAL_CHECK(row.has_value(), "'{}'", name);
    if (row->row->bare != FamilyTensor::Bare::No) return bare(*row);
    std::vector<TensorData> parts;
    for (const std::string& each : parts_of(*row)) {
      parts.push_back(folder_.read(each));
      const TensorData& part = parts.back();
      if (part.dims != parts.front().dims || part.dtype != parts.front().dtype)
        fail<FormatError>("[model] '{}' differs from those of other experts in size or dtype", each);
      if (is_transposed(*row, {part.dtype, part.dims})) parts.back() = transposed(part);
    }
    if (!is_of_experts(*row)) return std::move(parts.front());
    std::vector<int64_t> dims = parts.front().dims;
    dims.insert(dims.begin(), static_cast<int64_t>(parts.size()));
    TensorData all(parts.front().dtype, dims);
    auto to = all.bytes.begin();
    for (const TensorData& part : parts) to = std::ranges::copy(part.bytes, to).out;
    return all;
  }

  [[nodiscard]] std::vector<std::string> unused() const override {
    std::vector<std::string> names(left_.begin(), left_.end());
    std::erase_if(names, [this](const std::string& name) {
      return std::ranges::any_of(family_.ignored, [&](std::string_view end) { return name.ends_with(end); });
    });
    return names;
  }

  [[nodiscard]] text::TokenizerSpec tokenizer() const override {
    return text::read_tokenizer(folder_.path());
  }

  [[nodiscard]] std::vector<text::TokenId> end_tokens() const override {
    std::vector<text::TokenId> ids;
    for (const json& config : {parse_bounded_json(folder_.generation_config(), "model"), config_}) {
      const auto found = config.find("eos_token_id");
      if (found == config.end() || found->is_null()) continue;
      for (const json& each : found->is_array() ? *found : json::array({*found}))
        ids.push_back(whole_number<text::TokenId>(each, "model"));
    }
    return ids;
  }

 private:
  [[nodiscard]] static bool is_half(const FamilyRow& row) {
    return row.row->bare != FamilyTensor::Bare::Whole;
  }

  /// Of a tensor that holds all experts: matrices [experts, in, out] or MXFP4 blocks, or biases [experts, out].
  [[nodiscard]] TensorInfo bare_info(const FamilyRow& row, const std::vector<std::string>& names,
                                     TensorInfo info) const {
    if (info.dims.size() == 1 && is_float(info.dtype)) return info;  // of a layer, not of experts
    const bool blocks = names.size() > 1;
    if (info.dims.size() != (blocks ? 4 : row.part == "bias" ? 2 : 3) || (!blocks && !is_float(info.dtype)))
      fail<FormatError>("[model] '{}' is {} with {} axes, which weights of experts are not", names.front(),
                        luminal::name(info.dtype), info.dims.size());
    if (blocks)
      info = {decoded_.value_or(Dtype::MXFP4), {info.dims[0], info.dims[1], info.dims[2] * info.dims[3] * 2}};
    else if (row.part != "bias")
      std::swap(info.dims[1], info.dims[2]);
    if (is_half(row)) info.dims[1] /= 2;
    return info;
  }
  [[nodiscard]] TensorData bare(const FamilyRow& row) const {
    const std::vector<std::string> names = parts_of(row);
    TensorData data = folder_.read(names.front());
    if (data.dims.size() == 1) return data;
    if (names.size() > 1)
      data = mxfp4_blocks(data, folder_.read(names.back()));
    else if (row.part != "bias")
      data = transposed_each(data);
    if (is_half(row)) data = half_of(data, row.row->bare == FamilyTensor::Bare::SecondHalf);
    return is_quantized(data.dtype) && decoded_ ? rounded(dequantize(data), *decoded_) : data;
  }
  static TensorData rounded(const TensorData& values, Dtype dtype) {
    TensorData result(dtype, values.dims);
    visit_dtype(dtype, [&]<class T>(T) {
      std::ranges::transform(values.as<float>(), result.as<T>().begin(),
                             [](float value) { return static_cast<T>(value); });
    });
    return result;
  }

  /// Its name in these files: of some models the first part is left out ("transformer.").
  [[nodiscard]] std::string name_here(const std::string& name) const {
    const std::string shorter = name.substr(name.find('.') + 1);
    return !folder_.contains(name) && folder_.contains(shorter) ? shorter : name;
  }
  [[nodiscard]] static bool is_of_experts(const FamilyRow& row) {
    return row.row->huggingface.find("{expert}") != std::string_view::npos;
  }
  [[nodiscard]] static bool is_transposed(const FamilyRow& row, const TensorInfo& info) {
    return row.row->transposed && row.part == "weight" && info.dims.size() == 2;
  }
  /// The tensors that a row is made of: one, or one for each expert.
  [[nodiscard]] std::vector<std::string> parts_of(const FamilyRow& row) const {
    const std::string pattern = huggingface_name(row);
    const size_t at = pattern.find("{expert}");
    std::vector<std::string> names;
    if (row.row->bare != FamilyTensor::Bare::No && row.part == "weight" &&
        folder_.contains(pattern + "_blocks"))
      return {pattern + "_blocks", pattern + "_scales"};
    if (at == std::string::npos) {
      if (std::string name = name_here(pattern); folder_.contains(name)) names.push_back(std::move(name));
      return names;
    }
    for (int expert = 0;; ++expert) {
      std::string name = pattern;
      name = name_here(name.replace(at, 8, std::to_string(expert)));
      if (!folder_.contains(name)) return names;
      names.push_back(std::move(name));
    }
  }

  ModelFolder folder_;
  json config_;
  std::string architecture_;
  const Family& family_;
  std::optional<Dtype> decoded_;  ///< what blocks become; nothing: they stay
  std::set<std::string, std::less<>> left_;
};

}  // namespace

std::unique_ptr<ModelFile> open_model_folder(const std::filesystem::path& folder,
                                             std::optional<Dtype> decoded) {
  return std::make_unique<FolderModel>(folder, decoded);
}

}  // namespace luminal::models
