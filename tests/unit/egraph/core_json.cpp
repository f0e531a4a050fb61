#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "luminal/egraph.h"
#include "luminal/error.h"
#include "unit/egraph/core_random_program.h"

namespace luminal::egraph {
namespace {

using testing::fingerprint;
using ::testing::HasSubstr;
using testing::RandomProgram;

TEST(Json, AFileIsWhatTheHeaderSays) {
  EGraph g;
  const SortId math = g.eq_sort("Math");
  g.constructor("Num", {kI64}, math);
  g.relation("even", {math});
  g.add_term("(Num 7)");
  EXPECT_EQ(g.to_json(), R"({
 "luminal-egraph": 1,
 "sorts": ["Math"],
 "functions": [
  {"name":"Num","kind":"constructor","inputs":["i64"],"output":"Math","cost":1.0, "rows": [
   {"args":[7],"output":0}]},
  {"name":"even","kind":"relation","inputs":["Math"], "rows": []}
 ]
}
)");
}

TEST(Json, EveryLiteralSurvives) {
  EGraph g, h;
  for (EGraph* each : {&g, &h}) each->relation("r", {kI64, kF64, kString, kBool, kUnit});
  const double values[] = {0.1, -0.0, 1e300, HUGE_VAL, -HUGE_VAL, std::nan(""), 5e-324};
  for (const double x : values)
    g.add(*g.find_function("r"), {g.i64(std::numeric_limits<int64_t>::min()), g.f64(x),
                                  g.string("a\"\n\xc3\xa9"), EGraph::boolean(true), kUnitValue});
  h.load_json(g.to_json());
  EXPECT_EQ(h.row_count(), std::size(values));
  EXPECT_EQ(h.to_json(), g.to_json());
}

TEST(Json, RandomEGraphsComeBackTheSame) {
  for (uint64_t seed = 1; seed <= 100; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    EGraph g, fresh, again;
    RandomProgram program(g, seed, false);
    program.add_facts(nullptr, 12);
    g.run(program.ruleset(), 2);
    if (g.row_count() > 2000) continue;
    const std::string text = g.to_json();
    RandomProgram same(again, seed, false);
    again.load_json(text);
    EXPECT_EQ(fingerprint(g), fingerprint(again));
    EXPECT_EQ(again.to_json(), text);
    // The first function with a merge can't be declared from the text.
    EXPECT_THROW(fresh.load_json(text), FormatError);
  }
}

TEST(Json, WhatIsWrongIsNamed) {
  const auto message = [](const char* text) -> std::string {
    EGraph g;
    try {
      g.load_json(text);
    } catch (const FormatError& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_THAT(message("{"), HasSubstr("[json]"));
  EXPECT_THAT(message("[]"), HasSubstr("this is not an e-graph"));
  EXPECT_THAT(message(R"({"luminal-egraph": 1})"), HasSubstr("the file has no member \"sorts\""));
  const auto with = [&](const std::string& function) {
    return message((R"({"luminal-egraph": 1, "sorts": ["E"], "functions": [)" + function + "]}").c_str());
  };
  EXPECT_THAT(with("3"), HasSubstr("function 0 has no member \"name\""));
  EXPECT_THAT(with(R"({"name": "f", "kind": "relation", "inputs": ["i46"], "rows": []})"),
              HasSubstr("function f: unknown sort 'i46'; did you mean 'i64'?"));
  EXPECT_THAT(
      with(
          R"({"name": "f", "kind": "relation", "inputs": ["i64"], "rows": [{"args": [1]}, {"args": ["x"]}]})"),
      HasSubstr("row 1 of f: \"x\" is not a value of sort i64"));
  EXPECT_THAT(
      with(
          R"({"name": "f", "kind": "constructor", "inputs": [], "output": "E", "rows": [{"args": [], "output": -1}]})"),
      HasSubstr("-1 is not a value of sort E"));
  EXPECT_THAT(with(R"({"name": "f", "kind": "relation", "inputs": ["i64"], "rows": [{"args": []}]})"),
              HasSubstr("0 arguments, but f takes 1"));
}

}  // namespace
}  // namespace luminal::egraph
