#include <algorithm>

#include "base/suggest.h"
#include "egraph/language/parser.h"

namespace luminal::egraph::language {

const std::unordered_map<std::string_view, Parser::Entry>& Parser::commands() {
  static const std::unordered_map<std::string_view, Entry> table{
      {"sort", {&Parser::sort, "(sort <name>) or (sort <name> (<container> <sort>*))"}},
      {"datatype",
       {&Parser::datatype, "(datatype <name> (<constructor> <sort>* [:cost <n>] [:unextractable])*)"}},
      {"datatype*",
       {&Parser::datatypes, "(datatype* (<name> <variant>*)* (sort <name> (<container> <sort>*))*)"}},
      {"function", {&Parser::function, "(function <name> (<sort>*) <sort> :merge <expr>) or ... :no-merge)"}},
      {"constructor",
       {&Parser::constructor, "(constructor <name> (<sort>*) <sort> [:cost <n>] [:unextractable])"}},
      {"relation", {&Parser::relation, "(relation <name> (<sort>*))"}},
      {"ruleset", {&Parser::ruleset, "(ruleset <name>)"}},
      {"unstable-combined-ruleset",
       {&Parser::combined_ruleset, "(unstable-combined-ruleset <name> <ruleset>*)"}},
      {"rule", {&Parser::rule, "(rule (<fact>*) (<action>*) [:ruleset <name>] [:name <string>] [:naive])"}},
      {"rewrite",
       {&Parser::rewrite,
        "(rewrite <expr> <expr> [:when (<fact>*)] [:subsume] [:ruleset <name>] [:name <string>])"}},
      {"birewrite",
       {&Parser::birewrite,
        "(birewrite <expr> <expr> [:when (<fact>*)] [:ruleset <name>] [:name <string>])"}},
      {"run", {&Parser::run, "(run [<ruleset>] <iterations> [:until <fact>*])"}},
      {"run-schedule", {&Parser::run_schedule, "(run-schedule <schedule>*)"}},
      {"extract", {&Parser::extract, "(extract <expr> [<number of variants>])"}},
      {"multi-extract", {&Parser::multi_extract, "(multi-extract <number of variants> <expr>+)"}},
      {"keep-best", {&Parser::keep_best, "(keep-best <sort or constructor>*)"}},
      {"check", {&Parser::check, "(check <fact>*)"}},
      {"prove", {&Parser::prove, "(prove <fact>*)"}},
      {"prove-exists", {&Parser::prove_exists, "(prove-exists <constructor>)"}},
      {"push", {&Parser::push, "(push [<levels>])"}},
      {"pop", {&Parser::pop, "(pop [<levels>])"}},
      {"print-stats", {&Parser::print_stats, "(print-stats [:file <string>])"}},
      {"print-function",
       {&Parser::print_function,
        "(print-function <function> [<rows>] [:mode default|csv] [:file <string>])"}},
      {"print-size", {&Parser::print_size, "(print-size [<function>])"}},
      {"input", {&Parser::input, "(input <function> <file>)"}},
      {"output", {&Parser::output, "(output <file> <expr>+)"}},
      {"include", {&Parser::include, "(include <file>)"}},
      {"fail", {&Parser::fail, "(fail <command>)"}},
      {"for", {&Parser::for_each, "(for (<fact>*) (<action>*))"}},
      {"with-dynamic-cost", {&Parser::with_dynamic_cost, "(with-dynamic-cost <datatype or constructor>*)"}},
      {"with-ruleset", {&Parser::with_ruleset, "(with-ruleset <ruleset> <rule or rewrite>*)"}},
  };
  return table;
}

std::vector<std::string_view> Parser::command_names() {
  std::vector<std::string_view> names;
  for (const auto& [name, entry] : commands()) names.push_back(name);
  return names;
}

Command Parser::command(const Sexp& sexp) {
  const std::vector<Sexp> items = list(sexp, "a command");
  if (items.empty() || !items[0].is_atom()) fail_at(sexp.span(), "a command starts with its name");
  const auto found = commands().find(items[0].node().atom.text());
  if (found != commands().end()) {
    if (++command_depth_ > 500) fail_at(sexp.span(), "commands are nested deeper than 500 levels");
    Command command = (this->*found->second.parse)(sexp, List(items).subspan(1));
    --command_depth_;
    return command;
  }
  Command command = start(Command::Kind::Action, sexp);
  command.action = action(sexp);
  return command;
}

// -- Sorts and functions

SortSyntax Parser::container_sort(const Sexp& whole, List args) {
  if (args.size() != 2) fail_at(whole.span(), "usage: (sort <name> (<container> <sort>*))");
  const std::vector<Sexp> call = list(args[1], "a container sort such as (Vec i64)");
  if (call.empty()) fail_at(args[1].span(), "expected a container sort such as (Vec i64)");
  SortSyntax out;
  out.span = whole.span();
  out.name = new_name(args[0], "the name of the sort");
  out.presort = name(call[0], "the name of a container");
  out.args = exprs(List(call).subspan(1));
  return out;
}

Command Parser::sort(const Sexp& whole, List args) {
  Command out = start(Command::Kind::Sort, whole);
  // Programs that egglog's proof encoding wrote say so where terms and their classes are kept apart.
  const bool has_table = (args.size() == 3 || args.size() == 4) && args[1].is_atom(":internal-uf");
  if (args.size() == 2) {
    out.sort = container_sort(whole, args);
  } else if (has_table) {
    out.sort.span = whole.span();
    out.sort.name = new_name(args[0], "the name of the sort");
    out.sort.union_table = name(args[2], "the constructor that holds representatives");
  } else if (args.size() == 1) {
    out.sort.span = whole.span();
    out.sort.name = new_name(args[0], "the name of the sort");
  } else {
    wrong_use(whole);
  }
  return out;
}

FunctionSyntax Parser::variant(const Sexp& sexp, Symbol sort) {
  const std::vector<Sexp> items = list(sexp, "a constructor");
  if (items.empty()) fail_at(sexp.span(), "expected (<constructor> <sort>*)");
  FunctionSyntax out;
  out.span = sexp.span();
  out.name = new_name(items[0], "the name of a constructor");
  out.output = sort;
  out.output_span = sexp.span();
  size_t end = 1;
  while (end < items.size() && !items[end].is_option()) ++end;
  out.inputs = names(List(items).subspan(1, end - 1), "a sort");
  for (size_t i = 1; i < end; ++i) out.input_spans.push_back(items[i].span());
  for (const Option& option : options(List(items).subspan(end)))
    if (!constructor_option(option, out.cost, out.unextractable))
      unknown_option(option, {":cost", ":unextractable"});
  return out;
}

Command Parser::datatype(const Sexp& whole, List args) {
  if (args.empty()) wrong_use(whole);
  Command out = start(Command::Kind::Datatypes, whole);
  DatatypeSyntax type;
  type.sort.span = whole.span();
  type.sort.name = new_name(args[0], "the name of the sort");
  for (const Sexp& item : args.subspan(1)) type.variants.push_back(variant(item, type.sort.name));
  out.datatypes.push_back(std::move(type));
  return out;
}

DatatypeSyntax Parser::recursive_datatype(const Sexp& sexp) {
  const std::vector<Sexp> items = list(sexp, "a datatype");
  if (items.empty()) fail_at(sexp.span(), "expected (<name> <variant>*)");
  DatatypeSyntax type;
  if (items[0].is_atom("sort")) {
    type.sort = container_sort(sexp, List(items).subspan(1));
    return type;
  }
  type.sort.span = sexp.span();
  type.sort.name = new_name(items[0], "the name of the sort");
  for (const Sexp& item : List(items).subspan(1)) type.variants.push_back(variant(item, type.sort.name));
  return type;
}

Command Parser::datatypes(const Sexp& whole, List args) {
  Command out = start(Command::Kind::Datatypes, whole);
  for (const Sexp& item : args) out.datatypes.push_back(recursive_datatype(item));
  return out;
}

FunctionSyntax Parser::signature(const Sexp& whole, List args, FunctionSyntax::Kind kind) {
  const bool has_output = kind != FunctionSyntax::Kind::Relation;
  if (args.size() < (has_output ? 3U : 2U)) wrong_use(whole);
  FunctionSyntax out;
  out.kind = kind;
  out.span = whole.span();
  out.name = new_name(args[0], "the name of the function");
  const std::vector<Sexp> inputs = list(args[1], "the input sorts");
  out.inputs = names(inputs, "a sort");
  for (const Sexp& input : inputs) out.input_spans.push_back(input.span());
  if (has_output) {
    out.output = name(args[2], "the output sort");
    out.output_span = args[2].span();
  }
  return out;
}

Command Parser::function(const Sexp& whole, List args) {
  Command out = start(Command::Kind::Function, whole);
  out.function = signature(whole, args, FunctionSyntax::Kind::Function);
  bool no_merge = false;
  for (const Option& option : options(args.subspan(3))) {
    if ((option.name() == ":merge" || option.name() == ":no-merge") && (no_merge || out.function.merge))
      fail_at(option.key.span(), "conflicting merge options: give one of :merge and :no-merge, once");
    if (option.name() == ":merge" && option.values.size() == 1)
      out.function.merge = expr(option.values[0]);
    else if (option.name() == ":no-merge" && option.values.empty())
      no_merge = true;
    else if (option.name() == ":unextractable" && option.values.empty())
      out.function.unextractable = true;
    else if (option.name() == ":internal-hidden" && option.values.empty())
      out.function.hidden = true;
    else
      unknown_option(option, {":merge", ":no-merge", ":unextractable"});
  }
  if (!no_merge && !out.function.merge)
    fail_at(whole.span(),
            "function '{}' does not say how two outputs of one input merge: add :merge <expr over old and "
            "new>, or "
            ":no-merge if that is an error; a table of e-nodes is a (constructor ...)",
            out.function.name.text());
  return out;
}

Command Parser::constructor(const Sexp& whole, List args) {
  Command out = start(Command::Kind::Function, whole);
  out.function = signature(whole, args, FunctionSyntax::Kind::Constructor);
  for (const Option& option : options(args.subspan(3))) {
    if (constructor_option(option, out.function.cost, out.function.unextractable)) continue;
    if (option.name() == ":internal-hidden" && option.values.empty())
      out.function.hidden = true;
    else
      unknown_option(option, {":cost", ":unextractable"});
  }
  return out;
}

Command Parser::relation(const Sexp& whole, List args) {
  if (args.size() != 2) wrong_use(whole);
  Command out = start(Command::Kind::Function, whole);
  out.function = signature(whole, args, FunctionSyntax::Kind::Relation);
  return out;
}

Command Parser::ruleset(const Sexp& whole, List args) {
  if (args.size() != 1) wrong_use(whole);
  Command out = start(Command::Kind::Ruleset, whole);
  out.name = new_name(args[0], "the name of the ruleset");
  return out;
}

Command Parser::combined_ruleset(const Sexp& whole, List args) {
  if (args.empty()) wrong_use(whole);
  Command out = start(Command::Kind::CombinedRuleset, whole);
  out.name = new_name(args[0], "the name of the combined ruleset");
  out.names = names(args.subspan(1), "the name of a ruleset");
  return out;
}

// -- Rules

void Parser::rule_option(const Sexp& whole, const Option& option, RuleSyntax& rule) {
  const std::string& key = option.name();
  if (key == ":ruleset" && option.values.size() == 1) {
    rule.ruleset = name(option.values[0], "the name of a ruleset");
  } else if (key == ":name" && option.values.size() == 1) {
    rule.name = text(option.values[0], "the name of the rule");
  } else if ((key == ":naive" || key == ":unsafe-seminaive") && option.values.empty()) {
    if (rule.mode != EvalMode::Seminaive)
      fail_at(whole.span(), ":naive and :unsafe-seminaive are mutually exclusive");
    rule.mode = key == ":naive" ? EvalMode::Naive : EvalMode::UnsafeSeminaive;
  } else if (key == ":internal-include-subsumed" && option.values.empty()) {
    rule.include_subsumed = true;
  } else if (key != ":no-decomp" ||
             !option.values.empty()) {  // the planner here has no decomposition to skip
    unknown_option(option, {":ruleset", ":name", ":naive", ":unsafe-seminaive", ":no-decomp"});
  }
}

Command Parser::rule(const Sexp& whole, List args) {
  if (args.size() < 2) wrong_use(whole);
  Command out = start(Command::Kind::Rule, whole);
  out.rule.span = whole.span();
  out.rule.body = facts(list(args[0], "the facts of the rule"));
  out.rule.head = actions(list(args[1], "the actions of the rule"));
  for (const Option& option : options(args.subspan(2))) rule_option(whole, option, out.rule);
  return out;
}

Command Parser::rewrite_command(const Sexp& whole, List args, bool both_ways) {
  if (args.size() < 2) wrong_use(whole);
  Command out = start(Command::Kind::Rewrite, whole);
  RewriteSyntax& rewrite = out.rewrite;
  rewrite.span = whole.span();
  rewrite.both_ways = both_ways;
  rewrite.left = expr(args[0]);
  rewrite.right = expr(args[1]);
  for (const Option& option : options(args.subspan(2))) {
    const std::string& key = option.name();
    if (key == ":ruleset" && option.values.size() == 1)
      rewrite.ruleset = name(option.values[0], "the name of a ruleset");
    else if (key == ":name" && option.values.size() == 1)
      rewrite.name = text(option.values[0], "the name of the rule");
    else if (key == ":when" && option.values.size() == 1)
      rewrite.conditions = facts(list(option.values[0], "the conditions"));
    else if (key == ":subsume" && option.values.empty() && !both_ways)
      rewrite.subsume = true;
    else
      unknown_option(option, {":when", ":subsume", ":ruleset", ":name"});
  }
  return out;
}

Command Parser::rewrite(const Sexp& whole, List args) { return rewrite_command(whole, args, false); }
Command Parser::birewrite(const Sexp& whole, List args) { return rewrite_command(whole, args, true); }

// Runs its actions once for each present match: a rule in a ruleset of its own that runs once.
Command Parser::for_each(const Sexp& whole, List args) {
  if (args.size() != 2) wrong_use(whole);
  Command out = start(Command::Kind::Sequence, whole);
  Command declare = start(Command::Kind::Ruleset, whole);
  declare.name = fresh_.make("for_ruleset");
  Command rule = start(Command::Kind::Rule, whole);
  rule.rule.span = whole.span();
  rule.rule.name = fresh_.make("for_rule").text();
  rule.rule.ruleset = declare.name;
  rule.rule.body = facts(list(args[0], "the facts"));
  rule.rule.head = actions(list(args[1], "the actions"));
  Command run = start(Command::Kind::RunSchedule, whole);
  run.schedule.span = whole.span();
  run.schedule.ruleset = declare.name;
  out.body = {std::move(declare), std::move(rule), std::move(run)};
  return out;
}

Command Parser::with_ruleset(const Sexp& whole, List args) {
  if (args.empty()) wrong_use(whole);
  Command out = start(Command::Kind::Sequence, whole);
  const Symbol ruleset = name(args[0], "the name of a ruleset");
  for (const Sexp& item : args.subspan(1)) {
    Command inner = command(item);
    Symbol* place = inner.kind == Command::Kind::Rule      ? &inner.rule.ruleset
                    : inner.kind == Command::Kind::Rewrite ? &inner.rewrite.ruleset
                                                           : nullptr;
    if (!place || *place)
      fail_at(item.span(), "with-ruleset takes rules and rewrites that name no ruleset themselves");
    *place = ruleset;
    out.body.push_back(std::move(inner));
  }
  return out;
}

// A table for the costs of single rows, beside each constructor.
Command Parser::cost_table(const FunctionSyntax& constructor) {
  Command out;
  out.kind = Command::Kind::Function;
  out.span = constructor.span;
  out.function = constructor;
  out.function.kind = FunctionSyntax::Kind::Function;
  out.function.name = symbols_.intern(cost_table_name(constructor.name.text()));
  out.function.output = symbols_.intern("i64");
  out.function.cost.reset();
  return out;
}

Command Parser::with_dynamic_cost(const Sexp& whole, List args) {
  Command out = start(Command::Kind::Sequence, whole);
  std::vector<Command> tables;
  for (const Sexp& item : args) {
    Command declaration = command(item);
    const bool is_constructor = declaration.kind == Command::Kind::Function &&
                                declaration.function.kind == FunctionSyntax::Kind::Constructor;
    if (!is_constructor && declaration.kind != Command::Kind::Datatypes)
      fail_at(item.span(), "with-dynamic-cost takes datatypes and constructors");
    if (is_constructor && !declaration.function.unextractable)
      tables.push_back(cost_table(declaration.function));
    for (const DatatypeSyntax& type : declaration.datatypes)
      for (const FunctionSyntax& variant : type.variants) tables.push_back(cost_table(variant));
    out.body.push_back(std::move(declaration));
  }
  for (Command& table : tables) out.body.push_back(std::move(table));
  return out;
}

// -- Running and looking

Command Parser::run(const Sexp& whole, List args) {
  if (args.empty()) wrong_use(whole);
  Command out = start(Command::Kind::RunSchedule, whole);
  ScheduleSyntax step;
  step.span = whole.span();
  if (args.size() >= 2 && args[0].is_atom() && args[1].is_literal()) {
    step.ruleset = args[0].node().atom;
    args = args.subspan(1);
  }
  out.schedule.kind = ScheduleSyntax::Kind::Repeat;
  out.schedule.span = whole.span();
  out.schedule.count = count(args[0], "the number of iterations");
  step.until = until(whole, args.subspan(1));
  out.schedule.body.push_back(std::move(step));
  return out;
}

Command Parser::run_schedule(const Sexp& whole, List args) {
  Command out = start(Command::Kind::RunSchedule, whole);
  out.schedule.kind = ScheduleSyntax::Kind::Seq;
  out.schedule.span = whole.span();
  out.schedule.body = schedules(args, 0);
  return out;
}

Command Parser::extract(const Sexp& whole, List args) {
  Command out = start(Command::Kind::Extract, whole);
  // Older programs write the number as an option: (extract <expr> :variants <n>).
  const bool as_option = args.size() == 3 && args[1].is_atom(":variants");
  if (args.empty() || (args.size() > 2 && !as_option)) wrong_use(whole);
  out.exprs.push_back(expr(args[0]));
  if (args.size() > 1) out.exprs.push_back(expr(args.back()));
  return out;
}

Command Parser::multi_extract(const Sexp& whole, List args) {
  if (args.size() < 2) wrong_use(whole);
  Command out = start(Command::Kind::MultiExtract, whole);
  out.exprs = exprs(args);
  return out;
}

Command Parser::keep_best(const Sexp& whole, List args) {
  Command out = start(Command::Kind::KeepBest, whole);
  for (const Sexp& arg : args)
    out.names.push_back(arg.is_literal() ? symbols_.intern(text(arg, "a name"))
                                         : name(arg, "a sort or constructor"));
  return out;
}

Command Parser::check(const Sexp& whole, List args) {
  Command out = start(Command::Kind::Check, whole);
  out.facts = facts(args);
  return out;
}

Command Parser::prove(const Sexp& whole, List args) {
  Command out = start(Command::Kind::Prove, whole);
  out.facts = facts(args);
  return out;
}

Command Parser::prove_exists(const Sexp& whole, List args) {
  if (args.size() != 1) wrong_use(whole);
  Command out = start(Command::Kind::ProveExists, whole);
  out.name = name(args[0], "the name of a constructor");
  return out;
}

Command Parser::push(const Sexp& whole, List args) {
  if (args.size() > 1) wrong_use(whole);
  Command out = start(Command::Kind::Push, whole);
  out.count = args.empty() ? 1 : count(args[0], "the number of levels");
  return out;
}

Command Parser::pop(const Sexp& whole, List args) {
  if (args.size() > 1) wrong_use(whole);
  Command out = start(Command::Kind::Pop, whole);
  out.count = args.empty() ? 1 : count(args[0], "the number of levels");
  return out;
}

Command Parser::print_stats(const Sexp& whole, List args) {
  Command out = start(Command::Kind::PrintStats, whole);
  for (const Option& option : options(args)) {
    if (option.name() != ":file" || option.values.size() != 1) unknown_option(option, {":file"});
    out.file = text(option.values[0], "a file name");
  }
  return out;
}

Command Parser::print_function(const Sexp& whole, List args) {
  if (args.empty()) wrong_use(whole);
  Command out = start(Command::Kind::PrintFunction, whole);
  out.name = name(args[0], "the name of a function");
  out.count = -1;
  args = args.subspan(1);
  if (!args.empty() && args[0].is_literal()) {
    out.count = count(args[0], "the number of rows");
    args = args.subspan(1);
  }
  for (const Option& option : options(args)) {
    if (option.name() == ":file" && option.values.size() == 1) {
      out.file = text(option.values[0], "a file name");
    } else if (option.name() == ":mode" && option.values.size() == 1) {
      out.csv = option.values[0].is_atom("csv");
      if (!out.csv && !option.values[0].is_atom("default"))
        fail_at(option.values[0].span(), "the modes of print-function are default and csv");
    } else {
      unknown_option(option, {":mode", ":file"});
    }
  }
  return out;
}

Command Parser::print_size(const Sexp& whole, List args) {
  if (args.size() > 1) wrong_use(whole);
  Command out = start(Command::Kind::PrintSize, whole);
  if (!args.empty()) out.name = name(args[0], "the name of a function");
  return out;
}

Command Parser::input(const Sexp& whole, List args) {
  if (args.size() != 2) wrong_use(whole);
  Command out = start(Command::Kind::Input, whole);
  out.name = name(args[0], "the name of a function");
  out.file = text(args[1], "a file name");
  return out;
}

Command Parser::output(const Sexp& whole, List args) {
  if (args.empty()) wrong_use(whole);
  Command out = start(Command::Kind::Output, whole);
  out.file = text(args[0], "a file name");
  out.exprs = exprs(args.subspan(1));
  return out;
}

Command Parser::include(const Sexp& whole, List args) {
  if (args.size() != 1) wrong_use(whole);
  Command out = start(Command::Kind::Include, whole);
  out.file = text(args[0], "a file name");
  return out;
}

Command Parser::fail(const Sexp& whole, List args) {
  if (args.size() != 1) wrong_use(whole);
  Command out = start(Command::Kind::Fail, whole);
  out.body.push_back(command(args[0]));
  const Command::Kind inner = out.body[0].kind;
  if (inner == Command::Kind::Include || inner == Command::Kind::Sequence)
    fail_at(args[0].span(), "this command cannot stand inside (fail ...)");
  return out;
}

}  // namespace luminal::egraph::language
