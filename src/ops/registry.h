#pragma once
#include <span>
#include <string>

#include "luminal/op_def.h"

namespace luminal::ops {

/// The ops of the library, sorted by name.
[[nodiscard]] std::span<const OpDef* const> built_in_ops();

/// What in a record contradicts itself, as the end of a sentence; "" if nothing does.
[[nodiscard]] std::string contradiction(const OpDef& op);

}  // namespace luminal::ops
