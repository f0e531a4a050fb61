#pragma once
#include <chrono>
#include <concepts>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
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
/// in the graph reads them. Thread safety: as the graph it is for.
class Remap {
 public:
  Remap() = default;
  explicit Remap(std::vector<GraphTensor> handles) : handles_(std::move(handles)) {}
  /// The values of the handles as they stand now.
  [[nodiscard]] std::vector<Value> roots() const;
  /// Keeps `tensor` reachable for the passes that follow: what a pass hands to its caller.
  void keep(GraphTensor tensor) { handles_.push_back(std::move(tensor)); }

 private:
  std::vector<GraphTensor> handles_;
};

template <class P>
concept Compiler = requires(P pass, Graph& graph, Remap& remap) { pass.compile(graph, remap); };

namespace detail {

/// Tells about one pass while it lives: LUMINAL_DEBUG=5 shows the graph before and after it, `timed` ones
/// tell their time from LUMINAL_DEBUG=1 on. A graph that stays as it was is marked "(unchanged)".
/// Thread safety: one thread at a time.
class PassLog {
 public:
  PassLog(const Graph& graph, std::string pass, bool timed);
  PassLog(const PassLog&) = delete;
  PassLog& operator=(const PassLog&) = delete;
  ~PassLog();

 private:
  const Graph* graph_;
  std::string pass_;
  bool timed_;
  uint64_t version_;
  std::chrono::steady_clock::time_point start_;
};

[[nodiscard]] std::string readable_name(const std::type_info& type);
/// What logs call a pass: its kName, or else its type.
template <class P>
[[nodiscard]] std::string pass_name() {
  using Plain = std::remove_cvref_t<P>;
  if constexpr (requires { std::string(Plain::kName); })
    return std::string(Plain::kName);
  else
    return readable_name(typeid(Plain));
}

template <class T>
struct IsTuple : std::false_type {};
template <class... T>
struct IsTuple<std::tuple<T...>> : std::true_type {};

/// Passes that only run others: they are not logged themselves.
template <class P>
concept WrapsPass = P::kWrapsPass;

/// Runs a pass or a tuple of passes; a pass that returns nothing gives std::monostate inside a tuple.
template <class P>
auto run_pass(P& pass, Graph& graph, Remap& remap, bool timed = false) {
  if constexpr (IsTuple<std::remove_cvref_t<P>>::value) {
    return std::apply([&](auto&... each) { return std::tuple{run_pass(each, graph, remap, timed)...}; },
                      pass);
  } else if constexpr (WrapsPass<std::remove_cvref_t<P>>) {
    return pass.compile(graph, remap);
  } else {
    const PassLog log(graph, pass_name<P>(), timed);
    if constexpr (std::is_void_v<decltype(pass.compile(graph, remap))>) {
      pass.compile(graph, remap);
      return std::monostate{};
    } else {
      return pass.compile(graph, remap);
    }
  }
}

/// Errors: Error if a pass that is repeated until nothing changes is at it for too many rounds.
void check_rounds(const std::string& pass, int rounds);

}  // namespace detail

}  // namespace luminal
