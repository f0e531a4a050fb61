#include "luminal/text/grammar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "luminal/error.h"
#include "support/effort.h"
#include "text/matcher.h"

namespace luminal::text {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

/// llama.cpp's example of JSON, written anew.
constexpr const char* kJson = R"(
root   ::= value
value  ::= (object | array | string | number | "true" | "false" | "null") ws
object ::= "{" ws (pair ("," ws pair)*)? "}"   # names before values
pair   ::= string ws ":" ws value
array  ::= "[" ws (value ("," ws value)*)? "]"
string ::= "\"" ([^"\\\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4}))* "\""
number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [-+]? [0-9]+)?
ws     ::= [ \n\t]*
)";

TEST(Grammar, MatchesJson) {
  const Grammar json(kJson);
  for (const char* text : {"{}", "[1, -2.5e+3, true]", R"({"a": {"é🤖": [null, "\u00e9\n"]}} )", "0", "\"\""})
    EXPECT_TRUE(json.matches(text)) << text;
  for (const char* text :
       {"", "{", "{}}", "01", "[1,]", "{a: 1}", "\"\n\"", "\"\xc3\"", "nul", "\"\xed\xa0\x80\""})
    EXPECT_FALSE(json.matches(text)) << text;
}

/// The same random expression in GBNF and for PCRE2.
struct Expressions {
  std::string gbnf, regex;
};
Expressions random_expression(std::mt19937_64& random, int depth) {
  const auto choose = [&](int end) { return static_cast<int>(random() % static_cast<uint64_t>(end)); };
  switch (choose(depth > 0 ? 9 : 4)) {
    case 0:
      return {"\"a\"", "a"};
    case 1:
      return {"\"b\xc3\xa9\"", "b\xc3\xa9"};
    case 2:
      return {"[a\xc3\xa9-\xe2\x82\xac]", "[a\xc3\xa9-\xe2\x82\xac]"};
    case 3:
      return {"[^a]", "[^a]"};
    case 4:
      // Calls that follow what is read: recursion, but not on the left.
      return {"(\"a\" rule)", "(?:a(?&rule))"};
    case 5:
    case 6: {
      const Expressions left = random_expression(random, depth - 1),
                        right = random_expression(random, depth - 1);
      if (choose(2) == 0)
        return {"(" + left.gbnf + " | " + right.gbnf + ")", "(?:" + left.regex + "|" + right.regex + ")"};
      return {"(" + left.gbnf + " " + right.gbnf + ")", "(?:" + left.regex + right.regex + ")"};
    }
    default: {
      constexpr std::array<const char*, 6> kTimes{"*", "+", "?", "{2}", "{0,2}", "{1,}"};
      const char* times = kTimes[static_cast<size_t>(choose(6))];
      const Expressions part = random_expression(random, depth - 1);
      return {"(" + part.gbnf + ")" + times, "(?:" + part.regex + ")" + times};
    }
  }
}

/// All texts of up to `length` characters.
std::vector<std::string> all_texts(int length) {
  std::vector<std::string> texts{""};
  for (size_t begin = 0; length > 0; --length) {
    const size_t end = texts.size();
    for (size_t i = begin; i < end; ++i)
      for (const char* character : {"a", "b", "\xc3\xa9", "\xe2\x82\xac"})
        texts.push_back(texts[i] + character);
    begin = end;
  }
  return texts;
}

/// PCRE2 knows rules as well (subroutine calls). Every nonterminal `rule` is the same second expression.
TEST(Grammar, MatchesWhatPcre2Matches) {
  std::mt19937_64 random(effort::seed(2026));
  const std::vector<std::string> texts = all_texts(4);
  int matched = 0;
  for (int i = 0; i < 150; ++i) {
    const Expressions root = random_expression(random, 3), rule = random_expression(random, 2);
    const Grammar grammar("root ::= " + root.gbnf + "\nrule ::= " + rule.gbnf + "\n");
    const Matcher matcher({"(?(DEFINE)(?<rule>" + rule.regex + "))\\A#(?:" + root.regex + ")\\z", true});
    for (const std::string& text : texts) {
      const bool expected = !matcher.matches("#" + text).empty();
      matched += static_cast<int>(expected);
      ASSERT_EQ(grammar.matches(text), expected) << root.gbnf << "\nrule ::= " << rule.gbnf << "\n" << text;
    }
  }
  EXPECT_GT(matched, 500);
}

/// A token is allowed where a text of the grammar begins with all that was accepted and it: found by trying all texts.
TEST(GrammarMatcher, AllowsTheTokensThatATextGoesOnWith) {
  const Grammar grammar(
      "root ::= (\"ab\" | [\xc3\xa9\xe2\x82\xac] rule){1,2} \"a\"?\nrule ::= \"b\" | [^ab]\n");
  std::vector<std::string> texts = all_texts(5);
  std::erase_if(texts, [&](const std::string& text) { return !grammar.matches(text); });
  ASSERT_GT(texts.size(), 20U);
  std::vector<std::string> tokens{"",     "\xc3", "\xa9",  "\xe2\x82", "\x82",
                                  "\xac", "\xff", "b\xc3", "\xa9\xe2"};
  for (const std::string& text : all_texts(2)) tokens.push_back(text);
  const auto begins = [&](const std::string& prefix) {
    // [^ab] stands for characters that all_texts lacks: then the bytes of one that it has not are not looked for.
    return std::ranges::any_of(texts, [&](const std::string& text) { return text.starts_with(prefix); });
  };
  std::mt19937_64 random(effort::seed(7));
  for (int i = 0; i < 200; ++i) {
    GrammarMatcher matcher(grammar, GrammarTokens(tokens, {0}));
    std::string text;
    while (true) {
      const auto mask = matcher.allowed();
      std::vector<TokenId> allowed;
      for (size_t id = 0; id < tokens.size(); ++id) {
        const bool set = (mask[id / 64] >> (id % 64) & 1) != 0;
        const bool right = id == 0 ? grammar.matches(text) : !tokens[id].empty() && begins(text + tokens[id]);
        if (right) allowed.push_back(static_cast<TokenId>(id));
        // What all_texts cannot show may be allowed too: bytes that begin another character.
        if (right || tokens[id].find_first_of("\x82\xa9\xac\xc3\xe2") == std::string::npos) {
          ASSERT_EQ(set, right) << "'" << text << "' and token " << id;
        }
      }
      ASSERT_FALSE(allowed.empty()) << text;
      const TokenId id = allowed[random() % allowed.size()];
      matcher.accept(id);
      if (id == 0) break;
      text += tokens[static_cast<size_t>(id)];
    }
    EXPECT_TRUE(grammar.matches(text));
    EXPECT_THAT(matcher.allowed(), testing::Each(0));
    EXPECT_THAT([&] { matcher.accept(0); }, ThrowsMessage<Error>(HasSubstr("the text has ended")));
  }
}

/// Depth costs a frame, length nothing: states are forgotten when there are many.
TEST(GrammarMatcher, LongAndDeepTextsStayCheap) {
  const Grammar json(kJson);
  const std::string deep = std::string(1000, '[') + std::string(1000, ']');
  EXPECT_TRUE(json.matches(deep));
  EXPECT_FALSE(json.matches(deep + "]"));
  std::string list = "[";
  for (int i = 0; i < 20'000; ++i) list += "{\"key\": [1, \"x\"]},\n";
  EXPECT_TRUE(json.matches(list + "0]"));
  EXPECT_TRUE(Grammar("root ::= \"a\" root | \"b\"").matches(std::string(100'000, 'a') + "b"));
  EXPECT_THAT([&] { (void)json.matches(std::string(100'000, '[')); },
              ThrowsMessage<Error>("[grammar] rules are nested deeper than 4096 levels in this text"));
}

/// A refused token changes nothing.
TEST(GrammarMatcher, RefusesTokensThatAreNotAllowed) {
  GrammarMatcher matcher(Grammar("root ::= \"yes\" | \"no\""),
                         GrammarTokens(std::vector<std::string>{"", "y", "es", "no", ""}, {0}));
  EXPECT_THAT([&] { matcher.accept(2); }, ThrowsMessage<Error>(HasSubstr("token 2 is not allowed: no text")));
  EXPECT_THAT([&] { matcher.accept(0); }, ThrowsMessage<Error>(HasSubstr("the text may not end here")));
  EXPECT_THAT([&] { matcher.accept(4); }, ThrowsMessage<Error>(HasSubstr("it has no text")));
  EXPECT_THAT([&] { matcher.accept(5); }, ThrowsMessage<Error>(HasSubstr("it is out of range")));
  EXPECT_THAT(matcher.allowed(), testing::ElementsAre(0b1010));
  matcher.accept(1);
  EXPECT_FALSE(matcher.complete());
  matcher.accept(2);
  EXPECT_TRUE(matcher.complete());
  EXPECT_THAT(matcher.allowed(), testing::ElementsAre(1));
}

TEST(Grammar, ErrorsSayWhere) {
  const auto error = [](const std::string& gbnf, const char* message) {
    EXPECT_THAT([&] { (void)Grammar(gbnf); }, ThrowsMessage<FormatError>(HasSubstr(message))) << gbnf;
  };
  error("", "[grammar] there is no rule 'root'");
  error("root ::= \"a", "line 1, column 12: the literal has no end");
  error("root ::= \"a\"\nb ::= [b-a]", "line 2, column 11: the range ends before it begins");
  error("root ::= a", "line 1, column 10: rule 'a' is used and nowhere defined");
  error("root ::= \"a\"\nroot ::= \"b\"", "line 2, column 1: rule 'root' is defined twice");
  error("root ::= (\"a\"", "line 1, column 14: ')' is missing");
  error("root = \"a\"", "'::=' is missing");
  error("root ::= \"a\" )", "line 1, column 14: the end of the rule's line was expected");
  error("root ::= \"\\q\"", "unknown escape");
  error("root ::= \"\\ud800\"", "no character of Unicode");
  error("root ::= \"a\"{3,2}", "3 repetitions at least, 2 at most");
  error("root ::= \"a\"{99999}", "more than 10000 repetitions");
  error("root ::= \"a\"{1000}{1000}", "unfolds to more than 262144 steps");
  error("root ::= \"\xff\"", "byte 0xff at offset 10 is not UTF-8");
  error("root ::= a\na ::= \"\"* root \"b\" | \"c\"", "rule 'root' calls itself before it reads anything");
  error("root ::= " + std::string(200, '('), "groups are nested deeper than 100 levels");
  error("root ::= \"a\"" + std::string(200, '?'), "more than 100 repetitions of repetitions");
  EXPECT_TRUE(Grammar("root ::= \"\"{9999}{9999}{9999}").matches(""));
}

}  // namespace
}  // namespace luminal::text
