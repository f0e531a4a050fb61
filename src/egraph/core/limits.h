#pragma once
#include <algorithm>
#include <limits>
#include <optional>

#include "egraph/core/state.h"

namespace luminal::egraph {

[[nodiscard]] inline double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

/// What steps that can't stop half-way take at worst, about: they do not begin if that is more than is left.
inline constexpr double kIndexSecondsPerRow = 30e-9;  ///< for each of its columns
inline constexpr double kCompactionSecondsPerRow = 30e-9, kResizeSecondsPerSlot = 10e-9;
inline constexpr size_t kIndexBytesPerRow = 16;

/// What is left of a budget, and why a run must end.
class Limits {
 public:
  Limits(const EngineState& state, const Budget& budget)
      : state_(state),
        budget_(budget),
        begin_(Clock::now()),
        limits_time_(budget.seconds < 1e9),
        limits_size_(budget.nodes != std::numeric_limits<uint64_t>::max() ||
                     budget.bytes != std::numeric_limits<uint64_t>::max()) {}

  bool exceeded() {
    if (stop_) return true;
    if (out_of_time()) stop_ = StopReason::TimeBudget;
    if (limits_size_) {
      if (state_.total_rows() >= budget_.nodes) stop_ = StopReason::NodeBudget;
      if (state_.size_bytes() >= budget_.bytes) stop_ = StopReason::ByteBudget;
    }
    return stop_.has_value();
  }
  [[nodiscard]] std::optional<StopReason> reason() const { return stop_; }
  [[nodiscard]] bool out_of_time() const { return !has_time_for(0); }
  [[nodiscard]] bool has_time_for(double seconds) const {
    return !limits_time_ || seconds_between(begin_, Clock::now()) + seconds < budget_.seconds;
  }
  /// False, and the run must stop, if a step that can't stop half-way would take more than is left.
  bool allows(double seconds, size_t bytes) {
    if (!has_time_for(seconds)) stop_ = StopReason::TimeBudget;
    if (bytes != 0 && !has_room_for(bytes)) stop_ = StopReason::ByteBudget;
    return !stop_;
  }

  [[nodiscard]] bool has_room_for(size_t bytes) const {
    return !limits_size_ || state_.size_bytes() + bytes <= budget_.bytes;
  }
  /// For rebuilds, which make an e-graph smaller, unless merges add rows: only then the size counts.
  [[nodiscard]] bool rebuild_must_stop(uint64_t rows_before) {
    if (out_of_time()) {
      if (!stop_) stop_ = StopReason::TimeBudget;
      return true;
    }
    return limits_size_ && state_.total_rows() > rows_before && exceeded();
  }

  /// How many matches may be applied before the next look at the budget, if each adds at most
  /// `rows_per_match` rows: whole blocks while there is room, single batches when it gets tight.
  [[nodiscard]] size_t matches_before_check(size_t rows_per_match) const {
    if (!limits_size_) return kBlock;
    constexpr uint64_t kBytesPerRow = 256;  // a wide row, its slot and indexes
    const auto left = [](uint64_t most, uint64_t used) { return most > used ? most - used : 0; };
    const uint64_t rows = std::min(left(budget_.nodes, state_.total_rows()),
                                   left(budget_.bytes, state_.size_bytes()) / kBytesPerRow);
    const uint64_t matches = rows / std::max<size_t>(1, rows_per_match) / kBatch * kBatch;
    return static_cast<size_t>(std::clamp<uint64_t>(matches, kBatch, kBlock));
  }

 private:
  const EngineState& state_;
  const Budget& budget_;
  Clock::time_point begin_;
  bool limits_time_, limits_size_;
  std::optional<StopReason> stop_;
};

}  // namespace luminal::egraph
