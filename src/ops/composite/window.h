#pragma once
#include <span>
#include <vector>

#include "ops/composite/build.h"

/// What convolutions and pools share: images seen through windows.
namespace luminal::composite {

/// Numbers for each spatial axis.
struct WindowGeometry {
  Shape kernel;
  std::vector<int64_t> stride, padding, dilation;
  [[nodiscard]] size_t axes() const { return stride.size(); }
  /// Elements from a window's first to behind its last.
  [[nodiscard]] Expression reach(size_t axis) const { return (kernel[axis] - 1) * dilation[axis] + 1; }
};

template <size_t N>
[[nodiscard]] std::vector<int64_t> listed(const std::array<int64_t, N>& values) {
  return {values.begin(), values.end()};
}

/// Errors: ShapeError for steps below 1 and negative padding.
void check_geometry(const WindowGeometry& geometry);

/// [batch, channels, spatial...], with `axes` spatial axes; `added` tells that the batch was missing.
[[nodiscard]] GraphTensor batched(const GraphTensor& x, size_t axes, bool& added);

/// [N, C, spatial...] as windows [N, C, out..., kernel...]. `behind` is padding at the ends beside the
/// geometry's own. Errors: ShapeError if a window does not fit.
[[nodiscard]] GraphTensor windows(const GraphTensor& x, const WindowGeometry& geometry, const Shape& behind,
                                  Number fill);

}  // namespace luminal::composite
