#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "luminal/graph.h"

/// User code as a node of a graph.
///
///   auto sorted = function(cx, "sort", {x}, {x.type()}, [](auto inputs, auto outputs) {
///     auto from = inputs[0]->template as<float>();
///     auto to = outputs[0].template as<float>();
///     std::ranges::partial_sort_copy(from, to);
///   })[0];
///
/// The code runs on the host at each run of the graph, in program order with the graph's other side effects;
/// compilers treat it as a closed box.
namespace luminal {

/// What the node of a function holds.
struct HostFunction : Payload {
  /// Inputs are dense, with their views applied; outputs have their dims and are filled with zeros.
  using Run = std::function<void(std::span<const TensorData* const> inputs, std::span<TensorData> outputs)>;
  std::string name;
  std::vector<TensorType> outputs;
  Run run;
  GradientRule gradient;  ///< empty: gradients that reach the node are an error
};

/// Adds a node that calls `run`. Output dims may be symbolic.
/// Errors: Error if there is no output, or a gradient rule though there are several outputs.
[[nodiscard]] std::vector<GraphTensor> function(Graph& cx, std::string name,
                                                std::span<const GraphTensor> inputs,
                                                std::vector<TensorType> outputs, HostFunction::Run run,
                                                GradientRule gradient = {}, Where where = Where::current());
[[nodiscard]] inline std::vector<GraphTensor> function(Graph& cx, std::string name,
                                                       std::initializer_list<GraphTensor> inputs,
                                                       std::vector<TensorType> outputs, HostFunction::Run run,
                                                       GradientRule gradient = {},
                                                       Where where = Where::current()) {
  return function(cx, std::move(name), std::span(inputs.begin(), inputs.size()), std::move(outputs),
                  std::move(run), std::move(gradient), where);
}

/// A user's kernel for some devices, and optionally a function that says what it computes.
struct CustomKernel : Payload {
  std::string name;  ///< the entry point in each source
  std::map<std::string, std::string, std::less<>>
      sources;  ///< by target: "c", "opencl", "cuda", "hip", "metal"
  std::vector<TensorType> outputs;
  Shape work_items;             ///< one to three extents over which the kernel is launched
  Shape group;                  ///< work items of one group along each; empty: the backend chooses
  HostFunction::Run reference;  ///< for devices without a source, and for tests; may be empty
  GradientRule gradient;        ///< empty: gradients that reach the node are an error
};

/// Adds a node that launches `kernel`. The kernel's arguments are the inputs, then the outputs, all dense.
/// Errors: Error if it has no output, or neither a source nor a reference.
[[nodiscard]] std::vector<GraphTensor> custom_kernel(Graph& cx, CustomKernel kernel,
                                                     std::span<const GraphTensor> inputs,
                                                     Where where = Where::current());

}  // namespace luminal
