#include "codegen/block_load.h"

#include <gmock/gmock.h>

#include "cases.h"
#include "luminal/block_format.h"
#include "luminal/error.h"
#include "support/effort.h"

/// Kernels that read block-quantised slots, against the specs' own definition, which decodes the blocks.
namespace luminal::codegen {
namespace {

using namespace test_cases;
using testing::HasSubstr;

class BlockLoads : public testing::TestWithParam<Dtype> {
 protected:
  [[nodiscard]] static int64_t elements() { return info(GetParam()).block_elements; }
};

Scalar itself(ScalarBuilder&, std::span<const Scalar> x) { return x[0]; }

/// Y[i, j] = W[j, i + `shift`], zero where that is no column.
KernelSpec turned(Dtype dtype, int64_t rows, int64_t columns, int64_t shift) {
  SpecBuilder s;
  const Expression i = s.axis(columns), j = s.axis(rows);
  const int w = s.slot(rows * columns, dtype);
  std::vector<kernel::Mask> masks;
  if (shift != 0) masks.push_back({(i + shift).lt(columns), 0});
  const int y = s.value({0, 1}, {}, std::nullopt, {s.load(w, j * columns + i + shift, masks)}, itself);
  s.output(y, i * rows + j, rows * columns);
  return s.finish().spec;
}

/// Y[m, n] = sum k: X[m, k] W[n, k].
KernelSpec linear(Dtype dtype, const Expression& m, int64_t n, int64_t k) {
  SpecBuilder s;
  const Expression i = s.axis(m), j = s.axis(n), r = s.axis(k);
  const int x = s.slot(m * k), w = s.slot(n * k, dtype);
  const int y = s.value({0, 1}, {2}, Monoid::Add, {s.load(x, i * k + r), s.load(w, j * k + r)}, product);
  s.output(y, i * n + j, m * n);
  return s.finish().spec;
}

void check_all_schedules(const KernelSpec& spec, const Bucket& bucket, const std::vector<DimMap>& sizes,
                         const std::vector<Target>& targets = {avx512()}) {
  for (const Target& target : targets)
    for (const Schedule* schedule : schedules()) {
      const std::vector<Candidate> candidates = schedule->candidates(spec, bucket, target);
      const size_t step = 1 + candidates.size() / static_cast<size_t>(effort::cases(4, 1000));
      for (size_t i = 0; i < candidates.size(); i += step)
        check_loops(*schedule, spec, candidates[i].parameters, bucket, target, sizes, 1e-6);
    }
}

TEST_P(BlockLoads, CopiesAreDecoded) {
  SpecBuilder s;
  const Expression i = s.axis(4 * elements());
  const int w = s.slot(4 * elements(), GetParam());
  s.output(s.value({0}, {}, std::nullopt, {s.load(w, i)}, itself), i, 4 * elements());
  check_all_schedules(s.finish().spec, {}, {{}});
}

TEST_P(BlockLoads, LanesMayLieInDifferentBlocks) {
  check_all_schedules(turned(GetParam(), 19, elements(), 0), {}, {{}});
}

TEST_P(BlockLoads, LanesMayBeginAnywhereAndBeMasked) {
  check_all_schedules(turned(GetParam(), 3, elements(), 5), {}, {{}});
}

TEST_P(BlockLoads, MatrixTimesVector) {
  const KernelSpec spec = linear(GetParam(), 1, 7, 2 * elements());
  check_all_schedules(spec, {}, {{}}, {avx512(), avx2()});
}

TEST_P(BlockLoads, MatrixTimesMatrixOfNamedSize) {
  const Expression m = Expression::dim("m");
  check_all_schedules(linear(GetParam(), m, 6, elements()), {{{"m", {.min = 0, .max = 5}}}},
                      {{{"m", 5}}, {{"m", 0}}});
}

INSTANTIATE_TEST_SUITE_P(All, BlockLoads, testing::ValuesIn(block_dtypes()),
                         [](const auto& test) { return std::string(name(test.param)); });

std::string loops_of(Dtype dtype, int64_t first, int lanes, int64_t stride) {
  Program program{.name = "test"};
  const int w = add_buffer(program, {.name = "W", .dtype = dtype, .elements = 1024});
  const int y = add_buffer(program, {.name = "Y", .space = Space::Output, .elements = lanes});
  StageBuilder b(program, 1);
  b.store(y, 0, b.load(w, first, lanes, stride));
  b.finish();
  verify(program);
  return program.to_string();
}

TEST(BlockLoad, NeighboursAreOneLoadAndTheirScaleAnother) {
  const std::string text = loops_of(Dtype::Q8_0, 48, 16, 1);
  EXPECT_THAT(text, HasSubstr("u8x16 load W[52]"));  // block 1, level 16
  EXPECT_THAT(text, HasSubstr("u16 load W[34]"));
  EXPECT_THAT(text, Not(HasSubstr("gather")));
}

TEST(BlockLoad, LanesThatShareBytesAreShuffled) {
  const std::string text = loops_of(Dtype::Q4_0, 32, 32, 1);  // the bytes of nibbles twice
  EXPECT_THAT(text, HasSubstr("u8x16 load W[20]"));
  EXPECT_THAT(text, HasSubstr("shuffle"));
  EXPECT_THAT(text, Not(HasSubstr("gather")));
}

TEST(BlockLoad, LevelsOfFewValuesAreLookedUpInRegisters) {
  const std::string text = loops_of(Dtype::Q4_K, 32, 16, 1);
  EXPECT_THAT(text, HasSubstr("permute"));
  EXPECT_THAT(loops_of(Dtype::IQ4_NL, 0, 16, 1), Not(HasSubstr("gather")));  // its table is in registers
  EXPECT_THAT(loops_of(Dtype::Q6_K, 0, 16, 1), Not(HasSubstr("permute")));   // 64 levels
  // Lanes of two groups have no table in common.
  EXPECT_THAT(loops_of(Dtype::Q4_0, 16, 32, 1), Not(HasSubstr("permute")));
}

TEST(BlockLoad, RowsInTheirOwnBlocksAreStridedLoads) {
  EXPECT_THAT(loops_of(Dtype::Q8_0, 3, 8, 64), HasSubstr("u8x8 load W[5] stride 68"));
}

// Element by element, decoding would outweigh the products.
TEST(BlockLoad, TilesReadBlocksFromPackedPanels) {
  const auto candidates =
      find_schedule("contract").candidates(linear(Dtype::Q4_K, 64, 96, 512), {}, avx512());
  ASSERT_FALSE(candidates.empty());
  for (const Candidate& c : candidates) {
    const bool weights_are_rows = c.parameters.at("swap_operands") != 0;
    EXPECT_NE(c.parameters.at(weights_are_rows ? "pack_m" : "pack_n"), 0) << text_of(c.parameters);
  }
}

TEST(BlockLoad, BytesAreNotWrittenAndNoOtherDtypeIsRead) {
  Program program{.name = "test"};
  const int w = add_buffer(program, {.name = "W", .dtype = Dtype::Q8_0, .elements = 32});
  {
    StageBuilder b(program, 1);
    b.store(w, 0, b.load_bytes(w, 0));
    b.finish();
  }
  EXPECT_THROW(verify(program), InternalError);
}

}  // namespace
}  // namespace luminal::codegen
