#pragma once
#include <array>
#include <concepts>
#include <map>
#include <memory>
#include <optional>
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
///
/// Copies of a module share its weights and its mode, as copies of a tensor share its value.
/// Thread safety: as the graph they belong to.
namespace luminal::nn {

/// A graph, and the line that builds a module in it: what constructors of modules take. A Graph becomes one
/// where it is passed, and members of a module get their owner's: weights have the user's line.
struct GraphSite {
  Graph* graph;
  Where where;
  GraphSite(Graph& cx, Where at = Where::current()) : graph(&cx), where(at) {}
  operator Graph&() const { return *graph; }
};

/// Whether a module trains: a handle, shared by the module's copies. What `forward` adds to the graph depends
/// on the mode at that moment; a graph that was built does not change with it. To train and evaluate, call
/// `forward` once in each mode (in one graph or in two).
class Mode {
 public:
  [[nodiscard]] bool training() const { return *training_; }
  void set(bool training) const { *training_ = training; }

 private:
  std::shared_ptr<bool> training_ = std::make_shared<bool>(true);
};

/// Walks a model and collects its tensors under names like "layer1/conv/weight", which their nodes take on.
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
  /// What `nn::train` and `nn::eval` switch.
  void mode(const Mode& mode) { modes_.push_back(mode); }
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

  template <class M>
  void module(std::string_view name, const std::map<std::string, M>& modules) {
    path_.emplace_back(name);
    for (const auto& [key, each] : modules) module(key, each);
    path_.pop_back();
  }
  /// Nothing if there is no module.
  template <class M>
  void module(std::string_view name, const std::optional<M>& maybe) {
    if (maybe) module(name, *maybe);
  }

  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }
  [[nodiscard]] const std::vector<Mode>& modes() const { return modes_; }

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
  std::vector<Mode> modes_;
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

namespace detail {
/// The trained ones; a weight used in two places (a tied head) appears once.
[[nodiscard]] std::vector<GraphTensor> trained(const std::vector<Serializer::Entry>& entries);
}  // namespace detail

/// The trained weights, in the order of serialize; one that is shared comes once.
template <SerializableModule M>
[[nodiscard]] std::vector<GraphTensor> params(const M& module) {
  return detail::trained(entries(module));
}

/// Puts a model and all its members in training mode (dropout acts, BatchNorm uses the batch's statistics) or
/// out of it, for the calls of `forward` that follow. New modules train.
template <SerializableModule M>
void train(const M& module, bool training = true) {
  Serializer serializer;
  module.serialize(serializer);
  for (const Mode& mode : serializer.modes()) mode.set(training);
}
template <SerializableModule M>
void eval(const M& module) {
  train(module, false);
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

/// Sets the weights from a state_dict; floats convert to the model's own dtype. Nothing is changed if
/// anything does not fit. Errors: ShapeError, DtypeError; if `strict`, Error that lists missing and
/// unexpected names.
template <SerializableModule M>
void load_state_dict(const M& module, const std::map<std::string, TensorData>& state, bool strict = true) {
  detail::write_state(entries(module), state, strict);
}

namespace detail {
/// Calls `forward` with the user's line if the module takes one.
template <class M>
[[nodiscard]] GraphTensor forward_at(const M& module, const GraphTensor& x, Where where) {
  if constexpr (requires { module.forward(x, where); })
    return module.forward(x, where);
  else
    return module.forward(x);
}
}  // namespace detail

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
  [[nodiscard]] GraphTensor forward(const GraphTensor& x, Where where = Where::current()) const {
    GraphTensor y = x;
    std::apply([&](const auto&... each) { ((y = detail::forward_at(each, y, where)), ...); }, modules);
    return y;
  }
  void serialize(Serializer& s) const {
    size_t i = 0;
    std::apply([&](const auto&... each) { (s.module(std::to_string(i++), each), ...); }, modules);
  }
};

/// Any module, behind one type, for lists of different ones.
class AnyModule {
 public:
  template <Module M>
    requires(!std::same_as<M, AnyModule>)
  AnyModule(M module) : held_(std::make_shared<Held<M>>(std::move(module))) {}
  [[nodiscard]] GraphTensor forward(const GraphTensor& x, Where where = Where::current()) const {
    return held_->forward(x, where);
  }
  void serialize(Serializer& s) const { held_->serialize(s); }

 private:
  struct Interface {
    virtual ~Interface() = default;
    [[nodiscard]] virtual GraphTensor forward(const GraphTensor& x, Where where) const = 0;
    virtual void serialize(Serializer& s) const = 0;
  };
  template <class M>
  struct Held final : Interface {
    M module;
    explicit Held(M m) : module(std::move(m)) {}
    [[nodiscard]] GraphTensor forward(const GraphTensor& x, Where where) const override {
      return detail::forward_at(module, x, where);
    }
    void serialize(Serializer& s) const override { module.serialize(s); }
  };
  std::shared_ptr<const Interface> held_;
};

/// Modules one after the other: a vector or an array of one type, AnyModule for different ones.
template <class R>
struct SequentialOf {
  R modules;
  explicit SequentialOf(R each) : modules(std::move(each)) {}
  [[nodiscard]] GraphTensor forward(const GraphTensor& x, Where where = Where::current()) const {
    GraphTensor y = x;
    for (const auto& each : modules) y = detail::forward_at(each, y, where);
    return y;
  }
  void serialize(Serializer& s) const {
    size_t i = 0;
    for (const auto& each : modules) s.module(std::to_string(i++), each);
  }
};

}  // namespace luminal::nn
