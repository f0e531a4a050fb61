#include "serving/tool_calls.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "luminal/text/grammar.h"

namespace luminal::serving {
namespace {

struct Read {
  std::string text;
  std::vector<ToolCall> calls;
};
Read read_in_pieces(ToolStyle style, const std::string& answer, size_t piece) {
  ToolReader reader(style);
  Read result;
  for (size_t at = 0; at < answer.size(); at += piece) result.text += reader.push(answer.substr(at, piece));
  result.calls = reader.finish(result.text);
  return result;
}

struct ToolCase {
  ToolStyle style;
  std::string answer, text;
  std::vector<std::string> calls;  ///< name and arguments
};

// What the models' own documentation shows, in pieces of every size.
TEST(ToolReader, ReadsCallsAndTexts) {
  const std::vector<ToolCase> cases{
      {ToolStyle::Tagged,
       "Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>",
       "Let me see.\n",
       {"f {\"x\":1}"}},
      {ToolStyle::Tagged,
       "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": \"g\", "
       "\"arguments\": {\"a\": \"<tool>\"}}\n</tool_call>",
       "",
       {"f {}", "g {\"a\":\"<tool>\"}"}},
      {ToolStyle::Tagged, "<tool_call>{\"name\": \"f\", \"arguments\": {}}", "", {"f {}"}},
      {ToolStyle::Tagged, "a < b, <tool_", "a < b, <tool_", {}},
      {ToolStyle::Tagged, "<tool_call>no JSON</tool_call>", "<tool_call>no JSON</tool_call>", {}},
      {ToolStyle::Listed,
       "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"x\": 1}}, {\"name\": \"g\", \"arguments\": {}}]",
       "",
       {"f {\"x\":1}", "g {}"}},
      {ToolStyle::Listed, "[TOOL", "[TOOL", {}},
      {ToolStyle::Plain, "{\"name\": \"f\", \"parameters\": {\"x\": \"y\"}}", "", {"f {\"x\":\"y\"}"}},
      {ToolStyle::Plain, "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}", "", {"f {}"}},
      {ToolStyle::Plain, "{\"x\": 1}", "{\"x\": 1}", {}},
      {ToolStyle::Plain,
       "Hello {\"name\": \"f\", \"parameters\": {}}",
       "Hello {\"name\": \"f\", \"parameters\": {}}",
       {}},
      {ToolStyle::Plain, " ", " ", {}},
  };
  for (const ToolCase& each : cases)
    for (size_t piece = 1; piece <= each.answer.size(); ++piece) {
      const Read got = read_in_pieces(each.style, each.answer, piece);
      ASSERT_EQ(got.text, each.text) << each.answer << " by " << piece;
      std::vector<std::string> calls;
      for (const ToolCall& call : got.calls) calls.push_back(call.name + " " + call.arguments);
      ASSERT_EQ(calls, each.calls) << each.answer << " by " << piece;
    }
}

TEST(ToolReader, ShowsTextsAtOnce) {
  ToolReader tagged(ToolStyle::Tagged);
  EXPECT_EQ(tagged.push("Hello <"), "Hello ");
  EXPECT_EQ(tagged.push("b>"), "<b>");
  ToolReader plain(ToolStyle::Plain);
  EXPECT_EQ(plain.push(" "), "");
  EXPECT_EQ(plain.push("Hi"), " Hi");
  EXPECT_EQ(plain.push(" {"), " {");
}

TEST(ToolCallGrammar, AllowsCallsOfTheToolsAlone) {
  const Json tools = Json::parse(R"([
      {"type": "function", "function": {"name": "f", "parameters": {"type": "object",
        "properties": {"x": {"type": "integer"}}, "required": ["x"]}}},
      {"type": "function", "function": {"name": "g"}}])");
  const std::string f = R"({"name": "f", "arguments": {"x": 1}})", g = R"({"name": "g", "arguments": {}})";
  const auto tag = [](const std::string& call) { return "<tool_call>\n" + call + "\n</tool_call>"; };
  const text::Grammar any(tool_call_grammar(tools, "", ToolStyle::Tagged, true));
  EXPECT_TRUE(any.matches(tag(f)));
  EXPECT_TRUE(any.matches(tag(g) + "\n" + tag(f)));
  EXPECT_FALSE(any.matches(f));
  EXPECT_FALSE(any.matches(tag(R"({"name": "h", "arguments": {}})")));
  EXPECT_FALSE(any.matches(tag(R"({"name": "f", "arguments": {}})")));
  const text::Grammar one(tool_call_grammar(tools, "g", ToolStyle::Tagged, false));
  EXPECT_TRUE(one.matches(tag(g)));
  EXPECT_FALSE(one.matches(tag(f)));
  EXPECT_FALSE(one.matches(tag(g) + "\n" + tag(g)));
  EXPECT_TRUE(text::Grammar(tool_call_grammar(tools, "", ToolStyle::Listed, true))
                  .matches("[TOOL_CALLS] [" + f + ", " + g + "]"));
  EXPECT_TRUE(text::Grammar(tool_call_grammar(tools, "f", ToolStyle::Plain, true))
                  .matches(R"({"name": "f", "parameters": {"x": 1}})"));
}

TEST(ToolStyles, AreReadFromTemplates) {
  EXPECT_EQ(tool_style_of("{{ messages }}"), std::nullopt);
  EXPECT_EQ(tool_style_of("{% if tools %}<tool_call>{% endif %}"), ToolStyle::Tagged);
  EXPECT_EQ(tool_style_of("{% if tools %}[TOOL_CALLS]{% endif %}"), ToolStyle::Listed);
  EXPECT_EQ(tool_style_of("{% if tools %}{{ tools | tojson }}{% endif %}"), ToolStyle::Plain);
}

}  // namespace
}  // namespace luminal::serving
