// Primitives on BigInt, BigRat and Rational.
#include <algorithm>

#include "egraph/language/define.h"

namespace luminal::egraph::language {
namespace {

using Fractions = std::optional<BigRat>;

BigRat add(const BigRat& a, const BigRat& b) {
  return *make_fraction(a.numerator * b.denominator + b.numerator * a.denominator,
                        a.denominator * b.denominator);
}
uint64_t size_of(const BigRat& a) { return std::max(bit_count(a.numerator), bit_count(a.denominator)); }
BigRat negate(const BigRat& a) { return {-a.numerator, a.denominator}; }
BigRat multiply(const BigRat& a, const BigRat& b) {
  return *make_fraction(a.numerator * b.numerator, a.denominator * b.denominator);
}
Fractions divide(const BigRat& a, const BigRat& b) {
  return make_fraction(a.numerator * b.denominator, a.denominator * b.numerator);
}
/// What finding the common divisor of two numbers of so many bits takes, at worst about.
double divisor_seconds(uint64_t bits) {
  return bits < (uint64_t{1} << 20) ? 0 : static_cast<double>(bits) * 2e-7;
}
/// 0 for a power that is not defined, and for those of 1 and -1.
uint64_t power_bits(const BigRat& base, const BigRat& exponent) {
  const BigInt magnitude = boost::multiprecision::abs(exponent.numerator);
  if (magnitude > kMaxBigBits || size_of(base) < 2) return 0;
  return std::min(kMaxBigBits, size_of(base) * static_cast<uint64_t>(magnitude));
}
BigRat absolute(const BigRat& a) { return a.numerator < 0 ? negate(a) : a; }
// Only log 1 is rational.
Fractions logarithm(const BigRat& a) { return a == BigRat{1, 1} ? Fractions(BigRat{0, 1}) : std::nullopt; }

// Functions that BigRat and Rational share. Rational computes exactly and narrows: what does not fit is
// undefined.
template <class F>
void install_fractions(Library& library, Scope& scope) {
  const auto widened = [](const F& a) {
    if constexpr (std::is_same_v<F, BigRat>)
      return a;
    else
      return widen(a);
  };
  const auto back = [](const Fractions& a) -> std::optional<F> {
    if constexpr (std::is_same_v<F, BigRat>)
      return a;
    else
      return a ? narrow(*a) : std::nullopt;
  };
  const auto unary = [&](std::string_view name, auto function) {
    define(library, scope, name, [=](const F& a) -> std::optional<F> { return back(function(widened(a))); });
  };
  const auto binary = [&](std::string_view name, auto function) {
    define(library, scope, name, [=](const F& a, const F& b) -> std::optional<F> {
      return back(function(widened(a), widened(b)));
    });
  };
  // What would not fit in memory is undefined.
  const auto arithmetic = [&](std::string_view name, auto function) {
    binary(name, [function, &library](const BigRat& a, const BigRat& b) {
      const uint64_t bits = size_of(a) + size_of(b);
      if (bits > kMaxBigBits) return Fractions();
      library.check_number(2 * bits, divisor_seconds(bits));
      return Fractions(function(a, b));
    });
  };
  arithmetic("+", add);
  arithmetic("-", [](const BigRat& a, const BigRat& b) { return add(a, negate(b)); });
  arithmetic("*", multiply);
  arithmetic("/", divide);
  binary("min", [](const BigRat& a, const BigRat& b) { return Fractions(compare(a, b) <= 0 ? a : b); });
  binary("max", [](const BigRat& a, const BigRat& b) { return Fractions(compare(a, b) >= 0 ? a : b); });
  binary("pow", [&library](const BigRat& a, const BigRat& b) {
    const uint64_t bits = power_bits(a, b);
    library.check_number(2 * bits, divisor_seconds(bits));
    return power(a, b);
  });
  unary("neg", [](const BigRat& a) { return Fractions(negate(a)); });
  unary("abs", [](const BigRat& a) { return Fractions(absolute(a)); });
  unary("floor", [](const BigRat& a) { return Fractions(BigRat{floor_of(a), 1}); });
  unary("ceil", [](const BigRat& a) { return Fractions(BigRat{ceil_of(a), 1}); });
  unary("round", [](const BigRat& a) { return Fractions(BigRat{round_of(a), 1}); });
  unary("log", [](const BigRat& a) { return logarithm(a); });
  unary("sqrt", [](const BigRat& a) { return square_root(a); });
  unary("cbrt", [](const BigRat& a) { return cube_root(a); });
  define(library, scope, "to-f64", [=](const F& a) { return to_double(widened(a)); });
  define(library, scope, "<", [](const F& a, const F& b) { return when(compare(a, b) < 0); });
  define(library, scope, ">", [](const F& a, const F& b) { return when(compare(a, b) > 0); });
  define(library, scope, "<=", [](const F& a, const F& b) { return when(compare(a, b) <= 0); });
  define(library, scope, ">=", [](const F& a, const F& b) { return when(compare(a, b) >= 0); });
}

}  // namespace

void Library::install_big_int(Scope& scope) {
  const auto def = [&](std::string_view name, auto function) { define(*this, scope, name, function); };
  using Z = const BigInt&;
  def("bigint", [](int64_t a) { return BigInt(a); });
  def("+", [](Z a, Z b) { return BigInt(a + b); });
  def("-", [](Z a, Z b) { return BigInt(a - b); });
  def("*", [this](Z a, Z b) -> std::optional<BigInt> {
    const uint64_t bits = bit_count(a) + bit_count(b);
    if (bits > kMaxBigBits) return {};
    check_number(bits);
    return BigInt(a * b);
  });
  def("/", [](Z a, Z b) { return b != 0 ? std::optional<BigInt>(a / b) : std::nullopt; });
  def("%", [](Z a, Z b) { return b != 0 ? std::optional<BigInt>(a % b) : std::nullopt; });
  def("&", [](Z a, Z b) { return bit_and(a, b); });
  def("|", [](Z a, Z b) { return bit_or(a, b); });
  def("^", [](Z a, Z b) { return bit_xor(a, b); });
  def("<<", [this](Z a, int64_t by) {
    if (by > 0) check_number(std::min(kMaxBigBits, bit_count(a) + static_cast<uint64_t>(by)));
    return shift_left(a, by);
  });
  def(">>", [](Z a, int64_t by) { return shift_right(a, by); });
  def("not-Z", [](Z a) { return bit_not(a); });
  def("bits", [](Z a) { return BigInt(bit_count(a)); });
  def("<", [](Z a, Z b) { return when(a < b); });
  def(">", [](Z a, Z b) { return when(a > b); });
  def("<=", [](Z a, Z b) { return when(a <= b); });
  def(">=", [](Z a, Z b) { return when(a >= b); });
  def("bool-=", [](Z a, Z b) -> bool { return a == b; });
  def("bool-<", [](Z a, Z b) -> bool { return a < b; });
  def("bool->", [](Z a, Z b) -> bool { return a > b; });
  def("bool-<=", [](Z a, Z b) -> bool { return a <= b; });
  def("bool->=", [](Z a, Z b) -> bool { return a >= b; });
  def("min", [](Z a, Z b) { return BigInt(a < b ? a : b); });
  def("max", [](Z a, Z b) { return BigInt(a > b ? a : b); });
  def("to-string", [this](Z a) {
    check_number(bit_count(a), decimal_seconds(bit_count(a)));
    return a.str();
  });
  def("from-string", [this](const std::string& text) {
    constexpr size_t kBitsPerDigit = 4;
    check_number(kBitsPerDigit * text.size(), decimal_seconds(kBitsPerDigit * text.size()));
    return parse_big(text);
  });
}

void Library::install_big_rat(Scope& scope) {
  install_fractions<BigRat>(*this, scope);
  const auto def = [&](std::string_view name, auto function) { define(*this, scope, name, function); };
  def("bigrat", [this](const BigInt& a, const BigInt& b) {
    const uint64_t bits = bit_count(a) + bit_count(b);
    check_number(bits, divisor_seconds(bits));
    return make_fraction(a, b);
  });
  def("numer", [](const BigRat& a) { return a.numerator; });
  def("denom", [](const BigRat& a) { return a.denominator; });
  def("to-i64", [](const BigRat& a) -> std::optional<int64_t> {
    if (a.denominator != 1) return {};
    return to_small(a.numerator);
  });
}

void Library::install_rationals(Scope& scope) {
  const auto show = [this](Value v) {
    const Rational& x = rationals_.at(v);
    return "(rational " + std::to_string(x.numerator) + " " + std::to_string(x.denominator) + ")";
  };
  const auto order = [this](Value a, Value b) {
    return language::compare(rationals_.at(a), rationals_.at(b));
  };
  rational_sort = add_interned_sort(scope, "Rational", show, order);
  install_fractions<Rational>(*this, scope);
  const auto def = [&](std::string_view name, auto function) { define(*this, scope, name, function); };
  def("rational", [](int64_t a, int64_t b) { return make_small_fraction(a, b); });
  def("numer", [](const Rational& a) { return a.numerator; });
  def("denom", [](const Rational& a) { return a.denominator; });
}

}  // namespace luminal::egraph::language
