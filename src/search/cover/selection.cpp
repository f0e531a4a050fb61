#include "search/cover/selection.h"

#include <algorithm>
#include <map>
#include <tuple>
namespace luminal::search {

Selector::Selector(const CoverProblem& problem, const Structure& structure,
                   const std::vector<std::vector<Fusion>>& fusions, Price price)
    : structure_(structure),
      price_(std::move(price)),
      graph_(problem, structure, fusions, price_ != nullptr) {}

/// What a node reads; a class gets its fusion. Nothing if the class can't be computed.
std::optional<std::span<const int>> Selector::open(int node, const PlanGraph::Ready& ready,
                                                   Selection& selection) {
  if (!graph_.takes_fusion(node)) return graph_.reads(node, -1);
  const auto at = static_cast<size_t>(node);
  const PlanGraph::Entry entry = graph_.cheapest(node, ready, state_.restricted[at] != 0);
  if (entry.fusion < 0) return std::nullopt;
  selection.fusion[at] = entry.fusion;
  selection.cost_us += entry.cost_us;
  for (const int inner : graph_.computed_once(node, entry.fusion))
    if (state_.computed[static_cast<size_t>(inner)]++ != 0) return std::nullopt;
  return graph_.reads(node, entry.fusion);
}

bool Selector::walk(const PlanGraph::Ready& ready, Selection& selection, double most, bool& possible) {
  const auto classes = static_cast<size_t>(graph_.class_count());
  selection.fusion.assign(classes, -1);
  selection.cost_us = 0;
  auto& [mark, computed, restricted, stack] = state_;
  computed.assign(classes, 0);
  mark.assign(graph_.node_count(), Mark::New);
  stack.clear();
  const auto enter = [&](int node) {
    mark[static_cast<size_t>(node)] = Mark::Open;
    const auto children = open(node, ready, selection);
    if (!children || selection.cost_us >= most) return false;
    stack.push_back({node, 0, *children});
    return true;
  };
  const auto visit = [&](int root) -> bool {
    if (mark[static_cast<size_t>(root)] != Mark::New) return true;
    if (!enter(root)) return possible = false;
    while (!stack.empty()) {
      Frame& frame = stack.back();
      if (frame.next == frame.children.size()) {
        mark[static_cast<size_t>(frame.node)] = Mark::Done;
        stack.pop_back();
        continue;
      }
      const int child = frame.children[frame.next++];
      if (mark[static_cast<size_t>(child)] == Mark::Done) continue;
      if (mark[static_cast<size_t>(child)] == Mark::New) {
        if (!enter(child)) return possible = false;
        continue;
      }
      bool news = false;  // a cycle
      for (auto at = stack.rbegin();; ++at) {
        if (at->node < graph_.class_count() && restricted[static_cast<size_t>(at->node)] == 0)
          restricted[static_cast<size_t>(at->node)] = news = true;
        if (at->node == child) break;
      }
      possible = news;
      return false;
    }
    return true;
  };
  return std::ranges::all_of(graph_.roots(), visit);
}

double Selector::plan(const std::vector<char>& in_memory, Selection& selection, double most) {
  state_.restricted.assign(in_memory.size(), 0);
  const PlanGraph::Ready ready = graph_.ready_of(in_memory);
  bool possible = true;
  while (!walk(ready, selection, most, possible))
    if (!possible) return kImpossible;
  return selection.cost_us;
}

double Selector::settled_plan(const std::vector<char>& in_memory, Selection& selection, double most) {
  double cost = plan(in_memory, selection, most);
  while (cost < most) {
    const auto guess = dearest_guess(selection);
    if (!guess) break;
    (void)ask_price(*guess);
    cost = plan(in_memory, selection, most);
  }
  return cost;
}

std::optional<int> Selector::dearest_guess(const Selection& selection) const {
  std::optional<int> dearest;
  if (!graph_.has_guesses()) return dearest;
  const std::vector<PlanGraph::Guess>& guesses = graph_.guesses();
  const auto rank = [&](int guess) { return guesses[static_cast<size_t>(guess)].rank(); };
  for (int c = 0; c < graph_.class_count(); ++c) {
    const int number = selection.fusion[static_cast<size_t>(c)];
    const int guess = number < 0 ? -1 : graph_.guess(c, number);
    if (guess >= 0 && (!dearest || rank(guess) > rank(*dearest))) dearest = guess;
  }
  return dearest;
}

double Selector::cost_of(const std::vector<char>& in_memory) {
  Selection selection;
  return settled_plan(in_memory, selection, kImpossible);
}

Selection Selector::plan_of(const std::vector<char>& in_memory) {
  Selection selection;
  selection.cost_us = plan(in_memory, selection, kImpossible);
  return selection;
}

/// Classes that may leave memory, by mark, in an order free of numbering.
std::vector<std::vector<int>> Selector::groups() const {
  std::map<std::tuple<int, uint64_t>, std::vector<int>> by_shape;
  std::map<uint64_t, int> depth;
  for (size_t c = 0; c < forced().size(); ++c) {
    const auto [known, fresh] = depth.try_emplace(structure_.shape[c], structure_.depth[c]);
    if (!fresh) known->second = std::min(known->second, structure_.depth[c]);
  }
  for (size_t c = 0; c < forced().size(); ++c)
    if (forced()[c] == 0)
      by_shape[{depth[structure_.shape[c]], structure_.shape[c]}].push_back(static_cast<int>(c));
  std::vector<std::vector<int>> list;
  for (auto& [key, group] : by_shape) list.push_back(std::move(group));
  return list;
}

}  // namespace luminal::search
