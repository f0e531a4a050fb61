// Budgets and interruptions of whole runs: inside primitives, plans, copies and rebuilds, with a place.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <limits>
#include <string>
#include <string_view>

#include "luminal/egglog.h"

namespace luminal::egraph {
namespace {

/// The reason why a run of the text stopped, and its message.
struct Stop {
  StopReason reason = StopReason::Finished;
  std::string message;
};

Stop stop_of(EgglogProgram& program, std::string_view text) {
  try {
    program.run(text, "p.egg");
  } catch (const BudgetError& error) {
    return {error.reason, error.what()};
  }
  return {};
}

Stop stop_of(std::string_view text, const Budget& budget) {
  EgglogOptions options;
  options.budget = budget;
  EgglogProgram program(options);
  return stop_of(program, text);
}

TEST(ProgramBudget, TimeIsThatOfTheWholeRun) {
  // No iteration takes long, but there is no end of them.
  const Stop stop = stop_of(
      "(relation r (i64)) (r 0)\n"
      "(rule ((r x)) ((r (+ x 1))))\n"
      "(run-schedule (saturate (run)))",
      {.seconds = 0.05});
  EXPECT_EQ(stop.reason, StopReason::TimeBudget);
  EXPECT_TRUE(stop.message.starts_with("p.egg:3:25: error: stopped by the time budget of 0.05 s"))
      << stop.message;
}

TEST(ProgramBudget, TimeHoldsBetweenCommandsAndWhereNothingIsRun) {
  std::string checks = "(relation r (i64)) (r 0)\n";
  for (int i = 0; i < 1000; i++) checks += "(check (r 0))\n";
  EXPECT_EQ(stop_of(checks, {.seconds = 1e-6}).reason, StopReason::TimeBudget);
}

// A check that looks at 400^3 rows. Its budget is many times what comes before it takes on this machine now.
TEST(ProgramBudget, TimeHoldsInsideACheck) {
  std::string text = "(relation ab (i64 i64)) (relation never (i64 i64 i64))\n(never -1 -1 -1)\n";
  for (int i = 0; i < 400; i++) text += "(ab " + std::to_string(i) + " " + std::to_string(i % 2) + ")";
  const auto begin = std::chrono::steady_clock::now();
  EgglogProgram(EgglogOptions{}).run(text, "p.egg");
  const double before_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  text += "\n(check (ab a x) (ab b x) (ab c x) (ab d x) (= 100000 (+ a (+ b (+ c d)))))";
  const Stop stop = stop_of(text, {.seconds = 0.2 + 20 * before_s});
  EXPECT_EQ(stop.reason, StopReason::TimeBudget);
  EXPECT_TRUE(stop.message.starts_with("p.egg:4:1: error: ")) << stop.message;
}

// One application of a function value to each of two million elements, many times over.
TEST(ProgramBudget, TimeHoldsInsideOnePrimitive) {
  const Stop stop = stop_of(
      "(sort V (Vec i64)) (sort F (UnstableFn (i64) i64)) (sort G (UnstableFn (i64) V))\n"
      "(let $v (vec-range 2000000))\n"
      "(extract (vec-length (unstable-vec-map (unstable-fn \"+\" 1) $v)))",
      {.seconds = 0.02});
  EXPECT_EQ(stop.reason, StopReason::TimeBudget);
}

TEST(ProgramBudget, RowsHoldForCommandsToo) {
  std::string text = "(relation r (i64))\n";
  for (int i = 0; i < 300; i++) text += "(r " + std::to_string(i) + ")\n";
  const Stop stop = stop_of(text, {.nodes = 100});
  EXPECT_EQ(stop.reason, StopReason::NodeBudget);
  EXPECT_TRUE(stop.message.starts_with("p.egg:102:1: error: stopped by the node budget of 100 rows"))
      << stop.message;
}

TEST(ProgramBudget, BytesCountWhatPushSaves) {
  std::string text = "(relation r (i64))\n";
  for (int i = 0; i < 1000; i++) text += "(r " + std::to_string(i) + ")";
  const Stop stop = stop_of(text + "\n(push 1000000000)", {.bytes = 10'000'000});
  EXPECT_EQ(stop.reason, StopReason::ByteBudget);
  EXPECT_TRUE(stop.message.starts_with("p.egg:3:1: error: stopped by the byte budget of 10000000 bytes"))
      << stop.message;
}

TEST(ProgramBudget, BytesCountInternedValues) {
  const Stop strings = stop_of(
      "(function s () String :merge new)\n(set (s) \"0123456789\")\n"
      "(rule ((= x (s))) ((set (s) (+ x x))))\n(run 40)",
      {.bytes = 50'000'000});
  EXPECT_EQ(strings.reason, StopReason::ByteBudget);
  const Stop vectors = stop_of(
      "(sort V (Vec i64)) (function s () V :merge new)\n(set (s) (vec-of 1 2 3 4))\n"
      "(rule ((= x (s))) ((set (s) (vec-append x x))))\n(run 40)",
      {.bytes = 50'000'000});
  EXPECT_EQ(vectors.reason, StopReason::ByteBudget);
}

TEST(ProgramBudget, NoFailCommandTakesItForAFailure) {
  const Stop stop = stop_of("(relation r (i64)) (r 0)\n(rule ((r x)) ((r (+ x 1))))\n(fail (run 1000000000))",
                            {.nodes = 50});
  EXPECT_EQ(stop.reason, StopReason::NodeBudget);
}

TEST(ProgramBudget, TheProgramGoesOnAfterwards) {
  EgglogOptions options;
  options.budget.nodes = 50;
  EgglogProgram program(options);
  ASSERT_EQ(
      stop_of(program, "(relation r (i64)) (r 0) (rule ((r x) (< x 2000)) ((r (+ x 1)))) (run 5000)").reason,
      StopReason::NodeBudget);
  program.set_budget({});
  EXPECT_EQ(program.run("(run 5000) (print-size r)"), "2001\n");
  EXPECT_GT(program.report().iterations, 1000U);
}

TEST(ProgramInterrupt, EndsARunAndTheNextOneGoesOn) {
  std::atomic<bool> interrupt = true;
  EgglogOptions options;
  options.interrupt = &interrupt;
  EgglogProgram program(options);
  const Stop stop = stop_of(program, "(relation r (i64))");
  EXPECT_EQ(stop.reason, StopReason::Interrupted);
  EXPECT_TRUE(stop.message.starts_with("p.egg:1:1: error: stopped by the interrupt")) << stop.message;
  interrupt = false;
  EXPECT_EQ(program.run("(relation r (i64)) (r 1) (print-size r)"), "1\n");
}

TEST(ProgramInterrupt, EndsALongRuleAtOnce) {
  std::atomic<bool> interrupt = false;
  EgglogOptions options;
  options.interrupt = &interrupt;
  EgglogProgram program(options);
  program.host_primitive({.name = "stop-now",
                          .call = [&](std::span<const Value> args) -> std::optional<Value> {
                            interrupt = true;
                            return args[0];
                          },
                          .inputs = {kI64},
                          .output = kI64});
  const Stop stop = stop_of(program,
                            "(relation r (i64)) (r 0)\n(rule ((r x)) ((r (stop-now (+ x 1)))))\n"
                            "(run-schedule (saturate (run)))");
  EXPECT_EQ(stop.reason, StopReason::Interrupted);
  EXPECT_LT(program.graph().row_count(), 10U);
}

TEST(ProgramMemory, ASystemWithoutMoreOfItHasAPlace) {
  EgglogProgram program;
  program.host_primitive(
      {.name = "no-room",
       .call = [](std::span<const Value>) -> std::optional<Value> { throw std::bad_alloc(); },
       .inputs = {kI64},
       .output = kI64});
  const Stop stop = stop_of(program, "(relation r (i64))\n  (r (no-room 1))");
  EXPECT_EQ(stop.reason, StopReason::ByteBudget);
  EXPECT_TRUE(stop.message.starts_with("p.egg:2:3: error: out of memory")) << stop.message;
  EXPECT_EQ(program.run("(r 1) (print-size r)"), "1\n");
}

TEST(Messages, LongTokensAreClipped) {
  const std::string name(100'000, 'x');
  for (const std::string& text : {"(" + name + " 1)", "(relation r (" + name + "))", "(run " + name + " 1)",
                                  "(extract " + name + ")", "(relation r (i64)) (r \"" + name + "\")"}) {
    try {
      run_program(text, "p.egg");
      ADD_FAILURE() << text.substr(0, 40);
    } catch (const Error& error) {
      EXPECT_LT(std::string_view(error.what()).size(), 1200U) << std::string(error.what()).substr(0, 300);
    }
  }
}

}  // namespace
}  // namespace luminal::egraph
