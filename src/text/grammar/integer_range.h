#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace luminal::text {

/// The whole numbers of a range as GBNF, as JSON writes them; a bound that is absent is that of the 16 digits that
/// schemas without bounds allow. Errors: FormatError led by `where` if there is none.
[[nodiscard]] std::string gbnf_integer_range(std::optional<int64_t> least, std::optional<int64_t> most,
                                             const std::string& where);

}  // namespace luminal::text
