#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "luminal/expression.h"

/// The interned nodes behind Expression and the canonical form they keep.
///
/// A node is a constant, an atom, a Product of two or more atoms, or a Sum: an integer plus terms
/// `coefficient * monomial`, where a monomial is an atom or a Product. Terms and factors are sorted by
/// content, never by address, so the form is the same in every process. A Sum that would grow beyond a cap
/// may itself stand as a factor of a Product; that costs canonical form, never correctness.
namespace luminal::symbolic {

enum class Kind : uint8_t {
  Constant,  // value
  Dim,       // name, facts
  Index,     // value = axis, args[0] = extent
  Flat,      // z
  FloorDiv,  // args: dividend, divisor
  Mod,       // args: dividend, divisor
  Min,       // args: two or more, sorted
  Max,       // args: two or more, sorted
  Negative,  // args[0] < 0, as 1 or 0: the one form of all comparisons
  And,       // args: two or more, sorted
  Or,        // args: two or more, sorted
  Product,   // args: two or more factors, sorted
  Sum,       // value + terms
};

struct Term {
  int64_t coefficient = 0;
  Expression monomial;
  friend bool operator==(const Term&, const Term&) = default;
};

inline constexpr int kLastIndexBit = 63;

struct Node {
  Kind kind = Kind::Constant;
  int64_t value = 0;
  std::string name;
  DimFacts facts;
  std::vector<Expression> args;
  std::vector<Term> terms;

  // Derived from the above when interned.
  uint64_t hash = 0;
  Range range;
  int64_t divisor = 1;
  uint32_t size = 1;   // nodes when written as a tree, saturating
  uint32_t depth = 1;  // longest path to a leaf
  bool uses_index = false, uses_flat = false, uses_dim = false;
  uint64_t indices = 0;  // bit k: i<k> occurs; the last bit stands for all axes from kLastIndexBit on

  static Expression wrap(const Node* node) { return Expression(node); }
};

/// The one node of this content; fills in the derived fields.
[[nodiscard]] Expression intern(Node&& node);
[[nodiscard]] Expression constant(int64_t value);
/// Total order by content: dims by name, index variables by axis, then composite atoms.
[[nodiscard]] int compare(const Expression& a, const Expression& b);

/// Most terms, factors or arguments of one node. Nodes live as long as the process: without a limit a long
/// text would fill the memory.
inline constexpr size_t kMaxParts = 1024;

/// A node of `kind` with these arguments as they stand, without canonicalisation.
[[nodiscard]] Expression raw(Kind kind, std::vector<Expression> args);

[[nodiscard]] inline Kind kind_of(const Expression& e) { return e.node().kind; }
[[nodiscard]] inline bool is_boolean(const Expression& e) {
  return e.node().range.min >= 0 && e.node().range.max <= 1;
}
[[nodiscard]] inline bool is_constant(const Expression& e, int64_t value) {
  return kind_of(e) == Kind::Constant && e.node().value == value;
}

}  // namespace luminal::symbolic
