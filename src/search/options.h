#pragma once
#include <set>
#include <string>

#include "luminal/math_mode.h"

namespace luminal::search {

/// What the search may do and how much of it.
struct SearchOptions {
  MathMode math = MathMode::Relaxed;
  std::set<std::string, std::less<>> rules_off;  ///< names of rules that do not run
  int cones = 8;                                 ///< kernels kept of each class
  bool merge = true;                             ///< kernels with exports and siblings
  friend auto operator<=>(const SearchOptions&, const SearchOptions&) = default;
};

}  // namespace luminal::search
