#pragma once
#include <cstdint>
#include <set>
#include <string>

#include "luminal/math_mode.h"

namespace luminal {

/// What the search may do to a graph, and how much of it (docs/design.md, "search"):
///
///   cx.set_search({.math = MathMode::Strict});                       // only laws that change no bit
///   cx.set_search({.rules_off = {"sum-factor-leaves-producer"}});    // without this law
///   cx.set_search({.rules = read_file("my_laws.egg")});              // with laws of your own
struct SearchOptions {
  MathMode math = MathMode::Relaxed;
  std::set<std::string, std::less<>>
      rules_off;  ///< names of laws that are not used, as `luminal explain` prints them
  /// Laws of your own, in the form of src/search/saturate/rules (docs/adding_a_rule.md). In every mode, a plan
  /// made with them is run once and checked against the graph's own nodes before it is used.
  std::string rules;
  int fusions = 8;    ///< candidates kept for each value until the plan is chosen
  bool merge = true;  ///< kernels that compute values of several nodes at once
  /// A value of more bytes that is several times as large as what it is computed from (the scores of attention) is
  /// not stored where kernels can compute it anew in at most three times the time.
  int64_t large_bytes = int64_t{32} << 20;
  friend auto operator<=>(const SearchOptions&, const SearchOptions&) = default;
};

}  // namespace luminal
