#include "search/cover/selection.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/cancel.h"
#include "base/fail.h"

namespace luminal::search {
namespace {

constexpr double kImpossible = std::numeric_limits<double>::infinity();
constexpr int kMostFlipRounds = 32;

}  // namespace

Selector::Selector(const CoverProblem& problem, const Structure& structure,
                   const std::vector<std::vector<Fusion>>& fusions, Price price)
    : problem_(problem),
      structure_(structure),
      fusions_(fusions),
      price_(std::move(price)),
      by_cost_(fusions.size()),
      forced_(problem.classes.size(), 0) {
  for (size_t c = 0; c < fusions.size(); ++c) {
    for (size_t i = 0; i < fusions[c].size(); ++i) {
      const Fusion& fusion = fusions[c][i];
      by_cost_[c].push_back({static_cast<int>(i), fusion.cost_us});
      if (!price_) continue;
      std::vector<int>& classes = guesses_[fusion.spec];
      if (classes.empty() || classes.back() != static_cast<int>(c)) classes.push_back(static_cast<int>(c));
    }
    sort(c);
  }
  for (size_t c = 0; c < forced_.size(); ++c)
    forced_[c] = problem.classes[c].wanted || problem.classes[c].alternatives.empty() ? 1 : 0;
  for (const auto& host : problem.hosts)
    for (const int input : host.inputs) forced_[static_cast<size_t>(input)] = 1;
  const auto classes = static_cast<int>(problem.classes.size());
  for (int c = 0; c < classes; ++c)
    if (problem.classes[static_cast<size_t>(c)].wanted) roots_.push_back(c);
  std::ranges::sort(roots_, {}, [&](int c) {
    return std::tuple(structure.depth[static_cast<size_t>(c)], structure.exact[static_cast<size_t>(c)], c);
  });
  for (const auto& each : problem.classes) host_of_.push_back(classes + each.host);
  for (size_t h = 0; h < problem.hosts.size(); ++h) {
    if (problem.hosts[h].must_run) roots_.push_back(classes + static_cast<int>(h));
    host_children_.push_back(problem.hosts[h].inputs);
    for (const int other : problem.hosts[h].after) host_children_.back().push_back(classes + other);
  }
}

/// Of equal costs the one that stands first stays first.
void Selector::sort(size_t c) {
  std::ranges::sort(by_cost_[c], {}, [](const Entry& e) { return std::pair(e.cost_us, e.fusion); });
}

bool Selector::leaf_ready(int c, const std::vector<char>& in_memory) const {
  return in_memory[static_cast<size_t>(c)] != 0;
}

int Selector::cheapest(int c, const std::vector<char>& in_memory, const std::vector<char>& restricted) const {
  const auto& entries = by_cost_[static_cast<size_t>(c)];
  for (size_t i = 0; i < entries.size(); ++i) {
    const Fusion& fusion = fusions_[static_cast<size_t>(c)][static_cast<size_t>(entries[i].fusion)];
    if (restricted[static_cast<size_t>(c)] != 0 && !fusion.downhill) continue;
    const auto ready = [&](int leaf) { return leaf_ready(leaf, in_memory); };
    const auto computed_elsewhere = [&](int inner) {
      return problem_.classes[static_cast<size_t>(inner)].no_recompute &&
             in_memory[static_cast<size_t>(inner)] != 0;
    };
    if (std::ranges::all_of(fusion.leaves, ready) &&
        std::ranges::none_of(fusion.interior, computed_elsewhere))
      return static_cast<int>(i);
  }
  return -1;
}

/// What a node reads; a class gets its fusion. Nothing if the class can't be computed.
std::optional<std::span<const int>> Selector::open(int node, const std::vector<char>& in_memory,
                                                   Selection& selection) {
  const auto classes = static_cast<int>(problem_.classes.size());
  const auto at = static_cast<size_t>(node);
  if (node >= classes) return host_children_[at - problem_.classes.size()];
  if (problem_.classes[at].host >= 0) return std::span(&host_of_[at], 1);
  if (problem_.classes[at].alternatives.empty()) return std::span<const int>();
  const int pick = cheapest(node, in_memory, state_.restricted);
  if (pick < 0) return std::nullopt;
  const Entry& entry = by_cost_[at][static_cast<size_t>(pick)];
  const Fusion& fusion = fusions_[at][static_cast<size_t>(entry.fusion)];
  selection.fusion[at] = entry.fusion;
  selection.cost_us += entry.cost_us;
  for (const int inner : fusion.interior)
    if (problem_.classes[static_cast<size_t>(inner)].no_recompute &&
        state_.computed[static_cast<size_t>(inner)]++ != 0)
      return std::nullopt;
  return fusion.leaves;
}

bool Selector::walk(const std::vector<char>& in_memory, Selection& selection, double most, bool& possible) {
  const auto classes = static_cast<int>(problem_.classes.size());
  selection.fusion.assign(problem_.classes.size(), -1);
  selection.cost_us = 0;
  auto& [mark, computed, restricted, stack] = state_;
  computed.assign(problem_.classes.size(), 0);
  mark.assign(problem_.classes.size() + problem_.hosts.size(), Mark::New);
  stack.clear();
  const auto enter = [&](int node) {
    mark[static_cast<size_t>(node)] = Mark::Open;
    const auto children = open(node, in_memory, selection);
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
        if (at->node < classes && restricted[static_cast<size_t>(at->node)] == 0)
          restricted[static_cast<size_t>(at->node)] = news = true;
        if (at->node == child) break;
      }
      possible = news;
      return false;
    }
    return true;
  };
  return std::ranges::all_of(roots_, visit);
}

double Selector::plan(const std::vector<char>& in_memory, Selection& selection, double most) {
  state_.restricted.assign(problem_.classes.size(), 0);
  bool possible = true;
  while (!walk(in_memory, selection, most, possible))
    if (!possible) return kImpossible;
  return selection.cost_us;
}

double Selector::settled_plan(const std::vector<char>& in_memory, Selection& selection, double most) {
  double cost = plan(in_memory, selection, most);
  while (cost < most && ask_price(selection)) cost = plan(in_memory, selection, most);
  return cost;
}

bool Selector::ask_price(const Selection& selection) {
  if (guesses_.empty()) return false;
  auto dearest = guesses_.end();
  double most = -1;
  for (size_t c = 0; c < selection.fusion.size(); ++c) {
    if (selection.fusion[c] < 0) continue;
    const Fusion& fusion = fusions_[c][static_cast<size_t>(selection.fusion[c])];
    if (fusion.cost_us <= most) continue;
    const auto guess = guesses_.find(fusion.spec);
    if (guess == guesses_.end()) continue;
    dearest = guess;
    most = fusion.cost_us;
  }
  if (dearest == guesses_.end()) return false;
  const auto& [spec, classes] = *dearest;
  const double cost = price_(spec);
  for (const int other : classes) {
    const auto at = static_cast<size_t>(other);
    for (Entry& entry : by_cost_[at])
      if (fusions_[at][static_cast<size_t>(entry.fusion)].spec == spec) entry.cost_us = cost;
    sort(at);
  }
  guesses_.erase(dearest);
  return true;
}

double Selector::cost_of(const std::vector<char>& in_memory) {
  Selection selection;
  return settled_plan(in_memory, selection, kImpossible);
}

/// Classes that may leave memory, by mark, in an order free of numbering.
std::vector<std::vector<int>> Selector::groups() const {
  std::map<std::tuple<int, uint64_t>, std::vector<int>> by_shape;
  std::map<uint64_t, int> depth;
  for (size_t c = 0; c < forced_.size(); ++c) {
    const auto [known, fresh] = depth.try_emplace(structure_.shape[c], structure_.depth[c]);
    if (!fresh) known->second = std::min(known->second, structure_.depth[c]);
  }
  for (size_t c = 0; c < forced_.size(); ++c)
    if (forced_[c] == 0)
      by_shape[{depth[structure_.shape[c]], structure_.shape[c]}].push_back(static_cast<int>(c));
  std::vector<std::vector<int>> list;
  for (auto& [key, group] : by_shape) list.push_back(std::move(group));
  return list;
}

/// Steps that make a plan cheaper, until there is none.
struct Selector::Descent {
  using Group = std::vector<int>;
  Selector& selector;
  std::vector<Group> order;
  std::vector<char> in_memory, memory_of_best;
  Selection best, next;
  bool settled = true;  ///< prices are asked before a step is taken

  void start(const std::vector<char>& from) {
    memory_of_best = in_memory = from;
    best.cost_us = settled ? selector.settled_plan(in_memory, best, kImpossible)
                           : selector.plan(in_memory, best, kImpossible);
  }

  void flip(std::span<const Group* const> groups) {
    for (const Group* group : groups)
      for (const int c : *group) in_memory[static_cast<size_t>(c)] ^= 1;
  }

  bool attempt(std::span<const Group* const> groups) {
    flip(groups);
    const double most = best.cost_us * (1 - 1e-9);
    const double cost =
        settled ? selector.settled_plan(in_memory, next, most) : selector.plan(in_memory, next, most);
    if (cost >= most) {
      flip(groups);
      return false;
    }
    next.flips = best.flips + 1;
    std::swap(best, next);
    memory_of_best = in_memory;
    return true;
  }

  bool single_steps() {
    bool changed = false;
    for (const Group& group : order) {
      throw_if_cancelled();
      const Group* one[] = {&group};
      changed = attempt(one) || changed;
    }
    return changed;
  }

  /// A group and one that it reads at once.
  bool double_steps() {
    std::map<int, const Group*> group_of;
    for (const Group& group : order)
      for (const int c : group) group_of[c] = &group;
    bool changed = false;
    for (const Group& group : order) {
      std::vector<const Group*> partners;
      for (const auto& alternative : selector.problem_.classes[static_cast<size_t>(group[0])].alternatives)
        for (const int argument : alternative.arguments)
          if (const auto other = group_of.find(argument);
              other != group_of.end() && other->second != &group &&
              std::ranges::find(partners, other->second) == partners.end())
            partners.push_back(other->second);
      for (const Group* partner : partners) {
        const Group* two[] = {&group, partner};
        changed = attempt(two) || changed;
      }
    }
    return changed;
  }

  /// Classes that are there and that no kernel reads keep others from growing over them: one that could do
  /// without them takes a fusion that reads them as soon as it may. Without them the next step may be a
  /// better one.
  void leave_unread() {
    std::vector<char> read(in_memory.size(), 0);
    for (size_t c = 0; c < best.fusion.size(); ++c)
      if (best.fusion[c] >= 0)
        for (const int leaf : selector.fusions_[c][static_cast<size_t>(best.fusion[c])].leaves)
          read[static_cast<size_t>(leaf)] = 1;
    const auto is_read = [&](int c) { return read[static_cast<size_t>(c)] != 0; };
    for (const Group& group : order)
      if (std::ranges::none_of(group, is_read))
        for (const int c : group) in_memory[static_cast<size_t>(c)] = 0;
  }

  void run() {
    bool tight = false;
    for (int round = 0; round < kMostFlipRounds; ++round) {
      if (single_steps() || double_steps()) {
        tight = false;
        continue;
      }
      if (tight) break;
      leave_unread();
      tight = true;
    }
  }
};

Selection Selector::run() {
  const std::vector<char> all(problem_.classes.size(), 1);
  Descent descent{
      .selector = *this, .order = groups(), .in_memory = all, .memory_of_best = all, .best = {}, .next = {}};
  if (!guesses_.empty()) {
    descent.settled = false;
    descent.start(all);
    descent.run();
    descent.settled = true;
  }
  // With prices instead of guesses classes take other fusions, which may be in each other's way where little
  // is in memory.
  for (const std::vector<char>& from : {descent.in_memory, descent.memory_of_best, all}) {
    descent.start(from);
    if (descent.best.cost_us < kImpossible) break;
  }
  LUMINAL_CHECK(descent.best.cost_us < kImpossible, "{} classes and {} hosts have no plan with all in memory",
                problem_.classes.size(), problem_.hosts.size());
  descent.run();
  Selection best = std::move(descent.best), unfused;
  if (settled_plan(all, unfused, best.cost_us) < best.cost_us) best = std::move(unfused);
  best.unfused_us = plan(all, unfused, kImpossible);
  return best;
}

}  // namespace luminal::search
