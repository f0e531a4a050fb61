#pragma once
#include <cstdint>
#include <limits>
#include <map>
#include <string>

/// Learning rates by step: plain functions of the step's number, so that a schedule can be resumed anywhere.
/// Any of them is a std::function<double(int64_t)>. Where torch.optim.lr_scheduler has one, the values are
/// its.
///
///   training::WarmupCosineSchedule schedule{.peak = 3e-4, .warmup = 100, .steps = 5000};
///   for (int64_t step = 0; step < 5000; ++step) { adam.set_learning_rate(schedule(step)); cx.execute(); }
namespace luminal::training {

struct ConstantSchedule {
  double rate = 1e-3;
  [[nodiscard]] double operator()(int64_t) const { return rate; }
};

/// Times `gamma` every `every` steps (StepLR).
struct StepSchedule {
  double start = 1e-3;
  int64_t every = 1;
  double gamma = 0.1;
  [[nodiscard]] double operator()(int64_t step) const;
};

/// Times `gamma` each step (ExponentialLR).
struct ExponentialSchedule {
  double start = 1e-3;
  double gamma = 0.99;
  [[nodiscard]] double operator()(int64_t step) const;
};

/// From `start` to `floor` along half a cosine over `steps` steps, then `floor`. Source: Loshchilov and
/// Hutter 2017, eq. 5.
struct CosineSchedule {
  double start = 1e-3;
  int64_t steps = 1;
  double floor = 0;
  [[nodiscard]] double operator()(int64_t step) const;
};

/// Up to `peak` along a line, reached after `warmup` steps (the first one is peak / warmup), then
/// CosineSchedule down to `floor` at step `steps`.
struct WarmupCosineSchedule {
  double peak = 1e-3;
  int64_t warmup = 0, steps = 1;
  double floor = 0;
  [[nodiscard]] double operator()(int64_t step) const;
};

/// From start * start_factor to start * end_factor along a line over `steps` steps, then constant (LinearLR).
struct LinearSchedule {
  double start = 1e-3;
  double start_factor = 1.0 / 3, end_factor = 1;
  int64_t steps = 5;
  [[nodiscard]] double operator()(int64_t step) const;
};

/// Up from max / div to max over the first `rise` of all steps and down to start / final_div, along cosines
/// or lines (OneCycleLR).  Source: Smith and Topin 2019.
struct OneCycleSchedule {
  double max = 1e-2;
  int64_t steps = 1;
  double rise = 0.3;
  double div = 25, final_div = 1e4;
  bool linear = false;
  [[nodiscard]] double operator()(int64_t step) const;
};

/// start * (1 - step / steps)^power, then 0 (PolynomialLR).
struct PolynomialSchedule {
  double start = 1e-3;
  int64_t steps = 5;
  double power = 1;
  [[nodiscard]] double operator()(int64_t step) const;
};

/// Times `factor` when a metric has not improved for more than `patience` evaluations (ReduceLROnPlateau).
/// The only schedule with state, which state() returns for checkpoints.
/// Thread safety: one thread at a time.
class ReduceOnPlateau {
 public:
  struct Options {
    double start = 1e-3;
    bool lower_is_better = true;
    double factor = 0.1;
    int64_t patience = 10, cooldown = 0;
    double threshold = 1e-4;
    bool relative_threshold = true;  ///< better means by that share; otherwise by that much
    double floor = 0;
    double least_change = 1e-8;  ///< smaller changes of the rate are not made
  };
  /// Errors: Error unless factor is below 1.
  explicit ReduceOnPlateau(const Options& options);
  /// Records a metric and returns the rate from now on. NaN does not count as an improvement.
  double update(double metric);
  [[nodiscard]] double rate() const { return rate_; }
  [[nodiscard]] std::map<std::string, double> state() const;
  /// Errors: Error if a name is missing.
  void load(const std::map<std::string, double>& state);

 private:
  [[nodiscard]] bool better(double metric) const;
  Options options_;
  double rate_, best_;
  int64_t bad_ = 0, cooling_ = 0;
};

}  // namespace luminal::training
