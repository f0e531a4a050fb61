#include "search/verification/compare.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/vector_clones.h"
#include "search/verification/element.h"
#include "search/verification/float_format.h"
#include "search/verification/oracle.h"

namespace luminal::search {

namespace {

template <class T>
T element_at(std::span<const std::byte> bytes, size_t i) {
  T element;
  std::memcpy(&element, &bytes[i * sizeof(T)], sizeof(T));
  return element;
}

/// Of subnormal numbers that of the least normal one.
int exponent_of(double value, int lowest, int highest) {
  if (value == 0 || !std::isfinite(value)) return value == 0 ? lowest : highest;
  constexpr int kMantissaBits = 52, kMask = 0x7ff, kBias = 1023;
  const auto stored = static_cast<int>(std::bit_cast<uint64_t>(value) >> kMantissaBits) & kMask;
  return std::clamp(std::max(stored, 1) - kBias, lowest, highest);
}

}  // namespace

Margins::Margins(const VerificationCase::Expectation& expectation) {
  sampled_.fill(-1);
  exact_ = true;
  if (expectation.integers.size() == expectation.positions.size()) return;
  for (size_t i = 0; i < expectation.values.size(); ++i)
    if (expectation.known[i] && std::isfinite(expectation.values[i]))
      note(expectation.values[i], expectation.errors[i]);
  fill_gaps();
}

Margins::Margins(const TensorData& expected, double roundings) {
  sampled_.fill(-1);
  exact_ = !is_float(expected.dtype);
  if (exact_) return;
  double scale = 1;
  visit_dtype(expected.dtype, [&]<class T>(T) {
    for (const T element : expected.as<T>())
      if (const double x = std::abs(widened(element)); std::isfinite(x)) scale = std::max(scale, x);
  });
  sampled_.back() = roundings * format_of(expected.dtype).roundoff * scale;
  fill_gaps();
}

void Margins::add(double value, double error) {
  note(value, std::max(error, exact_ ? 0 : at(value)));
  fill_gaps();
}

void Margins::note(double value, double error) {
  exact_ = exact_ && error == 0;
  double& margin = sampled_[static_cast<size_t>(exponent_of(value, kLowest, kHighest) - kLowest)];
  margin = std::max(margin, error);
}

/// Small results have the error of greater ones at most; above the greatest sample errors grow with results.
void Margins::fill_gaps() {
  by_exponent_ = sampled_;
  double above = -1;
  for (size_t e = by_exponent_.size(); e-- > 0;) {
    if (by_exponent_[e] >= 0)
      above = by_exponent_[e];
    else if (above >= 0)
      by_exponent_[e] = above;
  }
  double below = 0;
  for (double& margin : by_exponent_) {
    if (margin < 0) margin = 2 * below;
    below = margin;
  }
}

double Margins::at(double value) const {
  return by_exponent_[static_cast<size_t>(exponent_of(value, kLowest, kHighest) - kLowest)];
}

Margins::Usual Margins::usual() const {
  constexpr size_t kMagnitudes = 12;  // powers of two below the greatest sample
  size_t greatest = by_exponent_.size() - 1;
  while (greatest > 0 && sampled_[greatest] < 0) --greatest;
  const size_t first = greatest - std::min(greatest, kMagnitudes);
  return {.from = std::ldexp(1.0, static_cast<int>(first) + kLowest),
          .margin = std::ranges::min(std::span(by_exponent_).subspan(first))};
}

constexpr double kLeading = 0.0625;  // of the element: a difference in leading digits

bool is_doubtful(double got, double expected, double margin) {
  constexpr double kLoose = 0.25;
  const double size = std::abs(expected);
  return margin > kLoose * size && std::abs(got - expected) > kLeading * size;
}

namespace {

/// Whether element i holds nothing but one byte.
template <class T>
bool is_filled(const std::byte* bytes, size_t i, std::byte with) {
  std::array<std::byte, sizeof(T)> filled;
  filled.fill(with);
  return std::memcmp(bytes + i * sizeof(T), filled.data(), sizeof(T)) == 0;
}

/// Of `count` elements those that hold something else than `unwritten` bytes in both.
template <class T>
LUMINAL_VECTOR_CLONES int64_t count_written(const std::byte* a, const std::byte* b, size_t count,
                                            std::byte unwritten) {
  // Integers of their width are compared several at a time.
  using Word = std::conditional_t<
      sizeof(T) == 8, uint64_t,
      std::conditional_t<sizeof(T) == 4, uint32_t, std::conditional_t<sizeof(T) == 2, uint16_t, uint8_t>>>;
  static_assert(sizeof(Word) == sizeof(T));
  Word filled;
  std::memset(&filled, static_cast<int>(unwritten), sizeof(Word));
  const auto word_at = [](const std::byte* bytes, size_t i) {
    Word word;
    std::memcpy(&word, bytes + i * sizeof(Word), sizeof(Word));
    return word;
  };
  int32_t written = 0;
  for (size_t i = 0; i < count; ++i) written += word_at(a, i) != filled && word_at(b, i) != filled ? 1 : 0;
  return written;
}

/// Whether all of `got` lie so near to `expected` that none is a mismatch, told without a branch for each: several are
/// looked at at once. False may be wrong.
template <class T>
LUMINAL_VECTOR_CLONES bool are_near(std::span<const T> expected, std::span<const std::byte> got,
                                    const Margins::Usual& usual) {
  int64_t far = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double must = widened(expected[i]), size = std::abs(must),
                 apart = std::abs(widened(element_at<T>(got, i)) - must);
    const bool is_usual = size >= usual.from, is_within = apart <= usual.margin,
               has_leading_digits = apart <= kLeading * size, is_same = apart == 0;
    far |= (is_same | (is_usual & is_within & has_leading_digits)) ? 0 : 1;
  }
  return far == 0;
}

/// All of them; NaN equals NaN.
template <class T>
Mismatches all_mismatches(std::span<const T> expected, std::span<const std::byte> got, const Margins& margins,
                          std::optional<std::byte> unwritten) {
  constexpr size_t kBlock = 1024;
  std::array<std::byte, kBlock * sizeof(T)> nothing;
  nothing.fill(unwritten.value_or(std::byte{}));
  const auto is_unwritten = [&](const void* bytes, size_t i) {
    return unwritten && is_filled<T>(static_cast<const std::byte*>(bytes), i, *unwritten);
  };
  Mismatches found;
  const Margins::Usual usual = margins.usual();
  // Of elements first .. first + count.
  const auto find_in = [&](size_t first, size_t count) {
    for (size_t i = first; i < first + count; ++i) {
      if (std::memcmp(&expected[i], &got[i * sizeof(T)], sizeof(T)) == 0) continue;
      if (is_unwritten(expected.data(), i) || is_unwritten(got.data(), i)) continue;
      const double must = widened(expected[i]), is = widened(element_at<T>(got, i));
      const double margin = margins.exact() ? 0 : margins.at(must);
      if (std::is_integral_v<T> || !agrees(is, must, margin))
        found.beyond.push_back({static_cast<int64_t>(i), is, must, margin});
      else if (is_doubtful(is, must, margin))
        found.doubtful.push_back({static_cast<int64_t>(i), is, must, margin});
    }
  };
  for (size_t first = 0; first < expected.size(); first += kBlock) {
    const size_t count = std::min(kBlock, expected.size() - first);
    const std::byte* must_be = std::as_bytes(expected.subspan(first, count)).data();
    const std::byte* are = &got[first * sizeof(T)];
    const auto is_left_out = [&](const std::byte* bytes) {
      return unwritten && std::memcmp(bytes, nothing.data(), count * sizeof(T)) == 0;
    };
    if (is_left_out(are) || is_left_out(must_be)) continue;
    found.compared +=
        unwritten ? count_written<T>(must_be, are, count, *unwritten) : static_cast<int64_t>(count);
    if (std::memcmp(must_be, are, count * sizeof(T)) == 0) continue;
    constexpr size_t kTogether = 32;
    for (size_t part = first; part < first + count; part += kTogether) {
      const size_t length = std::min(kTogether, first + count - part);
      const bool may_be_near = std::is_floating_point_v<T> && !margins.exact();
      if (may_be_near && are_near<T>(expected.subspan(part, length), got.subspan(part * sizeof(T)), usual))
        continue;
      find_in(part, length);
    }
  }
  return found;
}

double distance(const Mismatch& m) {
  const double distance = std::abs(m.got - m.expected);
  return std::isnan(distance) ? std::numeric_limits<double>::infinity() : distance / (m.margin + 1e-300);
}

/// In turn one of the `furthest` greatest by a measure, and one of `spread` others, or of all where these are few.
template <class Measure>
std::vector<Mismatch> some_of(std::vector<Mismatch> all, size_t furthest, size_t spread,
                              const Measure& measure) {
  if (all.size() <= furthest + spread) spread = all.size();
  furthest = std::min(furthest, all.size());
  std::vector<Mismatch> others;
  for (size_t i = 0; i < spread; ++i) others.push_back(all[i * all.size() / spread]);
  std::ranges::partial_sort(all, all.begin() + static_cast<std::ptrdiff_t>(furthest), std::greater<>(),
                            measure);
  std::vector<Mismatch> some;
  for (size_t i = 0; i < std::max(furthest, spread); ++i) {
    if (i < furthest) some.push_back(all[i]);
    if (i < spread) some.push_back(others[i]);
  }
  return some;
}

}  // namespace

Mismatches mismatches(const TensorData& expected, std::span<const std::byte> got, const Margins& margins,
                      std::optional<std::byte> unwritten) {
  Mismatches all = visit_dtype(expected.dtype, [&]<class T>(T) {
    return all_mismatches<T>(expected.as<T>(), got, margins, unwritten);
  });
  return {.beyond = some_of(std::move(all.beyond), 24, 40, distance),
          .doubtful = some_of(std::move(all.doubtful), 8, 8,
                              [](const Mismatch& m) { return std::abs(m.got - m.expected); }),
          .compared = all.compared};
}

}  // namespace luminal::search
