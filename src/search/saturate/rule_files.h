#pragma once
#include <span>
#include <string_view>

namespace luminal::search {

struct RuleFile {
  std::string_view name, text;
};
/// The files under rules/, embedded by the build, sorted by name.
[[nodiscard]] std::span<const RuleFile> rule_files();

}  // namespace luminal::search
