#include <algorithm>
#include <unordered_map>

#include "base/cancel.h"
#include "base/fail.h"
#include "search/cover/live_plan.h"
#include "search/cover/selection.h"

namespace luminal::search {
namespace {

constexpr int kMostFlipRounds = 32;
constexpr double kLeastFlipGain = 1e-9;  // of the plan's cost

}  // namespace

/// Steps that make a plan cheaper, until there is none.
struct Selector::Descent {
  using Group = std::vector<int>;

  explicit Descent(Selector& owner)
      : selector(owner),
        live(owner.graph_),
        order(owner.groups()),
        group_of(owner.forced().size(), -1),
        changed_at(owner.graph_.node_count(), 0) {
    for (size_t g = 0; g < order.size(); ++g)
      for (const int c : order[g]) group_of[static_cast<size_t>(c)] = static_cast<int>(g);
    live.start(std::vector<char>(group_of.size(), 1));
  }

  /// False if there is no plan.
  bool start(const std::vector<char>& from) {
    live.start(from);
    tried.clear();
    best.cost_us = kImpossible;
    best_is_live = false;
    best_memory = from;
    memory_is_best = true;
    look_again();
    return best.cost_us < kImpossible;
  }

  void run() {
    for (int round = 0; round < kMostFlipRounds; ++round)
      if (!single_steps() && !double_steps() && !leave_unread()) break;
  }

  [[nodiscard]] Selection result() const {
    Selection result = best;
    if (best_is_live) result.fusion = live.fusions();
    return result;
  }
  [[nodiscard]] double cost_us() const { return best.cost_us; }
  [[nodiscard]] const std::vector<char>& memory() const { return live.in_memory(); }
  [[nodiscard]] const std::vector<char>& memory_of_best() const {
    return memory_is_best ? live.in_memory() : best_memory;
  }

  bool settled = true;  ///< prices are asked before a step is taken

 private:
  /// Cost of the plan as it stands, with prices instead of guesses unless it costs `most` or more even with
  /// guesses. A cyclic one is made from nothing, to `walked`.
  double evaluate(double most, std::span<const int> flipped) {
    for (;;) {
      is_walked = live.is_cyclic();
      const double cost = is_walked ? selector.plan(live.in_memory(), walked, most) : live.cost_us();
      if (!settled || cost >= most) return cost;
      const auto guess = is_walked ? selector.dearest_guess(walked) : live.dearest_guess();
      if (!guess) return cost;
      keep_best(flipped);
      live.reprice(*guess, selector.ask_price(*guess));
      note_change();
      has_asked = true;
    }
  }

  /// The best plan is about to change with prices or with what is in memory: another one may be worse.
  void keep_best(std::span<const int> flipped) {
    if (!best_is_live) return;
    if (!flipped.empty()) live.flip(flipped);
    best.fusion = live.fusions();
    best_is_live = false;
    if (!flipped.empty()) live.flip(flipped);
  }

  void take(double cost) {
    best.cost_us = cost;
    best_is_live = !is_walked;
    if (is_walked) best.fusion = walked.fusion;
    memory_is_best = true;
  }

  /// The plan without a step, where prices or unread classes may have changed it.
  void look_again() {
    const double cost = evaluate(kImpossible, {});
    if (cost < kImpossible && cost <= best.cost_us) take(cost);
  }

  /// A step that failed, and what it depended on: it is not tried again before that changes.
  struct Failed {
    uint64_t at = 0;
    std::vector<int> touched;
  };
  void note_change() {
    ++now;
    for (const int node : live.touched()) changed_at[static_cast<size_t>(node)] = now;
  }
  [[nodiscard]] bool is_known_to_fail(uint64_t step) const {
    const auto known = tried.find(step);
    return known != tried.end() && std::ranges::all_of(known->second.touched, [&](int node) {
             return changed_at[static_cast<size_t>(node)] <= known->second.at;
           });
  }

  /// `step`: a number for these classes.
  bool attempt(uint64_t step, std::span<const int> classes) {
    if (is_known_to_fail(step)) return false;
    const double most = best.cost_us * (1 - kLeastFlipGain);
    has_asked = false;
    live.forget_touched();
    live.flip(classes);
    const double cost = evaluate(most, classes);
    if (cost < most) {
      note_change();
      take(cost);
      ++best.flips;
      return true;
    }
    if (!has_asked && !is_walked) tried[step] = {now, live.touched()};
    live.undo(classes);
    if (has_asked) {
      look_again();
      note_change();
    }
    return false;
  }

  bool single_steps() {
    bool changed = false;
    for (size_t g = 0; g < order.size(); ++g) {
      throw_if_cancelled();
      changed = attempt(g, order[g]) || changed;
    }
    return changed;
  }

  /// A group and one that it reads at once.
  bool double_steps() {
    bool changed = false;
    for (size_t g = 0; g < order.size(); ++g) {
      throw_if_cancelled();
      std::vector<int> partners;
      for (const auto& alternative :
           selector.graph_.problem().classes[static_cast<size_t>(order[g][0])].alternatives)
        for (const int argument : alternative.arguments)
          if (const int other = group_of[static_cast<size_t>(argument)];
              other >= 0 && other != static_cast<int>(g) &&
              std::ranges::find(partners, other) == partners.end())
            partners.push_back(other);
      for (const int partner : partners) {
        const uint64_t step = (g + 1) * order.size() + static_cast<size_t>(partner);
        if (is_known_to_fail(step)) continue;
        Group both = order[g];
        both.insert(both.end(), order[static_cast<size_t>(partner)].begin(),
                    order[static_cast<size_t>(partner)].end());
        changed = attempt(step, both) || changed;
      }
    }
    return changed;
  }

  /// Classes that are there and that no kernel reads keep others from growing over them: one that could do
  /// without them takes a fusion that reads them as soon as it may. Without them the next step may be a
  /// better one. False if there is none.
  bool leave_unread() {
    std::vector<char> read(group_of.size(), 0);
    for (size_t c = 0; best_is_live && c < read.size(); ++c) read[c] = live.is_read(static_cast<int>(c));
    for (size_t c = 0; !best_is_live && c < read.size(); ++c)
      if (best.fusion[c] >= 0)
        for (const int leaf : selector.graph_.fusion(static_cast<int>(c), best.fusion[c]).leaves)
          read[static_cast<size_t>(leaf)] = 1;
    const auto is_read = [&](int c) { return read[static_cast<size_t>(c)] != 0; };
    std::vector<int> leaving;
    for (const Group& group : order)
      if (std::ranges::none_of(group, is_read))
        for (const int c : group)
          if (live.in_memory()[static_cast<size_t>(c)] != 0) leaving.push_back(c);
    if (leaving.empty()) return false;
    keep_best({});
    if (memory_is_best) best_memory = live.in_memory();
    memory_is_best = false;
    live.forget_touched();
    live.flip(leaving);
    look_again();
    note_change();
    return true;
  }

  Selector& selector;
  LivePlan live;
  std::vector<Group> order;
  std::vector<int> group_of;  ///< by class; -1: it must be in memory
  Selection best, walked;     ///< `best` has fusions unless it is the live plan
  bool best_is_live = false, is_walked = false, has_asked = false;
  uint64_t now = 0;                  ///< counts changes of the plan
  std::vector<uint64_t> changed_at;  ///< by node
  std::unordered_map<uint64_t, Failed> tried;
  std::vector<char> best_memory;  ///< unless it is the live plan's
  bool memory_is_best = true;
};

Selection Selector::run() {
  const std::vector<char> all(forced().size(), 1);
  Descent descent(*this);
  if (graph_.has_guesses()) {
    descent.settled = false;
    if (descent.start(all)) descent.run();
    descent.settled = true;
  }
  // With prices instead of guesses classes take other fusions, which may be in each other's way where little
  // is in memory, and a plan that guesses made look good may be far dearer than one with all in memory.
  constexpr double kFarDearer = 2;
  const std::vector<char> last = descent.memory(), best_of_guesses = descent.memory_of_best();
  const bool is_plan = descent.start(last);
  const std::vector<char>& from = is_plan ? last : best_of_guesses;
  if (!is_plan) (void)descent.start(from);
  Selection unfused;
  const double from_us = descent.cost_us(), far_us = from_us / kFarDearer;
  const bool is_dear = plan(all, unfused, far_us) < far_us;
  if (is_dear && !(descent.start(all) && descent.cost_us() < from_us)) (void)descent.start(from);
  LUMINAL_CHECK(descent.cost_us() < kImpossible, "{} classes and {} hosts have no plan with all in memory",
                forced().size(), graph_.problem().hosts.size());
  descent.run();
  Selection best = descent.result();
  if (settled_plan(all, unfused, best.cost_us) < best.cost_us) {
    unfused.flips = best.flips;
    best = std::move(unfused);
  }
  best.unfused_us = plan(all, unfused, kImpossible);
  return best;
}

}  // namespace luminal::search
