#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace luminal::cli {

/// A line that `luminal bench --serve` is asked with. The members are named as those of the JSON.
struct BenchRequest {
  std::string what, mode;
  std::vector<std::string> grad;
  std::map<std::string, int64_t> dims;
  uint64_t seed = 0;
  int64_t classes = 0;
  double ms = 0;  ///< how long to sample
  bool report = false, peak = false, last = false;
  bool limits = false;  ///< asks for the machine's limits, and for nothing else

  /// Requests with the same key are about the same plan.
  [[nodiscard]] std::string key() const;
};

/// `usual` has what the request leaves out. Errors: FormatError for what is no JSON object, a member of another type,
/// numbers that are not whole or out of range; json::parse_error.
[[nodiscard]] BenchRequest parse_bench_request(const std::string& line, const BenchRequest& usual);

}  // namespace luminal::cli
