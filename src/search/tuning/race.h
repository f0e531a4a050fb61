#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backends/device.h"
#include "runtime/stream_timer.h"

/// Which of several kernels for one spec is the fastest here and now.
namespace luminal::search {

using Clock = std::chrono::steady_clock;

/// What a buffer of a bench holds: some bytes, again and again.
struct BenchInput {
  std::span<const std::byte> repeated;
  int64_t bytes = 0;
};

/// The buffers of one spec at given sizes, shared by all its candidates. With several copies each run takes
/// the next one, so that operands a plan would find in memory are not found in the caches.
class Bench {
 public:
  /// `inputs` by slot, `output_bytes` by output. The device outlives the bench, what inputs repeat need not.
  Bench(backends::Device& device, std::span<const BenchInput> inputs, std::span<const int64_t> output_bytes,
        DimMap dims, int copies);
  [[nodiscard]] backends::Device& device() const { return device_; }
  [[nodiscard]] const DimMap& dims() const { return dims_; }
  [[nodiscard]] int copies() const { return static_cast<int>(buffers_.size()); }
  [[nodiscard]] std::span<const backends::Address> buffers(int copy) const {
    return buffers_[static_cast<size_t>(copy)];
  }

 private:
  backends::Device& device_;
  DimMap dims_;
  backends::Buffer memory_;
  std::vector<std::vector<backends::Address>> buffers_;
};

/// A kernel laid out on a bench, ready for runs.
class Contender {
 public:
  Contender(std::shared_ptr<const backends::Kernel> kernel, const Bench& bench);
  /// Time of one run, averaged over as many as take about `at_least_us` together.
  double sample_us(double at_least_us);

 private:
  std::shared_ptr<const backends::Kernel> kernel_;
  backends::Buffer workspace_;
  std::vector<std::unique_ptr<backends::LaunchList>> lists_;  ///< by copy
  size_t next_ = 0;
  bool is_prepared_ = false;
  std::unique_ptr<backends::Stream> stream_;
  runtime::StreamTimer timer_;
};

struct RaceOptions {
  int rounds = 5;           ///< samples of each finalist
  double sample_us = 500;   ///< of one sample, at least
  double drop_above = 1.3;  ///< a candidate stops when a run takes this much longer than the best
  double lost_above =
      1.5;  ///< so much behind the best, a first sample of more than a millisecond is the last one
  double clear_above = 1.1;  ///< the race is over when the second takes this much longer, after three samples
  Clock::time_point deadline = Clock::time_point::max();
  std::function<void(size_t)> before_sample;  ///< called with the contender that runs next; may be left out
};

/// Time of each contender in us, its fastest sample (of those dropped early: of what was measured; 0: never
/// run, the deadline had passed). Other programs only ever add time, and times of different specs, measured
/// apart, are added up: a median would carry the disturbance of the moment into the choice of plans. Samples
/// are interleaved, so that a machine that slows down slows all of them; half of the field is dropped after
/// each round (successive halving), the last two meet to the end, or until one is clearly behind. A run of tens
/// of milliseconds is an average in itself: such contenders run less often, those of a tenth of a second once or
/// twice.
[[nodiscard]] std::vector<double> race(std::span<Contender* const> contenders, const RaceOptions& options);

}  // namespace luminal::search
