// Budgets and interruptions of whole runs: inside primitives, plans, copies and rebuilds, with a place.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <string>
#include <string_view>
#include <thread>

#include "luminal/egglog.h"
#include "support/files.h"

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

TEST(ProgramBudget, BytesCountEachPushOfAnEmptyGraph) {
  EgglogOptions options;
  options.budget.bytes = 10'000'000;
  EgglogProgram program(options);
  EXPECT_EQ(stop_of(program, "(push 1000000000)").reason, StopReason::ByteBudget);
  EXPECT_GT(program.graph().size_bytes(), 5'000'000U);
  program.set_budget({});
  const size_t before = program.graph().size_bytes();
  program.run("(push) (pop)");
  EXPECT_EQ(program.graph().size_bytes(), before);
  EXPECT_EQ(program.run("(push) (relation r (i64)) (r 1) (pop) (relation r (i64)) (print-size r)"), "0\n");
}

TEST(ProgramBudget, TimeHoldsInPush) {
  EXPECT_EQ(stop_of("(push 1000000000)", {.seconds = 0.02, .bytes = 1'000'000'000}).reason,
            StopReason::TimeBudget);
}

/// $x60 has 61 e-nodes, and a text of some 2^62 bytes.
std::string shared_term() {
  std::string text = "(datatype E (A) (F E E))\n(sort V (Vec E)) (let $x0 (A))\n";
  for (int i = 0; i < 60; i++) {
    const std::string below = "$x" + std::to_string(i);
    text += "(let $x" + std::to_string(i + 1) + " (F " + below + " " + below + "))\n";
  }
  return text;
}

const std::string_view kPrints[] = {"(extract $x60)",
                                    "(extract $x60 3)",
                                    "(extract (vec-of $x60 $x59))",
                                    "(multi-extract 2 $x60 $x59)",
                                    "(print-function F 100)",
                                    "(print-function F 100 :mode csv)",
                                    "(output \"/nowhere/out.txt\" $x60)",
                                    "(prove (F $x59 $x59))",
                                    "(prove (= (F $x59 $x59) $x60))",
                                    "(prove-exists F) (prove (F (F $x58 $x58) $x59))"};

TEST(ProgramBudget, BytesHoldWhileSharedTermsArePrinted) {
  for (const std::string_view command : kPrints) {
    EgglogOptions options;
    options.proofs = true;
    EgglogProgram program(options);
    program.run(shared_term(), "p.egg");
    program.set_budget({.bytes = 20'000'000});
    const Stop stop = stop_of(program, command);
    EXPECT_EQ(stop.reason, StopReason::ByteBudget) << command;
    EXPECT_TRUE(stop.message.find("stopped by the byte budget of 20000000 bytes") != std::string::npos);
    EXPECT_LT(program.graph().size_bytes(), 2'000'000U) << "a text that nobody gets is still counted";
  }
}

TEST(ProgramBudget, TimeHoldsWhileSharedTermsArePrinted) {
  for (const std::string_view command : kPrints) {
    EgglogOptions options;
    options.proofs = true;
    EgglogProgram program(options);
    program.run(shared_term(), "p.egg");
    program.set_budget({.seconds = 0.02});
    EXPECT_EQ(stop_of(program, command).reason, StopReason::TimeBudget) << command;
  }
}

TEST(ProgramBudget, BytesHoldBeforeAFileIsRead) {
  const test::TemporaryFolder folder;
  const std::string rows(5'000'000, '\n');
  static_cast<void>(folder.file("rows.tsv", rows));
  EgglogOptions options;
  options.fact_directory = folder.path();
  options.budget.bytes = 4'000'000;
  EgglogProgram program(options);
  EXPECT_EQ(stop_of(program, "(relation r (String)) (input r \"rows.tsv\")").reason, StopReason::ByteBudget);
  EXPECT_EQ(program.run("(print-size r)"), "0\n");
}

// A container's elements take more memory as terms than in the container.
TEST(ProgramBudget, BytesCountTheTermsOfAContainer) {
  EgglogOptions options;
  options.proofs = true;
  EgglogProgram program(options);
  program.run("(sort V (Vec i64)) (datatype E (H V)) (let $v (vec-range 1000000)) (let $h (H $v))");
  program.set_budget({.bytes = 60'000'000});
  for (const std::string_view command : {"(extract $v)", "(extract $h)", "(prove (H $v))"})
    EXPECT_EQ(stop_of(program, command).reason, StopReason::ByteBudget) << command;
  program.set_budget({});
  EXPECT_LT(program.graph().size_bytes(), 30'000'000U);
}

// What was printed before counts as well.
TEST(ProgramBudget, BytesCountTheOutput) {
  std::string text = "(let $s \"" + std::string(100'000, 'x') + "\")\n";
  for (int i = 0; i < 200; i++) text += "(extract $s)";
  EXPECT_EQ(stop_of(text, {.bytes = 10'000'000}).reason, StopReason::ByteBudget);
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

// Each makes something of 100 MB or more from little, in one call.
TEST(ProgramBudget, BytesHoldBeforeAResultIsMade) {
  const std::string a_thousand(1000, 'a');
  const std::string sums = "(let $s \"" + std::string(100'000, 'a') + "\")";
  std::string twenty = "(extract (+";
  for (int i = 0; i < 1000; i++) twenty += " $s";
  for (const std::string& text : {
           "(let $s (replace \"" + a_thousand + "\" \"a\" \"" + a_thousand + "\")) (replace $s \"a\" \"" +
               a_thousand + "\")",
           "(let $s (replace \"" + a_thousand + "\" \"\" \"" + a_thousand + "\")) (replace $s \"\" \"" +
               a_thousand + "\")",
           sums + twenty + "))",
           std::string("(sort V (Vec i64)) (extract (vec-length (vec-range 100000000)))"),
           std::string("(sort V (Vec i64)) (let $v (vec-range 500000)) (let $w (vec-append $v $v $v $v))"
                       "(extract (vec-length (vec-append $w $w $w $w $w $w $w $w $w $w $w $w $w $w $w)))"),
           std::string("(extract (bits (<< (bigint 1) 60000000)))"),
           std::string(
               "(extract (pow (bigrat (bigint 2) (bigint 1)) (bigrat (bigint 60000000) (bigint 1))))"),
       }) {
    EgglogOptions options;
    options.budget.bytes = 20'000'000;
    EgglogProgram program(options);
    EXPECT_EQ(stop_of(program, text).reason, StopReason::ByteBudget) << text.substr(0, 60);
    EXPECT_LT(program.graph().size_bytes(), 20'000'000U) << text.substr(0, 60);
  }
}

TEST(ProgramBudget, BytesHoldInRulesThatReplace) {
  const Stop stop = stop_of("(function s () String :merge new)\n(set (s) \"" + std::string(50, 'a') +
                                "\")\n(rule ((= x (s))) ((set (s) (replace x \"a\" x))))\n(run 40)",
                            {.bytes = 50'000'000});
  EXPECT_EQ(stop.reason, StopReason::ByteBudget);
  EXPECT_TRUE(stop.message.starts_with("p.egg:4:1: error: stopped by the byte budget")) << stop.message;
}

TEST(ProgramBudget, TimeHoldsInsideALoopOfOnePrimitive) {
  const Stop range = stop_of("(sort V (Vec i64)) (let $v (vec-range 200000000))", {.seconds = 0.01});
  EXPECT_EQ(range.reason, StopReason::TimeBudget);
  std::string set = "(sort S (Set i64)) (let $s (set-of";
  for (int i = 0; i < 20'000; i++) set += " " + std::to_string(i);
  EgglogProgram program;
  program.run(set + "))");
  program.set_budget({.seconds = 0.002});
  EXPECT_EQ(stop_of(program, "(let $t (set-intersect $s $s))").reason, StopReason::TimeBudget);
}

// Nothing can stop a search for a part, so that it must not take the product of the lengths: 10^12 here.
TEST(ProgramBudget, PartsOfTextsAreFoundInLinearTime) {
  const std::string text(2'000'000, 'a'), part = std::string(1'000'000, 'a') + "b";
  EXPECT_EQ(run_program("(extract (count-matches \"" + text + "b\" \"" + part +
                        "\"))"
                        "(extract (count-matches \"" +
                        text + "\" \"" + part +
                        "\"))"
                        "(extract (count-matches (replace \"" +
                        text + "b\" \"" + part + "\" \"c\") \"a\"))"),
            "1\n0\n1000000\n");
}

// Without a budget too, what no String can hold is an error and not the end of all memory.
TEST(ProgramMemory, AStringHasALongestLength) {
  const std::string text = "(let $a \"" + std::string(50'000, 'a') + "\")\n(let $b (replace $a \"a\" \"" +
                           std::string(200, 'a') + "\"))\n(let $c (replace $b \"a\" $b))";
  try {
    run_program(text, "p.egg");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_TRUE(std::string_view(error.what())
                    .starts_with("p.egg:3:1: error: [replace] a String of 100000000000000 bytes is too long, "
                                 "2147483648 are possible"))
        << error.what();
  }
}

TEST(ProgramBudget, SecondsAreMoreThanNone) {
  const auto refused = [](double seconds) {
    const auto message = [](auto&& act) -> std::string {
      try {
        act();
      } catch (const Error& error) {
        return error.what();
      }
      return "";
    };
    EgglogOptions options;
    options.budget.seconds = seconds;
    EgglogProgram program;
    const Budget budget{.seconds = seconds};
    const std::string first = message([&] { EgglogProgram other(options); });
    EXPECT_EQ(message([&] { program.set_budget(budget); }), first);
    EXPECT_EQ(message([&] { program.graph().run(program.graph().ruleset("r"), 1, budget); }), first);
    return first;
  };
  const std::string rest = " seconds is none; give more than 0, or leave it out where time has no limit";
  EXPECT_EQ(refused(std::numeric_limits<double>::quiet_NaN()), "[egraph] a budget of nan" + rest);
  EXPECT_EQ(refused(0), "[egraph] a budget of 0" + rest);
  EXPECT_EQ(refused(-1.5), "[egraph] a budget of -1.5" + rest);
  EXPECT_EQ(refused(1e-9), "");
  EXPECT_EQ(refused(std::numeric_limits<double>::infinity()), "");
}

/// Each `let` is a table, and a limit of memory looks at tables: at a few of them for each command, not at all.
TEST(ProgramBudget, OfMemoryCostsLittleInProgramsOfManyTables) {
  std::string text = "(datatype M (N i64) (A M M))\n";
  for (int i = 0; i < 30000; ++i) text += fmt::format("(let x{} (A (N {}) (N {})))\n", i, i, i + 1);
  const auto seconds = [&](const Budget& budget) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(stop_of(text, budget).reason, StopReason::Finished);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  double without = 1e9, with = 1e9;  // the fastest of some
  for (int k = 0; k < 3; ++k) {
    without = std::min(without, seconds({}));
    with = std::min(with, seconds({.bytes = uint64_t{1} << 40}));
  }
  EXPECT_LT(with, 4 * without);  // 7 times as long if each command looked at all of them
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

/// It ends the reading before the end, where the text is wrong.
TEST(ProgramInterrupt, EndsTheReadingOfALongProgram) {
  std::atomic<bool> interrupt = true;
  EgglogOptions options;
  options.interrupt = &interrupt;
  EgglogProgram program(options);
  std::string text = "(relation r (i64))";
  for (int i = 0; i < 5000; ++i) text += fmt::format(" (r {})", i);
  text += ")";
  EXPECT_EQ(stop_of(program, text).reason, StopReason::Interrupted);
  interrupt = false;
  EXPECT_THROW(program.run(text, "p.egg"), Error);
}

TEST(ProgramInterrupt, EndsTheTextOfASharedTerm) {
  for (const std::string_view command : kPrints) {
    std::atomic<bool> interrupt = false;
    EgglogOptions options;
    options.proofs = true;
    options.interrupt = &interrupt;
    EgglogProgram program(options);
    program.run(shared_term(), "p.egg");
    std::thread user([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      interrupt = true;
    });
    EXPECT_EQ(stop_of(program, command).reason, StopReason::Interrupted) << command;
    user.join();
  }
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
  for (const std::string& text :
       {"(" + name + " 1)", "(relation r (" + name + "))", "(run " + name + " 1)", "(extract " + name + ")",
        "(relation r (i64)) (r \"" + name + "\")",
        "(function " + name + " () i64 :no-merge) (set (" + name + ") 1) (set (" + name + ") 2)",
        "(function " + name + " () i64 :no-merge) (relation r (i64)) (r (" + name + "))",
        "(function s () String :no-merge) (set (s) \"" + name + "\") (set (s) \"y\")",
        std::string("(function s () BigInt :no-merge) (set (s) (<< (bigint 1) 800000)) (set (s) (bigint 1))"),
        "(relation r (i64)) (rule ((r x)) ((panic \"" + name + "\"))) (r 1) (run 1)",
        "(include \"" + name + "\")", "(relation r (i64)) (input r \"" + name + "\")",
        "(relation r (i64)) (print-function r :file \"" + name + "\")",
        "(datatype E (A)) (output \"" + name + "\" (A))",
        "(relation r (i64)) (rule ((r " + name + "a)) ((r " + name + "b)))",
        "(relation r (i64)) (rule ((= x " + name + ")) ((r 1)))"}) {
    try {
      run_program(text, "p.egg");
      ADD_FAILURE() << text.substr(0, 40);
    } catch (const Error& error) {
      EXPECT_LT(std::string_view(error.what()).size(), 1200U) << std::string(error.what()).substr(0, 300);
    }
  }
}

std::string conflict_of(std::string_view text) {
  try {
    run_program(text, "p.egg");
    return "no error";
  } catch (const Error& error) {
    const std::string message = error.what();
    return message.substr(0, message.find('\n'));
  }
}

TEST(Messages, ConflictsShowElementsAndTerms) {
  const std::string_view sorts =
      "(datatype E (A) (B) (F E i64)) (sort V (Vec i64)) (sort W (Vec E)) (sort P (Pair V String))\n";
  const auto between = [&](std::string_view sort, std::string_view first, std::string_view second) {
    return conflict_of(fmt::format("{}(function f () {} :no-merge)\n(set (f) {})\n(set (f) {})", sorts, sort,
                                   first, second));
  };
  const auto expected = [](std::string_view first, std::string_view second) {
    return fmt::format(
        "p.egg:4:1: error: [f] illegal merge: the output is already {} and cannot become {}; declare how "
        "they "
        "merge",
        first, second);
  };
  EXPECT_EQ(between("V", "(vec-of 1 2)", "(vec-of 3)"), expected("(vec-of 1 2)", "(vec-of 3)"));
  EXPECT_EQ(between("E", "(A)", "(F (B) 7)"), expected("(A)", "(F (B) 7)"));
  EXPECT_EQ(between("W", "(vec-of (A) (F (A) 1))", "(vec-empty)"),
            expected("(vec-of (A) (F (A) 1))", "(vec-empty)"));
  EXPECT_EQ(between("P", "(pair (vec-of 1) \"x\")", "(pair (vec-of 2) \"y\")"),
            expected("(pair (vec-of 1) \"x\")", "(pair (vec-of 2) \"y\")"));
}

// The term of a class that holds itself ends somewhere.
TEST(Messages, ConflictsShowClassesThatHoldThemselves) {
  const std::string message = conflict_of(
      "(datatype E (G E)) (constructor N (i64) E)\n(function f () E :no-merge)\n"
      "(let $a (N 1)) (union (G $a) $a) (delete (N 1))\n(set (f) $a)\n(set (f) (N 2))");
  EXPECT_EQ(message.substr(0, 75),
            "p.egg:5:1: error: [f] illegal merge: the output is already (G (G (G (G (G (");
  EXPECT_TRUE(message.find("cannot become (N 2)") != std::string::npos) << message;
}

TEST(Messages, ErrorsInTheMiddleOfARuleNameIt) {
  const std::string_view rows = "(relation r (i64)) (r 1) (r 2) (function f () i64 :no-merge)\n";
  EXPECT_EQ(
      conflict_of(std::string(rows) + "(rule ((r x)) ((set (f) x)) :name \"sets\")\n(run 1)"),
      "p.egg:3:1: error: [f] illegal merge: the output is already 1 and cannot become 2; declare how they "
      "merge; in rule 'sets' at p.egg:2:1");
  EXPECT_EQ(
      conflict_of(std::string(rows) + "(rule ((r x))\n ((set (f) x)))\n(run 1)"),
      "p.egg:4:1: error: [f] illegal merge: the output is already 1 and cannot become 2; declare how they "
      "merge; in rule '(rule ((r x)) ((set (f) x)) )' at p.egg:2:1");
  EXPECT_EQ(
      conflict_of("(relation r (i64)) (function s () String :merge new) (r 1) (set (s) \"" +
                  std::string(100'000, 'a') +
                  "\")\n(rule ((r x) (= a (s))) ((set (s) (replace a \"a\" a))) :name \"grows\")\n(run 2)"),
      "p.egg:3:1: error: [replace] a String of 10000000000 bytes is too long, 2147483648 are possible; in "
      "rule 'grows' at p.egg:2:1");
  const std::string_view classes =
      "(datatype E (A) (B)) (function f (E) i64 :no-merge) (set (f (A)) 1) (set (f (B)) 2)\n";
  EXPECT_EQ(
      conflict_of(std::string(classes) + "(rule ((= x (A)) (= y (B))) ((union x y)) :name \"joins\")\n"
                                         "(rule ((= x (A))) ((union x x)) :name \"idle\")\n(run 1)"),
      "p.egg:4:1: error: [f] illegal merge: the output is already 1 and cannot become 2; declare how they "
      "merge; after unions by rule 'joins' at p.egg:2:1");
}

}  // namespace
}  // namespace luminal::egraph
