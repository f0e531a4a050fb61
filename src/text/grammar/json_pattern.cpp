#include "text/grammar/json_pattern.h"

#include <algorithm>
#include <cctype>

#include "base/fail.h"
#include "text/unicode.h"

namespace luminal::text {
namespace {

constexpr char32_t kGreatestCharacter = 0x10FFFF;

CharacterRanges sorted_ranges(CharacterRanges ranges) {
  std::ranges::sort(ranges);
  CharacterRanges joined;
  for (const auto& [first, last] : ranges)
    if (!joined.empty() && first <= joined.back().second + 1)
      joined.back().second = std::max(joined.back().second, last);
    else
      joined.emplace_back(first, last);
  return joined;
}

CharacterRanges other_ranges(const CharacterRanges& ranges) {
  CharacterRanges rest;
  char32_t next = 0;
  for (const auto& [first, last] : sorted_ranges(ranges)) {
    if (first > next) rest.emplace_back(next, first - 1);
    next = last + 1;
  }
  if (next <= kGreatestCharacter) rest.emplace_back(next, kGreatestCharacter);
  return rest;
}

/// The classes of ECMA-262.
CharacterRanges class_of_letter(char letter) {
  switch (letter) {
    case 'd':
      return {{'0', '9'}};
    case 'w':
      return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    case 's':
      return {{'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
              {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
    default:
      return other_ranges(class_of_letter(static_cast<char>(std::tolower(letter))));
  }
}

/// What follows the backslash in JSON; nothing for characters that stand for themselves, "" where there is none.
std::string_view json_escape(char32_t code) {
  switch (code) {
    case '"':
      return "\"";
    case '\\':
      return "\\";
    case '\b':
      return "b";
    case '\f':
      return "f";
    case '\n':
      return "n";
    case '\r':
      return "r";
    case '\t':
      return "t";
    default:
      return "";
  }
}

std::string class_character(char32_t code) {
  if (code < 0x80 && std::isalnum(static_cast<int>(code)) != 0)
    return std::string(1, static_cast<char>(code));
  return fmt::format("\\U{:08X}", static_cast<uint32_t>(code));
}

class PatternGrammar {
 public:
  PatternGrammar(std::string_view regex, const std::string& where) : text_(regex), where_(where) {
    check_utf8(regex, "grammar");
  }

  std::string translated() {
    std::string result = choice(0, true);
    if (at_ < text_.size()) wrong("a ')' too many");
    return result;
  }

 private:
  static constexpr int kDeepest = 50;

  [[noreturn]] void wrong(std::string_view what) const {
    fail<FormatError>("{}: the pattern '{}' has {} at character {}", where_, text_, what, at_ + 1);
  }
  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(std::string_view what) {
    if (!text_.substr(at_).starts_with(what)) return false;
    at_ += what.size();
    return true;
  }

  /// At the top anything may stand around what is not anchored.
  std::string choice(int depth, bool top) {
    if (depth > kDeepest) wrong("groups that are nested too deeply");
    static const std::string anything = gbnf_json_characters({{0, kGreatestCharacter}}) + "*";
    std::string result;
    do {
      const bool begins = top && take("^");
      std::string part = sequence(depth);
      const bool ends = top && take("$");
      if (at_ < text_.size() && peek() != '|' && peek() != ')')
        wrong("an anchor that is not at the pattern's end");
      if (top && !begins) part = anything + " " + part;
      if (top && !ends) part += " " + anything;
      result += (result.empty() ? "" : " | ") + part;
    } while (take("|"));
    return "(" + result + ")";
  }

  std::string sequence(int depth) {
    std::string result;
    while (at_ < text_.size() && peek() != '|' && peek() != ')' && peek() != '$') {
      const std::string atom = this->atom(depth);
      result += (result.empty() ? "" : " ") + atom + repetition();
    }
    return result.empty() ? "\"\"" : result;
  }

  std::string atom(int depth) {
    const char c = peek();
    if (take("(")) {
      if (take("?:")) {
      } else if (take("?<") && peek() != '=' && peek() != '!') {
        while (at_ < text_.size() && peek() != '>') ++at_;
        if (!take(">")) wrong("a name without an end");
      } else if (text_[at_ - 1] != '(' || peek() == '?') {
        wrong("a look-around, which grammars cannot say");
      }
      std::string group = choice(depth + 1, false);
      if (!take(")")) wrong("a group without an end");
      return group;
    }
    if (take("[")) return gbnf_json_characters(character_class());
    if (take(".")) return gbnf_json_characters(other_ranges({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}));
    if (std::string_view("*+?{^").find(c) != std::string_view::npos)
      wrong(fmt::format("a '{}' where a character was expected", c));
    return gbnf_json_characters(one());
  }

  std::string repetition() {
    std::string result;
    if (peek() == '*' || peek() == '+' || peek() == '?') {
      result = std::string(1, text_[at_++]);
    } else if (peek() == '{') {
      const size_t end = text_.find('}', at_);
      if (end == std::string_view::npos) wrong("a repetition without an end");
      result = text_.substr(at_, end + 1 - at_);
      if (result.find_first_not_of("{},0123456789") != std::string::npos)
        wrong("a repetition that is no number");
      at_ = end + 1;
    }
    if (!result.empty()) (void)take("?");  // the least first: the same texts
    return result;
  }

  /// A character or a class, behind a backslash or not.
  CharacterRanges one() {
    if (!take("\\")) {
      const auto [code, length] = character_at(text_, at_);
      at_ += length;
      return {{code, code}};
    }
    if (at_ == text_.size()) wrong("a backslash at its end");
    const char c = text_[at_++];
    if (std::string_view("dDwWsS").find(c) != std::string_view::npos) return class_of_letter(c);
    constexpr std::string_view kNamed = "ntrfv0", kCodes("\n\t\r\f\v\0", 6);
    if (const size_t named = kNamed.find(c); named != std::string_view::npos) {
      const auto code = static_cast<char32_t>(kCodes[named]);
      return {{code, code}};
    }
    if (c == 'x' || c == 'u') {
      const char32_t code = hexadecimal(c == 'x' ? 2 : 4);
      return {{code, code}};
    }
    if (static_cast<unsigned char>(c) >= 0x80 || std::isalnum(static_cast<unsigned char>(c)) != 0)
      wrong(fmt::format("'\\{}', which grammars cannot say", c));
    return {{static_cast<char32_t>(c), static_cast<char32_t>(c)}};
  }

  char32_t hexadecimal(size_t digits) {
    const std::string_view text = text_.substr(at_, digits);
    if (text.size() < digits || text.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos)
      wrong("too few hexadecimal digits");
    at_ += digits;
    return static_cast<char32_t>(std::stoul(std::string(text), nullptr, 16));
  }

  CharacterRanges character_class() {
    const bool inverted = take("^");
    CharacterRanges ranges;
    while (!take("]")) {
      if (at_ == text_.size()) wrong("a class of characters without an end");
      CharacterRanges first = one();
      const bool single = first.size() == 1 && first.front().first == first.front().second;
      if (single && peek() == '-' && !text_.substr(at_).starts_with("-]")) {
        ++at_;
        if (at_ == text_.size()) wrong("a class of characters without an end");
        const CharacterRanges last = one();
        if (last.size() != 1 || last.front().first != last.front().second ||
            last.front().first < first.front().first)
          wrong("a range that ends before it begins");
        first.front().second = last.front().first;
      }
      ranges.insert(ranges.end(), first.begin(), first.end());
    }
    return inverted ? other_ranges(ranges) : sorted_ranges(ranges);
  }

  std::string_view text_;
  const std::string& where_;
  size_t at_ = 0;
};

}  // namespace

std::string gbnf_literal(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      result += std::string("\\") + c;
    else if (byte < 0x20 || byte == 0x7F)
      result += fmt::format("\\x{:02X}", byte);
    else
      result += c;
  }
  return result + "\"";
}

std::string gbnf_json_characters(const CharacterRanges& ranges) {
  std::string plain, escaped;
  const auto add = [&](char32_t first, char32_t last) {
    if (first > last) return;
    plain += class_character(first);
    if (last > first) plain += "-" + class_character(last);
  };
  for (auto [first, last] : sorted_ranges(ranges)) {
    for (const char32_t code : {U'\b', U'\t', U'\n', U'\f', U'\r', U'"', U'\\'})
      if (code >= first && code <= last)
        escaped += (code == '\\' || code == '"' ? "\\" : "") + std::string(json_escape(code));
    first = std::max<char32_t>(first, 0x20);  // those below stand in JSON as escapes alone
    for (const char32_t code : {U'"', U'\\'})
      if (first <= code && code <= last) {
        add(first, code - 1);
        first = code + 1;
      }
    for (const auto& [gap, behind] : {std::pair<char32_t, char32_t>(0xD800, 0xE000)})  // halves of pairs
      if (first <= behind - 1 && last >= gap) {
        if (first < gap) add(first, gap - 1);
        first = std::max(first, behind);
      }
    add(first, last);
  }
  if (plain.empty() && escaped.empty()) return "[]";  // no character: nothing matches
  if (escaped.empty()) return "[" + plain + "]";
  const std::string escapes = "\"\\\\\" [" + escaped + "]";
  return plain.empty() ? "(" + escapes + ")" : "([" + plain + "] | " + escapes + ")";
}

std::string gbnf_json_pattern(std::string_view regex, const std::string& where) {
  return PatternGrammar(regex, where).translated();
}

}  // namespace luminal::text
