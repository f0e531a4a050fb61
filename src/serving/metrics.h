#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace luminal::serving {

/// What a Prometheus histogram counts.
class Histogram {
 public:
  /// `bounds` rise.
  explicit Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}
  void add(double value);
  void print(std::string& out, const std::string& name, const std::string& help) const;

 private:
  std::vector<double> bounds_;
  std::vector<uint64_t> counts_;  ///< of each interval, the last without a bound
  double sum_ = 0;
};

/// What the server counts. Thread safety: any number of threads.
class Metrics {
 public:
  void count_request(const std::string& path, int status);
  void count_prompt(int64_t tokens, int64_t reused);
  void count_tokens(int64_t tokens);
  void first_token_after(double seconds);
  /// An answer that has ended, `seconds` after its first token.
  void count_answer(const std::string& how, int64_t tokens, double seconds);
  /// In Prometheus' text format. `gauges`: name, help and value of what is measured now.
  struct Gauge {
    std::string name, help;
    double value = 0;
  };
  [[nodiscard]] std::string to_text(const std::vector<Gauge>& gauges) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, uint64_t> requests_;
  std::map<std::string, uint64_t> answers_;
  int64_t prompt_tokens_ = 0, reused_tokens_ = 0, tokens_ = 0;
  Histogram first_token_{{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120}};
  Histogram pace_{{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}};
};

}  // namespace luminal::serving
