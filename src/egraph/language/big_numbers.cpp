#include "egraph/language/big_numbers.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace luminal::egraph::language {
namespace mp = boost::multiprecision;

std::optional<BigInt> parse_big(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.empty() || text[0] == '_') return {};
  std::string digits;
  for (const char c : text) {
    if (c == '_') continue;
    if (c < '0' || c > '9') return {};
    // A leading zero would mean octal to the library.
    if (c != '0' || !digits.empty()) digits += c;
  }
  if (digits.empty()) return BigInt(0);
  const BigInt magnitude(digits);
  return negative ? -magnitude : magnitude;
}

std::string content_key(const BigInt& a) {
  mpz_srcptr number = a.backend().data();
  const size_t limbs = mpz_size(number);
  std::string key = std::to_string(mpz_sgn(number) * static_cast<int64_t>(limbs)) + ":";
  key.append(reinterpret_cast<const char*>(mpz_limbs_read(number)), limbs * sizeof(mp_limb_t));
  return key;
}

// The library's bit operations take no negative numbers; ~a = -a - 1 turns each case into one without.
BigInt bit_and(const BigInt& a, const BigInt& b) {
  if (a < 0 && b < 0) return bit_not(bit_not(a) | bit_not(b));
  if (a < 0) return b - (b & bit_not(a));
  if (b < 0) return a - (a & bit_not(b));
  return a & b;
}

BigInt bit_or(const BigInt& a, const BigInt& b) { return bit_not(bit_and(bit_not(a), bit_not(b))); }

BigInt bit_xor(const BigInt& a, const BigInt& b) {
  const BigInt x = a < 0 ? bit_not(a) : a;
  const BigInt y = b < 0 ? bit_not(b) : b;
  const BigInt result = x ^ y;
  return (a < 0) != (b < 0) ? bit_not(result) : result;
}

uint64_t bit_count(const BigInt& a) { return a == 0 ? 0 : mp::msb(mp::abs(a)) + 1; }

std::optional<BigInt> shift_left(const BigInt& a, int64_t by) {
  if (by < 0 || by > std::numeric_limits<uint32_t>::max()) return {};
  if (a == 0) return a;
  if (bit_count(a) + static_cast<uint64_t>(by) > kMaxBigBits) return {};
  return BigInt(a << static_cast<unsigned>(by));
}

std::optional<BigInt> shift_right(const BigInt& a, int64_t by) {
  if (by < 0 || by > std::numeric_limits<uint32_t>::max()) return {};
  if (static_cast<uint64_t>(by) > bit_count(a)) return BigInt(a < 0 ? -1 : 0);
  return a < 0 ? bit_not(bit_not(a) >> static_cast<unsigned>(by)) : BigInt(a >> static_cast<unsigned>(by));
}

std::optional<BigRat> make_fraction(BigInt numerator, BigInt denominator) {
  if (denominator == 0) return {};
  const BigInt divisor = mp::gcd(numerator, denominator);
  if (divisor > 1) {
    numerator /= divisor;
    denominator /= divisor;
  }
  if (denominator < 0) {
    numerator = -numerator;
    denominator = -denominator;
  }
  return BigRat{std::move(numerator), std::move(denominator)};
}

std::optional<int64_t> to_small(const BigInt& a) {
  if (a < std::numeric_limits<int64_t>::min() || a > std::numeric_limits<int64_t>::max()) return {};
  return static_cast<int64_t>(a);
}

std::optional<Rational> make_small_fraction(const BigInt& numerator, const BigInt& denominator) {
  const std::optional<BigRat> exact = make_fraction(numerator, denominator);
  if (!exact) return {};
  const std::optional<int64_t> top = to_small(exact->numerator), bottom = to_small(exact->denominator);
  if (!top || !bottom) return {};
  return Rational{*top, *bottom};
}

BigInt floor_of(const BigRat& a) {
  BigInt quotient = a.numerator / a.denominator;
  return a.numerator < 0 && quotient * a.denominator != a.numerator ? BigInt(quotient - 1) : quotient;
}

BigInt ceil_of(const BigRat& a) { return -floor_of({-a.numerator, a.denominator}); }

BigInt round_of(const BigRat& a) {
  const BigRat half_more{2 * mp::abs(a.numerator) + a.denominator, 2 * a.denominator};
  const BigInt magnitude = floor_of(half_more);
  return a.numerator < 0 ? -magnitude : magnitude;
}

double to_double(const BigRat& a) {
  if (a.numerator == 0) return 0.0;
  // A quotient of 64 bits whose last one is sticky, so that the hardware's conversion rounds once and right.
  BigInt top = mp::abs(a.numerator), bottom = a.denominator;
  const int64_t shift = 66 - static_cast<int64_t>(bit_count(top)) + static_cast<int64_t>(bit_count(bottom));
  (shift > 0 ? top : bottom) <<= static_cast<unsigned>(std::abs(shift));
  const BigInt quotient = top / bottom;
  const auto dropped = static_cast<unsigned>(bit_count(quotient) - 64);
  auto bits = static_cast<uint64_t>(BigInt(quotient >> dropped));
  if ((quotient >> dropped << dropped) != quotient || quotient * bottom != top) bits |= 1;
  const int64_t exponent = std::clamp<int64_t>(static_cast<int64_t>(dropped) - shift, -5000, 5000);
  const double magnitude = std::ldexp(static_cast<double>(bits), static_cast<int>(exponent));
  return a.numerator < 0 ? -magnitude : magnitude;
}

std::optional<BigRat> power(const BigRat& base, const BigRat& exponent) {
  if (exponent.denominator != 1) return {};
  if (base.numerator == 0) {
    if (exponent.numerator < 0) return {};
    return exponent.numerator == 0 ? BigRat{1, 1} : BigRat{0, 1};
  }
  const BigInt magnitude = mp::abs(exponent.numerator);
  if (magnitude > std::numeric_limits<int64_t>::max()) return {};  // of 1 and -1 too, as in egglog
  const uint64_t bits = std::max(bit_count(base.numerator), bit_count(base.denominator));
  const bool is_unit = mp::abs(base.numerator) == 1 && base.denominator == 1;
  if (is_unit) return BigRat{base.numerator < 0 && magnitude % 2 == 1 ? -1 : 1, 1};
  if (magnitude > kMaxBigBits / bits) return {};
  const auto times = static_cast<unsigned>(magnitude);
  BigInt top = mp::pow(base.numerator, times), bottom = mp::pow(base.denominator, times);
  if (exponent.numerator < 0) std::swap(top, bottom);
  return make_fraction(std::move(top), std::move(bottom));
}

std::optional<BigRat> square_root(const BigRat& a) {
  if (a.numerator <= 0) return {};
  const BigInt top = mp::sqrt(a.numerator), bottom = mp::sqrt(a.denominator);
  if (top * top != a.numerator || bottom * bottom != a.denominator) return {};
  return BigRat{top, bottom};
}

namespace {

std::optional<BigInt> exact_cube_root(const BigInt& a) {
  BigInt root;
  const bool exact = mpz_root(root.backend().data(), a.backend().data(), 3) != 0;
  return exact ? std::optional<BigInt>(root) : std::nullopt;
}

}  // namespace

std::optional<BigRat> cube_root(const BigRat& a) {
  const std::optional<BigInt> top = exact_cube_root(a.numerator), bottom = exact_cube_root(a.denominator);
  if (!top || !bottom) return {};
  return BigRat{*top, *bottom};
}

}  // namespace luminal::egraph::language
