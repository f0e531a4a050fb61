#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "luminal/graph.h"
#include "luminal/pass.h"

/// Pattern search over graphs, for passes that look for a few connected nodes.
///
///   using namespace luminal::select;
///   auto x = node();
///   auto inner = op(kRecip, {x});
///   for (GraphSearch search(unary(kRecip, inner), cx); search.next_match();) {
///     if (!search.check_no_delete({})) continue;              // another node reads the inner one
///     cx.replace(search.value(), search.edge(x));             // every reader of the match reads x
///     search.try_delete();
///   }
namespace luminal {

/// What a pattern's place may be read through. Views that pad show other values than the node's own.
enum class EdgeView { Identity, Unpadded, Any };

/// A pattern of one node and what it reads: a handle, so that the same part used twice in a pattern has to
/// match the same value read through the same view. Modifiers change the part and return it.
/// Thread safety: one thread at a time makes a pattern; then any may read it.
class SelectGraph {
 public:
  /// The node has to pass `predicate` as well.
  SelectGraph check(std::function<bool(const Graph&, NodeId)> predicate) const;
  /// Dims of the inputs as the node sees them. A bare named dim stands for any size, the same one at each
  /// place of the pattern; anything else has to be equal.
  SelectGraph shapes(std::vector<Shape> inputs) const;
  /// The default: Identity for ops, Unpadded for constants, Any for node().
  SelectGraph through(EdgeView view) const;

  struct Part;
  [[nodiscard]] const Part& part() const { return *part_; }

 private:
  friend class GraphSearch;
  explicit SelectGraph(std::shared_ptr<Part> part) : part_(std::move(part)) {}
  friend SelectGraph make_part(Part part);
  std::shared_ptr<Part> part_;
};

namespace select {

/// Any value.
[[nodiscard]] SelectGraph node();
/// A node of this op, whatever it reads.
[[nodiscard]] SelectGraph op(const OpDef& op);
/// A node of this op that reads exactly these; in either order if the op is commutative.
[[nodiscard]] SelectGraph op(const OpDef& op, std::vector<SelectGraph> inputs);
[[nodiscard]] SelectGraph unary(const OpDef& op, SelectGraph input);
[[nodiscard]] SelectGraph binary(const OpDef& op, SelectGraph a, SelectGraph b);
/// A constant, of any value or of this one. 1 and 1.0 are alike, 0.0 and -0.0 are not.
[[nodiscard]] SelectGraph constant();
[[nodiscard]] SelectGraph constant(Number value);

}  // namespace select

/// Finds the places of a graph where a pattern matches, each root node once, inputs before consumers. The
/// graph may be rewritten between matches; nodes added meanwhile are not searched (Looped does another
/// round). Cost: linear in the graph to set up, then proportional to the nodes of the root's op.
/// Thread safety: as the graph it looks at.
class GraphSearch {
 public:
  /// `remap`: handles whose nodes count as marked.
  GraphSearch(SelectGraph pattern, Graph& graph, const Remap& remap = {});
  /// Moves to the next place. False if there is none left.
  bool next_match();

  /// The node that a part of the pattern matched. Errors: Error without a match, or for a part of another
  /// pattern.
  [[nodiscard]] NodeId get(const SelectGraph& part) const { return edge(part).source.node; }
  /// The value and how the pattern's node above reads it.
  [[nodiscard]] const Edge& edge(const SelectGraph& part) const;
  /// The value of the pattern's root.
  [[nodiscard]] Value value() const { return edge(pattern_).source; }
  /// The size that a named dim of `shapes` matched.
  [[nodiscard]] const Expression& dim(std::string_view name) const;

  /// Whether all matched ops but the root and those of `keep` can be deleted: nothing outside the match
  /// reads, marks or orders them. Constants do not count.
  [[nodiscard]] bool check_no_delete(const std::vector<SelectGraph>& keep) const;
  /// Removes the matched ops and constants that are no longer read or marked. Returns: how many.
  int try_delete();

 private:
  using Rest = std::function<bool()>;
  [[nodiscard]] bool match(const SelectGraph& part, const Edge& edge, const Rest& rest);
  [[nodiscard]] bool match_inputs(const SelectGraph& part, const Node& node, bool swapped, size_t from,
                                  const Rest& rest);
  [[nodiscard]] bool fits(const SelectGraph& part, const Edge& edge) const;
  [[nodiscard]] bool match_shapes(const SelectGraph& part, const Node& node);
  [[nodiscard]] bool is_marked(NodeId id) const;

  SelectGraph pattern_;
  Graph* graph_;
  std::vector<NodeId> candidates_;
  std::unordered_set<NodeId> marked_;
  size_t next_ = 0;
  std::unordered_map<const SelectGraph::Part*, Edge> bound_;
  std::map<std::string, Expression, std::less<>> dims_;
};

}  // namespace luminal
