#include <algorithm>
#include <numeric>

#include "base/fail.h"
#include "base/threads.h"
#include "graph/index_evaluator.h"
#include "luminal/ops.h"
#include "ops/types.h"
#include "symbolic/node.h"

namespace luminal {
namespace {

std::vector<TensorType> infer_iota(std::span<const TensorType> inputs, const Attributes& attributes) {
  ops::check_arity("iota", inputs, 0);
  const Dtype dtype = attributes.get<Dtype>("dtype");
  ops::check_plain("iota", dtype);
  if (const auto axes = attributes.get<Expression>("expression").to_indices(); !axes.empty())
    fail<Error>(
        "[iota] the expression {} uses the index variable i{}; iota's formula is over z and named dims",
        attributes.get<Expression>("expression").to_string(), *axes.begin());
  return {{dtype, attributes.get<Shape>("dims")}};
}

/// first + step * z, if the formula is that and no value on the way leaves 64 bits.
struct Ramp {
  int64_t first, step;
};
std::optional<Ramp> ramp(const Expression& formula, int64_t count) {
  const auto affine = formula.as_affine();
  if (!affine || !affine->constant.constant()) return {};
  const auto coefficient = affine->coefficients.find(0);
  const std::optional<int64_t> step =
      coefficient == affine->coefficients.end() ? int64_t{0} : coefficient->second.constant();
  if (!step) return {};
  int64_t last = 0;
  if (__builtin_mul_overflow(*step, count - 1, &last) ||
      __builtin_add_overflow(last, *affine->constant.constant(), &last))
    return {};
  return Ramp{*affine->constant.constant(), *step};
}

/// Whether ranges prove that no step of the formula overflows or divides by zero: then whole rows can be
/// evaluated without looking.
bool is_total(const Expression& formula) {
  const symbolic::Node& node = formula.node();
  if (node.range.min == INT64_MIN || node.range.max == INT64_MAX) return false;
  if (node.kind == symbolic::Kind::FloorDiv || node.kind == symbolic::Kind::Mod) {
    const Range divisor = node.args[1].range();
    if (divisor.min <= 0 && divisor.max >= 0) return false;
  }
  if (node.kind == symbolic::Kind::Index) return true;
  return std::ranges::all_of(node.args, is_total) &&
         std::ranges::all_of(node.terms, [](const auto& term) { return is_total(term.monomial); });
}

/// Integers become T as static_cast does: narrower integers wrap, bool is "not 0".
template <class T>
T convert(int64_t value) {
  return static_cast<T>(static_cast<ops::Compute<T>>(value));
}

constexpr int64_t kRow = 1024;

/// One element after the other; what has no value is an Error.
std::vector<int64_t> checked_row(const Expression& formula, int64_t first, int64_t count) {
  std::vector<int64_t> row(static_cast<size_t>(count));
  for (int64_t& value : row) {
    value = formula.exec({}, std::span(&first, 1));
    ++first;
  }
  return row;
}

std::vector<int64_t> unchecked_row(const Expression& formula, int64_t first, int64_t count) {
  std::vector<int64_t> row(static_cast<size_t>(count));
  std::iota(row.begin(), row.end(), first);
  return IndexEvaluator(std::span(&row, 1), row.size()).evaluate(formula);
}

void write_iota(EvalContext& context) {
  TensorData& out = context.outputs[0];
  const int64_t count = out.element_count();
  if (count == 0) return;
  const Expression z = Expression::index(0, count);
  const Expression formula =
      context.attributes.get<Expression>("expression").substitute(context.dims).substitute_flat_index(z);
  visit_dtype(out.dtype, [&]<class T>(T) {
    T* values = out.as<T>().data();
    if (const auto line = ramp(formula, count)) {
      for (int64_t i = 0; i < count; ++i) values[i] = convert<T>(line->first + line->step * i);
      return;
    }
    const bool total = is_total(formula);
    parallel_for(count, kRow, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i += kRow) {
        const int64_t n = std::min(kRow, end - i);
        const auto row = total ? unchecked_row(formula, i, n) : checked_row(formula, i, n);
        for (int64_t k = 0; k < n; ++k) values[i + k] = convert<T>(row[static_cast<size_t>(k)]);
      }
    });
  });
}

}  // namespace

const OpDef kIota = {
    .name = "iota",
    .arity = 0,
    .traits = Trait::Leaf,
    .infer = infer_iota,
    .evaluate = write_iota,
    .formula = [](const Attributes& attributes) { return attributes.get<Expression>("expression"); },
    .doc = "An integer formula over the flat index z and named dims.",
};

}  // namespace luminal
