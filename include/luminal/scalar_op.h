#pragma once
#include <array>
#include <cstdint>
#include <string_view>

/// The operations of scalar IR, and what is known of each.
namespace luminal {

/// The kinds of node, in groups by the operands they take. `a b c` are the operands.
enum class ScalarOp : uint8_t {
  // Leaves.
  Input,       ///< the loaded value in slot `payload`
  Constant,    ///< the value whose bits, zero-extended, are `payload`
  Coordinate,  ///< I64: the index along axis number `payload`
  // F32 and F64 only: correctly rounded.
  Div,        ///< a / b; x/0 is an infinity, 0/0 NaN
  Fma,        ///< a * b + c, rounded once
  Sqrt,       ///< square root; NaN below -0, -0 of -0
  Floor,      ///< largest integer <= a; keeps infinities, NaN and -0
  RoundEven,  ///< nearest integer, ties to even; keeps the sign of zero
  Remainder,  ///< C's fmod: a - b * trunc(a / b) exactly, sign of a; NaN if a is infinite or b is 0
  // F32, F64 and integers.
  Add,
  Sub,
  Mul,
  Neg,      ///< floats: flips the sign bit; integers wrap
  Abs,      ///< floats: clears the sign bit; the least integer stays itself
  Minimum,  ///< IEEE 754-2019 minimum: NaN if either is NaN, -0 < +0. Also Bool.
  Maximum,  ///< IEEE 754-2019 maximum: NaN if either is NaN, -0 < +0. Also Bool.
  // Integers only.
  FloorDiv,              ///< quotient rounded down; 0 if b is 0; least / -1 wraps to least (as NumPy)
  FloorMod,              ///< a - b * FloorDiv(a, b), sign of b; 0 if b is 0
  ShiftLeft,             ///< a << b; 0 if b is negative or at least the width
  ShiftRightLogical,     ///< fills with zeros; 0 if b is negative or at least the width
  ShiftRightArithmetic,  ///< fills with the sign bit, of U8 too; all sign bits if b is negative or at least
                         ///< the width
  // Integers and Bool: bitwise, logical on Bool.
  And,
  Or,
  Xor,
  Not,
  // F32, F64, integers, Bool -> Bool. IEEE: with a NaN, Lt, Le and Eq are false and Ne is true; -0 equals +0.
  Lt,
  Le,
  Eq,
  Ne,
  // Any type.
  Select,   ///< a (Bool) ? b : c
  Convert,  ///< by value, see `ScalarBuilder::convert`
  Bitcast,  ///< the same bits as another type of the same size; not Bool
};
inline constexpr int kScalarOpCount = static_cast<int>(ScalarOp::Bitcast) + 1;

namespace scalar_ops {

enum class Cost : uint8_t { None, Simple, Fma, Divide, Expensive };
/// Types an op computes on; operands and result share one type unless the group says otherwise.
enum class Group : uint8_t {
  Leaf,
  Real,
  Number,
  NumberOrBool,
  Integer,
  Bits,
  Compare,
  Select,
  Convert,
  Bitcast
};

struct Facts {
  std::string_view name;
  int arity;
  bool commutative;
  Group group;
  Cost cost;
};

inline constexpr std::array<Facts, kScalarOpCount> kFacts{{
    {"input", 0, false, Group::Leaf, Cost::None},
    {"constant", 0, false, Group::Leaf, Cost::None},
    {"coordinate", 0, false, Group::Leaf, Cost::None},
    {"div", 2, false, Group::Real, Cost::Divide},
    {"fma", 3, true, Group::Real, Cost::Fma},
    {"sqrt", 1, false, Group::Real, Cost::Divide},
    {"floor", 1, false, Group::Real, Cost::Simple},
    {"round_even", 1, false, Group::Real, Cost::Simple},
    {"remainder", 2, false, Group::Real, Cost::Expensive},
    {"add", 2, true, Group::Number, Cost::Simple},
    {"sub", 2, false, Group::Number, Cost::Simple},
    {"mul", 2, true, Group::Number, Cost::Simple},
    {"neg", 1, false, Group::Number, Cost::Simple},
    {"abs", 1, false, Group::Number, Cost::Simple},
    {"minimum", 2, true, Group::NumberOrBool, Cost::Simple},
    {"maximum", 2, true, Group::NumberOrBool, Cost::Simple},
    {"floor_div", 2, false, Group::Integer, Cost::Expensive},
    {"floor_mod", 2, false, Group::Integer, Cost::Expensive},
    {"shift_left", 2, false, Group::Integer, Cost::Simple},
    {"shift_right_logical", 2, false, Group::Integer, Cost::Simple},
    {"shift_right_arithmetic", 2, false, Group::Integer, Cost::Simple},
    {"and", 2, true, Group::Bits, Cost::Simple},
    {"or", 2, true, Group::Bits, Cost::Simple},
    {"xor", 2, true, Group::Bits, Cost::Simple},
    {"not", 1, false, Group::Bits, Cost::Simple},
    {"lt", 2, false, Group::Compare, Cost::Simple},
    {"le", 2, false, Group::Compare, Cost::Simple},
    {"eq", 2, true, Group::Compare, Cost::Simple},
    {"ne", 2, true, Group::Compare, Cost::Simple},
    {"select", 3, false, Group::Select, Cost::Simple},
    {"convert", 1, false, Group::Convert, Cost::Simple},
    {"bitcast", 1, false, Group::Bitcast, Cost::None},
}};

[[nodiscard]] constexpr const Facts& facts(ScalarOp op) { return kFacts[static_cast<size_t>(op)]; }

}  // namespace scalar_ops

[[nodiscard]] constexpr std::string_view name(ScalarOp op) { return scalar_ops::facts(op).name; }
[[nodiscard]] constexpr int arity(ScalarOp op) { return scalar_ops::facts(op).arity; }
/// Whether swapping a and b keeps every bit (which NaN aside).
[[nodiscard]] constexpr bool is_commutative(ScalarOp op) { return scalar_ops::facts(op).commutative; }

/// Operations per element, each node counted once: what a roofline needs.
struct ScalarCost {
  int simple = 0;     ///< add, multiply, compare, select, bitwise, conversions: about one vector instruction
  int fma = 0;        ///< two flops in one instruction
  int divide = 0;     ///< Div and Sqrt: about eight times a simple one
  int expensive = 0;  ///< FloorDiv, FloorMod, Remainder: about thirty times
  int nodes = 0;      ///< all nodes, leaves included
  /// One more operation, which `nodes` does not count.
  void add(ScalarOp op) {
    using scalar_ops::Cost;
    const Cost kind = scalar_ops::facts(op).cost;
    simple += kind == Cost::Simple, fma += kind == Cost::Fma;
    divide += kind == Cost::Divide, expensive += kind == Cost::Expensive;
  }
  /// Flops as benchmarks count them: an fma is two, everything else one.
  [[nodiscard]] int flops() const { return simple + 2 * fma + divide + expensive; }
  /// Vector instructions at full rate that take about as long.
  [[nodiscard]] int weight() const { return simple + fma + 8 * divide + 30 * expensive; }
};

}  // namespace luminal
