#include "graph/row_evaluator.h"

#include <algorithm>
#include <numeric>

#include "base/fail.h"
#include "symbolic/interval.h"
#include "symbolic/node.h"

namespace luminal {
namespace {

using symbolic::Kind;
using Row = std::vector<int64_t>;

int64_t combine(Kind kind, int64_t a, int64_t b) {
  switch (kind) {
    case Kind::FloorDiv:
      return b == 0 ? 0 : symbolic::floor_div(a, b);
    case Kind::Mod:
      return b == 0 ? 0 : symbolic::floor_mod(a, b);
    case Kind::Min:
      return std::min(a, b);
    case Kind::Max:
      return std::max(a, b);
    case Kind::And:
      return a & b;
    case Kind::Or:
      return a | b;
    case Kind::Product:
      return a * b;
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

}  // namespace

std::vector<int64_t> RowEvaluator::evaluate(const Expression& e) const {
  const symbolic::Node& node = e.node();
  switch (node.kind) {
    case Kind::Constant:
      return Row(count_, node.value);
    case Kind::Index: {
      const auto axis = static_cast<size_t>(node.value);
      Row row(count_, coordinates_[axis]);
      if (axis + 1 == coordinates_.size()) std::iota(row.begin(), row.end(), coordinates_[axis]);
      return row;
    }
    case Kind::Negative: {
      Row row = evaluate(node.args[0]);
      for (int64_t& value : row) value = value < 0 ? 1 : 0;
      return row;
    }
    case Kind::Sum: {
      Row row(count_, node.value);
      for (const symbolic::Term& term : node.terms) {
        const Row values = evaluate(term.monomial);
        for (size_t i = 0; i < count_; ++i) row[i] += term.coefficient * values[i];
      }
      return row;
    }
    case Kind::Dim:
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
  Row row = evaluate(node.args[0]);
  for (size_t k = 1; k < node.args.size(); ++k) {
    const Row values = evaluate(node.args[k]);
    for (size_t i = 0; i < count_; ++i) row[i] = combine(node.kind, row[i], values[i]);
  }
  return row;
}

}  // namespace luminal
