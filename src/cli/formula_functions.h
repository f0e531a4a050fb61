#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "luminal/graph.h"

namespace luminal::cli {

/// What stands between the parentheses of a call.
using FormulaValue = std::variant<GraphTensor, Number, Expression, std::string, std::vector<Expression>>;

/// A call with its arguments; the accessors check them.
/// Errors: Error that names the function and the argument.
struct FormulaCall {
  std::string function;
  std::vector<FormulaValue> arguments;
  std::map<std::string, FormulaValue> options;

  [[nodiscard]] GraphTensor tensor(size_t at) const;
  /// A tensor or a number.
  [[nodiscard]] GraphTensor operand(size_t at, Graph& graph) const;
  /// The argument at `at`, or the option, or the default.
  [[nodiscard]] double real(size_t at, const std::string& name, std::optional<double> fallback = {}) const;
  [[nodiscard]] int64_t integer(size_t at, const std::string& name,
                                std::optional<int64_t> fallback = {}) const;
  /// The number of an axis. Errors: Error unless it fits an int.
  [[nodiscard]] int axis(size_t at, const std::string& name, std::optional<int64_t> fallback = {}) const;
  [[nodiscard]] bool flag(size_t at, const std::string& name, bool fallback) const;
  /// A number or a list; a number stands for a list of one.
  [[nodiscard]] std::vector<int> axes(size_t at, const std::string& name) const;
  [[nodiscard]] Axes axes_or_all(size_t at, const std::string& name) const;
  [[nodiscard]] Axes axes_or(size_t at, const std::string& name, int fallback) const;
  [[nodiscard]] Shape shape(size_t at, const std::string& name) const;
  [[nodiscard]] std::string text(size_t at, const std::string& name,
                                 std::optional<std::string> fallback = {}) const;
  /// `N` numbers; one stands for all.
  template <size_t N>
  [[nodiscard]] std::array<int64_t, N> extents(size_t at, const std::string& name, int64_t fallback) const {
    std::array<int64_t, N> result{};
    result.fill(fallback);
    const std::vector<int64_t> given = integers(at, name);
    if (given.size() == 1) result.fill(given[0]);
    if (given.size() > 1) check_count(name, given.size(), N);
    if (given.size() == N) std::copy(given.begin(), given.end(), result.begin());
    return result;
  }

 private:
  [[nodiscard]] const FormulaValue* find(size_t at, const std::string& name) const;
  [[nodiscard]] std::vector<int64_t> integers(size_t at, const std::string& name) const;
  void check_count(const std::string& name, size_t given, size_t wanted) const;
};

struct FormulaFunction {
  std::string_view name;
  std::string_view
      parameters;  ///< "x, axis=-1": for help, and what options and how many arguments there may be
  GraphTensor (*call)(const FormulaCall& call, Graph& graph);
};

/// Sorted by name.
[[nodiscard]] std::span<const FormulaFunction> formula_function_table();

}  // namespace luminal::cli
