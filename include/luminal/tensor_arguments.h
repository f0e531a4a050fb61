#pragma once
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <source_location>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "luminal/expression.h"
#include "luminal/number.h"

/// What functions of tensors take beside tensors: axes, positions, numbers in braces.
/// Thread safety: as any value (luminal.h).
namespace luminal {

using Where = std::source_location;

/// Axes of a reduction: one or several, negative ones from the end. Default-constructed: all axes.
class Axes {
 public:
  Axes() = default;
  Axes(int axis) : axes_{axis}, all_(false) {}
  Axes(std::initializer_list<int> axes) : axes_(axes), all_(false) {}
  Axes(std::vector<int> axes) : axes_(std::move(axes)), all_(false) {}
  /// Sorted, non-negative. Errors: ShapeError if out of range or repeated.
  [[nodiscard]] std::vector<int> resolve(int rank, std::string_view op) const;

 private:
  std::vector<int> axes_;
  bool all_ = true;
};

/// Numbers in nested braces: {{1, 2}, {3, 4}}.
class NestedList {
 public:
  template <class T>
    requires std::integral<T> || std::floating_point<T>
  NestedList(T value) : value_(Number(value)) {}
  NestedList(std::initializer_list<NestedList> items) : items_(items), is_list_(true) {}
  /// Dims and numbers in order. Errors: ShapeError if ragged.
  [[nodiscard]] std::pair<std::vector<int64_t>, std::vector<Number>> flatten() const;

 private:
  Number value_;
  std::vector<NestedList> items_;
  bool is_list_ = false;
};

/// The positions [start, end) of an axis, every `step`th, as NumPy's start:end:step. Constants count from the
/// end if negative and are clamped.
struct Slice {
  Expression start = 0, end = INT64_MAX, step = 1;
};
struct NewAxis {};   ///< a new axis of size 1
struct Ellipsis {};  ///< as many whole axes as are left over

/// What stands in brackets behind a tensor, for its axes in order; several entries go in braces. A number (or
/// an integer formula) takes one position and drops the axis, a Slice keeps it; axes not named are whole.
///
///   GraphTensor row = x[0], number = x[-1][2], part = x[{0, Slice{1, 5}}], last = x[Expression("n") - 1];
///   GraphTensor every_other = x[{Ellipsis{}, Slice{.step = 2}, NewAxis{}}];
struct Subscript {
  struct Entry {
    std::variant<Expression, Slice, NewAxis, Ellipsis> value;
    template <class T>
      requires std::integral<T>
    Entry(T position) : value(Expression(position)) {}
    Entry(Expression position) : value(std::move(position)) {}
    Entry(Slice slice) : value(std::move(slice)) {}
    Entry(NewAxis axis) : value(axis) {}
    Entry(Ellipsis rest) : value(rest) {}
  };
  std::vector<Entry> entries;
  Where where;
  template <std::convertible_to<Entry> T>
  Subscript(T&& entry, Where w = Where::current()) : entries{Entry(std::forward<T>(entry))}, where(w) {}
  Subscript(std::initializer_list<Entry> list, Where w = Where::current()) : entries(list), where(w) {}
};

/// (start, end) of each axis, or (before, after) for pad.
using RangePairs = std::vector<std::pair<Expression, Expression>>;

/// Which inputs get the gradient of a maximum when several are equal (PyTorch's choices differ by op).
enum class Ties { Split, First };

}  // namespace luminal
