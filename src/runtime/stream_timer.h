#pragma once
#include <algorithm>
#include <cmath>
#include <memory>

#include "backends/device.h"

namespace luminal::runtime {

/// The time of work that is queued on a stream again and again, by the device's clock.
class StreamTimer {
 public:
  /// Both outlive the timer.
  StreamTimer(backends::Device& device, backends::Stream& stream)
      : device_(device), stream_(stream), begin_(device.make_event()), end_(device.make_event()) {}

  /// Of one run in us, averaged over as many as take `at_least_us` together. `queue` queues one run.
  template <class Queue>
  double sample_us(double at_least_us, Queue&& queue) {
    if (last_us_ == 0) {
      // The first run finds cold instructions and pages: of a long one they are little.
      constexpr double kLongUs = 10'000, kMiddlingUs = 1000;
      const double first = time_us(1, queue);
      if (first > std::max(kLongUs, at_least_us)) return last_us_ = first;
      last_us_ = first > std::max(kMiddlingUs, at_least_us) ? first : std::max(time_us(1, queue), 0.05);
    }
    const auto runs = static_cast<int>(std::clamp(std::ceil(at_least_us / last_us_), 1.0, 20000.0));
    return last_us_ = std::max(time_us(runs, queue) / runs, 0.01);
  }

 private:
  template <class Queue>
  double time_us(int runs, Queue& queue) {
    stream_.record(*begin_);
    for (int i = 0; i < runs; ++i) queue();
    stream_.record(*end_);
    stream_.synchronise();
    return device_.elapsed_us(*begin_, *end_);
  }

  backends::Device& device_;
  backends::Stream& stream_;
  std::unique_ptr<backends::Event> begin_, end_;
  double last_us_ = 0;
};

}  // namespace luminal::runtime
