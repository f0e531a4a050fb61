#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "luminal/egglog.h"
#include "luminal/error.h"

namespace luminal::egraph {
namespace {

using ::testing::HasSubstr;

TEST(EgglogProgram, RunsTextsAgainstOneDatabase) {
  EgglogProgram program;
  EXPECT_EQ(program.run("(datatype M (Num i64) (Add M M)) (let $x (Add (Num 1) (Num 2)))"), "");
  EXPECT_EQ(program.run("(rewrite (Add (Num a) (Num b)) (Num (+ a b))) (run 1) (extract $x)"), "(Num 3)\n");
  EXPECT_GE(program.report().iterations, 1U);
  EXPECT_EQ(program.graph().row_count(*program.graph().find_function("Add")), 1U);
}

TEST(EgglogProgram, AnErrorLeavesWhatCameBefore) {
  EgglogProgram program;
  EXPECT_THROW(program.run("(relation r (i64)) (r 1) (oops)"), Error);
  EXPECT_EQ(program.run("(print-size r)"), "1\n");
  EXPECT_THROW(program.run("(r 2) (r \"x\")"), Error);
  EXPECT_EQ(program.run("(print-size r)"), "2\n");
  // A declaration that fails declares nothing.
  EXPECT_THROW(program.run("(function f (i64) i64 :merge (oops old))"), Error);
  EXPECT_EQ(program.run("(function f (i64) i64 :merge (min old new)) (set (f 1) 3) (extract (f 1))"), "3\n");
}

TEST(EgglogProgram, SendsOutputAsItComes) {
  std::string seen;
  EgglogOptions options;
  options.on_output = [&](std::string_view text) { seen += text; };
  EXPECT_THROW(run_program("(extract 1) (extract 2) (extract oops)", "p", options), Error);
  EXPECT_EQ(seen, "1\n2\n");
}

TEST(EgglogProgram, EnginesDoNotDisturbEachOther) {
  EgglogProgram first, second;
  first.run("(relation r (i64)) (r 1)");
  second.run("(relation r (String)) (r \"a\") (r \"b\")");
  EXPECT_EQ(first.run("(print-size r)"), "1\n");
  EXPECT_EQ(second.run("(print-size r)"), "2\n");
}

TEST(EgglogProgram, StrictGlobalsNeedThePrefix) {
  EgglogOptions options;
  options.strict_globals = true;
  EXPECT_EQ(run_program("(let $x 1) (extract $x)", "p", options), "1\n");
  EXPECT_THROW(run_program("(let x 1)", "p", options), Error);
}

TEST(EgglogProgram, BudgetsStopARunawayProgram) {
  EgglogOptions options;
  options.budget.nodes = 1000;
  EgglogProgram program(options);
  program.run("(datatype N (Z) (S N)) (relation r (N)) (rule ((r n)) ((r (S n)))) (r (Z))");
  EXPECT_THROW(program.run("(run 100000)"), Error);
  EXPECT_LT(program.graph().row_count(), 5000U);
}

class Files : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("luminal_egg_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    options_.fact_directory = folder_;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string content(const std::string& name) const {
    std::ifstream file(folder_ / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::filesystem::path folder_;
  EgglogOptions options_;
};

TEST_F(Files, OutputAppendsTerms) {
  EgglogProgram program(options_);
  program.run("(datatype M (Num i64) (Add M M)) (output \"terms\" (Num 1) (Add (Num 1) (Num 2)))");
  program.run("(output \"terms\" 7)");
  EXPECT_EQ(content("terms"), "(Num 1)\n(Add (Num 1) (Num 2))\n7\n");
  EXPECT_THROW(program.run("(output \"no/such/folder\" 1)"), Error);
}

TEST_F(Files, TablesAndStatisticsAreWritten) {
  EgglogProgram program(options_);
  const std::string rows = (folder_ / "rows.csv").string(), stats = (folder_ / "stats.json").string();
  EXPECT_EQ(program.run("(relation r (i64 String)) (r 1 \"a,b\") (print-function r :mode csv :file \"" +
                        rows + "\")"),
            "");
  EXPECT_EQ(content("rows.csv"), "r,1,\"\"\"a,b\"\"\",\"(r 1 \"\"a,b\"\")\"\n");
  program.run("(rule ((r x y)) ((r (+ x 1) y)) :name \"grow \\\"r\\\"\") (run 3) (print-stats :file \"" +
              stats + "\")");
  EXPECT_THAT(content("stats.json"), HasSubstr("\"iterations\":3"));
  EXPECT_THAT(content("stats.json"), HasSubstr("\"matched\":3"));
  EXPECT_THAT(program.run("(print-stats)"), HasSubstr("num matches 3"));
}

TEST_F(Files, InputReadsManyRows) {
  std::ofstream file(folder_ / "edges");
  for (int i = 0; i < 20000; ++i) file << i << '\t' << (i * 7919) % 20000 - 10000 << '\n';
  file.close();
  EgglogProgram program(options_);
  EXPECT_EQ(program.run("(relation edge (i64 i64)) (input edge \"edges\") (print-size edge)"), "20000\n");
  EXPECT_EQ(program.run("(check (edge 3 -6243)) (fail (check (edge 3 1)))"), "");
}

TEST_F(Files, InputIsUtf8) {
  std::ofstream(folder_ / "names") << "one\t1\ntw\xff\t2\n";
  EgglogProgram program(options_);
  try {
    program.run("(relation named (String i64)) (input named \"names\")");
    ADD_FAILURE() << "bytes that are no text are taken";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("names:2:3: byte 0xff is not UTF-8 text"));
  }
}

TEST_F(Files, IncludesThatIncludeThemselvesEnd) {
  std::ofstream(folder_ / "loop.egg") << "(include \"loop.egg\")";
  EXPECT_THROW(EgglogProgram(options_).run_file(folder_ / "loop.egg"), Error);
}

TEST(EgglogProgram, KnowsWhenATextIsIncomplete) {
  EXPECT_TRUE(EgglogProgram::is_incomplete("(let $x (A"));
  EXPECT_TRUE(EgglogProgram::is_incomplete("(panic \"abc"));
  EXPECT_FALSE(EgglogProgram::is_incomplete("(let $x (A))"));
  EXPECT_FALSE(EgglogProgram::is_incomplete("(a) ; ("));
  EXPECT_FALSE(EgglogProgram::is_incomplete("(a))"));
}

TEST(EgglogProgram, DeepTermsCostNoStack) {
  constexpr int kDepth = 20000;
  std::string term = "(Z)";
  for (int i = 0; i < kDepth; ++i) term = "(S " + term + ")";
  const std::string out = run_program("(datatype N (Z) (S N)) (extract " + term + ")");
  EXPECT_EQ(out, term + "\n");
}

// -- Random programs: well-formed pieces put together at random must be typed or refused, never crash or
// hang.

class RandomPrograms {
 public:
  explicit RandomPrograms(uint32_t seed) : random_(seed) {}

  std::string program() {
    std::string text = kDeclarations;
    for (size_t i = 1 + pick(6); i-- > 0;) text += command() + "\n";
    return text;
  }

 private:
  static constexpr const char* kDeclarations =
      "(datatype M (Num i64) (Var String) (Add M M) (Neg M))\n(sort V (Vec i64))\n(sort F (UnstableFn (i64) "
      "i64))\n"
      "(relation r (i64 M))\n(function f (M) i64 :merge (min old new))\n(let $g (Num 1))\n";

  size_t pick(size_t n) { return random_() % n; }
  std::string expr(int depth) {
    static const std::vector<std::string> kLeaves{"x",     "y",    "z",  "1", "-3", "2.5",
                                                  "\"s\"", "true", "$g", "_", "()", "(vec-empty)"};
    static const std::vector<std::string> kHeads{
        "Num",          "Var", "Add", "Neg",       "f",      "r",        "+",       "*",
        "min",          "<",   "!=",  "to-string", "vec-of", "vec-push", "vec-get", "unstable-fn",
        "unstable-app", "nope"};
    if (depth == 0 || pick(3) == 0) return kLeaves[pick(kLeaves.size())];
    std::string out = "(" + kHeads[pick(kHeads.size())];
    for (size_t i = pick(4); i-- > 0;) out += " " + expr(depth - 1);
    return out + ")";
  }
  std::string fact() {
    return pick(2) == 0 ? "(= " + expr(2) + " " + expr(2) + ")" : "(r " + expr(1) + " " + expr(2) + ")";
  }
  std::string action() {
    switch (pick(6)) {
      case 0:
        return "(let v " + expr(2) + ")";
      case 1:
        return "(set (f " + expr(1) + ") " + expr(1) + ")";
      case 2:
        return "(union " + expr(2) + " " + expr(2) + ")";
      case 3:
        return "(delete (f " + expr(1) + "))";
      case 4:
        return "(subsume (Neg " + expr(1) + "))";
      default:
        return "(r " + expr(1) + " " + expr(2) + ")";
    }
  }
  std::string command() {
    switch (pick(7)) {
      case 0:
        return "(rule (" + fact() + " " + fact() + ") (" + action() + " " + action() + "))";
      case 1:
        return "(rewrite " + expr(3) + " " + expr(3) + ")";
      case 2:
        return "(check " + fact() + ")";
      case 3:
        return "(extract " + expr(3) + ")";
      case 4:
        return "(run 2)";
      case 5:
        return "(fail (check " + fact() + "))";
      default:
        return action();
    }
  }

  std::mt19937 random_;
};

TEST(RandomPrograms, AreTypedOrRefused) {
  constexpr uint32_t kSeed = 7;
  int accepted = 0;
  for (uint32_t round = 0; round < 1500; ++round) {
    const std::string text = RandomPrograms(kSeed + round).program();
    EgglogOptions options;
    options.budget.nodes = 2000;
    try {
      run_program(text, "random", options);
      ++accepted;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("random:"))
          << "an error without its place, seed " << kSeed + round << "\n"
          << text;
    } catch (const std::exception& error) {
      ADD_FAILURE() << "seed " << kSeed + round << ": " << error.what() << "\n" << text;
    }
  }
  EXPECT_GT(accepted, 10) << "the generator makes hardly any program that is well-typed";
}

}  // namespace
}  // namespace luminal::egraph
