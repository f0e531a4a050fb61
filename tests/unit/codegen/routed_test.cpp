#include "unit/kernel/routed_specs.h"

#include <gtest/gtest.h>

#include "cases.h"
#include "codegen/schedules/families.h"

// Terms that an index names.
namespace luminal::codegen {
namespace {

using namespace test_cases;
using kernel::test::RoutedProducts;

// Names lie between -4 and 4, so that some places have no term.
void check(const RoutedProducts& products, const Bucket& bucket = {}, const std::vector<DimMap>& sizes = {{}},
           const std::vector<bool>& frozen = std::vector<bool>(5)) {
  const KernelSpec spec = kernel::with_frozen(products.spec(), frozen);
  for (const Target& target : {avx512(), avx2()})
    check_candidates(routed_schedule(), spec, bucket, target, sizes, 1e-5);
}

TEST(RoutedSchedule, ComputesWhatTheSpecSays) {
  check({});
  check({.rows = 7});
  check({.blocks = 1, .experts = 2});
  check({.blocks = 3, .rows = 1, .experts = 5, .out = 1, .in = 5000});
  check({.blocks = 14, .experts = 33, .out = 41, .in = 101});
}

TEST(RoutedSchedule, TakesWeightsInBlocks) {
  for (const Dtype weights : {Dtype::Q8_0, Dtype::Q4_0, Dtype::F16})
    for (const int64_t rows : {1, 2, 16}) check({.rows = rows, .weights = weights});
}

TEST(RoutedSchedule, PreparesTheWeightsOfEachTermOnce) {
  int prepared = 0;
  for (const Dtype weights : {Dtype::F32, Dtype::Q8_0}) {
    const RoutedProducts products{.rows = 4, .out = 48, .weights = weights};
    const std::vector<bool> frozen{true, false, false, true, true};
    check(products, {}, {{}}, frozen);
    const KernelSpec spec = kernel::with_frozen(products.spec(), frozen);
    for (const Candidate& c : routed_schedule().candidates(spec, {}, avx2())) {
      const Program program = routed_schedule().lower(spec, c.parameters, {}, avx2());
      if (preparing_stages(program) == 0) continue;
      ++prepared;
      EXPECT_EQ(program.stages[0].tasks.constant().value_or(0) % products.experts, 0);
    }
  }
  EXPECT_GT(prepared, 0);
}

TEST(RoutedSchedule, LeavesWhatWouldBePreparedForEachPlaceToOthers) {
  const KernelSpec spec = kernel::with_frozen(RoutedProducts{}.spec(), {true, true, false, false, false});
  EXPECT_TRUE(routed_schedule().candidates(spec, {}, avx2()).empty());
}

TEST(RoutedSchedule, TakesNamedBlocksAndRows) {
  const Bucket bucket{{{"n", {.min = 1, .max = 6}}}};
  const std::vector<DimMap> sizes{{{"n", 1}}, {{"n", 5}}, {{"n", 6}}};
  check({.blocks = "n"}, bucket, sizes);
  check({.rows = "n"}, bucket, sizes);
}

TEST(RoutedSchedule, IsThoughtToBeFasterThanComputingAllTerms) {
  const KernelSpec spec = RoutedProducts{.experts = 32, .out = 512, .in = 1024}.spec();
  const auto all = best_of(nest_schedule(), spec, {}, avx2()),
             named = best_of(routed_schedule(), spec, {}, avx2());
  ASSERT_TRUE(all && named);
  EXPECT_LT(named->predicted_us, all->predicted_us / 16);
}

}  // namespace
}  // namespace luminal::codegen
