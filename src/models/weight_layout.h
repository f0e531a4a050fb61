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

/// Of each matrix of [matrices, rows, columns].
[[nodiscard]] TensorData transposed_each(const TensorData& matrices);
/// Every second entry along the second axis, from the first or from the second on; and both put together again.
[[nodiscard]] TensorData half_of(const TensorData& data, bool second);
[[nodiscard]] TensorData joined_halves(const TensorData& first, const TensorData& second);
/// MXFP4 as Hugging Face's files of gpt-oss have it, [experts, rows, blocks, 16] nibbles, neighbours in a byte, and
/// [experts, rows, blocks] scales, as GGML's blocks, where a byte holds elements 16 apart.
[[nodiscard]] TensorData mxfp4_blocks(const TensorData& nibbles, const TensorData& scales);

/// As f32; of floats.
[[nodiscard]] TensorData widened_floats(const TensorData& data);

}  // namespace luminal::models
