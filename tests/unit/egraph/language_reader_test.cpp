#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "egraph/language/parse.h"
#include "egraph/language/sexp.h"
#include "egraph/language/source.h"

namespace luminal::egraph::language {
namespace {

/// The first literal of a text, or nothing if it reads as a word or list.
std::optional<Literal> literal_in(const std::string& text) {
  SymbolTable symbols;
  const Source source("t", text);
  const Sexps tree = read_sexps(source, symbols);
  if (tree.nodes.size() != 1 || tree.nodes[0].kind != SexpNode::Kind::Constant) return {};
  return tree.literals[0];
}

std::string error_of(const std::string& text) {
  try {
    SymbolTable symbols;
    FreshNames fresh(symbols);
    const Source source("t.egg", text);
    static_cast<void>(parse_program(source, symbols, fresh));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Reader, KnowsAllFormsOfNumbers) {
  EXPECT_EQ(literal_in("42"), Literal(int64_t{42}));
  EXPECT_EQ(literal_in("-7"), Literal(int64_t{-7}));
  EXPECT_EQ(literal_in("+7"), Literal(int64_t{7}));
  EXPECT_EQ(literal_in("9223372036854775807"), Literal(std::numeric_limits<int64_t>::max()));
  EXPECT_EQ(literal_in("-9223372036854775808"), Literal(std::numeric_limits<int64_t>::min()));
  EXPECT_EQ(literal_in("9223372036854775808"), Literal(9223372036854775808.0))
      << "too large for an i64: a float";
  EXPECT_EQ(literal_in("1.5"), Literal(1.5));
  EXPECT_EQ(literal_in("1."), Literal(1.0));
  EXPECT_EQ(literal_in(".5"), Literal(0.5));
  EXPECT_EQ(literal_in("-2.5e-3"), Literal(-0.0025));
  EXPECT_EQ(literal_in("1e3"), Literal(1000.0));
  EXPECT_EQ(literal_in("1e-400"), Literal(0.0));
  EXPECT_EQ(literal_in("inf"), Literal(std::numeric_limits<double>::infinity()));
  EXPECT_EQ(literal_in("-inf"), Literal(-std::numeric_limits<double>::infinity()));
  EXPECT_TRUE(std::isnan(std::get<double>(*literal_in("NaN"))));
  EXPECT_EQ(literal_in("true"), Literal(true));
  EXPECT_EQ(literal_in("false"), Literal(false));
  for (const char* word :
       {"-", "+", "1e400", "infinity", "nan", "1x", "0x10", "--1", "+-1", "1_000", ".", "e5", "1e"})
    EXPECT_FALSE(literal_in(word)) << word << " is a name";
}

TEST(Reader, UnescapesStrings) {
  EXPECT_EQ(literal_in(R"("a\n\t\\\"b")"), Literal(std::string("a\n\t\\\"b")));
  EXPECT_EQ(literal_in("\"two\nlines ; no comment\""), Literal(std::string("two\nlines ; no comment")));
}

TEST(Reader, WritesLiteralsThatReadBack) {
  for (const Literal& literal :
       {Literal(int64_t{-5}), Literal(1.0), Literal(0.1), Literal(1e21), Literal(-0.0), Literal(5e-324),
        Literal(1.7976931348623157e308), Literal(std::string("q\" b\\ \n \t ü")), Literal(true)})
    EXPECT_EQ(literal_in(to_text(literal)), literal) << to_text(literal);
  EXPECT_EQ(to_text(Literal(1e20)), "100000000000000000000");
  EXPECT_EQ(to_text(Literal(3.0)), "3.0");
  EXPECT_EQ(to_text(Literal(std::monostate{})), "()");
}

TEST(Reader, SkipsCommentsAndAllWhiteSpace) {
  SymbolTable symbols;
  const Source source("t", "; first\n(a;inner)\n\xC2\xA0\xE2\x80\x89 b) ; last");
  const Sexps tree = read_sexps(source, symbols);
  ASSERT_EQ(tree.nodes.size(), 3U);
  EXPECT_EQ(tree.nodes[0].end, 3U);
  EXPECT_EQ(tree.nodes[1].atom.text(), "a");
  EXPECT_EQ(tree.nodes[2].atom.text(), "b");
}

TEST(Diagnostics, ShowLineColumnAndCaret) {
  const Source source("f.egg", "(sort A)\n\t(let ü (Ad 1))\n");
  const auto begin = static_cast<uint32_t>(source.text.find("(Ad"));
  EXPECT_EQ(render_diagnostic({&source, begin, begin + 6}, "no 'Ad'"),
            "f.egg:2:9: error: no 'Ad'\n 2 | \t(let ü (Ad 1))\n   | \t       ^~~~~~");
  EXPECT_EQ(locate(source, 0).line, 1U);
  EXPECT_EQ(locate(source, static_cast<uint32_t>(source.text.size())).line, 3U);
}

TEST(Diagnostics, CutVeryLongLines) {
  const Source source("f.egg", std::string(10000, 'x') + "!" + std::string(10000, 'y'));
  const std::string text = render_diagnostic({&source, 10000, 10001}, "here");
  EXPECT_LT(text.size(), 600U);
  EXPECT_NE(text.find("x!y"), std::string::npos);
}

// Deep nesting must cost no stack: each level of a hostile file is one byte.
TEST(Hostile, NestingOfAnyDepthIsRead) {
  constexpr size_t kDepth = 1'000'000;
  EXPECT_NE(error_of(std::string(kDepth, '(')).find("never closed"), std::string::npos);
  EXPECT_NE(error_of(std::string(kDepth, '(') + std::string(kDepth, ')')), "");
  std::string nested;
  for (size_t i = 0; i < kDepth; ++i) nested += "(f ";
  EXPECT_EQ(error_of("(extract " + nested + "x" + std::string(kDepth, ')') + ")"), "");
  std::string schedule, fails;
  for (size_t i = 0; i < kDepth; ++i) schedule += "(saturate ", fails += "(fail ";
  EXPECT_NE(error_of("(run-schedule " + schedule + std::string(kDepth + 1, ')')).find("nested deeper"),
            std::string::npos);
  EXPECT_NE(error_of(fails + "(pop)" + std::string(kDepth, ')')).find("nested deeper"), std::string::npos);
}

TEST(Hostile, BytesThatAreNoTextAreRefused) {
  for (const char* bytes : {"\xFF", "(a \xC0\xAF)", "\xED\xA0\x80", "\xF4\x90\x80\x80", "ok \xE2\x82"})
    EXPECT_NE(error_of(bytes).find("UTF-8"), std::string::npos) << bytes;
}

TEST(Hostile, RandomTokensNeverCrash) {
  const std::vector<std::string> tokens{"(",
                                        "(",
                                        "(",
                                        ")",
                                        ")",
                                        ")",
                                        "sort",
                                        "datatype",
                                        "datatype*",
                                        "function",
                                        ":merge",
                                        "relation",
                                        "rule",
                                        "rewrite",
                                        ":when",
                                        "run",
                                        "run-schedule",
                                        "saturate",
                                        ":until",
                                        "extract",
                                        "check",
                                        "=",
                                        "let",
                                        "set",
                                        "union",
                                        "x",
                                        "i64",
                                        "1",
                                        "-2.5",
                                        "\"s\"",
                                        "()",
                                        "_",
                                        "fail",
                                        "push",
                                        "pop",
                                        "print-function",
                                        ";c\n",
                                        "\"",
                                        "\\",
                                        "@",
                                        ":",
                                        "'",
                                        "Vec"};
  constexpr uint32_t kSeed = 20261121;
  std::mt19937 random(kSeed);
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (size_t i = random() % 40; i-- > 0;) text += tokens[random() % tokens.size()] + " ";
    static_cast<void>(error_of(text));  // whatever it says: it returns
  }
}

/// A program that is one command can be stopped while its facts become syntax, too.
TEST(Reader, CanBeStoppedWithinOneCommand) {
  std::string text = "(check";
  for (int i = 0; i < 20'000; ++i) text += " (r 1)";
  const Source source("p.egg", text + ")");
  SymbolTable symbols;
  FreshNames fresh(symbols);
  int looks = 0;
  const auto look = [&] { ++looks; };
  static_cast<void>(read_sexps(source, symbols, look));
  const int while_reading = looks;
  looks = 0;
  static_cast<void>(parse_program(source, symbols, fresh, look));
  EXPECT_GT(looks, while_reading + 10);
}

}  // namespace
}  // namespace luminal::egraph::language
