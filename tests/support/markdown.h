#pragma once
#include <string>
#include <vector>

namespace luminal::test {

/// What stands between "```cpp" and "```" in a Markdown text.
[[nodiscard]] inline std::vector<std::string> cpp_blocks(const std::string& markdown) {
  const std::string open = "```cpp\n", close = "```";
  std::vector<std::string> blocks;
  for (size_t at = 0; (at = markdown.find(open, at)) != std::string::npos;) {
    const size_t begin = at + open.size(), end = markdown.find(close, begin);
    blocks.push_back(markdown.substr(begin, end - begin));
    at = end == std::string::npos ? end : end + close.size();
  }
  return blocks;
}

}  // namespace luminal::test
