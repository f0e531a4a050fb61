#include "ops/composite/window.h"

namespace luminal::composite {

void check_geometry(const WindowGeometry& geometry) {
  for (size_t i = 0; i < geometry.axes(); ++i) {
    if (geometry.kernel[i].range().max < 1)
      reject("the kernel is {}; give sizes above 0", to_string(geometry.kernel));
    if (geometry.stride[i] < 1)
      reject("the stride is {}; give steps above 0", fmt::join(geometry.stride, " x "));
    if (geometry.padding[i] < 0)
      reject("the padding is {}; give at least 0", fmt::join(geometry.padding, " x "));
    if (geometry.dilation[i] < 1)
      reject("the dilation is {}; give at least 1", fmt::join(geometry.dilation, " x "));
  }
}

GraphTensor batched(const GraphTensor& x, size_t axes, bool& added) {
  const int rank = static_cast<int>(axes) + 2;
  added = x.rank() == rank - 1;
  if (x.rank() != rank && !added) {
    constexpr const char* kSpatial[] = {"", "length", "height, width", "depth, height, width"};
    reject("x is {}; give [batch, channels, {}] or [channels, {}]", x.type().to_string(), kSpatial[axes],
           kSpatial[axes]);
  }
  return added ? x.unsqueeze(0) : x;
}

GraphTensor windows(const GraphTensor& x, const WindowGeometry& geometry, const Shape& behind, Number fill) {
  const size_t n = geometry.axes();
  RangePairs amounts(2);
  for (size_t i = 0; i < n; ++i)
    amounts.emplace_back(geometry.padding[i],
                         behind.empty() ? Expression(geometry.padding[i]) : behind[i] + geometry.padding[i]);
  const GraphTensor padded = x.pad(amounts, fill);
  ShapeTracker view = padded.view();
  for (size_t i = n; i-- > 0;) {
    const int axis = 2 + static_cast<int>(i);
    const Expression reach = geometry.reach(i);
    if (Expression::known_less(padded.dim(axis), reach))
      reject("a window of {} (kernel {}, dilation {}) does not fit in the {} of {} with padding {}; pad more",
             reach.to_string(), geometry.kernel[i].to_string(), geometry.dilation[i],
             padded.dim(axis).to_string(), x.type().to_string(), geometry.padding[i]);
    view = view.pool(axis, geometry.kernel[i], geometry.stride[i], geometry.dilation[i]);
  }
  std::vector<int> order{0, 1};
  for (size_t i = 0; i < n; ++i) order.push_back(2 + 2 * static_cast<int>(i));
  for (size_t i = 0; i < n; ++i) order.push_back(3 + 2 * static_cast<int>(i));
  return padded.with_view(view.permute(order));
}

}  // namespace luminal::composite
