#pragma once
#include "unit/codegen/nest_cases.h"
#include "unit/kernel/random_parts.h"

namespace luminal::codegen::test_cases {

/// A random spec as it was made or in canonical form, at two sizes.
inline Case random_case(uint64_t seed) {
  kernel::SpecParts parts = kernel::test::RandomParts(seed).parts();
  KernelSpec spec = seed % 2 == 0 ? KernelSpec(std::move(parts)) : kernel::canonical(std::move(parts)).spec;
  const bool symbolic = !spec.symbols().empty();
  return {fmt::format("seed {}", seed), std::move(spec), symbolic ? bucket_of("n", 1, 6) : Bucket{},
          symbolic ? std::vector<DimMap>{{{"n", 1}}, {{"n", 6}}} : std::vector<DimMap>{{}}, false};
}

}  // namespace luminal::codegen::test_cases
