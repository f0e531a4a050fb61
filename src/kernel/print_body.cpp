#include "kernel/print_body.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <optional>

#include "kernel/calls.h"
#include "scalar/element.h"

namespace luminal::kernel {
namespace {

enum Level { kCompare, kAddition, kMultiply, kUnary, kAtom };

struct Text {
  std::string text;
  Level level = kAtom;
  [[nodiscard]] std::string at(Level least) const { return level < least ? "(" + text + ")" : text; }
};

class BodyPrinter {
 public:
  BodyPrinter(const ScalarFunction& body, const std::function<std::string(int)>& operand,
              const std::function<std::string()>& fresh)
      : body_(body),
        operand_(operand),
        fresh_(fresh),
        calls_(body.nodes().size()),
        uses_(body.nodes().size(), 0) {}

  BodyText run() {
    const Scalar root = body_.outputs()[0];
    find(root);
    BodyText result;
    shared_ = &result.shared;
    result.result = print(root).text;
    return result;
  }

 private:
  struct Call {
    bool seen = false;
    std::string_view name;  ///< of a function, or empty
    std::vector<Scalar> arguments;
    size_t size = 1;  ///< as a tree
  };

  /// What each node that shows prints as, and how often it does.
  void find(Scalar s) {
    ++uses_[s.index];
    Call& call = calls_[s.index];
    if (call.seen) return;
    call.seen = true;
    const ScalarNode& n = body_[s];
    if (auto function = call_at(body_, s)) {
      call.name = function->name;
      call.arguments = std::move(function->arguments);
    }
    if (call.name.empty()) call.arguments.assign(n.operands.begin(), n.operands.begin() + arity(n.op));
    for (const Scalar a : std::vector(call.arguments)) {
      find(a);
      calls_[s.index].size += calls_[a.index].size;
    }
  }

  Text print(Scalar s) {
    constexpr size_t kLong = 10;
    const bool shared = uses_[s.index] > 1 && calls_[s.index].size > kLong;
    if (!shared) return spell(s);
    if (const auto known = names_.find(s.index); known != names_.end()) return {known->second};
    const std::string text = spell(s).text, name = fresh_();
    shared_->emplace_back(name, text);
    names_.emplace(s.index, name);
    return {name};
  }

  Text spell(Scalar s) {
    const Call& call = calls_[s.index];
    const ScalarNode& n = body_[s];
    if (!call.name.empty()) return function(std::string(call.name), call.arguments);
    const auto argument = [&](size_t k, Level least) { return print(call.arguments[k]).at(least); };
    const auto binary = [&](std::string_view sign, Level level) -> Text {
      std::string left = argument(0, level);
      return {fmt::format("{} {} {}", left, sign, argument(1, static_cast<Level>(level + 1))), level};
    };
    switch (n.op) {
      case ScalarOp::Input:
        return {operand_(static_cast<int>(n.payload))};
      case ScalarOp::Constant:
        return {element_text(n.dtype, n.payload)};
      case ScalarOp::Add:
        return binary("+", kAddition);
      case ScalarOp::Sub:
        return binary("-", kAddition);
      case ScalarOp::Mul:
        return binary("*", kMultiply);
      case ScalarOp::Div: {
        const ScalarNode& above = body_[call.arguments[0]];
        if (above.op == ScalarOp::Constant && element_text(above.dtype, above.payload) == "1")
          return function("recip", std::span(call.arguments).subspan(1));
        return binary("/", kMultiply);
      }
      case ScalarOp::Neg:
        return {"-" + argument(0, kUnary), kUnary};
      case ScalarOp::Lt:
        return binary("<", kCompare);
      case ScalarOp::Le:
        return binary("<=", kCompare);
      case ScalarOp::Eq:
        return binary("==", kCompare);
      case ScalarOp::Ne:
        return binary("!=", kCompare);
      case ScalarOp::Maximum:
        return function("max", call.arguments);
      case ScalarOp::Minimum:
        return function("min", call.arguments);
      case ScalarOp::Select:
        return function("where", call.arguments);
      case ScalarOp::Convert:
        return function(std::string(name(n.dtype)), call.arguments);
      case ScalarOp::Bitcast:
        return function(fmt::format("bits_as_{}", name(n.dtype)), call.arguments);
      default:
        return function(std::string(name(n.op)), call.arguments);
    }
  }

  Text function(const std::string& name, std::span<const Scalar> arguments) {
    std::string text = name + "(";
    for (size_t k = 0; k < arguments.size(); ++k) text += (k > 0 ? ", " : "") + print(arguments[k]).text;
    return {text + ")"};
  }

  const ScalarFunction& body_;
  const std::function<std::string(int)>& operand_;
  const std::function<std::string()>& fresh_;
  std::vector<Call> calls_;
  std::vector<int> uses_;
  std::map<uint32_t, std::string> names_;
  std::vector<std::pair<std::string, std::string>>* shared_ = nullptr;
};

}  // namespace

BodyText body_text(const ScalarFunction& body, const std::function<std::string(int)>& operand,
                   const std::function<std::string()>& fresh) {
  return BodyPrinter(body, operand, fresh).run();
}

}  // namespace luminal::kernel
