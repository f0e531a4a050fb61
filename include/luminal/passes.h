#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "luminal/graph.h"
#include "luminal/math_mode.h"
#include "luminal/pass.h"

/// The generic passes: rewrites that help every backend.
///
///   cx.run_pass(GenericPasses(), loss);
///   auto [grads, rest] = cx.run_pass(std::tuple(Autograd(params, loss), Timed(GenericPasses())));
///
/// All of them are linear in the graph, obey their math mode, and respect views, marks, state, side effects
/// and order edges. A value that is marked (retrieve, keep), set or ordered keeps its node, so that the
/// handle's life cycle stays its own.
/// Thread safety: as the graph they belong to.
namespace luminal {

/// Drops what no root needs: roots are wanted values, next states, side effects, and the handles given to
/// `run_pass`. Inputs and values that hold data stay. Order edges through a dropped node are joined.
class RemoveUnusedNodes {
 public:
  static constexpr std::string_view kName = "RemoveUnusedNodes";
  void run(Graph& graph, Remap& remap) const;
};

/// Simplifies single ops: neutral and absorbing elements (x * 1), inverse pairs (recip(recip x), log2(exp2
/// x)), casts that change nothing, choices that are known, constants folded by the op's own evaluation,
/// constants of nested additions and products joined ((2*a)*3 = 6*a). Each rule states its math mode;
/// src/passes/arithmetic_rules.cpp has the list.
class ArithmeticElimination {
 public:
  static constexpr std::string_view kName = "ArithmeticElimination";
  explicit ArithmeticElimination(MathMode mode = MathMode::Relaxed) : mode_(mode) {}
  void run(Graph& graph, Remap& remap) const;

 private:
  MathMode mode_;
};

/// Common subexpressions are computed once. Operands of commutative ops may stand in either order (for floats
/// not in strict mode, where the bits of a NaN could tell). Inputs, side effects, opaque ops and ops whose
/// value differs from run to run are never merged.
class CSE {
 public:
  static constexpr std::string_view kName = "CSE";
  explicit CSE(MathMode mode = MathMode::Relaxed) : mode_(mode) {}
  void run(Graph& graph, Remap& remap) const;

 private:
  MathMode mode_;
};

/// Reductions over axes of size 1 become views. A sum does so in strict mode for integers only: 0 + -0 is 0.
class RemoveSingleReductions {
 public:
  static constexpr std::string_view kName = "RemoveSingleReductions";
  explicit RemoveSingleReductions(MathMode mode = MathMode::Relaxed) : mode_(mode) {}
  void run(Graph& graph, Remap& remap) const;

 private:
  MathMode mode_;
};

/// Everything above, in an order that lets each profit from the others.
class GenericPasses {
 public:
  static constexpr std::string_view kName = "GenericPasses";
  explicit GenericPasses(MathMode mode = MathMode::Relaxed) : mode_(mode) {}
  void run(Graph& graph, Remap& remap) const;

 private:
  MathMode mode_;
};

/// Fixes an execution order by order edges: depth first, the operand that needs most memory first, so that
/// few values live at once. Existing order edges and the program order of side effects hold. Source: Sethi &
/// Ullman 1970 (exact for trees, a heuristic for graphs).
class DepthFirst {
 public:
  static constexpr std::string_view kName = "DepthFirst";
  struct Order {
    std::vector<NodeId> order;  ///< every node
    int64_t peak_bytes_before;  ///< of computed values alive at once, in the order the graph had
    int64_t peak_bytes;         ///< in the new order
  };
  /// `assumed_dim`: the size of named dims that are not set yet, for the estimate.
  explicit DepthFirst(int64_t assumed_dim = 64) : assumed_dim_(assumed_dim) {}
  Order run(Graph& graph, Remap& remap) const;

 private:
  int64_t assumed_dim_;
};

/// Most bytes of computed values alive at once when the nodes run in the graph's own order, each value until
/// its last reader. `assumed_dim` as for DepthFirst.
[[nodiscard]] int64_t planned_peak_bytes(const Graph& graph, int64_t assumed_dim = 64);

/// Runs a pass (or tuple of passes) again and again: `times` times, or until the graph stays as it is.
/// Returns: how many rounds ran.  Errors: Error if it never comes to rest.
template <class P>
class Looped {
 public:
  static constexpr bool kWrapsPass = true;
  static constexpr int kUntilUnchanged = 0;
  explicit Looped(P pass, int times = kUntilUnchanged) : pass_(std::move(pass)), times_(times) {}
  [[nodiscard]] std::vector<GraphTensor> tensors() const { return detail::tensors_of(pass_); }
  int run(Graph& graph, Remap& remap) {
    for (int round = 1;; ++round) {
      const uint64_t before = graph.version();
      (void)detail::run_pass(pass_, graph, remap);
      if (times_ != kUntilUnchanged ? round >= times_ : graph.version() == before) return round;
      detail::check_rounds(detail::pass_name<P>(), round);
    }
  }

 private:
  P pass_;
  int times_;
};

/// Tells the time of each pass at LUMINAL_DEBUG=1: "[pass] CSE: 41 us (unchanged)". Returns what the pass
/// returns.
template <class P>
class Timed {
 public:
  static constexpr bool kWrapsPass = true;
  explicit Timed(P pass) : pass_(std::move(pass)) {}
  [[nodiscard]] std::vector<GraphTensor> tensors() const { return detail::tensors_of(pass_); }
  auto run(Graph& graph, Remap& remap) { return detail::run_pass(pass_, graph, remap, true); }

 private:
  P pass_;
};

}  // namespace luminal
