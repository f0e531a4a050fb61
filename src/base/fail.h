#pragma once
#include <fmt/format.h>

#include <source_location>
#include <string>
#include <utility>

#include "base/call_site.h"
#include "luminal/error.h"

namespace luminal {

/// "file.cpp:41": the file's last path component and the line.
[[nodiscard]] std::string short_location(const std::source_location& where);

/// Throws `E` with a formatted message, and behind it the user's line if there is one (CallSite):
/// `fail<ShapeError>("[{}] rank {} is too small", op, rank)`.
template <class E = Error, class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw E(with_call_site(fmt::format(format, std::forward<Args>(args)...)));
}

}  // namespace luminal

/// States an invariant of our own; a false one is an InternalError that carries the formatted values. Never
/// used on user data.
#define LUMINAL_CHECK(condition, ...)                                                                        \
  do {                                                                                                       \
    if (!(condition)) [[unlikely]]                                                                           \
      throw ::luminal::InternalError(std::string(#condition " does not hold: ") + fmt::format(__VA_ARGS__)); \
  } while (false)
