#include <charconv>
#include <cmath>
#include <unordered_map>

#include "base/fail.h"
#include "base/suggest.h"
#include "egraph/core/sexpr.h"
#include "egraph/core/state.h"

namespace luminal::egraph {

namespace {

/// Lowers pattern text to the IR: sorts come from the functions that variables are arguments of.
class PatternLowering {
 public:
  PatternLowering(EGraph& graph, std::string_view where) : graph_(graph), where_(where) {}

  Query query;
  ActionBlock actions;

  Term pattern(const Sexpr& e, std::optional<SortId> wanted) {
    if (e.kind == SexprNode::Kind::List) return application(e, wanted);
    if (auto constant = literal(e)) return expect(e, *constant, constant->sort, wanted);
    if (e.text == "_") return fresh_variable("_", need(e, wanted));
    if (e.text.empty() || e.text[0] != '?') {
      // A nullary constructor may be written without parentheses.
      if (graph_.find_function(e.text)) return application(e, wanted);
      error(e, fmt::format("'{}' is neither a literal nor a declared name; variables begin with ?{}", e.text,
                           did_you_mean(e.text, names())));
    }
    const auto known = variables_.find(e.text);
    if (known != variables_.end()) {
      const Term term = Term::variable(known->second);
      return expect(e, term, sort_of(term), wanted);
    }
    if (in_actions_) error(e, fmt::format("{} is not bound by the left side", e.text));
    const Term term = fresh_variable(e.text, need(e, wanted));
    variables_[e.text] = term.at;
    return term;
  }

  void condition(const std::string& text) {
    const Sexpr e = parse(text);
    if (e.kind != SexprNode::Kind::List || e.items.empty())
      error(e, "a condition is a pattern or (= pattern pattern)");
    if (e.items[0].text != "=") {
      pattern(e, std::nullopt);
      return;
    }
    if (e.items.size() != 3) error(e, "= takes two patterns");
    const bool second_first = is_unknown_variable(e.items[1]);
    const Term a = pattern(e.items[second_first ? 2 : 1], std::nullopt);
    const Term b = pattern(e.items[second_first ? 1 : 2], sort_of(a));
    query.equalities.push_back({a, b});
  }

  void begin_actions() { in_actions_ = true; }

  void action(const std::string& text) {
    const Sexpr e = parse(text);
    if (e.kind != SexprNode::Kind::List || e.items.empty()) error(e, "an action is a list");
    const std::string& head = e.items[0].text;
    const auto arity = [&](size_t n) {
      if (e.items.size() != n + 1) error(e, fmt::format("{} takes {} arguments", head, n));
    };
    if (head == "union") {
      arity(2);
      const Term a = pattern(e.items[1], std::nullopt);
      unite(a, pattern(e.items[2], sort_of(a)));
    } else if (head == "set") {
      arity(2);
      const FunctionId f = function_of(e.items[1]);
      std::vector<Term> args = arguments(e.items[1], graph_.spec(f).inputs);
      const Term value = pattern(e.items[2], graph_.spec(f).output);
      actions.actions.push_back(Action::set(f, std::move(args), value));
    } else if (head == "let") {
      arity(2);
      variables_[e.items[1].text] = pattern(e.items[2], std::nullopt).at;
    } else if (head == "delete" || head == "subsume") {
      arity(1);
      const FunctionId f = function_of(e.items[1]);
      std::vector<Term> args = arguments(e.items[1], graph_.spec(f).inputs);
      actions.actions.push_back(head == "delete" ? Action::remove(f, std::move(args))
                                                 : Action::subsume(f, std::move(args)));
    } else if (head == "panic") {
      arity(1);
      actions.actions.push_back(Action::panic(e.items[1].text));
    } else {
      pattern(e, std::nullopt);
    }
  }

  void unite(Term a, Term b) { actions.actions.push_back(Action::unite(a, b)); }

  Sexpr parse(std::string_view text) {
    source_ = text;
    return parse_sexpr(text);
  }

  [[nodiscard]] SortId sort_of(const Term& t) const {
    if (!t.is_variable()) return t.sort;
    return t.at < query.variables.size() ? query.variables[t.at].sort
                                         : actions.variables[t.at - query.variables.size()].sort;
  }

 private:
  std::optional<Term> literal(const Sexpr& e) {
    if (e.kind == SexprNode::Kind::String) return Term::constant(kString, graph_.string(e.text));
    if (e.text == "true" || e.text == "false")
      return Term::constant(kBool, EGraph::boolean(e.text == "true"));
    const char *begin = e.text.data(), *end = begin + e.text.size();
    int64_t integer = 0;
    const auto whole = std::from_chars(begin, end, integer);
    if (whole.ec == std::errc::result_out_of_range && whole.ptr == end)
      error(e, "the integer does not fit in 64 bits");
    if (whole.ec == std::errc() && whole.ptr == end) return Term::constant(kI64, graph_.i64(integer));
    double real = 0;
    const auto part = std::from_chars(begin, end, real);
    const bool number =
        begin != end && (std::isdigit(static_cast<unsigned char>(*begin)) != 0 || *begin == '-');
    if (number && part.ec == std::errc() && part.ptr == end) return Term::constant(kF64, graph_.f64(real));
    return std::nullopt;
  }

  Term application(const Sexpr& e, std::optional<SortId> wanted) {
    const Sexpr& head = e.kind == SexprNode::Kind::List ? first(e) : e;
    const auto function = graph_.find_function(head.text);
    if (!function) return primitive(e, wanted);
    const FunctionSpec& spec = graph_.spec(*function);
    std::vector<Term> args = arguments(e, spec.inputs);
    const bool relation = spec.kind == FunctionKind::Relation;
    if (!in_actions_ && relation) {
      query.atoms.push_back({*function, std::move(args), Term::constant(kUnit, kUnitValue)});
      return Term::constant(kUnit, kUnitValue);
    }
    const Term out = fresh_variable(spec.name, spec.output);
    if (in_actions_)
      actions.actions.push_back(Action::call(*function, std::move(args), out));
    else
      query.atoms.push_back({*function, std::move(args), out});
    return expect(e, out, spec.output, wanted);
  }

  Term primitive(const Sexpr& e, std::optional<SortId> wanted) {
    const Sexpr& head = first(e);
    const auto known = graph_.state().primitive_names.find(head.text);
    if (known == graph_.state().primitive_names.end())
      error(head, fmt::format("unknown name '{}'{}", head.text, did_you_mean(head.text, names())));
    const std::vector<PrimitiveId>& overloads = known->second;
    std::vector<Term> args;
    const std::vector<SortId>& hints = graph_.spec(overloads[0]).inputs;
    for (size_t i = 1; i < e.items.size(); i++) {
      const bool use_hint = overloads.size() == 1 && i <= hints.size();
      args.push_back(pattern(e.items[i], use_hint ? std::optional(hints[i - 1]) : std::nullopt));
    }
    for (const PrimitiveId id : overloads) {
      const PrimitiveSpec& spec = graph_.spec(id);
      bool fits = spec.inputs.empty() || spec.inputs.size() == args.size();
      for (size_t i = 0; i < spec.inputs.size() && fits; i++) fits = sort_of(args[i]) == spec.inputs[i];
      if (!fits) continue;
      const Term out = fresh_variable(spec.name, spec.output);
      if (in_actions_)
        actions.actions.push_back(Action::primitive_call(id, std::move(args), out));
      else
        query.primitives.push_back({id, std::move(args), out});
      return expect(e, out, spec.output, wanted);
    }
    error(head, fmt::format("no overload of '{}' takes these arguments", head.text));
  }

  std::vector<Term> arguments(const Sexpr& e, const std::vector<SortId>& inputs) {
    const size_t given = e.items.empty() ? 0 : e.items.size() - 1;
    if (given != inputs.size())
      error(e, fmt::format("{} takes {} arguments, but {} are given",
                           e.items.empty() ? e.text : e.items[0].text, inputs.size(), given));
    std::vector<Term> args;
    for (size_t i = 0; i < inputs.size(); i++) args.push_back(pattern(e.items[i + 1], inputs[i]));
    return args;
  }

  FunctionId function_of(const Sexpr& e) {
    const Sexpr& head = first(e);
    const auto f = graph_.find_function(head.text);
    if (!f) error(head, fmt::format("unknown function '{}'{}", head.text, did_you_mean(head.text, names())));
    return *f;
  }

  const Sexpr& first(const Sexpr& e) {
    if (e.items.empty() || e.items[0].kind != SexprNode::Kind::Word) error(e, "expected a name after '('");
    return e.items[0];
  }

  Term fresh_variable(const std::string& name, SortId sort) {
    if (in_actions_) {
      actions.variables.push_back({name, sort});
      return Term::variable(static_cast<uint32_t>(query.variables.size() + actions.variables.size() - 1));
    }
    query.variables.push_back({name, sort});
    return Term::variable(static_cast<uint32_t>(query.variables.size() - 1));
  }

  Term expect(const Sexpr& e, Term term, SortId sort, std::optional<SortId> wanted) {
    if (wanted && *wanted != sort)
      error(e, fmt::format("expected sort {}, found {}", graph_.sort_name(*wanted), graph_.sort_name(sort)));
    return term;
  }

  SortId need(const Sexpr& e, std::optional<SortId> wanted) {
    if (!wanted)
      error(e, fmt::format("the sort of {} is not known here; name it in an earlier pattern", e.text));
    return *wanted;
  }

  bool is_unknown_variable(const Sexpr& e) const {
    return e.kind == SexprNode::Kind::Word && !e.text.empty() && e.text[0] == '?' &&
           !variables_.contains(e.text);
  }

  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const FunctionId f : graph_.functions_listed()) out.push_back(graph_.spec(f).name);
    for (const PrimitiveInfo& p : graph_.state().primitives) out.push_back(p.spec.name);
    return out;
  }

  [[noreturn]] void error(const Sexpr& e, std::string_view what) const {
    fail("[{}] {} (position {} of: {})", where_, what, e.position, source_);
  }

  EGraph& graph_;
  std::string_view where_, source_;
  std::unordered_map<std::string, uint32_t> variables_;
  bool in_actions_ = false;
};

}  // namespace

RuleId EGraph::rewrite(RulesetId ruleset, std::string name, std::string_view left, std::string_view right,
                       std::vector<std::string> conditions) {
  PatternLowering lowering(*this, name);
  const Sexpr pattern = lowering.parse(left);
  const Term matched = lowering.pattern(pattern, std::nullopt);
  if (!is_eq_sort(lowering.sort_of(matched)))
    fail("[{}] the left side has sort {}: only eq-sorts can be rewritten", name,
         sort_name(lowering.sort_of(matched)));
  for (const std::string& condition : conditions) lowering.condition(condition);
  lowering.begin_actions();
  const Sexpr result = lowering.parse(right);
  const Term made = lowering.pattern(result, lowering.sort_of(matched));
  lowering.unite(matched, made);
  RuleSpec spec{name, {}, std::move(lowering.query), std::move(lowering.actions)};
  return rule(ruleset, std::move(spec));
}

RuleId EGraph::rule(RulesetId ruleset, std::string name, std::vector<std::string> facts,
                    std::vector<std::string> actions) {
  PatternLowering lowering(*this, name);
  for (const std::string& fact : facts) lowering.condition(fact);
  lowering.begin_actions();
  for (const std::string& action : actions) lowering.action(action);
  RuleSpec spec{name, {}, std::move(lowering.query), std::move(lowering.actions)};
  return rule(ruleset, std::move(spec));
}

Value EGraph::add_term(std::string_view term) {
  PatternLowering lowering(*this, "term");
  lowering.begin_actions();
  const Sexpr parsed = lowering.parse(term);
  const Term result = lowering.pattern(parsed, std::nullopt);
  if (!result.is_variable()) return result.at;
  return execute(lowering.actions)[result.at];
}

std::string EGraph::to_string(const TermDag& term) const {
  std::vector<std::string> texts(term.nodes.size());
  for (size_t i = 0; i < term.nodes.size(); i++) {
    const TermDag::Node& node = term.nodes[i];
    if (!node.is_function) {
      std::vector<std::string> elements;
      for (const uint32_t child : node.children) elements.push_back(texts[child]);
      const ContainerSort& hooks = sort_hooks(node.sort);
      texts[i] = hooks.print ? hooks.print(node.value, elements) : fmt::format("#{}", node.value);
      continue;
    }
    texts[i] = "(" + spec(node.function).name;
    for (const uint32_t child : node.children) texts[i] += " " + texts[child];
    texts[i] += ")";
  }
  return term.nodes.empty() ? "" : texts[term.root];
}

}  // namespace luminal::egraph
