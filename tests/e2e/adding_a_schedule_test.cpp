// docs/adding_a_schedule.md, followed to the letter: its file is flat_schedule.cpp beside this one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/file.h"
#include "luminal/luminal.h"
#include "support/markdown.h"
#include "unit/codegen/cases.h"

namespace luminal::codegen {

const Schedule& flat_schedule();

namespace {

TEST(AddingASchedule, TheDocumentsFileIsTheOneTested) {
  const auto blocks = test::cpp_blocks(read_file(LUMINAL_SOURCE_DIR "/docs/adding_a_schedule.md"));
  ASSERT_EQ(blocks.size(), 2U);
  EXPECT_EQ(blocks[0], read_file(LUMINAL_SOURCE_DIR "/tests/e2e/flat_schedule.cpp"));
  EXPECT_EQ(blocks[1], "codegen::register_schedule(codegen::flat_schedule());\n");
}

/// y = a * b + a, f32, over `elements`.
kernel::KernelSpec product(const Expression& elements) {
  test_cases::SpecBuilder b;
  const Expression i = b.axis(elements);
  const int a = b.slot(elements), c = b.slot(elements);
  const int y =
      b.value({0}, {}, std::nullopt, {b.load(a, i), b.load(c, i)},
              [](ScalarBuilder& s, std::span<const Scalar> in) { return s.add(s.mul(in[0], in[1]), in[0]); });
  b.output(y, i, elements);
  return b.finish().spec;
}

TEST(AddingASchedule, ItsLoopsAreTheSpec) {
  for (const Target& target : {test_cases::avx2(), test_cases::avx512()}) {
    for (const int64_t elements : {1, 7, 16, 1000})
      test_cases::check_candidates(flat_schedule(), product(elements), {}, target, {{}});
    const Bucket bucket{.facts = {{"n", {.min = 0, .max = 1100}}}};
    test_cases::check_candidates(flat_schedule(), product("n"), bucket, target,
                                 {{{"n", 0}}, {{"n", 1}}, {{"n", 63}}, {{"n", 1025}}});
  }
}

TEST(AddingASchedule, TheSearchTriesAndVerifiesIt) {
  register_schedule(flat_schedule());
  EXPECT_THROW(register_schedule(flat_schedule()), Error);
  EXPECT_EQ(schedules().back()->name, "nest");
  Graph cx;
  cx.set_device("cpu");
  std::vector<float> data(3001);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i % 17) - 8;
  const GraphTensor x = cx.tensor({3001}).set(data);
  GraphTensor y = ((x * 2 + 1).square() + x).retrieve();
  Compiled compiled = cx.compile(Optimal{});
  compiled();
  for (size_t i = 0; i < data.size(); ++i)
    ASSERT_EQ(y.data<float>()[i], (data[i] * 2 + 1) * (data[i] * 2 + 1) + data[i]) << i;
  const CompileReport report = compiled.details();
  ASSERT_EQ(report.kernels.size(), 1U);
  const KernelReport& kernel = report.kernels[0];
  EXPECT_TRUE(kernel.verified);
  const auto lost = std::ranges::find(kernel.rejected, "flat", &KernelReport::Rejected::schedule);
  EXPECT_TRUE(kernel.schedule == "flat" || kernel.from_cache || lost != kernel.rejected.end())
      << "it was not among the candidates";
  if (lost != kernel.rejected.end()) {
    EXPECT_TRUE(lost->is_sound()) << lost->reason;
  }
}

}  // namespace
}  // namespace luminal::codegen
