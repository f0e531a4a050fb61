#pragma once
#include <string>

#include "egraph/core/state.h"

namespace luminal::egraph {

/// A value as messages show it, clipped: of a class some small term, of a container its elements.
[[nodiscard]] std::string shown_value(const EngineState& state, SortId sort, Value v);

}  // namespace luminal::egraph
