#pragma once
#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

namespace luminal {

[[nodiscard]] inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The time of something that runs again and again.
class Sampler {
 public:
  /// Of one run in us, averaged over as many as take `at_least_us` together.
  template <class Run>
  double sample_us(double at_least_us, Run&& run) {
    const auto now = [] { return std::chrono::steady_clock::now(); };
    if (last_us_ == 0) {  // the first run finds cold instructions and pages
      run();
      const auto start = now();
      run();
      last_us_ = std::max(1e6 * seconds_since(start), 0.05);
    }
    const auto runs = static_cast<int>(std::clamp(std::ceil(at_least_us / last_us_), 1.0, 20000.0));
    const auto start = now();
    for (int i = 0; i < runs; ++i) run();
    return last_us_ = std::max(1e6 * seconds_since(start) / runs, 0.01);
  }

 private:
  double last_us_ = 0;
};

/// The middle sample (of an even number the upper one); 0 of none.
[[nodiscard]] inline double median(std::vector<double> samples) {
  if (samples.empty()) return 0;
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

}  // namespace luminal
