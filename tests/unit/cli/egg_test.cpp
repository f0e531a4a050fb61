// luminal egg: options that show something besides what the program prints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cli/command.h"
#include "support/files.h"

namespace luminal::cli {
namespace {

using testing::HasSubstr;

constexpr const char* kProgram = R"(
(datatype Math (Num i64) (Var String) (Add Math Math))
(function value (Math) i64 :merge (min old new))
(rewrite (Add a b) (Add b a) :name "add-comm")
(let $e (Add (Num 1) (Add (Var "</script><!--") (Num 2))))
(set (value $e) 7)
(run 3)
(extract $e)
)";

std::string run_egg(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "egg");
  std::ostringstream out, err;
  Console console{out, err};
  EXPECT_EQ(run(arguments, console), 0) << err.str();
  return out.str();
}

nlohmann::json data_of(const std::string& page) {
  const std::string mark = "type=\"application/json\">";
  const size_t begin = page.find(mark) + mark.size();
  return nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

TEST(Egg, PageHoldsTheEGraphAndItsGrowth) {
  const test::TemporaryFolder folder;
  const auto program = folder.file("program.egg", kProgram);
  const auto page_file = folder.path() / "page.html";
  run_egg({program.string(), "--html", page_file.string()});
  const std::string page = test::content_of(page_file);
  EXPECT_TRUE(page.starts_with("<!doctype html>"));
  EXPECT_TRUE(page.ends_with("</html>\n"));
  EXPECT_EQ(page.find("http-equiv"), std::string::npos);
  EXPECT_EQ(page.find("src="), std::string::npos) << "nothing is loaded from elsewhere";
  const nlohmann::json data = data_of(page);
  EXPECT_EQ(data["rules"][0][0], "add-comm");
  EXPECT_EQ(data["rules"][0][3], 4);  // each of the two sums, then each of those made from them
  EXPECT_EQ(data["growth"][0], 9);    // 2 Num, Var, 4 Add, value, and the global's row
  EXPECT_EQ(data["classes"], 5);
  bool found = false;
  for (const auto& f : data["graph"]["functions"])
    if (f["name"] == "Var") found = f["rows"][0]["args"][0] == "</script><!--";
  EXPECT_TRUE(found) << "texts come through";
}

TEST(Egg, OfLargeEGraphsAPartIsDrawn) {
  const test::TemporaryFolder folder;
  const auto program = folder.file("program.egg", R"(
    (relation n (i64)) (rule ((n x) (< x 5000)) ((n (+ x 1)) (n (+ x 5000)))) (n 0) (run 5001))");
  const auto page_file = folder.path() / "page.html";
  run_egg({program.string(), "--html", page_file.string()});
  const nlohmann::json data = data_of(test::content_of(page_file));
  EXPECT_EQ(data["rows"], 10000);
  EXPECT_EQ(data["tables"][0], nlohmann::json({"n", "relation", 10000}));
  EXPECT_EQ(data["graph"]["functions"][0]["rows"].size(), data["part"]["facts"]);
}

// The classes of a sum of nine: the whole stands above all others, and has more nodes than are shown.
TEST(Egg, ThePartBeginsWithWhatNothingUses) {
  const test::TemporaryFolder folder;
  const auto program = folder.file("program.egg", R"(
    (datatype E (V i64) (Add E E)) (relation top (E)) (rewrite (Add a b) (Add b a))
    (rewrite (Add a (Add b c)) (Add (Add a b) c))
    (Add (V 1) (Add (V 2) (Add (V 3) (Add (V 4) (Add (V 5) (Add (V 6) (Add (V 7) (Add (V 8) (V 9)))))))))
    (run-schedule (saturate (run))))");
  const auto page_file = folder.path() / "page.html";
  run_egg({program.string(), "--html", page_file.string()});
  const nlohmann::json data = data_of(test::content_of(page_file));
  EXPECT_EQ(data["classes"], 511);
  EXPECT_EQ(data["part"]["classes"], 120);
  std::map<size_t, size_t> nodes;
  std::set<size_t> used;
  for (const auto& f : data["graph"]["functions"])
    for (const auto& row : f["rows"]) {
      if (f["kind"] != "constructor") continue;
      nodes[row["output"].get<size_t>()]++;
      if (f["name"] == "Add") used.insert(row["args"].begin(), row["args"].end());
    }
  EXPECT_GT(nodes.size(), 50U);
  EXPECT_LE(nodes.size(), 120U);
  size_t roots = 0, most = 0;
  for (const auto& [id, count] : nodes) {
    most = std::max(most, count);
    roots += used.contains(id) ? 0 : 1;
  }
  EXPECT_EQ(most, data["part"]["nodes"].get<size_t>());
  EXPECT_EQ(roots, 1U);  // the whole sum
}

TEST(Egg, WritesWhatItHasFoundWhereABudgetEnds) {
  const test::TemporaryFolder folder;
  const auto program = folder.file("endless.egg", R"(
    (relation n (i64)) (rule ((n x)) ((n (+ x 1)))) (n 0) (run-schedule (saturate (run))))");
  const auto page = folder.path() / "page.html", json = folder.path() / "graph.json";
  std::ostringstream out, err;
  Console console{out, err};
  EXPECT_EQ(run(std::vector<std::string>{"egg", program.string(), "--nodes", "500", "--html", page.string(),
                                         "--to-json", json.string(), "--profile"},
                console),
            1);
  EXPECT_THAT(err.str(), HasSubstr("endless.egg:2"));
  EXPECT_THAT(err.str(), HasSubstr("budget of 500 rows"));
  EXPECT_THAT(err.str(), HasSubstr(" iterations, "));
  EXPECT_GT(data_of(test::content_of(page))["rows"], 400);
  EXPECT_FALSE(nlohmann::json::parse(test::content_of(json)).empty());
  EXPECT_EQ(run(std::vector<std::string>{"egg", program.string(), "--megabytes", "0.5"}, console), 1);
  EXPECT_THAT(err.str(), HasSubstr("budget of 500000 bytes"));
}

TEST(Egg, BudgetsArePositiveNumbers) {
  const test::TemporaryFolder folder;
  const auto program = folder.file("program.egg", kProgram);
  for (const std::string option : {"--seconds", "--nodes", "--megabytes"})
    for (const std::string wrong : {"0", "-1", "nan", "inf", "1e300", "x"}) {
      std::ostringstream out, err;
      Console console{out, err};
      EXPECT_EQ(run(std::vector<std::string>{"egg", program.string(), option, wrong}, console), 2) << wrong;
      EXPECT_THAT(err.str(), HasSubstr(option)) << wrong;
    }
}

// Each check is proved, and the proof goes through the checker: of terms in containers and of applied functions too.
TEST(Egg, ProofTestingProvesEveryCheck) {
  const test::TemporaryFolder folder;
  const auto program = folder.file("program.egg", R"(
    (datatype Math (Num i64) (Var String) (Add Math Math))
    (sort Maths (Vec Math))
    (constructor Row (Maths) Math)
    (sort Fn (UnstableFn (Math) Math))
    (constructor Apply (Fn Math) Math)
    (rewrite (Add a b) (Add b a) :name "add-comm")
    (rewrite (Row (vec-empty)) (Num 0) :name "empty-row")
    (rewrite (Apply f x) (unstable-app f x) :name "apply")
    (let $sum (Add (Var "x") (Num 1)))
    (let $row (Row (vec-empty)))
    (let $rows (Row (vec-of $sum)))
    (let $applied (Apply (unstable-fn "Add" (Num 1)) (Var "x")))
    (run 3)
    (check (= $sum (Add (Num 1) (Var "x"))))
    (check (= $row (Num 0)))
    (check (= $rows (Row (vec-of (Add (Num 1) (Var "x"))))))
    (check (= $applied (Add (Num 1) (Var "x"))))
    (fail (check (= $row (Num 1)))))");
  EXPECT_EQ(run_egg({program.string(), "--proof-testing"}), run_egg({program.string()}));
  const auto wrong = folder.file("wrong.egg", R"((relation p (i64)) (p 1) (check (p 2)))");
  std::ostringstream out, err;
  Console console{out, err};
  EXPECT_EQ(run(std::vector<std::string>{"egg", wrong.string(), "--proof-testing"}, console), 1);
  EXPECT_THAT(err.str(), HasSubstr("wrong.egg:1"));
}

TEST(Egg, ThreadsPrintTheSame) {
  const test::TemporaryFolder folder;
  const auto program = folder.file("program.egg", kProgram);
  EXPECT_EQ(run_egg({program.string(), "--threads", "1"}), run_egg({program.string(), "--threads", "2"}));
  std::ostringstream out, err;
  Console console{out, err};
  EXPECT_EQ(run(std::vector<std::string>{"egg", program.string(), "--threads", "0"}, console), 2);
  EXPECT_THAT(err.str(), HasSubstr("--threads"));
}

}  // namespace
}  // namespace luminal::cli
