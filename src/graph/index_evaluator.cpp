#include "graph/index_evaluator.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "base/fail.h"
#include "base/vector_clones.h"
#include "symbolic/interval.h"
#include "symbolic/node.h"

namespace luminal {
namespace {

using symbolic::Kind;

LUMINAL_VECTOR_CLONES void add_scaled(std::span<int64_t> sums, std::span<const int64_t> values,
                                      int64_t coefficient) {
  for (size_t i = 0; i < sums.size(); ++i) sums[i] += coefficient * values[i];
}

/// Each of `values` becomes what the operation makes of it and of the other operand.
LUMINAL_VECTOR_CLONES void combine_values(Kind kind, std::span<int64_t> values,
                                          std::span<const int64_t> others) {
  const auto each = [&](const auto& operation) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = operation(values[i], others[i]);
  };
  switch (kind) {
    case Kind::FloorDiv:
      return each([](int64_t a, int64_t b) { return b == 0 ? 0 : symbolic::floor_div(a, b); });
    case Kind::Mod:
      return each([](int64_t a, int64_t b) { return b == 0 ? 0 : symbolic::floor_mod(a, b); });
    case Kind::Min:
      return each([](int64_t a, int64_t b) { return a < b ? a : b; });
    case Kind::Max:
      return each([](int64_t a, int64_t b) { return a < b ? b : a; });
    case Kind::And:
      return each([](int64_t a, int64_t b) { return a & b; });
    case Kind::Or:
      return each([](int64_t a, int64_t b) { return a | b; });
    case Kind::Product:
      return each([](int64_t a, int64_t b) { return a * b; });
    case Kind::Constant:
    case Kind::Dim:
    case Kind::Index:
    case Kind::Flat:
    case Kind::Negative:
    case Kind::Sum:
      break;
  }
  throw InternalError("a node of an index expression that has no value for two operands");
}

/// In magnitude, up to which this file divides numbers as doubles: then no quotient that is not whole rounds up to the
/// next whole number.
constexpr int64_t kExact = int64_t{1} << 51;

/// Several numbers are converted at once by adding this one, whose fraction then holds them.
constexpr double kShift = 0x1.8p52;
constexpr auto kShiftBits = std::bit_cast<int64_t>(kShift);

/// Each value becomes its quotient by `divisor`, rounded down, or what that leaves. All are below kExact in magnitude.
LUMINAL_VECTOR_CLONES void divide(std::span<int64_t> values, int64_t divisor, bool is_remainder) {
  const auto by = static_cast<double>(divisor);
  for (int64_t& value : values) {
    const double quotient = std::floor((std::bit_cast<double>(value + kShiftBits) - kShift) / by);
    const int64_t whole = std::bit_cast<int64_t>(quotient + kShift) - kShiftBits;
    value = is_remainder ? value - whole * divisor : whole;
  }
}

/// The divisor, if node divides by a constant and `divide` is exact for it.
std::optional<int64_t> exact_divisor(const symbolic::Node& node) {
  if (node.kind != Kind::FloorDiv && node.kind != Kind::Mod) return std::nullopt;
  const Range range = node.args[0].range();
  const std::optional<int64_t> divisor = node.args[1].constant();
  const bool is_exact =
      range.min > -kExact && range.max < kExact && divisor && *divisor > 0 && *divisor < kExact;
  return is_exact ? divisor : std::nullopt;
}

}  // namespace

const std::vector<int64_t>& IndexEvaluator::evaluate(const Expression& e) {
  const symbolic::Node& node = e.node();
  if (node.kind == Kind::Index) return coordinates_[static_cast<size_t>(node.value)];
  if (const auto known = known_.find(&node); known != known_.end()) return known->second;
  return known_[&node] = compute(e);
}

IndexEvaluator::Values IndexEvaluator::affine(int64_t constant, std::span<const int64_t> strides) const {
  Values sums(count_, constant);
  for (size_t axis = 0; axis < strides.size(); ++axis)
    if (strides[axis] != 0) add_scaled(sums, coordinates_[axis], strides[axis]);
  return sums;
}

IndexEvaluator::Values IndexEvaluator::compute(const Expression& e) {
  const symbolic::Node& node = e.node();
  switch (node.kind) {
    case Kind::Constant:
      return Values(count_, node.value);
    case Kind::Negative: {
      Values values = evaluate(node.args[0]);
      for (int64_t& value : values) value = value < 0 ? 1 : 0;
      return values;
    }
    case Kind::Sum: {
      Values sums(count_, node.value);
      for (const symbolic::Term& term : node.terms)
        add_scaled(sums, evaluate(term.monomial), term.coefficient);
      return sums;
    }
    case Kind::Dim:
    case Kind::Index:
    case Kind::Flat:
      throw InternalError("an index expression with a free name: " + e.to_string());
    case Kind::FloorDiv:
    case Kind::Mod:
    case Kind::Min:
    case Kind::Max:
    case Kind::And:
    case Kind::Or:
    case Kind::Product:
      break;
  }
  Values result = evaluate(node.args[0]);
  if (const auto divisor = exact_divisor(node)) {
    divide(result, *divisor, node.kind == Kind::Mod);
    return result;
  }
  for (size_t k = 1; k < node.args.size(); ++k) combine_values(node.kind, result, evaluate(node.args[k]));
  return result;
}

}  // namespace luminal
