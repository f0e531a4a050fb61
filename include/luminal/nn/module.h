#pragma once
#include <array>
#include <concepts>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "luminal/graph.h"
#include "luminal/graph_tensor.h"
#include "luminal/tensor_data.h"

/// Modules: plain structs that hold weights, a `forward` and a `serialize`.
///
///   struct Classifier {
///     nn::Linear hidden, out;
///     Classifier(Graph& cx) : hidden(cx, 784, 128), out(cx, 128, 10) {}
///     GraphTensor forward(const GraphTensor& x) const { return out.forward(hidden.forward(x).relu()); }
///     void serialize(nn::Serializer& s) const { s.module("hidden", hidden); s.module("out", out); }
///   };
///   auto weights = nn::params(model);            // to train
///   auto saved = nn::state_dict(model);          // "hidden.weight", ...: PyTorch's names and layouts
namespace luminal::nn {

/// Walks a model and collects its tensors under names like "layer1/conv/weight".
class Serializer {
 public:
  struct Entry {
    std::string name;  ///< path, parts joined by '/'
    GraphTensor tensor;
    bool trainable = true;
  };

  /// A weight: saved and trained.
  void tensor(std::string_view name, const GraphTensor& tensor) { add(name, tensor, true); }
  /// Saved but not trained (running statistics).
  void buffer(std::string_view name, const GraphTensor& tensor) { add(name, tensor, false); }
  template <class M>
  void module(std::string_view name, const M& module) {
    path_.emplace_back(name);
    module.serialize(*this);
    path_.pop_back();
  }
  /// Collections of modules: members are named by position, "0", "1", ...
  template <class M>
  void module(std::string_view name, const std::vector<M>& modules) {
    members(name, modules);
  }
  template <class M, size_t N>
  void module(std::string_view name, const std::array<M, N>& modules) {
    members(name, modules);
  }

  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }

 private:
  /// Errors: Error if the name is taken.
  void add(std::string_view name, const GraphTensor& tensor, bool trainable);
  template <class R>
  void members(std::string_view name, const R& modules) {
    path_.emplace_back(name);
    size_t i = 0;
    for (const auto& each : modules) module(std::to_string(i++), each);
    path_.pop_back();
  }
  std::vector<std::string> path_;
  std::vector<Entry> entries_;
};

template <class M>
concept SerializableModule = requires(const M& m, Serializer& s) { m.serialize(s); };
template <class M>
concept Module = SerializableModule<M> && requires(const M& m, const GraphTensor& x) {
  { m.forward(x) } -> std::convertible_to<GraphTensor>;
};

template <SerializableModule M>
[[nodiscard]] std::vector<Serializer::Entry> entries(const M& module) {
  Serializer serializer;
  module.serialize(serializer);
  return serializer.entries();
}

/// Name -> weight, "layer1/conv/weight"; weights that are trained and buffers alike.
template <SerializableModule M>
[[nodiscard]] std::map<std::string, GraphTensor> param_dict(const M& module) {
  std::map<std::string, GraphTensor> dict;
  for (const auto& entry : entries(module)) dict.emplace(entry.name, entry.tensor);
  return dict;
}

/// The trained weights, in the order of serialize.
template <SerializableModule M>
[[nodiscard]] std::vector<GraphTensor> params(const M& module) {
  std::vector<GraphTensor> list;
  for (const auto& entry : entries(module))
    if (entry.trainable) list.push_back(entry.tensor);
  return list;
}

namespace detail {
[[nodiscard]] std::map<std::string, TensorData> read_state(const std::vector<Serializer::Entry>& entries);
void write_state(const std::vector<Serializer::Entry>& entries,
                 const std::map<std::string, TensorData>& state, bool strict);
}  // namespace detail

/// The present values under PyTorch's names ("layer1.conv.weight"). Errors: Error if a weight has no value.
template <SerializableModule M>
[[nodiscard]] std::map<std::string, TensorData> state_dict(const M& module) {
  return detail::read_state(entries(module));
}

/// Sets the weights from a state_dict. Nothing is changed if anything does not fit. Errors: ShapeError,
/// DtypeError; if `strict`, Error that lists missing and unexpected names.
template <SerializableModule M>
void load_state_dict(const M& module, const std::map<std::string, TensorData>& state, bool strict = true) {
  detail::write_state(entries(module), state, strict);
}

/// Passes its input on.
struct Identity {
  [[nodiscard]] GraphTensor forward(const GraphTensor& x) const { return x; }
  void serialize(Serializer&) const {}
};

/// Modules one after the other, named by position: Sequential(Linear(...), ReLU(), Linear(...)).
template <Module... M>
struct Sequential {
  std::tuple<M...> modules;
  explicit Sequential(M... each) : modules(std::move(each)...) {}
  [[nodiscard]] GraphTensor forward(const GraphTensor& x) const {
    GraphTensor y = x;
    std::apply([&](const auto&... each) { ((y = each.forward(y)), ...); }, modules);
    return y;
  }
  void serialize(Serializer& s) const {
    size_t i = 0;
    std::apply([&](const auto&... each) { (s.module(std::to_string(i++), each), ...); }, modules);
  }
};

/// Equal modules one after the other: a vector or an array of them.
template <class R>
struct SequentialOf {
  R modules;
  explicit SequentialOf(R each) : modules(std::move(each)) {}
  [[nodiscard]] GraphTensor forward(const GraphTensor& x) const {
    GraphTensor y = x;
    for (const auto& each : modules) y = each.forward(y);
    return y;
  }
  void serialize(Serializer& s) const {
    size_t i = 0;
    for (const auto& each : modules) s.module(std::to_string(i++), each);
  }
};

}  // namespace luminal::nn
