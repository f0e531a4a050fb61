#pragma once
#include <regex>
#include <string>
#include <vector>

namespace luminal::test {

/// The format strings of a source's calls that `call` finds: its first group is one literal or several in a
/// row.
inline std::vector<std::string> formats_in(const std::string& source, const std::regex& call) {
  std::vector<std::string> formats;
  for (std::sregex_iterator i(source.begin(), source.end(), call), end; i != end; ++i) {
    const std::string joined = std::regex_replace((*i)[1].str(), std::regex("\"\\s+\""), "");
    const std::string inner = joined.substr(1, joined.find_last_of('"') - 1);
    formats.push_back(std::regex_replace(inner, std::regex("\\\\(.)"), "$1"));
  }
  return formats;
}

/// The longest piece of a format string between its placeholders.
inline std::string longest_piece(const std::string& format) {
  std::string longest;
  const std::regex placeholder("\\{[^}]*\\}");
  for (std::sregex_token_iterator i(format.begin(), format.end(), placeholder, -1), end; i != end; ++i)
    if (i->str().size() > longest.size()) longest = i->str();
  return longest;
}

}  // namespace luminal::test
