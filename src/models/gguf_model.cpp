#include <algorithm>

#include "base/fail.h"
#include "luminal/gguf.h"
#include "luminal/models/gguf_tokenizer.h"
#include "models/model_file.h"

namespace luminal::models {
namespace {

std::string architecture_of(const GgufFile& file) {
  const GgufValue* value = file.find("general.architecture");
  const auto* text = value ? std::get_if<std::string>(value) : nullptr;
  if (!text)
    fail<FormatError>("[model] the GGUF file does not say its 'general.architecture'; it is no model");
  return *text;
}

/// Rounded to `dtype`. Errors: FormatError for a number that it cannot hold.
TensorData rounded(TensorData values, Dtype dtype, const std::string& name) {
  if (dtype == Dtype::F32) return values;
  TensorData result(dtype, values.dims);
  visit_dtype(dtype, [&]<class T>(T) {
    if constexpr (is_stored_float<T>) {
      const auto from = values.as<float>();
      const auto to = result.as<T>();
      for (size_t i = 0; i < from.size(); ++i) {
        to[i] = T(from[i]);
        if (static_cast<float>(to[i]) - static_cast<float>(to[i]) != 0 && from[i] - from[i] == 0)
          fail<FormatError>("[model] '{}' holds {}, which {} cannot; decode to bf16 or f32", name, from[i],
                            luminal::name(dtype));
      }
    }
  });
  return result;
}

class GgufModel final : public ModelFile {
 public:
  GgufModel(const std::filesystem::path& path, Dtype decoded)
      : file_(path),
        architecture_(architecture_of(file_)),
        family_(family_of_gguf(architecture_)),
        decoded_(decoded) {
    for (const GgufTensorInfo& tensor : file_.tensors()) left_.insert(tensor.name);
  }

  [[nodiscard]] const std::string& architecture() const override { return architecture_; }

  [[nodiscard]] DecoderOptions options(int64_t context) override {
    const int64_t trained =
        Facts(file_, architecture_, 0).integer({"context_length", ""}).value_or(usual_context(INT64_MAX));
    const Facts facts(file_, architecture_, context > 0 ? context : usual_context(trained));
    DecoderOptions options =
        read_options(family_, facts, [this](std::string_view name) { return small(name); });
    options.vocabulary = file_.tensor("token_embd.weight").dims.at(0);
    options.tied = !has("output.weight");
    return options;
  }

  [[nodiscard]] std::optional<TensorInfo> find(const std::string& name) override {
    const auto row = row_of(family_, name);
    if (!row) return std::nullopt;
    if (!has(name)) {
      if (is_needed(*row))
        fail<FormatError>("[model] the file lacks '{}', which {} models have", name, architecture_);
      return std::nullopt;
    }
    left_.erase(name);
    const GgufTensorInfo& info = file_.tensor(name);
    return TensorInfo{dtype_of_tensor(info), info.dims};
  }

  [[nodiscard]] TensorData read(const std::string& name) const override {
    const GgufTensorInfo& info = file_.tensor(name);
    if (info.type->dtype == dtype_of_tensor(info)) return file_.read(name);
    return rounded(file_.read_f32(name), dtype_of_tensor(info), name);
  }

  [[nodiscard]] std::vector<std::string> unused() const override { return {left_.begin(), left_.end()}; }

  [[nodiscard]] text::TokenizerSpec tokenizer() const override { return gguf_tokenizer(file_.metadata()); }

  [[nodiscard]] std::vector<text::TokenId> end_tokens() const override {
    return gguf_stop_tokens(file_.metadata());
  }

 private:
  [[nodiscard]] bool has(std::string_view name) const {
    return std::ranges::find(file_.tensors(), name, &GgufTensorInfo::name) != file_.tensors().end();
  }
  [[nodiscard]] Dtype dtype_of_tensor(const GgufTensorInfo& info) const {
    return info.type->dtype && is_float(*info.type->dtype) ? *info.type->dtype : decoded_;
  }
  std::vector<double> small(std::string_view name) {
    constexpr int64_t kMost = 1 << 16;
    if (!has(name) || file_.tensor(name).element_count() > kMost) return {};
    left_.erase(std::string(name));
    const TensorData data = file_.read_f32(name);
    const auto values = data.as<float>();
    return {values.begin(), values.end()};
  }

  GgufFile file_;
  std::string architecture_;
  const Family& family_;
  Dtype decoded_;
  std::set<std::string, std::less<>> left_;
};

}  // namespace

std::unique_ptr<ModelFile> open_gguf_model(const std::filesystem::path& path, Dtype decoded) {
  return std::make_unique<GgufModel>(path, decoded);
}

}  // namespace luminal::models
