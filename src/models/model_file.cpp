#include "models/model_file.h"

#include <algorithm>

#include "base/fail.h"

namespace luminal::models {
namespace {

/// `pattern` with its "{}" replaced.
std::string with_layer(std::string_view pattern, const std::string& layer) {
  std::string text(pattern);
  if (const size_t at = text.find("{}"); at != std::string::npos) text.replace(at, 2, layer);
  return text;
}

std::string_view role_of(const FamilyTensor& row) { return row.role.empty() ? row.gguf : row.role; }

template <class NameOf>
std::optional<FamilyRow> row_named(const Family& family, std::string_view name, const NameOf& name_of) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  FamilyRow row{.part = std::string(name.substr(dot + 1))};
  const std::string_view stem = name.substr(0, dot);
  if (stem.starts_with("blk.")) row.layer = stem.substr(4, stem.find('.', 4) - 4);
  const auto found = std::ranges::find_if(
      family.tensors, [&](const FamilyTensor& each) { return with_layer(name_of(each), row.layer) == stem; });
  if (found == family.tensors.end()) return std::nullopt;
  row.row = &*found;
  if (row.part == "bias" && found->bias == FamilyTensor::Bias::None) return std::nullopt;
  return row;
}

}  // namespace

std::optional<FamilyRow> row_of(const Family& family, std::string_view name) {
  return row_named(family, name, role_of);
}
std::optional<FamilyRow> row_of_gguf(const Family& family, std::string_view name) {
  return row_named(family, name, [](const FamilyTensor& row) { return row.gguf; });
}

std::string gguf_name(const FamilyRow& row) { return with_layer(row.row->gguf, row.layer) + "." + row.part; }
std::string role_name(const FamilyRow& row) {
  return with_layer(role_of(*row.row), row.layer) + "." + row.part;
}

bool is_needed(const FamilyRow& row) {
  return row.part == "bias" ? row.row->bias == FamilyTensor::Bias::Always
                            : row.row->presence == FamilyTensor::Presence::Always;
}

std::string huggingface_name(const FamilyRow& row) {
  const std::string name = with_layer(row.row->huggingface, row.layer);
  if (row.row->bare != FamilyTensor::Bare::No) return row.part == "bias" ? name + "_bias" : name;
  return name + "." + row.part;
}

std::unique_ptr<ModelFile> open_model(const std::filesystem::path& path, std::optional<Dtype> decoded) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return open_model_folder(path, decoded);
  if (!std::filesystem::exists(path, error))
    fail<FormatError>(
        "[model] there is no '{}'; give a GGUF file, or a folder with config.json and safetensors",
        path.string());
  return open_gguf_model(path, decoded);
}

}  // namespace luminal::models
