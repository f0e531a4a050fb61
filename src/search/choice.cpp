#include "search/choice.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/fail.h"

namespace luminal::search {
namespace {

constexpr double kImpossible = std::numeric_limits<double>::infinity();
constexpr int kMostRounds = 32;

}  // namespace

/// The state of a depth-first walk over classes (0 ..) and hosts (behind them).
struct Chooser::Walk {
  explicit Walk(size_t nodes) : colour(nodes, 0) {}
  std::vector<char> colour;  // 0 new, 1 open, 2 done
  struct Frame {
    int node;
    size_t next;
    std::vector<int> children;
  };
  std::vector<Frame> stack;
};

Chooser::Chooser(const CoverProblem& problem, const Colours& colours,
                 const std::vector<std::vector<Cone>>& cones)
    : problem_(problem), colours_(colours), cones_(cones), forced_(problem.classes.size(), 0) {
  for (size_t c = 0; c < forced_.size(); ++c)
    forced_[c] = problem.classes[c].wanted || problem.classes[c].alternatives.empty() ? 1 : 0;
  for (const auto& host : problem.hosts)
    for (const int input : host.inputs) forced_[static_cast<size_t>(input)] = 1;
  const auto classes = static_cast<int>(problem.classes.size());
  for (int c = 0; c < classes; ++c)
    if (problem.classes[static_cast<size_t>(c)].wanted) roots_.push_back(c);
  std::ranges::sort(roots_, {}, [&](int c) {
    return std::tuple(colours.depth[static_cast<size_t>(c)], colours.exact[static_cast<size_t>(c)], c);
  });
  for (size_t h = 0; h < problem.hosts.size(); ++h)
    if (problem.hosts[h].must_run) roots_.push_back(classes + static_cast<int>(h));
}

bool Chooser::leaf_ready(int c, const std::vector<char>& in_memory) const {
  return in_memory[static_cast<size_t>(c)] != 0;
}

int Chooser::cheapest(int c, const std::vector<char>& in_memory, const std::vector<char>& restricted) const {
  const auto& cones = cones_[static_cast<size_t>(c)];
  for (size_t i = 0; i < cones.size(); ++i) {
    const Cone& cone = cones[i];
    if (restricted[static_cast<size_t>(c)] != 0 && !cone.downhill) continue;
    const auto ready = [&](int leaf) { return leaf_ready(leaf, in_memory); };
    const auto computed_elsewhere = [&](int inner) {
      return problem_.classes[static_cast<size_t>(inner)].once && in_memory[static_cast<size_t>(inner)] != 0;
    };
    if (std::ranges::all_of(cone.leaves, ready) && std::ranges::none_of(cone.interior, computed_elsewhere))
      return static_cast<int>(i);
  }
  return -1;
}

bool Chooser::walk(const std::vector<char>& in_memory, std::vector<char>& restricted, Choice& choice,
                   bool& possible) {
  const auto classes = static_cast<int>(problem_.classes.size());
  choice.cone.assign(static_cast<size_t>(classes), -1);
  choice.cost_us = 0;
  std::vector<char> computed(static_cast<size_t>(classes), 0);
  Walk walk(static_cast<size_t>(classes) + problem_.hosts.size());
  const auto open = [&](int node) {
    walk.colour[static_cast<size_t>(node)] = 1;
    Walk::Frame frame{node, 0, {}};
    if (node >= classes) {
      const auto& host = problem_.hosts[static_cast<size_t>(node - classes)];
      frame.children = host.inputs;
      for (const int other : host.after) frame.children.push_back(classes + other);
    } else if (problem_.classes[static_cast<size_t>(node)].host >= 0) {
      frame.children.push_back(classes + problem_.classes[static_cast<size_t>(node)].host);
    } else if (!problem_.classes[static_cast<size_t>(node)].alternatives.empty()) {
      const int pick = cheapest(node, in_memory, restricted);
      if (pick < 0) return false;
      const Cone& cone = cones_[static_cast<size_t>(node)][static_cast<size_t>(pick)];
      choice.cone[static_cast<size_t>(node)] = pick;
      choice.cost_us += cone.cost_us;
      for (const int inner : cone.interior)
        if (problem_.classes[static_cast<size_t>(inner)].once && computed[static_cast<size_t>(inner)]++ != 0)
          return false;
      frame.children = cone.leaves;
    }
    walk.stack.push_back(std::move(frame));
    return true;
  };
  const auto visit = [&](int root) -> bool {
    if (walk.colour[static_cast<size_t>(root)] != 0) return true;
    if (!open(root)) return possible = false;
    while (!walk.stack.empty()) {
      auto& frame = walk.stack.back();
      if (frame.next == frame.children.size()) {
        walk.colour[static_cast<size_t>(frame.node)] = 2;
        walk.stack.pop_back();
        continue;
      }
      const int child = frame.children[frame.next++];
      if (walk.colour[static_cast<size_t>(child)] == 2) continue;
      if (walk.colour[static_cast<size_t>(child)] == 0) {
        if (!open(child)) return possible = false;
        continue;
      }
      bool news = false;
      for (auto at = walk.stack.rbegin();; ++at) {
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

double Chooser::plan(const std::vector<char>& in_memory, Choice& choice) {
  std::vector<char> restricted(problem_.classes.size(), 0);
  bool possible = true;
  while (!walk(in_memory, restricted, choice, possible))
    if (!possible) return kImpossible;
  return choice.cost_us;
}

double Chooser::cost_of(const std::vector<char>& in_memory) {
  Choice choice;
  return plan(in_memory, choice);
}

/// Classes that may leave memory, by colour, in an order free of numbering.
std::vector<std::vector<int>> Chooser::groups() const {
  std::map<std::tuple<int, uint64_t>, std::vector<int>> by_colour;
  std::map<uint64_t, int> depth;
  for (size_t c = 0; c < forced_.size(); ++c) {
    const auto [known, fresh] = depth.try_emplace(colours_.shape[c], colours_.depth[c]);
    if (!fresh) known->second = std::min(known->second, colours_.depth[c]);
  }
  for (size_t c = 0; c < forced_.size(); ++c)
    if (forced_[c] == 0)
      by_colour[{depth[colours_.shape[c]], colours_.shape[c]}].push_back(static_cast<int>(c));
  std::vector<std::vector<int>> list;
  for (auto& [key, group] : by_colour) list.push_back(std::move(group));
  return list;
}

Choice Chooser::run() {
  std::vector<char> in_memory(problem_.classes.size(), 1);
  Choice best;
  LUMINAL_CHECK(plan(in_memory, best) < kImpossible,
                "{} classes and {} hosts have no plan with all in memory", problem_.classes.size(),
                problem_.hosts.size());
  const auto order = groups();
  const auto attempt = [&](std::span<const std::vector<int>* const> flipped) {
    for (const auto* group : flipped)
      for (const int c : *group) in_memory[static_cast<size_t>(c)] ^= 1;
    Choice next;
    const bool better = plan(in_memory, next) < best.cost_us * (1 - 1e-9);
    if (better) {
      next.flips = best.flips + 1;
      best = std::move(next);
    } else {
      for (const auto* group : flipped)
        for (const int c : *group) in_memory[static_cast<size_t>(c)] ^= 1;
    }
    return better;
  };
  // Classes that are there and that no kernel reads keep others from growing over them: one that could do
  // without them takes a cone that reads them as soon as it may. Without them the next step may be a better
  // one.
  const auto leave_unread = [&] {
    std::vector<char> read(in_memory.size(), 0);
    for (size_t c = 0; c < best.cone.size(); ++c)
      if (best.cone[c] >= 0)
        for (const int leaf : cones_[c][static_cast<size_t>(best.cone[c])].leaves)
          read[static_cast<size_t>(leaf)] = 1;
    const auto is_read = [&](int c) { return read[static_cast<size_t>(c)] != 0; };
    for (const auto& group : order)
      if (std::ranges::none_of(group, is_read))
        for (const int c : group) in_memory[static_cast<size_t>(c)] = 0;
  };
  bool tight = false;
  for (int round = 0; round < kMostRounds; ++round) {
    bool changed = false;
    for (const auto& group : order) {
      const std::vector<int>* one[] = {&group};
      changed = attempt(one) || changed;
    }
    if (changed) {
      tight = false;
      continue;
    }
    // No single step helps: two neighbours at once.
    std::map<int, const std::vector<int>*> group_of;
    for (const auto& group : order)
      for (const int c : group) group_of[c] = &group;
    for (const auto& group : order) {
      std::vector<const std::vector<int>*> partners;
      for (const auto& alternative : problem_.classes[static_cast<size_t>(group[0])].alternatives)
        for (const int argument : alternative.arguments)
          if (const auto other = group_of.find(argument);
              other != group_of.end() && other->second != &group &&
              std::ranges::find(partners, other->second) == partners.end())
            partners.push_back(other->second);
      for (const auto* partner : partners) {
        const std::vector<int>* two[] = {&group, partner};
        changed = attempt(two) || changed;
      }
    }
    if (changed) {
      tight = false;
    } else {
      if (tight) break;
      leave_unread();
      tight = true;
    }
  }
  return best;
}

}  // namespace luminal::search
