#pragma once
#include <string>

#include "luminal/op_def.h"

namespace luminal::ops {

/// Runs an elementwise op's lowering and its kernel on the record's samples (on a few plain numbers if it has
/// none), in every dtype that it takes and with each of its variants. What differs, as the end of a sentence;
/// "" if they agree within `ulp`.
[[nodiscard]] std::string lowering_fault(const OpDef& op);

}  // namespace luminal::ops
