#pragma once
#include <string>
#include <vector>

#include "search/saturate/language.h"

namespace luminal::search::test {

/// A rule with one change. `change` names it: the fact or action as it was, and as it is now.
///
///   (exact k) -> nothing                              a condition is dropped
///   (exact k) -> (rounds k)                           another condition, another law
///   (symmetric k i j) -> (symmetric k i i)            another variable: another slot, kernel or tensor
///   (use k i x) -> (use k i other)                    two facts that no longer speak of the same
///   (< i j) -> (<= i j)                               another comparison
///   (swap k i j) -> (swap i k j)                      other places
///   (relaxed) -> (strict)                             a stricter math mode
struct RuleMutant {
  std::string change;
  RuleText rule;  ///< of a name of its own
};

/// Every change of one place of the rule, without regard to types: what does not type-check is for the
/// language to refuse. `heads`: the functions that calls may be changed to.
[[nodiscard]] std::vector<RuleMutant> mutants_of(const RuleText& rule, const std::vector<std::string>& heads);

/// The functions that the rules call, sorted.
[[nodiscard]] std::vector<std::string> heads_of(const std::vector<RuleText>& rules);

/// The rule as a program would bring it (SearchOptions::rules), under another name.
[[nodiscard]] RuleText renamed(const RuleText& rule, const std::string& name);
/// Its text with the comment that a file of rules has above it.
[[nodiscard]] std::string file_text(const RuleText& rule);

}  // namespace luminal::search::test
