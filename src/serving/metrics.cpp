#include "serving/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace luminal::serving {
namespace {

void print_head(std::string& out, const std::string& name, const std::string& help, const char* type) {
  fmt::format_to(std::back_inserter(out), "# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

void print_counter(std::string& out, const std::string& name, const std::string& help, int64_t value) {
  print_head(out, name, help, "counter");
  fmt::format_to(std::back_inserter(out), "{} {}\n", name, value);
}

}  // namespace

void Histogram::add(double value) {
  const auto bound = std::ranges::lower_bound(bounds_, value);
  ++counts_[static_cast<size_t>(bound - bounds_.begin())];
  sum_ += value;
}

void Histogram::print(std::string& out, const std::string& name, const std::string& help) const {
  print_head(out, name, help, "histogram");
  uint64_t total = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    total += counts_[i];
    const std::string bound = i < bounds_.size() ? fmt::format("{}", bounds_[i]) : "+Inf";
    fmt::format_to(std::back_inserter(out), "{}_bucket{{le=\"{}\"}} {}\n", name, bound, total);
  }
  fmt::format_to(std::back_inserter(out), "{}_sum {}\n{}_count {}\n", name, sum_, name, total);
}

void Metrics::count_request(const std::string& path, int status) {
  const std::lock_guard lock(mutex_);
  ++requests_[{path, status}];
}
void Metrics::count_prompt(int64_t tokens, int64_t reused) {
  const std::lock_guard lock(mutex_);
  prompt_tokens_ += tokens;
  reused_tokens_ += reused;
}
void Metrics::count_tokens(int64_t tokens) {
  const std::lock_guard lock(mutex_);
  tokens_ += tokens;
}
void Metrics::first_token_after(double seconds) {
  const std::lock_guard lock(mutex_);
  first_token_.add(seconds);
}
void Metrics::count_answer(const std::string& how, int64_t tokens, double seconds) {
  const std::lock_guard lock(mutex_);
  ++answers_[how];
  // Of one token there is no time between tokens.
  if (tokens > 1 && seconds > 0) pace_.add(static_cast<double>(tokens - 1) / seconds);
}

std::string Metrics::to_text(const std::vector<Gauge>& gauges) const {
  const std::lock_guard lock(mutex_);
  std::string out;
  print_head(out, "luminal_requests_total", "HTTP requests that were answered.", "counter");
  for (const auto& [key, count] : requests_)
    fmt::format_to(std::back_inserter(out), "luminal_requests_total{{path=\"{}\",status=\"{}\"}} {}\n",
                   key.first, key.second, count);
  print_head(out, "luminal_answers_total", "Answers that have ended, by how.", "counter");
  for (const auto& [how, count] : answers_)
    fmt::format_to(std::back_inserter(out), "luminal_answers_total{{finish=\"{}\"}} {}\n", how, count);
  print_counter(out, "luminal_prompt_tokens_total", "Tokens of prompts.", prompt_tokens_);
  print_counter(out, "luminal_reused_prompt_tokens_total", "Tokens of prompts that a cache held.",
                reused_tokens_);
  print_counter(out, "luminal_generated_tokens_total", "Tokens of answers.", tokens_);
  first_token_.print(out, "luminal_time_to_first_token_seconds", "From a request to its first token.");
  pace_.print(out, "luminal_tokens_per_second", "Of an answer, behind its first token.");
  for (const Gauge& gauge : gauges) {
    print_head(out, gauge.name, gauge.help, "gauge");
    fmt::format_to(std::back_inserter(out), "{} {}\n", gauge.name, gauge.value);
  }
  return out;
}

}  // namespace luminal::serving
