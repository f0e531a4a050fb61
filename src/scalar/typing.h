#pragma once
#include <array>
#include <string>

#include "luminal/number.h"
#include "luminal/scalar.h"

namespace luminal {

using OperandTypes = std::array<Dtype, 3>;

/// What is wrong with the node's types or payload given the types of its operands; "" if nothing is.
[[nodiscard]] std::string type_problem(const ScalarNode& node, const OperandTypes& types);

/// The number as a constant's bits, converted as `ScalarBuilder::constant` does.
[[nodiscard]] uint64_t bits_of(Dtype dtype, const Number& value);

/// What one such node costs; its `nodes` is 0.
[[nodiscard]] inline ScalarCost cost_of(ScalarOp op) {
  ScalarCost cost;
  cost.add(op);
  return cost;
}

/// F32 or F64: the floats that nodes compute with.
[[nodiscard]] inline bool is_real(Dtype d) { return is_float(d) && info(d).block_bytes >= 4; }
/// F16 or BF16: floats that are only stored.
[[nodiscard]] inline bool is_half(Dtype d) { return is_float(d) && info(d).block_bytes < 4; }
[[nodiscard]] inline int width_bits(Dtype d) { return static_cast<int>(8 * info(d).block_bytes); }
[[nodiscard]] inline uint64_t width_mask(Dtype d) { return ~uint64_t{0} >> (64 - width_bits(d)); }

}  // namespace luminal
