#include <algorithm>
#include <atomic>
#include <cmath>

#include "base/fail.h"
#include "base/team.h"
#include "luminal/block_format.h"
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

/// Writes the values as elements of `data` from `begin` on. Errors: FormatError for one that its dtype cannot hold.
void round_into(TensorData& data, int64_t begin, std::span<const float> values, const std::string& name) {
  visit_dtype(data.dtype, [&]<class T>(T) {
    const auto to = data.as<T>().subspan(static_cast<size_t>(begin), values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      to[i] = static_cast<T>(values[i]);
      if (std::isfinite(values[i]) && !std::isfinite(static_cast<float>(to[i])))
        fail<FormatError>("[model] '{}' holds {}, which {} cannot; decode to bf16 or f32", name, values[i],
                          luminal::name(data.dtype));
    }
  });
}

class GgufModel final : public ModelFile {
 public:
  GgufModel(const std::filesystem::path& path, std::optional<Dtype> decoded)
      : file_(path),
        architecture_(architecture_of(file_)),
        family_(family_of_gguf(architecture_)),
        decoded_(decoded) {
    for (const GgufTensorInfo& tensor : file_.tensors()) left_.insert(tensor.name);
  }

  [[nodiscard]] const std::string& architecture() const override { return architecture_; }

  [[nodiscard]] const Family& family() const override { return family_; }

  [[nodiscard]] Facts facts(int64_t context) const override {
    const int64_t trained = Facts(file_.metadata(), architecture_, 0)
                                .integer({"context_length", ""})
                                .value_or(usual_context(INT64_MAX));
    return {file_.metadata(), architecture_, context > 0 ? context : usual_context(trained)};
  }

  [[nodiscard]] DecoderOptions options(int64_t context) override {
    DecoderOptions options =
        read_options(family_, facts(context), [this](std::string_view name) { return small(name); });
    options.vocabulary = file_.tensor("token_embd.weight").dims.at(0);
    if (const auto types = find("token_types.weight")) options.token_types = types->dims.at(0);
    options.tied = !has("output.weight");
    return options;
  }

  [[nodiscard]] std::optional<TensorInfo> find(const std::string& name) override {
    const auto row = row_of(family_, name);
    if (!row) return std::nullopt;
    const std::string stored = gguf_name(*row);
    if (!has(stored)) {
      if (is_needed(*row))
        fail<FormatError>("[model] the file lacks '{}', which {} models have", stored, architecture_);
      return std::nullopt;
    }
    left_.erase(stored);
    const GgufTensorInfo& info = file_.tensor(stored);
    return TensorInfo{dtype_of_tensor(info), info.dims};
  }

  [[nodiscard]] TensorData read(const std::string& name) const override {
    const auto row = row_of(family_, name);
    LUMINAL_CHECK(row.has_value(), "'{}'", name);
    const GgufTensorInfo& info = file_.tensor(gguf_name(*row));
    const Dtype dtype = dtype_of_tensor(info);
    return info.type->dtype == dtype ? file_.read(info.name) : decoded(info, dtype);
  }

  [[nodiscard]] std::vector<std::string> unused() const override { return {left_.begin(), left_.end()}; }

  [[nodiscard]] text::TokenizerSpec tokenizer() const override { return gguf_tokenizer(file_.metadata()); }

  [[nodiscard]] std::vector<text::TokenId> end_tokens() const override {
    return gguf_stop_tokens(file_.metadata());
  }

 private:
  /// Piece by piece on all threads, so that little is ever f32.
  [[nodiscard]] TensorData decoded(const GgufTensorInfo& info, Dtype dtype) const {
    constexpr int64_t kPiece = 1 << 16;  // whole blocks of every format
    const BlockFormat& format = block_format(*info.type->dtype);
    TensorData result(dtype, info.dims);
    const int64_t total = result.element_count();
    std::atomic<int64_t> next{0};
    Team::shared().run(Team::shared().size(), [&](int) {
      std::vector<std::byte> blocks;
      std::vector<float> values;
      for (int64_t begin = 0; (begin = next.fetch_add(kPiece)) < total;) {
        values.resize(static_cast<size_t>(std::min(kPiece, total - begin)));
        const auto bytes_of = [&](int64_t elements) {
          return static_cast<size_t>(elements / format.block_elements * format.block_bytes);
        };
        blocks.resize(bytes_of(std::ssize(values)));
        file_.read(info.name, bytes_of(begin), blocks);
        decode_blocks(format, blocks, values);
        round_into(result, begin, values, info.name);
      }
    });
    return result;
  }
  [[nodiscard]] bool has(std::string_view name) const {
    return std::ranges::find(file_.tensors(), name, &GgufTensorInfo::name) != file_.tensors().end();
  }
  [[nodiscard]] Dtype dtype_of_tensor(const GgufTensorInfo& info) const {
    const std::optional<Dtype> stored = info.type->dtype;
    if (!stored || !(is_float(*stored) || is_quantized(*stored)))
      fail<FormatError>("[model] '{}' is {}; weights are floats or blocks of them", info.name,
                        info.type->name);
    return is_quantized(*stored) ? decoded_.value_or(*stored) : *stored;
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
  std::optional<Dtype> decoded_;  ///< what blocks become; nothing: they stay
  std::set<std::string, std::less<>> left_;
};

}  // namespace

std::unique_ptr<ModelFile> open_gguf_model(const std::filesystem::path& path, std::optional<Dtype> decoded) {
  return std::make_unique<GgufModel>(path, decoded);
}

}  // namespace luminal::models
