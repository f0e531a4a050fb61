// Every message of the C++ interface: a call that provokes it, and a look at the sources that none is
// missing.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "luminal/egraph.h"
#include "luminal/error.h"
#include "support/files.h"
#include "support/formats.h"

namespace luminal::egraph {
namespace {

namespace fs = std::filesystem;

/// What the cases below start from.
struct Start {
  Start() {
    math = g.eq_sort("Math");
    num = g.constructor("Num", {kI64}, math);
    add = g.constructor("Add", {math, math}, math);
    size = g.function({.name = "size", .kind = FunctionKind::Function, .inputs = {math}, .output = kI64});
    seen = g.relation("seen", {math});
    half = g.primitive({.name = "half",
                        .call = [](std::span<const Value>) { return std::optional<Value>(); },
                        .inputs = {kI64},
                        .output = kI64});
    rules = g.ruleset("rules");
    one = g.add_term("(Num 1)");
    two = g.add_term("(Num 2)");
  }
  /// A rule of one atom `v0 = Num(v1)` and these actions; `more` are the actions' variables.
  void rule(std::vector<Action> actions, std::vector<Variable> more = {}) {
    RuleSpec spec;
    spec.name = "r" + std::to_string(made++);
    spec.query.variables = {{"x", math}, {"n", kI64}};
    spec.query.atoms = {{num, {Term::variable(1)}, Term::variable(0)}};
    spec.actions = {std::move(more), std::move(actions)};
    g.rule(rules, std::move(spec));
  }
  void rewrite(const char* left, const char* right, std::vector<std::string> conditions = {}) {
    g.rewrite(rules, "w" + std::to_string(made++), left, right, std::move(conditions));
  }
  void rule_text(std::vector<std::string> facts, std::vector<std::string> actions) {
    g.rule(rules, "t" + std::to_string(made++), std::move(facts), std::move(actions));
  }
  void json(const std::string& functions, const char* sorts = R"(["Math"])") {
    g.load_json(std::string(R"({"luminal-egraph": 1, "sorts": )") + sorts + R"(, "functions": [)" +
                functions + "]}");
  }
  EGraph g;
  SortId math{};
  FunctionId num{}, add{}, size{}, seen{};
  PrimitiveId half{};
  RulesetId rules{};
  Value one = 0, two = 0;
  int made = 0;
};

struct Case {
  const char* message;
  std::function<void(Start&)> provoke;
};

const Term kFirst = Term::variable(0), kSecond = Term::variable(1);

std::vector<Case> declarations() {
  return {
      {"[egraph] sort 'Math' is already declared; choose another name",
       [](Start& s) { s.g.eq_sort("Math"); }},
      {"[egraph] ruleset 'rules' is already declared", [](Start& s) { s.g.ruleset("rules"); }},
      {"[egraph] function 'Num' is already declared", [](Start& s) { s.g.relation("Num", {kI64}); }},
      {"[egraph] sort number 77 is not declared: there are 6",
       [](Start& s) { s.g.relation("r", {SortId{77}}); }},
      {"[egraph] container sort 'Bag' needs rebuild and elements",
       [](Start& s) {
         ContainerSort bag;
         bag.name = "Bag";
         s.g.container_sort(std::move(bag));
       }},
      {"[egraph] constructor 'c' must make an eq-sort, and i64 is not one",
       [](Start& s) { s.g.constructor("c", {kI64}, kI64); }},
      {"[egraph] function 'f' cannot merge by union: i64 is not an eq-sort",
       [](Start& s) {
         s.g.function({.name = "f",
                       .kind = FunctionKind::Function,
                       .inputs = {kI64},
                       .output = kI64,
                       .merge = Merge::unite()});
       }},
      {"[f] the merge's result is not bound",
       [](Start& s) {
         s.g.function({.name = "f",
                       .kind = FunctionKind::Function,
                       .inputs = {kI64},
                       .output = kI64,
                       .merge = Merge::computed(ActionBlock{}, Term::variable(5))});
       }},
      {"[egraph] 0 threads cannot run anything; give 1 or more", [](Start& s) { s.g.set_threads(0); }},
      {"[egraph] a budget of 0 seconds is none; give more than 0, or leave it out where time has no limit",
       [](Start& s) { s.g.run(s.rules, 1, {.seconds = 0}); }},
      {"[egraph] cannot pop 2 levels: only 1 were pushed",
       [](Start& s) {
         s.g.push();
         s.g.pop(2);
       }},
  };
}

std::vector<Case> facts() {
  return {
      {"[egraph] Add takes 2 arguments, but 1 are given", [](Start& s) { s.g.add(s.add, {s.one}); }},
      {"[egraph] seen is a relation: use add",
       [](Start& s) { s.g.set(s.seen, std::vector<Value>{s.one}, kUnitValue); }},
      {"[egraph] Num takes 1 columns, but 0 are given", [](Start& s) { s.g.add_rows(s.num, {}); }},
      {"[egraph] Add: one column has 2 rows and another 1; give columns of equal length",
       [](Start& s) {
         const std::vector<Value> two{s.one, s.two}, one{s.one};
         const std::vector<std::span<const Value>> columns{two, one};
         s.g.add_rows(s.add, columns);
       }},
      {"[egraph] 2 initial values for 1 variables; give one for each",
       [](Start& s) { static_cast<void>(s.g.execute({{{"x", kI64}}, {}}, std::vector<Value>{1, 2})); }},
      {"[size] has no value for these arguments; give it one with set first",
       [](Start& s) { s.g.add(s.size, {s.one}); }},
      {"[size] illegal merge: the output is already 4 and cannot become 5; declare how they merge",
       [](Start& s) {
         s.g.set(s.size, std::vector<Value>{s.one}, s.g.i64(4));
         s.g.set(s.size, std::vector<Value>{s.one}, s.g.i64(5));
       }},
      {"[size] only rows of constructors and relations can be subsumed, but this is a function",
       [](Start& s) { s.g.subsume(s.size, std::vector<Value>{s.one}); }},
      {"[r0] size has no value for these arguments",
       [](Start& s) {
         s.rule({Action::call(s.size, {kFirst}, Term::variable(2))}, {{"k", kI64}});
         s.g.run(s.rules);
       }},
      {"[r0] half fails on these arguments",
       [](Start& s) {
         s.rule({Action::primitive_call(s.half, {kSecond}, Term::variable(2))}, {{"k", kI64}});
         s.g.run(s.rules);
       }},
      {"enough of it",
       [](Start& s) {
         s.rule({Action::panic("enough of it")});
         s.g.run(s.rules);
       }},
  };
}

std::vector<Case> queries() {
  return {
      {"[r0] variable number 9 is not declared: there are 2",
       [](Start& s) { s.rule({Action::unite(kFirst, Term::variable(9))}); }},
      {"[query] variable number 3 is not declared: there are 0",
       [](Start& s) {
         static_cast<void>(s.g.check({.equalities = {{Term::variable(3), Term::constant(kI64, 0)}}}));
       }},
      {"[r0] Add takes 2 arguments, but 1 are given",
       [](Start& s) { s.rule({Action::call(s.add, {kFirst}, Term::variable(2))}, {{"k", s.math}}); }},
      {"[r0] an argument of Num has sort Math, it takes i64",
       [](Start& s) { s.rule({Action::call(s.num, {kFirst}, Term::variable(2))}, {{"k", s.math}}); }},
      {"[query] variable n is not bound by any fact; use it in an atom",
       [](Start& s) { static_cast<void>(s.g.check({.variables = {{"n", kI64}}})); }},
      {"[r0] an action reads a variable before it is bound",
       [](Start& s) { s.rule({Action::unite(kFirst, Term::variable(2))}, {{"k", s.math}}); }},
      {"[r0] the result of a call goes to a variable",
       [](Start& s) { s.rule({Action::call(s.num, {kSecond}, Term::constant(s.math, s.one))}); }},
      {"[r0] variable number 0 is bound twice",
       [](Start& s) { s.rule({Action::call(s.num, {kSecond}, kFirst)}); }},
  };
}

std::vector<Case> texts() {
  return {
      {"[egraph] expected an expression at position 0 of: ", [](Start& s) { s.g.add_term(""); }},
      {"[egraph] this '(' is never closed: the text ends inside the list at position 0 of: (Num 1",
       [](Start& s) { s.g.add_term("(Num 1"); }},
      {"[egraph] this ')' closes nothing", [](Start& s) { s.g.add_term(")"); }},
      {"[egraph] this string has no closing quote at position 5",
       [](Start& s) { s.g.add_term("(Num \"1)"); }},
      {"[egraph] unexpected text after the expression", [](Start& s) { s.g.add_term("(Num 1) (Num 2)"); }},
      {"[egraph] nested too deeply",
       [](Start& s) { s.g.add_term(std::string(3000, '(') + std::string(3000, ')')); }},
      {"'one' is neither a literal nor a declared name; variables begin with ?",
       [](Start& s) { s.g.add_term("(Num one)"); }},
      {"?y is not bound by the left side", [](Start& s) { s.rewrite("(Num ?x)", "(Num ?y)"); }},
      {"a condition is a pattern or (= pattern pattern)",
       [](Start& s) { s.rewrite("(Num ?x)", "(Num ?x)", {"?x"}); }},
      {"= takes two patterns", [](Start& s) { s.rewrite("(Num ?x)", "(Num ?x)", {"(= ?x)"}); }},
      {"an action is a list", [](Start& s) { s.rule_text({"(Num ?x)"}, {"?x"}); }},
      {"union takes 2 arguments", [](Start& s) { s.rule_text({"(= ?e (Num ?x))"}, {"(union ?e)"}); }},
      {"the integer does not fit in 64 bits", [](Start& s) { s.g.add_term("(Num 99999999999999999999)"); }},
      {"unknown name 'Nun'; did you mean 'Num'?", [](Start& s) { s.g.add_term("(Nun 1)"); }},
      {"no overload of 'half' takes these arguments",
       [](Start& s) {
         s.g.primitive({.name = "half", .call = {}, .inputs = {kF64}, .output = kF64});
         s.rewrite("(Num ?x)", "(Num (half \"a\"))");
       }},
      {"Num takes 1 arguments, but 2 are given", [](Start& s) { s.g.add_term("(Num 1 2)"); }},
      {"unknown function 'sice'; did you mean 'size'?",
       [](Start& s) { s.rule_text({"(= ?e (Num ?x))"}, {"(set (sice ?e) 1)"}); }},
      {"expected a name after '('", [](Start& s) { s.g.add_term("((Num 1))"); }},
      {"expected sort Math, found i64", [](Start& s) { s.rewrite("(Num ?x)", "?x"); }},
      {"the sort of ?x is not known here; name it in an earlier pattern",
       [](Start& s) { s.rewrite("(Num ?n)", "(Num ?n)", {"(= ?x ?x)"}); }},
      {"the left side has sort i64: only eq-sorts can be rewritten",
       [](Start& s) { s.rewrite("(size ?e)", "1"); }},
  };
}

std::vector<Case> extraction_and_explanations() {
  return {
      {"[egraph] explanations are off; call enable_explanations() before adding facts",
       [](Start& s) { static_cast<void>(s.g.explain(s.one, s.two)); }},
      {"[egraph] explanations must be enabled before the first fact; this e-graph has 2 rows",
       [](Start& s) { s.g.enable_explanations(); }},
      {"[egraph] (Num 1) and (Num 2) are not equal: there is nothing to explain",
       [](Start& s) {
         s.g.clear_facts();
         s.g.enable_explanations();
         const Value one = s.g.add_term("(Num 1)"), two = s.g.add_term("(Num 2)");
         static_cast<void>(s.g.explain(one, two));
       }},
      {"[egraph] id 0 was not made by a constructor",
       [](Start& s) {
         s.g.clear_facts();
         s.g.enable_explanations();
         static_cast<void>(s.g.term_of(s.g.fresh_id()));
       }},
      {"[extract] the cost of Num is -1; costs are numbers of at least 0",
       [](Start& s) {
         CostModel model;
         model.node = [](FunctionId, std::span<const Value>, std::span<const Cost>) { return -1.0; };
         static_cast<void>(Extractor(s.g, std::move(model)).best(s.math, s.one));
       }},
      {"[extract] k_best takes the additive cost model only; use variants with a model of your own",
       [](Start& s) {
         CostModel model;
         model.node = [](FunctionId, std::span<const Value>, std::span<const Cost>) { return 1.0; };
         static_cast<void>(Extractor(s.g, std::move(model)).k_best(s.math, s.one, 2));
       }},
      {"[extract] best_dag takes the additive cost model only; set costs in the constructors' declarations",
       [](Start& s) {
         CostModel model;
         model.node = [](FunctionId, std::span<const Value>, std::span<const Cost>) { return 1.0; };
         static_cast<void>(Extractor(s.g, std::move(model)).best_dag(s.math, s.one));
       }},
  };
}

std::vector<Case> json() {
  const auto function = [](const char* rest) {
    return [rest](Start& s) { s.json(std::string(R"({"name": "f", )") + rest + "}"); };
  };
  return {
      {"[json] [json.exception.parse_error", [](Start& s) { s.g.load_json("{"); }},
      {"[json] [json.exception.type_error",
       [](Start& s) {
         s.g.add(s.g.relation("text", {kString}), {s.g.string("\xff")});
         static_cast<void>(s.g.to_json());
       }},
      {"[json] sort Secret cannot be written: it has no print",
       [](Start& s) {
         PrimitiveSort secret;
         secret.name = "Secret";
         s.g.add(s.g.relation("r", {s.g.primitive_sort(std::move(secret))}), {3});
         static_cast<void>(s.g.to_json());
       }},
      {"[json] this is not an e-graph: the member \"luminal-egraph\": 1 is missing",
       [](Start& s) { s.g.load_json("{}"); }},
      {"[json] \"sorts\" holds 3, but names are expected", [](Start& s) { s.json("", "[3]"); }},
      {"[json] function 0 has no member \"name\"", [](Start& s) { s.json("{}"); }},
      {"[json] \"sorts\" of the file must be an array", [](Start& s) { s.json("", "7"); }},
      {"[json] \"kind\" of function 0 must be a string", function(R"("kind": 3)")},
      {"[json] function f: expected the name of a sort, not 4",
       function(R"("kind": "relation", "inputs": [4])")},
      {"[json] function f: unknown sort 'Mat'; did you mean 'Math'?",
       function(R"("kind": "relation", "inputs": ["Mat"])")},
      {"[json] function f: \"kind\" is \"table\"; choose constructor, function or relation",
       function(R"("kind": "table", "inputs": [], "output": "Math")")},
      {"[json] \"cost\" of function f must be a number",
       function(R"("kind": "constructor", "inputs": [], "output": "Math", "cost": "1")")},
      {"[json] function f must be declared before its rows are read: how it merges is not in the text",
       function(R"("kind": "function", "inputs": [], "output": "i64")")},
      {"[json] function Num is already declared, and differently",
       [](Start& s) { s.json(R"({"name": "Num", "kind": "relation", "inputs": ["i64"]})"); }},
      {"[json] row 0 of f: 2 arguments, but f takes 1",
       function(R"("kind": "relation", "inputs": ["i64"], "rows": [{"args": [1, 2]}])")},
      {"[json] row 0 of f: 18446744073709551615 is not a value of sort i64",
       function(R"("kind": "relation", "inputs": ["i64"], "rows": [{"args": [18446744073709551615]}])")},
      {"[json] row 0 of f: 1.5 is not a value of sort bool",
       function(R"("kind": "relation", "inputs": ["bool"], "rows": [{"args": [1.5]}])")},
  };
}

std::string message_of(const Case& one) {
  Start start;
  try {
    one.provoke(start);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (const auto& part :
       {declarations(), facts(), queries(), texts(), extraction_and_explanations(), json()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

TEST(Errors, SayWhatIsWrong) {
  for (const Case& one : all_cases()) {
    const std::string message = message_of(one);
    EXPECT_NE(message.find(one.message), std::string::npos) << one.message << "\n  but: " << message;
  }
}

// The engine stays as usable as it was.
TEST(Errors, LeaveTheEngineUsable) {
  for (const Case& one : all_cases()) {
    SCOPED_TRACE(one.message);
    Start start;
    EXPECT_THROW(one.provoke(start), Error);
    const Value sum = start.g.add_term("(Add (Num 1) (Num 2))");
    const RulesetId rules = start.g.ruleset("later");
    start.g.rewrite(rules, "swap", "(Add ?a ?b)", "(Add ?b ?a)");
    EXPECT_EQ(start.g.run(rules, 5).stop, StopReason::Saturated);
    EXPECT_EQ(start.g.find(sum), start.g.find(start.g.add_term("(Add (Num 2) (Num 1))")));
  }
}

TEST(Errors, NoneIsMissingAbove) {
  std::string provoked;
  for (const Case& one : all_cases()) provoked += message_of(one) + "\n";
  const fs::path folder = fs::path(LUMINAL_SOURCE_DIR) / "src" / "egraph";
  std::vector<fs::path> sources{folder / "egraph.cpp"};
  for (const fs::directory_entry& entry : fs::directory_iterator(folder / "core"))
    if (entry.path().extension() == ".cpp") sources.push_back(entry.path());
  const std::regex call(
      R"re(\b(?:fail|fail<\w+>|error)\((?:e, |head, )?(?:fmt::format\()?\s*((?:"(?:[^"\\]|\\.)*"\s*)+))re");
  size_t formats = 0;
  for (const fs::path& path : sources)
    for (const std::string& format : test::formats_in(test::content_of(path), call)) {
      formats++;
      EXPECT_NE(provoked.find(test::longest_piece(format)), std::string::npos)
          << path.filename() << ": nothing provokes: " << format;
    }
  EXPECT_GE(formats, 60U);
}

}  // namespace
}  // namespace luminal::egraph
