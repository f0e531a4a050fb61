#pragma once
#include <cstdint>
#include <utility>

#include "scalar/element.h"

/// Loops that run one node over arrays. On x86-64 each is compiled twice, for any processor and for AVX2 with
/// FMA, and chosen at run time: same results (nothing is contracted), but an fma is an instruction, not a
/// call.
namespace luminal::element {

#if defined(__x86_64__)
#define LUMINAL_HAS_WIDE_LOOPS 1
[[nodiscard]] inline bool machine_has_wide_loops() {
  static const bool has = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  return has;
}
#else
#define LUMINAL_HAS_WIDE_LOOPS 0
#endif

template <class F, class Out, class... In>
struct Loop {
  template <size_t... I>
  LUMINAL_ELEMENT void body(int64_t count, void* out, const void* const* operands,
                            std::index_sequence<I...>) {
    auto* __restrict result = static_cast<Out*>(out);
    run(count, result, static_cast<const In*>(operands[I])...);
  }
  LUMINAL_ELEMENT void run(int64_t count, Out* __restrict out, const In* __restrict... in) {
    for (int64_t i = 0; i < count; ++i) out[i] = F::apply(in[i]...);
  }
  static void plain(int64_t count, void* out, const void* a, const void* b, const void* c) {
    const void* const operands[] = {a, b, c};
    body(count, out, operands, std::index_sequence_for<In...>{});
  }
#if LUMINAL_HAS_WIDE_LOOPS
  [[gnu::target("avx2,fma")]] static void wide(int64_t count, void* out, const void* a, const void* b,
                                               const void* c) {
    const void* const operands[] = {a, b, c};
    body(count, out, operands, std::index_sequence_for<In...>{});
  }
#endif
  [[nodiscard]] static ScalarKernel kernel() {
#if LUMINAL_HAS_WIDE_LOOPS
    if (machine_has_wide_loops()) return &wide;
#endif
    return &plain;
  }
};

/// The C++ type that holds an element in memory: a byte for Bool.
template <class T>
struct Stored {
  using type = T;
};
template <>
struct Stored<bool> {
  using type = uint8_t;
};

/// Kernels of Lt, Le, Eq, Ne, Select, Convert and Bitcast.
[[nodiscard]] ScalarKernel cast_kernel(ScalarOp op, Dtype result, Dtype operand);

}  // namespace luminal::element
