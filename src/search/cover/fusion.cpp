#include "search/cover/fusion.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "base/cancel.h"
#include "base/hash.h"

namespace luminal::search {
namespace {

/// A fusion that grows.
struct Growing {
  Fusion fusion;
  std::vector<std::pair<int, size_t>> implementation;  ///< interior classes and their alternatives
  std::vector<int> fixed;                              ///< leaves that stay
  double merit = 0;
  double operations = 0;  ///< of root and interior, each computed once
};

/// The fusions of a class, in numbers that a class of the same surroundings shares: 0 is the root, others
/// follow as alternatives name them.
struct Recorded {
  struct Surrounding {
    double flow = 0, alone = 0;
    bool is_given = false, is_below = false, no_recompute = false, unstored = false;
  };
  std::vector<int> expanded;  ///< classes whose alternatives were looked at, the root first
  std::vector<std::vector<CoverProblem::Alternative>> alternatives;  ///< theirs
  std::vector<Surrounding> classes;                                  ///< by number
  std::vector<int> order;                                            ///< numbers, as leaves are decided
  std::vector<Fusion> fusions;
  size_t cheapest = 0;  ///< which of them costs least with its share of what it reads
};

/// Whether two costs are so close that they decide alike.
bool about_equal(double a, double b) {
  constexpr double kClose = 1.0 / 16;
  return std::abs(a - b) <= kClose * std::max(a, b);
}

class FusionFinder {
 public:
  FusionFinder(const CoverProblem& problem, const Structure& structure, SpecStore& store, CostTable& costs,
               int keep)
      : problem_(problem),
        structure_(structure),
        store_(store),
        costs_(costs),
        keep_(static_cast<size_t>(keep)) {
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

  std::vector<std::vector<Fusion>> run() {
    std::vector<int> order(problem_.classes.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](int c) { return key(c); });
    std::vector<std::vector<Fusion>> fusions(order.size());
    for (const int root : order) {
      throw_if_cancelled();
      // What is never in memory was grown for what it costs those who compute it.
      std::vector<Fusion> own = found(root);
      if (!is_unstored(root)) fusions[static_cast<size_t>(root)] = std::move(own);
    }
    return fusions;
  }

 private:
  [[nodiscard]] std::tuple<int, uint64_t, uint64_t, int> key(int c) const {
    const auto at = static_cast<size_t>(c);
    return {structure_.depth[at], structure_.shape[at], structure_.exact[at], c};
  }

  /// Leaves are decided in falling order. What is never in memory comes first: what is computed of it would seem
  /// cheap while it stands among the leaves.
  [[nodiscard]] std::pair<bool, std::tuple<int, uint64_t, uint64_t, int>> turn(int c) const {
    return {is_unstored(c), key(c)};
  }

  /// Grown, or what a class with the same surroundings got: layers that are alike grow once.
  std::vector<Fusion> found(int root) {
    if (problem_.classes[static_cast<size_t>(root)].alternatives.empty()) return {};
    std::vector<Recorded>& known = known_[label(root)];
    for (const Recorded& recorded : known)
      if (const auto classes = matched(recorded, root)) return instantiated(recorded, *classes);
    expanded_.assign(1, root);
    std::vector<Fusion> fusions = grow(root);
    if (fusions.empty()) return fusions;
    if (known.size() == kMostRecorded) known.erase(known.begin());
    known.push_back(record(root, fusions));
    return fusions;
  }

  [[nodiscard]] uint64_t label(int c) const {
    uint64_t label = 0;
    for (const auto& alternative : problem_.classes[static_cast<size_t>(c)].alternatives)
      label = combine(label, alternative.spec);
    return label;
  }

  [[nodiscard]] Recorded::Surrounding surrounding(int c, int root) const {
    const auto at = static_cast<size_t>(c);
    const auto& own = problem_.classes[at];
    return {flow_[at],
            alone_[at],
            own.alternatives.empty(),
            structure_.depth[at] < structure_.depth[static_cast<size_t>(root)],
            own.no_recompute,
            own.unstored};
  }

  /// Numbers of those that may be decided, in the order in which they are.
  [[nodiscard]] std::vector<int> order_of(const std::vector<int>& classes) const {
    std::vector<int> order;
    for (size_t i = 0; i < classes.size(); ++i)
      if (!problem_.classes[static_cast<size_t>(classes[i])].alternatives.empty())
        order.push_back(static_cast<int>(i));
    std::ranges::sort(order, {}, [&](int number) { return turn(classes[static_cast<size_t>(number)]); });
    return order;
  }

  Recorded record(int root, const std::vector<Fusion>& fusions) const {
    Recorded recorded;
    std::vector<int> classes{root};
    const auto number = [&](int c) {
      const auto at = std::ranges::find(classes, c);
      const auto place = static_cast<int>(at - classes.begin());
      if (at == classes.end()) classes.push_back(c);
      return place;
    };
    for (const int c : expanded_) {
      recorded.expanded.push_back(number(c));
      auto& alternatives =
          recorded.alternatives.emplace_back(problem_.classes[static_cast<size_t>(c)].alternatives);
      for (auto& alternative : alternatives)
        for (int& argument : alternative.arguments) argument = number(argument);
    }
    for (const int c : classes) recorded.classes.push_back(surrounding(c, root));
    recorded.order = order_of(classes);
    recorded.fusions = fusions;
    for (Fusion& fusion : recorded.fusions) {
      for (int& leaf : fusion.leaves) leaf = number(leaf);
      for (int& inner : fusion.interior) inner = number(inner);
    }
    recorded.cheapest = cheapest_;
    return recorded;
  }

  /// The classes by number, if `root` has the surroundings.
  [[nodiscard]] std::optional<std::vector<int>> matched(const Recorded& recorded, int root) const {
    std::vector<int> classes{root};
    for (size_t i = 0; i < recorded.expanded.size(); ++i) {
      const int c = classes[static_cast<size_t>(recorded.expanded[i])];
      const auto& own = problem_.classes[static_cast<size_t>(c)].alternatives;
      const auto& wanted = recorded.alternatives[i];
      if (own.size() != wanted.size()) return std::nullopt;
      for (size_t a = 0; a < own.size(); ++a) {
        if (own[a].spec != wanted[a].spec) return std::nullopt;
        for (size_t slot = 0; slot < own[a].arguments.size(); ++slot) {
          const auto at = std::ranges::find(classes, own[a].arguments[slot]);
          if (at - classes.begin() != wanted[a].arguments[slot]) return std::nullopt;
          if (at == classes.end()) classes.push_back(own[a].arguments[slot]);
        }
      }
    }
    for (size_t i = 0; i < classes.size(); ++i) {
      const Recorded::Surrounding a = surrounding(classes[i], root), &b = recorded.classes[i];
      if (a.is_given != b.is_given || a.is_below != b.is_below || a.no_recompute != b.no_recompute ||
          a.unstored != b.unstored ||
          (i > 0 && !(about_equal(a.flow, b.flow) && about_equal(a.alone, b.alone))))
        return std::nullopt;
    }
    if (order_of(classes) != recorded.order) return std::nullopt;
    return classes;
  }

  std::vector<Fusion> instantiated(const Recorded& recorded, const std::vector<int>& classes) {
    std::vector<Fusion> fusions = recorded.fusions;
    const auto name = [&](int& number) { number = classes[static_cast<size_t>(number)]; };
    for (Fusion& fusion : fusions) {
      std::ranges::for_each(fusion.leaves, name);
      std::ranges::for_each(fusion.interior, name);
      std::ranges::sort(fusion.interior);
    }
    const Fusion& cheapest = fusions[recorded.cheapest];
    double merit = cheapest.cost_us;
    for (const int leaf : cheapest.leaves) merit += flow_[static_cast<size_t>(leaf)];
    set_flow(classes[0], merit);
    return fusions;
  }

  void set_flow(int root, double merit) {
    const auto at = static_cast<size_t>(root);
    if (sunk_[at]) return;
    alone_[at] = merit;
    flow_[at] = is_unstored(root) ? merit : merit / std::max(1, readers_[at]);
  }

  std::vector<Fusion> grow(int root) {
    std::vector<Growing> found, front = starts(root);
    if (front.empty()) return {};
    std::vector<Growing> plain = front;
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
        if (is_unstored(leaf)) continue;
        state.fixed.push_back(leaf);
        next.push_back(std::move(state));
      }
      front = best(std::move(next), keep_);
      drop_hopeless(front);
    }
    return kept(std::move(found), std::move(plain), root);
  }

  /// What costs far more than the best one takes most of the time, and hardly ever leads to a fusion that is
  /// kept. The best one's leaves may have to be paid for in full. A search that keeps more fusions drops fewer.
  void drop_hopeless(std::vector<Growing>& front) const {
    if (front.empty()) return;
    const Fusion& first = front.front().fusion;
    const double further = std::max(1.0, static_cast<double>(keep_) / FusionLimits::kUsual);
    double most = (1 + limits_.worse * further) * first.cost_us;
    for (const int leaf : first.leaves) most += alone_[static_cast<size_t>(leaf)];
    std::erase_if(front, [&](const Growing& state) { return state.merit > most; });
  }

  [[nodiscard]] bool is_unstored(int c) const { return problem_.classes[static_cast<size_t>(c)].unstored; }

  std::vector<Growing> starts(int root) {
    std::vector<Growing> list;
    for (const auto& alternative : problem_.classes[static_cast<size_t>(root)].alternatives) {
      if (std::ranges::find(alternative.arguments, root) != alternative.arguments.end()) continue;
      Growing start;
      start.fusion.spec = alternative.spec;
      start.fusion.leaves = alternative.arguments;
      // A slot for each class: equal ones are joined, which is another alternative if it is defined.
      std::vector<int> sorted = start.fusion.leaves;
      std::ranges::sort(sorted);
      if (std::ranges::adjacent_find(sorted) != sorted.end() && !joined(start.fusion)) continue;
      start.operations = store_.operations(start.fusion.spec);
      rate(start);
      list.push_back(std::move(start));
    }
    return best(std::move(list), 2 * keep_);
  }

  bool joined(Fusion& fusion) {
    const SpecStore::Made* made = store_.join(fusion.spec, names_of(fusion.leaves));
    if (made == nullptr) return false;
    std::vector<int> leaves;
    for (const auto& from : made->slots) leaves.push_back(fusion.leaves[static_cast<size_t>(from.slot)]);
    fusion.spec = made->spec;
    fusion.leaves = std::move(leaves);
    return true;
  }

  /// The leaf whose turn it is, neither fixed nor there already; -1 if there is none.
  [[nodiscard]] int undecided(const Growing& state, int root) const {
    int selection = -1;
    for (const int leaf : state.fusion.leaves) {
      const auto& each = problem_.classes[static_cast<size_t>(leaf)];
      if (each.alternatives.empty() || leaf == root ||
          std::ranges::find(state.fixed, leaf) != state.fixed.end())
        continue;
      if (selection < 0 || turn(leaf) > turn(selection)) selection = leaf;
    }
    return selection;
  }

  std::vector<Growing> compositions(const Growing& state, int leaf, int root) {
    std::vector<Growing> list;
    if (std::ranges::find(expanded_, leaf) == expanded_.end()) expanded_.push_back(leaf);
    const auto& alternatives = problem_.classes[static_cast<size_t>(leaf)].alternatives;
    const auto before =
        std::ranges::find(state.implementation, leaf, [](const auto& each) { return each.first; });
    for (size_t a = 0; a < alternatives.size(); ++a) {
      if (before != state.implementation.end() && before->second != a) continue;  // one way for one class
      const auto& producer = alternatives[a];
      const auto has = [&](int c) {
        return std::ranges::find(producer.arguments, c) != producer.arguments.end();
      };
      if (has(root) || has(leaf)) continue;
      if (compositions_left_-- <= 0) break;
      const SpecStore::Made* made = inlined(state.fusion, leaf, producer);
      if (made == nullptr) continue;
      const bool is_new = before == state.implementation.end();
      const double operations = state.operations + (is_new ? store_.operations(producer.spec) : 0);
      if (store_.operations(made->spec) > limits_.repeats * operations) continue;
      Growing grown = with_inlined(state, *made, producer.arguments);
      grown.operations = operations;
      if (is_new) {
        grown.implementation.emplace_back(leaf, a);
        grown.fusion.interior.insert(std::ranges::lower_bound(grown.fusion.interior, leaf), leaf);
      }
      rate(grown);
      list.push_back(std::move(grown));
    }
    return list;
  }

  /// The fusion as composed, with room for one more class.
  static Growing with_inlined(const Growing& state, const SpecStore::Made& made,
                              const std::vector<int>& arguments) {
    Growing grown;
    grown.fusion.spec = made.spec;
    grown.fusion.leaves.reserve(made.slots.size());
    for (const auto& from : made.slots)
      grown.fusion.leaves.push_back(
          (from.producer ? arguments : state.fusion.leaves)[static_cast<size_t>(from.slot)]);
    grown.fusion.interior.reserve(state.fusion.interior.size() + 1);
    grown.fusion.interior = state.fusion.interior;
    grown.implementation.reserve(state.implementation.size() + 1);
    grown.implementation = state.implementation;
    grown.fixed = state.fixed;
    return grown;
  }

  /// Classes as the names that the store takes.
  static SpecStore::Names names_of(const std::vector<int>& classes) {
    return {reinterpret_cast<const uint32_t*>(classes.data()), classes.size()};
  }
  const SpecStore::Made* inlined(const Fusion& fusion, int leaf, const CoverProblem::Alternative& producer) {
    const auto slot = static_cast<int>(std::ranges::find(fusion.leaves, leaf) - fusion.leaves.begin());
    return store_.compose(fusion.spec, slot, producer.spec, names_of(fusion.leaves),
                          names_of(producer.arguments));
  }

  void rate(Growing& state) {
    state.fusion.cost_us = costs_.of(state.fusion.spec);
    state.merit = state.fusion.cost_us;
    for (const int leaf : state.fusion.leaves) state.merit += flow_[static_cast<size_t>(leaf)];
  }

  /// A total order that does not know how classes are numbered.
  [[nodiscard]] auto rank(const Growing& state) const {
    uint64_t leaves = 0;
    for (const int leaf : state.fusion.leaves) leaves += structure_.exact[static_cast<size_t>(leaf)];
    return std::tuple(state.merit, state.fusion.leaves.size(), store_.at(state.fusion.spec).hash(), leaves,
                      state.fixed.size());
  }

  std::vector<Growing> best(std::vector<Growing> list, size_t count) const {
    std::vector<std::pair<decltype(rank(list[0])), size_t>> order;
    order.reserve(list.size());
    for (size_t i = 0; i < list.size(); ++i) order.emplace_back(rank(list[i]), i);
    std::ranges::sort(order);
    std::vector<Growing> implementation;
    for (const auto& ranked : order) {
      Growing& state = list[ranked.second];
      const bool known = std::ranges::any_of(implementation, [&](const Growing& other) {
        return other.fusion.spec == state.fusion.spec && other.fusion.leaves == state.fusion.leaves &&
               other.fixed == state.fixed;
      });
      if (!known) implementation.push_back(std::move(state));
      if (implementation.size() == count) break;
    }
    return implementation;
  }

  std::vector<Fusion> kept(std::vector<Growing> found, std::vector<Growing> plain, int root) {
    std::erase_if(plain, [&](const Growing& start) {
      return std::ranges::any_of(start.fusion.leaves, [&](int leaf) { return is_unstored(leaf); });
    });
    if (found.empty() && plain.empty()) return {};
    std::ranges::stable_sort(found, {}, [&](const Growing& state) { return rank(state); });
    const Fusion cheapest = found.empty() ? plain.front().fusion : found.front().fusion;
    const int depth = structure_.depth[static_cast<size_t>(root)];
    const auto lies_below = [&](int leaf) { return structure_.depth[static_cast<size_t>(leaf)] < depth; };
    std::vector<Fusion> fusions;
    const auto add = [&](Fusion fusion) {
      fusion.downhill = std::ranges::all_of(fusion.leaves, lies_below);
      std::ranges::any_of(fusions, [&](const Fusion& other) { return dominates(other, fusion); })
          ? void()
          : fusions.push_back(std::move(fusion));
    };
    for (Growing& state : found)
      if (fusions.size() < keep_) add(std::move(state.fusion));
    if (!found.empty()) set_flow(root, found.front().merit);
    // The plain ways to compute the class stay open: with everything in memory there always is a plan.
    for (const Growing& start : plain) {
      const bool known = std::ranges::any_of(fusions, [&](const Fusion& fusion) {
        return fusion.spec == start.fusion.spec && fusion.leaves == start.fusion.leaves;
      });
      if (known) continue;
      fusions.push_back(start.fusion);
      fusions.back().downhill = std::ranges::all_of(start.fusion.leaves, lies_below);
    }
    std::ranges::stable_sort(fusions, {}, [&](const Fusion& fusion) {
      return std::tuple(fusion.cost_us, fusion.leaves.size(), store_.at(fusion.spec).hash());
    });
    const auto is_cheapest = [&](const Fusion& fusion) {
      return fusion.spec == cheapest.spec && fusion.leaves == cheapest.leaves;
    };
    cheapest_ = static_cast<size_t>(std::ranges::find_if(fusions, is_cheapest) - fusions.begin());
    return fusions;
  }

  /// Whether `a` does for less whatever `b` does.
  [[nodiscard]] bool dominates(const Fusion& a, const Fusion& b) const {
    const auto computes_once = [&](int c) { return problem_.classes[static_cast<size_t>(c)].no_recompute; };
    return a.cost_us <= b.cost_us && (a.downhill || !b.downhill) &&
           std::ranges::none_of(a.interior, computes_once) && std::ranges::all_of(a.leaves, [&](int leaf) {
             return std::ranges::find(b.leaves, leaf) != b.leaves.end();
           });
  }

  const CoverProblem& problem_;
  const Structure& structure_;
  SpecStore& store_;
  CostTable& costs_;
  size_t keep_;
  FusionLimits limits_;
  static constexpr size_t kMostRecorded = 16;
  std::unordered_map<uint64_t, std::vector<Recorded>> known_;  ///< by label
  std::vector<int> expanded_;  ///< of the root that grows: classes whose alternatives were looked at
  size_t cheapest_ = 0;        ///< of its fusions, with their shares of what they read
  int compositions_left_ = 0;
  std::vector<double> flow_;   ///< what a reader pays for a class, in us, if all pay the same
  std::vector<double> alone_;  ///< and if it is the only one that needs it
  std::vector<int> readers_;
  std::vector<bool> sunk_;  ///< in memory whatever readers do
};

}  // namespace

std::vector<std::vector<Fusion>> find_fusions(const CoverProblem& problem, const Structure& structure,
                                              SpecStore& store, CostTable& costs, int keep) {
  return FusionFinder(problem, structure, store, costs, keep).run();
}

}  // namespace luminal::search
