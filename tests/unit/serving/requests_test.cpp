#include "serving/requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "luminal/text/grammar.h"
#include "serving/api_error.h"
#include "serving/fields.h"

namespace luminal::serving {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

CompletionRequest completion(const std::string& body) { return parse_completion(parse_body(body), {}); }
ChatRequest chat(const std::string& body) { return parse_chat(parse_body(body), {}); }
/// A chat of one message, with further fields.
ChatRequest chat_with(const std::string& fields) {
  return chat(R"({"messages": [{"role": "user", "content": "Hi"}])" + (fields.empty() ? "" : ", " + fields) +
              "}");
}

/// What a request is refused for.
template <class Parse>
ApiError refusal(Parse&& parse) {
  try {
    (void)parse();
  } catch (...) {
    return api_error_of(std::current_exception());
  }
  ADD_FAILURE() << "no error";
  return {0, ""};
}

TEST(Requests, ReadWhatCompletionsAskFor) {
  const CompletionRequest r =
      completion(R"({"model": "m", "prompt": "Once", "max_tokens": 7, "n": 2, "stop": "END",
      "temperature": 0.5, "top_p": 0, "top_k": 3, "min_p": 0.1, "seed": -1, "logit_bias": {"5": -100, "6": 2.5},
      "presence_penalty": 1, "frequency_penalty": -2, "logprobs": 0, "stream": true,
      "stream_options": {"include_usage": true}, "user": "somebody", "suffix": null, "best_of": 2})");
  EXPECT_EQ(r.model, "m");
  EXPECT_THAT(r.prompts, ElementsAre(Prompt("Once")));
  EXPECT_EQ(r.most_tokens, 7);
  EXPECT_EQ(r.choices, 2);
  EXPECT_THAT(r.stops, ElementsAre("END"));
  EXPECT_EQ(r.sampler.temperature, 0.5);
  EXPECT_GT(r.sampler.top_p, 0);  // 0 means the most probable token alone
  EXPECT_LT(r.sampler.top_p, 1e-6);
  EXPECT_EQ(r.sampler.top_k, 3);
  EXPECT_EQ(r.sampler.min_p, 0.1);
  EXPECT_EQ(r.seed, ~uint64_t{0});
  EXPECT_THAT(r.sampler.logit_bias, ElementsAre(std::pair(5, -100.0), std::pair(6, 2.5)));
  EXPECT_EQ(r.sampler.presence_penalty, 1);
  EXPECT_EQ(r.sampler.frequency_penalty, -2);
  EXPECT_TRUE(r.logprobs);
  EXPECT_EQ(r.top_logprobs, 0);
  EXPECT_TRUE(r.stream);
  EXPECT_TRUE(r.include_usage);
}

TEST(Requests, FillInWhatIsNotAskedFor) {
  const RequestDefaults defaults{.sampler = {.temperature = 0.3, .top_k = 9}, .most_tokens = 77};
  const CompletionRequest text = parse_completion({{"prompt", "a"}, {"temperature", nullptr}}, defaults);
  EXPECT_EQ(text.most_tokens, 16);
  EXPECT_EQ(text.sampler.temperature, 0.3);
  EXPECT_EQ(text.sampler.top_k, 9);
  EXPECT_FALSE(text.seed);
  EXPECT_FALSE(text.logprobs);
  const ChatRequest talk = parse_chat({{"messages", {{{"role", "user"}, {"content", "a"}}}}}, defaults);
  EXPECT_EQ(talk.most_tokens, 77);
  EXPECT_TRUE(talk.tools.is_null());
}

TEST(Requests, TakePromptsOfAllForms) {
  EXPECT_THAT(completion(R"({"prompt": [5, 6]})").prompts,
              ElementsAre(Prompt(std::vector<text::TokenId>{5, 6})));
  EXPECT_THAT(completion(R"({"prompt": ["a", [7], ""]})").prompts,
              ElementsAre(Prompt("a"), Prompt(std::vector<text::TokenId>{7}), Prompt("")));
}

TEST(Requests, GiveTemplatesPlainMessages) {
  const ChatRequest r = chat(R"({"messages": [
      {"role": "developer", "content": [{"type": "text", "text": "Be "}, {"type": "text", "text": "brief."}]},
      {"role": "user", "content": "Hi", "name": "Eva"},
      {"role": "assistant", "content": null, "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"x\": [1]}"}},
        {"id": "c2", "type": "function", "function": {"name": "g", "arguments": "no JSON"}}]},
      {"role": "tool", "tool_call_id": "c1", "content": "2"}]})");
  EXPECT_EQ(r.messages, Json::parse(R"([
      {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi", "name": "Eva"},
      {"role": "assistant", "content": "", "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"x": [1]}}},
        {"id": "c2", "type": "function", "function": {"name": "g", "arguments": "no JSON"}}]},
      {"role": "tool", "content": "2", "tool_call_id": "c1"}])"));
}

TEST(Requests, ReadToolsAndTheirChoice) {
  const std::string tools =
      R"("tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}])";
  EXPECT_EQ(chat_with(tools).tools.size(), 1);
  EXPECT_FALSE(chat_with(tools).must_call);
  EXPECT_TRUE(chat_with(tools + R"(, "tool_choice": "none")").tools.is_null());
  EXPECT_TRUE(chat_with(tools + R"(, "tool_choice": "required")").must_call);
  const ChatRequest forced = chat_with(
      tools +
      R"(, "parallel_tool_calls": false, "tool_choice": {"type": "function", "function": {"name": "f"}})");
  EXPECT_EQ(forced.called_tool, "f");
  EXPECT_FALSE(forced.several_calls);
}

TEST(Requests, MakeGrammarsOfResponseFormats) {
  const text::Grammar any(chat_with(R"("response_format": {"type": "json_object"})").grammar);
  EXPECT_TRUE(any.matches(R"({"a": [1, {"b": null}]})"));
  EXPECT_FALSE(any.matches("[1]"));
  const text::Grammar one(chat_with(R"("response_format": {"type": "json_schema", "json_schema": {"name": "n",
      "strict": true, "schema": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}})")
                              .grammar);
  EXPECT_TRUE(one.matches(R"({"a": 1})"));
  EXPECT_FALSE(one.matches(R"({"a": "1"})"));
  EXPECT_EQ(chat_with(R"("response_format": {"type": "text"})").grammar, "");
  EXPECT_EQ(chat_with(R"("grammar": "root ::= \"x\"")").grammar, "root ::= \"x\"");
}

struct Refused {
  std::string fields, param, message;
};
class RefusedChats : public testing::TestWithParam<Refused> {};

TEST_P(RefusedChats, NameTheField) {
  const ApiError error = refusal([] { return chat_with(GetParam().fields); });
  EXPECT_EQ(error.status(), 400);
  EXPECT_EQ(error.param(), GetParam().param);
  EXPECT_THAT(error.what(), HasSubstr(GetParam().message));
  EXPECT_EQ(error.to_json()["error"]["type"], "invalid_request_error");
}

INSTANTIATE_TEST_SUITE_P(
    Fields, RefusedChats,
    testing::Values(
        Refused{R"("n": 0)", "n", "'n' is 0; give a whole number from 1 to 128"},
        Refused{R"("n": 1.5)", "n", "'n' is 1.5"},
        Refused{R"("n": 18446744073709551615)", "n", "whole number"},
        Refused{R"("n": "2")", "n", "'n' is \"2\""},
        Refused{R"("max_tokens": -1)", "max_tokens", "at least 1"},
        Refused{R"("max_tokens": 1e3)", "max_tokens", "whole number"},
        Refused{R"("temperature": -0.1)", "temperature", "from 0 to 100"},
        Refused{R"("temperature": 1e300)", "temperature", "from 0 to 100"},
        Refused{R"("temperature": [1])", "temperature", "'temperature' is a list"},
        Refused{R"("top_p": 1.1)", "top_p", "from 0 to 1"},
        Refused{R"("stream": 1)", "stream", "true or false"},
        Refused{R"("stop": [])"
                R"(, "stop": [1])",
                "stop", "'stop' is 1"},
        Refused{R"("stop": "")", "stop", "none of them empty"},
        Refused{R"("logit_bias": {"x": 1})", "logit_bias", "ids of tokens"},
        Refused{R"("logit_bias": {"1": 101})", "logit_bias.1", "from -100 to 100"},
        Refused{R"("logit_bias": [1])", "logit_bias", "an object"},
        Refused{R"("seed": 1.5)", "seed", "whole number"}, Refused{R"("model": 7)", "model", "a string"},
        Refused{R"("top_logprobs": 3)", "top_logprobs", "needs 'logprobs'"},
        Refused{R"("logprobs": true, "top_logprobs": 21)", "top_logprobs", "from 0 to 20"},
        Refused{R"("stream_options": {"include_usage": true})", "stream_options", "'stream'"},
        Refused{R"("temprature": 1)", "temprature", "did you mean 'temperature'?"},
        Refused{R"("response_format": {"type": "xml"})", "response_format.type", "\"xml\""},
        Refused{R"("response_format": {"type": "json_schema"})", "response_format.json_schema", "missing"},
        Refused{
            R"("response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "nonsense"}}})",
            "response_format.json_schema.schema", "nonsense"},
        Refused{R"("response_format": {"type": "text", "x": 1})", "response_format.x", "no field \"x\""},
        Refused{R"("grammar": "root := \"x\"")", "grammar", "'grammar'"},
        Refused{R"("grammar": "root ::= root")", "grammar", "'grammar'"},
        Refused{R"("tools": {})", "tools", "a list"},
        Refused{R"("tools": [{}])", "tools[0].type", "\"function\""},
        Refused{R"("tools": [{"type": "function"}])", "tools[0].function", "missing"},
        Refused{R"("tools": [{"type": "function", "function": {"name": 3}}])", "tools[0].function.name",
                "a string"},
        Refused{R"("tool_choice": "required")", "tool_choice", "needs 'tools'"},
        Refused{R"("functions": [{}])", "functions", "use 'tools'"},
        Refused{R"("audio": {})", "audio", "not supported"},
        Refused{R"("messages": [])", "messages", "at least one message"},
        Refused{R"("messages": "Hi")", "messages", "a list"},
        Refused{R"("messages": ["Hi"])", "messages[0]", "an object"},
        Refused{R"("messages": [{"role": "boss", "content": ""}])", "messages[0].role", "\"boss\""},
        Refused{R"("messages": [{"role": "user"}])", "messages[0].content", "missing"},
        Refused{R"("messages": [{"role": "user", "content": 5}])", "messages[0].content", "5"},
        Refused{
            R"("messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}])",
            "messages[0].content[0].type", "texts alone"},
        Refused{R"("messages": [{"role": "user", "content": "", "colour": 1}])", "messages[0].colour",
                "colour"}),
    [](const auto& each) { return "case_" + std::to_string(each.index); });

TEST(Requests, RefuseWhatIsNoJson) {
  for (const std::string body :
       {"", "{", "[1]", "nul", "{\"n\": 1e999}", "{\"a\": \"\xff\"}", "{\"a\": \"\xc3\x28\"}"}) {
    const ApiError error = refusal([&] { return chat(body); });
    EXPECT_EQ(error.status(), 400) << body;
    EXPECT_THAT(error.what(), HasSubstr("body")) << body;
    EXPECT_TRUE(Json::accept(json_text(error.to_json()))) << body;
  }
  for (const char* open : {"[", "{\"a\":"}) {
    std::string deep = "{\"messages\":";
    for (int i = 0; i < 100000; ++i) deep += open;
    EXPECT_THAT(refusal([&] { return chat(deep); }).what(), HasSubstr("nested deeper than 64 levels"));
  }
  std::string nested(100000, '[');
  EXPECT_EQ(
      chat(
          R"({"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "[1"}}]}]})")
          .messages[0]["tool_calls"][0]["function"]["arguments"],
      "[1");
  EXPECT_EQ(
      refusal([&] {
        return chat(
            R"({"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": ")" +
            nested + R"("}}]}]})");
      }).status(),
      400);
}

TEST(Requests, KeepTheOrderOfASchema) {
  const text::Grammar grammar(
      chat_with(R"("response_format": {"type": "json_schema", "json_schema": {"schema":
      {"type": "object", "properties": {"z": {"type": "null"}, "a": {"type": "null"}}, "required": ["z", "a"]}}})")
          .grammar);
  EXPECT_TRUE(grammar.matches(R"({"z": null, "a": null})"));
  EXPECT_FALSE(grammar.matches(R"({"a": null, "z": null})"));
}

TEST(Requests, RefuseObjectsOfTooManyKeys) {
  std::string keys;
  for (int i = 0; i < 4097; ++i) keys += (i == 0 ? "\"" : ", \"") + std::to_string(i) + "\": 1";
  EXPECT_THAT(refusal([&] { return chat_with("\"logit_bias\": {" + keys + "}"); }).what(),
              HasSubstr("more than 4096 keys"));
  keys.resize(keys.rfind(','));  // two objects of 4096 are none of 8192
  const std::string pair = "\"metadata\": [{" + keys + "}, {" + keys + "}]";
  EXPECT_NO_THROW((void)chat_with(pair));
}

TEST(Requests, RefusePromptsThatAreNone) {
  for (const auto& [prompt, message] :
       {std::pair("", "'prompt' is missing"), std::pair(R"("prompt": [])", "a list"),
        std::pair(R"("prompt": {"a": 1})", "an object"), std::pair(R"("prompt": [1, -1])", "-1"),
        std::pair(R"("prompt": [1, 2147483648])", "2147483648"), std::pair(R"("prompt": [1, "a"])", "\"a\""),
        std::pair(R"("prompt": ["a", 1])", "'prompt' is 1"), std::pair(R"("prompt": [[]])", "a list"),
        std::pair(R"("prompt": ["a", "b"], "n": 100)", "more than 128 answers"),
        std::pair(R"("prompt": "a", "suffix": "b")", "'suffix' is not supported"),
        std::pair(R"("prompt": "a", "best_of": 3)", "'best_of' is not supported"),
        std::pair(R"("prompt": "a", "echo": true, "logprobs": 1)", "'echo' and 'logprobs'")}) {
    const ApiError error = refusal([&] { return completion("{" + std::string(prompt) + "}"); });
    EXPECT_EQ(error.status(), 400);
    EXPECT_THAT(error.what(), HasSubstr(message));
  }
}

// A long name or value does not come back whole.
TEST(Requests, ErrorsAreShort) {
  const std::string name(1000000, 'x');
  EXPECT_LT(std::string(refusal([&] { return chat_with("\"" + name + "\": 1"); }).what()).size(), 200);
  EXPECT_LT(std::string(refusal([&] { return chat_with("\"n\": \"" + name + "\""); }).what()).size(), 200);
}

}  // namespace
}  // namespace luminal::serving
