#pragma once
#include <concepts>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "luminal/graph_tensor.h"
#include "luminal/node.h"

/// Passes: anything with `compile(Graph&, Remap&)`. Tuples of passes are passes.
///
///   auto [unused, grads] = cx.compile(std::tuple(GenericCompiler(), Autograd(params, loss)), loss, params);
namespace luminal {

class Graph;

/// What a pass has to keep reachable, and where values went. Handles find replaced values by themselves
/// (Graph::replace forwards them); the list here says which of them are wanted after the pass though nothing
/// in the graph reads them.
class Remap {
 public:
  Remap() = default;
  explicit Remap(std::vector<GraphTensor> handles) : handles_(std::move(handles)) {}
  /// The values of the handles as they stand now.
  [[nodiscard]] std::vector<Value> roots() const;

 private:
  std::vector<GraphTensor> handles_;
};

template <class P>
concept Compiler = requires(P pass, Graph& graph, Remap& remap) { pass.compile(graph, remap); };

namespace detail {

template <class T>
struct IsTuple : std::false_type {};
template <class... T>
struct IsTuple<std::tuple<T...>> : std::true_type {};

/// Runs a pass or a tuple of passes; a pass that returns nothing gives std::monostate inside a tuple.
template <class P>
auto run_pass(P& pass, Graph& graph, Remap& remap) {
  if constexpr (IsTuple<std::remove_cvref_t<P>>::value) {
    return std::apply([&](auto&... each) { return std::tuple{run_pass(each, graph, remap)...}; }, pass);
  } else if constexpr (std::is_void_v<decltype(pass.compile(graph, remap))>) {
    pass.compile(graph, remap);
    return std::monostate{};
  } else {
    return pass.compile(graph, remap);
  }
}

}  // namespace detail

}  // namespace luminal
