#include <gtest/gtest.h>

#include <sstream>

#include "base/file.h"
#include "luminal/autograd.h"
#include "luminal/graph.h"
#include "luminal/scan.h"
#include "ops/registry.h"
#include "support/markdown.h"

/// docs/adding_an_op.md, followed to the letter: its record is what softsign.cpp beside this file holds,
/// compiled with the suite; the driver runs it like every other op, and here it is used from registration to
/// gradient.
namespace luminal {
namespace {

TEST(AddingAnOp, TheDocumentsRecordIsTheOneTested) {
  const auto blocks = test::cpp_blocks(read_file(LUMINAL_SOURCE_DIR "/docs/adding_an_op.md"));
  ASSERT_EQ(blocks.size(), 2U);
  std::string line;
  EXPECT_EQ(blocks[0], read_file(LUMINAL_SOURCE_DIR "/tests/op/softsign.cpp"));
  for (std::istringstream lines(blocks[0]); std::getline(lines, line);)
    if (line.starts_with("#include \"")) ADD_FAILURE() << line << " is no installed header";
  // The program below, line by line.
  const std::string test = read_file(LUMINAL_SOURCE_DIR "/tests/op/adding_an_op_test.cpp");
  for (std::istringstream lines(blocks[1]); std::getline(lines, line);)
    EXPECT_NE(test.find("  " + line.substr(0, line.find("  //")) + "\n"), std::string::npos) << line;
}

/// An op that does not say that it overwrites its outputs counts on zeros in them, in every run.
TEST(AddingAnOp, OutputsAreZerosUnlessItOverwritesThem) {
  static const OpDef counts = {
      .name = "counts_itself",
      .arity = 1,
      .infer = [](std::span<const TensorType> inputs, const Attributes&) { return std::vector{inputs[0]}; },
      .evaluate =
          [](EvalContext& context) {
            for (float& value : context.outputs[0].as<float>()) value += 1;
          },
  };
  for (const std::string device : {"reference", "cpu"}) {
    Graph cx;
    cx.set_device(device);
    const GraphTensor x = cx.tensor({3}).set({1, 2, 3});
    const auto rows = cx.tensor({2, 3}).set({1, 2, 3, 4, 5, 6});
    const GraphTensor counted = cx.add_op(counts).input(x + 1).finish().retrieve();
    ScanResult steps = scan({cx.constant(0)}, {rows}, [&](auto carry, auto row) -> ScanStep {
      Graph body = row[0].graph();
      return {.carry = {carry[0] + 1}, .outputs = {body.add_op(counts).input(row[0] + 1).finish()}};
    });
    const GraphTensor in_steps = steps.outputs.at(0).retrieve();
    for (int run = 0; run < 2; ++run) {
      cx.execute();
      EXPECT_EQ(counted.data<float>(), std::vector<float>(3, 1)) << device << run;
      EXPECT_EQ(in_steps.data<float>(), std::vector<float>(6, 1)) << device << run;
    }
  }
}

// clang-format off
TEST(AddingAnOp, WorksFromRegistrationToGradient) {
  Graph cx;
  cx.set_device("reference");
  GraphTensor x = cx.tensor({"n", 2});
  GraphTensor y = cx.add_op(find_op("softsign")).input(x).finish().retrieve();
  x.set_dyn(std::vector<float>{1, -1, 3, 0}, {2, 2});
  cx.execute();
  const std::vector<float> values = y.data<float>();
  EXPECT_EQ(values, (std::vector<float>{0.5, -0.5, 0.75, 0}));
  EXPECT_NE(cx.to_string().find("softsign"), std::string::npos);

  const GraphTensor loss = y.sum();
  GraphTensor gradient = cx.run_pass(Autograd({x}, loss))[0];
  gradient.retrieve();
  cx.execute();
  EXPECT_EQ(gradient.data<float>(), (std::vector<float>{0.25, 0.25, 0.0625, 1}));
}
// clang-format on

}  // namespace
}  // namespace luminal
