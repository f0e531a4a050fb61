// Recursive descent in the order of jinja2's own parser.
#include <charconv>
#include <set>

#include "base/fail.h"
#include "text/jinja/syntax.h"

namespace luminal::text::jinja {
namespace {

using TokenKind = Token::Kind;
using Form = Expression::Kind;

constexpr int kDeepestTree = 150;

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  std::vector<Statement> statements(const std::set<std::string>& ends) {
    const Level level(*this);
    std::vector<Statement> list;
    while (now().kind != TokenKind::End) {
      const int line = now().line;
      if (now().kind == TokenKind::Data) {
        list.push_back({.kind = Statement::Kind::Data, .line = line, .text = take().text});
      } else if (now().kind == TokenKind::PrintBegin) {
        take();
        list.push_back({.kind = Statement::Kind::Print, .line = line, .value = tuple()});
        need(TokenKind::PrintEnd, "}}");
      } else {
        take();
        if (ends.contains(now().text)) return list;
        block(list, line);
      }
    }
    if (!ends.empty()) refuse(fmt::format("{} is missing at the end", *ends.rbegin()));
    return list;
  }

 private:
  struct Level {
    explicit Level(Parser& parser) : depth(parser.depth_) {
      if (++depth > kDeepestTree) parser.refuse(fmt::format("nested deeper than {} levels", kDeepestTree));
    }
    ~Level() { --depth; }
    int& depth;
  };

  [[nodiscard]] const Token& now() const { return tokens_[at_]; }
  Token take() { return at_ + 1 < tokens_.size() ? tokens_[at_++] : tokens_[at_]; }
  [[noreturn]] void refuse(const std::string& what) const {
    fail<FormatError>("[chat template] line {}: {}", now().line, what);
  }
  [[nodiscard]] bool is_sign(std::string_view text) const {
    return now().kind == TokenKind::Sign && now().text == text;
  }
  [[nodiscard]] bool is_name(std::string_view text) const {
    return now().kind == TokenKind::Name && now().text == text;
  }
  bool accept_sign(std::string_view text) { return is_sign(text) && (take(), true); }
  bool accept_name(std::string_view text) { return is_name(text) && (take(), true); }
  void need_sign(std::string_view text) {
    if (!accept_sign(text)) refuse(fmt::format("'{}' was expected, there is '{}'", text, now().text));
  }
  void need(TokenKind kind, std::string_view text) {
    if (now().kind != kind) refuse(fmt::format("'{}' was expected, there is '{}'", text, now().text));
    take();
  }
  std::string name() {
    if (now().kind != TokenKind::Name) refuse(fmt::format("a name was expected, there is '{}'", now().text));
    return take().text;
  }
  void block_end() { need(TokenKind::BlockEnd, "%}"); }

  void block(std::vector<Statement>& list, int line) {
    const std::string what = name();
    Statement made{.line = line};
    if (what == "if")
      condition(made);
    else if (what == "for")
      loop(made);
    else if (what == "set")
      assignment(made);
    else if (what == "macro")
      macro(made);
    else if (what == "break" || what == "continue")
      made.kind = what == "break" ? Statement::Kind::Break : Statement::Kind::Continue;
    else if (what == "generation")
      made.kind = Statement::Kind::Body, block_end(), made.body = statements({"endgeneration"}), take();
    else
      refuse(fmt::format("the block '{}' is not known", what));
    block_end();
    list.push_back(std::move(made));
  }

  void condition(Statement& made) {
    made.kind = Statement::Kind::If;
    made.condition = tuple();
    block_end();
    made.body = statements({"elif", "else", "endif"});
    const int line = now().line;
    const std::string next = take().text;
    if (next == "elif") {
      const Level level(*this);
      Statement nested{.line = line};
      condition(nested);
      made.otherwise.push_back(std::move(nested));
    } else if (next == "else") {
      block_end();
      made.otherwise = statements({"endif"});
      take();
    }
  }

  void targets(Statement& made) {
    const bool open = accept_sign("(");
    made.targets.push_back(name());
    while (accept_sign(",")) {
      made.unpack = true;
      if (now().kind == TokenKind::Name && !is_name("in")) made.targets.push_back(name());
    }
    if (open) need_sign(")");
  }

  void loop(Statement& made) {
    made.kind = Statement::Kind::For;
    targets(made);
    if (!accept_name("in")) refuse("'in' was expected");
    made.value = disjunction();
    if (is_sign(",")) refuse("a loop over values without brackets is not supported");
    if (accept_name("if")) made.condition = expression();
    if (is_name("recursive")) refuse("recursive loops are not supported");
    block_end();
    made.body = statements({"else", "endfor"});
    if (take().text == "else") {
      block_end();
      made.otherwise = statements({"endfor"});
      take();
    }
  }

  void assignment(Statement& made) {
    made.kind = Statement::Kind::Set;
    targets(made);
    if (accept_sign(".")) made.text = made.targets[0], made.targets[0] = name();
    if (accept_sign("=")) {
      made.value = tuple();
      return;
    }
    if (made.unpack || !made.text.empty()) refuse("'=' was expected");
    made.kind = Statement::Kind::SetBlock;
    block_end();
    made.body = statements({"endset"});
    take();
  }

  void macro(Statement& made) {
    made.kind = Statement::Kind::Macro;
    made.text = name();
    need_sign("(");
    while (!is_sign(")")) {
      made.targets.push_back(name());
      made.defaults.push_back(accept_sign("=") ? expression() : nullptr);
      if (!accept_sign(",")) break;
    }
    need_sign(")");
    block_end();
    made.body = statements({"endmacro"});
    take();
    if (now().kind == TokenKind::Name) take();
  }

  // --- Expressions

  ExpressionPtr make(Form kind, std::string text = {}) const {
    auto made = std::make_unique<Expression>();
    made->kind = kind;
    made->line = now().line;
    made->name = std::move(text);
    return made;
  }
  ExpressionPtr make(Form kind, std::string text, ExpressionPtr first, ExpressionPtr second = {}) const {
    ExpressionPtr made = make(kind, std::move(text));
    made->parts.push_back(std::move(first));
    if (second) made->parts.push_back(std::move(second));
    return made;
  }

  ExpressionPtr tuple() {
    ExpressionPtr first = expression();
    if (!is_sign(",")) return first;
    ExpressionPtr made = make(Form::TupleDisplay);
    made->parts.push_back(std::move(first));
    while (accept_sign(",")) {
      if (now().kind == TokenKind::PrintEnd || now().kind == TokenKind::BlockEnd || is_sign(")")) break;
      made->parts.push_back(expression());
    }
    return made;
  }

  ExpressionPtr expression() {
    const Level level(*this);
    ExpressionPtr value = disjunction();
    while (accept_name("if")) {
      ExpressionPtr made = make(Form::Choice, "", disjunction(), std::move(value));
      made->parts.push_back(accept_name("else") ? expression() : nullptr);
      value = std::move(made);
    }
    return value;
  }

  ExpressionPtr disjunction() {
    ExpressionPtr left = conjunction();
    for (int count = 0; accept_name("or");)
      left = chain(Form::Or, "or", std::move(left), conjunction(), count);
    return left;
  }
  ExpressionPtr conjunction() {
    ExpressionPtr left = negation();
    for (int count = 0; accept_name("and");)
      left = chain(Form::And, "and", std::move(left), negation(), count);
    return left;
  }
  /// Chains of operators make deep trees as well.
  ExpressionPtr chain(Form kind, std::string name, ExpressionPtr left, ExpressionPtr right,
                      int& count) const {
    constexpr int kLongestChain = 500;
    if (++count > kLongestChain) refuse(fmt::format("more than {} operators in a row", kLongestChain));
    return make(kind, std::move(name), std::move(left), std::move(right));
  }
  ExpressionPtr negation() {
    const Level level(*this);
    if (accept_name("not")) return make(Form::Not, "", negation());
    return comparison();
  }

  ExpressionPtr comparison() {
    ExpressionPtr first = sum();
    ExpressionPtr made;
    while (true) {
      std::string op;
      for (const std::string_view sign : {"==", "!=", "<", "<=", ">", ">="})
        if (is_sign(sign)) op = sign;
      if (!op.empty())
        take();
      else if (accept_name("in"))
        op = "in";
      else if (is_name("not") && tokens_[at_ + 1].text == "in")
        take(), take(), op = "not in";
      else
        break;
      if (!made) made = make(Form::Compare, "", std::move(first));
      made->operators.push_back(op);
      made->parts.push_back(sum());
    }
    return made ? std::move(made) : std::move(first);
  }

  ExpressionPtr sum() {
    ExpressionPtr left = concatenation();
    for (int count = 0; is_sign("+") || is_sign("-");) {
      const std::string op = take().text;
      left = chain(Form::Binary, op, std::move(left), concatenation(), count);
    }
    return left;
  }
  ExpressionPtr concatenation() {
    ExpressionPtr left = product();
    for (int count = 0; accept_sign("~");) left = chain(Form::Binary, "~", std::move(left), product(), count);
    return left;
  }
  ExpressionPtr product() {
    ExpressionPtr left = power();
    for (int count = 0; is_sign("*") || is_sign("/") || is_sign("//") || is_sign("%");) {
      const std::string op = take().text;
      left = chain(Form::Binary, op, std::move(left), power(), count);
    }
    return left;
  }
  ExpressionPtr power() {
    ExpressionPtr left = unary(true);
    for (int count = 0; accept_sign("**");)
      left = chain(Form::Binary, "**", std::move(left), unary(true), count);
    return left;
  }

  ExpressionPtr unary(bool with_filter) {
    const Level level(*this);
    ExpressionPtr value;
    if (accept_sign("-"))
      value = make(Form::Negative, "", unary(false));
    else if (accept_sign("+"))
      value = make(Form::Positive, "", unary(false));
    else
      value = primary();
    value = postfix(std::move(value));
    return with_filter ? filters(std::move(value)) : std::move(value);
  }

  ExpressionPtr literal(Value value) const {
    ExpressionPtr made = make(Form::Literal);
    made->value = std::move(value);
    return made;
  }

  ExpressionPtr primary() {
    const Token token = now();
    if (token.kind == TokenKind::Name) {
      take();
      if (token.text == "true" || token.text == "True") return literal(true);
      if (token.text == "false" || token.text == "False") return literal(false);
      if (token.text == "none" || token.text == "None") return literal(None{});
      return make(Form::Name, token.text);
    }
    if (token.kind == TokenKind::Text) {
      std::string text;
      while (now().kind == TokenKind::Text) text += take().text;
      return literal(std::move(text));
    }
    if (token.kind == TokenKind::Integer || token.kind == TokenKind::Real) return number(take());
    if (accept_sign("(")) {
      if (accept_sign(")")) return make(Form::TupleDisplay);
      ExpressionPtr inner = tuple();
      need_sign(")");
      return inner;
    }
    if (accept_sign("[")) {
      ExpressionPtr made = make(Form::ListDisplay);
      while (!is_sign("]")) {
        made->parts.push_back(expression());
        if (!accept_sign(",")) break;
      }
      need_sign("]");
      return made;
    }
    if (accept_sign("{")) {
      ExpressionPtr made = make(Form::DictDisplay);
      while (!is_sign("}")) {
        made->parts.push_back(expression());
        need_sign(":");
        made->parts.push_back(expression());
        if (!accept_sign(",")) break;
      }
      need_sign("}");
      return made;
    }
    refuse(fmt::format("a value was expected, there is '{}'", token.text));
  }

  ExpressionPtr number(const Token& token) const {
    const char *begin = token.text.data(), *end = begin + token.text.size();
    int64_t whole = 0;
    double real = 0;
    const bool is_whole = token.kind == TokenKind::Integer;
    const auto result = is_whole ? std::from_chars(begin, end, whole) : std::from_chars(begin, end, real);
    if (result.ec != std::errc() || result.ptr != end)
      refuse(fmt::format("the number {} is out of range", token.text));
    return is_whole ? literal(whole) : literal(real);
  }

  ExpressionPtr postfix(ExpressionPtr value) {
    for (int count = 0;;) {
      if (accept_sign(".")) {
        if (now().kind == TokenKind::Integer) {
          value = chain(Form::Item, "", std::move(value), number(take()), count);
        } else {
          const std::string attribute = name();
          value = chain(Form::Attribute, attribute, std::move(value), nullptr, count);
        }
      } else if (accept_sign("[")) {
        value = subscript(std::move(value), count);
      } else if (is_sign("(")) {
        value = chain(Form::Call, "", std::move(value), nullptr, count);
        arguments(*value);
      } else {
        return value;
      }
    }
  }

  ExpressionPtr subscript(ExpressionPtr value, int& count) {
    ExpressionPtr first = is_sign(":") ? nullptr : tuple();
    if (!is_sign(":")) {
      need_sign("]");
      return chain(Form::Item, "", std::move(value), std::move(first), count);
    }
    ExpressionPtr made = chain(Form::Slice, "", std::move(value), nullptr, count);
    made->parts.push_back(std::move(first));
    for (int i = 0; i < 2; ++i) {
      const bool given = accept_sign(":") && !is_sign(":") && !is_sign("]");
      made->parts.push_back(given ? expression() : nullptr);
    }
    need_sign("]");
    return made;
  }

  void arguments(Expression& call) {
    need_sign("(");
    while (!is_sign(")")) {
      if (now().kind == TokenKind::Name && tokens_[at_ + 1].kind == TokenKind::Sign &&
          tokens_[at_ + 1].text == "=") {
        std::string keyword = take().text;
        take();
        call.keywords.emplace_back(std::move(keyword), expression());
      } else {
        if (is_sign("*") || is_sign("**")) refuse("unpacked arguments are not supported");
        call.parts.push_back(expression());
      }
      if (!accept_sign(",")) break;
    }
    need_sign(")");
  }

  ExpressionPtr filters(ExpressionPtr value) {
    for (int count = 0;;) {
      if (accept_sign("|")) {
        const std::string filter = name();
        value = chain(Form::Filter, filter, std::move(value), nullptr, count);
        if (is_sign("(")) arguments(*value);
      } else if (accept_name("is")) {
        const bool negated = accept_name("not");
        const std::string test = name();
        value = chain(Form::Test, test, std::move(value), nullptr, count);
        if (is_sign("("))
          arguments(*value);
        else if (begins_argument())
          value->parts.push_back(postfix(primary()));
        if (negated) value = make(Form::Not, "", std::move(value));
      } else {
        return value;
      }
    }
  }

  [[nodiscard]] bool begins_argument() const {
    if (now().kind == TokenKind::Name)
      return !is_name("else") && !is_name("or") && !is_name("and") && !is_name("is") && !is_name("if") &&
             !is_name("in") && !is_name("not");
    return now().kind == TokenKind::Text || now().kind == TokenKind::Integer ||
           now().kind == TokenKind::Real || is_sign("[") || is_sign("{");
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::vector<Statement> parse(std::vector<Token> tokens) { return Parser(std::move(tokens)).statements({}); }

}  // namespace luminal::text::jinja
