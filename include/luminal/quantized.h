#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "luminal/tensor_data.h"

/// Block-quantised weights: whole tensors to f32 and back. block_format.h describes what their bytes mean.
/// Source: GGML, ggml-quants.c (reference quantisation).
namespace luminal {

/// The values of a block-quantised tensor as f32, which holds them exactly up to one rounding.
/// Errors: DtypeError if the dtype is not block-quantised, ShapeError if the bytes are too few.
[[nodiscard]] TensorData dequantize(const TensorData& data);

/// Values [first, first + out.size()) of a dense run of blocks; need not begin or end at a block.
void dequantize(Dtype dtype, const std::byte* blocks, int64_t first, std::span<float> out);

/// Blocks that hold f32 values as GGML's reference quantisation does: nearest of the block's levels.
/// Errors: DtypeError if `values` is not f32 or `dtype` not q8_0, q4_0 or q4_1; ShapeError if the number of
/// values is not a multiple of 32.
[[nodiscard]] TensorData quantize(const TensorData& values, Dtype dtype);

/// Blocks of random bytes whose values are finite, the greatest of a block between 1/4 and 4 in magnitude; or whole
/// numbers, not all of them 0. They are drawn from some hundred different blocks of the dtype: what tests and timings
/// compute with. Errors: DtypeError if the dtype is not block-quantised. Any number of threads may call it.
[[nodiscard]] TensorData random_blocks(Dtype dtype, std::vector<int64_t> dims, uint64_t seed,
                                       bool whole_numbers = false);

}  // namespace luminal
