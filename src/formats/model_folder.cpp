#include "luminal/model_folder.h"

#include <map>
#include <set>

#include "base/bounded_json.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/suggest.h"
#include "formats/safetensors_header.h"

namespace luminal {
namespace {

namespace fs = std::filesystem;
constexpr size_t kMostConfigBytes = size_t{1} << 24, kMostIndexBytes = safetensors::kHeaderLimitBytes;

/// A JSON object's text.
std::string object_text(const fs::path& file, size_t most_bytes, nlohmann::json& json) {
  std::string text = read_file(file, most_bytes);
  try {
    json = parse_bounded_json(text, "model folder");
  } catch (const nlohmann::json::exception& error) {
    fail<FormatError>("[model folder] '{}' is not JSON: {}", file.string(), error.what());
  }
  if (!json.is_object()) fail<FormatError>("[model folder] '{}' is not a JSON object", file.string());
  return text;
}

/// Where the index says that each tensor is.
std::map<std::string, std::string> read_index(const fs::path& index) {
  nlohmann::json json;
  (void)object_text(index, kMostIndexBytes, json);
  const auto found = json.find("weight_map");
  if (found == json.end() || !found->is_object() || found->empty())
    fail<FormatError>("[model folder] '{}' has no weight_map from tensors to files", index.string());
  std::map<std::string, std::string> files;
  for (const auto& [tensor, file] : found->items()) {
    if (!file.is_string())
      fail<FormatError>("[model folder] '{}': the file of tensor {} is not a text", index.string(),
                        safetensors::printable(tensor));
    const auto name = file.get<std::string>();
    if (name.empty() || name.find('\0') != std::string::npos || fs::path(name).filename() != name ||
        name == "." || name == "..")
      fail<FormatError>("[model folder] '{}' places tensor {} in {}, outside of the folder", index.string(),
                        safetensors::printable(tensor), safetensors::printable(name));
    files.emplace(tensor, name);
  }
  return files;
}

}  // namespace

struct ModelFolder::Content {
  explicit Content(fs::path folder) : path(std::move(folder)) {
    nlohmann::json json;
    if (!fs::is_directory(path)) fail<FormatError>("[model folder] '{}' is not a folder", path.string());
    if (!fs::exists(path / "config.json"))
      fail<FormatError>("[model folder] '{}' has no config.json", path.string());
    config = object_text(path / "config.json", kMostConfigBytes, json);
    if (const fs::path file = path / "generation_config.json"; fs::exists(file))
      generation_config = object_text(file, kMostConfigBytes, json);
    if (const fs::path index = path / "model.safetensors.index.json"; fs::exists(index))
      open_shards(index);
    else if (fs::exists(path / "model.safetensors"))
      add("model.safetensors");
    else
      fail<FormatError>("[model folder] '{}' has neither model.safetensors nor an index of such files",
                        path.string());
    for (const auto& [name, file] : by_name) names.push_back(name);
  }

  void open_shards(const fs::path& index) {
    const auto placed = read_index(index);
    std::set<std::string> shards;
    for (const auto& [tensor, file] : placed) shards.insert(file);
    for (const std::string& shard : shards) {
      if (!fs::exists(path / shard))
        fail<FormatError>("[model folder] '{}' names the file {}, which is missing", index.string(),
                          safetensors::printable(shard));
      add(shard);
    }
    for (const auto& [tensor, shard] : placed)
      if (const auto found = by_name.find(tensor);
          found == by_name.end() || shard_names[found->second] != shard)
        fail<FormatError>("[model folder] '{}' places tensor {} in {}, which has no such tensor",
                          index.string(), safetensors::printable(tensor), safetensors::printable(shard));
  }

  void add(const std::string& shard) {
    files.emplace_back(path / shard);
    shard_names.push_back(shard);
    total_bytes += fs::file_size(path / shard);
    for (const std::string& name : files.back().names())
      if (const auto [at, is_new] = by_name.emplace(name, files.size() - 1); !is_new)
        fail<FormatError>("[model folder] '{}': tensor {} is both in {} and in {}", path.string(),
                          safetensors::printable(name), safetensors::printable(shard_names[at->second]),
                          safetensors::printable(shard));
  }

  [[nodiscard]] const SafetensorsFile& file_of(std::string_view name) const {
    const auto found = by_name.find(name);
    if (found == by_name.end())
      fail<FormatError>("[model folder] '{}' has no tensor {}, but {} others{}", path.string(),
                        safetensors::printable(name), names.size(), did_you_mean(name, names));
    return files[found->second];
  }

  fs::path path;
  std::string config, generation_config = "{}";
  std::vector<SafetensorsFile> files;
  std::vector<std::string> shard_names, names;
  std::map<std::string, size_t, std::less<>> by_name;
  size_t total_bytes = 0;
};

ModelFolder::ModelFolder(const fs::path& path) : content_(std::make_unique<Content>(path)) {}
ModelFolder::ModelFolder(ModelFolder&&) noexcept = default;
ModelFolder& ModelFolder::operator=(ModelFolder&&) noexcept = default;
ModelFolder::~ModelFolder() = default;

const fs::path& ModelFolder::path() const { return content_->path; }
const std::string& ModelFolder::config() const { return content_->config; }
const std::string& ModelFolder::generation_config() const { return content_->generation_config; }
size_t ModelFolder::file_count() const { return content_->files.size(); }
size_t ModelFolder::size_bytes() const { return content_->total_bytes; }
const std::vector<std::string>& ModelFolder::names() const { return content_->names; }
bool ModelFolder::contains(std::string_view name) const { return content_->by_name.contains(name); }
TensorInfo ModelFolder::info(std::string_view name) const { return content_->file_of(name).info(name); }
TensorData ModelFolder::read(std::string_view name) const { return content_->file_of(name).read(name); }
void ModelFolder::read(std::string_view name, size_t offset, std::span<std::byte> out) const {
  content_->file_of(name).read(name, offset, out);
}

}  // namespace luminal
