#include "luminal/error.h"

#include <execinfo.h>

#include <cstdlib>

#include "base/fail.h"

namespace luminal {
namespace {

constexpr int kMaxFrames = 32;

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
    : std::logic_error(
          fmt::format("internal error: {} ({}); this is a bug in Luminal, please report it with this text{}",
                      what, short_location(where), stack_trace())) {}

std::string short_location(const std::source_location& where) {
  std::string_view file = where.file_name();
  if (const auto slash = file.rfind('/'); slash != std::string_view::npos) file.remove_prefix(slash + 1);
  return fmt::format("{}:{}", file, where.line());
}

}  // namespace luminal
