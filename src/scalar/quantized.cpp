#include "luminal/quantized.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/fail.h"
#include "luminal/block_format.h"

namespace luminal {
namespace {

constexpr int64_t kBlock = 32;         // of the dtypes that values are quantised to
constexpr size_t kLargestBlock = 256;  // of all dtypes

void write_half(std::byte* at, float value) {
  const float16 half(value);
  std::memcpy(at, &half.bits, sizeof half.bits);
}

void pack_nibbles(std::byte* packed, std::span<const uint8_t, kBlock> levels) {
  for (size_t j = 0; j < 16; ++j) packed[j] = static_cast<std::byte>(levels[j] | (levels[j + 16] << 4));
}

float inverse_or_zero(float scale) { return scale != 0 ? 1 / scale : 0; }

void quantize_q8_0(const float* x, std::byte* block) {
  float largest = 0;
  for (int64_t i = 0; i < kBlock; ++i) largest = std::max(largest, std::fabs(x[i]));
  const float scale = largest / 127, inverse = inverse_or_zero(scale);
  write_half(block, scale);
  for (int64_t i = 0; i < kBlock; ++i)
    block[2 + i] = static_cast<std::byte>(static_cast<int8_t>(std::round(x[i] * inverse)));
}

/// Level 0 stands for the value of the largest magnitude, sign included, which is therefore nearly exact.
void quantize_q4_0(const float* x, std::byte* block) {
  const float extreme =
      *std::max_element(x, x + kBlock, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
  const float scale = extreme / -8, inverse = inverse_or_zero(scale);
  write_half(block, scale);
  uint8_t levels[kBlock];
  for (int64_t i = 0; i < kBlock; ++i)
    levels[i] = static_cast<uint8_t>(std::clamp(x[i] * inverse + 8.5F, 0.0F, 15.0F));
  pack_nibbles(block + 2, levels);
}

void quantize_q4_1(const float* x, std::byte* block) {
  const auto [low, high] = std::minmax_element(x, x + kBlock);
  const float scale = (*high - *low) / 15, inverse = inverse_or_zero(scale);
  write_half(block, scale);
  write_half(block + 2, *low);
  uint8_t levels[kBlock];
  for (int64_t i = 0; i < kBlock; ++i)
    levels[i] = static_cast<uint8_t>(std::clamp((x[i] - *low) * inverse + 0.5F, 0.0F, 15.0F));
  pack_nibbles(block + 4, levels);
}

using BlockQuantizer = void (*)(const float* x, std::byte* block);

BlockQuantizer block_quantizer(Dtype dtype) {
  constexpr std::pair<Dtype, BlockQuantizer> kQuantizers[] = {
      {Dtype::Q8_0, quantize_q8_0}, {Dtype::Q4_0, quantize_q4_0}, {Dtype::Q4_1, quantize_q4_1}};
  for (const auto& [own, quantizer] : kQuantizers)
    if (own == dtype) return quantizer;
  fail<DtypeError>("[quantize] there is no way to make {} of values; choose q8_0, q4_0 or q4_1", name(dtype));
}

}  // namespace

void dequantize(Dtype dtype, const std::byte* blocks, int64_t first, std::span<float> out) {
  const BlockFormat& format = block_format(dtype);
  const auto elements = static_cast<size_t>(format.block_elements),
             bytes = static_cast<size_t>(format.block_bytes);
  size_t begin = static_cast<size_t>(first) % elements;
  blocks += static_cast<size_t>(first) / elements * bytes;
  const auto part = [&](size_t count) {
    std::array<float, kLargestBlock> values;
    decode_blocks(format, {blocks, bytes}, std::span(values).first(elements));
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(begin), count, out.begin());
    out = out.subspan(count);
    blocks += bytes;
    begin = 0;
  };
  if (begin != 0 && !out.empty()) part(std::min(out.size(), elements - begin));
  const size_t whole = out.size() / elements;
  decode_blocks(format, {blocks, whole * bytes}, out.first(whole * elements));
  out = out.subspan(whole * elements);
  blocks += whole * bytes;
  if (!out.empty()) part(out.size());
}

TensorData dequantize(const TensorData& data) {
  if (!is_quantized(data.dtype))
    fail<DtypeError>("[dequantize] {} is not a block-quantised type", name(data.dtype));
  const int64_t wanted = size_bytes(data.dtype, data.element_count());
  if (static_cast<int64_t>(data.bytes.size()) < wanted)
    fail<ShapeError>("[dequantize] {} values of {} take {} bytes, there are {}", data.element_count(),
                     name(data.dtype), wanted, data.bytes.size());
  TensorData result(Dtype::F32, data.dims);
  dequantize(data.dtype, data.bytes.data(), 0, result.as<float>());
  return result;
}

TensorData quantize(const TensorData& values, Dtype dtype) {
  const BlockQuantizer quantizer = block_quantizer(dtype);
  if (values.dtype != Dtype::F32)
    fail<DtypeError>("[quantize] the values are {}; convert them to f32 first", name(values.dtype));
  TensorData result(dtype, values.dims);  // ShapeError if blocks are not whole
  const float* x = values.as<float>().data();
  std::byte* block = result.bytes.data();
  for (int64_t i = 0; i < values.element_count(); ++i)
    if (!std::isfinite(x[i]))
      fail<Error>("[quantize] value {} is {}; blocks hold finite values only", i, x[i]);
  for (int64_t i = 0; i < values.element_count(); i += kBlock, block += info(dtype).block_bytes)
    quantizer(x + i, block);
  return result;
}

}  // namespace luminal
