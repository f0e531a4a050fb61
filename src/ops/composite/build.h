#pragma once
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/call_site.h"
#include "base/fail.h"
#include "luminal/graph.h"
#include "luminal/monoid.h"
#include "luminal/ops.h"

/// What the high-level ops are written with. Each public function opens a CallSite and then reads as plain
/// math over these helpers and other public functions:
///
///   GraphTensor GraphTensor::square(Where at) const {
///     const CallSite site("square", at);
///     const GraphTensor x = numeric(*this);
///     return elementwise(kMul, {x, x});
///   }
namespace luminal::composite {

// --- Messages

/// The calls in progress, outermost first, for the head of a message: "attention > matmul".
[[nodiscard]] std::string label();

/// Throws `E` with "[label] message (made at user.cpp:41)".
template <class E = ShapeError, class... Args>
[[noreturn]] void reject(fmt::format_string<Args...> format, Args&&... args) {
  fail<E>("[{}] {}", label(), fmt::format(format, std::forward<Args>(args)...));
}

/// `axis` counted from the front. Errors: ShapeError.
[[nodiscard]] int axis_of(const GraphTensor& x, int axis);
/// The place of an axis to be inserted: one more than there are axes.
[[nodiscard]] int new_axis_of(const GraphTensor& x, int axis);

// --- Nodes

/// The one output of a new node. Errors: Error if the inputs are of several graphs.
GraphTensor apply(const OpDef& op, std::span<const GraphTensor> inputs, Attributes attributes = {});
inline GraphTensor apply(const OpDef& op, std::initializer_list<GraphTensor> inputs,
                         Attributes attributes = {}) {
  return apply(op, std::span(inputs.begin(), inputs.size()), std::move(attributes));
}
GraphTensor leaf(Graph& graph, const OpDef& op, Attributes attributes);

/// A node over the inputs broadcast to common dims; their dtypes must already be what the op takes.
GraphTensor elementwise(const OpDef& op, std::initializer_list<GraphTensor> inputs,
                        Attributes attributes = {});

/// Dims that all broadcast to, right-aligned. Errors: ShapeError with both shapes and what would fit.
[[nodiscard]] Shape broadcast_dims(std::span<const GraphTensor> tensors);
/// A view of `x` with these dims, to which it must be known to broadcast.
[[nodiscard]] GraphTensor broadcast_to(const GraphTensor& x, const Shape& dims);

// --- Numbers and dtypes

/// A rank-0 constant. Errors: DtypeError if `dtype` cannot hold the value.
GraphTensor scalar(Graph& graph, Number value, Dtype dtype);
/// The same in the graph of `like`, and of its dtype.
GraphTensor scalar(const GraphTensor& like, Number value);
GraphTensor scalar(const GraphTensor& like, Number value, Dtype dtype);
/// Errors: DtypeError if `dtype` cannot hold the value.
void check_fits(Number value, Dtype dtype);

/// What happens to the common dtype of an op's operands.
enum class Promotion {
  Plain,       ///< the table in dtype.h
  Arithmetic,  ///< and bool counts as the numbers 0 and 1: i64
  Floating,    ///< and integers and bool give f32
};
/// Operands as tensors of their common dtype, not yet broadcast; `graph` owns them all.
[[nodiscard]] std::vector<GraphTensor> promoted(Graph& graph, std::span<const Operand> operands,
                                                Promotion promotion);
/// The same for two operands, of which at least one is a tensor.
[[nodiscard]] std::pair<GraphTensor, GraphTensor> promoted(const Operand& a, const Operand& b,
                                                           Promotion promotion);
/// The graph of the first operand that is a tensor.
[[nodiscard]] Graph graph_of(std::initializer_list<const Operand*> operands);
/// The number an operand is, or nullptr.
[[nodiscard]] const Number* number_of(const Operand& operand);
[[nodiscard]] const GraphTensor* tensor_in(const Operand& operand);

/// Bool as i64, so that arithmetic is defined.
[[nodiscard]] GraphTensor numeric(const GraphTensor& x);
/// Integers and bool as f32.
[[nodiscard]] GraphTensor floating(const GraphTensor& x);
/// Floating, and f16 and bf16 as f32: for formulas whose intermediate values need more range or digits.
[[nodiscard]] GraphTensor widened(const GraphTensor& x);
/// The dtype that `floating` gives, to which a result computed on `widened` values returns.
[[nodiscard]] Dtype floating_dtype(Dtype dtype);
/// True where x is not 0; NaN counts as true.
[[nodiscard]] GraphTensor truth(const GraphTensor& x);

// --- Small exact pieces

/// -x; of a constant, the constant.
[[nodiscard]] GraphTensor negated(const GraphTensor& x);
/// The order-reversing map without overflow: -x for floats, the complement for integers and bool.
[[nodiscard]] GraphTensor reversed(const GraphTensor& x);
[[nodiscard]] GraphTensor inverted(const GraphTensor& truth_value);  ///< logical not
[[nodiscard]] GraphTensor less(const GraphTensor& a, const GraphTensor& b);
[[nodiscard]] GraphTensor less(const GraphTensor& a, Number b);
[[nodiscard]] GraphTensor less(Number a, const GraphTensor& b);
[[nodiscard]] GraphTensor both(const GraphTensor& a, const GraphTensor& b);
[[nodiscard]] GraphTensor either(const GraphTensor& a, const GraphTensor& b);
/// `condition ? if_true : if_false`; nothing of the value not chosen gets through.
[[nodiscard]] GraphTensor select(const GraphTensor& condition, const GraphTensor& if_true,
                                 const GraphTensor& if_false);
[[nodiscard]] GraphTensor greater_of(const GraphTensor& a, const GraphTensor& b, Ties ties);
[[nodiscard]] GraphTensor lesser_of(const GraphTensor& a, const GraphTensor& b, Ties ties);
/// True where a float is not NaN.
[[nodiscard]] GraphTensor not_nan(const GraphTensor& x);
[[nodiscard]] std::string ties_name(Ties ties);

/// A reduction over resolved axes; `x` itself if there are none.
[[nodiscard]] GraphTensor reduced(const OpDef& op, const GraphTensor& x, const std::vector<int>& axes,
                                  bool keepdims, Attributes attributes = {});
[[nodiscard]] GraphTensor maximum_over(const GraphTensor& x, const std::vector<int>& axes, bool keepdims,
                                       Ties ties);
/// How many elements a reduction over `axes` takes in.
[[nodiscard]] Expression extent_of(const GraphTensor& x, const std::vector<int>& axes);
/// The sum of a * b over `axes`, broadcast to common dims. f16 and bf16 multiply and accumulate in f32.
[[nodiscard]] GraphTensor product_sum(const GraphTensor& a, const GraphTensor& b,
                                      const std::vector<int>& axes);
/// Integer formula over the flat index of `dims`.
[[nodiscard]] GraphTensor formula(Graph& graph, const Expression& e, Shape dims, Dtype dtype = Dtype::I64);
/// 0, 1, 2 ... along the axis (counted from the front) of `x`, of dims that broadcast to it.
[[nodiscard]] GraphTensor positions(const GraphTensor& x, int axis);

}  // namespace luminal::composite
