#include "ops/types.h"

#include <fmt/ranges.h>

#include "base/fail.h"

namespace luminal::ops {
namespace {

std::string names_of(DtypeKind kind) {
  std::vector<std::string_view> names;
  for (const Dtype dtype : kPlainDtypes)
    if (info(dtype).kind == kind) names.push_back(name(dtype));
  return fmt::format("{}", fmt::join(names, " "));
}

std::string words(Takes set) {
  switch (set) {
    case Takes::Floats:
      return fmt::format("floats ({})", names_of(DtypeKind::Float));
    case Takes::Integers:
      return fmt::format("integers ({})", names_of(DtypeKind::Integer));
    case Takes::Bool:
      return "bool";
    case Takes::Numbers:
      return "floats and integers";
    case Takes::Bits:
      return "integers and bool";
    case Takes::All:
      return "plain dtypes";
  }
  return {};
}

/// A dtype to cast to so that the op takes the value.
Dtype remedy(Takes set) {
  if (includes(set, Takes::Floats)) return Dtype::F32;
  return includes(set, Takes::Integers) ? Dtype::I64 : Dtype::Bool;
}

}  // namespace

bool takes(Takes set, Dtype dtype) {
  switch (info(dtype).kind) {
    case DtypeKind::Float:
      return includes(set, Takes::Floats);
    case DtypeKind::Integer:
      return includes(set, Takes::Integers);
    case DtypeKind::Bool:
      return includes(set, Takes::Bool);
    case DtypeKind::Quantized:
      return false;
  }
  return false;
}

std::vector<Attributes> dtype_variants(Takes set) {
  std::vector<Attributes> variants;
  for (const Dtype dtype : kPlainDtypes)
    if (takes(set, dtype)) variants.push_back({{"dtype", dtype}});
  return variants;
}

void check_arity(std::string_view op, std::span<const TensorType> inputs, size_t wanted) {
  if (inputs.size() != wanted)
    fail<Error>("[{}] takes {} input{}, got {}", op, wanted, wanted == 1 ? "" : "s", inputs.size());
}

void check_dtype(std::string_view op, const TensorType& type, Takes set) {
  if (!takes(set, type.dtype))
    fail<DtypeError>("[{}] takes {}, got {}; cast it first, for instance to {}", op, words(set),
                     type.to_string(), name(remedy(set)));
}

void check_axis(std::string_view op, const TensorType& type, const Attributes& attributes) {
  const auto axis = attributes.get<int64_t>("axis"), rank = static_cast<int64_t>(type.dims.size());
  if (axis < 0 || axis >= rank)
    fail<ShapeError>("[{}] axis {} is none of the {} axes of {}; count from 0", op, axis, rank,
                     type.to_string());
}

void check_plain(std::string_view op, Dtype dtype) {
  if (is_quantized(dtype))
    fail<DtypeError>("[{}] produces plain dtypes, but {} is block-quantised; quantize the values on the host",
                     op, name(dtype));
}

void check_same_dims(std::string_view op, const TensorType& a, const TensorType& b) {
  if (a.dims.size() != b.dims.size())
    fail<ShapeError>("[{}] ranks differ: {} and {}; expand both to the same dims", op, a.to_string(),
                     b.to_string());
  for (size_t axis = 0; axis < a.dims.size(); ++axis)
    if (!Expression::known_equal(a.dims[axis], b.dims[axis]))
      fail<ShapeError>("[{}] dims differ: {} and {} have {} and {} at axis {}; expand, slice or pad to fit",
                       op, a.to_string(), b.to_string(), a.dims[axis].to_string(), b.dims[axis].to_string(),
                       axis);
}

void check_same_dtype(std::string_view op, const TensorType& a, const TensorType& b) {
  if (a.dtype == b.dtype) return;
  if (is_quantized(a.dtype) || is_quantized(b.dtype))
    fail<DtypeError>("[{}] dtypes differ: {} and {}; cast the quantised one to a float first", op,
                     a.to_string(), b.to_string());
  fail<DtypeError>("[{}] dtypes differ: {} and {}; cast both to {}", op, a.to_string(), b.to_string(),
                   name(promote(a.dtype, b.dtype)));
}

InferRule same_types(std::string_view op, int arity, Takes set) {
  return [=](std::span<const TensorType> inputs, const Attributes&) -> std::vector<TensorType> {
    check_arity(op, inputs, static_cast<size_t>(arity));
    for (const TensorType& input : inputs) {
      check_same_dtype(op, inputs[0], input);
      check_dtype(op, input, set);
      check_same_dims(op, inputs[0], input);
    }
    return {inputs[0]};
  };
}

InferRule comparison_types(std::string_view op, Takes set) {
  return [=, same = same_types(op, 2, set)](std::span<const TensorType> inputs,
                                            const Attributes& attributes) -> std::vector<TensorType> {
    return {{Dtype::Bool, same(inputs, attributes)[0].dims}};
  };
}

InferRule reduced_types(std::string_view op, Monoid monoid) {
  const Takes set = folds(monoid, Dtype::Bool) ? Takes::All : Takes::Numbers;
  return [=](std::span<const TensorType> inputs, const Attributes& attributes) -> std::vector<TensorType> {
    check_arity(op, inputs, 1);
    check_dtype(op, inputs[0], set);
    const Shape& dims = inputs[0].dims;
    const auto& axes = attributes.get<std::vector<int64_t>>("axes");
    std::vector<bool> reduced(dims.size(), false);
    int64_t previous = -1;
    for (const int64_t axis : axes) {
      if (axis <= previous || axis >= static_cast<int64_t>(dims.size()))
        fail<ShapeError>("[{}] axes must be ascending and within the {} of {}, got {}", op, dims.size(),
                         inputs[0].to_string(), axis);
      reduced[static_cast<size_t>(axis)] = true;
      previous = axis;
    }
    TensorType result{inputs[0].dtype, {}};
    for (size_t axis = 0; axis < dims.size(); ++axis)
      if (!reduced[axis]) result.dims.push_back(dims[axis]);
    return {result};
  };
}

}  // namespace luminal::ops
