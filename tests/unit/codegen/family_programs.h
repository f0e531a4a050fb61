#pragma once
#include <set>

#include "support/loop_programs.h"
#include "unit/codegen/random_spec.h"
#include "unit/kernel/routed_specs.h"
#include "unit/kernel/variance_specs.h"

/// Programs of schedule families, for targets: the interpreter of the loops says what they give.
namespace luminal::codegen::test_cases {

inline Target avx512_with_dots() {
  Target target = avx512();
  target.dots = true;
  return target;
}

/// Families that may take specs on the target.
inline size_t families_for(const Target& target) {
  return static_cast<size_t>(std::ranges::count_if(
      schedules(), [&](const Schedule* s) { return !s->for_blocks || target.block_threads > 0; }));
}

/// Adds the best candidate of every family that takes the spec, and the worst of them if `both`. Returns the families.
inline std::set<std::string_view> add_programs(std::vector<test::LoopProgram>& programs, const Case& c,
                                               const Target& target, bool both) {
  std::set<std::string_view> families;
  for (const Schedule* schedule : schedules()) {
    auto candidates = points_of(*schedule, c.spec, c.bucket, target);
    if (candidates.size() > 1) candidates.erase(candidates.begin() + 1, candidates.end() - (both ? 1 : 0));
    for (const Candidate& candidate : candidates) {
      families.insert(schedule->name);
      test::LoopProgram& p = programs.emplace_back();
      p.program = schedule->lower(c.spec, candidate.parameters, c.bucket, target);
      p.what = fmt::format("{} {} {}", schedule->name, c.name, to_string(candidate.parameters));
      for (const DimMap& dims : c.sizes) p.runs.push_back({dims, inputs_of(c.spec, dims)});
    }
  }
  return families;
}

inline KernelSpec all_frozen(const KernelSpec& spec) {
  return kernel::with_frozen(spec, std::vector<bool>(spec.slots().size(), true));
}

/// Y[m,n] = sum k: X[m,k] W[n,k], both in blocks.
inline KernelSpec small_product_of_blocks(Dtype left, Dtype right) {
  constexpr int64_t kRows = 5, kColumns = 9, kLength = 64;
  SpecBuilder s;
  const Expression i = s.axis(kRows), j = s.axis(kColumns), r = s.axis(kLength);
  const int x = s.slot(kRows * kLength, left), w = s.slot(kColumns * kLength, right);
  const int y =
      s.value({0, 1}, {2}, Monoid::Add, {s.load(x, i * kLength + r), s.load(w, j * kLength + r)}, product);
  s.output(y, i * kColumns + j, kRows * kColumns);
  return s.finish().spec;
}

/// Between them all families take part, with packed panels, tables, stages that prepare, dots of bytes.
inline std::vector<KernelSpec> specs_of_every_family() {
  const Conv conv{.images = 2, .channels = 3, .height = 9, .width = 8, .filters = 5, .stride = 2};
  const Matmul product{.m = 20, .n = 70, .k = 33, .epilogue = true};
  const Matmul halves{.m = 7, .n = 40, .k = 20, .turned_b = true, .dtype = Dtype::BF16};
  return {product.spec().spec,
          all_frozen(product.spec().spec),
          halves.spec().spec,
          conv.forward().spec,
          conv.weight_gradient().spec,
          conv.input_gradient().spec,
          all_frozen(conv.input_gradient().spec),
          Attention{2, 5, 19, 8, 16, Attention::Mask::Causal}.spec().spec,
          small_product_of_blocks(Dtype::Q8_0, Dtype::Q4_0),
          small_product_of_blocks(Dtype::Q8_0, Dtype::Q8_0),
          kernel::test::RoutedProducts{}.spec(),
          kernel::test::element_of_each_row(7, 20, false),
          kernel::test::Variance{.rows = 3, .length = 2500}.spec()};
}

}  // namespace luminal::codegen::test_cases
