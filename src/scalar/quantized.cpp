#include "luminal/quantized.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/fail.h"

namespace luminal {
namespace {

constexpr int64_t kBlock = 32;

float read_half(const std::byte* at) {
  float16 half;
  std::memcpy(&half.bits, at, sizeof half.bits);
  return half;
}

void write_half(std::byte* at, float value) {
  const float16 half(value);
  std::memcpy(at, &half.bits, sizeof half.bits);
}

/// Nibble `i` of 32: low halves first.
int nibble(const std::byte* packed, int64_t i) {
  const int both = std::to_integer<int>(packed[i % 16]);
  return i < 16 ? both & 15 : both >> 4;
}

void pack_nibbles(std::byte* packed, std::span<const uint8_t, kBlock> levels) {
  for (size_t j = 0; j < 16; ++j) packed[j] = static_cast<std::byte>(levels[j] | (levels[j + 16] << 4));
}

using Q8_0 = DtypeConstant<Dtype::Q8_0>;
using Q4_0 = DtypeConstant<Dtype::Q4_0>;
using Q4_1 = DtypeConstant<Dtype::Q4_1>;

float value_in_block(Q8_0, const std::byte* block, int64_t i) {
  return read_half(block) * static_cast<float>(static_cast<int8_t>(block[2 + i]));
}
float value_in_block(Q4_0, const std::byte* block, int64_t i) {
  return read_half(block) * static_cast<float>(nibble(block + 2, i) - 8);
}
float value_in_block(Q4_1, const std::byte* block, int64_t i) {
  return read_half(block) * static_cast<float>(nibble(block + 4, i)) + read_half(block + 2);
}

float inverse_or_zero(float scale) { return scale != 0 ? 1 / scale : 0; }

void quantize_block(Q8_0, const float* x, std::byte* block) {
  float largest = 0;
  for (int64_t i = 0; i < kBlock; ++i) largest = std::max(largest, std::fabs(x[i]));
  const float scale = largest / 127, inverse = inverse_or_zero(scale);
  write_half(block, scale);
  for (int64_t i = 0; i < kBlock; ++i)
    block[2 + i] = static_cast<std::byte>(static_cast<int8_t>(std::round(x[i] * inverse)));
}

/// Level 0 stands for the value of the largest magnitude, sign included, which is therefore nearly exact.
void quantize_block(Q4_0, const float* x, std::byte* block) {
  const float extreme =
      *std::max_element(x, x + kBlock, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
  const float scale = extreme / -8, inverse = inverse_or_zero(scale);
  write_half(block, scale);
  uint8_t levels[kBlock];
  for (int64_t i = 0; i < kBlock; ++i)
    levels[i] = static_cast<uint8_t>(std::clamp(x[i] * inverse + 8.5F, 0.0F, 15.0F));
  pack_nibbles(block + 2, levels);
}

void quantize_block(Q4_1, const float* x, std::byte* block) {
  const auto [low, high] = std::minmax_element(x, x + kBlock);
  const float scale = (*high - *low) / 15, inverse = inverse_or_zero(scale);
  write_half(block, scale);
  write_half(block + 2, *low);
  uint8_t levels[kBlock];
  for (int64_t i = 0; i < kBlock; ++i)
    levels[i] = static_cast<uint8_t>(std::clamp((x[i] - *low) * inverse + 0.5F, 0.0F, 15.0F));
  pack_nibbles(block + 4, levels);
}

void require_quantized(Dtype dtype, std::string_view op) {
  if (!is_quantized(dtype))
    fail<DtypeError>("[{}] {} is not a block-quantised type; those are q8_0, q4_0 and q4_1", op, name(dtype));
}

}  // namespace

void dequantize(Dtype dtype, const std::byte* blocks, int64_t first, std::span<float> out) {
  require_quantized(dtype, "dequantize");
  const int64_t block_bytes = info(dtype).block_bytes;
  visit_quantized(dtype, [&](auto type) {
    for (size_t k = 0; k < out.size(); ++k) {
      const int64_t i = first + static_cast<int64_t>(k);
      out[k] = value_in_block(type, blocks + i / kBlock * block_bytes, i % kBlock);
    }
  });
}

TensorData dequantize(const TensorData& data) {
  require_quantized(data.dtype, "dequantize");
  const int64_t wanted = size_bytes(data.dtype, data.element_count());
  if (static_cast<int64_t>(data.bytes.size()) < wanted)
    fail<ShapeError>("[dequantize] {} values of {} take {} bytes, there are {}", data.element_count(),
                     name(data.dtype), wanted, data.bytes.size());
  TensorData result(Dtype::F32, data.dims);
  dequantize(data.dtype, data.bytes.data(), 0, result.as<float>());
  return result;
}

TensorData quantize(const TensorData& values, Dtype dtype) {
  require_quantized(dtype, "quantize");
  if (values.dtype != Dtype::F32)
    fail<DtypeError>("[quantize] the values are {}; convert them to f32 first", name(values.dtype));
  TensorData result(dtype, values.dims);  // ShapeError if blocks are not whole
  const float* x = values.as<float>().data();
  std::byte* block = result.bytes.data();
  for (int64_t i = 0; i < values.element_count(); ++i)
    if (!std::isfinite(x[i]))
      fail<Error>("[quantize] value {} is {}; blocks hold finite values only", i, x[i]);
  visit_quantized(dtype, [&](auto type) {
    for (int64_t i = 0; i < values.element_count(); i += kBlock, block += info(dtype).block_bytes)
      quantize_block(type, x + i, block);
  });
  return result;
}

}  // namespace luminal
