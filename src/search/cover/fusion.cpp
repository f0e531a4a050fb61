#include "search/cover/fusion.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/cancel.h"
#include "base/hash.h"
#include "base/team.h"
#include "kernel/axes.h"

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

/// A class whose fusions grow.
struct Growth {
  int root = 0;
  std::vector<Growing> front, found, plain;
  std::vector<int> expanded;  ///< classes whose alternatives were looked at, the root first
  int compositions_left = 0;
};

/// The fusions of a class, in numbers that a class of the same surroundings shares: 0 is the root, others
/// follow as alternatives name them.
struct Recorded {
  struct Surrounding {
    double flow = 0, least = 0, alone = 0;
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
    least_.assign(count, 0);
    alone_.assign(count, 0);
    readers_.assign(count, 0);
    sunk_.assign(count, false);
    numbers_.assign(count, {0, 0});
    for (size_t c = 0; c < count; ++c) {
      spread_.push_back(is_spread(static_cast<int>(c)));
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
    fusions_.resize(order.size());
    for (size_t next = 0; next < order.size();) {
      const std::span window = window_of(std::span(order).subspan(next));
      grow_window(window);
      next += window.size();
    }
    return std::move(fusions_);
  }

 private:
  [[nodiscard]] std::tuple<int, uint64_t, uint64_t, int> key(int c) const {
    const auto at = static_cast<size_t>(c);
    return {structure_.depth[at], structure_.shape[at], structure_.exact[at], c};
  }

  /// Leaves are decided in falling order. What is never in memory comes first: what is computed of it would seem
  /// cheap while it stands among the leaves. Then comes what is spread out of less (masks, rows of one-hot encodings): a
  /// fold that reads it may be another one with it, such as a sum of one term.
  [[nodiscard]] std::tuple<bool, bool, std::tuple<int, uint64_t, uint64_t, int>> turn(int c) const {
    return {is_unstored(c), spread_[static_cast<size_t>(c)], key(c)};
  }

  /// Whether a class is elementwise of tensors that are small beside it.
  [[nodiscard]] bool is_spread(int c) const {
    constexpr double kSmall = 1.0 / 8;
    return std::ranges::any_of(alternatives_of(c), [&](const auto& alternative) {
      const kernel::KernelSpec& spec = store_.at(alternative.spec);
      double read = 0;
      for (const kernel::Slot& slot : spec.slots()) read += kernel::typical_size(slot.elements);
      return is_elementwise(alternative) && read <= kSmall * kernel::typical_size(spec.outputs()[0].elements);
    });
  }

  [[nodiscard]] const std::vector<CoverProblem::Alternative>& alternatives_of(int c) const {
    return problem_.classes[static_cast<size_t>(c)].alternatives;
  }

  /// Classes of one depth hardly ever read each other: their fusions grow side by side.
  [[nodiscard]] std::span<const int> window_of(std::span<const int> order) const {
    constexpr size_t kMost = 64;
    const auto depth = [&](int c) { return structure_.depth[static_cast<size_t>(c)]; };
    size_t count = 1;
    while (count < std::min(order.size(), kMost) && depth(order[count]) == depth(order[0])) ++count;
    return order.first(count);
  }

  /// As if the fusions of one class after the other grew: what grew by costs that have changed since grows again.
  void grow_window(std::span<const int> window) {
    throw_if_cancelled();
    std::vector<Growth> growths;
    if (costs_.is_shared() && window.size() > 1) growths = unlike_others(window);
    if (growths.size() < 2) growths.clear();  // it grows when its turn comes
    Team::shared().for_each(growths.size(), [&](size_t i) { grow(growths[i]); });
    changed_.clear();
    for (const int root : window) {
      const auto own = std::ranges::find(growths, root, &Growth::root);
      // What is never in memory was grown for what it costs those who compute it.
      std::vector<Fusion> made = fusions_of(root, own == growths.end() ? nullptr : &*own);
      if (!is_unstored(root)) fusions_[static_cast<size_t>(root)] = std::move(made);
    }
  }

  /// Those that have to grow, as far as is known yet.
  std::vector<Growth> unlike_others(std::span<const int> window) {
    std::vector<Growth> growths;
    std::vector<std::pair<uint64_t, uint64_t>> marks;
    for (const int root : window) {
      if (alternatives_of(root).empty()) continue;
      const uint64_t own = label(root);
      const auto known = known_.find(own);
      if (known != known_.end() && std::ranges::any_of(known->second, [&](const Recorded& recorded) {
            return matched(recorded, root).has_value();
          }))
        continue;
      const std::pair mark(own, structure_.shape[static_cast<size_t>(root)]);
      if (std::ranges::find(marks, mark) != marks.end()) continue;
      marks.push_back(mark);
      growths.push_back({.root = root});
    }
    return growths;
  }

  /// Grown, or what a class with the same surroundings got: layers that are alike grow once.
  std::vector<Fusion> fusions_of(int root, Growth* grown) {
    if (alternatives_of(root).empty()) return {};
    std::vector<Recorded>& known = known_[label(root)];
    for (const Recorded& recorded : known)
      if (const auto classes = matched(recorded, root)) return instantiated(recorded, *classes);
    Growth again{.root = root};
    if (grown == nullptr || !is_current(*grown)) grow(*(grown = &again));
    std::vector<Fusion> fusions = kept(std::move(grown->found), std::move(grown->plain), root);
    if (fusions.empty()) return fusions;
    if (known.size() == kMostRecorded) known.erase(known.begin());
    known.push_back(record(root, fusions, grown->expanded));
    return fusions;
  }

  /// Whether nothing that it read has another cost now.
  [[nodiscard]] bool is_current(const Growth& growth) const {
    const auto has_changed = [&](int c) { return std::ranges::find(changed_, c) != changed_.end(); };
    return changed_.empty() || std::ranges::none_of(growth.expanded, [&](int c) {
             return std::ranges::any_of(alternatives_of(c), [&](const auto& alternative) {
               return std::ranges::any_of(alternative.arguments, has_changed);
             });
           });
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
            least_[at],
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

  Recorded record(int root, const std::vector<Fusion>& fusions, const std::vector<int>& expanded) const {
    Recorded recorded;
    std::vector<int> classes{root};
    const auto number = [&](int c) {
      const auto at = std::ranges::find(classes, c);
      const auto place = static_cast<int>(at - classes.begin());
      if (at == classes.end()) classes.push_back(c);
      return place;
    };
    for (const int c : expanded) {
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
  [[nodiscard]] std::optional<std::vector<int>> matched(const Recorded& recorded, int root) {
    std::vector<int> classes{root};
    ++match_;
    numbers_[static_cast<size_t>(root)] = {match_, 0};
    const auto number = [&](int c) {
      auto& [match, own] = numbers_[static_cast<size_t>(c)];
      if (std::exchange(match, match_) != match_) {
        own = static_cast<int>(classes.size());
        classes.push_back(c);
      }
      return own;
    };
    for (size_t i = 0; i < recorded.expanded.size(); ++i) {
      const auto& own = alternatives_of(classes[static_cast<size_t>(recorded.expanded[i])]);
      const auto& wanted = recorded.alternatives[i];
      if (own.size() != wanted.size()) return std::nullopt;
      for (size_t a = 0; a < own.size(); ++a) {
        if (own[a].spec != wanted[a].spec) return std::nullopt;
        for (size_t slot = 0; slot < own[a].arguments.size(); ++slot)
          if (number(own[a].arguments[slot]) != wanted[a].arguments[slot]) return std::nullopt;
      }
    }
    for (size_t i = 0; i < classes.size(); ++i) {
      const Recorded::Surrounding a = surrounding(classes[i], root), &b = recorded.classes[i];
      if (a.is_given != b.is_given || a.is_below != b.is_below || a.no_recompute != b.no_recompute ||
          a.unstored != b.unstored ||
          (i > 0 &&
           !(about_equal(a.flow, b.flow) && about_equal(a.least, b.least) && about_equal(a.alone, b.alone))))
        return std::nullopt;
    }
    if (!is_order(recorded.order, classes)) return std::nullopt;
    return classes;
  }

  /// Whether numbers stand in the order in which their classes are decided: no two have the same turn.
  [[nodiscard]] bool is_order(const std::vector<int>& order, const std::vector<int>& classes) const {
    const auto turn_of = [&](int number) { return turn(classes[static_cast<size_t>(number)]); };
    return std::ranges::is_sorted(order, {}, turn_of);
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
    changed_.push_back(root);
    alone_[at] = merit;
    flow_[at] = is_unstored(root) ? merit : merit / std::max(1, readers_[at]);
    least_[at] = flow_[at];
    for (const auto& alternative : problem_.classes[at].alternatives) {
      if (!is_elementwise(alternative)) continue;
      double of_inputs = 0;
      for (const int argument : alternative.arguments) of_inputs += least_[static_cast<size_t>(argument)];
      least_[at] = std::min(least_[at], of_inputs);
    }
  }

  [[nodiscard]] bool is_elementwise(const CoverProblem::Alternative& alternative) const {
    return std::ranges::none_of(store_.at(alternative.spec).values(),
                                [](const kernel::Value& v) { return v.monoid.has_value(); });
  }

  void grow(Growth& growth) {
    growth.front = growth.plain = starts(growth.root);
    growth.expanded = {growth.root};
    growth.compositions_left = limits_.compositions * static_cast<int>(keep_);
    while (!growth.front.empty()) {
      std::vector<Growing> next;
      for (Growing& state : growth.front) {
        const int leaf = undecided(state, growth.root);
        if (leaf < 0) {
          growth.found.push_back(std::move(state));
          continue;
        }
        add_compositions(growth, state, leaf, next);
        if (is_unstored(leaf)) continue;
        state.fixed.push_back(leaf);
        state.merit += flow_[static_cast<size_t>(leaf)] - least_[static_cast<size_t>(leaf)];
        next.push_back(std::move(state));
      }
      growth.front = best(std::move(next), keep_);
      drop_hopeless(growth.front);
    }
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

  /// The fusion with each alternative of a leaf in its place.
  void add_compositions(Growth& growth, const Growing& state, int leaf, std::vector<Growing>& list) {
    if (std::ranges::find(growth.expanded, leaf) == growth.expanded.end()) growth.expanded.push_back(leaf);
    const auto& alternatives = alternatives_of(leaf);
    const auto before =
        std::ranges::find(state.implementation, leaf, [](const auto& each) { return each.first; });
    for (size_t a = 0; a < alternatives.size(); ++a) {
      if (before != state.implementation.end() && before->second != a) continue;  // one way for one class
      const auto& producer = alternatives[a];
      const auto has = [&](int c) {
        return std::ranges::find(producer.arguments, c) != producer.arguments.end();
      };
      if (has(growth.root) || has(leaf)) continue;
      if (growth.compositions_left-- <= 0) break;
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

  const SpecStore::Made* inlined(const Fusion& fusion, int leaf, const CoverProblem::Alternative& producer) {
    const auto slot = static_cast<int>(std::ranges::find(fusion.leaves, leaf) - fusion.leaves.begin());
    return store_.compose(fusion.spec, slot, producer.spec, names_of(fusion.leaves),
                          names_of(producer.arguments));
  }

  void rate(Growing& state) {
    state.fusion.cost_us = costs_.of(state.fusion.spec);
    state.merit = state.fusion.cost_us;
    for (const int leaf : state.fusion.leaves) {
      const bool is_fixed = std::ranges::find(state.fixed, leaf) != state.fixed.end();
      state.merit += (is_fixed ? flow_ : least_)[static_cast<size_t>(leaf)];
    }
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
  std::vector<std::vector<Fusion>> fusions_;                   ///< by class
  std::vector<std::pair<uint64_t, int>> numbers_;  ///< by class: the match that met it last, its number there
  uint64_t match_ = 0;
  std::vector<int> changed_;   ///< classes of the window whose costs for readers are new
  size_t cheapest_ = 0;        ///< of its fusions, with their shares of what they read
  std::vector<double> flow_;   ///< what a reader pays for a class, in us, if all pay the same
  std::vector<double> least_;  ///< and a reader that may compute it itself, as long as that is open
  std::vector<double> alone_;  ///< what a reader pays if it is the only one that needs it
  std::vector<int> readers_;
  std::vector<bool> sunk_;    ///< in memory whatever readers do
  std::vector<bool> spread_;  ///< elementwise of tensors that are small beside it
};

}  // namespace

std::vector<std::vector<Fusion>> find_fusions(const CoverProblem& problem, const Structure& structure,
                                              SpecStore& store, CostTable& costs, int keep) {
  return FusionFinder(problem, structure, store, costs, keep).run();
}

}  // namespace luminal::search
