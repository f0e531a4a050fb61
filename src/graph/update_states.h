#pragma once
#include "luminal/graph.h"

namespace luminal {

/// Gives every state its next value, all at once, from what a run left in `graph.value`: for executables that
/// keep values in the graph as they go.
void update_states(Graph& graph);

}  // namespace luminal
