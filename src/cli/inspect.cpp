#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/printable.h"
#include "cli/command.h"
#include "luminal/gguf.h"
#include "luminal/model_folder.h"
#include "luminal/safetensors.h"

namespace luminal::cli {
namespace {

struct InspectOptions {
  std::string file;
  bool json = false;
};

struct InspectedTensor {
  std::string name, type;
  std::vector<int64_t> dims;
  int64_t elements = 0, size_bytes = 0;
};

/// What a file of weights says of itself, whatever its format.
struct Inspected {
  std::string format;
  size_t files = 1, size_bytes = 0;
  std::vector<std::array<std::string, 3>> metadata;  ///< key, kind, shortened value
  nlohmann::ordered_json metadata_json = nlohmann::ordered_json::object();
  std::vector<InspectedTensor> tensors;
};

nlohmann::ordered_json json_of(const GgufValue& value) {
  return std::visit(
      []<class T>(const T& v) -> nlohmann::ordered_json {
        if constexpr (std::is_same_v<T, GgufArray>) {
          auto items = nlohmann::ordered_json::array();
          for (const GgufValue& item : v.values) items.push_back(json_of(item));
          return items;
        } else {
          return v;
        }
      },
      static_cast<const GgufValue::variant&>(value));
}

Inspected inspect_gguf(const std::string& path) {
  const GgufFile file(path);
  Inspected result{fmt::format("GGUF version {}", file.version()), file.file_count(), file.size_bytes()};
  for (const auto& [key, value] : file.metadata()) {
    std::string kind(name(value.kind()));
    if (const auto* array = std::get_if<GgufArray>(&value))
      kind = fmt::format("{}[{}]", name(array->kind), array->values.size());
    result.metadata.push_back({key, kind, to_text(value)});
    result.metadata_json[key] = json_of(value);
  }
  for (const GgufTensorInfo& tensor : file.tensors())
    result.tensors.push_back({tensor.name, std::string(tensor.type->name), tensor.dims,
                              tensor.element_count(), tensor.size_bytes()});
  return result;
}

InspectedTensor of_info(const std::string& tensor, const TensorInfo& info) {
  int64_t elements = 1;
  for (const int64_t dim : info.dims) elements *= dim;
  return {tensor, std::string(name(info.dtype)), info.dims, elements, size_bytes(info.dtype, elements)};
}

Inspected inspect_safetensors(const std::string& path) {
  const SafetensorsFile file(path);
  Inspected result{"safetensors", 1, std::filesystem::file_size(path)};
  for (const auto& [key, value] : file.metadata()) {
    result.metadata.push_back({key, "text", to_text(GgufValue(value))});
    result.metadata_json[key] = value;
  }
  for (const std::string& tensor : file.names()) result.tensors.push_back(of_info(tensor, file.info(tensor)));
  return result;
}

bool ends_like_safetensors(std::string_view path) { return path.ends_with(".safetensors"); }

/// The entries of a JSON object whose text stands in a file.
void add_json(const std::string& file, const std::string& text, Inspected& result) {
  const auto json = parse_bounded_json<nlohmann::ordered_json>(text, "inspect");
  for (const auto& [key, value] : json.items()) {
    const std::string shown =
        to_text(GgufValue(value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)));
    result.metadata.push_back({file + ": " + key, value.type_name(), shown.substr(1, shown.size() - 2)});
  }
  result.metadata_json[file] = json;
}

Inspected inspect_folder(const std::string& path) {
  const ModelFolder folder(path);
  Inspected result{"model folder", folder.file_count(), folder.size_bytes()};
  add_json("config.json", folder.config(), result);
  add_json("generation_config.json", folder.generation_config(), result);
  for (const std::string& tensor : folder.names())
    result.tensors.push_back(of_info(tensor, folder.info(tensor)));
  return result;
}

Inspected inspect_weights(const std::string& path) {
  if (std::filesystem::is_directory(path)) return inspect_folder(path);
  return ends_like_safetensors(path) ? inspect_safetensors(path) : inspect_gguf(path);
}

struct TypeTotal {
  int64_t tensors = 0, elements = 0, size_bytes = 0;
  void add(const InspectedTensor& tensor) {
    ++tensors;
    elements += tensor.elements;
    size_bytes += tensor.size_bytes;
  }
  [[nodiscard]] double bits() const {
    return elements == 0 ? 0 : 8.0 * static_cast<double>(size_bytes) / static_cast<double>(elements);
  }
};

struct Totals {
  explicit Totals(const Inspected& file) {
    for (const InspectedTensor& tensor : file.tensors) {
      by_type[tensor.type].add(tensor);
      all.add(tensor);
    }
  }
  std::map<std::string, TypeTotal> by_type;
  TypeTotal all;
};

void print_inspected_json(const Inspected& file, std::ostream& out) {
  const Totals totals(file);
  const auto total = [](const TypeTotal& t) {
    return nlohmann::ordered_json{{"tensors", t.tensors},
                                  {"elements", t.elements},
                                  {"size_bytes", t.size_bytes},
                                  {"bits_per_element", t.bits()}};
  };
  nlohmann::ordered_json json{{"format", file.format},
                              {"files", file.files},
                              {"size_bytes", file.size_bytes},
                              {"metadata", file.metadata_json},
                              {"tensors", nlohmann::ordered_json::array()},
                              {"types", nlohmann::ordered_json::object()},
                              {"total", total(totals.all)}};
  for (const InspectedTensor& tensor : file.tensors)
    json["tensors"].push_back({{"name", tensor.name},
                               {"type", tensor.type},
                               {"shape", tensor.dims},
                               {"size_bytes", tensor.size_bytes}});
  for (const auto& [type, sum] : totals.by_type) json["types"][type] = total(sum);
  // Texts of GGUF files may be any bytes, where JSON's are UTF-8; all but ASCII is escaped, for a terminal obeys some of
  // the rest.
  out << json.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace) << '\n';
}

void print_inspected(Inspected file, std::ostream& out) {
  for (auto& [key, kind, value] : file.metadata) key = escaped(key);
  for (InspectedTensor& tensor : file.tensors) tensor.name = escaped(tensor.name);
  const Totals totals(file);
  out << fmt::format("{}, {} file{}, {} bytes\n", file.format, file.files, file.files == 1 ? "" : "s",
                     file.size_bytes);
  size_t key_width = 0, kind_width = 0, name_width = 0, type_width = 4;
  for (const auto& [key, kind, value] : file.metadata) {
    key_width = std::max(key_width, key.size());
    kind_width = std::max(kind_width, kind.size());
  }
  for (const InspectedTensor& tensor : file.tensors) {
    name_width = std::max(name_width, tensor.name.size());
    type_width = std::max(type_width, tensor.type.size());
  }
  out << fmt::format("\nmetadata ({})\n", file.metadata.size());
  for (const auto& [key, kind, value] : file.metadata)
    out << fmt::format("  {:{}}  {:{}}  {}\n", key, key_width, kind, kind_width, value);
  out << fmt::format("\ntensors ({})\n", file.tensors.size());
  for (const InspectedTensor& tensor : file.tensors)
    out << fmt::format("  {:{}}  {:{}}  {:>12} bytes  [{}]\n", tensor.name, name_width, tensor.type,
                       type_width, tensor.size_bytes, fmt::join(tensor.dims, ","));
  const auto row = [&](std::string_view type, const TypeTotal& sum) {
    out << fmt::format("  {:{}}  {:>6} tensors  {:>14} elements  {:>14} bytes  {:.2f} bits an element\n",
                       type, type_width + 1, sum.tensors, sum.elements, sum.size_bytes, sum.bits());
  };
  out << "\ntypes\n";
  for (const auto& [type, sum] : totals.by_type) row(type, sum);
  row("total", totals.all);
}

}  // namespace

extern const Command kInspect{
    "inspect",
    "Show what a GGUF or safetensors file or a model's folder holds: metadata, tensors, types, sizes",
    [](CLI::App& app) -> Action {
      auto options = std::make_shared<InspectOptions>();
      app.add_option("file", options->file,
                     "The file, of a split model any of its files; or a folder with config.json")
          ->required();
      app.add_flag("--json", options->json, "Print JSON, with all metadata in full");
      return [options](Console& console) {
        const Inspected file = inspect_weights(options->file);
        options->json ? print_inspected_json(file, console.out) : print_inspected(file, console.out);
        return kDone;
      };
    }};

}  // namespace luminal::cli
