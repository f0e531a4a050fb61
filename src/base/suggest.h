#pragma once
#include <span>
#include <string>
#include <string_view>

namespace luminal {

/// Number of single-character edits and swaps of neighbours between two words (optimal string alignment).
[[nodiscard]] int edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to `word`, or "" when none is near enough to be a likely slip.
[[nodiscard]] std::string nearest(std::string_view word, std::span<const std::string> candidates);

/// "; did you mean 'relu'?" or "": ready to append to an error message.
[[nodiscard]] std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

}  // namespace luminal
