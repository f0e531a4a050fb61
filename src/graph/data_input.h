#pragma once
#include "luminal/graph.h"

namespace luminal {

/// Makes `data` fit an input: checks or infers sizes (binding named dims of the graph), converts the dtype.
/// `shaped` says that data.dims mean something; otherwise only the number of elements does.
/// Errors: ShapeError, DtypeError (floating numbers into an integer tensor, integers beyond its range,
/// quantised against plain), and those of the input's checks (GraphTensor::check_data).
[[nodiscard]] TensorData fit_input(Graph& graph, const Value& input, TensorData data, bool shaped);

/// `data` as another plain dtype, element by element as static_cast does; integers saturate from floats, NaN
/// gives 0.
[[nodiscard]] TensorData convert(const TensorData& data, Dtype dtype);

/// A number as an element, as `convert` would make it.
template <class T>
[[nodiscard]] T fill_value(Number number);

}  // namespace luminal
