#include <algorithm>
#include <map>
#include <queue>
#include <tuple>

#include "egraph/core/extract.h"

namespace luminal::egraph {

namespace {

using Part = ExtractionGraph::Part;
using Option = ExtractionGraph::Option;

/// A tree: an option, and which of the best trees of each child it takes.
struct Derivation {
  Cost cost;
  Option option;
  std::vector<uint32_t> ranks;
  friend bool operator>(const Derivation& a, const Derivation& b) {
    return std::tie(a.cost, a.option, a.ranks) > std::tie(b.cost, b.option, b.ranks);
  }
};

/// Knuth's search continued: each part becomes final up to k times. Each vector of ranks is reached once, by
/// raising its last non-zero rank or one after it (Huang & Chiang 2005). A rank that does not exist yet waits
/// for it.
class KBest {
 public:
  KBest(const ExtractionGraph& graph, const TreeChoice& trees, Part root, size_t k)
      : graph_(graph),
        trees_(trees),
        root_(root),
        k_(k),
        found_(graph.part_count()),
        waiting_(graph.part_count()) {}

  std::vector<TermDag> run() {
    mark_reachable();
    while (!queue_.empty() && found_[root_].size() < k_) {
      Derivation d = queue_.top();
      queue_.pop();
      const Part part = graph_.option(d.option).part;
      push_successors(d);
      if (found_[part].size() == k_) continue;
      found_[part].push_back(std::move(d));
      std::vector<Derivation> ready;
      ready.swap(waiting_[part]);
      for (Derivation& w : ready) offer(std::move(w));
    }
    std::vector<TermDag> out;
    for (uint32_t r = 0; r < found_[root_].size(); r++) out.push_back(term(r));
    return out;
  }

 private:
  void mark_reachable() {
    std::vector<bool> seen(graph_.part_count(), false);
    std::vector<Part> stack{root_};
    seen[root_] = true;
    while (!stack.empty()) {
      const Part part = stack.back();
      stack.pop_back();
      for (const Option o : graph_.options_of(part)) {
        if (!(trees_.option_cost[o] < std::numeric_limits<Cost>::infinity())) continue;
        offer({0, o, std::vector<uint32_t>(graph_.children(o).size(), 0)});
        for (const Part child : graph_.children(o)) {
          if (seen[child]) continue;
          seen[child] = true;
          stack.push_back(child);
        }
      }
    }
  }

  // Into the queue if all its subtrees are known, else into the waiting list of a part that lacks one.
  void offer(Derivation d) {
    const auto children = graph_.children(d.option);
    d.cost = graph_.option(d.option).own;
    for (size_t i = 0; i < children.size(); i++) {
      if (d.ranks[i] >= found_[children[i]].size()) {
        if (d.ranks[i] < k_) waiting_[children[i]].push_back(std::move(d));
        return;
      }
      d.cost += found_[children[i]][d.ranks[i]].cost;
    }
    queue_.push(std::move(d));
  }

  void push_successors(const Derivation& d) {
    size_t first = 0;
    for (size_t i = 0; i < d.ranks.size(); i++)
      if (d.ranks[i] != 0) first = i;
    for (size_t i = first; i < d.ranks.size(); i++) {
      Derivation next = d;
      next.ranks[i]++;
      offer(std::move(next));
    }
  }

  TermDag term(uint32_t rank) const {
    TermDag dag;
    std::unordered_map<uint64_t, uint32_t> literals;
    std::map<std::pair<Part, uint32_t>, uint32_t> node_of;
    dag.root = build(dag, {root_, rank}, node_of, literals);
    dag.cost = found_[root_][rank].cost;
    return dag;
  }

  uint32_t build(TermDag& dag, std::pair<Part, uint32_t> root,
                 std::map<std::pair<Part, uint32_t>, uint32_t>& node_of,
                 std::unordered_map<uint64_t, uint32_t>& literals) const {
    std::vector<std::pair<Part, uint32_t>> stack{root};
    while (!stack.empty()) {
      const auto top = stack.back();
      const Derivation& d = found_[top.first][top.second];
      const auto children = graph_.children(d.option);
      std::vector<uint32_t> nodes;
      bool complete = true;
      for (size_t i = 0; i < children.size(); i++) {
        const auto known = node_of.find({children[i], d.ranks[i]});
        if (known == node_of.end()) {
          complete = false;
          stack.emplace_back(children[i], d.ranks[i]);
        } else {
          nodes.push_back(known->second);
        }
      }
      if (!complete) continue;
      if (!node_of.contains(top)) node_of[top] = graph_.append_node(dag, d.option, nodes, literals);
      stack.pop_back();
    }
    return node_of.at(root);
  }

  const ExtractionGraph& graph_;
  const TreeChoice& trees_;
  Part root_;
  size_t k_;
  std::vector<std::vector<Derivation>> found_;    // by part, cheapest first
  std::vector<std::vector<Derivation>> waiting_;  // by part: for its next tree
  std::priority_queue<Derivation, std::vector<Derivation>, std::greater<>> queue_;
};

}  // namespace

std::vector<TermDag> cheapest_k(const ExtractionGraph& graph, const TreeChoice& trees, Part root, size_t k) {
  return KBest(graph, trees, root, k).run();
}

}  // namespace luminal::egraph
