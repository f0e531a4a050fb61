#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace luminal::egraph {

/// A parsed S-expression of a pattern or term text. Leaves keep their text, strings without the quotes.
struct Sexpr {
  enum class Kind { List, Symbol, String };
  Kind kind = Kind::List;
  std::string text;
  size_t position = 0;  ///< in the source
  std::vector<Sexpr> items;
};

/// Exactly one expression. Errors show the source and where it went wrong.
[[nodiscard]] Sexpr parse_sexpr(std::string_view source);

}  // namespace luminal::egraph
