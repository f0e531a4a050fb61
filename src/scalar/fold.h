#pragma once
#include <optional>

#include "luminal/scalar.h"

namespace luminal {

/// An existing or simpler value with the same bits (which NaN aside) as the node, or nothing. Only local laws
/// that hold for every value of the operands; nothing is reassociated.
[[nodiscard]] std::optional<Scalar> fold(ScalarBuilder& b, const ScalarNode& node);

}  // namespace luminal
