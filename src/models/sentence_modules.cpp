#include "models/sentence_modules.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "base/bounded_json.h"
#include "base/fail.h"
#include "base/file.h"

namespace luminal::models {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr size_t kMostBytes = size_t{1} << 20;
constexpr std::string_view kPrefix = "pooling_mode_";

json read_json(const fs::path& file) {
  try {
    return parse_bounded_json(read_file(file, kMostBytes), "model");
  } catch (const json::parse_error& error) {
    fail<FormatError>("[model] '{}' is damaged: {}", file.string(), error.what());
  }
}

std::string text_of(const json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (found == object.end() || !found->is_string())
    fail<FormatError>("[model] modules.json has an entry without \"{}\"", key);
  return found->get<std::string>();
}

/// "pooling_mode_mean_tokens": true says "mean"; newer files say "pooling_mode": "mean".
std::string pooling_of(const json& config) {
  std::vector<std::string> chosen;
  for (const auto& [key, value] : config.items()) {
    if (key == "pooling_mode" && value.is_string()) chosen.push_back(value.get<std::string>());
    if (!key.starts_with(kPrefix) || value != true) continue;
    const std::string name = key.substr(kPrefix.size());
    chosen.push_back(name.substr(0, name.rfind("_token")));
  }
  if (chosen.size() != 1 || (chosen.front() != "mean" && chosen.front() != "cls"))
    fail<FormatError>("[model] pooling by '{}' is not supported; by 'mean' or by 'cls' is",
                      fmt::join(chosen, "' and '"));
  return chosen.front();
}

json pooling_file(const fs::path& folder, const std::string& path) {
  if (path.empty() || path == "." || path == ".." || path.find_first_of("/\\") != std::string::npos)
    fail<FormatError>("[model] modules.json names the folder '{}', which is not within the model's", path);
  const fs::path file = folder / path / "config.json";
  if (!exists(file))
    fail<FormatError>("[model] there is no '{}', of which modules.json tells", file.string());
  return read_json(file);
}

}  // namespace

std::string read_pooling(const fs::path& folder) {
  std::string pooling = "mean";
  if (!exists(folder / "modules.json")) return pooling;
  for (const json& module : read_json(folder / "modules.json")) {
    const std::string type = text_of(module, "type");
    const std::string kind = type.substr(type.rfind('.') + 1);
    if (kind == "Pooling")
      pooling = pooling_of(pooling_file(folder, text_of(module, "path")));
    else if (kind != "Transformer" && kind != "Normalize")
      fail<FormatError>(
          "[model] modules.json asks for '{}', which is not supported; Transformer, Pooling and Normalize "
          "are",
          type);
  }
  return pooling;
}

void write_pooling(const fs::path& folder, const std::string& pooling, int64_t size) {
  json modules = json::array();
  for (const auto& [kind, path] : {std::pair("Transformer", ""), std::pair("Pooling", "1_Pooling"),
                                   std::pair("Normalize", "2_Normalize")})
    modules.push_back({{"idx", modules.size()},
                       {"name", std::to_string(modules.size())},
                       {"path", path},
                       {"type", std::string("sentence_transformers.models.") + kind}});
  fs::create_directories(folder / "1_Pooling");
  write_file_atomic(folder / "modules.json", modules.dump(2) + "\n");
  const json config{{"word_embedding_dimension", size},
                    {"pooling_mode_cls_token", pooling == "cls"},
                    {"pooling_mode_mean_tokens", pooling == "mean"}};
  write_file_atomic(folder / "1_Pooling" / "config.json", config.dump(2) + "\n");
}

}  // namespace luminal::models
