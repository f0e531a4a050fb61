#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "egraph/language/source.h"
#include "egraph/language/symbol.h"

namespace luminal::egraph::language {

/// A constant of a program; `std::monostate` is the unit value, written `()`.
using Literal = std::variant<std::monostate, int64_t, double, std::string, bool>;

/// The literal as the language writes it: strings escaped, floats always with a point where they need one.
[[nodiscard]] std::string to_text(const Literal& literal);

/// S-expressions of a source, laid out as SexprNode: words are names or constants here.
struct SexpNode {
  enum class Kind : uint8_t { Atom, Constant, List };
  Kind kind = Kind::Atom;
  uint32_t end = 0;      ///< index after the subtree
  uint32_t literal = 0;  ///< of a literal: its index in `literals`
  Symbol atom;           ///< of an atom: its name
  Span span;
};

struct Sexps {
  std::vector<SexpNode> nodes;
  std::vector<Literal> literals;
};

/// Reads all s-expressions of a source. Errors: ProgramError for an unbalanced parenthesis, an open string,
/// an unknown escape, or text that is not UTF-8.
/// `poll` is called at each step; what it throws ends the reading.
[[nodiscard]] Sexps read_sexps(const Source& source, SymbolTable& symbols,
                               const std::function<void()>& poll = {});

/// True when the text ends inside an open list or string: a prompt should read on.
[[nodiscard]] bool is_incomplete(const std::string& text);

}  // namespace luminal::egraph::language
