#include "symbolic/interval.h"

#include <algorithm>

#include "base/fail.h"

namespace luminal::symbolic {
namespace {

int64_t add_end(int64_t a, int64_t b, int64_t infinity) {
  if (!finite(a) || !finite(b)) return infinity;
  return saturate(int128{a} + b);
}

// One corner of a product: 0 times infinity is 0, because the other end is what reaches infinity.
int64_t mul_end(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  if (!finite(a) || !finite(b)) return (a < 0) == (b < 0) ? kInfinity : kMinusInfinity;
  return saturate(int128{a} * b);
}

// One corner of a quotient with b >= 1.
int64_t div_end(int64_t a, int64_t b) {
  if (!finite(a)) return a;
  if (b == kInfinity) return a < 0 ? -1 : 0;
  return floor_div(a, b);
}

Range div_positive(Range a, Range b) {
  return {std::min(div_end(a.min, b.min), div_end(a.min, b.max)),
          std::max(div_end(a.max, b.min), div_end(a.max, b.max))};
}

int64_t negate_end(int64_t x) {
  return x == kMinusInfinity ? kInfinity : x == kInfinity ? kMinusInfinity : -x;
}
Range negate(Range r) { return {negate_end(r.max), negate_end(r.min)}; }

Range join(Range a, Range b) { return {std::min(a.min, b.min), std::max(a.max, b.max)}; }

}  // namespace

void overflow(const char* operation, int64_t a, int64_t b) {
  fail<ShapeError>("[Expression] {} {} {} does not fit in 64 bits; use smaller dims", a, operation, b);
}

Range add(Range a, Range b) {
  return {add_end(a.min, b.min, kMinusInfinity), add_end(a.max, b.max, kInfinity)};
}

Range mul(Range a, Range b) {
  const auto corners = {mul_end(a.min, b.min), mul_end(a.min, b.max), mul_end(a.max, b.min),
                        mul_end(a.max, b.max)};
  return {std::min(corners), std::max(corners)};
}

Range floor_div(Range a, Range b) {
  // 0 divides nothing: evaluation stops there, so the range of results is that of the other divisors.
  const bool positive = b.max > 0, negative = b.min < 0;
  if (!positive && !negative) return {};
  const Range with_positive = positive ? div_positive(a, {std::max<int64_t>(b.min, 1), b.max}) : Range{};
  if (!negative) return with_positive;
  const Range flipped = negate(b);
  const Range with_negative = div_positive(negate(a), {std::max<int64_t>(flipped.min, 1), flipped.max});
  return positive ? join(with_positive, with_negative) : with_negative;
}

Range floor_mod(Range a, Range b) {
  Range result{0, 0};
  if (b.max > 0) {
    result.max = b.max == kInfinity ? kInfinity : b.max - 1;
    if (a.min >= 0) result.max = std::min(result.max, a.max);
  }
  if (b.min < 0) {
    result.min = b.min == kMinusInfinity ? kMinusInfinity : b.min + 1;
    if (a.max <= 0) result.min = std::max(result.min, a.min);
  }
  return result;
}

}  // namespace luminal::symbolic
