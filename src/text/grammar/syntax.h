#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace luminal::text {

/// A grammar as it is written.
struct GrammarNode {
  enum class Kind { Literal, Class, Rule, Sequence, Choice, Repeat };
  static constexpr uint32_t kUnbounded = ~uint32_t{0};
  Kind kind = Kind::Sequence;
  std::string literal = {};                                ///< Literal: UTF-8
  std::vector<std::pair<char32_t, char32_t>> ranges = {};  ///< Class: sorted, apart, both ends included
  uint32_t rule = 0;                                       ///< Rule: which
  std::vector<GrammarNode> parts = {};                     ///< Sequence, Choice, Repeat (one)
  uint32_t least = 0, most = kUnbounded;                   ///< Repeat
};

struct GrammarSyntax {
  std::vector<std::string> names;   ///< by rule
  std::vector<GrammarNode> bodies;  ///< by rule
  uint32_t root = 0;
};

/// Errors: FormatError with line and column.
[[nodiscard]] GrammarSyntax parse_gbnf(std::string_view text);

}  // namespace luminal::text
