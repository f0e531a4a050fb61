#pragma once
#include "luminal/tensor_data.h"

/// In what order files keep the same weights.
namespace luminal::models {

/// Of a matrix of any plain dtype.
[[nodiscard]] TensorData transposed(const TensorData& matrix);

/// Rows of queries or keys as GGUF files keep them, where the elements that turn together are neighbours, from
/// [heads, 2, half]; and back. Errors: ShapeError if the rows are not pairs for each head.
[[nodiscard]] TensorData paired_rows(const TensorData& weight, int64_t heads);
[[nodiscard]] TensorData parted_rows(const TensorData& weight, int64_t heads);

/// As f32; of floats.
[[nodiscard]] TensorData widened_floats(const TensorData& data);

}  // namespace luminal::models
