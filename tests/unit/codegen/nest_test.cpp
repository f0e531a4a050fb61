#include "unit/codegen/nest_cases.h"

#include <fmt/format.h>

#include "luminal/error.h"

/// `nest` and `map` through the loop interpreter, against the specs' own definition.
namespace luminal::codegen {
namespace {

using namespace test_cases;

void check_all(std::string_view family, const Target& target) {
  const Schedule& schedule = find_schedule(family);
  for (const Case& c : nest_cases()) {
    const auto candidates = schedule.candidates(c.spec, c.bucket, target);
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

TEST(Schedules, AreFoundByName) {
  EXPECT_EQ(find_schedule("nest").name, "nest");
  EXPECT_EQ(schedules().back()->name, "nest");
  EXPECT_THROW((void)find_schedule("nost"), InternalError);
  EXPECT_EQ(to_string(Parameters{{"tile_n", 2}, {"tile_m", 14}}), "tile_m=14 tile_n=2");
}

}  // namespace
}  // namespace luminal::codegen
