#pragma once
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "search/cover/plan_graph.h"

namespace luminal::search {

/// Which classes are in memory, and the fusion each of them takes.
struct Selection {
  std::vector<int> fusion;  ///< by class; -1: nobody needs the class in memory
  double cost_us = 0;
  double unfused_us = 0;  ///< with every class in memory; at least this where prices were not asked for
  int flips = 0;
};

/// Chooses what is in memory: everything at first, then one mark at a time is taken out or put back while
/// the plan gets cheaper. Each class in memory takes its cheapest fusion over the others; a cycle makes the
/// classes on it take downhill fusions. Where the costs of fusions are guesses this is done with the guesses
/// first, and from there again with the prices of all fusions that would make a plan cheaper.
class Selector {
 public:
  /// What a spec costs, in us.
  using Price = std::function<double(SpecId)>;
  /// With `price` the costs of fusions are guesses, each the least that it may turn out to be: it is asked
  /// where a fusion would be in a better plan.
  Selector(const CoverProblem& problem, const Structure& structure,
           const std::vector<std::vector<Fusion>>& fusions, Price price = {});
  /// Errors: InternalError if there is no plan at all.
  Selection run();
  /// Cost of the plan over the given classes in memory, infinite if there is none. For tests: an exhaustive
  /// search asks for every subset.
  double cost_of(const std::vector<char>& in_memory);
  /// Classes that must be in memory.
  [[nodiscard]] const std::vector<char>& forced() const { return graph_.forced(); }
  /// The plan made from nothing, with costs as they are known.
  [[nodiscard]] Selection plan_of(const std::vector<char>& in_memory);
  [[nodiscard]] const PlanGraph& graph() const { return graph_; }

 private:
  struct Descent;
  [[nodiscard]] std::optional<std::span<const int>> open(int node, const PlanGraph::Ready& ready,
                                                         Selection& selection);
  /// One depth-first walk from what is wanted. False if it meets a cycle, whose classes become restricted.
  bool walk(const PlanGraph::Ready& ready, Selection& selection, double most, bool& possible);
  /// The cost; infinite if there is no plan, or none below `most`.
  double plan(const std::vector<char>& in_memory, Selection& selection, double most);
  /// The plan and its cost without guesses, unless it costs `most` or more even with them.
  double settled_plan(const std::vector<char>& in_memory, Selection& selection, double most);
  /// The dearest guess (PlanGraph) that a plan takes.
  [[nodiscard]] std::optional<int> dearest_guess(const Selection& selection) const;
  /// Returns the classes that have fusions of the guess's spec.
  std::vector<int> ask_price(int guess) {
    return graph_.set_price(guess, price_(graph_.guesses()[static_cast<size_t>(guess)].spec));
  }
  [[nodiscard]] std::vector<std::vector<int>> groups() const;

  const Structure& structure_;
  Price price_;
  PlanGraph graph_;
  enum class Mark : uint8_t { New, Open, Done };
  struct Frame {
    int node;
    size_t next;
    std::span<const int> children;
  };
  struct {
    std::vector<Mark> mark;
    std::vector<char> computed, restricted;  ///< by class; restricted ones take downhill fusions
    std::vector<Frame> stack;
  } state_;  ///< of a walk, kept for the next one
};

}  // namespace luminal::search
