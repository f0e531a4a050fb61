#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fail.h"
#include "codegen/emit/c_text.h"
#include "scalar/typing.h"

namespace luminal::codegen::c_text {
namespace {

/// Of values, as languages compare them: 0 or -1 in vectors, 0 or 1 of scalars.
std::string comparison(ScalarOp op, const std::string& a, const std::string& b) {
  const char* const sign = op == ScalarOp::Lt   ? "<"
                           : op == ScalarOp::Le ? "<="
                           : op == ScalarOp::Eq ? "=="
                                                : "!=";
  return fmt::format("({} {} {})", a, sign, b);
}

}  // namespace

std::string Operations::number(const Vector& t, int64_t value) const {
  return s_.spread(t.word, t.width, integer_text(value));
}
std::string Operations::choose(const Vector& t, const std::string& mask, const std::string& a,
                               const std::string& b) const {
  return s_.choose(t.word, t.width, word_bytes(t.word), mask, a, b);
}

std::string Operations::wrapped(const char* op, const Vector& t, const std::string& a,
                                const std::string& b) const {
  if (t.width == 1) {  // shorter ones would be promoted to int, which their products leave
    const std::string wide = s_.type(word_bytes(t.word) == 8 ? Word::U64 : Word::U32, 1);
    return fmt::format("(({0})(({1}){2} {3} ({1}){4}))", s_.type(t.word, 1), wide, a, op, b);
  }
  const Word natural = integer_word(word_bytes(t.word), false);
  const auto in = [&](const std::string& x) { return s_.bits(t.word, natural, t.width, x); };
  return s_.bits(natural, t.word, t.width, fmt::format("({} {} {})", in(a), op, in(b)));
}

std::string Operations::truth(const Vector& t, const std::string& mask) const {
  if (t.width == 1) return fmt::format("(-{})", mask);
  return word_bytes(t.word) == 1 ? mask : s_.convert(Word::I8, t.width, mask);
}

std::string Operations::call(const std::string& name, const Vector& result, const Vector& operand,
                             const std::vector<std::string>& operands,
                             const std::function<std::string()>& body) {
  const std::string full = fmt::format("{}_{}{}", name, luminal::name(operand.dtype),
                                       operand.width == 1 ? "" : fmt::format("x{}", operand.width));
  if (functions_.is_new(full)) {
    const std::string type = s_.type(operand.word, operand.width);
    std::string parameters;
    for (size_t k = 0; k < operands.size(); ++k)
      parameters += fmt::format("{}const {} {}", k == 0 ? "" : ", ", type, static_cast<char>('a' + k));
    functions_.define(fmt::format("{} {} {}({}) {{\n{}}}\n", s_.dialect().function,
                                  s_.type(result.word, result.width), full, parameters, body()));
  }
  return fmt::format("{}({})", full, fmt::join(operands, ", "));
}

std::string Operations::operator()(ScalarOp op, Type result, Dtype operand, std::span<const std::string> v) {
  const Vector t{operand, value_word(operand), result.lanes};
  const bool real = is_real(operand), is_bool = operand == Dtype::Bool;
  const auto infix = [&](const char* sign) { return fmt::format("({} {} {})", v[0], sign, v[1]); };
  switch (op) {
    case ScalarOp::Add:
      return real ? infix("+") : wrapped("+", t, v[0], v[1]);
    case ScalarOp::Sub:
      return real ? infix("-") : wrapped("-", t, v[0], v[1]);
    case ScalarOp::Mul:
      return real ? infix("*") : wrapped("*", t, v[0], v[1]);
    case ScalarOp::Neg:
      return real ? fmt::format("(-{})", v[0]) : wrapped("-", t, number(t, 0), v[0]);
    case ScalarOp::Abs:
      return absolute(t, v[0]);
    case ScalarOp::Minimum:
    case ScalarOp::Maximum:
      return extreme(op, t, v[0], v[1]);
    case ScalarOp::Div:
      return infix("/");
    case ScalarOp::Remainder:
      return remainder(t, v[0], v[1]);
    case ScalarOp::Fma:
      return fmt::format("fma({}, {}, {})", v[0], v[1], v[2]);
    case ScalarOp::Sqrt:
      return fmt::format("sqrt({})", v[0]);
    case ScalarOp::Floor:
      return fmt::format("floor({})", v[0]);
    case ScalarOp::RoundEven:
      return fmt::format("rint({})", v[0]);
    case ScalarOp::FloorDiv:
    case ScalarOp::FloorMod:
      return floor_division(op, t, v[0], v[1]);
    case ScalarOp::ShiftLeft:
    case ScalarOp::ShiftRightLogical:
    case ScalarOp::ShiftRightArithmetic:
      return shift(op, t, v[0], v[1]);
    case ScalarOp::And:
      return infix("&");
    case ScalarOp::Or:
      return infix("|");
    case ScalarOp::Xor:
      return infix("^");
    case ScalarOp::Not:
      return fmt::format("(~{})", v[0]);
    case ScalarOp::Lt:
      return is_bool ? fmt::format("(~{} & {})", v[0], v[1]) : truth(t, comparison(op, v[0], v[1]));
    case ScalarOp::Le:
      return is_bool ? fmt::format("(~{} | {})", v[0], v[1]) : truth(t, comparison(op, v[0], v[1]));
    case ScalarOp::Eq:
      return is_bool ? fmt::format("(~({} ^ {}))", v[0], v[1]) : truth(t, comparison(op, v[0], v[1]));
    case ScalarOp::Ne:
      return is_bool ? infix("^") : truth(t, comparison(op, v[0], v[1]));
    case ScalarOp::Select:
      return s_.choose(t.word, t.width, 1, v[0], v[1], v[2]);
    case ScalarOp::Convert:
      return conversion(t, v[0], {result.dtype, value_word(result.dtype), t.width});
    case ScalarOp::Bitcast:
      return s_.bits(t.word, value_word(result.dtype), t.width, v[0]);
    case ScalarOp::Input:
    case ScalarOp::Constant:
    case ScalarOp::Coordinate:
      break;
  }
  throw InternalError(fmt::format("[c] '{}' is a leaf and has no expression", name(op)));
}

std::string Operations::absolute(const Vector& t, const std::string& a) {
  if (is_float_word(t.word)) return fmt::format("fabs({})", a);
  if (!is_signed_word(t.word)) return a;
  return choose(t, comparison(ScalarOp::Lt, a, number(t, 0)), wrapped("-", t, number(t, 0), a), a);
}

std::string Operations::extreme(ScalarOp op, const Vector& t, const std::string& a, const std::string& b) {
  const bool least = op == ScalarOp::Minimum;
  if (t.dtype == Dtype::Bool) return fmt::format("({} {} {})", a, least ? "&" : "|", b);
  if (is_float_word(t.word))
    return call(std::string(name(op)), t, t, {a, b}, [&] { return extreme_lines(op, t); });
  const std::string less = comparison(ScalarOp::Lt, a, b);
  return least ? choose(t, less, a, b) : choose(t, less, b, a);
}

/// Equal operands differ at most in the sign of zero; NaN wins.
std::string Operations::extreme_lines(ScalarOp op, const Vector& t) const {
  const bool least = op == ScalarOp::Minimum;
  const Word integer = integer_word(word_bytes(t.word), false);
  const auto bits = [&](const char* x) { return s_.bits(t.word, integer, t.width, x); };
  const std::string equal =
      s_.bits(integer, t.word, t.width, fmt::format("({} {} {})", bits("a"), least ? "|" : "&", bits("b")));
  const std::string type = s_.type(t.word, t.width);
  return fmt::format("  const {} other = {};\n  const {} value = {};\n  return {};\n", type,
                     choose(t, least ? "(a < b)" : "(a > b)", "a", "b"), type,
                     choose(t, "(a == b)", equal, "other"), choose(t, "(a != a)", "a", "value"));
}

/// Lane by lane: what PoCL 3.1 calls fmod of vectors of doubles is NaN for some quotients that scalars have (seen with
/// AVX-512).
std::string Operations::remainder(const Vector& t, const std::string& a, const std::string& b) {
  if (t.width == 1) return fmt::format("fmod({}, {})", a, b);
  return call("remainder", t, t, {a, b}, [&] {
    std::vector<std::string> lanes;
    for (int k = 0; k < t.width; ++k)
      lanes.push_back(fmt::format("fmod({}, {})", s_.lane("a", t.width, k), s_.lane("b", t.width, k)));
    return fmt::format("  return {};\n",
                       s_.spread(t.word, t.width, fmt::format("{}", fmt::join(lanes, ", "))));
  });
}

std::string Operations::floor_division(ScalarOp op, const Vector& t, const std::string& a,
                                       const std::string& b) {
  return call(std::string(name(op)), t, t, {a, b}, [&] { return division_lines(op, t); });
}

/// C's division has no result for a divisor of 0 and for least / -1, and may trap: both divide by 1 instead.
std::string Operations::division_lines(ScalarOp op, const Vector& t) const {
  const bool division = op == ScalarOp::FloorDiv, with_sign = is_signed_word(t.word);
  const std::string type = s_.type(t.word, t.width), mask = s_.mask_type(t.word, t.width);
  const std::string zero = number(t, 0), one = number(t, 1), minus_one = number(t, -1);
  std::string text = fmt::format("  const {} is_zero = (b == {});\n", mask, zero);
  if (!with_sign) {
    text += fmt::format("  const {} by = {};\n", type, choose(t, "is_zero", one, "b"));
    return text +
           fmt::format("  return {};\n", division ? choose(t, "is_zero", zero, "(a / by)") : "(a % by)");
  }
  text += fmt::format("  const {} is_minus_one = (b == {});\n", mask, minus_one);
  text += fmt::format("  const {} by = {};\n", type, choose(t, "(is_zero | is_minus_one)", one, "b"));
  text += fmt::format("  const {} rest = (a % by);\n", type);
  text += fmt::format("  const {} adjust = ((rest != {}) & ((rest ^ by) < {}));\n", mask, zero, zero);
  if (!division) return text + fmt::format("  return rest + {};\n", choose(t, "adjust", "by", zero));
  text += fmt::format("  const {} quotient = (a / by) + {};\n", type, choose(t, "adjust", minus_one, zero));
  return text + fmt::format("  return {};\n",
                            choose(t, "is_zero", zero,
                                   choose(t, "is_minus_one", wrapped("-", t, zero, "a"), "quotient")));
}

std::string Operations::shift(ScalarOp op, const Vector& t, const std::string& a, const std::string& b) {
  return call(std::string(name(op)), t, t, {a, b}, [&] { return shift_lines(op, t); });
}

/// C's shifts by less than 0 or at least the width have no result.
std::string Operations::shift_lines(ScalarOp op, const Vector& t) const {
  const int bytes = word_bytes(t.word);
  const bool arithmetic = op == ScalarOp::ShiftRightArithmetic, left = op == ScalarOp::ShiftLeft;
  // What is shifted to the left must hold it: a scalar of less than 32 bits would be promoted to int.
  const Word moved = integer_word(t.width == 1 && left ? std::max(bytes, 4) : bytes, arithmetic);
  const Word natural = integer_word(bytes, false);
  const std::string type = s_.type(t.word, t.width);
  const auto as = [&](Word to, const char* x) { return s_.bits(t.word, to, t.width, x); };
  const std::string width = s_.spread(natural, t.width, integer_text(8 * bytes));
  const std::string inside = fmt::format("({} < {})", as(natural, "b"), width);
  const std::string shifted =
      s_.bits(moved, t.word, t.width,
              fmt::format("({} {} {})", as(moved, "a"), left ? "<<" : ">>",
                          t.width == 1 ? "amount" : as(integer_word(bytes, arithmetic), "amount")));
  const std::string amount = choose(t, inside, "b", number(t, arithmetic ? 8 * bytes - 1 : 0));
  return fmt::format("  const {} amount = {};\n  return {};\n", type, amount,
                     arithmetic ? shifted : choose(t, inside, shifted, number(t, 0)));
}

}  // namespace luminal::codegen::c_text
