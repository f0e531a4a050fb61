#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "luminal/egglog.h"
#include "luminal/luminal.h"

// Graphs as egglog programs: what Graph::to_egglog writes runs, and rules can be written over it.
namespace luminal {
namespace {

TEST(GraphText, IsAProgramWhoseRootsExist) {
  Graph cx;
  const auto x = cx.named_tensor("x", {3, "n"});
  x.softmax(1).retrieve();
  x.transpose(0, 1).matmul(cx.tensor({3, 4})).retrieve();
  const EgglogText text = cx.to_egglog();
  ASSERT_EQ(text.roots.size(), 2U);
  EXPECT_THAT(text.program, testing::HasSubstr("(Input 0 \"f32[3, n] x\")"));
  EXPECT_THAT(text.program, testing::HasSubstr("(constructor SumReduce (Tensor String) Tensor)"));
  egraph::EgglogProgram program;
  program.run(text.program);
  for (const std::string& root : text.roots) EXPECT_NO_THROW(program.run("(extract " + root + ")")) << root;
}

TEST(GraphText, RulesFindWhatTheGraphHoldsTwice) {
  Graph cx;
  const auto x = cx.tensor({4});
  (x.exp2() * 3.0).retrieve();
  (x.exp2() + 1.0).retrieve();
  const EgglogText text = cx.to_egglog();
  egraph::EgglogProgram program;
  program.run(text.program);
  // Equal terms are one: the two exponentials are one class.
  EXPECT_EQ(program.run("(print-size Exp2)"), "1\n");
}

TEST(GraphText, SideEffectsAndNamesOfUsersStayApart) {
  Graph cx;
  const auto x = cx.named_tensor("a \"quoted\" name", {4});
  (x + cx.uniform({4})).retrieve();
  const EgglogText text = cx.to_egglog();
  egraph::EgglogProgram program;
  EXPECT_NO_THROW(program.run(text.program)) << text.program;
}

}  // namespace
}  // namespace luminal
