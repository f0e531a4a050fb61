#include <gtest/gtest.h>

#include "cases.h"
#include "codegen/emit/llvm.h"
#include "codegen/schedules/families.h"
#include "codegen/schedules/map.h"

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

// --- parts side by side ---

/// Y[i,j] = sum of parts k with factors k + 2, each padded to where it lies along axis `along`.
KernelSpec padded_parts(int64_t rows, int64_t columns, int along, const std::vector<int64_t>& places) {
  SpecBuilder s;
  const Expression i = s.axis(rows), j = s.axis(columns);
  std::vector<Operand> loads;
  for (size_t k = 0; k + 1 < places.size(); ++k) {
    const int64_t first = places[k], length = places[k + 1] - first;
    const Expression at = (along == 0 ? i : j) - first, inside = at.gte(0) & at.lt(length);
    const int slot = s.slot(along == 0 ? length * columns : rows * length);
    loads.push_back(s.load(slot, along == 0 ? at * columns + j : i * length + at, {{inside, 0}}));
  }
  const int y = s.value({0, 1}, {}, std::nullopt, loads, [](ScalarBuilder& b, std::span<const Scalar> x) {
    Scalar sum = b.mul(x[0], b.constant(Dtype::F32, 2));
    for (size_t k = 1; k < x.size(); ++k)
      sum = b.add(sum, b.mul(x[k], b.constant(Dtype::F32, static_cast<double>(k + 2))));
    return sum;
  });
  s.output(y, i * columns + j, rows * columns);
  return s.finish().spec;
}

/// Y[i,j] = where(j < first, A[i,j], B[i,j-first]): two tensors joined.
KernelSpec joined(int64_t rows, int64_t columns, int64_t first) {
  SpecBuilder s;
  const Expression i = s.axis(rows), j = s.axis(columns);
  const int a = s.slot(rows * first), c = s.slot(rows * (columns - first));
  const int y =
      s.value({0, 1}, {}, std::nullopt,
              {s.load(a, i * first + j, {{j.lt(first), 0}}),
               s.load(c, i * (columns - first) + j - first, {{j.gte(first), 0}}), SpecBuilder::number(j)},
              [&](ScalarBuilder& b, std::span<const Scalar> x) {
                return b.select(b.lt(x[2], b.constant(Dtype::I64, first)), x[0], x[1]);
              });
  s.output(y, i * columns + j, rows * columns);
  return s.finish().spec;
}

bool has_pieces(const Candidate& c) { return c.parameters.contains("pieces"); }

TEST(Map, PartsSideBySideAreReadWhereTheyLie) {
  for (const Target& target : {avx512(), avx2()})
    for (const KernelSpec& spec :
         {padded_parts(40, 50, 1, {0, 13, 14, 50}), padded_parts(37, 40, 0, {0, 1, 20, 36, 37}),
          padded_parts(3, 70, 1, {5, 6, 40, 69}), padded_parts(64, 1, 0, {0, 10, 64}),
          padded_parts(9, 4, 1, {0, 1, 2, 3, 4}), joined(9, 33, 32), joined(20, 64, 16)}) {
      check_candidates(map_schedule(), spec, {}, target, {{}});
      const std::vector<map::Cuts> cuts = map::cuts_of(spec);
      ASSERT_EQ(cuts.size(), 1) << spec.to_string();
      const int64_t pieces = cuts[0].axis + 1;
      for (const int64_t unroll : {1, 2, 4})
        for (const int64_t lanes : {1, 8})
          check_loops(map_schedule(), spec,
                      {{"inner", 1},
                       {"unroll", lanes == 1 ? 1 : unroll},
                       {"lanes", lanes},
                       {"stream", 0},
                       {"tile", 0},
                       {"pieces", pieces}},
                      {}, target, {{}});
    }
}

// Each element is one load of one part, without a mask: nothing is read of the others, and nothing is added.
TEST(Map, APieceReadsNothingOfTheOtherParts) {
  for (const KernelSpec& spec :
       {padded_parts(40, 64, 1, {0, 16, 48, 64}), padded_parts(48, 64, 0, {0, 20, 30, 48})}) {
    const Candidate first = map_schedule().candidates(spec, {}, avx512()).at(0);
    ASSERT_TRUE(has_pieces(first)) << text_of(first.parameters);
    const Program p = map_schedule().lower(spec, first.parameters, {}, avx512());
    int64_t loads = 0, sums = 0;
    for_each_instruction(p.stages.at(0).body, [&](const Instruction& i) {
      if (i.kind == Instruction::Kind::Load) {
        ++loads;
        EXPECT_EQ(i.mask, kNone);
      }
      sums += i.kind == Instruction::Kind::Compute && i.op == ScalarOp::Add;
    });
    EXPECT_EQ(loads, 3 * first.parameters.at("unroll")) << p.to_string();
    EXPECT_LE(sums, loads) << "a zero may stay, which makes 0 of -0";
  }
}

// One padded tensor is no choice; nor are places that nobody knows, or more of them than loops are worth.
TEST(Map, WhatIsNoChoiceStaysWhole) {
  const Expression n = Expression::dim("n", {.min = 1, .max = 60});
  SpecBuilder s;
  const Expression i = s.axis(64);
  const int a = s.slot(n), c = s.slot(64);
  const int y =
      s.value({0}, {}, std::nullopt, {s.load(a, i, {{i.lt(n), 0}}), s.load(c, i - n, {{i.gte(n), 0}})},
              [](ScalarBuilder& b, std::span<const Scalar> x) { return b.add(x[0], x[1]); });
  s.output(y, i, 64);
  std::vector<int64_t> many;
  for (int64_t k = 0; k <= 20; ++k) many.push_back(k);
  for (const KernelSpec& spec :
       {s.finish().spec, padded_parts(40, 50, 1, {10, 30}), padded_parts(40, 20, 1, many)})
    for (const Candidate& candidate :
         map_schedule().candidates(spec, {.facts = {{"n", {.min = 1, .max = 60}}}}, avx512()))
      EXPECT_FALSE(has_pieces(candidate)) << spec.to_string();
}

// A processor takes a hundred times as long over a masked load whose page is not there.
TEST(Map, LoadsOfNoLaneStayInMemory) {
  const KernelSpec spec = padded_parts(2048, 1024, 0, {0, 1000, 2048});
  const Program p = map_schedule().lower(
      spec, {{"inner", 1}, {"unroll", 1}, {"lanes", 16}, {"stream", 0}, {"tile", 0}}, {}, avx512());
  const std::string text = emit_llvm(p, {});
  EXPECT_EQ(count_of(text, "@llvm.masked.load.v16f32.p0(ptr %"), 2) << text;
  EXPECT_EQ(count_of(text, ", ptr @luminal_zeros"), 2) << text;
}

}  // namespace
}  // namespace luminal::codegen
