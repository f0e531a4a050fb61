#pragma once
#include <span>
#include <string>

#include "luminal/shape_tracker.h"

/// The movement steps themselves: each builds its map both ways over index variables, nothing else. Checks
/// that need no knowledge of a view happen here too; sizes that cannot be compared become conditions of the
/// step.
namespace luminal::symbolic {

/// `axis` counted from 0; negative ones count from the end. ShapeError unless it is one of `rank`.
[[nodiscard]] int normal_axis(std::string_view op, int axis, int rank, const Shape& dims);
/// ShapeError if a tensor or view of these dims has more elements than 64 bits count, whatever sizes the
/// named ones take (0 aside).
void check_countable(std::string_view op, std::span<const Expression> dims);
/// Index variables i0.. with these extents.
[[nodiscard]] std::vector<Expression> coordinates(std::span<const Expression> dims);
/// Row-major flat index of `coordinates` in `dims`.
[[nodiscard]] Expression flatten(std::span<const Expression> dims, std::span<const Expression> coordinates);
/// The coordinates in `dims` of a flat index that lies within.
[[nodiscard]] std::vector<Expression> unflatten(std::span<const Expression> dims, const Expression& flat);

[[nodiscard]] MovementStep permute_step(const Shape& dims, std::span<const int> order);
[[nodiscard]] MovementStep expand_step(const Shape& dims, int axis, const Expression& size);
[[nodiscard]] MovementStep merge_step(const Shape& dims, int first, int last);
[[nodiscard]] MovementStep split_step(const Shape& dims, int axis, const Expression& inner);
[[nodiscard]] MovementStep reshape_step(const Shape& dims, Shape to);
[[nodiscard]] MovementStep slice_step(const Shape& dims, ShapeTracker::Pairs ranges);
[[nodiscard]] MovementStep slice_along_step(const Shape& dims, int axis, const Expression& start,
                                            const Expression& end, const Expression& step);
[[nodiscard]] MovementStep pad_step(const Shape& dims, ShapeTracker::Pairs amounts, Number fill);
[[nodiscard]] MovementStep unsqueeze_step(const Shape& dims, int axis);
[[nodiscard]] MovementStep squeeze_step(const Shape& dims, int axis);
[[nodiscard]] MovementStep select_step(const Shape& dims, int axis, const Expression& position);
[[nodiscard]] MovementStep flip_step(const Shape& dims, int axis);
[[nodiscard]] MovementStep pool_step(const Shape& dims, int axis, const Expression& window,
                                     const Expression& stride, const Expression& dilation);
[[nodiscard]] MovementStep strided_step(const Expression& elements, Shape dims,
                                        std::span<const Expression> strides);

}  // namespace luminal::symbolic
