#include <algorithm>
#include <cmath>

#include "ops/composite/build.h"

// From operands to tensors of one dtype: numbers, promotion, broadcasting.
namespace luminal::composite {
namespace {

/// The narrowest common dtype that holds the number as well.
Dtype dtype_for(Number value, Dtype beside) {
  if (!value.is_integer()) return Dtype::F32;
  for (const Dtype dtype : {Dtype::I32, Dtype::I64}) {
    const auto n = value.as<int64_t>();
    if (dtype != beside && n >= info(dtype).least && n <= info(dtype).greatest) return dtype;
  }
  return Dtype::I64;
}

}  // namespace

void check_fits(Number value, Dtype dtype) {
  if (is_quantized(dtype))
    reject<DtypeError>("{} holds blocks of weights, not single numbers; cast it to a float first",
                       name(dtype));
  if (is_float(dtype)) return;
  if (!value.is_integer()) {
    const double real = value.as<double>();
    if (!(std::floor(real) == real && std::abs(real) < 0x1p63))
      reject<DtypeError>("{} is not a value of {}; use a float dtype or a whole number", value.to_string(),
                         name(dtype));
  }
  const auto [least, greatest] = std::pair(info(dtype).least, info(dtype).greatest);
  if (const auto n = value.as<int64_t>(); n < least || n > greatest)
    reject<DtypeError>("{} does not fit in {} ({} .. {}); cast the tensor to {} first", value.to_string(),
                       name(dtype), least, greatest, name(dtype_for(n, dtype)));
}

GraphTensor scalar(Graph& graph, Number value, Dtype dtype) {
  check_fits(value, dtype);
  if (!is_float(dtype))
    value = value.as<int64_t>();
  else if (value.is_integer() && std::abs(value.as<double>()) <= 0x1p53)
    value = value.as<double>();  // one spelling of each value, so that equal constants are found equal
  return leaf(graph, kConstant, {{"value", value}, {"dtype", dtype}});
}

GraphTensor scalar(const GraphTensor& like, Number value) { return scalar(like, value, like.dtype()); }

GraphTensor scalar(const GraphTensor& like, Number value, Dtype dtype) {
  Graph graph = like.graph();
  return scalar(graph, value, dtype);
}

// --- Operands

const Number* number_of(const Operand& operand) { return std::get_if<Number>(&operand.value); }
const GraphTensor* tensor_in(const Operand& operand) { return std::get_if<GraphTensor>(&operand.value); }

Graph graph_of(std::initializer_list<const Operand*> operands) {
  for (const Operand* operand : operands)
    if (const GraphTensor* tensor = tensor_in(*operand)) return tensor->graph();
  reject<Error>("no operand is a tensor; make one of them with Graph::constant");
}

namespace {

/// The dtype the operands share: tensors promote among themselves, numbers and formulas raise the kind only.
Dtype common_dtype(std::span<const Operand> operands, Promotion promotion) {
  bool any_tensor = false, any_float = false;
  Dtype dtype = Dtype::Bool;
  for (const Operand& operand : operands) {
    if (const GraphTensor* tensor = tensor_in(operand)) {
      dtype = any_tensor ? promote(dtype, tensor->dtype()) : tensor->dtype();
      any_tensor = true;
    } else if (const Number* number = number_of(operand)) {
      any_float = any_float || !number->is_integer();
    }
  }
  const bool any_weak =
      std::ranges::any_of(operands, [](const Operand& o) { return tensor_in(o) == nullptr; });
  if (is_quantized(dtype))
    reject<DtypeError>("{} holds blocks of weights and takes no part in arithmetic; cast it to a float first",
                       name(dtype));
  if (any_float && !is_float(dtype)) dtype = Dtype::F32;
  if (any_weak && dtype == Dtype::Bool) dtype = Dtype::I64;
  if (promotion == Promotion::Arithmetic && dtype == Dtype::Bool) dtype = Dtype::I64;
  if (promotion == Promotion::Floating) dtype = floating_dtype(dtype);
  return dtype;
}

GraphTensor as_tensor(Graph& graph, const Operand& operand, Dtype dtype) {
  if (const GraphTensor* tensor = tensor_in(operand)) return tensor->cast(dtype);
  if (const Number* number = number_of(operand)) return scalar(graph, *number, dtype);
  const auto& e = std::get<Expression>(operand.value);
  if (const auto value = e.constant()) return scalar(graph, *value, dtype);
  return formula(graph, e, {}).cast(dtype);
}

}  // namespace

std::vector<GraphTensor> promoted(Graph& graph, std::span<const Operand> operands, Promotion promotion) {
  const Dtype dtype = common_dtype(operands, promotion);
  std::vector<GraphTensor> tensors;
  tensors.reserve(operands.size());
  for (const Operand& operand : operands) tensors.push_back(as_tensor(graph, operand, dtype));
  return tensors;
}

std::pair<GraphTensor, GraphTensor> promoted(const Operand& a, const Operand& b, Promotion promotion) {
  Graph graph = graph_of({&a, &b});
  const std::vector<GraphTensor> pair = promoted(graph, std::vector<Operand>{a, b}, promotion);
  return {pair[0], pair[1]};
}

Dtype floating_dtype(Dtype dtype) { return is_float(dtype) ? dtype : Dtype::F32; }
GraphTensor numeric(const GraphTensor& x) { return x.dtype() == Dtype::Bool ? x.cast(Dtype::I64) : x; }
GraphTensor floating(const GraphTensor& x) { return x.cast(floating_dtype(x.dtype())); }
GraphTensor widened(const GraphTensor& x) { return x.cast(accumulation_dtype(floating_dtype(x.dtype()))); }
GraphTensor truth(const GraphTensor& x) { return x.cast(Dtype::Bool); }

// --- Broadcasting

namespace {

/// Two right-aligned dims as one, or nothing if they do not fit.
const Expression* merged_dim(const Expression& a, const Expression& b) {
  if (a == b || b == Expression(1) || Expression::known_equal(a, b)) return &a;
  return a == Expression(1) ? &b : nullptr;
}

/// A remedy for shapes that would fit if the shorter one stood further left, as for a bias per row.
std::string remedy(const Shape& lhs, const Shape& rhs) {
  const bool right_shorter = rhs.size() < lhs.size();
  const Shape& shorter = right_shorter ? rhs : lhs;
  const Shape& longer = right_shorter ? lhs : rhs;
  for (size_t trailing = 1; trailing + shorter.size() <= longer.size(); ++trailing) {
    const size_t offset = longer.size() - shorter.size() - trailing;
    bool fits = !shorter.empty();
    for (size_t i = 0; i < shorter.size(); ++i)
      fits = fits && merged_dim(longer[offset + i], shorter[i]) != nullptr;
    if (!fits) continue;
    Shape dims = shorter;
    dims.insert(dims.end(), trailing, Expression(1));
    std::string text = to_string(dims);
    return fmt::format("{}.reshape({{{}}}) would fit", right_shorter ? "rhs" : "lhs",
                       text.substr(1, text.size() - 2));
  }
  if (lhs.size() == 2 && rhs.size() == 2 && merged_dim(lhs[0], rhs[1]) && merged_dim(lhs[1], rhs[0]))
    return "rhs.transpose(0, 1) would fit";
  return "sizes must be equal, or one of them 1";
}

[[noreturn]] void reject_shapes(const Shape& lhs, const Shape& rhs, size_t from_the_right) {
  const Expression &a = lhs[lhs.size() - from_the_right], &b = rhs[rhs.size() - from_the_right];
  const bool unknown = !a.constant() || !b.constant();
  reject("shapes do not broadcast: lhs {} and rhs {} have {} and {} at axis -{}; {}", to_string(lhs),
         to_string(rhs), a.to_string(), b.to_string(), from_the_right,
         unknown ? "if both are always the same size, build them from one named dim" : remedy(lhs, rhs));
}

Shape broadcast_pair(const Shape& a, const Shape& b) {
  const bool longer_a = a.size() >= b.size();
  Shape result = longer_a ? a : b;
  for (size_t i = 1; i <= std::min(a.size(), b.size()); ++i) {
    const Expression* dim = merged_dim(a[a.size() - i], b[b.size() - i]);
    if (!dim) reject_shapes(a, b, i);
    result[result.size() - i] = *dim;
  }
  return result;
}

}  // namespace

Shape broadcast_dims(std::span<const GraphTensor> tensors) {
  Shape dims = tensors.front().dims();
  for (const GraphTensor& tensor : tensors.subspan(1)) dims = broadcast_pair(dims, tensor.dims());
  return dims;
}

GraphTensor broadcast_to(const GraphTensor& x, const Shape& dims) {
  if (x.dims() == dims) return x;
  ShapeTracker view = x.view();
  while (view.dims().size() < dims.size()) {
    const size_t missing = dims.size() - view.dims().size();
    view = view.expand(0, dims[missing - 1]);
  }
  for (int axis = 0; axis < view.rank(); ++axis) {
    const Expression& wanted = dims[static_cast<size_t>(axis)];
    const Expression& size = view.dims()[static_cast<size_t>(axis)];
    if (size == Expression(1) && wanted != Expression(1)) view = view.squeeze(axis).expand(axis, wanted);
  }
  return x.with_view(std::move(view));
}

}  // namespace luminal::composite
