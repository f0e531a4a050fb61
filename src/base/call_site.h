#pragma once
#include <cstdint>
#include <optional>
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
///     ...  // everything made here has the origin "softmax" at the user's line
class CallSite {
 public:
  CallSite(std::string_view name, std::source_location where);
  /// For math that stands in a text of the user's, not in C++: every call inside is made at `line` of `file`,
  /// and belongs to no op of its own. `file` outlives the object.
  CallSite(std::string_view file, uint32_t line);
  CallSite(const CallSite&) = delete;
  CallSite& operator=(const CallSite&) = delete;
  ~CallSite();

  /// Names from the outermost call inwards; empty outside of any call.
  [[nodiscard]] static std::vector<std::string_view> chain();
  struct Place {
    std::string_view file;  ///< without its folder
    uint32_t line = 0;
  };
  /// The user's line; none outside of any call.
  [[nodiscard]] static std::optional<Place> user();
};

/// `message` with " (made at model.cpp:41)" behind it when there is a call site.
[[nodiscard]] std::string with_call_site(std::string message);

}  // namespace luminal
