#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/command.h"
#include "support/files.h"

namespace luminal::cli {
namespace {

using testing::HasSubstr;

std::string explain(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"explain", "--device", "cpu"});
  std::ostringstream out, err;
  Console console{out, err};
  EXPECT_EQ(run(arguments, console), 0) << err.str();
  return out.str();
}

/// Whether `text` has all of these, in this order.
void expect_in_order(const std::string& text, const std::vector<std::string>& parts) {
  size_t at = 0;
  for (const std::string& part : parts) {
    const size_t found = text.find(part, at);
    ASSERT_NE(found, std::string::npos) << "'" << part << "' is not there, or stands before what it follows";
    at = found + part.size();
  }
}

const std::string kLayer = "(conv2d(x:f32[2,3,6,6], w:f32[4,3,3,3], padding=1) + b:f32[4,1,1]).relu()";

TEST(Explain, FollowsALayerFromTheFormulaToMachineCode) {
  const std::string text = explain({"--all", kLayer});
  expect_in_order(text, {"== graph", "conv2d > mul", "sum_reduce", "== laws that fired",
                         "e-graph:", "cover:", "kernel f32[2,4,6,6]", "sum u in 3", "predicted", "-- loops",
                         "stage 0", "-- target source", "define ", "-- assembly", "ret"});
}

TEST(Explain, OptionsThatMayBeRepeatedLeaveTheFormulaAlone) {
  const std::string formula = "x:f32[n,m] * 2";
  const std::string expected = explain({formula, "--dim", "n=3", "--dim", "m=5"});
  EXPECT_THAT(expected, HasSubstr("f32[n, m] = mul"));
  const auto graph_of = [](const std::string& text) { return text.substr(0, text.find("\n== ")); };
  EXPECT_EQ(graph_of(explain({"--dim", "n=3", "--dim", "m=5", formula})), graph_of(expected));
  EXPECT_EQ(
      graph_of(explain({"--dim", "n=3", "--dim", "m=5", "--without-rule", "kernel-slot-read", formula})),
      graph_of(expected));
}

TEST(Explain, ThePageHoldsAllOfItAndNeedsNothingElse) {
  const test::TemporaryFolder folder;
  const auto file = folder.path() / "page.html";
  EXPECT_EQ(explain({"--html", file.string(), kLayer}), "");
  const std::string page = test::content_of(file);
  EXPECT_TRUE(page.starts_with("<!doctype html>"));
  EXPECT_TRUE(page.ends_with("</html>\n"));
  expect_in_order(page, {"Compiled for cpu (fast)", "fusion candidates", "with every value in memory",
                         "saturate", "conv2d &gt; mul", "Laws that fired", "roofline", "kernel f32[2,4,6,6]",
                         "loops", "target source", "machine code"});
  for (const char* outside : {"http:", "https:", "src=", "@import", "<script"})
    EXPECT_THAT(page, testing::Not(HasSubstr(outside)));
  for (const char* pair : {"details", "table", "pre", "h2"}) {
    const auto count = [&](const std::string& tag) {
      size_t found = 0;
      for (size_t at = 0; (at = page.find(tag, at)) != std::string::npos; ++at) ++found;
      return found;
    };
    EXPECT_EQ(count(std::string("<") + pair), count(std::string("</") + pair + ">")) << pair;
  }
}

TEST(Explain, SaysWhatTheLettersOfAKernelAre) {
  EXPECT_THAT(explain({kLayer}),
              HasSubstr("where A = x f32[2, 3, 6, 6], B = w f32[4, 3, 3, 3], C = b f32[4, 1, 1]"));
  // What a kernel reads from another one has the name of that.
  EXPECT_THAT(explain({"(x:f32[512,256] @ w:f32[256,512]).softmax(-1)"}),
              testing::ContainsRegex("= f32.512, 512. of contract_"));
}

TEST(Explain, InFastModeTheModelsNextChoicesAreListed) {
  const auto report = nlohmann::json::parse(explain({"--json", "x:f32[64,512].softmax(-1)"}));
  for (const auto& kernel : report.at("kernels")) {
    ASSERT_FALSE(kernel.at("rejected").empty());
    double least = kernel.at("predicted_us");
    for (const auto& other : kernel.at("rejected")) {
      EXPECT_EQ(other.at("reason"), "slower by the model");
      EXPECT_GE(other.at("predicted_us").get<double>(), least);
      least = other.at("predicted_us");
    }
  }
}

/// Code, and what is said of it.
std::pair<int, std::string> failed(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"explain", "--device", "cpu"});
  std::ostringstream out, err;
  Console console{out, err};
  const int code = run(arguments, console);
  EXPECT_EQ(out.str(), "");
  return {code, err.str()};
}

TEST(Explain, WrongInputIsAnswered) {
  const auto expect = [](const std::vector<std::string>& arguments, int code, const std::string& text) {
    const auto [got, said] = failed(arguments);
    EXPECT_EQ(got, code) << said;
    EXPECT_THAT(said, HasSubstr(text));
  };
  expect({"x:f32[n,m].exp()"}, kFailed, "--dim m=SIZE --dim n=SIZE");
  expect({"x:f32[n,m].exp()", "--dim", "n=3"}, kFailed, "the size of 'm' is not known");
  expect({"x:f32[n].exp()", "--dim", "n"}, kFailed, "--dim takes NAME=SIZE");
  expect({"x:f32[n].exp()", "--dim", "n=99999999999999999999"}, kFailed, "--dim takes NAME=SIZE");
  expect({"matmull"}, kFailed, "did you mean 'matmul'?");
  expect({"x:f32[2] +"}, kFailed, "(column 11)");
  expect({kLayer, "--mode", "budget=abc"}, kFailed, "unknown mode 'budget=abc'");
  expect({kLayer, "--math", "loose"}, kFailed, "unknown math mode 'loose'");
  expect({kLayer, "--without-rule", "none-such"}, kFailed, "none-such");
  expect({kLayer, "--html", "/nowhere/page.html"}, kFailed, "/nowhere");
  expect({}, kUsage, "Usage: luminal explain");
  const test::TemporaryFolder folder;
  expect({"--replay", (folder.path() / "none").string()}, kFailed, "cannot open");
  expect({"--replay", folder.file("half.json", "{\"luminal-replay\": 2,").string()}, kFailed,
         "not a replay file");
  expect({"--replay", folder.file("other.json", "[1]").string()}, kFailed, "not a replay file");
}

TEST(Explain, EveryExampleGoesDownToMachineCode) {
  for (const char* example : {"attention", "conv", "layer-norm", "matmul", "softmax"})
    expect_in_order(explain({"--all", example}), {"== graph", "== compiled for cpu", "kernel f32[",
                                                  "-- loops", "-- target source", "-- assembly"});
}

TEST(Explain, AMeasuredReportSaysWhatWasTriedAndNotTaken) {
  const std::string cold = explain({"--mode", "optimal", "--json", "x:f32[37,41].softmax(-1)"});
  const auto report = nlohmann::json::parse(cold);
  EXPECT_EQ(report.at("mode"), "optimal");
  EXPECT_GE(report.at("fusions").get<int>(), 1);
  EXPECT_FALSE(report.at("growth").empty());
  EXPECT_GE(report.at("unfused_us").get<double>(), report.at("predicted_us").get<double>());
  for (const auto& kernel : report.at("kernels")) {
    EXPECT_TRUE(kernel.at("verified").get<bool>());
    EXPECT_GT(kernel.at("measured_us").get<double>(), 0);
  }
  const std::string warm = explain({"--mode", "optimal", "x:f32[37,41].softmax(-1)"});
  EXPECT_THAT(warm, HasSubstr("verified against the graph's own nodes"));
  EXPECT_THAT(warm, HasSubstr("taken from the cache; the search that stored it"));
  EXPECT_THAT(warm, testing::Not(HasSubstr("predicted 0.0 us;")))
      << "what is remembered has its prediction too";
}

}  // namespace
}  // namespace luminal::cli
