#include "cli/workload.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>

#include "base/fail.h"
#include "base/file.h"
#include "base/suggest.h"
#include "cli/examples.h"
#include "cli/formula.h"
#include "luminal/autograd.h"

namespace luminal::cli {
namespace {

std::string workload_help() {
  std::string text = "Examples:\n";
  for (const Example& example : examples())
    text += fmt::format("  {:<15} {}{}{}\n", example.name, example.summary,
                        example.formula.empty() ? "" : ": ", example.formula);
  text += "Functions of formulas:\n";
  for (const std::string& line : formula_functions()) text += "  " + line + "\n";
  return text;
}

}  // namespace

namespace {

/// Whether a text can be a name; formulas have signs that no name has.
bool is_name(std::string_view text) {
  return text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string_view::npos;
}

/// The gradients of `names` are the results; the formula's inputs and "upstream" are returned.
std::vector<GraphTensor> differentiate(Graph& graph, const Formula& formula,
                                       const std::vector<std::string>& names) {
  std::vector<GraphTensor> inputs = formula.inputs, wanted;
  for (const std::string& name : names) {
    const auto at = std::ranges::find(formula.names, name);
    if (at == formula.names.end())
      fail("[grad] the formula has no input '{}'; its inputs are {}{}", name, fmt::join(formula.names, ", "),
           did_you_mean(name, formula.names));
    wanted.push_back(formula.inputs[static_cast<size_t>(at - formula.names.begin())]);
  }
  const GraphTensor& y = formula.result;
  inputs.push_back(graph.named_tensor("upstream", y.dims(), y.dtype()));
  for (GraphTensor& gradient : graph.run_pass(Autograd(wanted, (y * inputs.back()).sum())))
    gradient.retrieve();
  return inputs;
}

/// Errors: Error that names the examples if the text is neither.
std::vector<GraphTensor> build(Graph& graph, const WorkloadOptions& options, DimMap& sizes) {
  std::string_view text = options.what;
  if (is_name(text)) {
    const Example& example = find_example(text);
    if (example.build) {
      if (!options.gradients.empty())
        fail("[grad] '{}' is a whole graph; --grad takes the inputs of a formula", text);
      return example.build(graph, sizes);
    }
    text = example.formula;
  }
  Formula formula = parse_formula(graph, text);
  if (!options.gradients.empty()) return differentiate(graph, formula, options.gradients);
  formula.result.retrieve();
  return formula.inputs;
}

MathMode parse_math(std::string_view text) {
  std::vector<std::string> names;
  for (const MathMode mode : {MathMode::Strict, MathMode::Relaxed, MathMode::Fast}) {
    if (name(mode) == text) return mode;
    names.emplace_back(name(mode));
  }
  fail("[math] unknown math mode '{}'; choose one of {}{}", text, fmt::join(names, ", "),
       did_you_mean(text, names));
}

}  // namespace

std::vector<GraphTensor> build_workload(Graph& graph, const WorkloadOptions& options) {
  if (!options.device.empty()) graph.set_device(options.device);
  SearchOptions search{.math = parse_math(options.math),
                       .rules_off = {options.rules_off.begin(), options.rules_off.end()},
                       .seed = options.seed};
  if (!options.rules.empty()) search.rules = read_file(options.rules, size_t{1} << 24);
  graph.set_search(std::move(search));
  DimMap sizes;
  for (const std::string& entry : options.dims) {
    const size_t equals = entry.find('=');
    int64_t size = 0;
    const char* end = entry.data() + entry.size();
    const char* digits = equals == std::string::npos ? end : entry.data() + equals + 1;
    const auto [read_to, status] = std::from_chars(digits, end, size);
    if (equals == 0 || read_to != end || status != std::errc())
      fail("[dim] --dim takes NAME=SIZE with a whole number, not '{}'", entry);
    sizes.insert_or_assign(entry.substr(0, equals), size);
  }
  std::vector<GraphTensor> inputs = build(graph, options, sizes);
  const std::vector<std::string> dims = graph.dim_names();
  for (const auto& [dim, size] : sizes) {
    if (std::ranges::find(dims, dim) == dims.end())
      fail("[dim] '{}' has no dim '{}'{}{}", options.what, dim,
           dims.empty() ? std::string("; leave --dim out")
                        : fmt::format("; its dims are {}", fmt::join(dims, ", ")),
           did_you_mean(dim, dims));
    graph.set_dim(dim, size);
  }
  return inputs;
}

void declare_workload(CLI::App& app, WorkloadOptions& options) {
  app.add_option("what", options.what,
                 "A formula, e.g. 'x:f32[32,1000].softmax(-1)', or the name of an example");
  app.add_option("--grad", options.gradients, "The gradients of these inputs instead, e.g. --grad q,k,v")
      ->delimiter(',')
      ->allow_extra_args(false);
  declare_search(app, options);
}

void declare_search(CLI::App& app, WorkloadOptions& options) {
  app.add_option("--mode", options.mode, "fast, optimal, or budget=SECONDS")->capture_default_str();
  app.add_option("--dim", options.dims, "Size of a named dim, e.g. --dim s=128 (may be repeated)")
      ->allow_extra_args(false);
  app.add_option("--device", options.device, "Where to compile and run (see 'luminal env')");
  app.add_option("--math", options.math,
                 "How far numbers may change: strict (the same bits), relaxed (rounding; overflow only where "
                 "the terms "
                 "of a sum add up to 2^-24 of the greatest number, 2.0e31 for f32), or fast (any identity "
                 "over the reals)")
      ->capture_default_str();
  app.add_option("--without-rule", options.rules_off, "Do not use this law (may be repeated)")
      ->allow_extra_args(false);
  app.add_option("--seed", options.seed, "Of the numbers on which candidates are timed")
      ->capture_default_str();
  app.add_option("--rules", options.rules, "A file with laws of your own (see docs/adding_a_rule.md)");
  app.footer(workload_help);
}

}  // namespace luminal::cli
