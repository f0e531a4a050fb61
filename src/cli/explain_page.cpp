#include "cli/explain_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/xml.h"

namespace luminal::cli {
namespace {

constexpr std::string_view kStyle = R"(
:root{color-scheme:light dark;--bar:#4a86c5;--soft:#8884}
body{font:15px/1.45 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}
pre{background:#8881;padding:.7rem;overflow:auto;font-size:13px;max-height:32rem}
table{border-collapse:collapse;width:100%}
td,th{text-align:right;padding:.2rem .6rem;border-bottom:1px solid var(--soft)}
td:first-child,th:first-child,td:last-child,th:last-child{text-align:left}
.bar{display:inline-block;height:.7em;background:var(--bar);vertical-align:baseline;margin-right:.4em}
summary{cursor:pointer;margin:.3rem 0}
h2{margin-top:2rem}
)";

std::string bar(double share) {
  return fmt::format("<span class=bar style=\"width:{:.1f}em\"></span>", 8 * std::clamp(share, 0.0, 1.0));
}

std::string folded(std::string_view title, const std::string& text, bool open = false) {
  return fmt::format("<details{}><summary>{}</summary><pre>{}</pre></details>\n", open ? " open" : "", title,
                     xml(text));
}

/// How the plan was found, in a sentence or two.
std::string story(const CompileReport& report) {
  std::string text = fmt::format(
      "<p>Compiled for {} ({}) in {:.3f} s. {} nodes became an e-graph of {} values, whose tables grew to {} "
      "rows in {} rounds; {} kernels were open when the plan was chosen, at most {} for one value. Predicted "
      "with every value in memory at least {:.1f} us, as chosen {:.1f} us. ",
      report.device, report.mode, report.total_s, report.graph_nodes, report.classes,
      report.growth.empty() ? report.rows : report.growth.back(), report.rounds, report.fusions,
      report.most_fusions, report.unfused_us, report.predicted_us);
  for (size_t i = 0; i < report.search.size(); ++i)
    text += fmt::format("Round {}: a plan of {} kernels, {} timed now, {:.1f} us in all. ", i + 1,
                        report.search[i].kernels, report.search[i].timed, report.search[i].sum_us);
  if (report.measured_us > 0) text += fmt::format("The whole plan took {:.1f} us", report.measured_us);
  if (report.measured_us > 0 && report.fast_us > 0)
    text += fmt::format(", the one of Fast mode {:.1f} us", report.fast_us);
  if (report.measured_us > 0) text += ". ";
  if (report.compared > 0)
    text += fmt::format("{} outputs of kernels were compared with independent kernels. ", report.compared);
  return text + xml(report.note) + "</p>\n";
}

std::string phases_table(const CompileReport& report) {
  std::string text = "<table><tr><th>phase<th>ms<th></tr>";
  double total = 1e-12;
  for (const auto& [phase, seconds] : report.phases) total += seconds;
  for (const auto& [phase, seconds] : report.phases)
    text += fmt::format("<tr><td>{}<td>{:.3f}<td>{}</tr>", phase, seconds * 1e3, bar(seconds / total));
  return text + "</table>\n";
}

std::string kernels_table(const CompileReport& report) {
  double total = 1e-12;
  for (const KernelReport& kernel : report.kernels) total += kernel.time_us() * kernel.launches;
  std::string text =
      "<table><tr><th>kernel<th>runs<th>us<th>predicted<th>GFLOP/s<th>GB/s<th>% of the roofline<th>share of "
      "the "
      "time</tr>";
  for (const KernelReport& kernel : report.kernels) {
    const double us = kernel.time_us(), share = us * kernel.launches / total;
    const auto measured = [&](double value) {
      return kernel.measured_us > 0 ? fmt::format("{:.1f}", value) : std::string();
    };
    // What was remembered without its prediction has none.
    const std::string predicted =
        kernel.predicted_us > 0 ? fmt::format("{:.1f}", kernel.predicted_us) : std::string();
    text += fmt::format(
        "<tr><td><a href=\"#{0}\">{0}</a><td>{1}<td>{2}<td>{3}<td>{4}<td>{5}<td>{6}<td>{7}{8:.0f} %</tr>",
        kernel.name, kernel.launches, measured(us), predicted, measured(kernel.flops / us * 1e-3),
        measured(kernel.bytes / us * 1e-3), measured(100 * kernel.roofline_us / us), bar(share), 100 * share);
  }
  return text + "</table>\n";
}

std::string kernel_section(const KernelReport& kernel) {
  std::string text =
      fmt::format("<h2 id=\"{0}\">{0}</h2>\n<p>{1} {2}{3}{4}</p>\n", kernel.name, kernel.schedule,
                  xml(kernel.parameters), kernel.origin.empty() ? "" : ", made for " + xml(kernel.origin),
                  kernel.verified ? "; verified against the graph's own nodes" : "");
  text += fmt::format("<pre>{}</pre>\n", xml(kernel.spec));
  if (!kernel.rejected.empty()) {
    text += "<table><tr><th>not taken<th>predicted us<th>measured us<th>why</tr>";
    for (const KernelReport::Rejected& other : kernel.rejected)
      text += fmt::format("<tr><td>{} {}<td>{:.1f}<td>{}<td>{}</tr>", other.schedule, xml(other.parameters),
                          other.predicted_us,
                          other.measured_us > 0 ? fmt::format("{:.1f}", other.measured_us) : std::string(),
                          xml(other.reason));
    text += "</table>\n";
  }
  if (kernel.loops) text += folded("loops", kernel.loops());
  if (kernel.source) text += folded("target source", kernel.source());
  if (kernel.assembly) text += folded("machine code", kernel.assembly());
  return text;
}

}  // namespace

std::string explain_page(const std::string& title, const CompileReport& report) {
  std::string text = fmt::format(
      "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\">"
      "<title>luminal: {0}</title><style>{1}</style>\n<h1>{0}</h1>\n",
      xml(title), kStyle);
  text += story(report) + phases_table(report) + folded("graph", report.graph, report.graph.size() < 3000);
  if (!report.rules.empty()) {
    text += "<h2>Laws that fired</h2>\n<table><tr><th>law<th>matched<th>applied<th></tr>";
    for (const CompileReport::Rule& rule : report.rules)
      text += fmt::format("<tr><td>{}<td>{}<td>{}<td></tr>", xml(rule.name), rule.matched, rule.applied);
    text += "</table>\n";
  }
  text += "<h2>Kernels</h2>\n" + kernels_table(report);
  for (const KernelReport& kernel : report.kernels) text += kernel_section(kernel);
  return text + "</html>\n";
}

}  // namespace luminal::cli
