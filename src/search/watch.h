#pragma once
#include <atomic>
#include <chrono>
#include <optional>
#include <string_view>

#include "luminal/search_progress.h"
#include "luminal/session.h"

namespace luminal::search {

/// The time of one compile: when it began, what it tells of its search, and whether somebody asked it to end
/// with what it has. It belongs to the thread that compiles.
class Watch {
 public:
  using Clock = std::chrono::steady_clock;
  /// It tells the hook of the thread.
  explicit Watch(const CompilationMode& mode);
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch();
  /// Of this thread, or null.
  [[nodiscard]] static Watch* current();

  [[nodiscard]] Clock::time_point start() const { return start_; }
  /// A step of the search begins, or has come this far.
  void step(std::string_view name, size_t done, size_t total);
  void best(double us) { now_.best_us = us; }
  /// Tells the hook, if that is due. Only the thread whose watch it is.
  void look();
  /// The hook has asked for the end. Any thread.
  [[nodiscard]] bool is_ended() const { return ended_; }

 private:
  const Clock::time_point start_ = Clock::now();
  Clock::time_point step_start_ = start_, told_{};
  std::optional<double> budget_s_;
  const SearchProgressHook* const hook_ = SearchProgressScope::current();
  SearchProgress now_;
  std::atomic<bool> ended_{false};
  Watch* const outer_;
};

/// Whether a part of a search has to end: its time is up, or somebody asked for what there is.
[[nodiscard]] bool is_over(Watch::Clock::time_point deadline);
/// What filling memory takes that the system has to make first: for estimates of how long a step takes.
inline constexpr double kFreshBytesPerS = 1e9;
/// Whether what takes about this long can still be done.
[[nodiscard]] bool fits(double seconds, Watch::Clock::time_point deadline);

}  // namespace luminal::search
