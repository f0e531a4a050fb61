#include <algorithm>
#include <random>

#include "support/effort.h"
#include "unit/codegen/block_programs.h"

/// Families for blocks of threads: right results, and nothing for the interpreter to find.
namespace luminal::codegen {
namespace {

using namespace test_cases;

/// The points of a family that run, and corners of its parameters: all of them or a sample.
std::vector<Parameters> points_for(const Schedule& schedule, const Case& c, std::mt19937_64& random) {
  std::vector<Parameters> all;
  for (const Candidate& candidate : schedule.candidates(c.spec, c.bucket, gpu()))
    all.push_back(candidate.parameters);
  if (all.empty()) return all;
  std::vector<Parameters> corners = corners_of(schedule);
  std::ranges::shuffle(corners, random);
  const auto most = static_cast<size_t>(effort::cases(3, 40));
  all.insert(all.end(), corners.begin(),
             corners.begin() + static_cast<std::ptrdiff_t>(std::min(most, corners.size())));
  return all;
}

TEST(BlockFamilies, HaveNoRacesAndTheRightResults) {
  std::map<std::string_view, int> programs;
  std::mt19937_64 random(effort::seed(1));
  for (const Case& c : block_cases())
    for (const Schedule* schedule : block_families())
      for (const Parameters& parameters : points_for(*schedule, c, random)) {
        const std::string what = fmt::format("{} {} {}", schedule->name, c.name, to_string(parameters));
        const Program program = schedule->lower(c.spec, parameters, c.bucket, gpu());
        verify(program, gpu());
        ++programs[schedule->name];
        for (const DimMap& dims : c.sizes) {
          const auto slots = inputs_of(c.spec, dims);
          const RaceReport report = check_races(program, slots, dims, 1);
          ASSERT_EQ(report.found, 0) << what << "\n" << report.to_string() << program.to_string();
          const auto want = kernel::evaluate(c.spec, slots, dims);
          for (size_t o = 0; o < want.size(); ++o)
            expect_equal(report.outputs[o], want[o], c.tolerance, what);
          if (testing::Test::HasFailure()) FAIL() << program.to_string();
        }
      }
  for (const Schedule* schedule : block_families()) EXPECT_GT(programs[schedule->name], 20) << schedule->name;
}

/// Of a right program at its only sizes.
AccessFigures figures_of(std::string_view family, const KernelSpec& spec, const Parameters& parameters) {
  const Program program = find_schedule(family).lower(spec, parameters, {}, gpu());
  const RaceReport report = check_races(program, inputs_of(spec, {}));
  EXPECT_EQ(report.found, 0) << report.to_string();
  EXPECT_GT(report.figures.global_accesses, 0);
  return report.figures;
}

/// What neighbours read and write lies side by side, and in other banks.
TEST(BlockFamilies, NeighboursShareSegmentsAndNoBanks) {
  const AccessFigures map =
      figures_of("block_map", dtypes(Dtype::F32, Dtype::I32).spec, {{"threads", 64}, {"each", 4}});
  EXPECT_LE(map.segments, map.least_segments + 5);  // a read of 131 elements, backwards, and one of the rest
  const AccessFigures reduce =
      figures_of("block_reduce", folded(Monoid::Add, Dtype::F32, 8, 256, true, {{}}, {}).spec,
                 {{"threads", 128}, {"results", 2}, {"along", 1}, {"splits", 1}});
  EXPECT_EQ(reduce.segments, reduce.least_segments);
  EXPECT_EQ(reduce.bank_conflicts, 0);
  const AccessFigures row = figures_of("block_row", rows_of_squares(Dtype::F32, 4, 128, true, {{}}, {}).spec,
                                       {{"threads", 64}, {"results", 2}, {"along", 1}});
  EXPECT_EQ(row.segments, row.least_segments);
  EXPECT_EQ(row.bank_conflicts, 0);
  for (const bool turned : {false, true}) {
    const AccessFigures product = figures_of(
        "block_contract", Matmul{.m = 64, .n = 64, .k = 32, .turned_b = turned}.spec().spec,
        {{"tile_m", 4}, {"tile_n", 4}, {"threads_m", 16}, {"threads_n", 16}, {"depth", 8}, {"buffers", 2}});
    EXPECT_GT(product.block_accesses, 0);
    EXPECT_EQ(product.bank_conflicts, 0) << turned;
  }
}

/// Large enough that neither launches nor few blocks count.
std::vector<KernelSpec> large_specs() {
  std::vector<KernelSpec> list{Matmul{.m = 1024, .n = 1024, .k = 1024}.spec().spec,
                               folded(Monoid::Add, Dtype::F32, 4096, 2048, true, {{}}, {}).spec,
                               rows_of_squares(Dtype::F32, 4096, 2048, true, {{}}, {}).spec};
  SpecBuilder s;
  const Expression i = s.axis(1 << 22);
  const int x = s.slot(1 << 22), y = s.slot(1 << 22);
  s.output(s.value({0}, {}, std::nullopt, {s.load(x, i), s.load(y, i)}, product), i, 1 << 22);
  list.push_back(s.plain());
  return list;
}

/// The first of all families by the model, as a search takes it.
const Schedule& best_for(const KernelSpec& spec, const Target& target) {
  const Schedule* best = nullptr;
  double least = 0;
  for (const Schedule* schedule : schedules()) {
    const auto first = best_of(*schedule, spec, {}, target);
    if (!first || (best != nullptr && first->predicted_us >= least)) continue;
    best = schedule, least = first->predicted_us;
  }
  return *best;
}

TEST(BlockFamilies, AreTakenWhereTheThreadsOfABlockRunAtOnce) {
  Target in_turn = gpu();
  in_turn.block_width = 1;
  for (const KernelSpec& spec : large_specs()) {
    EXPECT_TRUE(best_for(spec, gpu()).for_blocks) << best_for(spec, gpu()).name << spec.to_string();
    EXPECT_FALSE(best_for(spec, in_turn).for_blocks) << best_for(spec, in_turn).name << spec.to_string();
  }
}

/// A processor of threads without blocks is offered none of them.
TEST(BlockFamilies, AreForTargetsWithBlocks) {
  for (const Case& c : block_cases())
    for (const Schedule* schedule : block_families())
      EXPECT_TRUE(schedule->candidates(c.spec, c.bucket, avx512()).empty()) << schedule->name;
}

}  // namespace
}  // namespace luminal::codegen
