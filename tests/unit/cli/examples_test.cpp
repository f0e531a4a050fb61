#include "cli/examples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "cli/workload.h"
#include "luminal/compile_report.h"
#include "luminal/error.h"
#include "support/files.h"

namespace luminal::cli {
namespace {

using testing::HasSubstr;

int64_t peak_bytes() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return int64_t{1024} * used.ru_maxrss;
}

TEST(Examples, AllBuild) {
  for (const Example& example : examples()) {
    SCOPED_TRACE(example.name);
    EXPECT_NE(example.formula.empty(), example.build == nullptr);
    EXPECT_FALSE(example.summary.empty());
    Graph graph;
    const std::vector<GraphTensor> inputs = build_workload(graph, {.what = std::string(example.name)});
    EXPECT_FALSE(inputs.empty());
    EXPECT_FALSE(graph.roots().empty());
    for (const std::string& dim : graph.dim_names()) EXPECT_TRUE(graph.dims().contains(dim)) << dim;
  }
}

// Two layers and the tables of Llama 8B are 3 GB of weights, which no compile by the model needs.
TEST(Examples, NetworksCompileWithoutTheirWeights) {
  const int64_t before = peak_bytes();
  Graph graph;
  (void)build_workload(graph, {.what = "llama-8b-decode", .device = "cpu", .dims = {"layers=2"}});
  const CompileReport report = graph.compile(Fast{}).details();
  EXPECT_GT(report.kernels.size(), 10U);
  EXPECT_LT(peak_bytes() - before, int64_t{1'000'000'000});
}

TEST(Examples, SizesAreNumbersOrNamedDims) {
  Graph graph;
  const auto inputs = build_workload(graph, {.what = "gpt-step", .dims = {"batch=2", "layers=1"}});
  EXPECT_EQ(inputs.at(0).dims(), (Shape{2, 256}));
  EXPECT_THAT(
      test::error_of<Error>([&] { (void)build_workload(graph, {.what = "gpt-step", .dims = {"depth=1"}}); }),
      HasSubstr("'gpt-step' has no dim 'depth'"));
  EXPECT_THAT(test::error_of<Error>([] { (void)find_example("gpt-stop"); }),
              HasSubstr("did you mean 'gpt-step'"));
}

}  // namespace
}  // namespace luminal::cli
