// sin, cos, tan. The argument is reduced exactly for every finite x after Payne and Hanek (1983), in 64-bit
// integers: x * 2/pi modulo 4 needs only a window of the bits of 2/pi, which selects pick by the exponent.
// The polynomials on [-pi/4, pi/4] come from Sollya's fpminimax.
#include <array>
#include <vector>

#include "luminal/scalar_math.h"
#include "scalar/math/cores.h"

namespace luminal::math {
namespace {

/// 2/pi = 0.a2f9836e4e44..., 32 bits a word.
constexpr std::array<uint32_t, 40> kTwoOverPi{
    0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab, 0xdebbc561,
    0xb7246e3a, 0x424dd2e0, 0x06492eea, 0x09d1921c, 0xfe1deb1c, 0xb129a73e, 0xe88235f5, 0x2ebb4484,
    0xe99c7026, 0xb45f7e41, 0x3991d639, 0x835339f4, 0x9c845f8b, 0xbdf9283b, 0x1ff897ff, 0xde05980f,
    0xef2f118b, 0x5a0a6d1f, 0x6d367ecf, 0x27cb09b7, 0x4f463f66, 0x9e5fea2d, 0x7527bac7, 0xebe5f17b,
    0x3d0739f7, 0x8a5292ea, 0x6bfb5fb1, 0x1f8d5d08, 0x56033046, 0xfc7b6bab, 0xf0cfbc20, 0x9af4361d};

/// |x| = (quadrant * pi/2 + angle) modulo 2 pi, |angle| <= pi/4 and a bit.
struct ReducedAngle {
  Term quadrant;  ///< an integer word, of which the low two bits count
  Pair angle;
};

/// `count` words of 32 bits (in I64) from bit `position` on of Zeros words of zeros and 2/pi. `steps` is the
/// number of bits of the largest word index.
template <size_t Zeros>
std::vector<Term> window(ScalarBuilder& b, Term position, size_t count, int steps) {
  const auto word = [](size_t i) {
    return i < Zeros || i - Zeros >= kTwoOverPi.size() ? 0 : uint64_t{kTwoOverPi[i - Zeros]};
  };
  std::vector<Term> candidates;  // pairs of neighbouring words, to be shifted by less than a word
  for (size_t i = 0; i < count + (size_t{1} << steps) - 1; ++i)
    candidates.push_back({&b, b.constant_bits(Dtype::I64, word(i) << 32 | word(i + 1))});
  const Term index = shift_right_logical(position, 5);
  for (int step = steps - 1; step >= 0; --step) {  // a barrel shifter: the high bits of the index first
    const size_t distance = size_t{1} << step;
    const Term bit =
        (index & constant(index, Dtype::I64, int64_t{1} << step)) != constant(index, Dtype::I64, 0);
    for (size_t i = 0; i + distance < candidates.size(); ++i)
      candidates[i] = select(bit, candidates[i + distance], candidates[i]);
    candidates.resize(count + distance - 1, candidates[0]);
  }
  const Term within = position & constant(position, Dtype::I64, 31);
  std::vector<Term> words;
  for (const Term pair : candidates) {
    const Term shifted{&b, b.shift_left(pair.scalar, within.scalar)};
    words.push_back(shift_right_logical(shifted, 32));
  }
  return words;
}

Term low_half(Term x) { return x & constant(x, Dtype::I64, 0xffffffff); }

/// turn * pi/2, pi/2 in two parts.
template <class T>
Pair angle_of(const Real<T>& r, Pair turn, double pi_high, double pi_low) {
  const Pair product = two_product(turn.high, r(pi_high));
  const Term rest = fma(turn.high, r(pi_low), turn.low * r(pi_high)) + product.low;
  return fast_two_sum(product.high, rest);
}

/// Arguments that need no reduction stay as they are: the integers above do not cover small exponents.
template <class T>
ReducedAngle with_small(const Real<T>& r, Term x, Term quadrant, Pair angle) {
  const Term small = x < r(0.78);
  return {select(small, r.integer(0), quadrant),
          {select(small, x, angle.high), select(small, r(0), angle.low)}};
}

// The window begins at the bit of 2/pi that weighs 2 after multiplication by m = |x| / 2^(e - 23), a 24-bit
// integer; the product in units of 2^-62, modulo 4, fits a 64-bit word. Floats come no nearer to a multiple
// of pi/2 than 2^-30 of it, so more than 30 good bits stay.
ReducedAngle reduce(const Real<float>& r, Term x) {
  const Term word = r.word(x);
  const Term exponent = shift_right_logical(word, 23) - r.integer(127);
  const Term m = convert((word & r.integer(0x7fffff)) | r.integer(0x800000), Dtype::I64);
  const Term position = convert(exponent + r.integer(7), Dtype::I64);
  const std::vector<Term> w = window<1>(*x.builder, position, 3, 3);
  const Term product = shift_left(m * w[0], 32) + m * w[1] + shift_right_logical(m * w[2], 32);
  const Term quarter = constant(product, Dtype::I64, int64_t{1} << 61);
  const Term quadrant = convert(shift_right_logical(product + quarter, 62), Dtype::I32);
  // The signed fraction in units of 2^-64, as floats: three pieces that convert exactly.
  const Term fraction = shift_left(product, 2);
  const auto piece = [&](Term bits, double unit) {
    return convert(convert(bits, Dtype::I32), Dtype::F32) * r(unit);
  };
  const Term mask = constant(product, Dtype::I64, (1 << 22) - 1);
  const Term high = piece(shift_right(fraction, 42), 0x1p-22);
  const Term middle = piece(shift_right_logical(fraction, 20) & mask, 0x1p-44);
  const Term low = piece(fraction & constant(product, Dtype::I64, (1 << 20) - 1), 0x1p-64);
  const Pair turn = fast_two_sum(high, middle);
  const Pair angle = angle_of(r, {turn.high, turn.low + low}, 0x1.921fb6p+0, -0x1.777a5cp-25);
  return with_small(r, x, quadrant, angle);
}

/// The low six limbs of 32 bits (in I64) of m * w, least first; m has 53 bits, w six words, most significant
/// first.
std::array<Term, 6> low_product(Term m, const std::vector<Term>& w) {
  const Term m0 = low_half(m), m1 = shift_right_logical(m, 32);
  std::array<Term, 6> limbs;
  Term carry = constant(m, Dtype::I64, 0);
  for (size_t k = 0; k < 6; ++k) {
    const Term first = m0 * w[5 - k];
    Term sum = low_half(first) + carry;
    Term next = shift_right_logical(first, 32);
    if (k > 0) {
      const Term second = m1 * w[6 - k];
      sum = sum + low_half(second);
      next = next + shift_right_logical(second, 32);
    }
    limbs[k] = low_half(sum);
    carry = next + shift_right_logical(sum, 32);
  }
  return limbs;
}

/// The signed 128-bit integer high:low in units of 2^-128, as a pair of doubles.
Pair fraction_of_turn(const Real<double>& r, Term high, Term low) {
  const auto piece = [&](Term bits, double unit) { return r.to_real(bits) * r(unit); };
  const Pair first = fast_two_sum(piece(shift_right(high, 32), 0x1p-32), piece(low_half(high), 0x1p-64));
  const Pair second = fast_two_sum(first.low, piece(shift_right_logical(low, 32), 0x1p-96));
  const Pair turn = fast_two_sum(first.high, second.high);
  return {turn.high, turn.low + (second.low + piece(low_half(low), 0x1p-128))};
}

// As above with 53 bits of m and a window of six words: doubles come within 2^-62 of a multiple of pi/2, the
// fraction of the quadrant keeps 126 bits.
ReducedAngle reduce(const Real<double>& r, Term x) {
  const Term word = r.word(x);
  const Term exponent = shift_right_logical(word, 52) - r.integer(1023);
  const Term m = (word & r.integer((int64_t{1} << 52) - 1)) | r.integer(int64_t{1} << 52);
  const auto limbs = low_product(m, window<2>(*x.builder, exponent + r.integer(10), 6, 6));
  const Term top = shift_left(limbs[5], 32) | limbs[4];
  const Term below = shift_left(limbs[3], 32) | limbs[2];
  const Term quadrant = shift_right_logical(top + r.integer(int64_t{1} << 61), 62);
  const Pair turn =
      fraction_of_turn(r, shift_left(top, 2) | shift_right_logical(below, 62), shift_left(below, 2));
  return with_small(r, x, quadrant, angle_of(r, turn, 0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54));
}

struct SinCos {
  Term sin, cos;
};

/// Of the reduced angle a + low; relative errors of the polynomials 2^-27.9 and 2^-33 (float), 2^-55.9 and
/// 2^-60 (double).
template <class T>
SinCos sin_cos(const Real<T>& r, Pair angle) {
  const Term a = angle.high, z = a * a;
  Term sin_tail, cos_tail;
  if constexpr (Real<T>::kSingle) {
    sin_tail = r.polynomial(z, {-0x1.555546p-3, 0x1.11077ap-7, -0x1.9954e8p-13});
    cos_tail = r.polynomial(z, {0x1.55554ap-5, -0x1.6c0c2ap-10, 0x1.99e914p-16});
  } else {
    sin_tail = r.polynomial(z, {-0x1.5555555555555p-3, 0x1.1111111110c84p-7, -0x1.a01a019ea17bp-13,
                                0x1.71de37b232dbep-19, -0x1.ae6021744cb3bp-26, 0x1.5e11b8cb5de13p-33});
    cos_tail = r.polynomial(z, {0x1.5555555555555p-5, -0x1.6c16c16c168ccp-10, 0x1.a01a019f38b9bp-16,
                                -0x1.27e4fa0382f7ep-22, 0x1.1eeb586d7492ap-29, -0x1.9073ec3ce0df6p-37});
  }
  const Term half = z * r(0.5), one = r(1);
  const Term near = one - half;
  const Term cos = near + (((one - near) - half) + fma(z * z, cos_tail, -(a * angle.low)));
  const Term sin = a + fma(a * z, sin_tail, angle.low * near);
  return {sin, cos};
}

template <class T>
Term odd_quadrant(const Real<T>& r, Term quadrant) {
  return (quadrant & r.integer(1)) != r.integer(0);
}
/// The sign bit, set in quadrants 2 and 3.
template <class T>
Term half_turn_sign(const Real<T>& r, Term quadrant) {
  return shift_left(quadrant & r.integer(2), Real<T>::kMantissaBits + (Real<T>::kSingle ? 7 : 10));
}

template <class T>
Term finite_or_nan(const Real<T>& r, Term magnitude, Term value) {
  return select(magnitude < r.infinity(), value, r.nan());
}

template <class T>
Term sin_core(const Real<T>& r, Term x) {
  const Term magnitude = abs(x);
  const auto [quadrant, angle] = reduce(r, magnitude);
  const auto [sin, cos] = sin_cos(r, angle);
  const Term value = select(odd_quadrant(r, quadrant), cos, sin);
  const Term sign = half_turn_sign(r, quadrant) ^ r.sign_bit(x);
  return finite_or_nan(r, magnitude, r.real(r.word(value) ^ sign));
}

template <class T>
Term cos_core(const Real<T>& r, Term x) {
  const Term magnitude = abs(x);
  const auto [quadrant, angle] = reduce(r, magnitude);
  const auto [sin, cos] = sin_cos(r, angle);
  const Term value = select(odd_quadrant(r, quadrant), sin, cos);
  return finite_or_nan(r, magnitude, r.real(r.word(value) ^ half_turn_sign(r, quadrant + r.integer(1))));
}

template <class T>
Term tan_core(const Real<T>& r, Term x) {
  const Term magnitude = abs(x);
  const auto [quadrant, angle] = reduce(r, magnitude);
  const auto [sin, cos] = sin_cos(r, angle);
  const Term odd = odd_quadrant(r, quadrant);
  const Term value = select(odd, -cos, sin) / select(odd, sin, cos);
  return finite_or_nan(r, magnitude, r.real(r.word(value) ^ r.sign_bit(x)));
}

}  // namespace

Scalar sin(ScalarBuilder& b, Scalar x) {
  return lower_float("sin", b, [](auto r, Term t) { return sin_core(r, t); }, x);
}
Scalar cos(ScalarBuilder& b, Scalar x) {
  return lower_float("cos", b, [](auto r, Term t) { return cos_core(r, t); }, x);
}
Scalar tan(ScalarBuilder& b, Scalar x) {
  return lower_float("tan", b, [](auto r, Term t) { return tan_core(r, t); }, x);
}

}  // namespace luminal::math
