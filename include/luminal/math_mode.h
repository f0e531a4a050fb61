#pragma once
#include <string_view>

namespace luminal {

/// How far a compiler may change numbers (docs/design.md, "Math modes"). Every pass and rule says which it
/// belongs to.
enum class MathMode {
  Strict,   ///< the same bits as the plain graph, NaN, infinities and signed zeros included
  Relaxed,  ///< also reassociation and identities over the reals; no result grows above 2^24 times
  Fast,     ///< also the rest: x * 0 = 0, exp2(log2 x) = x
};

[[nodiscard]] constexpr std::string_view name(MathMode mode) {
  constexpr std::string_view kNames[] = {"strict", "relaxed", "fast"};
  return kNames[static_cast<int>(mode)];
}

}  // namespace luminal
