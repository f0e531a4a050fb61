#pragma once
#include <map>
#include <set>
#include <vector>

#include "luminal/egraph.h"

/// An evaluator that does what the engine promises in the plainest way: rows in ordered maps, joins as nested
/// loops over everything, congruence by rewriting all rows until nothing changes. It reads declarations and
/// rules from an engine (their IR only) and keeps facts of its own. Plain sorts only besides eq-sorts.
namespace luminal::egraph::testing {

class NaiveEngine {
 public:
  struct RowValue {
    Value output = kUnitValue;
    bool subsumed = false;
  };
  using Rows = std::map<std::vector<Value>, RowValue>;

  explicit NaiveEngine(const EGraph& declarations)
      : graph_(declarations), tables_(declarations.functions_listed().size()) {}

  Value find(Value id) const {
    while (parent_[id] != id) id = parent_[id];
    return id;
  }
  Value add(FunctionId f, const std::vector<Value>& args) {
    Rows& rows = table(f);
    const auto known = rows.find(args);
    if (known != rows.end()) return known->second.output;
    const bool constructor = graph_.spec(f).kind == FunctionKind::Constructor;
    const Value output = constructor ? fresh() : kUnitValue;
    rows[args].output = output;
    return output;
  }
  void set(FunctionId f, const std::vector<Value>& args, Value output) {
    Rows& rows = table(f);
    const auto [at, fresh_row] = rows.try_emplace(args, RowValue{output, false});
    if (!fresh_row) merge(f, at->second.output, output);
  }
  void unite(Value a, Value b) {
    a = find(a);
    b = find(b);
    if (a != b) parent_[std::max(a, b)] = std::min(a, b);
  }

  /// One iteration: all matches of all rules on the present rows, then all actions, then congruence.
  void step(const std::vector<RuleId>& rules) {
    struct Match {
      RuleId rule;
      std::vector<Value> values;
    };
    std::vector<Match> matches;
    for (const RuleId rule : rules)
      for (std::vector<Value>& values : match(graph_.spec(rule).query))
        matches.push_back({rule, std::move(values)});
    std::set<std::pair<uint32_t, std::vector<Value>>> deleted, subsumed;
    for (Match& m : matches) {
      const ActionBlock& block = graph_.spec(m.rule).actions;
      m.values.resize(m.values.size() + block.variables.size());
      const auto value_of = [&](const Term& t) { return t.is_variable() ? m.values[t.at] : t.at; };
      for (const Action& action : block.actions) {
        std::vector<Value> args;
        for (const Term& t : action.args) args.push_back(value_of(t));
        const auto row = std::make_pair(static_cast<uint32_t>(action.function), args);
        switch (action.kind) {
          case Action::Kind::Call:
            m.values[action.value.at] = add(action.function, args);
            break;
          case Action::Kind::Primitive:
            m.values[action.value.at] = *graph_.spec(action.primitive).call(args);
            break;
          case Action::Kind::Set:
            set(action.function, args, value_of(action.value));
            break;
          case Action::Kind::Union:
            unite(args[0], args[1]);
            break;
          case Action::Kind::Delete:
            deleted.insert(row);
            break;
          case Action::Kind::Subsume:
            add(action.function, args);
            subsumed.insert(row);
            break;
          case Action::Kind::Panic:
            break;
        }
      }
    }
    for (const auto& row : deleted)
      if (before_.contains(row)) tables_[row.first].erase(row.second);
    for (const auto& [f, key] : subsumed)
      if (const auto at = tables_[f].find(key); at != tables_[f].end()) at->second.subsumed = true;
    rebuild();
  }

  void rebuild() {
    for (bool changed = true; changed;) {
      changed = false;
      for (uint32_t f = 0; f < tables_.size(); f++) {
        Rows old;
        old.swap(tables_[f]);
        for (const auto& [key, value] : old) {
          const FunctionSpec& spec = graph_.spec(FunctionId{f});
          std::vector<Value> canonical = key;
          for (size_t i = 0; i < key.size(); i++)
            if (graph_.is_eq_sort(spec.inputs[i])) canonical[i] = find(key[i]);
          const Value output = graph_.is_eq_sort(spec.output) ? find(value.output) : value.output;
          changed |= canonical != key || output != value.output;
          const auto [at, fresh_row] = tables_[f].try_emplace(canonical, RowValue{output, value.subsumed});
          if (fresh_row) continue;
          at->second.subsumed |= value.subsumed;
          merge(FunctionId{f}, at->second.output, output);
        }
      }
    }
    before_.clear();
    for (uint32_t f = 0; f < tables_.size(); f++)
      for (const auto& row : tables_[f]) before_.insert({f, row.first});
  }

  std::vector<std::vector<Value>> match(const Query& query) {
    std::vector<std::vector<Value>> out;
    std::vector<Value> values(query.variables.size(), kNoValue);
    match_atoms(query, 0, values, out);
    return out;
  }

  Rows& table(FunctionId f) { return tables_[static_cast<uint32_t>(f)]; }
  [[nodiscard]] size_t row_count() const {
    size_t rows = 0;
    for (const Rows& table : tables_) rows += table.size();
    return rows;
  }

 private:
  Value fresh() {
    parent_.push_back(static_cast<Value>(parent_.size()));
    return parent_.back();
  }

  void merge(FunctionId f, Value& present, Value next) {
    const FunctionSpec& spec = graph_.spec(f);
    switch (spec.merge.kind) {
      case Merge::Kind::Union:
        unite(present, next);
        break;
      case Merge::Kind::Callback:
        present = spec.merge.callback(present, next);
        break;
      default:
        break;
    }
  }

  static bool bind(std::vector<Value>& values, const Term& term, Value value) {
    if (!term.is_variable()) return term.at == value;
    if (values[term.at] == kNoValue) values[term.at] = value;
    return values[term.at] == value;
  }

  void match_atoms(const Query& query, size_t at, const std::vector<Value>& values,
                   std::vector<std::vector<Value>>& out) {
    if (at == query.atoms.size()) return finish(query, values, out);
    const Atom& atom = query.atoms[at];
    for (const auto& [key, row] : table(atom.function)) {
      if (row.subsumed && !query.match_subsumed) continue;
      std::vector<Value> next = values;
      bool fits = true;
      for (size_t i = 0; i < key.size() && fits; i++) fits = bind(next, atom.args[i], key[i]);
      if (fits && bind(next, atom.output, row.output)) match_atoms(query, at + 1, next, out);
    }
  }

  // Calls and equalities in any order until nothing new is bound; then all must hold.
  void finish(const Query& query, std::vector<Value> values, std::vector<std::vector<Value>>& out) {
    const auto known = [&](const Term& t) { return !t.is_variable() || values[t.at] != kNoValue; };
    const auto value_of = [&](const Term& t) { return t.is_variable() ? values[t.at] : t.at; };
    for (size_t round = 0; round <= query.primitives.size() + query.equalities.size(); round++) {
      for (const Equality& e : query.equalities) {
        if (known(e.left) && !bind(values, e.right, value_of(e.left))) return;
        if (known(e.right) && !bind(values, e.left, value_of(e.right))) return;
      }
      for (const PrimitiveAtom& call : query.primitives) {
        std::vector<Value> args;
        bool ready = true;
        for (const Term& t : call.args) ready &= known(t);
        if (!ready) continue;
        for (const Term& t : call.args) args.push_back(value_of(t));
        const auto result = graph_.spec(call.primitive).call(args);
        if (!result || !bind(values, call.output, *result)) return;
      }
    }
    out.push_back(std::move(values));
  }

  const EGraph& graph_;
  std::vector<Rows> tables_;
  std::vector<Value> parent_;
  std::set<std::pair<uint32_t, std::vector<Value>>> before_;
};

}  // namespace luminal::egraph::testing
