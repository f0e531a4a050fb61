#include <gtest/gtest.h>

#include "cases.h"
#include "codegen/emit/llvm.h"
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

int count_of(std::string_view text, std::string_view part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// Y[i,j] = A[i,j] * f32(1 / (1 - S)) / sqrt(V[i]), S of f64.
KernelSpec scaled_rows(int64_t rows, int64_t columns) {
  SpecBuilder s;
  const Expression i = s.axis(rows), j = s.axis(columns);
  const int a = s.slot(rows * columns), scale = s.slot(1, Dtype::F64), v = s.slot(rows);
  const int y = s.value(
      {0, 1}, {}, std::nullopt, {s.load(a, i * columns + j), s.load(scale, 0), s.load(v, i)},
      [](ScalarBuilder& b, std::span<const Scalar> x) {
        const Scalar one = b.constant(Dtype::F64, 1);
        const Scalar factor = b.convert(b.div(one, b.sub(one, x[1])), Dtype::F32);
        return b.div(b.mul(x[0], factor), b.sqrt(b.add(b.mul(x[2], x[2]), b.constant(Dtype::F32, 2))));
      });
  s.output(y, i * columns + j, rows * columns);
  return s.finish().spec;
}

// A scalar of the launch is computed once for a task, a row's once for the row, whatever the lanes do.
TEST(Map, WhatDoesNotDependOnTheElementLeavesItsLoops) {
  const KernelSpec spec = scaled_rows(37, 200);
  const auto candidates = map_schedule().candidates(spec, {}, avx512());
  EXPECT_EQ(candidates.at(0).parameters.at("lanes"), 16) << "f64 scalars do not narrow the vectors";
  const Program p = map_schedule().lower(
      spec, {{"inner", 1}, {"unroll", 2}, {"lanes", 16}, {"stream", 0}, {"tile", 0}}, {}, avx512());
  const std::string text = emit_llvm(p, {});
  EXPECT_EQ(count_of(text, "fdiv double"), 1);
  EXPECT_EQ(count_of(text, "call float @llvm.sqrt"), 1);
  EXPECT_EQ(count_of(text, "llvm.sqrt.v"), 0);
  for (const Target& target : {avx512(), avx2()})
    check_candidates(map_schedule(), spec, {}, target, {{}}, 1e-6);
}

// The memory of a slot that is read where the output is written may be the output's, that of others not.
TEST(Map, SlotsThatNoOutputReplacesAreKept) {
  const Program p = map_schedule().lower(
      scaled_rows(3, 70), {{"inner", 1}, {"unroll", 1}, {"lanes", 16}, {"stream", 0}, {"tile", 0}}, {},
      avx512());
  for (const Buffer& b : p.buffers) {
    const bool replaceable = b.space != Space::Slot || b.elements == Expression(210);
    EXPECT_EQ(b.is_kept, !replaceable) << b.name;
  }
}

}  // namespace
}  // namespace luminal::codegen
