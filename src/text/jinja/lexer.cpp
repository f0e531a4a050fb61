#include <cctype>

#include "base/fail.h"
#include "text/jinja/syntax.h"
#include "text/unicode.h"

namespace luminal::text::jinja {
namespace {

bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool begins_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_decimal(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) {
    for (size_t i = 0; i < source.size(); ++i) {
      if (source[i] != '\r')
        source_ += source[i];
      else if (i + 1 == source.size() || source[i + 1] != '\n')
        source_ += '\n';
    }
    if (source_.ends_with('\n')) source_.pop_back();  // as jinja2 does
  }

  std::vector<Token> operator()() {
    while (at_ < source_.size()) {
      size_t open = source_.find('{', at_);
      while (open != std::string::npos && (open + 1 == source_.size() || !is_tag(source_[open + 1])))
        open = source_.find('{', open + 1);
      data(open == std::string::npos ? source_.size() : open);
      if (open != std::string::npos) tag();
    }
    add(Token::Kind::End, "");
    return std::move(tokens_);
  }

 private:
  static bool is_tag(char c) { return c == '{' || c == '%' || c == '#'; }
  void add(Token::Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
  void advance(size_t to) {
    for (; at_ < to; ++at_) line_ += source_[at_] == '\n';
  }

  /// The text before a tag, without the blanks that the tag takes.
  void data(size_t end) {
    std::string text = source_.substr(at_, end - at_);
    if (end < source_.size()) {
      const char sign = end + 2 < source_.size() ? source_[end + 2] : ' ';
      if (sign == '-') {
        while (!text.empty() && is_blank(text.back())) text.pop_back();
      } else if (sign != '+' && source_[end + 1] != '{') {
        const size_t start = text.rfind('\n') + 1;  // 0 if there is none
        size_t blank = start;
        while (blank < text.size() && is_blank(text[blank])) ++blank;
        if (blank == text.size() && (start > 0 || line_start_)) text.resize(start);
      }
    }
    if (!text.empty()) add(Token::Kind::Data, text);
    advance(end);
  }

  void tag() {
    const char kind = source_[at_ + 1];
    const int line = line_;
    size_t next = at_ + 2;
    if (next < source_.size() && (source_[next] == '-' || source_[next] == '+')) ++next;
    if (kind == '#') {
      const size_t close = source_.find("#}", next);
      if (close == std::string::npos)
        fail<FormatError>("[chat template] line {}: a comment is not closed", line);
      advance(close);
      return end_of_tag(source_[close - 1] == '-' && close > next, source_[close - 1] == '+', true);
    }
    const bool block = kind == '%';
    add(block ? Token::Kind::BlockBegin : Token::Kind::PrintBegin, "");
    advance(next);
    const std::string_view close = block ? "%}" : "}}";
    int braces = 0;
    while (true) {
      while (at_ < source_.size() && is_blank(source_[at_])) advance(at_ + 1);
      if (at_ >= source_.size()) fail<FormatError>("[chat template] line {}: the tag is not closed", line);
      const std::string_view rest = std::string_view(source_).substr(at_);
      if (braces == 0) {
        const bool sign = rest[0] == '-' || (rest[0] == '+' && block);
        if (rest.starts_with(close) || (sign && rest.substr(1).starts_with(close))) {
          add(block ? Token::Kind::BlockEnd : Token::Kind::PrintEnd, "");
          if (sign) advance(at_ + 1);
          return end_of_tag(sign && rest[0] == '-', sign && rest[0] == '+', block);
        }
      }
      if (rest[0] == '{' || rest[0] == '[' || rest[0] == '(') ++braces;
      if (rest[0] == '}' || rest[0] == ']' || rest[0] == ')') --braces;
      inside(rest);
    }
  }

  /// Behind a tag: `-` takes all blanks, a block or comment the end of its line.
  void end_of_tag(bool minus, bool plus, bool block) {
    advance(at_ + 2);
    line_start_ = false;
    if (minus) {
      size_t to = at_;
      while (to < source_.size() && is_blank(source_[to])) ++to;
      line_start_ = to > at_ && source_[to - 1] == '\n';
      advance(to);
    } else if (block && !plus && at_ < source_.size() && source_[at_] == '\n') {
      advance(at_ + 1);
      line_start_ = true;
    }
  }

  void inside(std::string_view rest) {
    size_t length = 1;
    if (begins_name(rest[0])) {
      while (length < rest.size() && (begins_name(rest[length]) || is_decimal(rest[length]))) ++length;
      add(Token::Kind::Name, std::string(rest.substr(0, length)));
    } else if (is_decimal(rest[0])) {
      const auto digits = [&] {
        while (length < rest.size() && (is_decimal(rest[length]) || rest[length] == '_')) ++length;
      };
      digits();
      bool real = false;
      if (length + 1 < rest.size() && rest[length] == '.' && is_decimal(rest[length + 1]))
        real = true, ++length, digits();
      std::string text(rest.substr(0, length));
      std::erase(text, '_');
      add(real ? Token::Kind::Real : Token::Kind::Integer, text);
    } else if (rest[0] == '"' || rest[0] == '\'') {
      length = quoted(rest);
    } else {
      for (const std::string_view two : {"==", "!=", "<=", ">=", "//", "**"})
        if (rest.starts_with(two)) length = 2;
      if (std::string_view("+-*/%~()[]{}.,:|=<>!").find(rest[0]) == std::string_view::npos ||
          rest.substr(0, length) == "!")
        fail<FormatError>("[chat template] line {}: '{}' is unexpected", line_, rest[0]);
      add(Token::Kind::Sign, std::string(rest.substr(0, length)));
    }
    advance(at_ + length);
  }

  size_t quoted(std::string_view rest) {
    std::string text;
    size_t i = 1;
    for (; i < rest.size() && rest[i] != rest[0]; ++i) {
      if (rest[i] != '\\' || i + 1 == rest.size()) {
        text += rest[i];
        continue;
      }
      const char c = rest[++i];
      constexpr std::string_view kFrom = "ntrbfva0\\'\"", kTo("\n\t\r\b\f\v\a\0\\'\"", 11);
      if (const size_t known = kFrom.find(c); known != std::string_view::npos) {
        text += kTo[known];
      } else if (const size_t digits = c == 'x'   ? 2
                                       : c == 'u' ? 4
                                       : c == 'U' ? 8
                                                  : 0;
                 digits > 0 && i + digits < rest.size()) {
        char32_t code = 0;
        for (size_t k = 1; k <= digits; ++k) {
          const char digit = rest[i + k];
          if (std::isxdigit(static_cast<unsigned char>(digit)) == 0)
            fail<FormatError>("[chat template] line {}: an escape in a string is not complete", line_);
          code = code * 16 + static_cast<char32_t>(is_decimal(digit) ? digit - '0' : (digit | 32) - 'a' + 10);
        }
        if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
          fail<FormatError>("[chat template] line {}: an escape in a string is no character", line_);
        text += utf8(code);
        i += digits;
      } else if (c != '\n') {
        text += {'\\', c};
      }
    }
    if (i >= rest.size()) fail<FormatError>("[chat template] line {}: a string is not closed", line_);
    add(Token::Kind::Text, text);
    return i + 1;
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_start_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  check_utf8(source, "chat template");
  return Lexer(source)();
}

}  // namespace luminal::text::jinja
