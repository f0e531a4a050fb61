#include "backends/device.h"
#include "support/effort.h"
#include "unit/backends/launch.h"
#include "unit/codegen/random_spec.h"

/// Every family as machine code, in memory fenced by pages that may not be touched, against the specs' own
/// definition.
namespace luminal::backends {
namespace {

using namespace codegen::test_cases;
using codegen::Candidate;
using codegen::Schedule;

void check_machine_code(Device& backend, const Schedule& schedule, const Case& c,
                        const codegen::Parameters& p) {
  const auto kernel = backend.compile(schedule.lower(c.spec, p, c.bucket, backend.target()));
  const auto again = backend.load(kernel->binary());
  for (const DimMap& dims : c.sizes) {
    const auto slots = inputs_of(c.spec, dims);
    const auto want = kernel::evaluate(c.spec, slots, dims);
    for (const auto& k : {kernel, again}) {
      const auto got = test::launch(*k, slots, want, dims);
      for (size_t o = 0; o < want.size(); ++o)
        expect_equal(got[o], want[o], std::max(c.tolerance, 1e-6), c.name);
    }
  }
}

/// The best `most` candidates of every family, and the worst of them.
void check_case(Device& backend, const Case& c, size_t most) {
  for (const Schedule* schedule : codegen::schedules()) {
    auto candidates = points_of(*schedule, c.spec, c.bucket, backend.target());
    if (candidates.size() > most)
      candidates.erase(candidates.begin() + 1, candidates.end() - static_cast<std::ptrdiff_t>(most - 1));
    for (const Candidate& candidate : candidates) {
      SCOPED_TRACE(fmt::format("{} {} {}", schedule->name, c.name, codegen::to_string(candidate.parameters)));
      check_machine_code(backend, *schedule, c, candidate.parameters);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

void check_families(Device& backend) {
  for (const Case& c : nest_cases()) {
    check_case(backend, c, static_cast<size_t>(effort::cases(3, 1000)));
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(MachineCode, RandomSpecsEqualTheirDefinition) {
  const auto backend = make_cpu_device();
  const uint64_t first = effort::seed(1);
  for (uint64_t seed = first; seed < first + static_cast<uint64_t>(effort::cases(25, 1000)); ++seed) {
    check_case(*backend, random_case(seed), 2);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(MachineCode, EveryFamilyEqualsTheDefinition) { check_families(*make_cpu_device()); }

TEST(MachineCode, EveryFamilyEqualsTheDefinitionWithoutAvx512) {
  const test::Features features("-avx512f");
  const auto backend = make_cpu_device();
  EXPECT_LE(backend->target().vector_bytes, 32);
  check_families(*backend);
}

}  // namespace
}  // namespace luminal::backends
