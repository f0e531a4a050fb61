#include "luminal/models/convert.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/cancel.h"
#include "base/fail.h"
#include "base/file.h"
#include "luminal/models/gguf_tokenizer.h"
#include "luminal/safetensors.h"
#include "models/gguf_source.h"
#include "models/model_file.h"
#include "models/sentence_modules.h"
#include "models/weight_layout.h"

namespace luminal::models {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr size_t kShardBytes = size_t{1} << 32;

/// A GGUF model's tensors under Hugging Face's names.
class FileAsFolder {
 public:
  FileAsFolder(const fs::path& path, Dtype decoded)
      : gguf_(path), file_(open_gguf_model(path, decoded)), options_(file_->options(0)) {
    configure();
    list_tensors();
  }

  [[nodiscard]] const json& config() const { return config_; }
  [[nodiscard]] const GgufFile& gguf() const { return gguf_; }
  [[nodiscard]] std::vector<text::TokenId> end_tokens() const { return file_->end_tokens(); }

  /// One tensor of the GGUF file, which may be several here.
  struct Stored {
    std::string gguf;
    FamilyRow row;
    size_t size_bytes = 0;
  };
  [[nodiscard]] const std::vector<Stored>& tensors() const { return tensors_; }

  void read(const Stored& stored, std::map<std::string, TensorData>& to) const {
    TensorData data = file_->read(role_name(stored.row));
    const FamilyTensor& row = *stored.row.row;
    if (row.bare == FamilyTensor::Bare::SecondHalf) return;  // read with the first
    if (row.bare == FamilyTensor::Bare::FirstHalf)
      data = joined_halves(data, file_->read(second_half(stored.row)));
    if (norm_offset_ != 0 && row.gguf.find("norm") != std::string_view::npos) {
      data = widened_floats(data);
      for (float& value : data.as<float>()) value -= static_cast<float>(norm_offset_);
    }
    if (paired_ && row.gguf.ends_with("attn_q")) data = parted_rows(data, options_.heads);
    if (paired_ && row.gguf.ends_with("attn_k")) data = parted_rows(data, options_.kv_heads);
    const std::string name = huggingface_name(stored.row);
    const size_t at = name.find("{expert}");
    if (row.bare != FamilyTensor::Bare::No) {
      to[name] = data.dims.size() == 3 ? transposed_each(data) : std::move(data);
      return;
    }
    if (at == std::string::npos) {
      to[name] = row.transposed && stored.row.part == "weight" ? transposed(data) : std::move(data);
      return;
    }
    const auto experts = static_cast<size_t>(data.dims.at(0));
    for (size_t expert = 0; expert < experts; ++expert) {
      TensorData part(data.dtype, {data.dims.begin() + 1, data.dims.end()});
      const auto begin = data.bytes.begin() + static_cast<ptrdiff_t>(expert * part.bytes.size());
      std::copy_n(begin, part.bytes.size(), part.bytes.begin());
      to[std::string(name).replace(at, 8, std::to_string(expert))] = std::move(part);
    }
  }

 private:
  [[nodiscard]] bool has(const std::string& name) const {
    return std::ranges::find(gguf_.tensors(), name, &GgufTensorInfo::name) != gguf_.tensors().end();
  }

  /// The tensor whose rows stand between those of a first half.
  [[nodiscard]] std::string second_half(FamilyRow row) const {
    const std::string_view whole = row.row->huggingface;
    const auto found = std::ranges::find_if(file_->family().tensors, [&](const FamilyTensor& each) {
      return each.huggingface == whole && each.bare == FamilyTensor::Bare::SecondHalf;
    });
    LUMINAL_CHECK(found != file_->family().tensors.end(), "'{}' has one half", whole);
    row.row = &*found;
    return role_name(row);
  }

  /// config.json, whose options are checked to be those of the file.
  void configure() {
    const Family& family = file_->family();
    const Facts facts = file_->facts(0);
    for (const FamilyField& field : family.fields)
      if (!field.key.gguf.empty() && !field.key.huggingface.empty())
        std::visit(
            [&]<class T>(T DecoderOptions::* option) {
              if (options_.*option != T() || field.required)
                config_[std::string(field.key.huggingface)] = options_.*option;
            },
            field.option);
    config_["architectures"] = json::array({std::string(family.huggingface.front())});
    config_["vocab_size"] = options_.vocabulary;
    config_["tie_word_embeddings"] = options_.tied;
    for (const auto& [key, name] : {std::pair("tokenizer.ggml.bos_token_id", "bos_token_id"),
                                    std::pair("tokenizer.ggml.eos_token_id", "eos_token_id"),
                                    std::pair("tokenizer.ggml.padding_token_id", "pad_token_id")})
      if (const GgufValue* id = gguf_.find(key); id && id->integer())
        config_[name] = *id->integer();
      else
        config_[name] = nullptr;  // transformers has defaults, which may not be in the vocabulary
    const SmallTensor tensor = [this](std::string_view name) -> std::vector<double> {
      if (!has(std::string(name))) return {};
      const TensorData data = gguf_.read_f32(name);
      return {data.as<float>().begin(), data.as<float>().end()};
    };
    configure_rotary(options_, facts, tensor, config_);
    family.configure(options_,
                     {[this](std::string_view name) { return has(std::string(name) + ".weight"); },
                      [this](std::string_view name) { return has(std::string(name) + ".bias"); }},
                     config_);
    const DecoderOptions back = read_options(family, Facts(config_, facts.context()), {});
    if (const std::string difference = difference_of(options_, back); !difference.empty())
      fail<FormatError>("[convert] config.json of {} cannot say what the GGUF file says ({})",
                        config_["architectures"].front().get<std::string>(), difference);
    paired_ = options_.rotary.interleaved && !back.rotary.interleaved;
    norm_offset_ = back.norm_offset - options_.norm_offset;
  }

  void list_tensors() {
    for (const GgufTensorInfo& info : gguf_.tensors()) {
      if (info.name.starts_with("rope_")) continue;  // config.json says them
      const auto row = row_of_gguf(file_->family(), info.name);
      if (!row)
        fail<FormatError>("[convert] {} models have no tensor '{}'; it is of another kind",
                          file_->architecture(), info.name);
      const auto found = file_->find(role_name(*row));
      tensors_.push_back(
          {info.name, *row, static_cast<size_t>(luminal::size_bytes(found->dtype, info.element_count()))});
    }
  }

  GgufFile gguf_;
  std::unique_ptr<ModelFile> file_;
  DecoderOptions options_;
  json config_ = json::object();
  std::vector<Stored> tensors_;
  bool paired_ = false;
  double norm_offset_ = 0;
};

/// Tensors by file, so that no file's are more than kShardBytes unless it is one alone.
std::vector<std::vector<const FileAsFolder::Stored*>> shards_of(const FileAsFolder& model) {
  std::vector<std::vector<const FileAsFolder::Stored*>> shards(1);
  size_t bytes = 0;
  for (const FileAsFolder::Stored& stored : model.tensors()) {
    if (bytes > 0 && bytes + stored.size_bytes > kShardBytes) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().push_back(&stored);
    bytes += stored.size_bytes;
  }
  return shards;
}

void write_json(const fs::path& path, const json& content) {
  write_file_atomic(path, content.dump(2) + "\n");
}

void write_weights(const FileAsFolder& model, const fs::path& folder) {
  const auto shards = shards_of(model);
  json index{{"metadata", {{"total_size", 0}}}, {"weight_map", json::object()}};
  size_t total = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    std::map<std::string, TensorData> tensors;
    for (const FileAsFolder::Stored* stored : shards[i]) {
      throw_if_cancelled();
      model.read(*stored, tensors);
    }
    const std::string name = shards.size() == 1
                                 ? "model.safetensors"
                                 : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    std::map<std::string, TensorView> views;
    for (const auto& [tensor, data] : tensors) {
      views.emplace(tensor, data);
      index["weight_map"][tensor] = name;
      total += data.bytes.size();
    }
    write_safetensors(folder / name, views, {{"format", "pt"}});
  }
  index["metadata"]["total_size"] = total;
  if (shards.size() > 1) write_json(folder / "model.safetensors.index.json", index);
}

void write_tokenizer(const FileAsFolder& model, const fs::path& folder) {
  if (!model.gguf().find("tokenizer.ggml.model")) return;
  const text::TokenizerSpec spec = gguf_tokenizer(model.gguf().metadata());
  text::write_tokenizer(spec, folder);
  if (const auto ends = model.end_tokens(); !ends.empty())
    write_json(folder / "generation_config.json", {{"eos_token_id", ends}});
}

/// A folder that takes its name when it is complete, and goes away otherwise.
class NewFolder {
 public:
  explicit NewFolder(fs::path path) : path_(std::move(path)), temporary_(path_) {
    if (fs::exists(path_)) fail("[convert] '{}' exists already; give a new folder", path_.string());
    temporary_ += fmt::format(".{}.new", ::getpid());
    fs::create_directories(temporary_);
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  ~NewFolder() {
    std::error_code ignored;
    if (!complete_) fs::remove_all(temporary_, ignored);
  }
  [[nodiscard]] const fs::path& path() const { return temporary_; }
  void finish() {
    fs::rename(temporary_, path_);
    complete_ = true;
  }

 private:
  fs::path path_, temporary_;
  bool complete_ = false;
};

}  // namespace

void convert_to_gguf(const fs::path& folder, const fs::path& file) {
  const std::unique_ptr<GgufSource> source = folder_as_gguf(folder);
  GgufWriter writer(file, source->metadata(), source->tensors());
  for (size_t i = 0; i < source->tensors().size(); ++i) {
    throw_if_cancelled();
    writer.append(source->read(i));
  }
  writer.finish();
}

void convert_to_folder(const fs::path& file, const fs::path& folder, Dtype decoded) {
  if (!is_float(decoded)) fail<DtypeError>("[convert] blocks become f16, bf16 or f32, not {}", name(decoded));
  const FileAsFolder model(file, decoded);
  NewFolder made(folder);
  write_weights(model, made.path());
  json config = model.config();
  if (const auto pooling = config.find(kPoolingKey); pooling != config.end()) {
    write_pooling(made.path(), pooling->get<std::string>(), config.at("hidden_size").get<int64_t>());
    config.erase(pooling);
  }
  write_json(made.path() / "config.json", config);
  write_tokenizer(model, made.path());
  made.finish();
}

}  // namespace luminal::models
