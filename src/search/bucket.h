#pragma once
#include <map>
#include <string>

#include "codegen/target.h"
#include "search/program.h"

namespace luminal::search {

/// Named dims and what the graph promises of their sizes.
using Dims = std::map<std::string, DimFacts>;
/// Those that a program's kernels, tensors and formulas depend on.
[[nodiscard]] Dims dims_of(const Program& program);

/// The default bucket around sizes: each dim from above half its next power of two up to it, split by whether
/// 16 divides it, as far as the promised sizes reach. Sizes of 0 and 1 are buckets of their own. Dims that
/// `sizes` lacks are left out.
[[nodiscard]] codegen::Bucket bucket_of(const Dims& dims, const DimMap& sizes);

/// Whether the sizes lie in the bucket.
[[nodiscard]] bool holds(const codegen::Bucket& bucket, const DimMap& sizes);

}  // namespace luminal::search
