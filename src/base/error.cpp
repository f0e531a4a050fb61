#include "luminal/error.h"

#include <execinfo.h>

#include <cstdlib>

#include "base/fail.h"
#include "base/reason.h"

namespace luminal {
namespace {

constexpr int kMaxFrames = 32;
constexpr std::string_view kBegin = "internal error: ", kEnd = "; this is a bug in Luminal, please report it";

std::string stack_trace() {
  void* frames[kMaxFrames];
  const int count = backtrace(frames, kMaxFrames);
  char** symbols = backtrace_symbols(frames, count);
  if (symbols == nullptr) return {};
  std::string trace;
  for (int i = 2; i < count; ++i) trace += fmt::format("\n  #{} {}", i - 2, symbols[i]);
  std::free(static_cast<void*>(symbols));
  return trace;
}

}  // namespace

InternalError::InternalError(std::string_view what, std::source_location where)
    : std::logic_error(fmt::format("{}{} ({}){} with this text{}", kBegin, what, short_location(where), kEnd,
                                   stack_trace())) {}

std::string reason_of(const std::exception& error) {
  std::string text = error.what();
  if (dynamic_cast<const InternalError*>(&error) == nullptr) return text;
  text.resize(std::min(text.size(), text.find(kEnd)));
  return text.starts_with(kBegin) ? text.substr(kBegin.size()) : text;
}

std::string short_location(const std::source_location& where) {
  std::string_view file = where.file_name();
  if (const auto slash = file.rfind('/'); slash != std::string_view::npos) file.remove_prefix(slash + 1);
  return fmt::format("{}:{}", file, where.line());
}

}  // namespace luminal
