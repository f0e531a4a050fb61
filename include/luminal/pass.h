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

/// Passes: anything with `run(Graph&, Remap&)`. Tuples of passes are passes.
///
///   auto [unused, grads] = cx.run_pass(std::tuple(GenericPasses(), Autograd(params, loss)));
///
/// A pass that works on certain tensors lists them in `tensors()`: none of the passes that run together with
/// it removes them.
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
concept Pass = requires(P pass, Graph& graph, Remap& remap) { pass.run(graph, remap); };

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

/// The tensors that a pass, or any pass of a tuple, lists as those that it works on.
template <class P>
[[nodiscard]] std::vector<GraphTensor> tensors_of(const P& pass) {
  if constexpr (IsTuple<P>::value) {
    std::vector<GraphTensor> all;
    const auto append = [&](const std::vector<GraphTensor>& some) {
      all.insert(all.end(), some.begin(), some.end());
    };
    std::apply([&](const auto&... each) { (append(tensors_of(each)), ...); }, pass);
    return all;
  } else if constexpr (requires { pass.tensors(); }) {
    return pass.tensors();
  } else {
    return {};
  }
}

/// Runs a pass or a tuple of passes; a pass that returns nothing gives std::monostate inside a tuple.
template <class P>
auto run_pass(P& pass, Graph& graph, Remap& remap, bool timed = false) {
  if constexpr (IsTuple<std::remove_cvref_t<P>>::value) {
    return std::apply([&](auto&... each) { return std::tuple{run_pass(each, graph, remap, timed)...}; },
                      pass);
  } else if constexpr (WrapsPass<std::remove_cvref_t<P>>) {
    return pass.run(graph, remap);
  } else {
    const PassLog log(graph, pass_name<P>(), timed);
    if constexpr (std::is_void_v<decltype(pass.run(graph, remap))>) {
      pass.run(graph, remap);
      return std::monostate{};
    } else {
      return pass.run(graph, remap);
    }
  }
}

/// Errors: Error if a pass that is repeated until nothing changes is at it for too many rounds.
void check_rounds(const std::string& pass, int rounds);

}  // namespace detail

}  // namespace luminal
