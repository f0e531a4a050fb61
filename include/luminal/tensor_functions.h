// A guard and no #pragma once: graph_tensor.h, which is needed here, includes this header at its end.
#ifndef LUMINAL_TENSOR_FUNCTIONS_H
#define LUMINAL_TENSOR_FUNCTIONS_H
#include <concepts>
#include <initializer_list>
#include <ranges>
#include <span>
#include <string_view>
#include <utility>
#include <variant>

#include "luminal/graph_tensor.h"

/// Functions of several tensors: operators, products, joining, attention. Those of one tensor are its
/// members.
///
///   auto y = concat({matmul(x, w), where(mask, x, 0)}, -1);
///
/// Thread safety: as the graph of their tensors.
namespace luminal {

struct Operand {
  std::variant<GraphTensor, Number, Expression> value;
  Where where;
  Operand(const GraphTensor& tensor, Where w = Where::current()) : value(tensor), where(w) {}
  template <class T>
    requires std::integral<T> || std::floating_point<T>
  Operand(T number, Where w = Where::current()) : value(Number(number)), where(w) {}
  Operand(Number number, Where w = Where::current()) : value(number), where(w) {}
  Operand(const Expression& e, Where w = Where::current()) : value(e), where(w) {}
};

// Operators are found by argument: `2 * t`, `t + s` with an Expression, `t - u`.
GraphTensor operator-(const Operand& a);
GraphTensor operator+(const Operand& a, const Operand& b);
GraphTensor operator-(const Operand& a, const Operand& b);
GraphTensor operator*(const Operand& a, const Operand& b);
GraphTensor operator/(const Operand& a, const Operand& b);
GraphTensor operator%(const Operand& a, const Operand& b);

// --- Free functions
[[nodiscard]] GraphTensor matmul(const Operand& a, const Operand& b);
[[nodiscard]] GraphTensor where(const GraphTensor& condition, const Operand& if_true,
                                const Operand& if_false);
[[nodiscard]] GraphTensor maximum(const Operand& a, const Operand& b);
[[nodiscard]] GraphTensor minimum(const Operand& a, const Operand& b);
/// base ** exponent for a number as base.
[[nodiscard]] GraphTensor pow(const Operand& base, const Operand& exponent);
/// Tensors one after another along `axis`; other dims are equal. Exact copies: no arithmetic on the values.
[[nodiscard]] GraphTensor concat(std::span<const GraphTensor> tensors, int axis,
                                 Where where = Where::current());
[[nodiscard]] GraphTensor concat(std::initializer_list<GraphTensor> tensors, int axis,
                                 Where where = Where::current());
/// Tensors of equal dims along a new axis.
[[nodiscard]] GraphTensor stack(std::span<const GraphTensor> tensors, int axis = 0,
                                Where where = Where::current());
[[nodiscard]] GraphTensor stack(std::initializer_list<GraphTensor> tensors, int axis = 0,
                                Where where = Where::current());
/// Einstein summation: "bij,bjk->bik", with "..." for axes that broadcast; a letter repeated in one operand
/// takes the diagonal; without "->" the letters that stand once remain, in alphabetical order. Contracts from
/// left to right.  Errors: ShapeError with the equation.  Example: einsum("...ij,jk->...ik", {x, w})
[[nodiscard]] GraphTensor einsum(std::string_view equation, std::span<const GraphTensor> operands,
                                 Where where = Where::current());
[[nodiscard]] GraphTensor einsum(std::string_view equation, std::initializer_list<GraphTensor> operands,
                                 Where where = Where::current());

struct AttentionOptions {
  bool causal = false;  ///< key j is seen by query i if j <= i + (keys - queries)
  double scale = 0;     ///< 0: 1/sqrt(head size)
  double dropout = 0;   ///< probability with which a weight is zeroed, the others scaled up (for training)
};
/// softmax(q k^T * scale + mask) v, as plain math. A row masked whole gives zeros, also as gradients.
/// Shapes: q [..., S, E], k [..., T, E], v [..., T, V] -> [..., S, V]; mask broadcasts to [..., S, T]: bool
/// (true = seen) or added.
[[nodiscard]] GraphTensor attention(const GraphTensor& q, const GraphTensor& k, const GraphTensor& v,
                                    const AttentionOptions& options = {}, Where where = Where::current());
[[nodiscard]] GraphTensor attention(const GraphTensor& q, const GraphTensor& k, const GraphTensor& v,
                                    const GraphTensor& mask, const AttentionOptions& options = {},
                                    Where where = Where::current());
/// The weights that `attention` gives the values: softmax(q k^T * scale + mask), before any dropout.
/// Shapes: q [..., S, E], k [..., T, E] -> [..., S, T].
[[nodiscard]] GraphTensor attention_weights(const GraphTensor& q, const GraphTensor& k,
                                            const AttentionOptions& options = {},
                                            Where where = Where::current());
[[nodiscard]] GraphTensor attention_weights(const GraphTensor& q, const GraphTensor& k,
                                            const GraphTensor& mask, const AttentionOptions& options = {},
                                            Where where = Where::current());

/// Declares state: after each run `state` (an input) takes the value of `next`; all states change at once.
void assign(const GraphTensor& state, const GraphTensor& next, Where where = Where::current());

/// The life-cycle calls for collections of tensors (vectors, arrays, maps' values, nested).
template <std::ranges::range R>
void keep(R&& tensors) {
  for (auto&& tensor : tensors)
    if constexpr (std::ranges::range<decltype(tensor)>)
      keep(tensor);
    else
      tensor.keep();
}
template <std::ranges::range R>
void retrieve(R&& tensors) {
  for (auto&& tensor : tensors)
    if constexpr (std::ranges::range<decltype(tensor)>)
      retrieve(tensor);
    else
      tensor.retrieve();
}
template <std::ranges::range R>
void drop(R&& tensors) {
  for (auto&& tensor : tensors)
    if constexpr (std::ranges::range<decltype(tensor)>)
      drop(tensor);
    else
      tensor.drop();
}

}  // namespace luminal

#endif  // LUMINAL_TENSOR_FUNCTIONS_H
