#include "unit/codegen/random_spec.h"

#include "support/effort.h"

/// Every family that takes a random spec lowers it right; `nest` takes all.
namespace luminal::codegen {
namespace {

using namespace test_cases;

TEST(Schedules, RandomSpecsEqualTheirDefinition) {
  std::map<std::string_view, int> taken;
  const uint64_t first = effort::seed(1);
  for (uint64_t seed = first; seed < first + static_cast<uint64_t>(effort::cases(100, 5000)); ++seed) {
    const Case c = random_case(seed);
    const Target target = seed % 3 == 0 ? avx2() : avx512();
    for (const Schedule* schedule : schedules()) {
      auto candidates = schedule->candidates(c.spec, c.bucket, target);
      if (!candidates.empty()) ++taken[schedule->name];
      if (candidates.size() > 3) candidates.erase(candidates.begin() + 2, candidates.end() - 1);
      for (const Candidate& candidate : candidates) {
        SCOPED_TRACE(fmt::format("{} {} {}", schedule->name, c.name, to_string(candidate.parameters)));
        try {
          check_loops(*schedule, c.spec, candidate.parameters, c.bucket, target, c.sizes);
        } catch (const std::exception& e) {
          FAIL() << e.what() << c.spec.to_string();
        }
        if (testing::Test::HasFailure()) return;
      }
    }
  }
  EXPECT_EQ(taken["nest"], effort::cases(100, 5000));
  EXPECT_GT(taken["map"], 10);
}

}  // namespace
}  // namespace luminal::codegen
