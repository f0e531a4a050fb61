#pragma once
#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Integer formulas over named dims and index variables: what shapes and views are made of.
///
///   Expression s = "s", b = Expression::dim("batch", {.min = 1, .multiple_of = 4});
///   assert(((s * 4 + 2) / 2).to_string() == "2*s + 1");  // canonical from birth
///   assert(b / 4 * 4 == b);                              // because 4 divides it
///   assert((s * 4).exec({{"s", 17}}) == 68);
///
/// An Expression is a handle to an immutable, interned node: copying costs a pointer, equality is one
/// comparison. Thread safety: any thread may use one. Division and remainder floor. Arithmetic is 64-bit;
/// overflow is a ShapeError. Every node carries a range and a divisor (facts); folding uses these, nothing
/// else, so it is sound for every value a dim may take. A division by zero is an Error when evaluated;
/// simplification may remove one, never add one.
namespace luminal {

namespace symbolic {
struct Node;  // src/symbolic/node.h
}

/// Inclusive bounds of an integer; the extremes of int64_t mean unbounded.
struct Range {
  int64_t min = INT64_MIN, max = INT64_MAX;
  friend bool operator==(const Range&, const Range&) = default;
};

/// What is known of a named dim. Two dims of one name with different facts are different expressions.
struct DimFacts {
  int64_t min = 0, max = INT64_MAX;
  int64_t multiple_of = 1;
  friend bool operator==(const DimFacts&, const DimFacts&) = default;
};

/// Values of named dims: {{"batch", 32}}.
using DimMap = std::map<std::string, int64_t, std::less<>>;

class Expression {
 public:
  Expression();  ///< 0
  template <std::integral T>
  Expression(T value) : Expression(Literal{static_cast<int64_t>(value)}) {}
  Expression(const char* dim) : Expression(Expression::dim(dim)) {}
  Expression(const std::string& dim) : Expression(Expression::dim(dim)) {}
  Expression(std::string_view dim_name) : Expression(Expression::dim(dim_name)) {}

  /// A named dim. Errors: Error if the name is empty, reads as an index variable (z, i0, i1, ...) or holds
  /// other characters than letters, digits, '_' and '.', or facts contradict each other.
  [[nodiscard]] static Expression dim(std::string_view name, DimFacts facts = {});
  /// The index variable of axis `axis`, printed "i<axis>": 0 <= it < extent; the constant 0 if the extent is
  /// known to be at most 1. The extent may hold dims, no index variables.
  [[nodiscard]] static Expression index(int axis, const Expression& extent);
  /// The flat index "z", at least 0.
  [[nodiscard]] static Expression flat_index();
  /// Reads what to_string writes, and ordinary infix text. Errors: FormatError with the column.
  [[nodiscard]] static Expression parse(std::string_view text);

  friend Expression operator+(const Expression& a, const Expression& b);
  friend Expression operator-(const Expression& a, const Expression& b);
  friend Expression operator*(const Expression& a, const Expression& b);
  friend Expression operator/(const Expression& a, const Expression& b);  ///< floor
  friend Expression operator%(const Expression& a,
                              const Expression& b);  ///< sign of the divisor, as in Python
  friend Expression operator&(const Expression& a, const Expression& b);  ///< bitwise; logical on 0 and 1
  friend Expression operator|(const Expression& a, const Expression& b);
  Expression operator-() const;
  Expression& operator+=(const Expression& b) { return *this = *this + b; }
  Expression& operator-=(const Expression& b) { return *this = *this - b; }
  Expression& operator*=(const Expression& b) { return *this = *this * b; }
  Expression& operator/=(const Expression& b) { return *this = *this / b; }
  Expression& operator%=(const Expression& b) { return *this = *this % b; }
  [[nodiscard]] Expression min(const Expression& b) const;
  [[nodiscard]] Expression max(const Expression& b) const;
  [[nodiscard]] Expression ceil_div(const Expression& b) const;
  [[nodiscard]] Expression lt(const Expression& b) const;   ///< 1 or 0
  [[nodiscard]] Expression gte(const Expression& b) const;  ///< 1 or 0

  /// Same canonical node. False may also mean "equal, but not seen to be"; see `known_equal`.
  friend bool operator==(const Expression& a, const Expression& b) { return a.node_ == b.node_; }

  /// Values; the flat index takes its value from an entry "z". Errors: Error that names the unbound dim, a
  /// value that breaks a dim's facts, a division by zero or an overflow.
  [[nodiscard]] int64_t exec(const DimMap& dims = {}, std::span<const int64_t> index_values = {}) const;
  /// Over the reals: dims may be fractions, division is exact. Used for cost models.
  [[nodiscard]] double exec_float(const std::map<std::string, double, std::less<>>& dims) const;
  /// The value if it is a constant, empty when symbolic (or negative, for to_usize).
  [[nodiscard]] std::optional<size_t> to_usize() const;
  [[nodiscard]] std::optional<int64_t> constant() const;
  /// Names of the dims in it, sorted.
  [[nodiscard]] std::set<std::string> to_symbols() const;
  /// Numbers of the index variables in it (z excluded), sorted.
  [[nodiscard]] std::set<int> to_indices() const;
  [[nodiscard]] bool uses_flat_index() const;

  /// Named dims replaced; names that do not occur are ignored.
  [[nodiscard]] Expression substitute(std::string_view dim_name, const Expression& value) const;
  [[nodiscard]] Expression substitute(const DimMap& dims) const;
  /// Index variables replaced: i<k> by values[k] (those beyond the span stay).
  [[nodiscard]] Expression substitute_indices(std::span<const Expression> values) const;
  [[nodiscard]] Expression substitute_flat_index(const Expression& value) const;

  /// Facts that hold for every value the variables may take.
  [[nodiscard]] Range range() const;
  /// The greatest known constant that divides it (0 for the constant 0).
  [[nodiscard]] int64_t divisor() const;
  /// True only if proven (canonical difference, ranges, divisors; index extents may be symbolic: i0 < s when
  /// its extent is s).
  [[nodiscard]] static bool known_equal(const Expression& a, const Expression& b);
  [[nodiscard]] static bool known_less(const Expression& a, const Expression& b);        ///< a < b
  [[nodiscard]] static bool known_less_equal(const Expression& a, const Expression& b);  ///< a <= b

  /// The smallest equal formula that equality saturation finds; memoised. For people and hard cases: building
  /// and compiling graphs never calls it.
  [[nodiscard]] Expression simplify() const;

  /// constant + sum of coefficient[k] * i<k>, if it has that form with coefficients free of index variables.
  struct Affine;
  [[nodiscard]] std::optional<Affine> as_affine() const;

  /// Infix. Reads back with parse: dims keep their facts, "s{1..1024,/16}" (at least 1, at most 1024, a
  /// multiple of 16); "i0" reads back as an index variable of any size.
  [[nodiscard]] std::string to_string() const;
  /// As to_string, with the extents of index variables, "i0[s]": parse gives this very node back.
  [[nodiscard]] std::string to_text() const;
  [[nodiscard]] std::string to_rpn() const;  ///< postfix, blank-separated
  /// C text over int64_t variables named as the dims ('.' becomes '_'), i0, i1, ... and z. Floor semantics
  /// are kept: plain / and % where both sides are known not to be negative, otherwise luminal_floor_div and
  /// luminal_floor_mod; also luminal_min and luminal_max, each of two int64_t.
  [[nodiscard]] std::string to_kernel() const;
  /// A term of (datatype Int (Num i64) (Dim String i64 i64 i64) (Index i64 Int) (Flat) (Add Int Int) (Mul Int
  /// Int) (Div Int Int) (Mod Int Int) (Min Int Int) (Max Int Int) (Less Int Int) (And Int Int) (Or Int Int));
  /// a Dim has its name, least and greatest value and divisor, an Index its axis and extent.
  [[nodiscard]] std::string to_egglog() const;
  [[nodiscard]] uint64_t hash() const;  ///< of the content: the same in every process

  [[nodiscard]] const symbolic::Node& node() const { return *node_; }

 private:
  friend struct symbolic::Node;
  struct Literal {
    int64_t value;
  };
  explicit Expression(Literal literal);
  explicit Expression(const symbolic::Node* node) : node_(node) {}
  const symbolic::Node* node_;
};

struct Expression::Affine {
  Expression constant;
  std::map<int, Expression> coefficients;  ///< by axis number; absent means 0
};

using Shape = std::vector<Expression>;

/// "[batch, 784]"; empty shapes print "[]".
[[nodiscard]] std::string to_string(std::span<const Expression> shape);
/// Product of the dims; 1 for rank 0.
[[nodiscard]] Expression element_count(std::span<const Expression> shape);
/// Every dim evaluated. Errors as exec; Error if a dim comes out negative.
[[nodiscard]] std::vector<int64_t> exec(std::span<const Expression> shape, const DimMap& dims);

}  // namespace luminal

template <>
struct std::hash<luminal::Expression> {
  size_t operator()(const luminal::Expression& e) const noexcept { return static_cast<size_t>(e.hash()); }
};
