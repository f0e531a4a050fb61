#pragma once
#include <string_view>

#include "base/call_site.h"
#include "base/fail.h"
#include "luminal/graph.h"
#include "luminal/training/loss.h"

namespace luminal::training {

/// Floats, f16 and bf16 as f32. Errors: DtypeError.
[[nodiscard]] GraphTensor predicted(std::string_view loss, const GraphTensor& input);
/// The target in the prediction's dtype. Errors: ShapeError if the dims differ.
[[nodiscard]] GraphTensor matching(std::string_view loss, const GraphTensor& input,
                                   const GraphTensor& target);
[[nodiscard]] GraphTensor reduced(std::string_view loss, const GraphTensor& losses, Reduce reduce);
/// Errors: Error, headed "[what]", that names the first class which is neither in [0, classes) nor ignored.
void check_classes(std::string_view what, const TensorData& targets, int64_t classes, int64_t ignore_index);

}  // namespace luminal::training
