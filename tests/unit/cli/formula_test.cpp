#include "cli/formula.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <sstream>

#include "luminal/luminal.h"

namespace luminal::cli {
namespace {

std::string message_of(std::string_view text) {
  Graph cx;
  try {
    (void)parse_formula(cx, text);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// A graph's text without the places where nodes were made.
std::string nodes_of(const Graph& graph) {
  std::istringstream lines(graph.to_string());
  std::string text;
  for (std::string line; std::getline(lines, line);) text += line.substr(0, line.find("  ; ")) + "\n";
  return text;
}

/// The same graph, node for node, as one built in C++.
void expect_same_graph(std::string_view text, const std::function<void(Graph&)>& build) {
  Graph parsed, built;
  parsed.set_device("reference");
  (void)parse_formula(parsed, text);
  build(built);
  EXPECT_EQ(nodes_of(parsed), nodes_of(built)) << text;
}

TEST(Formula, BuildsWhatTheCallsWouldBuild) {
  expect_same_graph("x:f32[32,1000].softmax(-1)",
                    [](Graph& cx) { (void)cx.named_tensor("x", {32, 1000}).softmax(-1); });
  expect_same_graph("conv2d(x:f32[2,3,8,8], w:[4,3,3,3], padding=1).relu()", [](Graph& cx) {
    auto x = cx.named_tensor("x", {2, 3, 8, 8}), w = cx.named_tensor("w", {4, 3, 3, 3});
    (void)conv2d(x, w, {.padding = {1, 1}}).relu();
  });
  expect_same_graph("a:f16[s,4] @ b:f16[4,5] * 0.5 - 1", [](Graph& cx) {
    auto a = cx.named_tensor("a", {"s", 4}, Dtype::F16), b = cx.named_tensor("b", {4, 5}, Dtype::F16);
    (void)(matmul(a, b) * 0.5 - 1);
  });
}

TEST(Formula, ComputesWhatItSays) {
  Graph cx;
  cx.set_device("reference");
  Formula f = parse_formula(cx, "y = x[2,3] * 2 + 1; (y - x).sum(axes=[1]) / -2");
  f.inputs.at(0).set({{1, 2, 3}, {4, 5, 6}});
  f.result.retrieve();
  cx.execute();
  EXPECT_EQ(f.result.data<float>(), (std::vector<float>{-4.5, -9}));
  EXPECT_EQ(f.names, std::vector<std::string>{"x"});
}

TEST(Formula, NegatesEveryNumber) {
  Graph cx;
  cx.set_device("reference");
  Formula f = parse_formula(cx, "x:f64[1] * -(0 - 9223372036854775807 - 1) + 1 / -0.0 * x");
  f.inputs.at(0).set({1.0});
  f.result.retrieve();
  cx.execute();
  EXPECT_EQ(f.result.data<double>(), std::vector<double>{-std::numeric_limits<double>::infinity()});
}

TEST(Formula, ErrorsPointToThePlace) {
  EXPECT_EQ(message_of("x:f32[2] + y"),
            "[formula] unknown name 'y'; declare an input where it is first used: y:f32[2,3]; did you mean "
            "'x'? (column 12)\n  x:f32[2] + y\n             ^");
  EXPECT_THAT(message_of("x:f32[2].sofmax(-1)"), testing::HasSubstr("did you mean 'softmax'?"));
  EXPECT_THAT(message_of("x:f23[2]"), testing::HasSubstr("(column 3)"));
  EXPECT_THAT(message_of("conv2d(x[1,1,4,4], w[1,1,3,3], pading=1)"),
              testing::HasSubstr("has no option 'pading'"));
  EXPECT_THAT(message_of("a[2,3] @ b[4,5]"), testing::HasSubstr("inner dimensions differ"));
  EXPECT_THAT(message_of("x[2"), testing::HasSubstr("(column"));
  EXPECT_THAT(message_of(""), testing::HasSubstr("must be a tensor"));
  EXPECT_THAT(message_of(std::string(5000, '(')), testing::HasSubstr("levels of nesting"));
  // An axis beyond an int is none of the tensor's.
  EXPECT_THAT(message_of("x[8].sum(axes=[4294967296])"),
              testing::HasSubstr("[sum] axes 4294967296 is out of range"));
  EXPECT_THAT(message_of("x[8,2].relu(3)"), testing::HasSubstr("relu(x) takes no more than 1 argument"));
  EXPECT_THAT(message_of("x[8,2].unsqueeze(4294967296)"),
              testing::HasSubstr("[unsqueeze] axis 4294967296 is out of range"));
  EXPECT_THAT(message_of("x[8,2].transpose(0, 4294967297)"),
              testing::HasSubstr("[transpose] b 4294967297 is out of range"));
  EXPECT_THAT(message_of("x[2].sum(\"a\")"), testing::HasSubstr("must be a list of sizes"));
}

TEST(Formula, OptionsMayBeGivenByPosition) {
  Graph cx;
  EXPECT_EQ(parse_formula(cx, "max_pool2d(x[1,1,7,7], 3, 2, 1)").result.dims(), (Shape{1, 1, 4, 4}));
  EXPECT_EQ(parse_formula(cx, "max_pool2d(y[1,1,6,6], [3, 2])").result.dims(), (Shape{1, 1, 2, 3}));
  EXPECT_EQ(parse_formula(cx, "conv2d(z[1,1,9,9], w[1,1,3,3], 2, [1, 0])").result.dims(),
            (Shape{1, 1, 5, 4}));
}

TEST(Formula, EveryFunctionIsListedOnceAndInOrder) {
  const auto lines = formula_functions();
  EXPECT_TRUE(std::ranges::is_sorted(lines));
  EXPECT_THAT(lines, testing::Contains("softmax(x, axes=-1)"));
}

TEST(Formula, NodesSayTheColumnTheyComeFrom) {
  Graph cx;
  const Formula formula = parse_formula(cx, "x:f32[2,3].softmax(-1) @ w:f32[3,4]");
  EXPECT_EQ(cx.node(formula.inputs[0].edge().source.node).origin->to_string(),
            "named_tensor > tensor > input at column:1");
  EXPECT_THAT(cx.node(formula.result.edge().source.node).origin->to_string(),
              testing::AllOf(testing::StartsWith("matmul"), testing::EndsWith(" at column:24")));
}

TEST(Formula, OpsErrorsNameTheColumnOnce) {
  const std::string message = message_of("x:f32[2,3] @ w:f32[4,5]");
  EXPECT_THAT(message, testing::HasSubstr("(column 12)"));
  EXPECT_THAT(message, testing::Not(testing::HasSubstr("made at")));
}

}  // namespace
}  // namespace luminal::cli
