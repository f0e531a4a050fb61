#pragma once
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codegen/target.h"
#include "luminal/graph.h"
#include "search/encode/kernel_graph.h"

namespace luminal::search {

/// Named dims and what the graph promises of their sizes.
using Dims = std::map<std::string, DimFacts>;
/// Those that a program's kernels, tensors and formulas depend on.
[[nodiscard]] Dims dims_of(const KernelGraph& kernel_graph);
/// Adds those of a formula, with all that it promises of them.
void collect_dims(const Expression& formula, Dims& dims);

/// The default bucket around sizes: each dim from above half its next power of two up to it, split by whether
/// 16 divides it, as far as the promised sizes reach. Sizes of 0 and 1 are buckets of their own. Dims that
/// `sizes` lacks are left out.
[[nodiscard]] codegen::Bucket bucket_of(const Dims& dims, const DimMap& sizes);

/// The bucket, lowered until the graph's views take its greatest sizes, where kernels are measured, as they
/// take `sizes`: what two dims may be together (rows of a cache that are filled and that come) no single dim
/// says.
[[nodiscard]] codegen::Bucket admitted(const Graph& graph, codegen::Bucket bucket, const DimMap& sizes);

/// Other sizes of the bucket than its top, where tails are: its least ones, and from there on as many as a
/// vector has lanes, so that every remainder comes up for each dim. Without those that the graph's views do
/// not take together; the least ones first.
[[nodiscard]] std::vector<DimMap> sizes_to_judge(const Graph& graph, const codegen::Bucket& bucket);

/// Whether the graph's views that take sizes `known` take others too.
[[nodiscard]] bool takes_sizes(const Graph& graph, const DimMap& known, const DimMap& sizes);

/// Whether the sizes lie in the bucket.
[[nodiscard]] bool holds(const codegen::Bucket& bucket, const DimMap& sizes);

/// The part of a bucket that a spec's dims are in.
[[nodiscard]] codegen::Bucket restricted(const codegen::Bucket& bucket, const kernel::KernelSpec& spec);
/// Of a list of sizes those that differ for a spec, the first of each kind.
[[nodiscard]] std::vector<DimMap> distinct_for(const kernel::KernelSpec& spec, std::span<const DimMap> list);
[[nodiscard]] std::string to_string(const codegen::Bucket& bucket);  ///< "batch 33..64 /16"

}  // namespace luminal::search
