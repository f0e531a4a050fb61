#include <algorithm>

#include "egraph/core/extract.h"

namespace luminal::egraph {

namespace {

using Part = ExtractionGraph::Part;
using Option = ExtractionGraph::Option;
constexpr uint64_t kExactSteps = 2'000'000;     ///< of branch and bound, then the best found so far counts
constexpr uint64_t kImproveSteps = 20'000'000;  ///< parts walked by the local search

/// Searches a choice of one option per needed part that makes the root without a cycle, each part paid once.
class DagSearch {
 public:
  DagSearch(const ExtractionGraph& graph, const TreeChoice& trees, Part root)
      : graph_(graph), trees_(trees), root_(root), best_(trees.option), mark_(graph.part_count(), 0) {
    best_cost_ = cost_of(best_);
    collect_parts();
  }

  TermDag run(size_t exact_parts) {
    greedy();
    improve();
    if (parts_.size() <= exact_parts) exact();
    TermDag dag = term_of_choice(graph_, best_, root_);
    dag.cost = best_cost_;
    return dag;
  }

 private:
  [[nodiscard]] bool usable(Option o) const { return trees_.option_cost[o] < kInfinite; }

  void collect_parts() {
    std::vector<bool> seen(graph_.part_count(), false);
    parts_.push_back(root_);
    seen[root_] = true;
    for (size_t i = 0; i < parts_.size(); i++)
      for (const Option o : graph_.options_of(parts_[i])) {
        if (!usable(o)) continue;
        for (const Part child : graph_.children(o)) {
          if (seen[child]) continue;
          seen[child] = true;
          parts_.push_back(child);
        }
      }
    // Children of tree-optimal options come first: the greedy pass then sees finished parts.
    std::sort(parts_.begin(), parts_.end(), [&](Part a, Part b) { return trees_.rank[a] < trees_.rank[b]; });
  }

  /// Cost of what the root needs under a choice; infinite if it has a cycle.
  Cost cost_of(const std::vector<Option>& choice) {
    const uint32_t open = ++stamp_, done = ++stamp_;
    Cost total = 0;
    stack_.assign(1, {root_, 0});
    mark_[root_] = open;
    while (!stack_.empty()) {
      auto& [part, next] = stack_.back();
      const auto children = graph_.children(choice[part]);
      if (next == children.size()) {
        total += graph_.option(choice[part]).own;
        mark_[part] = done;
        stack_.pop_back();
        continue;
      }
      const Part child = children[next++];
      walked_++;
      if (mark_[child] == open) return kInfinite;
      if (mark_[child] == done) continue;
      mark_[child] = open;
      stack_.emplace_back(child, 0);
    }
    return total;
  }

  // Bottom up: each part takes the option whose needed set, shared parts counted once, is cheapest. Sets come
  // from parts that were finished before, so there is no cycle (extraction-gym's greedy DAG extractor).
  void greedy() {
    if (parts_.size() > 20'000) return;  // the sets would be quadratic
    std::vector<std::vector<Part>> needed(graph_.part_count());
    std::vector<Option> choice = trees_.option;
    std::vector<Part> merged;
    for (const Part part : parts_) {
      Cost best = kInfinite;
      for (const Option o : graph_.options_of(part)) {
        const auto children = graph_.children(o);
        const auto finished = [&](Part c) { return trees_.rank[c] < trees_.rank[part]; };
        if (!usable(o) || !std::all_of(children.begin(), children.end(), finished)) continue;
        merged.assign(1, part);
        for (const Part c : children) merged.insert(merged.end(), needed[c].begin(), needed[c].end());
        std::sort(merged.begin(), merged.end());
        merged.erase(std::unique(merged.begin(), merged.end()), merged.end());
        Cost cost = graph_.option(o).own;
        for (const Part p : merged)
          if (p != part) cost += graph_.option(choice[p]).own;
        if (cost >= best) continue;
        best = cost;
        choice[part] = o;
        needed[part] = merged;
      }
    }
    keep_if_better(choice);
  }

  bool keep_if_better(const std::vector<Option>& choice) {
    const Cost cost = cost_of(choice);
    if (!(cost < best_cost_)) return false;
    best_cost_ = cost;
    best_ = choice;
    return true;
  }

  // Changes one part's option at a time while that helps.
  void improve() {
    walked_ = 0;
    for (bool progress = true; progress && walked_ < kImproveSteps;) {
      progress = false;
      for (const Part part : reachable_in_order(graph_, best_, root_)) {
        for (const Option o : graph_.options_of(part)) {
          if (!usable(o) || o == best_[part] || walked_ >= kImproveSteps) continue;
          const Option before = best_[part];
          best_[part] = o;
          const Cost cost = cost_of(best_);
          if (cost < best_cost_) {
            best_cost_ = cost;
            progress = true;
          } else {
            best_[part] = before;
          }
        }
      }
    }
  }

  // Branch and bound over the parts that turn out to be needed.
  void exact() {
    cheapest_own_.assign(graph_.part_count(), kInfinite);
    for (const Part part : parts_)
      for (const Option o : graph_.options_of(part))
        if (usable(o)) cheapest_own_[part] = std::min(cheapest_own_[part], graph_.option(o).own);
    trial_.assign(graph_.part_count(), ExtractionGraph::kNone);
    std::vector<Part> needed{root_};
    std::vector<bool> in_needed(graph_.part_count(), false);
    in_needed[root_] = true;
    branch(needed, in_needed, 0, 0, cheapest_own_[root_]);
  }

  /// `needed[0, at)` have options, which cost `paid`; `bound` adds the least that the others cost.
  void branch(std::vector<Part>& needed, std::vector<bool>& in_needed, size_t at, Cost paid, Cost bound) {
    if (bound >= best_cost_ || ++steps_ > kExactSteps) return;
    if (at == needed.size()) {
      std::vector<Option> choice = best_;
      for (const Part p : needed) choice[p] = trial_[p];
      keep_if_better(choice);
      return;
    }
    const Part part = needed[at];
    for (const Option o : graph_.options_of(part)) {
      if (!usable(o)) continue;
      trial_[part] = o;
      const size_t before = needed.size();
      Cost next_bound = bound - cheapest_own_[part] + graph_.option(o).own;
      for (const Part child : graph_.children(o)) {
        if (in_needed[child]) continue;
        in_needed[child] = true;
        needed.push_back(child);
        next_bound += cheapest_own_[child];
      }
      branch(needed, in_needed, at + 1, paid + graph_.option(o).own, next_bound);
      while (needed.size() > before) {
        in_needed[needed.back()] = false;
        needed.pop_back();
      }
    }
    trial_[part] = ExtractionGraph::kNone;
  }

  const ExtractionGraph& graph_;
  const TreeChoice& trees_;
  Part root_;
  std::vector<Option> best_;
  Cost best_cost_ = kInfinite;
  std::vector<Part> parts_;  // all that any option of a needed part may need
  std::vector<uint32_t> mark_;
  uint32_t stamp_ = 0;
  std::vector<std::pair<Part, size_t>> stack_;
  std::vector<Cost> cheapest_own_;
  std::vector<Option> trial_;
  uint64_t walked_ = 0, steps_ = 0;
};

}  // namespace

TermDag cheapest_dag(const ExtractionGraph& graph, const TreeChoice& trees, Part root, size_t exact_parts) {
  return DagSearch(graph, trees, root).run(exact_parts);
}

}  // namespace luminal::egraph
