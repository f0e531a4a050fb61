#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "luminal/error.h"
#include "luminal/graph.h"
#include "luminal/ops.h"

namespace luminal {
namespace {

using testing::HasSubstr;
using testing::Not;

/// A small graph: a named input, a broadcast constant, a padded transposition, a state, an order edge.
struct Sample {
  Graph cx;
  GraphTensor x, y, count;
  Sample() {
    x = cx.named_tensor("x", {"batch", 3});
    y = cx.add_op(kSin).input(x).finish();
    y = cx.add_op(kSumReduce)
            .input(y.t().pad({{1, 0}, {0, 0}}))
            .attribute("axes", std::vector<int64_t>{1})
            .finish();
    count = cx.tensor({1}, Dtype::I64);
    auto next = cx.add_op(kAdd).input(count).input(count).finish();
    count.assign(next);
    cx.order(y, next);
    y.retrieve();
  }
};

std::string without_origins(const std::string& text) {
  std::istringstream lines(text);
  std::string result, line;
  while (std::getline(lines, line)) result += line.substr(0, line.find("  ; ")) + "\n";
  return result;
}

std::string written(const Graph& cx, std::span<const GraphTensor> marks, const std::string& name) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / name;
  cx.display(marks, path.string());
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  std::filesystem::remove(path);
  return text.str();
}

TEST(Display, TextHasOneLineForEachNode) {
  const Sample sample;
  EXPECT_EQ(without_origins(sample.cx.to_string()),
            "%0: f32[batch, 3] = input \"x\"\n"
            "%1: f32[batch, 3] = sin(%0)\n"
            "%2: f32[4] = sum_reduce(%1.permute(1, 0).pad((1, 0), (0, 0))) axes=[1] [retrieved]\n"
            "%3: i64[1] = input [state <- %4]\n"
            "%4: i64[1] = add(%3, %3) [after %2]\n");
}

TEST(Display, ShapesOfEveryEdge) {
  const Sample sample;
  EXPECT_THAT(sample.cx.display_shapes(),
              HasSubstr("sum_reduce(%1.permute(1, 0).pad((1, 0), (0, 0)): f32[4, batch]) axes=[1]"));
  EXPECT_THAT(sample.cx.display_shapes(), HasSubstr("%4: i64[1] = add(%3: i64[1], %3: i64[1])"));
}

TEST(Display, TextTellsTheUsersLine) {
  Graph cx;
  auto x = cx.tensor({2});
  auto y = x.softmax();
  const int line = __LINE__ - 1;
  EXPECT_THAT(cx.to_string(), HasSubstr("  ; softmax > "));
  EXPECT_THAT(cx.to_string(), HasSubstr(" at display_test.cpp:" + std::to_string(line) + "\n"));
  (void)y;
}

TEST(Display, Graphviz) {
  const Sample sample;
  const std::string dot = written(sample.cx, std::span(&sample.y, 1), "sample.dot");
  EXPECT_EQ(
      dot,
      "digraph luminal {\n"
      "  node [shape=box, fontname=\"monospace\"];\n"
      "  n0 [label=\"\\\"x\\\"\\n%0 input\\nf32[batch, 3]\"];\n"
      "  n1 [label=\"%1 sin\\nf32[batch, 3]\"];\n"
      "  n0 -> n1;\n"
      "  n2 [label=\"%2 sum_reduce axes=[1]\\nf32[4]\\nretrieved\", style=filled, fillcolor=\"#ffd966\"];\n"
      "  n1 -> n2 [label=\"permute(1, 0).pad((1, 0), (0, 0)) [4, batch]\"];\n"
      "  n3 [label=\"%3 input\\ni64[1]\\nstate <- %4\"];\n"
      "  n4 [label=\"%4 add\\ni64[1]\\nafter %2\"];\n"
      "  n3 -> n4;\n"
      "  n3 -> n4;\n"
      "  n2 -> n4 [style=dashed, constraint=true];\n"
      "}\n");
}

/// Every tag opened is closed in order; entities and attributes are left alone.
void expect_balanced(const std::string& xml) {
  std::vector<std::string> open;
  for (size_t at = xml.find('<'); at != std::string::npos; at = xml.find('<', at + 1)) {
    const size_t end = xml.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = xml.substr(at + 1, end - at - 1);
    if (tag.empty() || tag[0] == '!' || tag.back() == '/') continue;
    const std::string name =
        tag.substr(tag[0] == '/' ? 1 : 0, tag.find_first_of(" \n", 1) - (tag[0] == '/' ? 1 : 0));
    if (tag[0] != '/') {
      open.push_back(name);
    } else {
      ASSERT_FALSE(open.empty()) << tag;
      EXPECT_EQ(open.back(), name);
      open.pop_back();
    }
  }
  EXPECT_TRUE(open.empty());
}

TEST(Display, SvgDrawsEveryNodeAndEdgeInsideThePicture) {
  const Sample sample;
  const std::string svg = written(sample.cx, std::span(&sample.y, 1), "sample.svg");
  expect_balanced(svg);
  const auto count = [&](std::string_view part) {
    int n = 0;
    for (size_t at = svg.find(part); at != std::string::npos; at = svg.find(part, at + 1)) ++n;
    return n;
  };
  EXPECT_EQ(count("<g class=\"node\""), 5);
  EXPECT_EQ(count("class=\"marked\""), 1);
  EXPECT_EQ(count("<path class=\"edge\""), 4);
  EXPECT_EQ(count("<path class=\"edge order\""), 1);
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(Display, HtmlIsOnePageWithoutTheNetwork) {
  const Sample sample;
  const std::string html = written(sample.cx, {}, "sample.html");
  EXPECT_TRUE(html.starts_with("<!DOCTYPE html>"));
  EXPECT_THAT(html, HasSubstr("<svg "));
  EXPECT_THAT(html, HasSubstr("<div id=\"line-2\">%2: f32[4] = sum_reduce(%1.permute(1, 0)"));
  EXPECT_THAT(html, Not(HasSubstr("src=")));
  EXPECT_THAT(html, Not(HasSubstr("href=")));
}

TEST(Display, UserStringsAreEscaped) {
  Graph cx;
  const std::string evil = "a\"b\\<script>&\n\x01'";
  auto x = cx.named_tensor(evil, {2});
  auto y = x.print(evil);
  EXPECT_THAT(cx.to_string(), HasSubstr(R"(= input "a\"b\\<script>&\n\x01'")"));
  EXPECT_THAT(cx.to_string(), HasSubstr(R"(message="a\"b\\<script>&\n\x01'")"));
  for (const char* name : {"evil.svg", "evil.html"}) {
    const std::string text = written(cx, {}, name);
    EXPECT_THAT(text, Not(HasSubstr("<script>&")));
    EXPECT_THAT(text, Not(HasSubstr("\x01")));
    EXPECT_THAT(text, HasSubstr("&lt;script&gt;&amp;"));
  }
  const std::string dot = written(cx, {}, "evil.dot");
  EXPECT_EQ(std::ranges::count(dot, '\n'), 6);  // no label breaks a line
  (void)y;
}

TEST(Display, UnknownEnding) {
  const Sample sample;
  try {
    sample.cx.display({}, "/tmp/graph.png");
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "[display] '/tmp/graph.png' does not end in .dot, .svg or .html; choose one of these");
  }
}

TEST(Display, EmptyGraph) {
  const Graph cx;
  EXPECT_EQ(cx.to_string(), "");
  expect_balanced(written(cx, {}, "empty.svg"));
}

TEST(Display, LargeGraphsAreDrawnQuickly) {
  Graph cx;
  auto y = cx.tensor({2});
  for (int i = 0; i < 2000; ++i) y = y.sin();
  EXPECT_GT(written(cx, {}, "large.svg").size(), 2000U * 100);
}

}  // namespace
}  // namespace luminal
