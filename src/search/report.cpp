#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "backends/device.h"
#include "base/fail.h"
#include "luminal/compile_report.h"
#include "runtime/machine.h"

namespace luminal {
namespace {

/// Of what was measured: a prediction says nothing of how close to the machine's limit code comes.
std::string share(const KernelReport& kernel) {
  if (kernel.measured_us <= 0 || kernel.roofline_us <= 0) return "";
  return fmt::format("{:.0f} %", 100 * kernel.roofline_us / kernel.measured_us);
}

std::string verified_text(const CompileReport& report) {
  if (report.compared == 0) return "";
  std::string text = fmt::format("  verified: {} outputs compared with independent kernels", report.compared);
  if (report.proven > 0) text += fmt::format(", {} elements of large sums proven", report.proven);
  return text + "\n";
}

}  // namespace

std::string to_text(const CompileReport& report) {
  std::string text =
      fmt::format("compiled for {} ({}) in {:.3f} s\n", report.device, report.mode, report.total_s);
  for (const auto& [phase, seconds] : report.phases)
    text += fmt::format("  {:<10} {:>9.3f} ms\n", phase, seconds * 1e3);
  text += fmt::format(
      "  {} nodes, {} kernels ({} launches), {} host launches, ops outside the plan: {}\n"
      "  e-graph: {} tensors became {} classes, {} rows after {} rounds (rows of all tables: {})\n"
      "  cover: {} fusion candidates, at most {} for a class; predicted {:.1f} us, with every value in "
      "memory at least {:.1f} us\n"
      "  memory: {:.2f} MB of temporaries at the peak{}\n",
      report.graph_nodes, report.kernels.size(),
      std::accumulate(report.kernels.begin(), report.kernels.end(), 0,
                      [](int sum, const KernelReport& k) { return sum + k.launches; }),
      report.host_launches.size(), report.ops_outside_plan, report.tensors, report.classes, report.rows,
      report.rounds, fmt::join(report.growth, " "), report.fusions, report.most_fusions, report.predicted_us,
      report.unfused_us, static_cast<double>(report.arena_bytes) / 1e6,
      report.kept_bytes > 0
          ? fmt::format(", {:.2f} MB of weights packed once", static_cast<double>(report.kept_bytes) / 1e6)
          : "");
  for (size_t i = 0; i < report.search.size(); ++i)
    text += fmt::format("  search, round {}: {} kernels, {} newly timed, {:.1f} us in total\n", i + 1,
                        report.search[i].kernels, report.search[i].timed, report.search[i].sum_us);
  for (const CompileReport::UserKernel& own : report.user_kernels) {
    text += fmt::format("  user kernel {} {}: {}", own.name, own.parameters, own.outcome);
    if (own.measured_us > 0) text += fmt::format(", {:.1f} us", own.measured_us);
    if (own.generated_us > 0) text += fmt::format(" (generated: {:.1f} us)", own.generated_us);
    text += '\n';
  }
  if (report.measured_us > 0) {
    text += fmt::format("  the whole plan took {:.1f} us", report.measured_us);
    if (report.fast_us > 0) text += fmt::format(", that of Fast mode {:.1f} us", report.fast_us);
    text += '\n';
  }
  text += verified_text(report);
  text +=
      fmt::format("  kernels compiled: {}, timed: {}{}\n", report.compiled, report.timed,
                  report.timed_at.empty() ? "" : fmt::format(" (at {})", fmt::join(report.timed_at, "; ")));
  if (!report.laws_left_out.empty())
    text += fmt::format("  laws that were found wrong here and are not used: {}\n",
                        fmt::join(report.laws_left_out, ", "));
  if (const CompileReport::ModelHits& hits = report.model_hits; hits.specs > 0)
    text += fmt::format(
        "  the fastest of the timed candidates was the model's first for {} of {} kernels, one of its first "
        "three "
        "for {}\n",
        hits.first, hits.specs, hits.first_three);
  if (!report.note.empty()) text += "  " + report.note + "\n";
  text += fmt::format("\n{:<22} {:>3} {:>11} {:>11} {:>9} {:>8} {:>9}  {}\n", "kernel", "x", "us",
                      "predicted", "GFLOP/s", "GB/s", "roofline", "made for");
  for (const KernelReport& kernel : report.kernels) {
    const double us = kernel.measured_us;
    const auto measured = [&](double value) { return us > 0 ? fmt::format("{:.1f}", value) : std::string(); };
    text += fmt::format("{:<22} {:>3} {:>11} {:>11.1f} {:>9} {:>8} {:>9}  {}\n", kernel.name, kernel.launches,
                        measured(us), kernel.predicted_us, measured(kernel.flops / us * 1e-3),
                        measured(kernel.bytes / us * 1e-3), share(kernel), kernel.origin);
  }
  return text;
}

std::string to_json(const CompileReport& report) {
  using nlohmann::json;
  json phases = json::object(), kernels = json::array(), rules = json::array();
  for (const auto& [phase, seconds] : report.phases) phases[phase] = seconds;
  json rounds = json::array();
  for (const CompileReport::Round& round : report.search)
    rounds.push_back({{"kernels", round.kernels}, {"timed", round.timed}, {"sum_us", round.sum_us}});
  json user_kernels = json::array();
  for (const CompileReport::UserKernel& own : report.user_kernels)
    user_kernels.push_back({{"name", own.name},
                            {"parameters", own.parameters},
                            {"spec", own.spec},
                            {"outcome", own.outcome},
                            {"measured_us", own.measured_us},
                            {"generated_us", own.generated_us}});
  for (const CompileReport::Rule& rule : report.rules)
    rules.push_back(
        {{"name", rule.name}, {"matched", rule.matched}, {"applied", rule.applied}, {"us", rule.time_us}});
  for (const KernelReport& kernel : report.kernels) {
    json rejected = json::array();
    for (const KernelReport::Rejected& other : kernel.rejected)
      rejected.push_back({{"schedule", other.schedule},
                          {"parameters", other.parameters},
                          {"predicted_us", other.predicted_us},
                          {"measured_us", other.measured_us},
                          {"reason", other.reason}});
    kernels.push_back({{"name", kernel.name},
                       {"origin", kernel.origin},
                       {"spec", kernel.spec},
                       {"schedule", kernel.schedule},
                       {"parameters", kernel.parameters},
                       {"launches", kernel.launches},
                       {"predicted_us", kernel.predicted_us},
                       {"measured_us", kernel.measured_us},
                       {"flops", kernel.flops},
                       {"bytes", kernel.bytes},
                       {"roofline_us", kernel.roofline_us},
                       {"verified", kernel.verified},
                       {"from_cache", kernel.from_cache},
                       {"rejected", rejected}});
  }
  return json{{"mode", report.mode},
              {"device", report.device},
              {"total_s", report.total_s},
              {"phases_s", phases},
              {"graph_nodes", report.graph_nodes},
              {"tensors", report.tensors},
              {"classes", report.classes},
              {"rows", report.rows},
              {"rounds", report.rounds},
              {"growth", report.growth},
              {"fusions", report.fusions},
              {"most_fusions", report.most_fusions},
              {"search", rounds},
              {"user_kernels", user_kernels},
              {"unfused_us", report.unfused_us},
              {"rules", rules},
              {"predicted_us", report.predicted_us},
              {"compiled", report.compiled},
              {"timed", report.timed},
              {"timed_at", report.timed_at},
              {"laws_left_out", report.laws_left_out},
              {"compared", report.compared},
              {"proven", report.proven},
              {"model_hits",
               {{"specs", report.model_hits.specs},
                {"first", report.model_hits.first},
                {"first_three", report.model_hits.first_three}}},
              {"measured_us", report.measured_us},
              {"fast_us", report.fast_us},
              {"kernels", kernels},
              {"host_launches", report.host_launches},
              {"ops_outside_plan", report.ops_outside_plan},
              {"arena_bytes", report.arena_bytes},
              {"kept_bytes", report.kept_bytes},
              {"plan_key", fmt::format("{:016x}", report.plan_key)},
              {"note", report.note}}
      .dump(1);
}

double fma_rate_now(std::string_view device) { return backends::find_device(device)->measure_fma_rate(); }

DeviceLimits device_limits(std::string_view device, bool anew) {
  const std::shared_ptr<backends::Device> found = backends::find_device(device);
  const kernel::MachineLimits limits =
      anew && !found->limits() ? found->measure_limits() : runtime::machine_limits(*found);
  return {.cpu = found->target().cpu,
          .threads = limits.threads,
          .flops_per_us = limits.flops_per_us,
          .memory_bytes_per_us = limits.memory_bytes_per_us,
          .cache_bytes_per_us = limits.cache_bytes_per_us,
          .cache_bytes = limits.cache_bytes};
}

}  // namespace luminal
