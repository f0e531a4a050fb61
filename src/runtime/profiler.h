#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "kernel/cost.h"
#include "runtime/plan.h"

namespace luminal::runtime {

/// "contract_1f3a    12.3 us   45.600 GFLOP/s   7.800 GB/s  63 %  conv2d at model.cpp:41".
[[nodiscard]] std::string launch_line(const Launch& launch, double time_us,
                                      const kernel::MachineLimits& limits);

/// Times of the launches of any number of runs: `executor.run(graph, nullptr, &profiler)`. Profiled runs
/// finish each launch before the next one starts.
class Profiler {
 public:
  explicit Profiler(kernel::MachineLimits limits);

  /// One launch over all runs.
  struct Row {
    std::string name, origin;
    int64_t runs = 0;
    double total_us = 0, least_us = 0;
    double flops = 0, bytes = 0;  ///< of one run
    [[nodiscard]] double mean_us() const { return runs == 0 ? 0 : total_us / static_cast<double>(runs); }
  };

  using Clock = std::chrono::steady_clock;
  void record(const Plan& plan, int launch, Clock::time_point begin, Clock::time_point end);

  /// In plan order; plans one after the other.
  [[nodiscard]] const std::vector<Row>& rows() const { return rows_; }
  [[nodiscard]] double share_of_roofline(const Row& row) const;
  /// A table for people, dearest launch first.
  [[nodiscard]] std::string table() const;
  /// Events in Chrome's trace format, which Perfetto and chrome://tracing open; the first half million.
  [[nodiscard]] std::string trace_json() const;
  [[nodiscard]] const kernel::MachineLimits& limits() const { return limits_; }

 private:
  struct Event {
    size_t row = 0;
    double begin_us = 0, time_us = 0;
  };
  [[nodiscard]] size_t first_row(const Plan& plan);
  static constexpr size_t kMostEvents = 500'000;  ///< a trace that viewers still open

  kernel::MachineLimits limits_;
  Clock::time_point start_ = Clock::now();
  std::vector<Row> rows_;
  struct Seen {
    const Plan* plan;
    uint64_t key;
    size_t first_row;
  };
  std::vector<Seen> plans_;
  std::vector<Event> events_;
};

}  // namespace luminal::runtime
