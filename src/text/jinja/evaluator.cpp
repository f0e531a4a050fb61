#include "text/jinja/evaluator.h"

#include <algorithm>
#include <array>

#include "base/fail.h"

namespace luminal::text::jinja {
namespace {

using StatementKind = Statement::Kind;
using Shape = Expression::Kind;

enum class Flow { On, Break, Continue };

class Evaluator {
 public:
  Evaluator(const TemplateLimits& limits, const std::optional<std::tm>& now) : budget_(limits), now_(now) {
    scopes_.emplace_back();
    add_functions();
    scopes_.emplace_back();
  }

  std::string operator()(const std::vector<Statement>& program, const Dict& variables) {
    for (const auto& [name, value] : variables.entries()) scopes_.back().set(name, value);
    try {
      (void)run(program);
    } catch (const FormatError& error) {
      throw;
    } catch (const Error& error) {
      throw Error(fmt::format("{} (line {} of the template)", error.what(), line_));
    }
    return std::move(out_);
  }

 private:
  void add_functions() {
    const auto add = [&](const char* name, Callable call) {
      scopes_.front().set(name, Value::function(std::move(call)));
    };
    add("raise_exception", [](const Arguments& given) -> Value {
      const Value* message = given.get(0, "message");
      fail<Error>("[chat template] {}", message ? message->str() : "the template refuses");
    });
    add("range", [this](const Arguments& given) { return range(given); });
    add("namespace", [](const Arguments& given) {
      auto made = std::make_shared<Value::Namespace>();
      if (!given.positional.empty() && given.positional[0].mapping())
        made->values = *given.positional[0].mapping();
      for (const auto& [name, value] : given.keywords) made->values.set(name, value);
      return Value(std::move(made));
    });
    add("dict", [](const Arguments& given) {
      Dict made;
      if (!given.positional.empty() && given.positional[0].mapping()) made = *given.positional[0].mapping();
      for (const auto& [name, value] : given.keywords) made.set(name, value);
      return Value::dict(std::move(made));
    });
    add("strftime_now", [this](const Arguments& given) {
      const Value* format = given.get(0, "format");
      if (!format || !format->text()) fail<Error>("[chat template] strftime_now takes a format");
      std::tm time{};
      const std::time_t clock = std::time(nullptr);
      if (now_)
        time = *now_;
      else
        localtime_r(&clock, &time);
      std::array<char, 256> text{};
      const size_t length = std::strftime(text.data(), text.size(), format->text()->c_str(), &time);
      return Value(std::string(text.data(), length));
    });
  }

  Value range(const Arguments& given) {
    std::array<int64_t, 3> bounds{0, 0, 1};
    for (size_t i = 0; i < given.positional.size() && i < 3; ++i) {
      int64_t room = 0;
      const int64_t* bound = given.positional[i].integer(room);
      if (!bound)
        fail<Error>("[chat template] range takes whole numbers, not {}", given.positional[i].kind());
      bounds[i] = *bound;
    }
    if (given.positional.size() == 1) std::swap(bounds[0], bounds[1]);
    if (bounds[2] == 0) fail<Error>("[chat template] the step of range is 0");
    List numbers;
    for (int64_t i = bounds[0]; bounds[2] > 0 ? i < bounds[1] : i > bounds[1];) {
      budget_.spend(1);
      numbers.emplace_back(i);
      if (__builtin_add_overflow(i, bounds[2], &i)) break;
    }
    return Value::list(std::move(numbers));
  }

  // --- Statements

  Flow run(const std::vector<Statement>& body) {
    for (const Statement& statement : body)
      if (const Flow flow = run(statement); flow != Flow::On) return flow;
    return Flow::On;
  }

  Flow run(const Statement& statement) {
    budget_.spend(1);
    line_ = statement.line;
    switch (statement.kind) {
      case StatementKind::Data:
        print(statement.text);
        return Flow::On;
      case StatementKind::Print:
        print(value_of(*statement.value).str());
        return Flow::On;
      case StatementKind::If:
        return run(value_of(*statement.condition).truthy() ? statement.body : statement.otherwise);
      case StatementKind::For:
        loop(statement);
        return Flow::On;
      case StatementKind::Set:
        set(statement, value_of(*statement.value));
        return Flow::On;
      case StatementKind::SetBlock:
        set(statement, Value(captured([&] { (void)run(statement.body); })));
        return Flow::On;
      case StatementKind::Macro:
        scopes_.back().set(statement.text, Value::function([this, &statement](const Arguments& given) {
                             return call(statement, given);
                           }));
        return Flow::On;
      case StatementKind::Body:
        return run(statement.body);
      case StatementKind::Break:
        return Flow::Break;
      case StatementKind::Continue:
        return Flow::Continue;
    }
    return Flow::On;
  }

  void print(const std::string& text) {
    budget_.make_text(out_.size() + text.size());
    budget_.spend(text.size() / 16);
    out_ += text;
  }

  template <class Body>
  std::string captured(const Body& body) {
    std::string before = std::exchange(out_, {});
    body();
    return std::exchange(out_, std::move(before));
  }

  void set(const Statement& statement, const Value& value) {
    if (!statement.text.empty()) {
      const Value* space = find(statement.text);
      if (!space || !space->name_space())
        fail<Error>("[chat template] '{}' is no namespace; only their attributes can be set", statement.text);
      space->name_space()->values.set(statement.targets[0], value);
    } else {
      bind(statement, value);
    }
  }

  void bind(const Statement& statement, const Value& value) {
    if (!statement.unpack) return scopes_.back().set(statement.targets[0], value);
    const List items = items_of(value);
    if (items.size() != statement.targets.size())
      fail<Error>("[chat template] {} values for {} names", items.size(), statement.targets.size());
    for (size_t i = 0; i < items.size(); ++i) scopes_.back().set(statement.targets[i], items[i]);
  }

  void loop(const Statement& statement) {
    List items = items_of(value_of(*statement.value));
    if (statement.condition)
      std::erase_if(items, [&](const Value& value) {
        scopes_.emplace_back();
        bind(statement, value);
        const bool keep = value_of(*statement.condition).truthy();
        scopes_.pop_back();
        return !keep;
      });
    for (size_t i = 0; i < items.size(); ++i) {
      budget_.spend(1);
      scopes_.emplace_back();
      bind(statement, items[i]);
      scopes_.back().set("loop", loop_variable(items, i));
      const Flow flow = run(statement.body);
      scopes_.pop_back();
      if (flow == Flow::Break) break;
    }
    if (items.empty()) {
      scopes_.emplace_back();
      (void)run(statement.otherwise);
      scopes_.pop_back();
    }
  }

  static Value loop_variable(const List& items, size_t i) {
    const auto index = static_cast<int64_t>(i), count = static_cast<int64_t>(items.size());
    Dict loop;
    loop.set("index0", index), loop.set("index", index + 1);
    loop.set("revindex0", count - index - 1), loop.set("revindex", count - index);
    loop.set("first", index == 0), loop.set("last", index + 1 == count), loop.set("length", count);
    loop.set("previtem", i > 0 ? items[i - 1] : Value::undefined("previtem"));
    loop.set("nextitem", i + 1 < items.size() ? items[i + 1] : Value::undefined("nextitem"));
    loop.set("cycle", Value::function([index](const Arguments& given) {
               if (given.positional.empty()) fail<Error>("[chat template] loop.cycle takes values");
               return given.positional[static_cast<size_t>(index) % given.positional.size()];
             }));
    return Value::dict(std::move(loop));
  }

  /// A macro sees what is defined outside of all loops, and its arguments.
  Value call(const Statement& macro, const Arguments& given) {
    constexpr int kDeepestCall = 60;
    if (depth_ >= kDeepestCall)
      fail<Error>("[chat template] macros call each other deeper than {} levels", kDeepestCall);
    if (given.positional.size() > macro.targets.size())
      fail<Error>("[chat template] macro '{}' takes {} arguments, not {}", macro.text, macro.targets.size(),
                  given.positional.size());
    ++depth_;
    std::vector<Dict> outer(std::make_move_iterator(scopes_.begin() + 2),
                            std::make_move_iterator(scopes_.end()));
    scopes_.resize(2);
    scopes_.emplace_back();
    for (size_t i = 0; i < macro.targets.size(); ++i) {
      const Value* value = given.get(i, macro.targets[i].c_str());
      scopes_.back().set(macro.targets[i], value               ? *value
                                           : macro.defaults[i] ? value_of(*macro.defaults[i])
                                                               : Value::undefined(macro.targets[i]));
    }
    std::string text = captured([&] { (void)run(macro.body); });
    scopes_.resize(2);
    std::ranges::move(outer, std::back_inserter(scopes_));
    --depth_;
    return Value(std::move(text));
  }

  // --- Expressions

  [[nodiscard]] const Value* find(const std::string& name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (const Value* found = scope->find(name)) return found;
    return nullptr;
  }

  Value value_of(const Expression& expression) {
    budget_.spend(1);
    line_ = expression.line;
    switch (expression.kind) {
      case Shape::Literal:
        return expression.value;
      case Shape::Name: {
        const Value* found = find(expression.name);
        return found ? *found : Value::undefined(expression.name);
      }
      case Shape::ListDisplay:
      case Shape::TupleDisplay: {
        List list;
        for (const ExpressionPtr& part : expression.parts) list.push_back(value_of(*part));
        return Value::list(std::move(list), expression.kind == Shape::TupleDisplay);
      }
      case Shape::DictDisplay: {
        Dict dict;
        for (size_t i = 0; i + 1 < expression.parts.size(); i += 2) {
          const Value key = value_of(*expression.parts[i]);
          dict.set(key.str(), value_of(*expression.parts[i + 1]));
        }
        return Value::dict(std::move(dict));
      }
      case Shape::Attribute:
        return attribute(value_of(*expression.parts[0]), expression.name, budget_);
      case Shape::Item: {
        const Value container = value_of(*expression.parts[0]);
        return item(container, value_of(*expression.parts[1]), budget_);
      }
      case Shape::Slice: {
        std::array<Value, 3> bounds{Value(None{}), Value(None{}), Value(None{})};
        const Value sliced = value_of(*expression.parts[0]);
        for (size_t i = 0; i < 3; ++i)
          if (expression.parts[i + 1]) bounds[i] = value_of(*expression.parts[i + 1]);
        return slice(sliced, bounds[0], bounds[1], bounds[2]);
      }
      case Shape::Call: {
        const Value function = value_of(*expression.parts[0]);
        const Arguments given = arguments(expression);
        if (!function.callable()) fail<Error>("[chat template] {} cannot be called", function.kind());
        return (*function.callable())(given);
      }
      case Shape::Filter: {
        const Value value = value_of(*expression.parts[0]);
        return filter(expression.name, value, arguments(expression), budget_);
      }
      case Shape::Test: {
        const Value value = value_of(*expression.parts[0]);
        return test(expression.name, value, arguments(expression));
      }
      case Shape::Not:
        return !value_of(*expression.parts[0]).truthy();
      case Shape::Negative:
        return binary("-", int64_t{0}, value_of(*expression.parts[0]), budget_);
      case Shape::Positive:
        return value_of(*expression.parts[0]);
      case Shape::Binary: {
        const Value left = value_of(*expression.parts[0]);
        return binary(expression.name, left, value_of(*expression.parts[1]), budget_);
      }
      case Shape::Compare:
        return comparison(expression);
      case Shape::And:
      case Shape::Or: {
        Value left = value_of(*expression.parts[0]);
        return left.truthy() == (expression.kind == Shape::Or) ? left : value_of(*expression.parts[1]);
      }
      case Shape::Choice:
        if (value_of(*expression.parts[0]).truthy()) return value_of(*expression.parts[1]);
        return expression.parts[2] ? value_of(*expression.parts[2]) : Value::undefined("the other choice");
    }
    return {};
  }

  Arguments arguments(const Expression& expression) {
    Arguments given;
    for (size_t i = 1; i < expression.parts.size(); ++i)
      given.positional.push_back(value_of(*expression.parts[i]));
    for (const auto& [name, value] : expression.keywords) given.keywords.emplace_back(name, value_of(*value));
    return given;
  }

  bool comparison(const Expression& expression) {
    Value left = value_of(*expression.parts[0]);
    for (size_t i = 0; i < expression.operators.size(); ++i) {
      const std::string& op = expression.operators[i];
      Value right = value_of(*expression.parts[i + 1]);
      bool holds = false;
      if (op == "==" || op == "!=")
        holds = equal(left, right) == (op == "==");
      else if (op == "in" || op == "not in")
        holds = contains(right, left) == (op == "in");
      else
        holds = op == "<"    ? compare(left, right) < 0
                : op == "<=" ? compare(left, right) <= 0
                : op == ">"  ? compare(left, right) > 0
                             : compare(left, right) >= 0;
      if (!holds) return false;
      left = std::move(right);
    }
    return true;
  }

  Budget budget_;
  std::optional<std::tm> now_;
  std::vector<Dict> scopes_;  ///< functions, the template's variables, then one for each loop or macro
  std::string out_;
  int line_ = 1;
  int depth_ = 0;
};

}  // namespace

void Budget::spend(size_t steps) {
  steps_ += steps;
  if (steps_ > limits_.steps)
    fail<Error>("[chat template] it takes more than {} steps; TemplateLimits::steps allows more",
                limits_.steps);
}

void Budget::make_text(size_t bytes) {
  spend(1);
  if (bytes > limits_.output_bytes)
    fail<Error>(
        "[chat template] it makes a text of more than {} bytes; TemplateLimits::output_bytes allows more",
        limits_.output_bytes);
}

std::string evaluate(const std::vector<Statement>& program, const Dict& variables,
                     const TemplateLimits& limits, const std::optional<std::tm>& now) {
  return Evaluator(limits, now)(program, variables);
}

}  // namespace luminal::text::jinja
