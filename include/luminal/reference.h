#pragma once
#include <memory>
#include <span>
#include <vector>

#include "luminal/op_def.h"
#include "luminal/session.h"
#include "luminal/tensor_data.h"

/// The reference: a plain interpreter of graphs, one op after the other, straight from the op records. It is
/// the oracle that every compiled kernel is checked against. `reference` computes in the graph's own dtypes
/// (sums of floats in f64, rounded once); `reference-f64` computes every floating value in f64, which shows
/// the rounding error of the former.
namespace luminal {

enum class ReferencePrecision { AsWritten, Double };

[[nodiscard]] std::shared_ptr<Session> make_reference_session(
    ReferencePrecision precision = ReferencePrecision::AsWritten);

/// One op on dense inputs, by its record. Shapes and dtypes by the op's rule. Errors: as the op's rule and
/// evaluation.
[[nodiscard]] std::vector<TensorData> evaluate_op(const OpDef& op, const Attributes& attributes,
                                                  std::span<const TensorData> inputs, const DimMap& dims = {},
                                                  uint64_t step = 0);

}  // namespace luminal
