#pragma once
#include <span>
#include <string_view>

#include "luminal/op_def.h"
#include "op/elements.h"

/// What ops compute, by formulas of the tests' own: the C library's long double functions and 128-bit
/// integers. An op without a formula here (one that a program registered) is judged by its own f64 kernel.
namespace luminal::op_test {

[[nodiscard]] bool has_formula(const OpDef& op);

/// One element of an elementwise op; `dtype` is that of the inputs (of the last one, where they differ).
[[nodiscard]] Exact expected_element(const OpDef& op, const Attributes& attributes, Dtype dtype,
                                     std::span<const Exact> inputs);

struct Bound {
  Exact value;
  long double slack = 0;  ///< what rounding inside the accumulation may add
};
/// A reduction's result over `values`. The reference accumulates in f64, other devices in the accumulation
/// dtype.
[[nodiscard]] Bound expected_reduction(const OpDef& op, Dtype dtype, std::string_view device,
                                       std::span<const Exact> values);

}  // namespace luminal::op_test
