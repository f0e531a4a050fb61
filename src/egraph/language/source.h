#pragma once
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "egraph/core/clipped.h"
#include "luminal/error.h"

namespace luminal::egraph::language {

/// The text of a program and the name it is known by in messages.
struct Source {
  Source(std::string source_name, std::string source_text);
  std::string name;
  std::string text;
  std::vector<uint32_t> line_starts;
  std::vector<uint32_t> points_before;  ///< code points before each 256th byte
};

/// A piece of a source: bytes [begin, end). Sources outlive the spans into them.
struct Span {
  const Source* source = nullptr;
  uint32_t begin = 0;
  uint32_t end = 0;

  [[nodiscard]] std::string_view text() const {
    return source ? std::string_view(source->text).substr(begin, end - begin) : std::string_view();
  }
};

/// Where a byte stands: both count from 1, columns in code points.
struct Location {
  size_t line = 1;
  size_t column = 1;
};
[[nodiscard]] Location locate(const Source& source, uint32_t offset);

[[nodiscard]] size_t count_code_points(std::string_view text);

/// "file.egg:3:7".
[[nodiscard]] std::string show_location(const Span& span);

/// The message as a compiler shows it, with the source line and a caret under the span:
///
///   file.egg:3:7: error: unknown function 'Ad'; did you mean 'Add'?
///     3 | (let x (Ad 1 2))
///       |        ^~~~~~~~
[[nodiscard]] std::string render_diagnostic(const Span& span, std::string_view message,
                                            std::string_view severity = "error");

/// An error in a program: `what()` is the rendered diagnostic, `message()` its text alone.
class ProgramError : public Error {
 public:
  ProgramError(const Span& where, std::string message)
      : Error(render_diagnostic(where, message)), span_(where), message_(std::move(message)) {}
  [[nodiscard]] const Span& span() const { return span_; }
  [[nodiscard]] const std::string& message() const { return message_; }

 private:
  Span span_;
  std::string message_;
};

/// Of the arguments of a message, quotations are clipped. Whole facts and calls are among them.
inline constexpr size_t kMostQuoted = 200;
template <class T>
[[nodiscard]] decltype(auto) clipped_argument(const T& argument) {
  if constexpr (std::is_same_v<T, std::string>)  // other texts are our own
    return clipped(argument, kMostQuoted);
  else
    return (argument);
}

template <class... Args>
[[noreturn]] void fail_at(const Span& span, fmt::format_string<const Args&...> format, const Args&... args) {
  throw ProgramError(span, fmt::format(fmt::runtime(format), clipped_argument(args)...));
}

/// A command that is well-formed and typed but fails when it runs: what `(fail ...)` accepts.
class CommandFailed : public Error {
  using Error::Error;
};

template <class... Args>
[[noreturn]] void command_failed(const Span& span, fmt::format_string<const Args&...> format,
                                 const Args&... args) {
  throw CommandFailed(render_diagnostic(span, fmt::format(fmt::runtime(format), clipped_argument(args)...)));
}

}  // namespace luminal::egraph::language
