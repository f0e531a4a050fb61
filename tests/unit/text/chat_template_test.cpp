#include "luminal/text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "luminal/error.h"
#include "support/files.h"

namespace luminal::text {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

/// 4 March 2026, 05:06:07: the time at which the stored texts were made.
std::tm stored_time() {
  std::tm time{};
  time.tm_year = 126, time.tm_mon = 2, time.tm_mday = 4;
  time.tm_hour = 5, time.tm_min = 6, time.tm_sec = 7, time.tm_wday = 3, time.tm_yday = 62;
  return time;
}

/// tools/text_templates.py made these with jinja2.
TEST(ChatTemplate, RendersAsJinja2) {
  const auto cases = nlohmann::ordered_json::parse(
      test::content_of(std::string(LUMINAL_SOURCE_DIR) + "/tests/unit/text/data/templates.cases.json"));
  ASSERT_GE(cases.size(), 100U);
  size_t texts = 0;
  for (const auto& entry : cases) {
    const auto source = entry[0].get<std::string>();
    const std::string variables = entry[1].dump();
    if (entry[2].is_null()) {
      EXPECT_THROW((void)ChatTemplate(source).render_json(variables, stored_time()), Error)
          << source << variables;
      continue;
    }
    ++texts;
    try {
      EXPECT_EQ(ChatTemplate(source).render_json(variables, stored_time()), entry[2].get<std::string>())
          << source << '\n'
          << variables;
    } catch (const Error& error) {
      ADD_FAILURE() << error.what() << '\n' << source << '\n' << variables;
    }
  }
  EXPECT_GE(texts, 80U);
}

TEST(ChatTemplate, ARequestGivesTheUsualVariables) {
  const ChatTemplate chat(
      "{{ bos_token }}{{ messages[0].content }}{{ tools is none }}{{ x }}{{ add_generation_prompt }}");
  EXPECT_EQ(chat.render({.messages = R"([{"role": "user", "content": "Hi"}])",
                         .add_generation_prompt = true,
                         .begin_token = "<s>",
                         .variables = R"({"x": 3})"}),
            "<s>HiTrue3True");
}

void expect_template_error(const std::string& source, const std::string& message) {
  EXPECT_THAT([&] { (void)ChatTemplate(source, {.steps = 100'000}).render({}); },
              ThrowsMessage<Error>(HasSubstr(message)))
      << source.substr(0, 100);
}

TEST(ChatTemplate, ErrorsNameTheLine) {
  expect_template_error("a\n{% if %}", "line 2: a value was expected");
  expect_template_error("a\n\n{{ x.y }}", "undefined 'x' has no attribute 'y' (line 3 of the template)");
  expect_template_error("{% for x in [1] %}", "endfor is missing at the end");
  expect_template_error("{{ 'a", "a string is not closed");
  expect_template_error("{% include 'x' %}", "the block 'include' is not known");
  expect_template_error("{{ 1 | nonsense }}", "the filter 'nonsense' is not known");
  expect_template_error("{{ raise_exception('no') }}", "[chat template] no (line 1");
}

/// Templates come with models from anywhere.
TEST(ChatTemplate, HostileTemplatesEnd) {
  expect_template_error("{% for a in range(1000000000000) %}x{% endfor %}", "more than 100000 steps");
  expect_template_error("{{ 'x' * 9000000000000000000 }}", "a text of more than");
  expect_template_error("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "macros call each other deeper");
  expect_template_error(
      "{% set n = namespace(t='xxxxxxxx') %}{% for i in range(99) %}{% set n.t = n.t ~ n.t %}{% endfor %}",
      "more than 100000 steps");
  expect_template_error("{{ " + std::string(100'000, '(') + "1" + std::string(100'000, ')') + " }}",
                        "nested deeper than");
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "{% if a %}";
  expect_template_error(deep, "nested deeper than");
  deep = "{{ 1";
  for (int i = 0; i < 100'000; ++i) deep += " + 1";
  expect_template_error(deep + " }}", "operators in a row");
  expect_template_error("{{ -9223372036854775807 - 2 }}", "out of range");
  EXPECT_THROW((void)ChatTemplate("a\xff"), FormatError);
}

}  // namespace
}  // namespace luminal::text
