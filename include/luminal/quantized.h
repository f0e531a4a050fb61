#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "luminal/tensor_data.h"

/// Block-quantised weights in GGML's layouts: 32 consecutive values share a scale.
///
///     q8_0  34 bytes: f16 d, 32 signed bytes q                      value = d * q
///     q4_0  18 bytes: f16 d, 16 bytes of two nibbles q              value = d * (q - 8)
///     q4_1  20 bytes: f16 d, f16 m, 16 bytes of two nibbles q       value = d * q + m
///
/// The low nibble of byte j holds value j, the high one value j + 16. Little-endian, no padding.
/// Source: GGML, ggml-common.h (layouts) and ggml-quants.c (reference quantisation).
namespace luminal {

/// The values of a block-quantised tensor as f32, which holds them exactly up to one rounding.
/// Errors: DtypeError if the dtype is not block-quantised, ShapeError if the bytes are too few.
[[nodiscard]] TensorData dequantize(const TensorData& data);

/// Values [first, first + out.size()) of a dense run of blocks; need not begin or end at a block.
void dequantize(Dtype dtype, const std::byte* blocks, int64_t first, std::span<float> out);

/// Blocks that hold f32 values as GGML's reference quantisation does: nearest of the block's levels.
/// Errors: DtypeError if `values` is not f32 or `dtype` not block-quantised; ShapeError if the number of
/// values is not a multiple of 32.
[[nodiscard]] TensorData quantize(const TensorData& values, Dtype dtype);

}  // namespace luminal
