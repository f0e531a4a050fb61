#include "text/grammar/integer_range.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/fail.h"

namespace luminal::text {
namespace {

constexpr int64_t kGreatestWhole = 9'999'999'999'999'999;  // 16 digits

std::string digit_class(char first, char last) {
  return first == last ? fmt::format("\"{}\"", first) : fmt::format("[{}-{}]", first, last);
}

std::string any_digits(size_t count) {
  return count == 0 ? "" : count == 1 ? " [0-9]" : fmt::format(" [0-9]{{{}}}", count);
}

/// Numbers of as many digits as both bounds have, from `least` to `most`.
std::string same_length(std::string_view least, std::string_view most) {
  if (least.find_first_not_of('0') == std::string_view::npos &&
      most.find_first_not_of('9') == std::string_view::npos)
    return any_digits(least.size()).substr(1);
  const size_t rest = least.size() - 1;
  if (rest == 0) return digit_class(least[0], most[0]);
  if (least[0] == most[0])
    return digit_class(least[0], least[0]) + " " + same_length(least.substr(1), most.substr(1));
  const std::string nines(rest, '9'), zeros(rest, '0');
  std::vector<std::string> parts;
  char first = least[0], last = most[0];
  if (least.substr(1) != zeros) {
    parts.push_back(digit_class(first, first) + " " + same_length(least.substr(1), nines));
    ++first;
  }
  std::string end;
  if (most.substr(1) != nines) {
    end = digit_class(last, last) + " " + same_length(zeros, most.substr(1));
    --last;
  }
  if (first <= last) parts.push_back(digit_class(first, last) + any_digits(rest));
  if (!end.empty()) parts.push_back(end);
  return fmt::format("({})", fmt::join(parts, " | "));
}

/// From 0 on, without zeros in front.
std::string unsigned_range(uint64_t least, uint64_t most) {
  std::vector<std::string> parts;
  while (least <= most) {
    const std::string first = std::to_string(least), last = std::to_string(most);
    if (first.size() == last.size()) {
      parts.push_back(same_length(first, last));
      break;
    }
    parts.push_back(same_length(first, std::string(first.size(), '9')));
    least = 1;
    for (size_t i = 0; i < first.size(); ++i) least *= 10;
  }
  return fmt::format("({})", fmt::join(parts, " | "));
}

}  // namespace

std::string gbnf_integer_range(std::optional<int64_t> least, std::optional<int64_t> most,
                               const std::string& where) {
  const int64_t low = std::clamp(least.value_or(-kGreatestWhole), -kGreatestWhole, kGreatestWhole + 1);
  const int64_t high = std::clamp(most.value_or(kGreatestWhole), -kGreatestWhole - 1, kGreatestWhole);
  if (low > high) fail<FormatError>("{}: no whole number is at least {} and at most {}", where, low, high);
  std::vector<std::string> parts;
  if (low < 0)
    parts.push_back("\"-\" " + unsigned_range(static_cast<uint64_t>(std::max<int64_t>(1, -high)),
                                              static_cast<uint64_t>(-low)));
  if (high >= 0)
    parts.push_back(
        unsigned_range(static_cast<uint64_t>(std::max<int64_t>(0, low)), static_cast<uint64_t>(high)));
  return fmt::format("({})", fmt::join(parts, " | "));
}

}  // namespace luminal::text
