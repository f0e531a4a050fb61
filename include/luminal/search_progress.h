#pragma once
#include <functional>
#include <string>

namespace luminal {

/// How far a measured search has come.
struct SearchProgress {
  std::string step;            ///< "timing kernels", "verifying kernels", "timing plans", ...
  size_t done = 0, total = 0;  ///< kernels of this step
  double best_us = 0;    ///< of one run of the best plan so far, its kernels' times added; 0: not known yet
  double elapsed_s = 0;  ///< since the compile began
  double left_s = -1;    ///< of the budget, or of this step as it goes on now; below 0: not known yet
};

/// Called up to ten times a second while a search goes on, on the thread that compiles. If it returns false, the
/// search ends: the compile returns the best plan so far, in which kernels that are not verified yet are those of
/// Fast mode.
using SearchProgressHook = std::function<bool(const SearchProgress&)>;

/// While it lives, searches of this thread call `hook`; the innermost scope counts. Thread safety: belongs to
/// one thread.
///
///   SearchProgressScope scope([&](const SearchProgress& p) { std::cerr << p.step << '\n'; return p.elapsed_s < 60; });
///   Compiled step = cx.compile(Optimal{});
class SearchProgressScope {
 public:
  explicit SearchProgressScope(SearchProgressHook hook);
  SearchProgressScope(const SearchProgressScope&) = delete;
  SearchProgressScope& operator=(const SearchProgressScope&) = delete;
  ~SearchProgressScope();
  /// Of this thread, or null.
  [[nodiscard]] static const SearchProgressHook* current();

 private:
  SearchProgressHook hook_;
  const SearchProgressHook* outer_;
};

}  // namespace luminal
