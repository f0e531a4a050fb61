#include "unit/codegen/nest_cases.h"

#include <fmt/format.h>

#include "codegen/schedules/task_grid.h"
#include "luminal/error.h"

/// `nest` and `map` through the loop interpreter, against the specs' own definition.
namespace luminal::codegen {
namespace {

using namespace test_cases;

void check_all(std::string_view family, const Target& target) {
  const Schedule& schedule = find_schedule(family);
  for (const Case& c : nest_cases()) {
    const auto candidates = points_of(schedule, c.spec, c.bucket, target);
    if (family == "map" && !c.elementwise) {
      EXPECT_TRUE(candidates.empty()) << c.name;
      continue;
    }
    ASSERT_FALSE(candidates.empty()) << c.name;
    for (const Candidate& candidate : candidates) {
      SCOPED_TRACE(fmt::format("{} {}", c.name, to_string(candidate.parameters)));
      EXPECT_GT(candidate.predicted_us, 0);
      check_loops(schedule, c.spec, candidate.parameters, c.bucket, target, c.sizes, c.tolerance);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(NestSchedule, EqualsTheDefinitionOnVectorsOf64Bytes) { check_all("nest", avx512()); }
TEST(NestSchedule, EqualsTheDefinitionOnVectorsOf32Bytes) { check_all("nest", avx2()); }
TEST(MapSchedule, EqualsTheDefinitionOnVectorsOf64Bytes) { check_all("map", avx512()); }
TEST(MapSchedule, EqualsTheDefinitionOnVectorsOf32Bytes) { check_all("map", avx2()); }

TEST(MapSchedule, InteriorsOfPaddedLoadsHaveNoMasks) {
  const Case c = padded(3, 70, 7);
  const Program p = find_schedule("map").lower(
      c.spec, {{"inner", 1}, {"unroll", 1}, {"lanes", 16}, {"stream", 0}, {"tile", 0}}, c.bucket, avx512());
  int masked = 0, plain = 0;
  for_each_instruction(p.stages[0].body, [&](const Instruction& i) {
    if (i.kind == Instruction::Kind::Load) ++(i.mask == kNone ? plain : masked);
  });
  EXPECT_EQ(plain, 1);
  EXPECT_GE(masked, 1);
}

// Rows of 14 windows of 2 fill vectors together; what a window has once is read once and repeated.
TEST(NestSchedule, NarrowWindowsAreReadWithoutGathers) {
  const Case c = windows(6, 14, 2);
  const auto candidates = find_schedule("nest").candidates(c.spec, c.bucket, avx512());
  const Program p = find_schedule("nest").lower(c.spec, candidates[0].parameters, c.bucket, avx512());
  EXPECT_EQ(candidates[0].parameters.at("inner"), 2) << to_string(candidates[0].parameters);
  int shuffles = 0, gathers = 0;
  for (const Stage& stage : p.stages)
    for_each_instruction(stage.body, [&](const Instruction& i) {
      shuffles += i.kind == Instruction::Kind::Shuffle ? 1 : 0;
      gathers += i.kind == Instruction::Kind::Gather || i.kind == Instruction::Kind::Scatter ? 1 : 0;
    });
  EXPECT_EQ(shuffles, 2);
  EXPECT_EQ(gathers, 0);
}

// Max pooling, 3 x 3 by stride 2: inside, windows are read without masks, two loads for every second element.
TEST(NestSchedule, WindowsThatLieInsideHaveNoMasks) {
  const auto pool = [](int64_t height, int64_t width) {
    SpecBuilder s;
    const int64_t oh = (height - 1) / 2 + 1, ow = (width - 1) / 2 + 1;
    const Expression n = s.axis(2), y = s.axis(oh), x = s.axis(ow), u = s.axis(3), v = s.axis(3);
    const int image = s.slot(2 * height * width);
    const Expression fy = y * 2 + u - 1, fx = x * 2 + v - 1;
    const int most = s.value({0, 1, 2}, {3, 4}, Monoid::Max,
                             {s.load(image, (n * height + fy) * width + fx,
                                     {{fy.gte(0) & fy.lt(height) & fx.gte(0) & fx.lt(width),
                                       Number(-std::numeric_limits<double>::infinity())}})},
                             [](ScalarBuilder&, std::span<const Scalar> e) { return e[0]; });
    s.output(most, (n * oh + y) * ow + x, 2 * oh * ow);
    return s.finish().spec;
  };
  const Schedule& nest = find_schedule("nest");
  const Parameters rows{{"inner", 1}, {"stored", 0}, {"lanes", 16}};
  const Program p = nest.lower(pool(40, 112), rows, {}, avx512());
  int masked = 0, plain = 0;
  for_each_instruction(p.stages[0].body, [&](const Instruction& i) {
    if (i.kind == Instruction::Kind::Load) ++(i.mask == kNone ? plain : masked);
  });
  EXPECT_EQ(plain, 1) << "of an unrolled window";
  EXPECT_EQ(masked, 1);
  for (const auto& [height, width] : {std::pair{40, 112}, {7, 9}, {33, 65}, {5, 128}})
    for (const Target& target : {avx512(), avx2()}) {
      check_candidates(nest, pool(height, width), {}, target, {{}});
      check_loops(nest, pool(height, width), {{"inner", 1}, {"stored", 0}, {"lanes", 8}}, {}, target, {{}});
    }
}

// Attention's scores, or what lies between two products, made anew for each column took hundreds of times as long.
TEST(NestSchedule, SumsWithinSumsAreMadeOnceForARow) {
  const KernelSpec specs[] = {
      two_products(100, 384, 1536, 384, false, {}, {}).spec,
      two_products("n", 384, 1536, 384, true, {}, bucket_of("n", 65, 128)).spec,
      Attention{.heads = 8, .queries = 500, .keys = 500, .size = 64, .columns = 64}.spec().spec};
  for (const KernelSpec& spec : specs) {
    const auto loops = plain_loops(spec, bucket_of("n", 65, 128), avx512());
    EXPECT_EQ(loops[0].parameters.at("stored"), 2) << spec.to_string();
    for (const Candidate& c : loops) {
      if (c.parameters.at("stored") == 2) continue;
      EXPECT_GT(c.predicted_us, 2 * loops[0].predicted_us) << to_string(c.parameters);
    }
    // No plan takes them for a kernel that stores nothing.
    for (const Candidate& c : find_schedule("nest").candidates(spec, bucket_of("n", 65, 128), avx512()))
      EXPECT_NE(c.parameters.at("stored"), 2) << to_string(c.parameters);
  }
  const KernelSpec large = two_products(2, 3, 4'000'000, 64, false, {}, {}).spec;
  for (const Candidate& c : plain_loops(large, {}, avx512()))
    EXPECT_NE(c.parameters.at("stored"), 2) << "16 MB for a row of 64";
}

TEST(NestSchedule, IndicesThatAreOnlyConvertedLeaveAVectorItsLanes) {
  EXPECT_EQ(natural_lanes(views().spec, avx512()), 16);                     // f32 of an index
  EXPECT_EQ(natural_lanes(repeats(3, 10, 2, {{}}, {}).spec, avx512()), 8);  // an index is added to others
}

TEST(NestSchedule, RowsThatNearlyFillAVectorAreTakenTogether) {
  const Case c = windows(6, 7, 2);  // of 14 elements
  const auto candidates = find_schedule("nest").candidates(c.spec, c.bucket, avx512());
  EXPECT_EQ(candidates[0].parameters.at("inner"), 2) << to_string(candidates[0].parameters);
  EXPECT_EQ(candidates[0].parameters.at("lanes"), 16);
}

TEST(Schedules, AreFoundByName) {
  EXPECT_EQ(find_schedule("nest").name, "nest");
  EXPECT_EQ(schedules().back()->name, "nest");
  EXPECT_THROW((void)find_schedule("nost"), InternalError);
  EXPECT_EQ(to_string(Parameters{{"tile_n", 2}, {"tile_m", 14}}), "tile_m=14 tile_n=2");
}

}  // namespace
}  // namespace luminal::codegen
