#include "cli/formula.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>

#include "base/call_site.h"
#include "base/fail.h"
#include "base/suggest.h"
#include "cli/formula_functions.h"

namespace luminal::cli {
namespace {

constexpr int kMaxDepth = 200;  // of nested parentheses: text from outside must not exhaust the stack

class Parser {
 public:
  Parser(Graph& graph, std::string_view text) : graph_(graph), text_(text) {}

  Formula run() {
    FormulaValue last = Number(0);
    do {
      skip_blanks();
      if (at_ == text_.size()) break;
      last = step();
    } while (take(';'));
    skip_blanks();
    if (at_ != text_.size()) error(fmt::format("unexpected '{}'", text_[at_]));
    if (!std::holds_alternative<GraphTensor>(last)) error("a formula's result must be a tensor");
    formula_.result = std::get<GraphTensor>(last);
    return std::move(formula_);
  }

 private:
  [[noreturn]] void error(const std::string& what, size_t at) const {
    fail("[formula] {} (column {})\n  {}\n  {}^", what, at + 1, text_, std::string(at, ' '));
  }
  [[noreturn]] void error(const std::string& what) const { error(what, at_); }

  /// What an op says, shown at its column: the message names that itself.
  [[noreturn]] void error_of_op(std::string what, size_t place) const {
    if (const size_t made = what.rfind(" (made at column:"); made != std::string::npos)
      what.erase(made, what.find(')', made) - made + 1);
    error(what, place);
  }

  /// What is made now comes from this column of the formula.
  static CallSite site_at(size_t place) { return {"column", static_cast<uint32_t>(place) + 1}; }

  void skip_blanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool take(char c) {
    skip_blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) error(fmt::format("'{}' is missing", c));
  }
  [[nodiscard]] char peek() {
    skip_blanks();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  std::string word() {
    skip_blanks();
    const size_t start = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_'))
      ++at_;
    return std::string(text_.substr(start, at_ - start));
  }

  /// name = formula, or a formula.
  FormulaValue step() {
    const size_t start = at_;
    const std::string name = word();
    if (!name.empty() && !std::isdigit(static_cast<unsigned char>(name[0])) && peek() == '=') {
      take('=');
      return values_.insert_or_assign(name, sum()).first->second;
    }
    at_ = start;
    return sum();
  }

  struct Deeper {
    explicit Deeper(Parser& p) : parser(p) {
      if (++parser.depth_ > kMaxDepth) parser.error(fmt::format("more than {} levels of nesting", kMaxDepth));
    }
    ~Deeper() { --parser.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;
    Parser& parser;
  };

  FormulaValue sum() {
    const Deeper deeper(*this);
    FormulaValue left = product();
    for (char c = peek(); c == '+' || c == '-'; c = peek()) {
      const size_t place = at_++;
      left = apply(c, left, product(), place);
    }
    return left;
  }
  FormulaValue product() {
    FormulaValue left = signed_value();
    for (char c = peek(); c == '*' || c == '/' || c == '%' || c == '@'; c = peek()) {
      const size_t place = at_++;
      left = apply(c, left, signed_value(), place);
    }
    return left;
  }
  FormulaValue signed_value() {
    const Deeper deeper(*this);
    const size_t place = at_;
    if (!take('-')) return with_methods(atom());
    FormulaValue value = signed_value();
    if (auto* number = std::get_if<Number>(&value))  // 0 - x would lose the sign of 0.0
      return number->is_integer() ? arithmetic('-', Number(0), *number, place)
                                  : Number(-number->as<double>());
    return apply('-', Number(0), value, place);
  }

  FormulaValue with_methods(FormulaValue value) {
    while (peek() == '.') {
      const size_t place = at_++;
      const std::string name = word();
      if (name.empty()) error("expected the name of a method");
      value = call(name, {value}, place + 1);
    }
    return value;
  }

  FormulaValue atom() {
    const char c = peek();
    if (c == '(') {
      take('(');
      FormulaValue inner = sum();
      expect(')');
      return inner;
    }
    if (c == '[') return list();
    if (c == '"' || c == '\'') return quoted();
    if (std::isdigit(static_cast<unsigned char>(c)) || c == '.') return number();
    const size_t place = at_;
    const std::string name = word();
    if (name.empty()) error(c == '\0' ? "unexpected end of the formula" : fmt::format("unexpected '{}'", c));
    if (peek() == '(') return call(name, {}, place);
    if (peek() == ':' || peek() == '[') return declare(name, place);
    if (const auto known = values_.find(name); known != values_.end()) return known->second;
    std::vector<std::string> names;
    for (const auto& [known, value] : values_) names.push_back(known);
    error(fmt::format("unknown name '{}'; declare an input where it is first used: {}:f32[2,3]{}", name, name,
                      did_you_mean(name, names)),
          place);
  }

  FormulaValue number() {
    const size_t start = at_;
    double real = 0;
    const auto [end, status] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), real);
    if (status != std::errc()) error("expected a number");
    at_ = static_cast<size_t>(end - text_.data());
    const std::string_view digits = text_.substr(start, at_ - start);
    if (digits.find_first_of(".eEni") != std::string_view::npos) return Number(real);
    int64_t integer = 0;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), integer).ec != std::errc())
      error("the integer does not fit in 64 bits", start);
    return Number(integer);
  }

  FormulaValue quoted() {
    const char quote = text_[at_];
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) error("the closing quote is missing");
    std::string content(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return content;
  }

  std::vector<Expression> list() {
    expect('[');
    std::vector<Expression> items;
    if (take(']')) return items;
    do {
      skip_blanks();
      const size_t start = at_;
      int open = 0;
      while (at_ < text_.size() && (open > 0 || (text_[at_] != ',' && text_[at_] != ']'))) {
        if (text_[at_] == '(' || text_[at_] == '{') ++open;
        if (text_[at_] == ')' || text_[at_] == '}') --open;
        ++at_;
      }
      try {
        items.push_back(Expression::parse(text_.substr(start, at_ - start)));
      } catch (const Error& reason) {
        error(fmt::format("invalid size: {}", reason.what()), start);
      }
    } while (take(','));
    expect(']');
    return items;
  }

  /// name:dtype[dims], name:[dims] or name[dims].
  FormulaValue declare(const std::string& name, size_t place) {
    Dtype dtype = Dtype::F32;
    if (take(':') && peek() != '[') {
      const size_t dtype_place = at_;
      try {
        dtype = parse_dtype(word());
      } catch (const Error& reason) {
        error(reason.what(), dtype_place);
      }
    }
    if (values_.contains(name)) error(fmt::format("'{}' is already declared", name), place);
    const Shape dims = peek() == '[' ? Shape(list()) : Shape{};
    const CallSite site = site_at(place);
    const GraphTensor tensor = graph_.named_tensor(name, dims, dtype);
    formula_.inputs.push_back(tensor);
    formula_.names.push_back(name);
    values_.emplace(name, tensor);
    return tensor;
  }

  FormulaValue call(const std::string& name, std::vector<FormulaValue> arguments, size_t place) {
    const auto table = formula_function_table();
    const auto function = std::ranges::find(table, name, &FormulaFunction::name);
    if (function == table.end()) {
      std::vector<std::string> names;
      for (const FormulaFunction& each : table) names.emplace_back(each.name);
      error(fmt::format("unknown function '{}'{}", name, did_you_mean(name, names)), place);
    }
    FormulaCall call{.function = name, .arguments = std::move(arguments), .options = {}};
    expect('(');
    if (!take(')')) {
      do {
        argument(call, *function);
      } while (take(','));
      expect(')');
    }
    try {
      const CallSite site = site_at(place);
      return function->call(call, graph_);
    } catch (const Error& reason) {
      error_of_op(reason.what(), place);
    }
  }

  void argument(FormulaCall& call, const FormulaFunction& function) {
    skip_blanks();
    const size_t start = at_;
    const std::string name = word();
    if (!name.empty() && peek() == '=') {
      take('=');
      if (function.parameters.find(name + "=") == std::string_view::npos &&
          function.parameters.find(name) == std::string_view::npos)
        error(fmt::format("{}({}) has no option '{}'", function.name, function.parameters, name), start);
      call.options.insert_or_assign(name, sum());
      return;
    }
    at_ = start;
    const auto most = 1 + std::ranges::count(function.parameters, ',');
    if (!function.parameters.ends_with("...") && std::ssize(call.arguments) == most)
      error(fmt::format("{}({}) takes no more than {} argument{}", function.name, function.parameters, most,
                        most == 1 ? "" : "s"),
            start);
    call.arguments.push_back(sum());
  }

  FormulaValue apply(char op, const FormulaValue& a, const FormulaValue& b, size_t place) {
    const auto operand = [&](const FormulaValue& value) -> Operand {
      if (const auto* tensor = std::get_if<GraphTensor>(&value)) return *tensor;
      if (const auto* number = std::get_if<Number>(&value)) return *number;
      error(fmt::format("'{}' takes tensors and numbers", op), place);
    };
    if (std::holds_alternative<Number>(a) && std::holds_alternative<Number>(b))
      return arithmetic(op, std::get<Number>(a), std::get<Number>(b), place);
    try {
      const CallSite site = site_at(place);
      switch (op) {
        case '+':
          return operand(a) + operand(b);
        case '-':
          return operand(a) - operand(b);
        case '*':
          return operand(a) * operand(b);
        case '/':
          return operand(a) / operand(b);
        case '%':
          return operand(a) % operand(b);
        default:
          return matmul(operand(a), operand(b));
      }
    } catch (const Error& reason) {
      error_of_op(reason.what(), place);
    }
  }

  FormulaValue arithmetic(char op, Number a, Number b, size_t place) {
    const double x = a.as<double>(), y = b.as<double>();
    int64_t whole = 0;
    if (a.is_integer() && b.is_integer()) {
      const int64_t i = a.as<int64_t>(), j = b.as<int64_t>();
      if (op == '+' && !__builtin_add_overflow(i, j, &whole)) return Number(whole);
      if (op == '-' && !__builtin_sub_overflow(i, j, &whole)) return Number(whole);
      if (op == '*' && !__builtin_mul_overflow(i, j, &whole)) return Number(whole);
    }
    switch (op) {
      case '+':
        return Number(x + y);
      case '-':
        return Number(x - y);
      case '*':
        return Number(x * y);
      case '/':
        return Number(x / y);
      default:
        error(fmt::format("'{}' takes a tensor", op), place);
    }
  }

  Graph& graph_;
  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
  Formula formula_;
  std::map<std::string, FormulaValue> values_;
};

}  // namespace

Formula parse_formula(Graph& graph, std::string_view text) { return Parser(graph, text).run(); }

std::vector<std::string> formula_functions() {
  std::vector<std::string> lines;
  for (const FormulaFunction& function : formula_function_table())
    lines.push_back(fmt::format("{}({})", function.name, function.parameters));
  return lines;
}

}  // namespace luminal::cli
