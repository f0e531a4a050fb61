#pragma once
#include <bit>
#include <cstdint>
#include <limits>
#include <utility>

#include "ops/types.h"

/// Kernels of elementwise ops from one generic lambda:
///
///   .elementwise = kernels<Takes::Numbers, 2>([](auto a, auto b) { return add(a, b); })
///
/// The lambda captures nothing; it is called with Compute<T> values (f32 for f16 and bf16) and what it
/// returns is rounded once. The loops are plain, so that the compiler vectorises those whose body allows it.
namespace luminal::ops {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// The n-th of n equal types.
template <class T, size_t>
using Repeat = T;

template <class F, class Out, class... In>
void run_elements(int64_t count, Out* __restrict out, const In* __restrict... in) {
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<Out>(F{}(static_cast<Compute<In>>(in[i])...));
}

/// A kernel with inputs of types In... and output Out. The output overlaps no input.
template <class F, class Out, class... In>
void element_loop(const void* const* inputs, void* output, int64_t count, const Attributes&) {
  [&]<size_t... I>(std::index_sequence<I...>) {
    run_elements<F>(count, static_cast<Out*>(output), static_cast<const In*>(inputs[I])...);
  }(std::index_sequence_for<In...>{});
}

/// `make(T{})` is the kernel for inputs of C++ type T; nullptr for dtypes outside `set`.
template <Takes set, class Make>
ElementKernel choose_kernel(Dtype dtype, Make&& make) {
  if (!takes(set, dtype)) return nullptr;
  return visit_dtype(dtype, [&]<class T>(T) -> ElementKernel {
    if constexpr (takes_type<T, set>())
      return make(T{});
    else
      return nullptr;
  });
}

/// Inputs and output of one type.
template <Takes set, int arity, class F>
ElementKernels kernels(F) {
  return [](std::span<const Dtype> inputs, Dtype) {
    return choose_kernel<set>(inputs[0], []<class T>(T) -> ElementKernel {
      return []<size_t... I>(std::index_sequence<I...>) -> ElementKernel {
        return &element_loop<F, T, Repeat<T, I>...>;
      }(std::make_index_sequence<static_cast<size_t>(arity)>{});
    });
  };
}

/// Two inputs of one type, output bool.
template <Takes set, class F>
ElementKernels comparison_kernels(F) {
  return [](std::span<const Dtype> inputs, Dtype) {
    return choose_kernel<set>(inputs[0],
                              []<class T>(T) -> ElementKernel { return &element_loop<F, bool, T, T>; });
  };
}

/// Floats, computed in f64 by `f(double...)` and rounded once: the library's functions are off by up to a
/// unit there, so results for the narrower types are as good as correctly rounded.
template <int arity, class F>
ElementKernels precise_kernels(F) {
  return kernels<Takes::Floats, arity>([](auto... x) -> double { return F{}(static_cast<double>(x)...); });
}

/// Copies any plain dtype bit by bit.
[[nodiscard]] ElementKernels copy_kernels();

// --- Arithmetic without undefined cases: integers wrap

template <std::integral T>
using Wide = std::conditional_t<(sizeof(T) < 4), uint32_t, std::make_unsigned_t<T>>;

template <class T>
[[nodiscard]] constexpr T add(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<Wide<T>>(a) + static_cast<Wide<T>>(b));
  else
    return a + b;
}
template <class T>
[[nodiscard]] constexpr T multiply(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b));
  else
    return a * b;
}
/// IEEE 754-2019 maximum: NaN if either is NaN, -0 < +0.
template <class T>
[[nodiscard]] constexpr T maximum(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return a < b ? b : a;
  } else {
    // Comparisons first and selection of bits afterwards: a form that compilers vectorise.
    using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    const bool greater = a > b, same = a == b, lost = a != a;
    const auto x = std::bit_cast<Bits>(a), y = std::bit_cast<Bits>(b);
    Bits result = greater ? x : y;     // y also if it is NaN
    result = same ? (x & y) : result;  // equal values differ at most in the sign of zero
    return std::bit_cast<T>(lost ? x : result);
  }
}

/// Quotient rounded down; 0 if b is 0; least / -1 wraps.
template <std::integral T>
[[nodiscard]] constexpr T floor_quotient(T a, T b) {
  if (b == 0) return 0;
  if (std::is_signed_v<T> && b == static_cast<T>(-1))
    return static_cast<T>(Wide<T>{0} - static_cast<Wide<T>>(a));
  const T quotient = static_cast<T>(a / b);
  return a % b != 0 && (a < 0) != (b < 0) ? static_cast<T>(quotient - 1) : quotient;
}

// --- Lowering

/// Error bound of the accurate function of that name in f32, for a record's `ulp`.
[[nodiscard]] double function_ulp(std::string_view name);

/// A rule from `f(ScalarBuilder&, Scalar)`, or with two or three scalars.
template <class F>
Lowering lowering(F f) {
  return [f](ScalarBuilder& b, std::span<const Scalar> x, const Attributes&) -> Scalar {
    if constexpr (std::is_invocable_v<F, ScalarBuilder&, Scalar>)
      return f(b, x[0]);
    else if constexpr (std::is_invocable_v<F, ScalarBuilder&, Scalar, Scalar>)
      return f(b, x[0], x[1]);
    else
      return f(b, x[0], x[1], x[2]);
  };
}

/// The same for rules of several steps: f16 and bf16 are computed in f32 from end to end and rounded once.
template <class F>
Lowering widened_lowering(F f) {
  return [rule = lowering(f)](ScalarBuilder& b, std::span<const Scalar> x, const Attributes& attributes) {
    const Dtype dtype = b.dtype(x[0]);
    if (accumulation_dtype(dtype) == dtype) return rule(b, x, attributes);
    std::vector<Scalar> wide;
    for (const Scalar input : x) wide.push_back(b.convert(input, Dtype::F32));
    return b.convert(rule(b, wide, attributes), dtype);
  };
}

}  // namespace luminal::ops
