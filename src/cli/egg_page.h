#pragma once
#include <string>

#include "luminal/egraph.h"

namespace luminal::cli {

/// One HTML page, nothing else needed: how the e-graph grew, what each rule cost, and, if it is small enough
/// to be looked at, its classes with their nodes.
[[nodiscard]] std::string egraph_page(const egraph::EGraph& graph, const egraph::Report& report);

}  // namespace luminal::cli
