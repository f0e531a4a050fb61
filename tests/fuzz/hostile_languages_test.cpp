// Languages that people write, damaged: sizes, formulas, programs of the e-graph engine, laws of the search.
#include <fmt/format.h>

#include <cmath>
#include <sstream>

#include "cli/compile_mode.h"
#include "cli/formula.h"
#include "fuzz/hostile_input.h"
#include "luminal/egglog.h"
#include "luminal/luminal.h"
#include "unit/search/pipeline.h"

namespace luminal::fuzz {
namespace {

using test::content_of;
using Path = std::filesystem::path;

// --- Formulas

std::vector<std::string> formulas() {
  return {"(x:f32[2,3].softmax(-1) * 2 - 1).sum(axes=[1], keepdims=1)",
          "conv2d(x:f32[1,2,5,5], w:[4,2,3,3], stride=[2,1], padding=1, dilation=1, groups=1).relu()",
          "y = a:f16[s,4] @ b:f16[4,5]; einsum(\"ij,jk->ki\", y, b.t()) / -2",
          "attention(q:f32[2,4,8], k:f32[2,4,8], v:f32[2,4,8], causal=1, scale=0.5)",
          "where(c:bool[2,3], x:i32[2,3] % 4, 7).cast(\"f64\").mean().exp2()",
          "max_pool2d(x[1,1,6,6], kernel=[2,3], stride=2) + avg_pool2d(x, kernel=3, padding=1).max()",
          "x[4,6].reshape([3,8]).permute([1,0]).unsqueeze(0).expand([5,8,3]).flip([0,2])",
          "x[9].slice_along(0, 1, -1, 3).layer_norm(epsilon=1e-3).unsqueeze(-1).squeeze(1).gelu(\"tanh\")",
          "x[b{2..64,/2}, b * 3].flatten(0, 1).logsumexp(axes=[-1]).pow(3).maximum(0.5)"};
}

/// Whether the graph's nodes read and make few elements, so that a run of it ends soon.
bool is_small(const Graph& graph) {
  double elements = 0;
  const auto add = [&](const Shape& dims) {
    double count = 1;
    for (const Expression& size : dims)
      count *= size.constant() ? static_cast<double>(*size.constant()) : HUGE_VAL;
    elements += count;
  };
  for (const NodeId id : graph.nodes()) {
    for (const TensorType& output : graph.node(id).outputs) add(output.dims);
    for (const Edge& edge : graph.node(id).inputs) add(edge.view.dims());
  }
  return elements < 20'000;
}

/// Builds the graph, and runs it where that takes little.
void build_formula(const std::string& input) {
  Graph cx;
  cx.set_device("reference");
  cli::Formula formula = cli::parse_formula(cx, input);
  formula.result.retrieve();
  (void)cx.to_string();
  if (!is_small(cx)) return;
  for (GraphTensor& tensor : formula.inputs) tensor.set(TensorData(tensor.dtype(), exec(tensor.dims(), {})));
  cx.execute();
}

// --- Programs of the e-graph engine

/// Those of the tests that write no file. Some end at their budget.
std::vector<std::string> programs() {
  std::vector<std::string> list;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(std::string(LUMINAL_SOURCE_DIR) + "/tests/egraph")) {
    if (entry.path().extension() != ".egg" || entry.file_size() > 3000 ||
        entry.path().parent_path().filename() == "errors")
      continue;
    std::string text = content_of(entry.path());
    if (text.find("output") == std::string::npos && text.find("include") == std::string::npos)
      list.push_back(std::move(text));
  }
  std::ranges::sort(list);
  return list;
}

egraph::EgglogOptions short_run() {
  egraph::EgglogOptions options;
  options.budget = {.seconds = 0.1, .nodes = 20'000, .bytes = uint64_t{1} << 26};
  return options;
}

/// A failed program leaves an engine that is whole and takes further texts.
void run_program(const std::string& input) {
  (void)egraph::EgglogProgram::is_incomplete(input);
  const test::TemporaryFolder folder;
  egraph::EgglogOptions options = short_run();
  options.fact_directory = folder.path();
  options.proofs = input.size() % 2 == 0;
  egraph::EgglogProgram program(options);
  std::optional<Error> refused;
  try {
    (void)program.run(input);
  } catch (const Error& error) {
    refused = error;
  }
  (void)program.graph().to_json();  // whatever was done before the error is whole
  (void)program.run("(push) (datatype AfterAll (Nothing)) (Nothing) (check (Nothing)) (pop)");
  if (refused) throw *refused;
}

void read_facts(const std::string& input) {
  const test::TemporaryFolder folder;
  (void)folder.file("facts.tsv", input);
  egraph::EgglogOptions options = short_run();
  options.fact_directory = folder.path();
  egraph::EgglogProgram program(options);
  (void)program.run(
      "(function f (i64 String) f64 :no-merge) (relation edge (i64 String f64))\n"
      "(input edge \"facts.tsv\") (input f \"facts.tsv\") (print-function f 10)");
}

std::vector<std::string> egraphs() {
  std::vector<std::string> list;
  for (const char* text :
       {"(datatype Math (Num i64) (Add Math Math) (Var String)) (relation seen (Math f64))\n"
        "(rewrite (Add a b) (Add b a)) (let $x (Add (Num 1) (Add (Var \"a\") (Num -2)))) (seen $x 0.5) (run "
        "2)",
        "(datatype T (Of i64 Unit) (Flag bool)) (function f (i64) f64 :merge old) (set (f 1) 2.5) (Flag "
        "true)"}) {
    egraph::EgglogProgram program;
    (void)program.run(text);
    list.push_back(program.graph().to_json());
  }
  return list;
}

void load_egraph(const std::string& input) {
  egraph::EgglogProgram program;
  (void)program.run("(function f (i64) f64 :merge old)");  // how it merges is not in the text
  program.graph().load_json(input);
  (void)program.graph().to_json();
}

/// A line each: the left side, the right side, a term, and conditions.
void add_rewrite(const std::string& input) {
  std::vector<std::string> lines;
  std::istringstream text(input);
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  lines.resize(std::max<size_t>(lines.size(), 3));
  egraph::EGraph graph;
  const egraph::SortId math = graph.eq_sort("Math");
  graph.constructor("Num", {egraph::kI64}, math);
  graph.constructor("Mul", {math, math}, math);
  graph.relation("small", {math});
  const egraph::RulesetId ruleset = graph.ruleset("rules");
  graph.rewrite(ruleset, "law", lines[0], lines[1], {lines.begin() + 3, lines.end()});
  const egraph::Value term = graph.add_term("(Mul (Num 1) " + lines[2] + ")");
  graph.run(egraph::Schedule::repeat(3, egraph::Schedule::run(ruleset)), short_run().budget);
  (void)egraph::Extractor(graph).best(math, term);
}

// --- Laws of the search

std::vector<std::string> own_law() {
  return {R"(; slots-own-exchange (strict)
; Of a symmetric kernel.
(rule ((= t (Op k)) (symmetric k 0 1) (= o (swap k 0 1)))
      ((union t (Op o)))
      :ruleset strict :name "slots-own-exchange")
)"};
}

/// Their names are taken; parts of them are not.
std::vector<std::string> our_laws() {
  std::vector<std::string> list;
  for (const search::RuleText& rule : search::rule_texts())
    list.push_back(fmt::format("; {} ({})\n; {}\n{}", rule.name, name(rule.mode), rule.reason, rule.text));
  return list;
}

/// The law beside ours, in a search over a product and a sum.
void search_with(const std::string& input) {
  Graph cx;
  (cx.tensor({4, 6}).matmul(cx.tensor({6, 4})) + 1).sum(1).retrieve();
  SearchOptions options;
  options.rules = input;
  (void)search::test::search(cx, options);
}

std::vector<Target> text_targets() {
  return {
      {"expression",
       [] {
         return std::vector<std::string>{
             "(i0[4] * 3 + s{1..64,/4}) % 7 // 2 - min(t, 4, -1) & (a < b | c >= 3)"};
       },
       [](const std::string& input, const Path&) { (void)Expression::parse(input).simplify(); }},
      {"formula", formulas, [](const std::string& input, const Path&) { build_formula(input); }},
      {"mode", [] { return std::vector<std::string>{"budget=2.5", "fast", "optimal"}; },
       [](const std::string& input, const Path&) { (void)cli::parse_mode(input); }},
      {"dtype", [] { return std::vector<std::string>{"f32", "bool", "bf16"}; },
       [](const std::string& input, const Path&) { (void)parse_dtype(input); }},
      {"egg program", [] { return std::vector<std::string>{"(datatype M (N i64)) (N 1) (check (N 1))"}; },
       [](const std::string& input, const Path&) { run_program(input); }, 300, programs},
      {"egg facts", [] { return std::vector<std::string>{"1\ta\t0.5\n-2\tb c\t1e3\n"}; },
       [](const std::string& input, const Path&) { read_facts(input); }, 200},
      {"e-graph JSON", egraphs, [](const std::string& input, const Path&) { load_egraph(input); }},
      {"rewrite",
       [] {
         return std::vector<std::string>{
             "(Mul ?a ?b)\n(Mul ?b ?a)\n(Mul (Num 2) (Mul (Num -3) (Num 1)))",
             "(Mul ?a (Num 1))\n?a\n(Num 7)",
             "(Mul ?a (Num ?n))\n(Mul (Num ?n) ?a)\n(Mul (Num 2) (Num 3))\n(small ?a)"};
       },
       [](const std::string& input, const Path&) { add_rewrite(input); }},
      {"law", own_law, [](const std::string& input, const Path&) { search_with(input); }, 100, our_laws},
  };
}

class HostileText : public testing::TestWithParam<Target> {};
TEST_P(HostileText, IsReadOrRefused) { run(GetParam()); }
INSTANTIATE_TEST_SUITE_P(Parsers, HostileText, testing::ValuesIn(text_targets()), test_name);

}  // namespace
}  // namespace luminal::fuzz
