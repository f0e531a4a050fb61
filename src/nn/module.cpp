#include "luminal/nn/module.h"

#include <algorithm>
#include <memory>

#include "base/fail.h"

namespace luminal::nn {

void Serializer::add(std::string_view name, const GraphTensor& tensor, bool trainable) {
  std::string full;
  for (const std::string& part : path_) full += part + "/";
  full += name;
  if (std::ranges::find(entries_, full, &Entry::name) != entries_.end())
    fail("[serialize] two tensors are called '{}'; give each member of a module a name of its own", full);
  entries_.push_back({std::move(full), tensor, trainable});
}

namespace detail {
namespace {

std::string dotted(std::string name) {
  std::ranges::replace(name, '/', '.');
  return name;
}

std::string shape_text(const TensorData& data) {
  return fmt::format("{}[{}]", name(data.dtype), fmt::join(data.dims, ", "));
}

}  // namespace

std::map<std::string, TensorData> read_state(const std::vector<Serializer::Entry>& entries) {
  std::map<std::string, TensorData> state;
  for (const auto& entry : entries) state.emplace(dotted(entry.name), entry.tensor.data());
  return state;
}

void write_state(const std::vector<Serializer::Entry>& entries,
                 const std::map<std::string, TensorData>& state, bool strict) {
  std::vector<std::string> missing, unexpected;
  for (const auto& [name, data] : state)
    if (std::ranges::none_of(entries, [&](const auto& entry) { return dotted(entry.name) == name; }))
      unexpected.push_back(name);
  for (const auto& entry : entries) {
    const auto found = state.find(dotted(entry.name));
    if (found == state.end()) {
      missing.push_back(dotted(entry.name));
      continue;
    }
    const TensorType type = entry.tensor.type();
    const std::vector<int64_t> dims = exec(type.dims, {});
    if (found->second.dtype != type.dtype || found->second.dims != dims)
      fail<ShapeError>(
          "[load_state_dict] '{}' is {} in the file and {} in the model; load weights of the same model",
          found->first, shape_text(found->second), type.to_string());
  }
  if (strict && !(missing.empty() && unexpected.empty()))
    fail(
        "[load_state_dict] names differ: missing [{}], unexpected [{}]; pass strict = false to load what "
        "fits",
        fmt::join(missing, ", "), fmt::join(unexpected, ", "));
  for (const auto& entry : entries)
    if (const auto found = state.find(dotted(entry.name)); found != state.end()) {
      GraphTensor tensor = entry.tensor;
      tensor.set(TensorData(found->second));
    }
}

}  // namespace detail
}  // namespace luminal::nn
