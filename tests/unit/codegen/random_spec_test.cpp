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
      auto candidates = points_of(*schedule, c.spec, c.bucket, target);
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

/// Sizes below and around a vector, of known extents and within a bucket that is larger than all of them.
TEST(Schedules, SmallSizesEqualTheirDefinition) {
  const Bucket bucket = bucket_of("n", 1, 70);
  const Expression n = Expression::dim("n", {.min = 1, .max = 70});
  std::vector<DimMap> sizes;
  for (int64_t size = 1; size <= 9; ++size) sizes.push_back({{"n", size}});
  const auto check = [&](const KernelSpec& spec, const Bucket& own, const std::vector<DimMap>& at) {
    for (const Target& target : {avx512(), avx2()})
      for (const Schedule* schedule : schedules())
        for (const Candidate& candidate : points_of(*schedule, spec, own, target))
          check_loops(*schedule, spec, candidate.parameters, own, target, at, 1e-6);
  };
  std::mt19937_64 random(effort::seed(2));
  const auto extent = [&] { return static_cast<int64_t>(random() % 5 == 0 ? 16 : 1 + random() % 9); };
  for (int64_t round = effort::cases(6, 200); round > 0; --round) {
    const bool a = random() % 2 == 0, b = random() % 2 == 0;
    const Expression m = extent(), c = extent(), k = extent();
    const auto product = [&](const Expression& rows, const Expression& columns, const Expression& depth) {
      return Matmul{.m = rows, .n = columns, .k = depth, .turned_a = a, .turned_b = b, .epilogue = true}
          .spec()
          .spec;
    };
    check(product(m, c, k), {}, {{}});
    check(product(n, c, k), bucket, sizes);
    check(product(m, n, k), bucket, sizes);
    check(product(m, c, n), bucket, sizes);
    check(
        attention({*m.constant(), *c.constant(), *k.constant(), extent(), extent(), Attention::Mask::Causal})
            .spec,
        {}, {{}});
    check(repeats(m, *c.constant(), 1 + *k.constant(), {}, {}).spec, {}, {{}});
    check(windows(*m.constant(), *c.constant(), *k.constant()).spec, {}, {{}});
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace luminal::codegen
