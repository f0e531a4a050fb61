#pragma once
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

namespace luminal {

/// Where the user called into Luminal, kept per thread as a stack: the outermost call has the user's line,
/// the inner ones are the ops it is made of. Errors (`fail`) and graph nodes take it from here.
///
///   GraphTensor GraphTensor::softmax(..., std::source_location where) const {
///     const CallSite site("softmax", where);
///     ...                                        // everything made here has the origin "softmax" at the
///     user's line
class CallSite {
 public:
  CallSite(std::string_view name, std::source_location where);
  CallSite(const CallSite&) = delete;
  CallSite& operator=(const CallSite&) = delete;
  ~CallSite();

  /// Names from the outermost call inwards; empty outside of any call.
  [[nodiscard]] static std::vector<std::string_view> chain();
  /// The user's line, or nullptr outside of any call.
  [[nodiscard]] static const std::source_location* user();
};

/// `message` with " (made at model.cpp:41)" behind it when there is a call site.
[[nodiscard]] std::string with_call_site(std::string message);

}  // namespace luminal
