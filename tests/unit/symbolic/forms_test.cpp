#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>

#include "luminal/error.h"
#include "oracle.h"

/// The written forms: what they look like, what they mean (each is evaluated by a small reader of its own),
/// and that the parser survives any text.
namespace luminal {
namespace {

using oracle::Wide;
using testing::HasSubstr;

struct Names {
  const DimMap& dims;
  const std::vector<int64_t>& indices;

  [[nodiscard]] Wide operator()(std::string name) const {
    name = name.substr(0, name.find('{'));
    if (name[0] == 'i' && name.size() > 1 && std::isdigit(static_cast<unsigned char>(name[1])) != 0)
      return indices.at(static_cast<size_t>(std::stoi(name.substr(1))));
    return dims.at(name);
  }
};

Wide apply(const std::string& op, Wide a, Wide b) {
  if (op == "+") return a + b;
  if (op == "*") return a * b;
  if (op == "/") return oracle::floor_div(a, b);
  if (op == "%") return a - b * oracle::floor_div(a, b);
  if (op == "min") return std::min(a, b);
  if (op == "max") return std::max(a, b);
  if (op == "<") return a < b;
  if (op == "&") return a & b;
  if (op == "|") return a | b;
  throw std::logic_error("operator " + op);
}

Wide evaluate_rpn(const std::string& text, const Names& names) {
  std::vector<Wide> stack;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    at = end + 1;
    if (std::isdigit(static_cast<unsigned char>(word.back())) != 0 &&
        (std::isdigit(static_cast<unsigned char>(word[0])) != 0 || word[0] == '-')) {
      stack.push_back(std::stoll(word));
    } else if ((std::isalpha(static_cast<unsigned char>(word[0])) != 0) && word != "min" && word != "max") {
      stack.push_back(names(word));
    } else {
      const Wide b = stack.back();
      stack.pop_back();
      stack.back() = apply(word, stack.back(), b);
    }
  }
  EXPECT_EQ(stack.size(), 1u);
  return stack.back();
}

// (a op b), f(a, b), names and numbers; / and % truncate as in C.
class CReader {
 public:
  CReader(std::string text, const Names& names) : text_(std::move(text)), names_(names) {}
  Wide value() {
    if (accept("(-9223372036854775807L - 1)")) return INT64_MIN;
    if (accept("(")) {
      const Wide a = value();
      if (accept(")")) return a;
      accept(" ");
      const std::string op = until(" ");
      accept(" ");
      const Wide b = value();
      if (!accept(")")) throw std::logic_error("expected ) at " + text_.substr(at_));
      if (op == "/") return a / b;
      if (op == "%") return a % b;
      return apply(op, a, b);
    }
    size_t end = at_ + 1;
    while (end < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[end])) != 0 || text_[end] == '_'))
      ++end;
    const std::string word = text_.substr(at_, end - at_);
    at_ = end;
    if (std::isdigit(static_cast<unsigned char>(word[0])) != 0 || word[0] == '-') return std::stoll(word);
    if (!accept("(")) return names_(word);
    const Wide a = value();
    accept(", ");
    const Wide b = value();
    accept(")");
    if (word == "luminal_floor_div") return apply("/", a, b);
    if (word == "luminal_floor_mod") return apply("%", a, b);
    return apply(word == "luminal_min" ? "min" : word == "luminal_max" ? "max" : word, a, b);
  }

 private:
  bool accept(const std::string& token) {
    if (text_.compare(at_, token.size(), token) != 0) return false;
    at_ += token.size();
    return true;
  }
  std::string until(const std::string& stop) {
    const size_t end = text_.find(stop, at_);
    std::string part = text_.substr(at_, end - at_);
    at_ = end;
    return part;
  }
  std::string text_;
  size_t at_ = 0;
  const Names& names_;
};

// (Add a b), (Num 3), (Dim "s" 0 9 1), (Index 0 extent), (Flat).
class EggReader {
 public:
  EggReader(std::string text, const Names& names) : text_(std::move(text)), names_(names) {}
  Wide value() {
    at_ = text_.find_first_not_of("( ", at_);
    const std::string head = word();
    if (head == "Num") return std::stoll(word());
    if (head == "Flat") return names_("z");
    if (head == "Dim") {
      const std::string quoted = word();
      for (int k = 0; k < 3; ++k) (void)word();
      return names_(quoted.substr(1, quoted.size() - 2));
    }
    if (head == "Index") {
      const std::string axis = word();
      (void)value();
      return names_("i" + axis);
    }
    const Wide a = value(), b = value();
    static const std::map<std::string, std::string> kOps = {{"Add", "+"},  {"Mul", "*"},   {"Div", "/"},
                                                            {"Mod", "%"},  {"Min", "min"}, {"Max", "max"},
                                                            {"Less", "<"}, {"And", "&"},   {"Or", "|"}};
    return apply(kOps.at(head), a, b);
  }

 private:
  std::string word() {
    at_ = text_.find_first_not_of("() ", at_);
    const size_t end = std::min(text_.find_first_of("() ", at_), text_.size());
    std::string w = text_.substr(at_, end - at_);
    at_ = end;
    return w;
  }
  std::string text_;
  size_t at_ = 0;
  const Names& names_;
};

TEST(Forms, AllMeanTheSame) {
  constexpr uint64_t kSeed = 99;
  oracle::Random random(kSeed);
  const auto variables = oracle::dims_and_indices();
  int compared = 0;
  for (int i = 0; i < 3000; ++i) {
    const auto tree = random.tree(variables, static_cast<int>(random.between(1, 4)));
    const Expression e = build(*tree, variables);
    const oracle::Assignment a = random.assignment(variables, true);
    if (!oracle::evaluate(*tree, variables, a)) continue;
    const Wide want = e.exec(a.dims, a.indices);
    const Names names{a.dims, a.indices};
    SCOPED_TRACE("seed " + std::to_string(kSeed) + ": " + e.to_text());
    ASSERT_TRUE(evaluate_rpn(e.to_rpn(), names) == want) << e.to_rpn();
    ASSERT_TRUE(CReader(e.to_kernel(), names).value() == want) << e.to_kernel();
    ASSERT_TRUE(EggReader(e.to_egglog(), names).value() == want) << e.to_egglog();
    ++compared;
  }
  EXPECT_GT(compared, 2000);
}

TEST(Forms, Examples) {
  const Expression s = "s", b = Expression::dim("batch.size", {.min = 1, .max = 1024, .multiple_of = 16});
  EXPECT_EQ((s * 2 + 1).to_rpn(), "2 s * 1 +");
  EXPECT_EQ((s / 3 % 4).to_kernel(), "((s / 3) % 4)");
  EXPECT_EQ(((1 - s) / 3).to_kernel(), "luminal_floor_div((((-1) * s) + 1), 3)");
  EXPECT_EQ(b.to_kernel(), "batch_size");
  EXPECT_EQ(b.to_string(), "batch.size{16..1024,/16}");
  EXPECT_EQ(Expression::dim("v", {.min = INT64_MIN, .max = 5}).to_string(), "v{..5}");
  EXPECT_EQ(Expression::dim("v", {.min = 2}).to_string(), "v{2..}");
  EXPECT_EQ((s + Expression::index(1, s)).to_text(), "s + i1[s]");
  EXPECT_EQ((s + 3).to_egglog(), "(Add (Dim \"s\" 0 9223372036854775807 1) (Num 3))");
}

TEST(Parse, ReadsInfix) {
  const Expression s = "s", t = "t";
  EXPECT_EQ(Expression::parse("s*2+t//4 - -3"), s * 2 + t / 4 + 3);
  EXPECT_EQ(Expression::parse(" min(s, t, 4) % max(t,1)"), s.min(t).min(4) % t.max(1));
  EXPECT_EQ(Expression::parse("(s < t) & (t <= 5) | (s >= 2)"), (s.lt(t) & t.lt(6)) | s.gte(2));
  EXPECT_EQ(Expression::parse("-9223372036854775808"), INT64_MIN);
  EXPECT_EQ(Expression::parse("v{..-2,/2}"),
            Expression::dim("v", {.min = INT64_MIN, .max = -2, .multiple_of = 2}));
  EXPECT_EQ(Expression::parse("i2[s + 1] + z"), Expression::index(2, s + 1) + Expression::flat_index());
  EXPECT_EQ(Expression::parse("s - t - 1"), s - t - 1);
  EXPECT_EQ(Expression::parse("s / t / 2"), s / t / 2);
}

TEST(Parse, ErrorsNameTheColumn) {
  const std::pair<const char*, const char*> cases[] = {
      {"s + ", "column 5: the text ends where a value is expected"},
      {"s + * t", "column 5: unexpected '*'"},
      {"(s", "column 3: expected ')'"},
      {"s t", "column 3: unexpected 't'"},
      {"99999999999999999999", "does not fit in 64 bits"},
      {"min(s)", "expected ','"},
      {"", "the text ends"},
      {"s{3..1}", "above max 1"},
      {"s{/0}", "multiple_of 0"},
      {"i99999999999", "axis number is too large"},
      {"9223372036854775807 + 1", "does not fit in 64 bits"},
      {"\x01", "unexpected '\\x01'"},
  };
  for (const auto& [text, wanted] : cases) {
    try {
      (void)Expression::parse(text);
      ADD_FAILURE() << text;
    } catch (const FormatError& e) {
      EXPECT_THAT(e.what(), HasSubstr(wanted)) << text;
    }
  }
  EXPECT_THROW((void)Expression::parse(std::string(100000, '(')), FormatError);
  EXPECT_THROW((void)Expression::parse(std::string(5000, '(')), FormatError);
  EXPECT_THROW((void)Expression::parse(std::string(5000, '-') + "s"), FormatError);
}

TEST(Parse, LongTextsEndSoon) {
  for (const std::string op : {"+", "*", "|"}) {
    std::string text = "d0";
    for (int k = 1; k < 8000; ++k) text += op + "d" + std::to_string(k);
    EXPECT_THROW((void)Expression::parse(text), FormatError) << op;
  }
  EXPECT_THROW((void)Expression::parse(std::string(1 << 17, ' ')), FormatError);
}

// Any text either reads or is a FormatError: pieces of the grammar in random order, then bytes flipped.
TEST(Parse, SurvivesAnyText) {
  constexpr uint64_t kSeed = 5;
  oracle::Random random(kSeed);
  const std::vector<std::string> pieces = {
      "s", "t", "i0",   "i1[s]", "z",  "(",  ")", "min(", "max(",      ",", "+", "-", "*",
      "/", "%", "//",   "<",     "<=", ">=", ">", "&",    "|",         "0", "1", "7", "9223372036854775807",
      "{", "}", "{1..", "/4}",   "[",  "]",  " ", "..",   "x{2..9,/2}"};
  int read = 0;
  for (int i = 0; i < 30000; ++i) {
    std::string text;
    for (int64_t k = random.between(1, 24); k > 0; --k) text += random.pick(pieces);
    if (random.chance(10))
      text[static_cast<size_t>(random.between(0, static_cast<int64_t>(text.size()) - 1))] =
          static_cast<char>(random.between(0, 255));
    try {
      const Expression e = Expression::parse(text);
      ASSERT_EQ(Expression::parse(e.to_text()), e)
          << "seed " << kSeed << ": " << text << " -> " << e.to_text();
      ++read;
    } catch (const FormatError&) {
    }
  }
  EXPECT_GT(read, 300);
}

}  // namespace
}  // namespace luminal
