#include <gtest/gtest.h>

#include "cases.h"
#include "codegen/schedules/families.h"

namespace luminal::codegen {
namespace {

using namespace test_cases;

/// Y[b,i,j] = X[b,j,i]^2 + Z[b,i,j]
KernelSpec transpose(int64_t batch, int64_t rows, int64_t columns) {
  SpecBuilder s;
  const Expression g = s.axis(batch), i = s.axis(rows), j = s.axis(columns);
  const int x = s.slot(batch * rows * columns, Dtype::I32), z = s.slot(batch * rows * columns, Dtype::I32);
  const Expression out = (g * rows + i) * columns + j;
  const int y =
      s.value({0, 1, 2}, {}, std::nullopt, {s.load(x, (g * columns + j) * rows + i), s.load(z, out)},
              [](ScalarBuilder& b, std::span<const Scalar> v) { return b.add(b.mul(v[0], v[0]), v[1]); });
  s.output(y, out, batch * rows * columns);
  return s.finish().spec;
}

TEST(Map, TransposesInBlocksOfTiles) {
  Target small = avx512();
  small.l2_bytes = 256, small.l1_bytes = 128;
  for (const Target& target : {avx512(), small, avx2()})
    for (const auto& [batch, rows, columns] :
         {std::array<int64_t, 3>{1, 5, 7}, {2, 64, 64}, {1, 70, 131}, {1, 129, 16}, {3, 16, 65}}) {
      const KernelSpec spec = transpose(batch, rows, columns);
      check_candidates(map_schedule(), spec, {}, target, {{}});
      for (const int64_t block : {1, 2, 4})
        for (const int64_t stream : {0, 1})
          check_loops(
              map_schedule(), spec,
              {{"inner", 1}, {"unroll", 1}, {"lanes", 8}, {"stream", stream}, {"tile", 1}, {"block", block}},
              {}, target, {{}});
    }
}

/// A scalar, and rows too short for a vector.
TEST(Map, SingleElements) {
  for (const int64_t columns : {1, 3}) {
    SpecBuilder s;
    const Expression i = s.axis(columns), j = s.axis(columns == 1 ? 1 : 5);
    const int64_t count = columns == 1 ? 1 : 5 * columns;
    const int x = s.slot(count);
    const int y = s.value({0, 1}, {}, {}, {s.load(x, i * (count / columns) + j)},
                          [](ScalarBuilder& b, std::span<const Scalar> v) { return b.add(v[0], v[0]); });
    s.output(y, j * columns + i, count);
    const KernelSpec spec = s.finish().spec;
    check_candidates(map_schedule(), spec, {}, avx2(), {{}});
    check_loops(map_schedule(), spec,
                {{"inner", 1}, {"unroll", 1}, {"lanes", 1}, {"stream", 0}, {"tile", 0}, {"block", 1}}, {},
                avx2(), {{}});
  }
}

TEST(Map, LargeTransposesPassTheCachesBy) {
  const Parameters first = map_schedule().candidates(transpose(1, 2048, 2048), {}, avx512()).at(0).parameters;
  EXPECT_EQ(first.at("tile"), 1);
  EXPECT_EQ(first.at("block"), 4);
  EXPECT_EQ(first.at("stream"), 1);
}

}  // namespace
}  // namespace luminal::codegen
