#include "luminal/dtype.h"

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "base/fail.h"
#include "base/suggest.h"

namespace luminal {

int64_t size_bytes(Dtype dtype, int64_t elements) {
  const DtypeInfo& i = info(dtype);
  if (elements % i.block_elements != 0)
    fail<ShapeError>("[{}] {} elements are not whole blocks of {}; pad the tensor or choose another dtype",
                     i.name, elements, i.block_elements);
  return elements / i.block_elements * i.block_bytes;
}

int64_t element_bytes(Dtype dtype) {
  if (is_quantized(dtype)) no_plain_type(dtype);
  return info(dtype).block_bytes;
}

Dtype promote(Dtype a, Dtype b) {
  if (is_quantized(a)) no_plain_type(a);
  if (is_quantized(b)) no_plain_type(b);
  if (a == b) return a;
  const DtypeInfo &ia = info(a), &ib = info(b);
  if (ia.kind != ib.kind) return ia.kind > ib.kind ? a : b;
  if (ia.block_bytes != ib.block_bytes) return ia.block_bytes > ib.block_bytes ? a : b;
  return ia.kind == DtypeKind::Float ? Dtype::F32 : Dtype::I32;  // f16 with bf16, i8 with u8
}

Dtype accumulation_dtype(Dtype dtype) {
  if (dtype == Dtype::F16 || dtype == Dtype::BF16) return Dtype::F32;
  return dtype == Dtype::Bool ? Dtype::I64 : dtype;
}

Dtype parse_dtype(std::string_view text) {
  std::vector<std::string> names;
  for (size_t i = 0; i < kDtypeInfos.size(); ++i) {
    if (kDtypeInfos[i].name == text) return static_cast<Dtype>(i);
    names.emplace_back(kDtypeInfos[i].name);
  }
  fail<DtypeError>("[dtype] unknown dtype '{}'; choose one of {}{}", text, fmt::join(names, " "),
                   did_you_mean(text, names));
}

void no_plain_type(Dtype dtype) {
  fail<DtypeError>(
      "[{0}] the block-quantised dtype {0} has no single elements to compute with; cast it to a float dtype "
      "first",
      name(dtype));
}

float16::float16(float value) {
  const auto word = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((word >> 16) & 0x8000U);
  const uint32_t magnitude = word & 0x7fffffffU;
  if (magnitude > 0x7f800000U) {  // NaN stays a quiet NaN
    bits = static_cast<uint16_t>(sign | 0x7e00U | ((magnitude >> 13) & 0x3ffU));
  } else if (magnitude >= 0x47800000U) {  // 65536 and above, infinity
    bits = static_cast<uint16_t>(sign | 0x7c00U);
  } else if (magnitude <
             0x38800000U) {  // below 2^-14: subnormal, rounded by an addition that aligns the bits
    const float aligned = std::bit_cast<float>(magnitude) + 0.5F;
    bits = static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(aligned) - 0x3f000000U));
  } else {
    const uint32_t rounded =
        magnitude + 0xfffU + ((magnitude >> 13) & 1U);  // may carry into the exponent: then infinity
    bits = static_cast<uint16_t>(sign | ((rounded - 0x38000000U) >> 13));
  }
}

float16::operator float() const {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fU, mantissa = bits & 0x3ffU;
  if (exponent == 0) {
    const float value = std::ldexp(static_cast<float>(mantissa), -24);
    return sign != 0 ? -value : value;
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000U | (mantissa << 13));
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

}  // namespace luminal
