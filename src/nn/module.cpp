#include "luminal/nn/module.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "base/fail.h"

namespace luminal::nn {

namespace {

/// Messages, profiles and pictures call a weight by its path in the model: "layers/0/q_proj/weight". What the
/// user called otherwise keeps its name, and so does a weight that two modules share.
void name_by_path(GraphTensor tensor, const std::string& path) {
  if (!tensor.valid()) return;
  const std::string own = tensor.name();
  if (!own.empty() && path.ends_with("/" + own)) tensor.set_name(path);
}

}  // namespace

void Serializer::add(std::string_view name, const GraphTensor& tensor, bool trainable) {
  std::string full;
  for (const std::string& part : path_) full += part + "/";
  full += name;
  if (std::ranges::find(entries_, full, &Entry::name) != entries_.end())
    fail("[serialize] two tensors are called '{}'; give each member of a module its own name", full);
  name_by_path(tensor, full);
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

void check_fits(const std::string& name, const TensorData& data, const TensorType& type) {
  constexpr std::string_view kRemedy = "load weights of the same model";
  if (data.dims != exec(type.dims, {}))
    fail<ShapeError>("[load_state_dict] '{}' is {} in the file and {} in the model; {}", name,
                     shape_text(data), type.to_string(), kRemedy);
  if (data.dtype != type.dtype && !(is_float(data.dtype) && is_float(type.dtype)))
    fail<DtypeError>("[load_state_dict] '{}' is {} in the file and {} in the model; {}", name,
                     shape_text(data), type.to_string(), kRemedy);
}

}  // namespace

std::vector<GraphTensor> trained(const std::vector<Serializer::Entry>& entries) {
  std::vector<GraphTensor> list;
  std::set<Value> seen;
  for (const auto& entry : entries)
    if (entry.trainable && seen.insert(entry.tensor.edge().source).second) list.push_back(entry.tensor);
  return list;
}

std::map<std::string, TensorData> read_state(const std::vector<Serializer::Entry>& entries) {
  std::map<std::string, TensorData> state;
  for (const auto& entry : entries) state.emplace(dotted(entry.name), entry.tensor.data());
  return state;
}

void write_state(const std::vector<Serializer::Entry>& entries,
                 const std::map<std::string, TensorData>& state, bool strict) {
  std::vector<std::string> missing, unexpected;
  std::set<std::string> known;
  for (const auto& entry : entries) {
    const std::string name = dotted(entry.name);
    known.insert(name);
    if (const auto found = state.find(name); found != state.end())
      check_fits(name, found->second, entry.tensor.type());
    else
      missing.push_back(name);
  }
  for (const auto& [name, data] : state)
    if (!known.contains(name)) unexpected.push_back(name);
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
