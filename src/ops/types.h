#pragma once
#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "luminal/op_def.h"

/// Which dtypes an op takes, stated once in its record's file: the shape rule, the kernels and the error
/// message go by it.
namespace luminal::ops {

/// Sets of dtypes.
enum class Takes : uint8_t { Floats = 1, Integers = 2, Bool = 4, Numbers = 3, Bits = 6, All = 7 };

[[nodiscard]] constexpr bool includes(Takes set, Takes part) {
  return (static_cast<uint8_t>(set) & static_cast<uint8_t>(part)) != 0;
}
[[nodiscard]] bool takes(Takes set, Dtype dtype);

/// The type in which values of T are computed: f32 for f16 and bf16.
template <class T>
using Compute = std::conditional_t<is_stored_float<T>, float, T>;

template <class T, Takes set>
[[nodiscard]] constexpr bool takes_type() {
  if constexpr (std::same_as<T, bool>)
    return includes(set, Takes::Bool);
  else if constexpr (std::integral<T>)
    return includes(set, Takes::Integers);
  else
    return includes(set, Takes::Floats);
}

/// For the variants of an op with an attribute "dtype": one for each of the set.
[[nodiscard]] std::vector<Attributes> dtype_variants(Takes set);

// --- Shape and dtype rules. `op` is the name for messages.

/// All inputs of one type, which is the output's too.
[[nodiscard]] InferRule same_types(std::string_view op, int arity, Takes set);
/// Inputs of one type, output bool.
[[nodiscard]] InferRule comparison_types(std::string_view op, Takes set);
/// The input without the axes in the attribute "axes".
[[nodiscard]] InferRule reduced_types(std::string_view op, Monoid monoid);

/// What the rules are made of, for ops that have one of their own. Errors: ShapeError, DtypeError.
void check_arity(std::string_view op, std::span<const TensorType> inputs, size_t wanted);
void check_dtype(std::string_view op, const TensorType& type, Takes set);
void check_same_dims(std::string_view op, const TensorType& a, const TensorType& b);
void check_same_dtype(std::string_view op, const TensorType& a, const TensorType& b);
void check_plain(std::string_view op, Dtype dtype);
/// The attribute "axis" is one of the axes, counted from the front.
void check_axis(std::string_view op, const TensorType& type, const Attributes& attributes);

}  // namespace luminal::ops
