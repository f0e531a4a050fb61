#include "luminal/dtype.h"

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "base/fail.h"
#include "base/suggest.h"
#include "scalar/typing.h"

namespace luminal {

int64_t size_bytes(Dtype dtype, int64_t elements) {
  const DtypeInfo& i = info(dtype);
  if (elements % i.block_elements != 0)
    fail<ShapeError>("[{}] {} elements are not whole blocks of {}; pad the tensor or choose another dtype",
                     i.name, elements, i.block_elements);
  return elements / i.block_elements * i.block_bytes;
}

bool holds(Dtype dtype, Dtype other) {
  const DtypeInfo &wide = info(dtype), &narrow = info(other);
  if (is_quantized(dtype) || is_quantized(other)) return false;
  if (is_float(other))
    return is_float(dtype) && wide.digits >= narrow.digits &&
           wide.greatest_exponent >= narrow.greatest_exponent;
  if (is_float(dtype)) return wide.digits >= narrow.digits;
  return wide.least <= narrow.least && wide.greatest >= narrow.greatest;
}

int64_t element_bytes(Dtype dtype) {
  if (is_quantized(dtype)) no_plain_type(dtype);
  return info(dtype).block_bytes;
}

Dtype promote(Dtype a, Dtype b) {
  if (is_quantized(a)) no_plain_type(a);
  if (is_quantized(b)) no_plain_type(b);
  if (a == b) return a;
  const DtypeKind kind_a = info(a).kind, kind_b = info(b).kind;
  if (kind_a != kind_b) return kind_a > kind_b ? a : b;
  for (const Dtype both : {a, b, kind_a == DtypeKind::Float ? Dtype::F32 : Dtype::I32})
    if (holds(both, a) && holds(both, b)) return both;
  return Dtype::I64;
}

Dtype accumulation_dtype(Dtype dtype) {
  if (is_half(dtype)) return Dtype::F32;
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

void no_block_type(Dtype dtype) {
  std::vector<std::string_view> names;
  for (const DtypeInfo& i : kDtypeInfos)
    if (i.kind == DtypeKind::Quantized) names.push_back(i.name);
  fail<DtypeError>("[{0}] {0} is not block-quantised; choose one of {1}", name(dtype),
                   fmt::join(names, ", "));
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
