#pragma once
#include <boost/multiprecision/gmp.hpp>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>

/// Numbers without bounds (BigInt, BigRat), and fractions of two i64 (Rational).
namespace luminal::egraph::language {

/// GMP's: products, quotients, common divisors and decimal digits of large ones take less than quadratic
/// time.
using BigInt = boost::multiprecision::mpz_int;

/// A fraction in lowest terms with a positive denominator.
template <class Int>
struct Fraction {
  Int numerator = 0;
  Int denominator = 1;
  friend bool operator==(const Fraction&, const Fraction&) = default;
};
using BigRat = Fraction<BigInt>;
using Rational = Fraction<int64_t>;

/// Results beyond this many bits are treated as undefined rather than eat all memory.
inline constexpr uint64_t kMaxBigBits = uint64_t{1} << 26;

[[nodiscard]] std::optional<BigInt> parse_big(std::string_view text);
/// Bytes that tell one number from another, also with others behind it.
[[nodiscard]] std::string content_key(const BigInt& a);
/// Two's complement, as if with infinitely many sign bits.
[[nodiscard]] BigInt bit_and(const BigInt& a, const BigInt& b);
[[nodiscard]] BigInt bit_or(const BigInt& a, const BigInt& b);
[[nodiscard]] BigInt bit_xor(const BigInt& a, const BigInt& b);
[[nodiscard]] inline BigInt bit_not(const BigInt& a) { return -a - 1; }
[[nodiscard]] std::optional<BigInt> shift_left(const BigInt& a, int64_t by);
[[nodiscard]] std::optional<BigInt> shift_right(const BigInt& a, int64_t by);  ///< rounds down
[[nodiscard]] uint64_t bit_count(const BigInt& a);                             ///< of the magnitude

/// What it takes to write a number in decimal digits, at worst about; 0 for one that is written at once.
[[nodiscard]] inline double decimal_seconds(uint64_t bits) {
  return bits < (uint64_t{1} << 20) ? 0 : static_cast<double>(bits) * 5e-8;
}

/// Nullopt for a zero denominator.
[[nodiscard]] std::optional<BigRat> make_fraction(BigInt numerator, BigInt denominator);
/// Nullopt for a zero denominator and for what does not fit in i64.
[[nodiscard]] std::optional<Rational> make_small_fraction(const BigInt& numerator, const BigInt& denominator);
[[nodiscard]] BigInt floor_of(const BigRat& a);
[[nodiscard]] BigInt ceil_of(const BigRat& a);
[[nodiscard]] BigInt round_of(const BigRat& a);  ///< halves away from zero
[[nodiscard]] double to_double(const BigRat& a);
[[nodiscard]] std::optional<BigRat> power(const BigRat& base, const BigRat& exponent);
/// Exact roots only.
[[nodiscard]] std::optional<BigRat> square_root(const BigRat& a);
[[nodiscard]] std::optional<BigRat> cube_root(const BigRat& a);
[[nodiscard]] std::optional<int64_t> to_small(const BigInt& a);

[[nodiscard]] inline BigRat widen(const Rational& a) { return {a.numerator, a.denominator}; }
[[nodiscard]] inline std::optional<Rational> narrow(const BigRat& a) {
  return make_small_fraction(a.numerator, a.denominator);
}

template <class Int>
[[nodiscard]] int compare(const Fraction<Int>& a, const Fraction<Int>& b) {
  const BigInt left = BigInt(a.numerator) * b.denominator;
  const BigInt right = BigInt(b.numerator) * a.denominator;
  return left < right ? -1 : left > right ? 1 : 0;
}

}  // namespace luminal::egraph::language
