#pragma once
#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "base/environment.h"

namespace luminal {

/// Writes one line to standard error.
void log_line(std::string_view text);

/// Tells `format(args...)` when LUMINAL_DEBUG is at least `level`; arguments are not formatted otherwise.
template <class... Args>
void debug(int level, fmt::format_string<Args...> format, Args&&... args) {
  if (environment::debug_level() >= level) log_line(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace luminal
