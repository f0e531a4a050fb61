#pragma once
#include <memory>

#include "luminal/models/decoder.h"
#include "models/model_file.h"

namespace luminal::models {

struct WeightTotals {
  int64_t count = 0, bytes = 0;
};
/// Weights as inputs that are read from the file when they are first needed. `totals` must live as long as the result.
/// Errors, when asked: FormatError for a tensor of another size.
[[nodiscard]] DecoderWeights weights_of(Graph& cx, const std::shared_ptr<ModelFile>& file,
                                        WeightTotals& totals);

/// Errors: FormatError if the file has tensors that nobody asked for.
void refuse_unused(const ModelFile& file);

}  // namespace luminal::models
