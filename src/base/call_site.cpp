#include "base/call_site.h"

#include "base/fail.h"

namespace luminal {
namespace {

struct Frame {
  std::string_view name;  ///< empty: only a place
  CallSite::Place place;
};
thread_local std::vector<Frame> open_sites;

}  // namespace

CallSite::CallSite(std::string_view name, std::source_location where) {
  const std::string_view path = where.file_name();
  const std::string_view file = path.substr(path.rfind('/') + 1);  // npos + 1 is 0: a bare name stays whole
  open_sites.push_back({name, {file, where.line()}});
}
CallSite::CallSite(std::string_view file, uint32_t line) { open_sites.push_back({{}, {file, line}}); }
CallSite::~CallSite() { open_sites.pop_back(); }

std::vector<std::string_view> CallSite::chain() {
  std::vector<std::string_view> names;
  names.reserve(open_sites.size());
  for (const Frame& frame : open_sites)
    if (!frame.name.empty()) names.push_back(frame.name);
  return names;
}

std::optional<CallSite::Place> CallSite::user() {
  if (open_sites.empty()) return std::nullopt;
  return open_sites.front().place;
}

std::string with_call_site(std::string message) {
  const auto user = CallSite::user();
  return user ? message + fmt::format(" (made at {}:{})", user->file, user->line) : message;
}

}  // namespace luminal
