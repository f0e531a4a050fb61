#include <cctype>

#include "base/fail.h"
#include "symbolic/names.h"
#include "symbolic/node.h"

/// Recursive descent over infix text, loosest first:
///   or    := and ('|' and)*                     compare := sum (('<' | '<=' | '>' | '>=') sum)?
///   and   := compare ('&' compare)*             sum     := product (('+' | '-') product)*
///   product := unary (('*' | '/' | '//' | '%') unary)*       unary := '-' unary | atom
///   atom  := number | '(' or ')' | ('min' | 'max') '(' or (',' or)+ ')' | 'z' | 'i'N ['[' or ']'] | dim
///   dim   := name ['{' [number] '..' [number] [',/' number] '}' | '{/' number '}']
namespace luminal {
namespace {

constexpr int kMaxNesting = 200;
constexpr size_t kMaxLength = 1 << 16;

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Expression whole() {
    if (text_.size() > kMaxLength) error(fmt::format("the text is longer than {} characters", kMaxLength));
    try {
      const Expression e = disjunction();
      skip_blanks();
      if (at_ < text_.size()) error(fmt::format("unexpected '{}'", printable(text_[at_])));
      return e;
    } catch (const FormatError&) {
      throw;
    } catch (const Error& e) {  // an overflow, a dim that cannot be
      error(e.what());
    }
  }

 private:
  static std::string printable(char c) {
    return std::isprint(static_cast<unsigned char>(c)) != 0
               ? std::string(1, c)
               : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  [[noreturn]] void error(const std::string& what) const {
    constexpr size_t kShown = 60;
    const std::string shown(text_.substr(0, kShown));
    fail<FormatError>("[Expression::parse] column {}: {} in \"{}{}\"", at_ + 1, what, shown,
                      text_.size() > kShown ? "..." : "");
  }

  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) ++at_;
  }
  bool accept(std::string_view token) {
    skip_blanks();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) error(fmt::format("expected '{}'", token));
  }

  // Guards the recursion of every nested construct.
  class Nested {
   public:
    explicit Nested(Parser& p) : parser_(p) {
      if (++parser_.depth_ > kMaxNesting) parser_.error(fmt::format("nested deeper than {}", kMaxNesting));
    }
    ~Nested() { --parser_.depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    Parser& parser_;
  };

  Expression disjunction() {
    const Nested guard(*this);
    Expression e = conjunction();
    while (accept("|")) e = e | conjunction();
    return e;
  }
  Expression conjunction() {
    Expression e = comparison();
    while (accept("&")) e = e & comparison();
    return e;
  }
  Expression comparison() {
    const Expression a = sum();
    if (accept("<=")) return sum().gte(a);
    if (accept(">=")) return a.gte(sum());
    if (accept("<")) return a.lt(sum());
    if (accept(">")) return sum().lt(a);
    return a;
  }
  Expression sum() {
    Expression e = product();
    for (;;) {
      if (accept("+"))
        e += product();
      else if (accept("-"))
        e -= product();
      else
        return e;
    }
  }
  Expression product() {
    Expression e = unary();
    for (;;) {
      if (accept("*"))
        e *= unary();
      else if (accept("//") || accept("/"))
        e /= unary();
      else if (accept("%"))
        e %= unary();
      else
        return e;
    }
  }
  Expression unary() {
    const Nested guard(*this);
    if (!accept("-")) return atom();
    skip_blanks();
    if (at_ < text_.size() && digit(text_[at_])) return number(true);
    return -unary();
  }

  static bool digit(char c) { return c >= '0' && c <= '9'; }
  static bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

  int64_t number(bool minus = false) {
    skip_blanks();
    if (at_ == text_.size() || !digit(text_[at_])) error("expected a number");
    uint64_t value = 0;
    const uint64_t limit = (uint64_t{1} << 63) - (minus ? 0 : 1);
    for (; at_ < text_.size() && digit(text_[at_]); ++at_) {
      const auto d = static_cast<uint64_t>(text_[at_] - '0');
      if (value > (limit - d) / 10) error("the number does not fit in 64 bits");
      value = value * 10 + d;
    }
    return static_cast<int64_t>(minus ? 0 - value : value);
  }
  int64_t signed_number() { return accept("-") ? number(true) : number(); }

  Expression atom() {
    skip_blanks();
    if (at_ == text_.size()) error("the text ends where a value is expected");
    if (digit(text_[at_])) return number();
    if (accept("(")) {
      const Expression e = disjunction();
      expect(")");
      return e;
    }
    if (!letter(text_[at_])) error(fmt::format("unexpected '{}'", printable(text_[at_])));
    const size_t begin = at_;
    while (at_ < text_.size() && (letter(text_[at_]) || digit(text_[at_]) || text_[at_] == '.')) ++at_;
    return word(text_.substr(begin, at_ - begin));
  }

  Expression word(std::string_view name) {
    if ((name == "min" || name == "max") && accept("(")) return extreme(name == "min");
    if (name == "z") return Expression::flat_index();
    if (!symbolic::reads_as_index(name)) return Expression::dim(name, facts());
    if (name.size() > 7) error("the axis number is too large");
    const int axis = std::stoi(std::string(name.substr(1)));
    if (!accept("[")) return Expression::index(axis, INT64_MAX);
    const Expression extent = disjunction();
    expect("]");
    return Expression::index(axis, extent);
  }

  Expression extreme(bool smallest) {
    Expression e = disjunction();
    expect(",");
    do {
      const Expression next = disjunction();
      e = smallest ? e.min(next) : e.max(next);
    } while (accept(","));
    expect(")");
    return e;
  }

  DimFacts facts() {
    DimFacts f;
    if (!accept("{")) return f;
    if (!accept("/")) {
      f.min = INT64_MIN;
      if (!accept("..")) {
        f.min = signed_number();
        expect("..");
      }
      skip_blanks();
      if (at_ < text_.size() && (digit(text_[at_]) || text_[at_] == '-')) f.max = signed_number();
      if (accept("}")) return f;
      expect(",");
      expect("/");
    }
    f.multiple_of = number();
    expect("}");
    return f;
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Expression Expression::parse(std::string_view text) { return Parser(text).whole(); }

}  // namespace luminal
