#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "codegen/target.h"
#include "luminal/graph.h"
#include "luminal/session.h"
#include "search/encode/kernel_graph.h"

namespace luminal::search {

/// A hash over the sources of all that compiles and runs a plan, made by the build: what is kept under it is never
/// older than the code.
[[nodiscard]] std::string_view source_version();

/// All that a search of a program depends on, times aside: parts of a key of the cache.
[[nodiscard]] std::vector<std::string> program_parts(const Graph& graph, const KernelGraph& kernel_graph,
                                                     const codegen::Target& target,
                                                     const codegen::Bucket& bucket,
                                                     const SearchOptions& options);

}  // namespace luminal::search
