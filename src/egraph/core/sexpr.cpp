#include "egraph/core/sexpr.h"

#include "base/fail.h"

namespace luminal::egraph {

namespace {

constexpr int kMaxDepth = 2000;

class Reader {
 public:
  explicit Reader(std::string_view source) : source_(source) {}

  Sexpr read_all() {
    Sexpr result = read(0);
    skip_space();
    if (at_ != source_.size()) error("unexpected text after the expression");
    return result;
  }

 private:
  static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

  void skip_space() {
    while (at_ < source_.size() && (is_space(source_[at_]) || source_[at_] == ';')) {
      if (source_[at_] == ';')
        while (at_ < source_.size() && source_[at_] != '\n') at_++;
      else
        at_++;
    }
  }

  Sexpr read(int depth) {
    skip_space();
    if (at_ == source_.size()) error("expected an expression");
    if (depth > kMaxDepth) error("nested too deeply");
    Sexpr out;
    out.position = at_;
    if (source_[at_] == ')') error("unexpected ')'");
    if (source_[at_] == '"') return read_string(out);
    if (source_[at_] != '(') {
      const size_t begin = at_;
      while (at_ < source_.size() && !is_space(source_[at_]) && source_[at_] != '(' && source_[at_] != ')' &&
             source_[at_] != ';' && source_[at_] != '"')
        at_++;
      out.kind = Sexpr::Kind::Symbol;
      out.text = source_.substr(begin, at_ - begin);
      return out;
    }
    at_++;
    for (skip_space(); at_ < source_.size() && source_[at_] != ')'; skip_space())
      out.items.push_back(read(depth + 1));
    if (at_ == source_.size()) error("expected ')'");
    at_++;
    return out;
  }

  Sexpr read_string(Sexpr out) {
    out.kind = Sexpr::Kind::String;
    for (at_++; at_ < source_.size() && source_[at_] != '"'; at_++) {
      char c = source_[at_];
      if (c == '\\' && at_ + 1 < source_.size()) {
        c = source_[++at_];
        if (c == 'n') c = '\n';
        if (c == 't') c = '\t';
      }
      out.text += c;
    }
    if (at_ == source_.size()) error("a string is not closed");
    at_++;
    return out;
  }

  [[noreturn]] void error(std::string_view what) const {
    fail<FormatError>("[egraph] {} at position {} of: {}", what, at_, source_);
  }

  std::string_view source_;
  size_t at_ = 0;
};

}  // namespace

Sexpr parse_sexpr(std::string_view source) { return Reader(source).read_all(); }

}  // namespace luminal::egraph
