// GBNF: from text to syntax.
#include <algorithm>
#include <cctype>
#include <map>

#include "base/fail.h"
#include "text/grammar/syntax.h"
#include "text/unicode.h"

namespace luminal::text {
namespace {

using NodeKind = GrammarNode::Kind;

constexpr int kDeepestNesting = 100;
constexpr size_t kMostRules = 4096;
constexpr uint32_t kMostRepetitions = 10'000;
constexpr char32_t kLastCharacter = 0x10FFFF;

class GbnfParser {
 public:
  explicit GbnfParser(std::string_view text) : text_(text) { check_utf8(text, "grammar"); }

  GrammarSyntax parse() {
    for (skip(true); at_ < text_.size(); skip(true)) rule();
    for (size_t i = 0; i < syntax_.names.size(); ++i)
      if (!defined_[i]) {
        at_ = first_use_[i];
        wrong(fmt::format("rule '{}' is used and nowhere defined", syntax_.names[i]));
      }
    const auto root = ids_.find("root");
    if (root == ids_.end()) fail<FormatError>("[grammar] there is no rule 'root', with which texts begin");
    syntax_.root = root->second;
    return std::move(syntax_);
  }

 private:
  [[noreturn]] void wrong(const std::string& what) const {
    const std::string_view before = text_.substr(0, std::min(at_, text_.size()));
    const auto line = 1 + std::ranges::count(before, '\n');
    const size_t column = before.size() - (before.rfind('\n') + 1) + 1;
    fail<FormatError>("[grammar] line {}, column {}: {}", line, column, what);
  }

  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(std::string_view what) {
    if (!text_.substr(at_).starts_with(what)) return false;
    at_ += what.size();
    return true;
  }
  void expect(std::string_view what) {
    if (!take(what)) wrong(fmt::format("'{}' is missing", what));
  }

  /// Blanks and comments, with `lines` also the ends of lines.
  void skip(bool lines) {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#')
        at_ = std::min(text_.find('\n', at_), text_.size());
      else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r')))
        ++at_;
      else
        return;
    }
  }

  static bool is_name(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
  }

  std::string_view name() {
    const size_t begin = at_;
    while (is_name(peek())) ++at_;
    if (at_ == begin) wrong("a rule's name is missing");
    return text_.substr(begin, at_ - begin);
  }

  uint32_t id_of(std::string_view rule, size_t where) {
    const auto [found, added] = ids_.emplace(rule, static_cast<uint32_t>(syntax_.names.size()));
    if (!added) return found->second;
    if (syntax_.names.size() == kMostRules) wrong(fmt::format("there are more than {} rules", kMostRules));
    syntax_.names.emplace_back(rule);
    syntax_.bodies.emplace_back();
    first_use_.push_back(where);
    defined_.push_back(false);
    return found->second;
  }

  void rule() {
    const size_t begin = at_;
    const uint32_t id = id_of(name(), begin);
    if (defined_[id]) {
      at_ = begin;
      wrong(fmt::format("rule '{}' is defined twice", syntax_.names[id]));
    }
    defined_[id] = true;
    skip(false);
    expect("::=");
    skip(true);
    syntax_.bodies[id] = choice(0);
    if (at_ < text_.size() && peek() != '\n' && peek() != '\r')
      wrong("the end of the rule's line was expected");
  }

  GrammarNode choice(int depth) {
    if (depth > kDeepestNesting)
      wrong(fmt::format("groups are nested deeper than {} levels", kDeepestNesting));
    GrammarNode node{.kind = NodeKind::Choice};
    node.parts.push_back(sequence(depth));
    while (take("|")) {
      skip(true);
      node.parts.push_back(sequence(depth));
    }
    return node;
  }

  GrammarNode sequence(int depth) {
    GrammarNode node{.kind = NodeKind::Sequence};
    for (GrammarNode part; term(part, depth); skip(depth > 0)) {
      for (int stacked = 0; repetition(part); ++stacked)
        if (stacked == kDeepestNesting)
          wrong(fmt::format("more than {} repetitions of repetitions", kDeepestNesting));
      node.parts.push_back(std::move(part));
    }
    return node;
  }

  bool term(GrammarNode& node, int depth) {
    node = {};
    if (take("\"")) {
      node.kind = NodeKind::Literal;
      while (!take("\"")) node.literal += utf8(character("literal"));
    } else if (take("[")) {
      node = {.kind = NodeKind::Class, .ranges = character_class()};
    } else if (take(".")) {
      node = {.kind = NodeKind::Class, .ranges = {{0, kLastCharacter}}};
    } else if (take("(")) {
      skip(true);
      node = choice(depth + 1);
      expect(")");
    } else if (is_name(peek())) {
      const size_t begin = at_;
      node = {.kind = NodeKind::Rule, .rule = id_of(name(), begin)};
    } else {
      return false;
    }
    return true;
  }

  bool repetition(GrammarNode& node) {
    uint32_t least = 0, most = GrammarNode::kUnbounded;
    if (take("+")) {
      least = 1;
    } else if (take("?")) {
      most = 1;
    } else if (take("{")) {
      skip(false);
      least = most = count();
      skip(false);
      if (take(",")) {
        skip(false);
        most = peek() == '}' ? GrammarNode::kUnbounded : count();
        skip(false);
      }
      expect("}");
      if (most < least) wrong(fmt::format("{} repetitions at least, {} at most: none fits", least, most));
    } else if (!take("*")) {
      return false;
    }
    GrammarNode repeated{.kind = NodeKind::Repeat, .least = least, .most = most};
    repeated.parts.push_back(std::move(node));
    node = std::move(repeated);
    return true;
  }

  uint32_t count() {
    uint32_t value = 0;
    if (std::isdigit(static_cast<unsigned char>(peek())) == 0) wrong("a number of repetitions is missing");
    while (std::isdigit(static_cast<unsigned char>(peek())) != 0) {
      value = value * 10 + static_cast<uint32_t>(text_[at_++] - '0');
      if (value > kMostRepetitions) wrong(fmt::format("more than {} repetitions", kMostRepetitions));
    }
    return value;
  }

  char32_t character(const char* what) {
    if (at_ >= text_.size() || peek() == '\n') wrong(fmt::format("the {} has no end", what));
    if (!take("\\")) {
      const auto [code, length] = character_at(text_, at_);
      at_ += length;
      return code;
    }
    const char c = peek();
    ++at_;
    if (c == 'n') return '\n';
    if (c == 'r') return '\r';
    if (c == 't') return '\t';
    if (c == 'x') return hexadecimal(2);
    if (c == 'u') return hexadecimal(4);
    if (c == 'U') return hexadecimal(8);
    if (std::string_view("\"\\[]^-").find(c) != std::string_view::npos && c != '\0')
      return static_cast<char32_t>(c);
    --at_;
    wrong(R"(unknown escape; there are \n \r \t \" \\ \[ \] \^ \- \xHH \uHHHH \UHHHHHHHH)");
  }

  char32_t hexadecimal(int digits) {
    char32_t value = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const char c = peek();
      if (std::isxdigit(static_cast<unsigned char>(c)) == 0)
        wrong(fmt::format("{} hexadecimal digits are needed", digits));
      value = value * 16 + static_cast<char32_t>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    if (value > kLastCharacter || (value >= 0xD800 && value <= 0xDFFF))
      wrong("this is no character of Unicode");
    return value;
  }

  std::vector<std::pair<char32_t, char32_t>> character_class() {
    const bool inverted = take("^");
    std::vector<std::pair<char32_t, char32_t>> given, ranges;
    while (!take("]")) {
      const char32_t first = character("class of characters");
      char32_t last = first;
      if (peek() == '-' && !text_.substr(at_).starts_with("-]")) {
        ++at_;
        last = character("class of characters");
      }
      if (last < first) wrong("the range ends before it begins");
      given.emplace_back(first, last);
    }
    std::ranges::sort(given);
    for (const auto& [first, last] : given)
      if (!ranges.empty() && first <= ranges.back().second + 1)
        ranges.back().second = std::max(ranges.back().second, last);
      else
        ranges.emplace_back(first, last);
    return inverted ? complement(ranges) : ranges;
  }

  static std::vector<std::pair<char32_t, char32_t>> complement(
      const std::vector<std::pair<char32_t, char32_t>>& ranges) {
    std::vector<std::pair<char32_t, char32_t>> rest;
    char32_t next = 0;
    for (const auto& [first, last] : ranges) {
      if (first > next) rest.emplace_back(next, first - 1);
      next = last + 1;
    }
    if (next <= kLastCharacter) rest.emplace_back(next, kLastCharacter);
    return rest;
  }

  std::string_view text_;
  size_t at_ = 0;
  GrammarSyntax syntax_;
  std::map<std::string, uint32_t, std::less<>> ids_;
  std::vector<size_t> first_use_;
  std::vector<bool> defined_;
};

}  // namespace

GrammarSyntax parse_gbnf(std::string_view text) { return GbnfParser(text).parse(); }

}  // namespace luminal::text
