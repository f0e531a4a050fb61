#include "base/call_site.h"

#include "base/fail.h"

namespace luminal {
namespace {

struct Frame {
  std::string_view name;
  std::source_location where;
};
thread_local std::vector<Frame> frames;

}  // namespace

CallSite::CallSite(std::string_view name, std::source_location where) { frames.push_back({name, where}); }
CallSite::~CallSite() { frames.pop_back(); }

std::vector<std::string_view> CallSite::chain() {
  std::vector<std::string_view> names;
  names.reserve(frames.size());
  for (const Frame& frame : frames) names.push_back(frame.name);
  return names;
}

const std::source_location* CallSite::user() { return frames.empty() ? nullptr : &frames.front().where; }

std::string with_call_site(std::string message) {
  if (frames.empty()) return message;
  return message + fmt::format(" (made at {})", short_location(frames.front().where));
}

}  // namespace luminal
