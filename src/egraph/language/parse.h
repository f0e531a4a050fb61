#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "egraph/language/ast.h"

namespace luminal::egraph::language {

/// Names that start with '@' are the language's own: a program can't spell them, so fresh names never clash.
inline constexpr char kReservedPrefix = '@';

/// Makes names no program can have: "@hint", "@hint1", ...
class FreshNames {
 public:
  explicit FreshNames(SymbolTable& symbols) : symbols_(&symbols) {}
  [[nodiscard]] Symbol make(std::string_view hint);

 private:
  SymbolTable* symbols_;
  std::unordered_map<std::string, uint64_t> used_;
};

/// Reads a program. Errors: ProgramError with the usage of the command that is written wrongly.
/// `poll` is called at each step; what it throws ends the parsing.
[[nodiscard]] Program parse_program(const Source& source, SymbolTable& symbols, FreshNames& fresh,
                                    const std::function<void()>& poll = {});

/// Whether the source needs the sort `Rational` and its functions: it uses these names without defining them.
/// They are not in the core language, and programs do define constructors of these names.
[[nodiscard]] bool mentions_rationals(const Source& source, SymbolTable& symbols,
                                      const std::function<void()>& poll = {});

}  // namespace luminal::egraph::language
