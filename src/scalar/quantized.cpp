#include "luminal/quantized.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/fail.h"
#include "luminal/block_format.h"
#include "scalar/block_encode.h"

namespace luminal {
namespace {

constexpr size_t kLargestBlock = 256;  // of all dtypes

void require_quantizable(Dtype dtype) {
  if (dtype != Dtype::Q8_0 && dtype != Dtype::Q4_0 && dtype != Dtype::Q4_1)
    fail<DtypeError>("[quantize] there is no way to make {} of values; choose q8_0, q4_0 or q4_1",
                     name(dtype));
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
  require_quantizable(dtype);
  if (values.dtype != Dtype::F32)
    fail<DtypeError>("[quantize] the values are {}; convert them to f32 first", name(values.dtype));
  values.check_bytes("quantize");
  TensorData result(dtype, values.dims);  // ShapeError if blocks are not whole
  const auto x = values.as<float>();
  for (size_t i = 0; i < x.size(); ++i)
    if (!std::isfinite(x[i]))
      fail<Error>("[quantize] value {} is {}; blocks hold finite values only", i, x[i]);
  encode_finite_blocks(block_format(dtype), x, result.bytes);
  return result;
}

}  // namespace luminal
