#include "search/watch.h"

#include <algorithm>
#include <utility>

#include "base/stopwatch.h"

namespace luminal::search {
namespace {

thread_local Watch* watch_of_thread = nullptr;
thread_local const SearchProgressHook* hook_of_thread = nullptr;

}  // namespace

Watch::Watch(const CompilationMode& mode) : outer_(std::exchange(watch_of_thread, this)) {
  if (const auto* budget = std::get_if<TimeBudget>(&mode))
    budget_s_ = std::chrono::duration<double>(budget->duration).count();
}
Watch::~Watch() { watch_of_thread = outer_; }

Watch* Watch::current() { return watch_of_thread; }

void Watch::step(std::string_view name, size_t done, size_t total) {
  if (now_.step != name) step_start_ = Clock::now();
  now_.step = name;
  now_.done = done;
  now_.total = total;
  look();
}

void Watch::look() {
  constexpr std::chrono::milliseconds kInterval{100};
  const auto now = Clock::now();
  if (hook_ == nullptr || now_.step.empty() || ended_ || now - told_ < kInterval) return;
  told_ = now;
  now_.elapsed_s = seconds_since(start_);
  if (budget_s_)
    now_.left_s = std::max(0.0, *budget_s_ - now_.elapsed_s);
  else if (now_.done > 0)
    now_.left_s = seconds_since(step_start_) * static_cast<double>(now_.total - now_.done) /
                  static_cast<double>(now_.done);
  else
    now_.left_s = -1;
  if (!(*hook_)(now_)) ended_ = true;
}

bool is_over(Watch::Clock::time_point deadline) {
  if (Watch* const watch = Watch::current()) {
    watch->look();
    if (watch->is_ended()) return true;
  }
  return Watch::Clock::now() >= deadline;
}

bool fits(double seconds, Watch::Clock::time_point deadline) {
  if (is_over(deadline)) return false;
  if (deadline == Watch::Clock::time_point::max()) return true;
  return std::chrono::duration<double>(deadline - Watch::Clock::now()).count() > seconds;
}

}  // namespace luminal::search

namespace luminal {

SearchProgressScope::SearchProgressScope(SearchProgressHook hook)
    : hook_(std::move(hook)), outer_(std::exchange(search::hook_of_thread, &hook_)) {}
SearchProgressScope::~SearchProgressScope() { search::hook_of_thread = outer_; }

const SearchProgressHook* SearchProgressScope::current() { return search::hook_of_thread; }

}  // namespace luminal
