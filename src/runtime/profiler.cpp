#include "runtime/profiler.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/fail.h"

namespace luminal::runtime {
namespace {

double share(double flops, double bytes, double time_us, const kernel::MachineLimits& limits) {
  return time_us > 0 ? kernel::roofline_us(flops, bytes, limits) / time_us : 0;
}

}  // namespace

std::string launch_line(const Launch& launch, double time_us, const kernel::MachineLimits& limits) {
  const double per_us = time_us > 0 ? 1e-3 / time_us : 0;
  return fmt::format("{:<24} {:>10.1f} us {:>9.3f} GFLOP/s {:>8.3f} GB/s {:>4.0f} %  {}", launch.name,
                     time_us, launch.flops * per_us, launch.bytes * per_us,
                     100 * share(launch.flops, launch.bytes, time_us, limits), launch.origin);
}

Profiler::Profiler(kernel::MachineLimits limits) : limits_(limits) {}

size_t Profiler::first_row(const Plan& plan) {
  const auto known = std::ranges::find_if(
      plans_, [&](const Seen& seen) { return seen.plan == &plan && seen.key == plan.key; });
  if (known != plans_.end()) return known->first_row;
  const size_t first = rows_.size();
  for (const Launch& launch : plan.launches)
    rows_.push_back(
        {.name = launch.name, .origin = launch.origin, .flops = launch.flops, .bytes = launch.bytes});
  plans_.push_back({&plan, plan.key, first});
  return first;
}

void Profiler::record(const Plan& plan, int launch, Clock::time_point begin, Clock::time_point end) {
  const auto us = [](Clock::duration d) { return std::chrono::duration<double, std::micro>(d).count(); };
  const Event event{.row = first_row(plan) + static_cast<size_t>(launch),
                    .begin_us = us(begin - start_),
                    .time_us = us(end - begin)};
  Row& row = rows_.at(event.row);
  row.least_us = row.runs == 0 ? event.time_us : std::min(row.least_us, event.time_us);
  row.total_us += event.time_us;
  ++row.runs;
  if (events_.size() < kMostEvents) events_.push_back(event);
}

double Profiler::share_of_roofline(const Row& row) const {
  return share(row.flops, row.bytes, row.mean_us(), limits_);
}

std::string Profiler::table() const {
  std::vector<size_t> order(rows_.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(), [&](size_t i) { return rows_[i].total_us; });
  double total = 0;
  for (const Row& row : rows_) total += row.mean_us();
  std::string text = fmt::format("{:<24} {:>6} {:>10} {:>10} {:>6} {:>9} {:>8} {:>8}  {}\n", "kernel", "runs",
                                 "mean us", "least us", "time", "GFLOP/s", "GB/s", "roofline", "from");
  for (const size_t i : order) {
    const Row& row = rows_[i];
    const double mean = row.mean_us(), per_us = mean > 0 ? 1e-3 / mean : 0;
    text += fmt::format("{:<24} {:>6} {:>10.1f} {:>10.1f} {:>4.0f} % {:>9.2f} {:>8.2f} {:>6.0f} %  {}\n",
                        row.name, row.runs, mean, row.least_us, total > 0 ? 100 * mean / total : 0,
                        row.flops * per_us, row.bytes * per_us, 100 * share_of_roofline(row), row.origin);
  }
  return text + fmt::format("{:<24} {:>6} {:>10.1f}\n", "total", "", total);
}

std::string Profiler::trace_json() const {
  nlohmann::ordered_json events = nlohmann::ordered_json::array();
  events.push_back(
      {{"name", "process_name"}, {"ph", "M"}, {"pid", 1}, {"tid", 1}, {"args", {{"name", "luminal"}}}});
  for (const Event& event : events_) {
    const Row& row = rows_[event.row];
    events.push_back({{"name", row.name},
                      {"cat", "kernel"},
                      {"ph", "X"},
                      {"ts", event.begin_us},
                      {"dur", event.time_us},
                      {"pid", 1},
                      {"tid", 1},
                      {"args",
                       {{"from", row.origin},
                        {"flops", row.flops},
                        {"bytes", row.bytes},
                        {"share_of_roofline", share(row.flops, row.bytes, event.time_us, limits_)}}}});
  }
  return nlohmann::ordered_json{{"displayTimeUnit", "ns"}, {"traceEvents", std::move(events)}}.dump(1);
}

}  // namespace luminal::runtime
