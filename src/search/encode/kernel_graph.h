#pragma once
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "kernel/spec.h"
#include "luminal/graph.h"
#include "luminal/math_mode.h"

namespace luminal::search {

/// Number of a tensor of a program.
using TensorId = int;

/// What a run of a graph has to compute, cut as finely as the user wrote it: the input of the search.
///
///   x.softmax(-1).retrieve()
///   0: input f32[32,1000]                       2: kernel(0, 1)  exp2((A[r,j] - B[r]) * 1.44)
///   1: kernel(0)  max j: A[r,j]                 3: kernel(2)     sum j: A[r,j]          ...
///
/// Views stand in the loads of the specs, constants and formulas in their bodies. An elementwise node that
/// one other node reads, each element at most once, stands in that node's spec.
struct KernelGraph {
  struct Tensor {
    enum class Kind : uint8_t {
      Input,   ///< there before the run
      Kernel,  ///< `spec` of `arguments`
      Host,    ///< output `output` of hosts[host]
    };
    Kind kind = Kind::Input;
    TensorType type;
    std::optional<Value> value;  ///< of the graph; none for copies made for a reader
    kernel::KernelSpec spec;
    std::vector<TensorId> arguments;  ///< by slot
    int host = -1, output = 0;
    /// A sum that both sides of a comparison depend on (the gradient of a maximum): in another order it may
    /// come out unequal to itself, so a plan computes it once.
    bool no_recompute = false;
    std::vector<NodeId> covers;  ///< the graph's nodes the spec computes, its own last
  };
  /// An op that runs by its record on dense tensors; nothing is known of what it does.
  struct Host {
    NodeId node;
    std::vector<TensorId> inputs, outputs;
    std::vector<int> after;  ///< hosts that run before it, though no data may flow
    bool must_run = false;   ///< for its side effect
  };
  std::vector<Tensor> tensors;                      ///< arguments before readers
  std::vector<Host> hosts;                          ///< in an order that obeys `after`
  std::vector<std::pair<Value, TensorId>> results;  ///< values the graph wants
  std::vector<std::pair<Value, TensorId>> updates;  ///< states and their next values
};

/// The needed part of the graph (graph/needed.h). `everything`: all values are results, and nothing is
/// folded.
[[nodiscard]] KernelGraph encode(const Graph& graph, bool everything = false,
                                 MathMode mode = MathMode::Relaxed);

/// The spec of a dense copy of `view`, one slot; of blocks, what they decode to.
[[nodiscard]] kernel::KernelSpec copy_spec(const ShapeTracker& view, Dtype dtype);

}  // namespace luminal::search
