#include "cli/workload.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>

#include "base/fail.h"
#include "base/file.h"
#include "base/suggest.h"
#include "cli/formula.h"
#include "cli/mnist_step.h"

namespace luminal::cli {
namespace {

constexpr int64_t kBatch = 64;

std::vector<GraphTensor> build_mnist_step(Graph& cx, DimMap& sizes) {
  const auto given = sizes.extract("batch");  // a number in this graph, no dim of it
  const MnistStep step(cx, given.empty() ? kBatch : given.mapped(), 1e-3);
  return {step.images, step.labels};
}

struct Example {
  std::string_view name, summary, formula;
  std::vector<GraphTensor> (*build)(Graph& graph, DimMap& sizes) =
      nullptr;  ///< instead of a formula; takes the sizes it uses
};

constexpr std::array kExamples{
    Example{"attention", "softmax(q k^T) v over 8 heads",
            "attention(q:f32[8,256,64], k:f32[8,256,64], v:f32[8,256,64])"},
    Example{"conv", "a convolution with bias and relu",
            "(conv2d(x:f32[64,16,14,14], w:f32[32,16,3,3], padding=1) + b:f32[32,1,1]).relu()"},
    Example{"layer-norm", "rows normalised to mean 0 and deviation 1", "layer_norm(x:f32[512,1024])"},
    Example{"matmul", "a matrix product", "a:f32[512,512] @ b:f32[512,512]"},
    Example{"mnist-step", "a training step of the digit network (--dim batch=64): forward, backward, Adam",
            "", build_mnist_step},
    Example{"softmax", "a softmax over rows", "x:f32[32,1000].softmax(-1)"},
};

std::string workload_help() {
  std::string text = "Examples:\n";
  for (const Example& example : kExamples)
    text += fmt::format("  {:<12} {}{}{}\n", example.name, example.summary,
                        example.formula.empty() ? "" : ": ", example.formula);
  text += "Functions of formulas:\n";
  for (const std::string& line : formula_functions()) text += "  " + line + "\n";
  return text;
}

}  // namespace

namespace {

/// Errors: Error that names the examples if the text is neither.
std::vector<GraphTensor> build(Graph& graph, const std::string& what, DimMap& sizes) {
  std::string_view text = what;
  if (const auto example = std::ranges::find(kExamples, text, &Example::name); example != kExamples.end()) {
    if (example->build) return example->build(graph, sizes);
    text = example->formula;
  } else if (text.find_first_not_of("abcdefghijklmnopqrstuvwxyz-") == std::string_view::npos) {
    std::vector<std::string> names;
    for (const Example& each : kExamples) names.emplace_back(each.name);
    fail("[formula] '{}' is neither an example ({}) nor a formula such as 'x:f32[32,1000].softmax(-1)'{}",
         text, fmt::join(names, ", "), did_you_mean(text, names));
  }
  Formula formula = parse_formula(graph, text);
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
                       .rules_off = {options.rules_off.begin(), options.rules_off.end()}};
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
  std::vector<GraphTensor> inputs = build(graph, options.what, sizes);
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
  app.add_option("--mode", options.mode, "fast, optimal, or budget=SECONDS")->capture_default_str();
  app.add_option("--dim", options.dims, "Size of a named dim, e.g. --dim s=128");
  app.add_option("--device", options.device, "Where to compile and run (see 'luminal env')");
  app.add_option("--math", options.math,
                 "How far numbers may change: strict (the same bits), relaxed (rounding; overflow only where "
                 "the terms "
                 "of a sum add up to 2^-24 of the greatest number, 2.0e31 for f32), or fast (any identity "
                 "over the reals)")
      ->capture_default_str();
  app.add_option("--without-rule", options.rules_off, "Do not use this law (may be repeated)");
  app.add_option("--rules", options.rules, "A file with laws of your own (see docs/adding_a_rule.md)");
  app.footer(workload_help);
}

}  // namespace luminal::cli
