#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "luminal/egraph.h"

namespace luminal::egraph {

/// Queries and actions after name resolution: equalities are substituted away, and every remaining variable
/// and every constant has a slot, so that joins and actions know nothing but slots.
using Slot = uint32_t;

struct SlotInfo {
  bool constant = false;
  SortId sort{};
  Value value = kNoValue;  ///< of a constant
};

struct CompiledAtom {
  FunctionId function{};
  std::vector<Slot> columns;  ///< one for each stored column of the table
};

struct CompiledCall {
  PrimitiveId primitive{};
  std::vector<Slot> args;
  Slot output = 0;
};

struct CompiledQuery {
  std::vector<SlotInfo> slots;
  std::vector<CompiledAtom> atoms;
  std::vector<CompiledCall> calls;
  std::vector<std::pair<Slot, Slot>> equal;  ///< pairs of eq-sort constants that must be in one class
  std::vector<Slot> slot_of;                 ///< by the writer's numbering of variables
  std::vector<Slot> outputs;                 ///< variables that the consumer of the matches reads
  bool never = false;                        ///< contradictory: no match is possible
  bool match_subsumed = false;
};

struct CompiledAction {
  Action::Kind kind = Action::Kind::Call;
  /// Call of a constructor whose result is then united with a value known before: the row is inserted with
  /// `known` as its output, no id is made; `value` becomes an alias of it.
  bool fused_union = false;
  bool skip_on_failure = false;
  FunctionId function{};
  PrimitiveId primitive{};
  std::vector<Slot> args;  ///< table keys (padded as stored), primitive arguments, the two sides of a union
  Slot value = 0;          ///< bound by Call and Primitive, read by Set
  Slot known = 0;
  std::string message;
};

using CompiledActions = std::vector<CompiledAction>;

struct EngineState;
struct RuleInfo;

/// Compiles `rule.spec`; again when explanations are switched on, which need more of each match.
void compile_rule(const EngineState& state, RuleInfo& rule);

/// Error if a variable stays unbound or a column's sort does not fit; `where` names the rule or command.
[[nodiscard]] CompiledQuery compile_query(const EngineState& state, const Query& query,
                                          std::string_view where);

/// Compiles actions that run after `query`, whose variables they may read; their own variables and constants
/// get slots in it, and `query.outputs` becomes what they read of the query's.
[[nodiscard]] CompiledActions compile_actions(const EngineState& state, CompiledQuery& query,
                                              const ActionBlock& block, std::string_view where);

/// A query without atoms that binds `variables` from outside: the base for top-level action blocks and
/// merges.
[[nodiscard]] CompiledQuery bound_variables(const std::vector<Variable>& variables);

}  // namespace luminal::egraph
