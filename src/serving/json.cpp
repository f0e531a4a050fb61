#include "serving/json.h"

#include <array>

#include "base/fail.h"

namespace luminal::serving {

Json parse_json(std::string_view text) {
  // What copies or prints a document calls itself once a level, and each key is compared with those before it.
  constexpr int kDeepest = 64, kMostKeys = 4096;
  std::array<int, kDeepest + 2> keys{};  // of the object that is open at each depth
  return Json::parse(text, [&](int depth, Json::parse_event_t event, Json&) {
    if (depth > kDeepest) fail<FormatError>("the JSON is nested deeper than {} levels", kDeepest);
    const auto inside = static_cast<size_t>(depth);
    if (event == Json::parse_event_t::object_start) keys[inside + 1] = 0;
    if (event == Json::parse_event_t::key && ++keys[inside] > kMostKeys)
      fail<FormatError>("an object of the JSON has more than {} keys", kMostKeys);
    return true;
  });
}

}  // namespace luminal::serving
