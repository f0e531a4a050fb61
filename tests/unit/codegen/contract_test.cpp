#include <gtest/gtest.h>

#include "cases.h"
#include "codegen/schedules/families.h"

namespace luminal::codegen {
namespace {

using namespace test_cases;

const Schedule& contract() { return contract_schedule(); }

TEST(Contract, AllCandidatesOfMatrixProductsInAllTranspositions) {
  for (const bool a : {false, true})
    for (const bool b : {false, true})
      for (const Target& target : {avx512(), avx2()})
        check_candidates(contract(),
                         Matmul{.m = 17, .n = 37, .k = 19, .turned_a = a, .turned_b = b}.spec().spec, {},
                         target, {{}});
}

TEST(Contract, EpiloguesBatchesAndTypes) {
  for (const Dtype dtype : {Dtype::F32, Dtype::F64, Dtype::F16, Dtype::BF16, Dtype::I32, Dtype::I64})
    check_candidates(
        contract(),
        Matmul{.m = 9, .n = 19, .k = 12, .batch = 3, .epilogue = true, .dtype = dtype}.spec().spec, {},
        avx512(), {{}}, dtype == Dtype::F16 || dtype == Dtype::BF16 ? 1e-2 : 0);
}

TEST(Contract, ConvolutionsAndTheirGradients) {
  const Conv cases[] = {
      {.images = 3, .channels = 4, .height = 6, .width = 7, .filters = 5},
      {.images = 2, .channels = 1, .height = 9, .width = 20, .filters = 6, .pad = 0},
      {.images = 2, .channels = 3, .height = 8, .width = 9, .filters = 4, .stride = 2},
      {.images = 1, .channels = 5, .height = 5, .width = 6, .filters = 7, .side = 1, .pad = 0}};
  for (const Conv& c : cases)
    for (const Target& target : {avx512(), avx2()}) {
      check_candidates(contract(), c.forward().spec, {}, target, {{}});
      check_candidates(contract(), c.weight_gradient().spec, {}, target, {{}});
      // The gradient of one channel sums over all there is on one side: no axis is left to that side alone.
      if (c.channels > 1) check_candidates(contract(), c.input_gradient().spec, {}, target, {{}});
    }
}

TEST(Contract, CornersOfTheParameterSpace) {
  const auto matmul = Matmul{.m = 11, .n = 35, .k = 21, .turned_b = true, .epilogue = true}.spec();
  const auto conv = Conv{.images = 3, .channels = 2, .height = 5, .width = 6, .filters = 5};
  const KernelSpec specs[] = {matmul.spec, conv.forward().spec, conv.weight_gradient().spec};
  for (const KernelSpec& spec : specs)
    for (const int64_t exchange : {0, 1})
      for (const int64_t pack : {0, 1, 2, 12, 20, 10, 21})
        for (const auto& [tile_m, tile_n, task_m, task_n, depth, splits] :
             {std::array<int64_t, 6>{3, 1, 1, 1, 1, 1}, {4, 2, 100, 100, 2, 2}, {17, 1, 2, 1, 0, 3}}) {
          const Parameters p{{"exchange", exchange}, {"tile_m", tile_m},    {"tile_n", tile_n},
                             {"task_m", task_m},     {"task_n", task_n},    {"depth", depth},
                             {"splits", splits},     {"pack_m", pack / 10}, {"pack_n", pack % 10}};
          check_loops(contract(), spec, p, {}, avx2(), {{}});
        }
}

/// More columns than are packed in one go, the last panel in part; past the caches where they are small.
TEST(Contract, ManyPanelsPackedTogether) {
  for (const int64_t l2 : {int64_t{1} << 20, int64_t{1} << 10})
    for (const bool turned : {false, true})
      for (const int64_t n : {2100, 2048}) {
        Target target = avx2();
        target.l2_bytes = l2;
        const Parameters p{{"exchange", 0}, {"tile_m", 3}, {"tile_n", 2}, {"task_m", 1}, {"task_n", 7},
                           {"depth", 0},    {"splits", 1}, {"pack_m", 0}, {"pack_n", 2}};
        check_loops(contract(), Matmul{.m = 3, .n = n, .k = 5, .batch = 2, .turned_b = turned}.spec().spec, p,
                    {}, target, {{}});
      }
}

/// A few rows against a large matrix: it streams by once, unpacked.
TEST(Contract, SkinnyProductsStream) {
  for (const Target& target : {avx512(), avx2()}) {
    const KernelSpec spec = Matmul{.m = 8, .n = 4096, .k = 4096}.spec().spec;
    const Parameters first = contract().candidates(spec, {}, target).at(0).parameters;
    EXPECT_EQ(first.at("pack_n"), 0) << to_string(first);
    EXPECT_LE(first.at("depth"), 16) << to_string(first);
    EXPECT_GT(first.at("depth"), 0) << to_string(first);
  }
  const Parameters p{{"exchange", 0}, {"tile_m", 5}, {"tile_n", 2}, {"task_m", 1}, {"task_n", 3},
                     {"depth", 8},    {"splits", 1}, {"pack_m", 0}, {"pack_n", 0}};
  check_loops(contract(), Matmul{.m = 5, .n = 75, .k = 29}.spec().spec, p, {}, avx2(), {{}});
}

TEST(Contract, SymbolicDimsAtSeveralSizes) {
  const DimFacts facts{.min = 0, .max = 40};
  const Bucket bucket{{{"s", facts}}};
  const Expression s = Expression::dim("s", facts);
  const std::vector<DimMap> sizes{{{"s", 40}}, {{"s", 17}}, {{"s", 1}}, {{"s", 0}}};
  check_candidates(contract(), Matmul{.m = s, .n = 21, .k = 10}.spec().spec, bucket, avx512(), sizes);
  check_candidates(contract(),
                   Matmul{.m = 7, .n = s, .k = 10, .turned_b = true, .epilogue = true}.spec().spec, bucket,
                   avx512(), sizes);
  check_candidates(contract(), Matmul{.m = 7, .n = 21, .k = s, .turned_a = true}.spec().spec, bucket,
                   avx512(), sizes);
  const Conv conv{.images = s, .channels = 2, .height = 4, .width = 5, .filters = 3};
  const std::vector<DimMap> few{{{"s", 5}}, {{"s", 1}}};
  check_candidates(contract(), conv.forward().spec, bucket, avx512(), few);
  check_candidates(contract(), conv.weight_gradient().spec, bucket, avx512(), few);
}

TEST(Contract, TakesNothingElse) {
  SpecBuilder s;
  const Expression i = s.axis(4), k = s.axis(8);
  const int a = s.slot(32);
  s.output(s.value({0}, {1}, Combiner::Add, {s.load(a, i * 8 + k)},
                   [](ScalarBuilder& b, std::span<const Scalar> x) { return b.mul(x[0], x[0]); }),
           i, 4);
  EXPECT_TRUE(contract().candidates(s.finish().spec, {}, avx512()).empty());
}

}  // namespace
}  // namespace luminal::codegen
