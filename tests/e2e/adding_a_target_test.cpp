// docs/adding_a_target.md, followed to the letter: its file is src/backends/reference/device.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "backends/device.h"
#include "base/file.h"
#include "graph/data_input.h"
#include "luminal/luminal.h"
#include "search/session.h"
#include "support/markdown.h"
#include "support/random_runs.h"

namespace luminal::backends {

namespace {

void add_device() {
  (void)session_devices();  // the build's own come first: the best of them is the default
  // clang-format off
    search::register_device("interpreted", backends::make_reference_device);
  // clang-format on
}

TEST(AddingATarget, TheDocumentsTextIsTheOneTested) {
  const auto blocks = test::cpp_blocks(read_file(LUMINAL_SOURCE_DIR "/docs/adding_a_target.md"));
  ASSERT_EQ(blocks.size(), 3U);
  EXPECT_EQ(blocks[0], read_file(LUMINAL_SOURCE_DIR "/src/backends/reference/device.cpp"));
  const std::string own = read_file(LUMINAL_SOURCE_DIR "/tests/e2e/adding_a_target_test.cpp");
  for (const size_t block : {1, 2}) EXPECT_NE(own.find(blocks[block]), std::string::npos) << blocks[block];
}

// clang-format off
TEST(AddingATarget, ItIsADeviceLikeTheOthers) {
  add_device();
  Graph cx;
  cx.set_device("interpreted");
  GraphTensor x = cx.tensor({"n", 3}), y = x.softmax(1).retrieve();
  x.set_dyn(std::vector<float>{1, 2, 3, 3, 2, 1}, {2, 3});
  cx.compile(Optimal{})();  // searched, timed, verified against the graph's own nodes
  const std::vector<float> got = y.data<float>();
  cx.set_device("reference");
  cx.execute();
  EXPECT_THAT(got, testing::Pointwise(testing::FloatNear(1e-6F), y.data<float>()));
}
// clang-format on

TEST(AddingATarget, ItsReportNamesIt) {
  add_device();
  Graph cx;
  cx.set_device("interpreted");
  const GraphTensor x = cx.tensor({4, 5}).set(std::vector<float>(20, 2.0F));
  (x * 3).sum(1).retrieve();
  Compiled compiled = cx.compile(Optimal{});
  const CompileReport report = compiled.details();
  EXPECT_EQ(report.device, "interpreted");
  ASSERT_EQ(report.kernels.size(), 1U);
  EXPECT_TRUE(report.kernels[0].verified);
  EXPECT_EQ(report.kernels[0].source(), report.kernels[0].loops());
}

TEST(AddingATarget, RandomGraphsAreWhatTheyShouldBe) {
  add_device();
  test::expect_random_graphs_as_reference("interpreted");
}

/// The device that pretends: it says what everything but the kernels costs, and is nobody's default.
TEST(NullDevice, CompilesInEveryModeAndRunsAtOnce) {
  Graph cx;
  cx.set_device("null");
  const GraphTensor x = cx.tensor({64, 64}).set(std::vector<float>(4096, 1.0F));
  GraphTensor y = x.matmul(x).softmax(1).retrieve();
  for (const CompilationMode& mode : {CompilationMode(Fast{}), CompilationMode(Optimal{})}) {
    Compiled compiled = cx.compile(mode);
    compiled();
    EXPECT_EQ(y.data<float>().size(), 4096U);
    EXPECT_FALSE(compiled.details().kernels.empty());
    EXPECT_EQ(compiled.details().kernels[0].measured_us, 0);
  }
  EXPECT_NE(make_session("")->device(), "null");
}

/// Without a word, graphs run on the best device that this machine has; LUMINAL_DEVICE says another.
TEST(Devices, TheBestOneIsTakenByItself) {
  const char* set = std::getenv("LUMINAL_DEVICE");
  const std::string before = set != nullptr ? set : "";
  ::unsetenv("LUMINAL_DEVICE");
  EXPECT_EQ(Graph().device(), session_devices().front());
  EXPECT_EQ(Graph().device(), "cpu");
  ::setenv("LUMINAL_DEVICE", "reference", 1);
  EXPECT_EQ(Graph().device(), "reference");
  Graph cx;
  cx.set_device("cpu");  // what a program says stands above both
  EXPECT_EQ(cx.device(), "cpu");
  ::setenv("LUMINAL_DEVICE", "gpu9", 1);
  EXPECT_THROW((void)Graph().device(), DeviceError);
  set != nullptr ? ::setenv("LUMINAL_DEVICE", before.c_str(), 1) : ::unsetenv("LUMINAL_DEVICE");
}

}  // namespace
}  // namespace luminal::backends
