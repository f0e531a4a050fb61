#pragma once
#include <string>

#include "luminal/graph.h"

namespace luminal::training {

/// What to do about a loss that is not finite: the data or the weight that it comes from, if one is to blame.
[[nodiscard]] std::string remedy(const GraphTensor& loss);

}  // namespace luminal::training
