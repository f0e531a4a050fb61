#pragma once
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "luminal/egraph.h"
#include "unit/egraph/core_naive.h"

namespace luminal::egraph::testing {

/// Facts up to the naming of ids: each class is named by what its rows look like, a few levels deep.
template <class ForEachRow>
std::multiset<uint64_t> fingerprint(const EGraph& g, ForEachRow&& for_each_row) {
  const auto mix = [](uint64_t a, uint64_t b) {
    uint64_t h = (a ^ (b + 0x9e3779b97f4a7c15ULL + (a << 6) + (a >> 2))) * 0xff51afd7ed558ccdULL;
    return h ^ (h >> 29);
  };
  std::map<Value, uint64_t> label;
  std::multiset<uint64_t> rows;
  for (int round = 0; round < 5; round++) {
    std::map<Value, uint64_t> next;
    rows.clear();
    for (const FunctionId f : g.functions_listed()) {
      const FunctionSpec& spec = g.spec(f);
      for_each_row(f, [&](std::span<const Value> args, Value output, bool subsumed) {
        uint64_t h = mix(static_cast<uint64_t>(f) * 2 + (subsumed ? 1 : 0), 7);
        for (size_t i = 0; i < args.size(); i++)
          h = mix(h, g.is_eq_sort(spec.inputs[i]) ? label[args[i]] : args[i] + 1000);
        const bool id = g.is_eq_sort(spec.output);
        if (id) next[output] += h;
        // Where ids are used counts too: classes without rows of their own must be told apart.
        for (size_t i = 0; i < args.size(); i++)
          if (g.is_eq_sort(spec.inputs[i])) next[args[i]] += mix(h, i + 100) * 3;
        rows.insert(mix(h, id ? label[output] : output));
        return true;
      });
    }
    label = std::move(next);
  }
  return rows;
}

inline std::multiset<uint64_t> fingerprint(const EGraph& g) {
  return fingerprint(g, [&](FunctionId f, auto&& visit) { g.for_each_row(f, visit); });
}

inline std::multiset<uint64_t> fingerprint(const EGraph& g, NaiveEngine& naive) {
  return fingerprint(g, [&](FunctionId f, auto&& visit) {
    for (const auto& [key, row] : naive.table(f))
      visit(std::span<const Value>(key), row.output, row.subsumed);
  });
}

/// A random program over a fixed vocabulary: two binary, one unary and one leaf constructor, two relations, a
/// function with a minimum as merge, a partial primitive.
class RandomProgram {
 public:
  RandomProgram(EGraph& g, uint64_t seed, bool naive_rules)
      : g_(g), random_(seed), naive_rules_(naive_rules) {
    e_ = g.eq_sort("E");
    binary_ = {g.constructor("F", {e_, e_}, e_), g.constructor("G", {e_, e_}, e_)};
    unary_ = g.constructor("H", {e_}, e_);
    leaf_ = g.constructor("L", {kI64}, e_);
    pair_ = g.relation("pair", {e_, e_});
    tag_ = g.relation("tag", {e_});
    FunctionSpec least{.name = "least", .kind = FunctionKind::Function, .inputs = {e_}, .output = kI64};
    least.merge = Merge::computed([&g](Value a, Value b) { return g.as_i64(a) < g.as_i64(b) ? a : b; });
    least_ = g.function(std::move(least));
    halve_ = g.primitive({.name = "halve", .call = [&g](std::span<const Value> a) -> std::optional<Value> {
                            const int64_t x = g.as_i64(a[0]);
                            return x % 2 != 0 ? std::nullopt : std::optional(g.i64(x / 2));
                          }});
    rules_ = g.ruleset("rules");
    const int count = 2 + pick(5);
    for (int i = 0; i < count; i++) add_rule(i);
  }

  /// The same facts into the engine and, if there is one, the evaluator. Returns the engine's ids.
  std::vector<Value> add_facts(NaiveEngine* naive, int count) {
    std::vector<Value> ids, naive_ids;
    const auto both = [&](FunctionId f, std::vector<Value> args, std::vector<Value> naive_args) {
      ids.push_back(g_.add(f, args));
      if (naive != nullptr)
        naive_ids.push_back(naive->add(f, naive_args));
      else
        naive_ids.push_back(0);
    };
    for (int i = 0; i < 4; i++) {
      const Value k = g_.i64(pick(5));
      both(leaf_, {k}, {k});
    }
    for (int i = 0; i < count; i++) {
      const int a = pick(static_cast<int>(ids.size())), b = pick(static_cast<int>(ids.size()));
      if (pick(4) == 0)
        both(unary_, {ids[a]}, {naive_ids[a]});
      else
        both(binary_[pick(2)], {ids[a], ids[b]}, {naive_ids[a], naive_ids[b]});
      if (pick(2) == 0) {
        g_.add(pair_, {ids[a], ids.back()});
        if (naive != nullptr) naive->add(pair_, {naive_ids[a], naive_ids.back()});
      }
      if (pick(3) == 0) {
        const Value k = g_.i64(pick(9));
        const std::vector<Value> key{ids[b]};
        g_.set(least_, key, k);
        if (naive != nullptr) naive->set(least_, {naive_ids[b]}, k);
      }
    }
    if (naive != nullptr) naive->rebuild();
    return ids;
  }

  [[nodiscard]] RulesetId ruleset() const { return rules_; }
  [[nodiscard]] const std::vector<RuleId>& rules() const { return ids_; }

 private:
  int pick(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }

  Term id_variable(RuleSpec& rule) {
    std::vector<uint32_t> known;
    for (uint32_t v = 0; v < rule.query.variables.size(); v++)
      if (rule.query.variables[v].sort == e_) known.push_back(v);
    if (!known.empty() && pick(5) < 3) return Term::variable(known[pick(static_cast<int>(known.size()))]);
    return variable(rule, e_);
  }
  static Term variable(RuleSpec& rule, SortId sort) {
    rule.query.variables.push_back({"v" + std::to_string(rule.query.variables.size()), sort});
    return Term::variable(static_cast<uint32_t>(rule.query.variables.size() - 1));
  }
  Term bound(const RuleSpec& rule) {
    std::vector<uint32_t> known;
    for (uint32_t v = 0; v < rule.query.variables.size(); v++)
      if (rule.query.variables[v].sort == e_) known.push_back(v);
    return Term::variable(known[pick(static_cast<int>(known.size()))]);
  }

  void add_atom(RuleSpec& rule) {
    Query& q = rule.query;
    switch (pick(8)) {
      case 0:
      case 1:
      case 2: {
        const Term a = id_variable(rule), b = id_variable(rule);
        q.atoms.push_back({binary_[pick(2)], {a, b}, id_variable(rule)});
        break;
      }
      case 3: {
        const Term a = id_variable(rule);
        q.atoms.push_back({unary_, {a}, id_variable(rule)});
        break;
      }
      case 4: {
        const Term k = pick(2) == 0 ? Term::constant(kI64, g_.i64(pick(5))) : variable(rule, kI64);
        q.atoms.push_back({leaf_, {k}, id_variable(rule)});
        if (k.is_variable() && pick(2) == 0) q.primitives.push_back({halve_, {k}, variable(rule, kI64)});
        break;
      }
      case 5: {
        const Term a = id_variable(rule);
        q.atoms.push_back({pair_, {a, id_variable(rule)}});
        break;
      }
      case 6:
        q.atoms.push_back({tag_, {id_variable(rule)}});
        break;
      default: {
        const Term a = id_variable(rule);
        q.atoms.push_back({least_, {a}, variable(rule, kI64)});
        break;
      }
    }
  }

  Term new_variable(RuleSpec& rule, SortId sort) {
    rule.actions.variables.push_back({"t", sort});
    return Term::variable(
        static_cast<uint32_t>(rule.query.variables.size() + rule.actions.variables.size() - 1));
  }

  void add_action(RuleSpec& rule) {
    auto& actions = rule.actions.actions;
    switch (pick(10)) {
      case 0:
        actions.push_back(Action::unite(bound(rule), bound(rule)));
        break;
      case 1:
      case 2:
      case 3: {
        const Term made = new_variable(rule, e_);
        actions.push_back(Action::call(binary_[pick(2)], {bound(rule), bound(rule)}, made));
        if (pick(3) != 0) actions.push_back(Action::unite(bound(rule), made));
        break;
      }
      case 4: {
        const Term made = new_variable(rule, e_);
        actions.push_back(Action::call(leaf_, {Term::constant(kI64, g_.i64(pick(5)))}, made));
        actions.push_back(Action::unite(made, bound(rule)));
        break;
      }
      case 5:
        actions.push_back(Action::call(pair_, {bound(rule), bound(rule)}, new_variable(rule, kUnit)));
        break;
      case 6:
        actions.push_back(Action::call(tag_, {bound(rule)}, new_variable(rule, kUnit)));
        break;
      case 7:
        actions.push_back(Action::set(least_, {bound(rule)}, Term::constant(kI64, g_.i64(pick(9)))));
        break;
      case 8:
        // A match fires once, so with deletions semi-naive evaluation is not the same thing.
        if (!naive_rules_) return add_action(rule);
        actions.push_back(pick(2) == 0 ? Action::remove(pair_, {bound(rule), bound(rule)})
                                       : Action::remove(binary_[1], {bound(rule), bound(rule)}));
        break;
      default:
        actions.push_back(Action::subsume(unary_, {bound(rule)}));
        break;
    }
  }

  void add_rule(int number) {
    RuleSpec rule{.name = "rule" + std::to_string(number)};
    rule.naive = naive_rules_;
    id_variable(rule);
    rule.query.atoms.push_back({binary_[pick(2)], {Term::variable(0), id_variable(rule)}, id_variable(rule)});
    for (int i = pick(3); i > 0; i--) add_atom(rule);
    for (int i = 1 + pick(2); i > 0; i--) add_action(rule);
    ids_.push_back(g_.rule(rules_, std::move(rule)));
  }

  EGraph& g_;
  std::mt19937_64 random_;
  bool naive_rules_;
  SortId e_{};
  std::vector<FunctionId> binary_;
  FunctionId unary_{}, leaf_{}, pair_{}, tag_{}, least_{};
  PrimitiveId halve_{};
  RulesetId rules_{};
  std::vector<RuleId> ids_;
};

}  // namespace luminal::egraph::testing
