#include "search/compile_log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "base/dump.h"
#include "base/log.h"
#include "base/machine.h"
#include "luminal/session.h"

namespace luminal::search {
namespace {

void log_devices() {
  static const bool once = [] {
    const Machine machine = this_machine();
    log_line(fmt::format("devices: {}; {}, {}, {} threads", fmt::join(session_devices(), ", "), machine.cpu,
                         machine.vector_isa, environment::threads()));
    return true;
  }();
  (void)once;
}

void log_summary(const CompileReport& report) {
  const int launches =
      std::accumulate(report.kernels.begin(), report.kernels.end(), 0,
                      [](int sum, const KernelReport& kernel) { return sum + kernel.launches; });
  std::string phases;
  for (const auto& [phase, seconds] : report.phases)
    phases += fmt::format("{}{} {:.1f} ms", phases.empty() ? "" : ", ", phase, seconds * 1e3);
  log_line(fmt::format(
      "{}: compiled ({}) in {:.3f} s: {} nodes, {} kernels in {} launches, {:.2f} MB of temporaries, "
      "predicted {:.1f} us ({})",
      report.device, report.mode, report.total_s, report.graph_nodes, report.kernels.size(), launches,
      static_cast<double>(report.arena_bytes) / 1e6, report.predicted_us, phases));
  if (!report.note.empty()) log_line(fmt::format("{}: {}", report.device, report.note));
}

std::string times(double predicted_us, double measured_us) {
  std::string text = fmt::format("predicted {:.1f} us", predicted_us);
  if (measured_us > 0) text += fmt::format(", measured {:.1f} us", measured_us);
  return text;
}

void log_implementation(const KernelReport& kernel) {
  std::string text = fmt::format("search: {}: {} {}, {}", kernel.name, kernel.schedule, kernel.parameters,
                                 times(kernel.predicted_us, kernel.measured_us));
  if (kernel.rejected.empty()) {
    text += kernel.from_cache ? "; remembered" : "; nothing else was there";
  } else {
    const KernelReport::Rejected& best = kernel.rejected.front();
    text += fmt::format("; best rejected: {} {}, {}, {}", best.schedule, best.parameters,
                        times(best.predicted_us, best.measured_us), best.reason);
  }
  log_line(text);
}

/// Every class with all the ways there are to compute it.
std::string text_of(const CoverProblem& problem, const SpecStore& store) {
  std::string text;
  for (size_t c = 0; c < problem.classes.size(); ++c) {
    const CoverProblem::Class& each = problem.classes[c];
    text += fmt::format("class {}{}{}\n", c, each.wanted ? ", wanted" : "",
                        each.host >= 0              ? fmt::format(", of host op {}", each.host)
                        : each.alternatives.empty() ? ", given"
                                                    : "");
    for (const CoverProblem::Alternative& alternative : each.alternatives)
      text += fmt::format("of classes ({})\n{}", fmt::join(alternative.arguments, ", "),
                          store.at(alternative.spec).to_string());
    text += '\n';
  }
  return text;
}

std::string text_of(const CompileReport& report) {
  std::string text = to_text(report) + "\n";
  for (const KernelReport& kernel : report.kernels) {
    text += fmt::format("{}: {} {}\n{}", kernel.name, kernel.schedule, kernel.parameters, kernel.spec);
    for (const KernelReport::Rejected& other : kernel.rejected)
      text += fmt::format("  not taken: {} {}: {}, {}\n", other.schedule, other.parameters,
                          times(other.predicted_us, other.measured_us), other.reason);
  }
  return text;
}

}  // namespace

bool is_logged() { return environment::debug_level() >= 1 || is_dumping(); }

void log_compile(const CompletedCompile& finished) {
  const int level = environment::debug_level();
  if (level >= 1) {
    log_devices();
    log_summary(finished.report);
  }
  if (level >= 3) std::ranges::for_each(finished.report.kernels, log_implementation);
  if (!is_dumping()) return;
  const std::string key = fmt::format("{:016x}", finished.plan.key);
  dump_file(key + "_graph.txt", finished.graph.to_string());
  dump_file(key + "_egraph.txt", text_of(finished.saturated.cover, finished.store));
  dump_file(key + "_plan.txt", finished.plan.to_string());
  dump_file(key + "_report.txt", text_of(finished.report));
}

}  // namespace luminal::search
