#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "search/cover/plan_graph.h"
#include "search/cover/topological_order.h"

namespace luminal::search {

/// The plan in which each class in memory takes its cheapest fusion, kept up to date as classes leave memory
/// and come back: a step costs what it touches. Readers are counted from the roots, as in area recovery of
/// technology mapping; a topological order that is mended as readings come and go finds cycles.
class LivePlan {
 public:
  explicit LivePlan(const PlanGraph& graph);
  void start(const std::vector<char>& in_memory);
  /// Classes that are in memory leave it, others come back.
  void flip(std::span<const int> classes);
  /// Takes the last flip, of the same classes, back.
  void undo(std::span<const int> classes);
  /// A guess has become a price, by which these classes have other costs.
  void reprice(int guess, std::span<const int> classes);

  /// Infinite if there is no plan. Of a cyclic plan it says nothing.
  [[nodiscard]] double cost_us() const { return stuck_ > 0 || conflicts_ > 0 ? kImpossible : cost_us_; }
  [[nodiscard]] bool is_cyclic() const { return !loose_.empty(); }
  [[nodiscard]] const std::vector<char>& in_memory() const { return in_memory_; }
  [[nodiscard]] bool is_read(int node) const { return reads_[static_cast<size_t>(node)] > 0; }
  /// By class; -1: nobody needs it, or nothing makes it.
  [[nodiscard]] std::vector<int> fusions() const;
  /// The dearest guess (PlanGraph) of the plan.
  [[nodiscard]] std::optional<int> dearest_guess() const;
  /// Nodes on which the outcome of what was done since `forget_touched` depends, or which it changed; each once.
  [[nodiscard]] const std::vector<int>& touched() const { return touched_; }
  void forget_touched() {
    touched_.clear();
    ++stamp_;
  }
  /// Nodes that were looked at since the plan was made: what steps cost, for tests.
  [[nodiscard]] uint64_t work() const { return work_ + order_.work(); }

 private:
  void reconsider(int c);
  void take(int c, const PlanGraph::Entry& entry);
  void drop(int c);
  void touch(int node) {
    uint64_t& stamp = stamps_[static_cast<size_t>(node)];
    if (std::exchange(stamp, stamp_) != stamp_) touched_.push_back(node);
  }
  void retain(int node);
  void release(int node);
  void propagate();
  void put_in_order();
  [[nodiscard]] bool in_order(int node, int read);
  [[nodiscard]] std::span<const int> ordered_reads(int node) const;

  const PlanGraph& graph_;
  std::vector<char> in_memory_;
  PlanGraph::Ready ready_;  ///< the same, as fusions ask for it
  std::vector<int> reads_;  ///< by node: how many nodes and roots read it
  std::vector<char> alive_;
  std::vector<PlanGraph::Entry> pick_;  ///< by class
  std::vector<int> computed_;           ///< by class that may be computed once: kernels that do
  std::vector<int> takers_;             ///< by guess: classes that take it
  int taken_guesses_ = 0;               ///< that have takers
  std::vector<int> births_, deaths_, touched_;
  std::vector<uint64_t> stamps_;  ///< by node: the stamp when it was touched last
  uint64_t stamp_ = 1;
  double cost_us_ = 0;
  std::optional<double> cost_before_us_;  ///< the last flip, unless prices have changed since
  int stuck_ = 0, conflicts_ = 0;
  uint64_t work_ = 0;

  TopologicalOrder order_;
  std::vector<int> ordered_;  ///< by node: how many of its readings the order knows
  std::vector<int> loose_;    ///< nodes with readings that it does not
};

}  // namespace luminal::search
