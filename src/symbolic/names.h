#pragma once
#include <string_view>

namespace luminal::symbolic {

/// True for "z", "i0", "i1", ...: words that stand for index variables.
[[nodiscard]] bool reads_as_index(std::string_view name);
/// Error unless `name` may name a dim.
void check_dim_name(std::string_view name);

}  // namespace luminal::symbolic
