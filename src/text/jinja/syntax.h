#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

/// From a template's text to its tree: `tokenize` cuts it, `parse` builds the tree.
namespace luminal::text::jinja {

struct Token {
  enum class Kind { Data, BlockBegin, BlockEnd, PrintBegin, PrintEnd, Name, Text, Integer, Real, Sign, End };
  Kind kind = Kind::End;
  std::string text;
  int line = 1;
};

/// With trim_blocks and lstrip_blocks. Errors: FormatError with the line.
[[nodiscard]] std::vector<Token> tokenize(std::string_view source);

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;
struct Expression {
  enum class Kind {
    Literal,
    Name,
    ListDisplay,
    TupleDisplay,
    DictDisplay,
    Attribute,
    Item,
    Slice,
    Call,
    Filter,
    Test,
    Not,
    Negative,
    Positive,
    Binary,
    Compare,
    And,
    Or,
    Choice
  };
  Kind kind = Kind::Literal;
  int line = 1;
  std::string name = {};                  ///< of a name, attribute, filter, test, operator
  Value value = {};                       ///< Literal
  std::vector<ExpressionPtr> parts = {};  ///< operands; null where a slice or choice leaves one out
  std::vector<std::pair<std::string, ExpressionPtr>> keywords = {};
  std::vector<std::string> operators = {};  ///< Compare: between its parts
};

struct Statement {
  enum class Kind { Data, Print, If, For, Set, SetBlock, Macro, Body, Break, Continue };
  Kind kind = Kind::Data;
  int line = 1;
  std::string text = {};                     ///< Data; the name of a macro, the namespace of a Set
  std::vector<std::string> targets = {};     ///< of Set and For; a macro's parameters
  bool unpack = false;                       ///< there are several targets
  ExpressionPtr value = {}, condition = {};  ///< For: what it walks, which items; If: condition
  std::vector<ExpressionPtr> defaults = {};  ///< of a macro's parameters, null without
  std::vector<Statement> body = {}, otherwise = {};
};

/// Errors: FormatError with the line.
[[nodiscard]] std::vector<Statement> parse(std::vector<Token> tokens);

}  // namespace luminal::text::jinja
