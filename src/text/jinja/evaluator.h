#pragma once
#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "luminal/text/chat_template.h"
#include "text/jinja/syntax.h"

namespace luminal::text::jinja {

/// Counts what a rendering costs. Errors: Error past the limits.
class Budget {
 public:
  explicit Budget(const TemplateLimits& limits) : limits_(limits) {}
  void spend(size_t steps);
  void make_text(size_t bytes);

 private:
  TemplateLimits limits_;
  size_t steps_ = 0;
};

[[nodiscard]] std::string evaluate(const std::vector<Statement>& program, const Dict& variables,
                                   const TemplateLimits& limits, const std::optional<std::tm>& now);

// --- library.cpp: filters, tests, methods and operators

[[nodiscard]] Value binary(const std::string& op, const Value& a, const Value& b, Budget& budget);
[[nodiscard]] bool contains(const Value& container, const Value& item);
/// What a loop walks: items, keys, characters. Errors: Error for values without any.
[[nodiscard]] List items_of(const Value& value);
[[nodiscard]] Value slice(const Value& value, const Value& from, const Value& to, const Value& step);
/// `value.name`: a method first, then a key.
[[nodiscard]] Value attribute(const Value& value, const std::string& name, Budget& budget);
/// `value[key]`: a key or index first, then a method.
[[nodiscard]] Value item(const Value& value, const Value& key, Budget& budget);
[[nodiscard]] Value filter(const std::string& name, const Value& value, const Arguments& arguments,
                           Budget& budget);
[[nodiscard]] bool test(const std::string& name, const Value& value, const Arguments& arguments);

}  // namespace luminal::text::jinja
