#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "egraph/core/state.h"

namespace luminal::egraph {

inline constexpr Cost kInfinite = std::numeric_limits<Cost>::infinity();

/// What may be extracted, as a hypergraph: *parts* (e-classes and container values), each made by one of its
/// *options* (constructor rows; a container has one) from child parts and literals.
class ExtractionGraph {
 public:
  using Part = uint32_t;
  using Option = uint32_t;
  static constexpr uint32_t kNone = 0xffffffff;

  struct OptionInfo {
    Part part;
    FunctionId function;   ///< of a row
    Row row;               ///< kNoRow for a container
    uint32_t first_child;  ///< in `children`
    Cost own;              ///< additive cost of the node with its literals, its child parts not counted
  };
  struct PartInfo {
    SortId sort;
    Value value;
  };

  ExtractionGraph(EGraph& graph, const CostModel& model);

  [[nodiscard]] EGraph& graph() const { return graph_; }
  [[nodiscard]] const CostModel& model() const { return model_; }
  [[nodiscard]] size_t part_count() const { return parts_.size(); }
  [[nodiscard]] size_t option_count() const { return options_.size() - 1; }
  [[nodiscard]] const PartInfo& part(Part p) const { return parts_[p]; }
  [[nodiscard]] const OptionInfo& option(Option o) const { return options_[o]; }
  [[nodiscard]] std::span<const Part> children(Option o) const {
    return {children_.data() + options_[o].first_child, children_.data() + options_[o + 1].first_child};
  }
  [[nodiscard]] std::span<const Option> options_of(Part p) const {
    return {options_by_part_.data() + options_begin_[p], options_by_part_.data() + options_begin_[p + 1]};
  }
  /// kNone if no option makes the value.
  [[nodiscard]] Part find(SortId sort, Value value) const;
  [[nodiscard]] bool is_literal(SortId sort) const { return graph_.state().at(sort).kind == SortKind::Plain; }
  [[nodiscard]] Cost literal_cost(SortId sort, Value value) const;
  /// Total cost of an option whose child parts cost `cost_of(part)`.
  [[nodiscard]] Cost cost(Option o, std::span<const Cost> child_costs) const;
  /// Appends one node for an option whose children are nodes of `dag` already; literals are added. `literals`
  /// shares them.
  uint32_t append_node(TermDag& dag, Option o, std::span<const uint32_t> child_nodes,
                       std::unordered_map<uint64_t, uint32_t>& literals) const;

 private:
  Part part_of(SortId sort, Value value);
  void add_row(FunctionId f, const FunctionInfo& info, Row row);
  void add_container(Part part);

  EGraph& graph_;
  const CostModel& model_;
  std::vector<PartInfo> parts_;
  std::vector<OptionInfo> options_;  // one more at the end, for first_child
  std::vector<Part> children_;
  std::vector<uint32_t> options_begin_;
  std::vector<Option> options_by_part_;
  std::vector<Part> part_of_id_;
  std::unordered_map<uint64_t, Part> part_of_container_;
};

/// Tree costs by a shortest-path search over the hypergraph (Knuth 1977): a part is final when its cheapest
/// option is, and that one uses parts that were final before, so the choice has no cycle.
struct TreeChoice {
  std::vector<Cost> cost;                       ///< by part; infinity if it can't be made
  std::vector<ExtractionGraph::Option> option;  ///< by part
  std::vector<Cost> option_cost;                ///< by option; infinity if a child can't be made
  std::vector<uint32_t> rank;                   ///< by part: position in the order of becoming final
};
[[nodiscard]] TreeChoice cheapest_trees(const ExtractionGraph& graph);

/// Parts reachable from the root through `choice`, children first.
[[nodiscard]] std::vector<ExtractionGraph::Part> reachable_in_order(
    const ExtractionGraph& graph, const std::vector<ExtractionGraph::Option>& choice,
    ExtractionGraph::Part root);

[[nodiscard]] TermDag term_of_choice(const ExtractionGraph& graph,
                                     const std::vector<ExtractionGraph::Option>& choice,
                                     ExtractionGraph::Part root);

[[nodiscard]] std::vector<TermDag> cheapest_k(const ExtractionGraph& graph, const TreeChoice& trees,
                                              ExtractionGraph::Part root, size_t k);

[[nodiscard]] TermDag cheapest_dag(const ExtractionGraph& graph, const TreeChoice& trees,
                                   ExtractionGraph::Part root, size_t exact_parts);

}  // namespace luminal::egraph
