#include <algorithm>
#include <unordered_map>

#include "base/fail.h"
#include "graph/graph_state.h"
#include "luminal/passes.h"

namespace luminal {
namespace {

/// Sizes and neighbours of all nodes, by position in the graph's own topological order.
class Problem {
 public:
  Problem(const Graph& graph, int64_t assumed_dim) : graph_(graph), order_(graph.topological_order()) {
    for (size_t i = 0; i < order_.size(); ++i) place_[order_[i]] = i;
    for (const NodeId id : order_) {
      const Node& node = graph.node(id);
      std::vector<size_t> needs;
      for (const Edge& edge : node.inputs) needs.push_back(place_.at(edge.source.node));
      reads_.push_back(unique(needs));
      for (const NodeId before : node.after) needs.push_back(place_.at(before));
      needs_.push_back(unique(std::move(needs)));
      bytes_.push_back(is_computed(*node.op) ? bytes_of(node, assumed_dim) : 0);
    }
    for (const Value& value : graph.wanted()) stays_.insert(place_.at(value.node));
    for (const Graph::StateUpdate& update : graph.state_updates())
      stays_.insert(place_.at(update.next.source.node));
  }

  [[nodiscard]] size_t size() const { return order_.size(); }
  [[nodiscard]] NodeId id(size_t place) const { return order_[place]; }
  [[nodiscard]] const std::vector<size_t>& needs(size_t place) const { return needs_[place]; }
  [[nodiscard]] int64_t bytes(size_t place) const { return bytes_[place]; }

  /// Most bytes of computed values alive at once when nodes run in this order; each dies after its last
  /// reader.
  [[nodiscard]] int64_t peak(const std::vector<size_t>& order) const {
    std::vector<int> readers(size(), 0);
    for (const auto& reads : reads_)
      for (const size_t place : reads) ++readers[place];
    int64_t alive = 0, peak = 0;
    const auto release = [&](size_t place) {
      if (readers[place] == 0 && !stays_.contains(place)) alive -= bytes_[place];
    };
    for (const size_t place : order) {
      alive += bytes_[place];
      peak = std::max(peak, alive);
      for (const size_t read : reads_[place]) {
        --readers[read];
        release(read);
      }
      release(place);
    }
    return peak;
  }

 private:
  static std::vector<size_t> unique(std::vector<size_t> places) {
    std::ranges::sort(places);
    places.erase(std::unique(places.begin(), places.end()), places.end());
    return places;
  }

  [[nodiscard]] int64_t bytes_of(const Node& node, int64_t assumed_dim) const {
    int64_t bytes = 0;
    for (const TensorType& type : node.outputs) {
      double elements = 1;
      for (const Expression& dim : type.dims) {
        std::map<std::string, double, std::less<>> sizes;
        for (const std::string& name : dim.to_symbols()) {
          const auto known = graph_.dims().find(name);
          sizes[name] = static_cast<double>(known != graph_.dims().end() ? known->second : assumed_dim);
        }
        elements *= std::max(0.0, dim.exec_float(sizes));
      }
      bytes += size_bytes(type.dtype, static_cast<int64_t>(elements));
    }
    return bytes;
  }

  const Graph& graph_;
  std::vector<NodeId> order_;
  std::unordered_map<NodeId, size_t> place_;
  std::vector<std::vector<size_t>> reads_, needs_;
  std::vector<int64_t> bytes_;
  std::set<size_t> stays_;
};

/// What running a node from nothing takes at its peak if it were the root of a tree: operands that need most
/// beyond their result go first.
std::vector<int64_t> label(const Problem& problem, std::vector<std::vector<size_t>>& visits) {
  std::vector<int64_t> peak(problem.size());
  for (size_t place = 0; place < problem.size(); ++place) {
    std::vector<size_t>& operands = visits[place] = problem.needs(place);
    std::ranges::sort(operands, {}, [&](size_t o) { return std::pair(problem.bytes(o) - peak[o], o); });
    int64_t held = 0;
    for (const size_t operand : operands) {
      peak[place] = std::max(peak[place], held + peak[operand]);
      held += problem.bytes(operand);
    }
    peak[place] = std::max(peak[place], held + problem.bytes(place));
  }
  return peak;
}

/// Post-order walk from the nodes that nobody needs.
std::vector<size_t> depth_first(const Problem& problem) {
  std::vector<std::vector<size_t>> visits(problem.size());
  const std::vector<int64_t> peak = label(problem, visits);
  std::vector<bool> needed(problem.size(), false), entered(problem.size(), false);
  for (size_t place = 0; place < problem.size(); ++place)
    for (const size_t operand : visits[place]) needed[operand] = true;
  std::vector<size_t> order;
  std::vector<std::pair<size_t, size_t>> stack;  // node and the next of its operands
  for (size_t root = 0; root < problem.size(); ++root) {
    if (needed[root]) continue;
    entered[root] = true;
    stack.emplace_back(root, 0);
    while (!stack.empty()) {
      auto& [place, next] = stack.back();
      if (next == visits[place].size()) {
        order.push_back(place);
        stack.pop_back();
        continue;
      }
      const size_t operand = visits[place][next++];
      if (entered[operand]) continue;
      entered[operand] = true;
      stack.emplace_back(operand, 0);
    }
  }
  return order;
}

}  // namespace

namespace {

std::vector<size_t> own_order(const Problem& problem) {
  std::vector<size_t> order(problem.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  return order;
}

}  // namespace

int64_t planned_peak_bytes(const Graph& graph, int64_t assumed_dim) {
  const Problem problem(graph, assumed_dim);
  return problem.peak(own_order(problem));
}

DepthFirst::Order DepthFirst::run(Graph& graph, Remap&) const {
  const Problem problem(graph, assumed_dim_);
  const std::vector<size_t> given = own_order(problem);
  std::vector<size_t> order = depth_first(problem);
  LUMINAL_CHECK(order.size() == problem.size(), "scheduled {} of {} nodes", order.size(), problem.size());

  Order result{{}, problem.peak(given), problem.peak(order)};
  if (result.peak_bytes > result.peak_bytes_before) {  // a heuristic may lose
    order = given;
    result.peak_bytes = result.peak_bytes_before;
  }
  for (const size_t place : order) result.order.push_back(problem.id(place));
  // The order is a topological one, so no edge can close a cycle and Graph::add_order's search is not needed.
  bool changed = false;
  for (size_t i = 1; i < order.size(); ++i) {
    if (std::ranges::binary_search(problem.needs(order[i]), order[i - 1])) continue;
    link_order(*graph.state(), result.order[i - 1], result.order[i]);
    changed = true;
  }
  if (changed) ++graph.state()->version;
  return result;
}

}  // namespace luminal
