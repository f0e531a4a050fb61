#pragma once
#include "luminal/shape_tracker.h"
#include "luminal/tensor_data.h"

namespace luminal {

/// A dense copy of what `view` shows of `buffer`. Quantised buffers give f32. Errors: ShapeError if the
/// buffer has not the size the view reads.
[[nodiscard]] TensorData materialize(const TensorData& buffer, const ShapeTracker& view, const DimMap& dims);

}  // namespace luminal
