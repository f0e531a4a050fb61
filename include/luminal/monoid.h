#pragma once
#include <array>
#include <cstdint>
#include <limits>
#include <string_view>

#include "luminal/dtype.h"
#include "luminal/number.h"
#include "luminal/scalar_op.h"

/// What a reduction folds with: an associative and commutative operation and its neutral element.
///
///   assert(info(Monoid::Max).op == ScalarOp::Maximum);
///   assert(neutral_element(Monoid::Max, Dtype::I8) == Number(-128));
///
/// Everything that is known of a monoid is in its row of the table. The reference device, kernels, their
/// code and the bounds of verification read it there. A new one: docs/adding_a_dtype.md.
namespace luminal {

enum class Monoid : uint8_t { Add, Mul, Max, Min };

struct MonoidInfo {
  std::string_view name;  ///< in kernels: "m = max j in 1000: ..."
  ScalarOp op;
  double neutral;  ///< in floats; an infinity stands for the least or greatest value of the other dtypes
  bool selects;  ///< the result is one of the operands: nothing rounds, repeating an operand changes nothing
};

/// In the order of Monoid.
inline constexpr std::array kMonoidInfos{
    MonoidInfo{"sum", ScalarOp::Add, 0, false},
    MonoidInfo{"prod", ScalarOp::Mul, 1, false},
    MonoidInfo{"max", ScalarOp::Maximum, -std::numeric_limits<double>::infinity(), true},
    MonoidInfo{"min", ScalarOp::Minimum, std::numeric_limits<double>::infinity(), true},
};

[[nodiscard]] constexpr const MonoidInfo& info(Monoid monoid) {
  return kMonoidInfos.at(static_cast<size_t>(monoid));
}
[[nodiscard]] constexpr std::string_view name(Monoid monoid) { return info(monoid).name; }
/// Folding it with x gives x; the result over nothing.
[[nodiscard]] Number neutral_element(Monoid monoid, Dtype dtype);
/// Whether values of `dtype` can be folded: bool has no sums and products.
[[nodiscard]] constexpr bool folds(Monoid monoid, Dtype dtype) {
  const DtypeKind kind = info(dtype).kind;
  return kind != DtypeKind::Quantized && (info(monoid).selects || kind != DtypeKind::Bool);
}
/// The dtype in which compiled code folds values of `dtype`: f32 for f16 and bf16.
[[nodiscard]] inline Dtype accumulation_dtype(Monoid monoid, Dtype dtype) {
  return info(monoid).selects && !is_float(dtype) ? dtype : accumulation_dtype(dtype);
}

}  // namespace luminal
