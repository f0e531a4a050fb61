#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "scalar/monoid.h"
#include "search/verification/oracle.h"

namespace luminal::search {

/// Where the elements of a reduction's rows lie in its operand, row-major. A row is what folds to one element of the
/// result; its elements are numbered in row-major order over the folded axes.
class FoldedRows {
 public:
  FoldedRows(std::vector<int64_t> dims, std::span<const int64_t> folded_axes);
  [[nodiscard]] int64_t length() const { return length_; }
  /// Positions of the elements [first, first + count) of each of these rows, one row after the other.
  [[nodiscard]] std::vector<int64_t> positions(std::span<const int64_t> rows, int64_t first,
                                               int64_t count) const;

 private:
  /// Of an element by its number among those along some axes, in row-major order.
  [[nodiscard]] int64_t offset_of(int64_t number, std::span<const size_t> axes) const;

  std::vector<int64_t> dims_, strides_;
  std::vector<size_t> kept_, folded_;  ///< axes
  int64_t length_ = 1;
};

/// How the roundings of a sum add up.
struct RoundingRules {
  bool independent = true, small_integers = false;  ///< see Oracle
};

/// Folds the terms of one row after the other, a piece at a time, with what is known of their errors.
class RowFold {
 public:
  /// `terms`: the dtype in which they are held.
  RowFold(Monoid monoid, Dtype result, Dtype terms, int64_t length, RoundingRules rules);
  /// Elements [first, first + count) of `terms` are next in the row.
  void add(const Oracle::Samples& terms, size_t first, size_t count);
  /// The row is complete: element r of `rows`, not yet rounded to the dtype of the result. The next row begins.
  void finish(Oracle::Samples& rows, size_t r);

 private:
  /// Of the terms so far; what is not finite has no magnitude.
  struct Totals {
    double magnitude = 0, error = 0, largest_error = 0;
    double relative_error = 0;  ///< of a product
    bool whole = true;          ///< all terms are whole numbers
  };
  void begin();
  void add_errors(std::span<const double> terms, std::span<const double> errors);
  [[nodiscard]] double error_of(double result);

  Monoid monoid_;
  Dtype result_, terms_;
  double length_;
  RoundingRules rules_;
  FoldLoops loops_;
  std::array<std::byte, 16> accumulator_{};
  Totals totals_;
  bool known_ = true, unpromised_ = false;
};

}  // namespace luminal::search
