#include "search/cones.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include "base/cancel.h"

namespace luminal::search {
namespace {

/// A cone that grows.
struct Growing {
  Cone cone;
  std::vector<std::pair<int, size_t>> chosen;  ///< interior classes and their alternatives
  std::vector<int> fixed;                      ///< leaves that stay
  double merit = 0;
  double operations = 0;  ///< of root and interior, each computed once
};

class ConeFinder {
 public:
  ConeFinder(const CoverProblem& problem, const Colours& colours, SpecStore& store, CostTable& costs,
             int keep)
      : problem_(problem), colours_(colours), store_(store), costs_(costs), keep_(static_cast<size_t>(keep)) {
    const size_t count = problem.classes.size();
    flow_.assign(count, 0);
    alone_.assign(count, 0);
    readers_.assign(count, 0);
    sunk_.assign(count, false);
    for (size_t c = 0; c < count; ++c) {
      sunk_[c] = problem.classes[c].wanted || problem.classes[c].alternatives.empty();
      std::set<int> read;
      for (const auto& alternative : problem.classes[c].alternatives)
        read.insert(alternative.arguments.begin(), alternative.arguments.end());
      for (const int argument : read) ++readers_[static_cast<size_t>(argument)];
    }
    for (const auto& host : problem.hosts)
      for (const int input : host.inputs) sunk_[static_cast<size_t>(input)] = true;
  }

  std::vector<std::vector<Cone>> run() {
    std::vector<int> order(problem_.classes.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](int c) { return key(c); });
    std::vector<std::vector<Cone>> cones(order.size());
    for (const int root : order) {
      throw_if_cancelled();
      cones[static_cast<size_t>(root)] = grow(root);
    }
    return cones;
  }

 private:
  [[nodiscard]] std::tuple<int, uint64_t, int> key(int c) const {
    const auto at = static_cast<size_t>(c);
    return {colours_.depth[at], colours_.exact[at], c};
  }

  std::vector<Cone> grow(int root) {
    std::vector<Growing> found, front = starts(root);
    if (front.empty()) return {};
    const std::vector<Growing> plain = front;
    compositions_left_ = limits_.compositions * static_cast<int>(keep_);
    while (!front.empty()) {
      std::vector<Growing> next;
      for (Growing& state : front) {
        const int leaf = undecided(state, root);
        if (leaf < 0) {
          found.push_back(std::move(state));
          continue;
        }
        for (Growing& grown : compositions(state, leaf, root)) next.push_back(std::move(grown));
        state.fixed.push_back(leaf);
        next.push_back(std::move(state));
      }
      front = best(std::move(next), keep_);
      drop_hopeless(front);
    }
    return kept(std::move(found), plain, root);
  }

  /// What costs far more than the best one takes most of the time, and hardly ever leads to a cone that is
  /// kept. The best one's leaves may have to be paid for in full. Who keeps more looks further.
  void drop_hopeless(std::vector<Growing>& front) const {
    if (front.empty()) return;
    const Cone& first = front.front().cone;
    const double further = std::max(1.0, static_cast<double>(keep_) / ConeLimits::kUsual);
    double most = (1 + limits_.worse * further) * first.cost_us;
    for (const int leaf : first.leaves) most += alone_[static_cast<size_t>(leaf)];
    std::erase_if(front, [&](const Growing& state) { return state.merit > most; });
  }

  std::vector<Growing> starts(int root) {
    std::vector<Growing> list;
    for (const auto& alternative : problem_.classes[static_cast<size_t>(root)].alternatives) {
      if (std::ranges::find(alternative.arguments, root) != alternative.arguments.end()) continue;
      Growing start;
      start.cone.spec = alternative.spec;
      start.cone.leaves = alternative.arguments;
      // A slot for each class: equal ones are joined, which is another alternative if it is defined.
      std::vector<int> sorted = start.cone.leaves;
      std::ranges::sort(sorted);
      if (std::ranges::adjacent_find(sorted) != sorted.end() && !joined(start.cone)) continue;
      start.operations = store_.operations(start.cone.spec);
      rate(start);
      list.push_back(std::move(start));
    }
    return best(std::move(list), 2 * keep_);
  }

  bool joined(Cone& cone) {
    const std::vector<uint32_t> names(cone.leaves.begin(), cone.leaves.end());
    const SpecStore::Made* made = store_.join(cone.spec, names);
    if (made == nullptr) return false;
    std::vector<int> leaves;
    for (const auto& from : made->slots) leaves.push_back(cone.leaves[static_cast<size_t>(from.slot)]);
    cone.spec = made->spec;
    cone.leaves = std::move(leaves);
    return true;
  }

  /// The deepest leaf that is neither fixed nor there already; -1 if there is none.
  [[nodiscard]] int undecided(const Growing& state, int root) const {
    int choice = -1;
    for (const int leaf : state.cone.leaves) {
      const auto& each = problem_.classes[static_cast<size_t>(leaf)];
      if (each.alternatives.empty() || leaf == root ||
          std::ranges::find(state.fixed, leaf) != state.fixed.end())
        continue;
      if (choice < 0 || key(leaf) > key(choice)) choice = leaf;
    }
    return choice;
  }

  std::vector<Growing> compositions(const Growing& state, int leaf, int root) {
    std::vector<Growing> list;
    const auto& alternatives = problem_.classes[static_cast<size_t>(leaf)].alternatives;
    const auto before = std::ranges::find(state.chosen, leaf, [](const auto& each) { return each.first; });
    for (size_t a = 0; a < alternatives.size(); ++a) {
      if (before != state.chosen.end() && before->second != a) continue;  // one way for one class
      const auto& producer = alternatives[a];
      const auto has = [&](int c) {
        return std::ranges::find(producer.arguments, c) != producer.arguments.end();
      };
      if (has(root) || has(leaf)) continue;
      if (compositions_left_-- <= 0) break;
      Growing grown = state;
      if (!inline_leaf(grown.cone, leaf, producer)) continue;
      if (before == state.chosen.end()) {
        grown.operations += store_.operations(producer.spec);
        grown.chosen.emplace_back(leaf, a);
        grown.cone.interior.insert(std::ranges::lower_bound(grown.cone.interior, leaf), leaf);
      }
      if (store_.operations(grown.cone.spec) > limits_.repeats * grown.operations) continue;
      rate(grown);
      list.push_back(std::move(grown));
    }
    return list;
  }

  bool inline_leaf(Cone& cone, int leaf, const CoverProblem::Alternative& producer) {
    const auto slot = static_cast<int>(std::ranges::find(cone.leaves, leaf) - cone.leaves.begin());
    const std::vector<uint32_t> own(cone.leaves.begin(), cone.leaves.end()),
        theirs(producer.arguments.begin(), producer.arguments.end());
    const SpecStore::Made* made = store_.compose(cone.spec, slot, producer.spec, own, theirs);
    if (made == nullptr) return false;
    std::vector<int> leaves;
    for (const auto& from : made->slots)
      leaves.push_back((from.producer ? producer.arguments : cone.leaves)[static_cast<size_t>(from.slot)]);
    cone.spec = made->spec;
    cone.leaves = std::move(leaves);
    return true;
  }

  void rate(Growing& state) {
    state.cone.cost_us = costs_.of(state.cone.spec);
    state.merit = state.cone.cost_us;
    for (const int leaf : state.cone.leaves) state.merit += flow_[static_cast<size_t>(leaf)];
  }

  /// A total order that does not know how classes are numbered.
  [[nodiscard]] auto rank(const Growing& state) const {
    uint64_t leaves = 0;
    for (const int leaf : state.cone.leaves) leaves += colours_.exact[static_cast<size_t>(leaf)];
    return std::tuple(state.merit, state.cone.leaves.size(), store_.at(state.cone.spec).hash(), leaves,
                      state.fixed.size());
  }

  std::vector<Growing> best(std::vector<Growing> list, size_t count) const {
    std::ranges::stable_sort(list, {}, [&](const Growing& state) { return rank(state); });
    std::vector<Growing> chosen;
    for (Growing& state : list) {
      const bool known = std::ranges::any_of(chosen, [&](const Growing& other) {
        return other.cone.spec == state.cone.spec && other.cone.leaves == state.cone.leaves &&
               other.fixed == state.fixed;
      });
      if (!known) chosen.push_back(std::move(state));
      if (chosen.size() == count) break;
    }
    return chosen;
  }

  std::vector<Cone> kept(std::vector<Growing> found, const std::vector<Growing>& plain, int root) {
    std::ranges::stable_sort(found, {}, [&](const Growing& state) { return rank(state); });
    const int depth = colours_.depth[static_cast<size_t>(root)];
    const auto lies_below = [&](int leaf) { return colours_.depth[static_cast<size_t>(leaf)] < depth; };
    std::vector<Cone> cones;
    const auto add = [&](Cone cone) {
      cone.downhill = std::ranges::all_of(cone.leaves, lies_below);
      std::ranges::any_of(cones, [&](const Cone& other) { return dominates(other, cone); })
          ? void()
          : cones.push_back(std::move(cone));
    };
    for (Growing& state : found)
      if (cones.size() < keep_) add(std::move(state.cone));
    const auto at = static_cast<size_t>(root);
    if (!found.empty() && !sunk_[at]) {
      alone_[at] = found.front().merit;
      flow_[at] = alone_[at] / std::max(1, readers_[at]);
    }
    // The plain ways to compute the class stay open: with everything in memory there always is a plan.
    for (const Growing& start : plain) {
      const bool known = std::ranges::any_of(cones, [&](const Cone& cone) {
        return cone.spec == start.cone.spec && cone.leaves == start.cone.leaves;
      });
      if (known) continue;
      cones.push_back(start.cone);
      cones.back().downhill = std::ranges::all_of(start.cone.leaves, lies_below);
    }
    std::ranges::stable_sort(cones, {}, [&](const Cone& cone) {
      return std::tuple(cone.cost_us, cone.leaves.size(), store_.at(cone.spec).hash());
    });
    return cones;
  }

  /// Whether `a` does for less whatever `b` does.
  [[nodiscard]] bool dominates(const Cone& a, const Cone& b) const {
    const auto computes_once = [&](int c) { return problem_.classes[static_cast<size_t>(c)].once; };
    return a.cost_us <= b.cost_us && (a.downhill || !b.downhill) &&
           std::ranges::none_of(a.interior, computes_once) && std::ranges::all_of(a.leaves, [&](int leaf) {
             return std::ranges::find(b.leaves, leaf) != b.leaves.end();
           });
  }

  const CoverProblem& problem_;
  const Colours& colours_;
  SpecStore& store_;
  CostTable& costs_;
  size_t keep_;
  ConeLimits limits_;
  int compositions_left_ = 0;  ///< of the root that grows
  std::vector<double> flow_;   ///< what a reader pays for a class, in us, if all pay the same
  std::vector<double> alone_;  ///< and if it is the only one that needs it
  std::vector<int> readers_;
  std::vector<bool> sunk_;  ///< in memory whatever readers do
};

}  // namespace

std::vector<std::vector<Cone>> find_cones(const CoverProblem& problem, const Colours& colours,
                                          SpecStore& store, CostTable& costs, int keep) {
  return ConeFinder(problem, colours, store, costs, keep).run();
}

}  // namespace luminal::search
