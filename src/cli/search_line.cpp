#include "cli/search_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <iostream>

namespace luminal::cli {
namespace {

std::string minutes(double seconds) {
  const auto whole = static_cast<int64_t>(seconds);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string run_time(double us) {
  return us < 1e3 ? fmt::format("{:.0f} us", us) : fmt::format("{:.1f} ms", us * 1e-3);
}

}  // namespace

std::string search_text(const SearchProgress& progress) {
  std::string text = fmt::format("searching {}  {}", minutes(progress.elapsed_s), progress.step);
  if (progress.total > 0) text += fmt::format(" {}/{}", progress.done, progress.total);
  if (progress.best_us > 0) text += fmt::format("  best {}", run_time(progress.best_us));
  if (progress.left_s >= 0) text += fmt::format("  {} left", minutes(progress.left_s));
  return text;
}

SearchLine::SearchLine(Console& console)
    : console_(console),
      standard_(&console.err == &std::cerr),
      terminal_(standard_ && ::isatty(STDERR_FILENO) != 0),
      scope_([this](const SearchProgress& progress) { return show(progress); }) {}

SearchLine::~SearchLine() { clear(); }

void SearchLine::clear() {
  if (open_) console_.err << "\r\033[K" << std::flush;
  open_ = false;
}

bool SearchLine::show(const SearchProgress& progress) {
  if (interrupt_.asked()) {
    clear();
    console_.err << "luminal: ending the search with the best plan so far; Ctrl-C once more stops\n"
                 << std::flush;
    return false;
  }
  if (!standard_) return true;
  if (!terminal_) {
    constexpr double kIntervalS = 10;
    if (progress.elapsed_s < written_s_) written_s_ = 0;  // another search has begun
    if (progress.elapsed_s < written_s_ + kIntervalS) return true;
    written_s_ = progress.elapsed_s;
    console_.err << search_text(progress) << '\n' << std::flush;
    return true;
  }
  console_.err << "\r" << search_text(progress) << "\033[K" << std::flush;
  open_ = true;
  return true;
}

}  // namespace luminal::cli
