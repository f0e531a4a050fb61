#pragma once
#include <set>
#include <string>

#include "codegen/target.h"
#include "search/program.h"

namespace luminal::search {

/// Named dims that a program's kernels, tensors and formulas depend on.
[[nodiscard]] std::set<std::string> dims_of(const Program& program);

/// The default bucket around sizes: each dim from above half its next power of two up to it, split by whether
/// 16 divides it. Sizes of 0 and 1 are buckets of their own. Dims that `sizes` lacks are left out.
[[nodiscard]] codegen::Bucket bucket_of(const std::set<std::string>& dims, const DimMap& sizes);

/// Whether the sizes lie in the bucket.
[[nodiscard]] bool holds(const codegen::Bucket& bucket, const DimMap& sizes);

}  // namespace luminal::search
