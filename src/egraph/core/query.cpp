#include "egraph/core/query.h"

#include <algorithm>
#include <unordered_map>

#include "base/fail.h"
#include "egraph/core/state.h"

namespace luminal::egraph {

namespace {

std::string_view sort_text(const EngineState& state, SortId sort) { return state.at(sort).hooks.name; }

/// Classes of variables under the query's equalities, and the constant that each is equal to, if any.
class Substitution {
 public:
  Substitution(const EngineState& state, CompiledQuery& out, const Query& query)
      : state_(state), out_(out), parent_(query.variables.size()), constant_(query.variables.size()) {
    for (uint32_t v = 0; v < parent_.size(); v++) parent_[v] = v;
  }

  uint32_t find(uint32_t v) const {
    while (parent_[v] != v) v = parent_[v];
    return v;
  }
  void equate(const Term& a, const Term& b) {
    if (!a.is_variable() && !b.is_variable()) return equate_constants(a, b);
    if (!a.is_variable()) return equate(b, a);
    const uint32_t left = find(a.at);
    if (!b.is_variable()) {
      if (constant_[left].has_value()) return equate_constants(*constant_[left], b);
      constant_[left] = b;
      return;
    }
    const uint32_t right = find(b.at);
    if (left == right) return;
    if (constant_[left] && constant_[right]) equate_constants(*constant_[left], *constant_[right]);
    if (!constant_[left]) constant_[left] = constant_[right];
    parent_[right] = left;
  }
  [[nodiscard]] const std::optional<Term>& constant_of(uint32_t variable) const {
    return constant_[find(variable)];
  }

 private:
  void equate_constants(const Term& a, const Term& b) {
    if (a == b) return;
    if (state_.at(a.sort).kind == SortKind::Plain) {
      out_.never = true;
      return;
    }
    for (const Term& side : {a, b}) out_.slots.push_back({true, side.sort, side.at});
    out_.equal.emplace_back(out_.slots.size() - 2, out_.slots.size() - 1);
  }

  const EngineState& state_;
  CompiledQuery& out_;
  std::vector<uint32_t> parent_;
  std::vector<std::optional<Term>> constant_;
};

/// Slots of terms. A generated term may hold tens of thousands of constants: equal ones are found by hash.
class Slots {
 public:
  Slots(CompiledQuery& query, std::string_view where) : query_(query), where_(where) {
    for (Slot s = 0; s < query.slots.size(); s++)
      if (query.slots[s].constant) constants_.try_emplace(key(query.slots[s].sort, query.slots[s].value), s);
  }
  Slot constant(const Term& term) {
    const auto next = static_cast<Slot>(query_.slots.size());
    const auto [found, fresh] = constants_.try_emplace(key(term.sort, term.at), next);
    if (fresh) query_.slots.push_back({true, term.sort, term.at});
    return found->second;
  }
  Slot of(const Term& term) {
    if (!term.is_variable()) return constant(term);
    if (term.at >= query_.slot_of.size())
      fail("[{}] variable number {} is not declared: there are {}", where_, term.at, query_.slot_of.size());
    return query_.slot_of[term.at];
  }
  [[nodiscard]] SortId sort_of(Slot slot) const { return query_.slots[slot].sort; }
  [[nodiscard]] std::string_view where() const { return where_; }

 private:
  static uint64_t key(SortId sort, Value value) { return uint64_t{index_of(sort)} << 32 | value; }

  CompiledQuery& query_;
  std::string_view where_;
  std::unordered_map<uint64_t, Slot> constants_;
};

void check_arity(const FunctionSpec& spec, size_t given, std::string_view where) {
  if (given != spec.inputs.size())
    fail("[{}] {} takes {} arguments, but {} are given", where, spec.name, spec.inputs.size(), given);
}

void check_sort(const EngineState& state, const Slots& slots, Slot slot, SortId wanted,
                std::string_view what) {
  if (slots.sort_of(slot) != wanted)
    fail("[{}] an argument of {} has sort {}, it takes {}", slots.where(), what,
         sort_text(state, slots.sort_of(slot)), sort_text(state, wanted));
}

/// Slots of a table's key columns; a nullary function has one Unit column.
std::vector<Slot> key_slots(const EngineState& state, Slots& slots, FunctionId function,
                            const std::vector<Term>& args) {
  const FunctionSpec& spec = state.at(function).spec;
  check_arity(spec, args.size(), slots.where());
  std::vector<Slot> key;
  for (size_t i = 0; i < args.size(); i++) {
    key.push_back(slots.of(args[i]));
    check_sort(state, slots, key.back(), spec.inputs[i], spec.name);
  }
  if (args.empty()) key.push_back(slots.constant(Term::constant(kUnit, kUnitValue)));
  return key;
}

void check_bound(const CompiledQuery& query, const Query& source, std::string_view where) {
  std::vector<bool> bound(query.slots.size(), false);
  for (Slot s = 0; s < query.slots.size(); s++) bound[s] = query.slots[s].constant;
  for (const CompiledAtom& atom : query.atoms)
    for (const Slot s : atom.columns) bound[s] = true;
  for (bool progress = true; progress;) {
    progress = false;
    for (const CompiledCall& call : query.calls) {
      if (bound[call.output] ||
          !std::all_of(call.args.begin(), call.args.end(), [&](Slot s) { return bound[s]; }))
        continue;
      bound[call.output] = true;
      progress = true;
    }
  }
  for (size_t v = 0; v < source.variables.size(); v++)
    if (!bound[query.slot_of[v]])
      fail(
          "[{}] variable {} is not bound by any fact; use it in an atom or as the result of a call on bound "
          "ones",
          where, source.variables[v].name);
}

}  // namespace

CompiledQuery compile_query(const EngineState& state, const Query& query, std::string_view where) {
  CompiledQuery out;
  out.match_subsumed = query.match_subsumed;
  Substitution same(state, out, query);
  const auto check_variable = [&](const Term& t) {
    if (t.is_variable() && t.at >= query.variables.size())
      fail("[{}] variable number {} is not declared: there are {}", where, t.at, query.variables.size());
  };
  for (const Equality& e : query.equalities) {
    check_variable(e.left);
    check_variable(e.right);
    same.equate(e.left, e.right);
  }
  for (const Atom& atom : query.atoms)
    if (state.at(atom.function).spec.kind == FunctionKind::Relation) {
      check_variable(atom.output);
      same.equate(atom.output, Term::constant(kUnit, kUnitValue));
    }
  Slots slots(out, where);
  std::vector<Slot> root_slot(query.variables.size(), kNoValue);
  for (uint32_t v = 0; v < query.variables.size(); v++) {
    const uint32_t root = same.find(v);
    if (root_slot[root] == kNoValue) {
      if (const auto& constant = same.constant_of(v)) {
        root_slot[root] = slots.constant(*constant);
      } else {
        out.slots.push_back({false, query.variables[root].sort, kNoValue});
        root_slot[root] = static_cast<Slot>(out.slots.size() - 1);
      }
    }
    out.slot_of.push_back(root_slot[root]);
  }
  for (const Atom& atom : query.atoms) {
    CompiledAtom compiled{atom.function, key_slots(state, slots, atom.function, atom.args)};
    const FunctionSpec& spec = state.at(atom.function).spec;
    if (spec.kind != FunctionKind::Relation) {
      compiled.columns.push_back(slots.of(atom.output));
      check_sort(state, slots, compiled.columns.back(), spec.output, spec.name);
    }
    out.atoms.push_back(std::move(compiled));
  }
  for (const PrimitiveAtom& call : query.primitives) {
    CompiledCall compiled{call.primitive, {}, 0};
    for (const Term& t : call.args) compiled.args.push_back(slots.of(t));
    compiled.output = slots.of(call.output);
    out.calls.push_back(std::move(compiled));
  }
  check_bound(out, query, where);
  for (const Slot s : out.slot_of)
    if (!out.slots[s].constant && std::find(out.outputs.begin(), out.outputs.end(), s) == out.outputs.end())
      out.outputs.push_back(s);
  return out;
}

CompiledQuery bound_variables(const std::vector<Variable>& variables) {
  CompiledQuery out;
  for (const Variable& variable : variables) {
    out.slot_of.push_back(static_cast<Slot>(out.slots.size()));
    out.slots.push_back({false, variable.sort, kNoValue});
  }
  return out;
}

namespace {

/// `t = f(...)` followed by `union(t, known)`: the row goes in with `known` as its output and needs no id.
void fuse_unions(const CompiledQuery& query, CompiledActions& actions, const EngineState& state) {
  std::vector<size_t> bound_at(query.slots.size(), 0);  // 0: before the first action
  for (size_t i = 0; i < actions.size(); i++)
    if (actions[i].kind == Action::Kind::Call || actions[i].kind == Action::Kind::Primitive)
      bound_at[actions[i].value] = i + 1;
  for (size_t u = 0; u < actions.size(); u++) {
    if (actions[u].kind != Action::Kind::Union) continue;
    for (const int side : {0, 1}) {
      const Slot made = actions[u].args[side], known = actions[u].args[1 - side];
      const size_t at = bound_at[made];
      if (at == 0 || made == known || query.slots[made].constant || bound_at[known] >= at) continue;
      CompiledAction& call = actions[at - 1];
      if (call.kind != Action::Kind::Call || call.fused_union) continue;
      if (state.at(call.function).spec.kind != FunctionKind::Constructor) continue;
      call.fused_union = true;
      call.known = known;
      actions.erase(actions.begin() + static_cast<std::ptrdiff_t>(u));
      return fuse_unions(query, actions, state);
    }
  }
}

}  // namespace

CompiledActions compile_actions(const EngineState& state, CompiledQuery& query, const ActionBlock& block,
                                std::string_view where) {
  const size_t outer_slots = query.slots.size();
  std::vector<bool> bound(query.slots.size(), true);
  for (const Variable& variable : block.variables) {
    query.slot_of.push_back(static_cast<Slot>(query.slots.size()));
    query.slots.push_back({false, variable.sort, kNoValue});
    bound.push_back(false);
  }
  CompiledActions out;
  Slots slots(query, where);
  std::vector<bool> read(query.slots.size(), false);
  const auto use = [&](Slot slot) {
    if (slot >= bound.size()) return slot;  // a constant made just now
    if (!bound[slot] && !query.slots[slot].constant)
      fail("[{}] an action reads a variable before it is bound", where);
    read[slot] = true;
    return slot;
  };
  for (const Action& action : block.actions) {
    CompiledAction c;
    c.kind = action.kind;
    c.function = action.function;
    c.primitive = action.primitive;
    c.skip_on_failure = action.skip_on_failure;
    c.message = action.message;
    switch (action.kind) {
      case Action::Kind::Call:
      case Action::Kind::Set:
      case Action::Kind::Delete:
      case Action::Kind::Subsume:
        c.args = key_slots(state, slots, action.function, action.args);
        break;
      case Action::Kind::Primitive:
      case Action::Kind::Union:
        for (const Term& t : action.args) c.args.push_back(slots.of(t));
        break;
      case Action::Kind::Panic:
        break;
    }
    for (const Slot s : c.args) use(s);
    if (action.kind == Action::Kind::Set) {
      c.value = use(slots.of(action.value));
      check_sort(state, slots, c.value, state.at(action.function).spec.output,
                 state.at(action.function).spec.name);
    } else if (action.kind == Action::Kind::Call || action.kind == Action::Kind::Primitive) {
      if (!action.value.is_variable()) fail("[{}] the result of a call goes to a variable", where);
      c.value = slots.of(action.value);
      if (c.value >= bound.size() || bound[c.value])
        fail("[{}] variable number {} is bound twice", where, action.value.at);
      bound[c.value] = true;
    }
    out.push_back(std::move(c));
  }
  if (state.log == nullptr) fuse_unions(query, out, state);
  query.outputs.clear();
  for (Slot s = 0; s < outer_slots; s++)
    if (read[s] && !query.slots[s].constant) query.outputs.push_back(s);
  return out;
}

void compile_rule(const EngineState& state, RuleInfo& rule) {
  rule.query = compile_query(state, rule.spec.query, rule.spec.name);
  const std::vector<Slot> all = rule.query.outputs;
  rule.actions = compile_actions(state, rule.query, rule.spec.actions, rule.spec.name);
  if (state.log != nullptr) rule.query.outputs = all;
  rule.has_id_constants = false;
  for (const SlotInfo& slot : rule.query.slots)
    rule.has_id_constants |= slot.constant && state.at(slot.sort).kind != SortKind::Plain;
  rule.plans.clear();
}

}  // namespace luminal::egraph
