#include "search/verification/row_fold.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "base/vector_clones.h"
#include "search/verification/float_format.h"

namespace luminal::search {

FoldedRows::FoldedRows(std::vector<int64_t> dims, std::span<const int64_t> folded_axes)
    : dims_(std::move(dims)), strides_(dims_.size(), 1) {
  for (size_t a = dims_.size(); a-- > 1;) strides_[a - 1] = strides_[a] * dims_[a];
  for (size_t a = 0; a < dims_.size(); ++a) {
    const bool is_folded = std::ranges::find(folded_axes, static_cast<int64_t>(a)) != folded_axes.end();
    (is_folded ? folded_ : kept_).push_back(a);
    if (is_folded) length_ *= dims_[a];
  }
}

int64_t FoldedRows::offset_of(int64_t number, std::span<const size_t> axes) const {
  int64_t offset = 0;
  for (size_t k = axes.size(); k-- > 0; number /= dims_[axes[k]])
    offset += number % dims_[axes[k]] * strides_[axes[k]];
  return offset;
}

std::vector<int64_t> FoldedRows::positions(std::span<const int64_t> rows, int64_t first,
                                           int64_t count) const {
  std::vector<int64_t> offsets;  // of a row's elements
  offsets.reserve(static_cast<size_t>(count));
  const int64_t inner = folded_.empty() ? 1 : dims_[folded_.back()];
  const int64_t step = folded_.empty() ? 0 : strides_[folded_.back()];
  for (int64_t element = first; element < first + count;) {
    const int64_t begin = element % inner, end = std::min(inner, begin + first + count - element);
    const int64_t base = offset_of(element - begin, folded_);
    for (int64_t i = begin; i < end; ++i) offsets.push_back(base + i * step);
    element += end - begin;
  }
  std::vector<int64_t> positions(rows.size() * offsets.size());
  int64_t* next = positions.data();
  for (const int64_t row : rows) {
    const int64_t base = offset_of(row, kept_);
    for (const int64_t offset : offsets) *next++ = base + offset;
  }
  return positions;
}

RowFold::RowFold(Monoid monoid, Dtype result, Dtype terms, int64_t length, RoundingRules rules)
    : monoid_(monoid),
      result_(result),
      terms_(terms),
      length_(static_cast<double>(length)),
      rules_(rules),
      loops_(fold_loops(monoid, terms)) {
  begin();
}

void RowFold::begin() {
  loops_.fill(accumulator_.data(), 1);
  totals_ = {};
  known_ = true;
  unpromised_ = false;
}

void RowFold::add(const Oracle::Samples& terms, size_t first, size_t count) {
  const auto width = static_cast<size_t>(element_bytes(terms_));
  loops_.fold_all(accumulator_.data(), terms.values.bytes.data() + first * width,
                  static_cast<int64_t>(count));
  const auto holds = [&](const Oracle::Flags& flags, uint8_t value) {
    return !flags.empty() && std::memchr(flags.data() + first, value, count) != nullptr;
  };
  if (holds(terms.known, 0) || holds(terms.overflowed, 1)) known_ = false;
  if (holds(terms.unpromised, 1)) unpromised_ = true;
  if (is_float(result_))
    add_errors(terms.values.as<double>().subspan(first, count),
               std::span(terms.errors).subspan(first, count));
}

namespace {

constexpr size_t kLanes = 32;

/// What terms come to: errors and magnitudes are added up, what is not finite has none.
struct TermTotals {
  std::array<double, kLanes> magnitude{}, error{}, largest{};
  std::array<int64_t, kLanes> broken{};  ///< not 0: one of the terms is no whole number
};

LUMINAL_VECTOR_CLONES TermTotals totals_of(std::span<const double> terms, std::span<const double> errors) {
  constexpr double kLargest = std::numeric_limits<double>::max();
  constexpr double kAllWhole = 0x1p52;  // from here on; below, the sum with it is rounded to a whole number
  TermTotals sums;
  const auto add = [&](size_t first, size_t lanes) {
    for (size_t lane = 0; lane < lanes; ++lane) {
      const double size = std::abs(terms[first + lane]), e = errors[first + lane];
      const bool is_large = size >= kAllWhole, is_whole = (size + kAllWhole) - kAllWhole == size;
      sums.magnitude[lane] += size <= kLargest ? size : 0;
      sums.error[lane] += e;
      sums.largest[lane] = sums.largest[lane] < e ? e : sums.largest[lane];
      sums.broken[lane] |= (is_large | is_whole) ? 0 : 1;
    }
  };
  const size_t whole_rounds = terms.size() / kLanes * kLanes;
  for (size_t first = 0; first < whole_rounds; first += kLanes) add(first, kLanes);
  add(whole_rounds, terms.size() - whole_rounds);
  return sums;
}

}  // namespace

void RowFold::add_errors(std::span<const double> terms, std::span<const double> errors) {
  const TermTotals totals = totals_of(terms, errors);
  for (size_t lane = 0; lane < std::min(kLanes, terms.size()); ++lane) {
    totals_.magnitude += totals.magnitude[lane];
    totals_.error += totals.error[lane];
    totals_.largest_error = std::max(totals_.largest_error, totals.largest[lane]);
    totals_.whole = totals_.whole && totals.broken[lane] == 0;
  }
  if (monoid_ != Monoid::Mul) return;
  for (size_t i = 0; i < terms.size(); ++i)
    if (errors[i] != 0)
      totals_.relative_error +=
          std::abs(terms[i]) > 0 ? errors[i] / std::abs(terms[i]) : std::numeric_limits<double>::infinity();
}

double RowFold::error_of(double result) {
  constexpr double kPromised = 0x1p-24;  // of the greatest number: what the terms of a sum may add up to
  const FloatFormat accumulated = format_of(accumulation_dtype(result_));
  const double u = accumulated.roundoff;
  const double steps = (rules_.independent ? 4 * std::sqrt(length_) : std::max(4.0, length_)) * u;
  switch (monoid_) {
    case Monoid::Max:
    case Monoid::Min:
      return totals_.largest_error;
    case Monoid::Add: {
      // In some orders a part of the sum overflows.
      if (totals_.magnitude > accumulated.largest) known_ = false;
      if (!std::isfinite(result) || totals_.magnitude > kPromised * accumulated.largest) unpromised_ = true;
      // Sums of integers that the accumulator holds are exact in any order.
      const bool is_exact = totals_.whole && totals_.error == 0 && totals_.magnitude * u <= 1 &&
                            (rules_.small_integers || totals_.magnitude == std::abs(result));
      return is_exact ? 0 : totals_.error + steps * totals_.magnitude;
    }
    case Monoid::Mul: {  // Relative errors add.
      if (!std::isfinite(result)) unpromised_ = true;
      const double relative = steps + totals_.relative_error;
      return relative == 0 ? 0 : relative * std::abs(result);
    }
  }
  return 0;
}

void RowFold::finish(Oracle::Samples& rows, size_t r) {
  const auto width = static_cast<size_t>(element_bytes(rows.values.dtype));
  loops_.finish(accumulator_.data(), rows.values.bytes.data() + r * width, 1);
  if (!rows.errors.empty()) {
    const double result = rows.values.as<double>()[r];
    const double error = error_of(result);
    // A maximum of scores of which some are minus infinity is as uncertain as the others.
    rows.errors[r] = std::isfinite(result) ? error : 0;
  }
  rows.known[r] = known_ ? 1 : 0;
  if (unpromised_) {
    rows.unpromised.resize(rows.known.size());
    rows.unpromised[r] = 1;
  }
  begin();
}

}  // namespace luminal::search
