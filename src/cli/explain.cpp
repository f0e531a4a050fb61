#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "base/fail.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/compile_mode.h"
#include "cli/explain_page.h"
#include "cli/search_line.h"
#include "cli/workload.h"
#include "luminal/compile_report.h"

namespace luminal::cli {
namespace {

struct ExplainOptions : WorkloadOptions {
  std::string kernel, html, replay;
  bool loops = false, source = false, assembly = false, all = false, json = false;
};

std::string indented(const std::string& text) {
  std::string result = "  ";
  for (const char c : text) {
    result += c;
    if (c == '\n') result += "  ";
  }
  return result.substr(0, result.find_last_not_of(" \n") + 1) + "\n";
}

/// Rates are said of what was measured: of a prediction they would say nothing.
std::string time_text(const KernelReport& kernel) {
  const double us = kernel.measured_us;
  if (us > 0)
    return fmt::format(
        "measured {:.1f} us{}; {:.1f} GFLOP/s, {:.1f} GB/s, {:.0f} % of the roofline\n", us,
        kernel.predicted_us > 0 ? fmt::format(", predicted {:.1f} us", kernel.predicted_us) : "",
        kernel.flops / us * 1e-3, kernel.bytes / us * 1e-3, 100 * kernel.roofline_us / us);
  if (kernel.predicted_us <= 0) return "";
  return fmt::format(
      "predicted {:.1f} us, not measured; {:.3g} flops, {:.3g} bytes, at the roofline {:.1f} us\n",
      kernel.predicted_us, kernel.flops, kernel.bytes, kernel.roofline_us);
}

/// What was timed or found wrong; how many others there were.
std::string rejected_text(const KernelReport& kernel) {
  std::string text;
  size_t others = 0;
  for (const KernelReport::Rejected& other : kernel.rejected) {
    if (other.reason == KernelReport::Rejected::kNotTimed) {
      ++others;
      continue;
    }
    text += fmt::format("  not taken: {} {}: {}, predicted {:.1f} us{}\n", other.schedule, other.parameters,
                        other.reason, other.predicted_us,
                        other.measured_us > 0 ? fmt::format(", measured {:.1f} us", other.measured_us) : "");
  }
  if (others > 0) text += fmt::format("  {} more candidates: no time was left for them\n", others);
  return text;
}

std::string kernel_text(const KernelReport& kernel, const ExplainOptions& options) {
  std::string text =
      fmt::format("\n== {} (x{}), {} {}\n", kernel.name, kernel.launches, kernel.schedule, kernel.parameters);
  if (!kernel.origin.empty()) text += fmt::format("made for {}\n", kernel.origin);
  text += indented(kernel.spec);
  text += time_text(kernel);
  if (kernel.verified) text += "verified against the graph's own nodes\n";
  if (kernel.from_cache)
    text +=
        "  taken from the cache; the search that stored it timed the others (LUMINAL_CACHE=off searches "
        "again)\n";
  text += rejected_text(kernel);
  const auto section = [&](std::string_view title, bool wanted, const std::function<std::string()>& make) {
    if ((wanted || options.all) && make) text += fmt::format("-- {}\n{}", title, indented(make()));
  };
  section("loops", options.loops, kernel.loops);
  section("target source", options.source, kernel.source);
  section("assembly", options.assembly, kernel.assembly);
  return text;
}

int replay(const ExplainOptions& options, Console& console) {
  const ReplayResult result = replay_kernel(read_file(options.replay, size_t{1} << 30), options.device);
  console.out << fmt::format("found then: {}\nfound now:  {}\n", result.fault, result.verdict);
  for (const KernelReport& kernel : result.kernels) console.out << kernel_text(kernel, options);
  return result.reproduced ? kFailed : kDone;
}

int explain(const ExplainOptions& options, Console& console) {
  if (!options.replay.empty()) return replay(options, console);
  Graph graph;
  (void)build_workload(graph, options);
  std::optional<SearchLine> line(std::in_place, console);
  CompileReport report = graph.compile(parse_mode(options.mode)).details();
  line.reset();
  report.graph = graph.to_string();
  std::erase_if(report.kernels, [&](const KernelReport& kernel) {
    return !options.kernel.empty() && kernel.name.find(options.kernel) == std::string::npos;
  });
  if (!options.html.empty()) {
    write_file_atomic(options.html, explain_page(options.what, report));
    console.err << fmt::format("wrote {}\n", options.html);
  }
  if (options.json) {
    console.out << to_json(report) << "\n";
    return kDone;
  }
  if (!options.html.empty()) return kDone;
  console.out << "== graph\n" << indented(report.graph);
  if (!report.rules.empty()) console.out << "\n== laws that fired\n";
  for (const CompileReport::Rule& rule : report.rules)
    console.out << fmt::format("  {:<32} {} times\n", rule.name, rule.applied);
  console.out << "\n== " << to_text(report);
  for (const KernelReport& kernel : report.kernels) console.out << kernel_text(kernel, options);
  return kDone;
}

Action declare_explain(CLI::App& app) {
  auto options = std::make_shared<ExplainOptions>();
  options->mode = "fast";
  declare_workload(app, *options);
  app.add_option("--kernel", options->kernel, "Only kernels whose name contains this");
  app.add_flag("--loops", options->loops, "Show the loops of each kernel");
  app.add_flag("--source", options->source, "Show the target's source (LLVM IR)");
  app.add_flag("--assembly", options->assembly, "Show the machine code");
  app.add_flag("--all", options->all, "Show all of these");
  app.add_option("--html", options->html, "Write everything as one self-contained page");
  app.add_flag("--json", options->json, "Print the report as JSON");
  app.add_option("--replay", options->replay, "Check the kernel of a replay file again");
  return [options, &app](Console& console) {
    if (options->what.empty() && options->replay.empty()) {
      console.err << app.help("luminal");
      return kUsage;
    }
    return explain(*options, console);
  };
}

}  // namespace

extern const Command kExplain;
const Command kExplain{"explain", "show how a formula becomes machine code", declare_explain};

}  // namespace luminal::cli
