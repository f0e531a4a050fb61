#include <cmath>

#include "ops/composite/build.h"

// Tensors out of nothing: inputs, constants, counting.
namespace luminal {

using namespace composite;

namespace {

void check_dims(const Shape& dims) {
  for (const Expression& dim : dims)
    if (dim.range().max < 0)
      reject("a size is {} in {}; sizes are at least 0", dim.to_string(), to_string(dims));
}

const Expression& z() {
  static const Expression flat = Expression::flat_index();
  return flat;
}

/// Integer formula over the flat index, of any plain dtype.
GraphTensor counted(Graph& graph, const Expression& e, Shape dims, Dtype dtype) {
  check_dims(dims);
  return formula(graph, e, std::move(dims), dtype);
}

/// Row and column of the flat index over [.., columns].
std::pair<Expression, Expression> cell(const Expression& columns) {
  const Expression width = columns.max(1);  // of an empty matrix no element is asked for
  return {z() / width, z() % width};
}

}  // namespace

GraphTensor Graph::tensor(Shape dims, Dtype dtype, Where at) {
  const CallSite site("tensor", at);
  check_dims(dims);
  return leaf(*this, kInput, {{"dtype", dtype}, {"dims", std::move(dims)}});
}

GraphTensor Graph::named_tensor(std::string name, Shape dims, Dtype dtype, Where at) {
  const CallSite site("named_tensor", at);
  GraphTensor result = tensor(std::move(dims), dtype);
  return result.set_name(std::move(name));
}

GraphTensor Graph::constant(Number value, Dtype dtype, Where at) {
  const CallSite site("constant", at);
  return scalar(*this, value, dtype);
}

GraphTensor Graph::constant(const Expression& value, Dtype dtype, Where at) {
  const CallSite site("constant", at);
  return counted(*this, value, {}, dtype);
}

GraphTensor Graph::iota(const Expression& e, Shape dims, Dtype dtype, Where at) {
  const CallSite site("iota", at);
  return counted(*this, e, std::move(dims), dtype);
}

namespace {

/// The first and the last number of a count, where they are known.
void check_ends_fit(const Expression& first, const Expression& last, Dtype dtype) {
  for (const Expression& each : {first, last})
    if (const auto number = each.constant()) check_fits(*number, dtype);
}

}  // namespace

GraphTensor Graph::arange(const Expression& end, Dtype dtype, Where at) {
  const CallSite site("arange", at);
  if (const auto count = end.constant(); !count || *count > 0) check_ends_fit(0, end - 1, dtype);
  return counted(*this, z(), {end}, dtype);
}

GraphTensor Graph::arange_in_range(const Expression& start, const Expression& end, Dtype dtype, Where at) {
  const CallSite site("arange_in_range", at);
  if (const auto count = (end - start).constant(); !count || *count > 0)
    check_ends_fit(start, end - 1, dtype);
  return counted(*this, z() + start, {end - start}, dtype);
}

GraphTensor Graph::arange_step(Number start, Number end, Number step, Dtype dtype, Where at) {
  const CallSite site("arange_step", at);
  const double from = start.as<double>(), by = step.as<double>();
  const double count = std::ceil((end.as<double>() - from) / by);
  if (by == 0 || !(count < 0x1p62) || !std::isfinite(from))
    reject<Error>("from {} to {} in steps of {} never ends; give finite bounds and a step other than 0",
                  start.to_string(), end.to_string(), step.to_string());
  if (count < 0)
    reject("a step of {} leads away from {} when starting at {}; change its sign", step.to_string(),
           end.to_string(), start.to_string());
  if (start.is_integer() && step.is_integer()) {
    const auto first = start.as<int64_t>(), by_whole = step.as<int64_t>(),
               steps = static_cast<int64_t>(count);
    if (steps > 0) check_ends_fit(first, first + (steps - 1) * by_whole, dtype);
    return counted(*this, z() * by_whole + first, {steps}, dtype);
  }
  if (!is_float(dtype))
    reject<DtypeError>("a start of {} and a step of {} are not whole, and the dtype is {}; use a float dtype",
                       start.to_string(), step.to_string(), name(dtype));
  // In f64 and rounded once, so that 0, 0.1, 0.2 ... are the nearest values of `dtype`.
  const GraphTensor index = counted(*this, z(), {static_cast<int64_t>(count)}, Dtype::F64);
  return (index * by + from).cast(dtype);
}

GraphTensor Graph::eye(const Expression& n, Dtype dtype, Where at) {
  const CallSite site("eye", at);
  return counted(*this, (z() % (n + 1)).lt(1), {n, n}, dtype);
}

GraphTensor Graph::tril(const Expression& rows, const Expression& columns, const Expression& diagonal,
                        Dtype dtype, Where at) {
  const CallSite site("tril", at);
  const auto [row, column] = cell(columns);
  return counted(*this, column.lt(row + diagonal + 1), {rows, columns}, dtype);
}

GraphTensor Graph::triu(const Expression& rows, const Expression& columns, const Expression& diagonal,
                        Dtype dtype, Where at) {
  const CallSite site("triu", at);
  const auto [row, column] = cell(columns);
  return counted(*this, column.gte(row + diagonal), {rows, columns}, dtype);
}

GraphTensor Graph::full(Shape dims, Number value, Dtype dtype, Where at) {
  const CallSite site("full", at);
  check_dims(dims);
  return broadcast_to(scalar(*this, value, dtype), dims);
}

GraphTensor Graph::zeros(Shape dims, Dtype dtype, Where at) {
  const CallSite site("zeros", at);
  return full(std::move(dims), 0, dtype);
}

GraphTensor Graph::ones(Shape dims, Dtype dtype, Where at) {
  const CallSite site("ones", at);
  return full(std::move(dims), 1, dtype);
}

}  // namespace luminal
