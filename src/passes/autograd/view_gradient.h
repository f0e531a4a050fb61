#pragma once
#include "luminal/graph.h"

namespace luminal::autograd {

/// Carries the gradient of a value seen through `view` back to the value: each movement step is undone by its
/// adjoint, what a step read more than once is summed. Shapes: gradient view.dims() -> view.physical_dims().
/// Errors: Error if a step has no inverse.
[[nodiscard]] GraphTensor through_view(Graph& graph, const GraphTensor& gradient, const ShapeTracker& view);

/// `gradient` of a whole buffer as a handle that sees the buffer through `view` sees it; padding shows 0.
[[nodiscard]] GraphTensor seen_through(const GraphTensor& gradient, const ShapeTracker& view);

/// `step` with `extra` axes behind, which it leaves alone. Its own free axes stay last.
[[nodiscard]] MovementStep with_trailing_axes(MovementStep step, const Shape& extra);

/// How many elements there are where named dims have a usual size: for comparing one form with another.
[[nodiscard]] double typical_elements(const Shape& dims);

}  // namespace luminal::autograd
