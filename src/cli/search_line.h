#pragma once
#include "cli/command.h"
#include "cli/interrupt.h"
#include "luminal/search_progress.h"

namespace luminal::cli {

/// While it lives, searches of this thread draw a line on standard error
///
///   searching 0:12  timing kernels 5/73  best 111.4 ms  0:34 left
///
/// that changes if it is a terminal; elsewhere such a line is written every ten seconds. And the first Ctrl-C ends the search with the best plan so far.
class SearchLine {
 public:
  explicit SearchLine(Console& console);
  SearchLine(const SearchLine&) = delete;
  SearchLine& operator=(const SearchLine&) = delete;
  ~SearchLine();
  /// Ctrl-C was pressed.
  [[nodiscard]] bool asked_to_end() const { return interrupt_.asked(); }

 private:
  bool show(const SearchProgress& progress);
  void clear();

  Console& console_;
  bool standard_, terminal_, open_ = false;
  double written_s_ = 0;  ///< when the last line was written that stays
  SearchInterrupt interrupt_;
  SearchProgressScope scope_;
};

/// The line's text.
[[nodiscard]] std::string search_text(const SearchProgress& progress);

}  // namespace luminal::cli
