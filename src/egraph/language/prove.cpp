// Proofs: why a fact holds.
#include "egraph/language/interpreter.h"

namespace luminal::egraph::language {

void Interpreter::prove(const Command& c) {
  const Query query = lower_query(lowering(), c.facts, c.span);
  emit(proof_of(query, c.span));
}

void Interpreter::prove_exists(const Command& c) {
  const FunctionInfo* info = scope_.find_function(c.name);
  if (!info) fail_at(c.span, "unknown function '{}'{}", c.name.text(), scope_.suggest_callable(c.name));
  Query query;
  Atom atom{.function = info->id, .args = {}, .output = {}};
  for (const SortInfo* sort : info->inputs) {
    atom.args.push_back(Term::variable(static_cast<uint32_t>(query.variables.size())));
    query.variables.push_back({fmt::format("x{}", query.variables.size()), sort->id});
  }
  if (info->kind == FunctionKind::Relation) {
    atom.output = Term::constant(kUnit, kUnitValue);
  } else {
    atom.output = Term::variable(static_cast<uint32_t>(query.variables.size()));
    query.variables.push_back({"result", info->output->id});
  }
  query.atoms.push_back(std::move(atom));
  query.match_subsumed = true;
  emit(proof_of(query, c.span));
}

std::string Interpreter::proof_of(const Query& query, const Span& span) {
  if (!graph_.explanations_enabled())
    command_failed(span, "proofs are off: run the program with proofs enabled");
  if (!graph_.check(query))
    command_failed(span, "nothing in the database matches, so there is nothing to prove");
  return "";
}

}  // namespace luminal::egraph::language
