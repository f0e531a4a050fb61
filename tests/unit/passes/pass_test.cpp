#include "luminal/pass.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "luminal/autograd.h"
#include "luminal/error.h"
#include "luminal/ops.h"
#include "luminal/passes.h"

namespace luminal {
namespace {

/// Replaces one sine by its input at each call, and tells how many are left.
struct PeelSine {
  static constexpr std::string_view kName = "PeelSine";
  int run(Graph& graph, Remap&) const {
    int left = 0;
    bool done = false;
    for (const NodeId id : graph.topological_order()) {
      if (graph.node(id).op != &kSin) continue;
      if (!done) {
        graph.replace({id, 0}, Edge(graph.node(id).inputs[0]));
        graph.remove(id);
        done = true;
      } else {
        ++left;
      }
    }
    return left;
  }
};
struct Nothing {
  void run(Graph&, Remap&) const {}
};
struct NeverAtRest {
  void run(Graph& graph, Remap&) const {
    const NodeId id = graph.constant(1.0).node();
    graph.remove(id);
  }
};
static_assert(Pass<PeelSine> && Pass<Autograd> && Pass<Looped<PeelSine>> && Pass<Timed<GenericPasses>>);

GraphTensor sines(Graph& cx, int count) {
  GraphTensor y = cx.tensor({2});
  for (int i = 0; i < count; ++i) y = y.sin();
  return y.retrieve();
}

/// Sets an environment variable while it lives.
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Setting() { unsetenv(name_); }

 private:
  const char* name_;
};

TEST(Passes, TuplesReturnWhatTheirPassesReturn) {
  Graph cx;
  auto y = sines(cx, 5);
  auto [left, nothing, again] = cx.run_pass(std::tuple(PeelSine(), Nothing(), PeelSine()), y);
  EXPECT_EQ(left, 4);
  EXPECT_EQ(nothing, std::monostate());
  EXPECT_EQ(again, 3);
}

TEST(Passes, LoopedRunsAsOftenAsAskedOrUntilNothingChanges) {
  Graph cx;
  auto y = sines(cx, 6);
  EXPECT_EQ(cx.run_pass(Looped(PeelSine(), 2), y), 2);
  EXPECT_EQ(cx.run_pass(PeelSine(), y), 3);
  EXPECT_EQ(cx.run_pass(Looped(std::tuple(PeelSine(), Nothing())), y), 4);  // the last round finds nothing
  EXPECT_EQ(cx.run_pass(Looped(PeelSine()), y), 1);
}

TEST(Passes, WhatALaterPassWorksOnStaysWithoutBeingNamed) {
  for (const bool looped : {false, true}) {
    Graph cx;
    auto x = cx.tensor({2}).set({1, 2}), unused = x.sin();
    auto loss = x.square().sum();
    std::vector<GraphTensor> gradients;
    if (looped)
      gradients =
          std::get<1>(cx.run_pass(std::tuple(Looped(RemoveUnusedNodes()), Timed(Autograd({x}, loss)))));
    else
      gradients = std::get<1>(cx.run_pass(std::tuple(RemoveUnusedNodes(), Autograd({x}, loss))));
    EXPECT_FALSE(unused.valid());
    retrieve(gradients);
    cx.execute();
    EXPECT_EQ(gradients[0].data<float>(), (std::vector<float>{2, 4}));
  }
}

TEST(Passes, CompileIsTheOlderSpelling) {
  Graph cx;
  auto y = sines(cx, 2);
  EXPECT_EQ(cx.compile(PeelSine(), y), 1);
}

TEST(Passes, LoopedGivesUpOnAPassThatNeverRests) {
  Graph cx;
  try {
    (void)cx.run_pass(Looped(NeverAtRest()));
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "[Looped] 'NeverAtRest' still changes the graph after 1000 rounds; give Looped a number of "
                 "rounds, or make the pass leave a finished graph unchanged");
  }
}

TEST(Passes, TimedTellsEachPassAndWhetherItChangedTheGraph) {
  const Setting level("LUMINAL_DEBUG", "1");
  Graph cx;
  auto y = sines(cx, 2);
  testing::internal::CaptureStderr();
  auto [left, nothing] = cx.run_pass(Timed(std::tuple(PeelSine(), Nothing())), y);
  EXPECT_EQ(left, 1);
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_THAT(told, testing::ContainsRegex("\\[pass\\] PeelSine: [0-9]+ us\n"));
  EXPECT_THAT(told, testing::ContainsRegex("\\[pass\\] Nothing: [0-9]+ us \\(unchanged\\)\n"));
}

TEST(Passes, DebugLevelFiveShowsTheGraphAroundEachPass) {
  const Setting level("LUMINAL_DEBUG", "5");
  Graph cx;
  auto y = sines(cx, 1);
  testing::internal::CaptureStderr();
  (void)cx.run_pass(std::tuple(PeelSine(), Nothing()), y);
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_THAT(told, testing::HasSubstr("[pass] PeelSine before:\n%0: f32[2] = input"));
  EXPECT_THAT(told, testing::HasSubstr("%1: f32[2] = sin(%0) [retrieved]"));
  EXPECT_THAT(told, testing::HasSubstr("[pass] PeelSine after:\n%0: f32[2] = input"));
  EXPECT_THAT(told, testing::HasSubstr("[pass] Nothing after: (unchanged)"));
}

TEST(Passes, QuietBelowDebugLevelOne) {
  Graph cx;
  auto y = sines(cx, 1);
  testing::internal::CaptureStderr();
  (void)cx.run_pass(Timed(PeelSine()), y);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Passes, HandlesOfRemapAreFoundWhereTheyStandNow) {
  Graph cx;
  auto x = cx.tensor({2});
  auto y = x.sin();
  const Remap remap({y});
  cx.replace(y.edge().source, x.edge());
  EXPECT_EQ(remap.roots(), std::vector<Value>{x.edge().source});
}

}  // namespace
}  // namespace luminal
