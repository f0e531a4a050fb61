#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace luminal::egraph {

/// S-expressions of a text, flat and in pre-order: the subtree of node `i` is [i, nodes[i].end), so the
/// children of a list are i + 1, then the `end` of each. Flat storage keeps hostile nesting off the stack.
struct SexprNode {
  enum class Kind : uint8_t { Word, String, List };
  Kind kind = Kind::List;
  size_t end = 0;              ///< index after the subtree
  size_t first = 0, last = 0;  ///< bytes [first, last) of the text
  std::string value;           ///< of a string: without quotes and escapes
};

/// What is wrong with a text, and where: bytes [first, last).
struct SexprError {
  std::string message;
  size_t first = 0, last = 0;
  bool incomplete = false;  ///< the text ends inside a list or string
};

/// All s-expressions of a text. Throws SexprError for an unbalanced parenthesis, an open string, an unknown
/// escape, or text that is not UTF-8. `poll` is called for each token; what it throws ends the reading.
[[nodiscard]] std::vector<SexprNode> read_sexprs(std::string_view text,
                                                 const std::function<void()>& poll = {});

/// The one s-expression of a pattern or term, as a tree.
struct Sexpr {
  SexprNode::Kind kind = SexprNode::Kind::List;
  std::string text;     ///< of a word or string
  size_t position = 0;  ///< in the source
  std::vector<Sexpr> items;
};

/// Exactly one expression. Errors: FormatError that shows the source and where it went wrong.
[[nodiscard]] Sexpr parse_sexpr(std::string_view source);

}  // namespace luminal::egraph
