#pragma once
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "kernel/spec.h"

/// Sets of axes as bit masks: what most questions about a spec come down to.
namespace luminal::kernel {

using AxisSet = uint64_t;
inline constexpr int kMaxAxes = 64;

[[nodiscard]] constexpr AxisSet axis_bit(int axis) { return AxisSet{1} << axis; }
[[nodiscard]] constexpr int first_axis(AxisSet set) { return std::countr_zero(set); }
[[nodiscard]] constexpr int axis_count(AxisSet set) { return std::popcount(set); }
template <class F>
void for_each_axis(AxisSet set, F&& f) {
  for (; set != 0; set &= set - 1) f(first_axis(set));
}

/// Index variables in it. Those beyond kMaxAxes - 1 are an InternalError.
[[nodiscard]] AxisSet axes_of(const Expression& e);
[[nodiscard]] AxisSet axes_of(std::span<const int> axes);
[[nodiscard]] std::vector<int> list_of(AxisSet set);
/// What an operand depends on: its index and masks, or the axes of the value it reads.
[[nodiscard]] AxisSet axes_of(const Operand& operand, std::span<const Value> values);
/// The axes that each node of a value's body depends on.
[[nodiscard]] std::vector<AxisSet> node_axes(const Value& v, std::span<const Value> values);
/// Free and reduced.
[[nodiscard]] inline AxisSet all_axes(const Value& v) { return axes_of(v.axes) | axes_of(v.reduced); }

/// Index variables i0.. of these extents.
[[nodiscard]] std::vector<Expression> axis_variables(std::span<const Expression> extents);

/// The row-major index of these axes, and how many elements they have.
[[nodiscard]] Expression row_major(std::span<const int> axes, std::span<const Expression> extents);
[[nodiscard]] Expression elements_of(std::span<const int> axes, std::span<const Expression> extents);

/// The axes of `index` with their strides, innermost first, if `index` is a row-major index of a dense box:
/// each stride is the product of the extents within. `elements` must be what all of them make. Empty
/// otherwise.
struct DenseAxis {
  int axis = 0;
  Expression stride = 1;
};
[[nodiscard]] std::vector<DenseAxis> dense_order(const Expression& index,
                                                 std::span<const Expression> extents);

/// A size to compare by where named dims have none yet: each counts as about a thousand within its facts.
[[nodiscard]] double typical_size(const Expression& e);

/// Whole numbers of moderate size as integers (but for -0), so that 0 and 0.0 make one spec.
[[nodiscard]] Number plain_number(const Number& number);

/// The number as a constant of `dtype`, by the scalar IR's conversion.
[[nodiscard]] Scalar number_constant(ScalarBuilder& b, Dtype dtype, const Number& number);

}  // namespace luminal::kernel
