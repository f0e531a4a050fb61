#pragma once
#include <array>
#include <string>

#include "luminal/scalar.h"

namespace luminal {

using OperandTypes = std::array<Dtype, 3>;

/// What is wrong with the node's types or payload given the types of its operands; "" if nothing is.
[[nodiscard]] std::string type_problem(const ScalarNode& node, const OperandTypes& types);

/// The number as a constant's bits, converted as `ScalarBuilder::constant` does.
[[nodiscard]] uint64_t bits_of(Dtype dtype, double value);

/// What one such node costs; its `nodes` is 0.
[[nodiscard]] inline ScalarCost cost_of(ScalarOp op) {
  ScalarCost cost;
  cost.add(op);
  return cost;
}

/// F32 or F64: the floats that nodes compute with.
[[nodiscard]] inline bool is_real(Dtype d) { return d == Dtype::F32 || d == Dtype::F64; }
/// F16 or BF16: floats that are only stored.
[[nodiscard]] inline bool is_half(Dtype d) { return d == Dtype::F16 || d == Dtype::BF16; }
/// Whether every value of `from` is one of `to`.
[[nodiscard]] bool converts_exactly(Dtype from, Dtype to);
[[nodiscard]] inline int width_bits(Dtype d) { return static_cast<int>(8 * info(d).block_bytes); }
[[nodiscard]] inline uint64_t width_mask(Dtype d) { return ~uint64_t{0} >> (64 - width_bits(d)); }

}  // namespace luminal
