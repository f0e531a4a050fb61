#pragma once
#include <string>
#include <string_view>

namespace luminal {

/// Whether somebody set LUMINAL_DUMP.
[[nodiscard]] bool is_dumping();
/// Writes a file into that folder, which is made if need be. What cannot be written is told, once for a
/// folder, and stops nothing. Does nothing where LUMINAL_DUMP is not set.
void dump_file(const std::string& name, std::string_view content);

}  // namespace luminal
