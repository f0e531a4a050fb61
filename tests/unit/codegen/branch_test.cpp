#include "kernel/branch.h"

#include <gtest/gtest.h>

#include "cases.h"
#include "codegen/schedules/families.h"

// Places that a condition leaves out.
namespace luminal::codegen {
namespace {

using namespace test_cases;

/// Y[e,t,o] = where(C[e,t], (sum i: W[e,o,i] * X[e,t,i]) + B[o], 2)
struct Experts {
  int64_t experts = 7;
  Expression rows = 1;
  int64_t out = 20, in = 256;
  Dtype weights = Dtype::F32;

  [[nodiscard]] KernelSpec spec() const {
    SpecBuilder s;
    const Expression e = s.axis(experts), t = s.axis(rows), o = s.axis(out), i = s.axis(in);
    const int w = s.slot(experts * out * in, weights), x = s.slot(experts * rows * in), b = s.slot(out),
              c = s.slot(rows * experts, Dtype::Bool);
    const int sum = s.value(
        {0, 1, 2}, {3}, Monoid::Add, {s.load(w, (e * out + o) * in + i), s.load(x, (e * rows + t) * in + i)},
        [](ScalarBuilder& f, std::span<const Scalar> v) { return f.mul(f.convert(v[0], Dtype::F32), v[1]); });
    const int all = s.value({0, 1, 2}, {}, std::nullopt, {s.load(c, e * rows + t), s.read(sum), s.load(b, o)},
                            [](ScalarBuilder& f, std::span<const Scalar> v) {
                              return f.select(v[0], f.add(v[1], v[2]), f.constant(Dtype::F32, 2));
                            });
    s.output(all, (e * rows + t) * out + o, experts * rows * out);
    return s.plain();
  }
};

void check(const Experts& experts, const Bucket& bucket = {}, const std::vector<DimMap>& sizes = {{}},
           const std::vector<bool>& frozen = {false, false, false, false}) {
  const KernelSpec spec = kernel::with_frozen(experts.spec(), frozen);
  for (const Target& target : {avx512(), avx2()})
    check_candidates(branch_schedule(), spec, bucket, target, sizes, 1e-5);
}

TEST(BranchSchedule, ComputesWhatTheSpecSays) {
  check({});
  check({.rows = 3});
  check({.experts = 2, .out = 1, .in = 5000});
  check({.experts = 33, .out = 41, .in = 101});
}

TEST(BranchSchedule, TakesWeightsInBlocks) {
  for (const Dtype weights : {Dtype::Q8_0, Dtype::Q4_0, Dtype::F16})
    for (const int64_t rows : {1, 2}) check({.rows = rows, .weights = weights});
}

TEST(BranchSchedule, PreparesTheWeightsOfAllPlaces) {
  int prepared = 0;
  for (const std::vector<bool>& frozen : {std::vector{true, false, true, false}, {true, true, true, true}})
    for (const Dtype weights : {Dtype::F32, Dtype::Q8_0}) {
      const Experts experts{.rows = 4, .out = 48, .weights = weights};
      check(experts, {}, {{}}, frozen);
      const KernelSpec spec = kernel::with_frozen(experts.spec(), frozen);
      for (const Candidate& c : branch_schedule().candidates(spec, {}, avx2()))
        if (preparing_stages(branch_schedule().lower(spec, c.parameters, {}, avx2())) > 0) ++prepared;
    }
  EXPECT_GT(prepared, 0);
}

TEST(BranchSchedule, TakesNamedRows) {
  const Bucket bucket{{{"n", {.min = 1, .max = 4}}}};
  check({.rows = "n"}, bucket, {{{"n", 1}}, {{"n", 3}}, {{"n", 4}}});
}

TEST(BranchSchedule, LeavesWhatManyRowsNeedToOthers) {
  EXPECT_FALSE(branch_schedule().candidates(Experts{.rows = 2}.spec(), {}, avx2()).empty());
  EXPECT_TRUE(branch_schedule().candidates(Experts{.rows = 64}.spec(), {}, avx2()).empty());
}

// Whoever has few places pays for few: the model says so.
TEST(BranchSchedule, IsThoughtToBeFasterThanComputingAllPlaces) {
  const KernelSpec spec = Experts{.experts = 32, .out = 512, .in = 1024}.spec();
  const auto all = best_of(reduce_schedule(), spec, {}, avx2()),
             some = best_of(branch_schedule(), spec, {}, avx2());
  ASSERT_TRUE(all && some);
  EXPECT_LT(some->predicted_us, all->predicted_us / 2);
}

}  // namespace
}  // namespace luminal::codegen
