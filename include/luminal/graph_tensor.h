// A guard and no #pragma once: the headers included at the end need this one.
#ifndef LUMINAL_GRAPH_TENSOR_H
#define LUMINAL_GRAPH_TENSOR_H
#include <array>
#include <concepts>
#include <functional>
#include <initializer_list>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "luminal/node.h"
#include "luminal/tensor_arguments.h"
#include "luminal/tensor_data.h"

/// A tensor of a lazy graph: a small handle to one value, seen through a view.
///
///   GraphTensor y = (x.matmul(w) + b).relu();      // broadcasting as in NumPy; nothing is computed yet
///   auto [batch, features] = y.dims2();
///
/// What its members take beside tensors is in tensor_arguments.h, functions of several tensors are in
/// tensor_functions.h and convolution.h; this header includes them all.
///
/// Handles may be copied freely; using one whose graph is gone is an Error. Math on handles of two graphs is
/// an Error. Names and meaning follow NumPy and PyTorch. Every function takes the caller's line for error
/// messages. Thread safety: as its graph's (graph.h): any thread may give and read data, one at a time
/// builds.
namespace luminal {

struct GraphState;
class Graph;
class GraphTensor;

/// The other side of an operator: a tensor, a number or an integer formula, with the caller's line.
struct Operand;

class GraphTensor {
 public:
  GraphTensor() = default;  ///< no tensor; using it is an Error
  GraphTensor(std::weak_ptr<GraphState> graph, Edge edge);

  // --- What it is
  [[nodiscard]] const Shape& dims() const { return view_->dims(); }
  [[nodiscard]] int rank() const { return view_->rank(); }
  [[nodiscard]] const Expression& dim(int axis) const;
  [[nodiscard]] Dtype dtype() const;
  [[nodiscard]] TensorType type() const { return {dtype(), dims()}; }
  [[nodiscard]] Expression dims1() const { return unpack<1>()[0]; }
  [[nodiscard]] std::array<Expression, 2> dims2() const { return unpack<2>(); }
  [[nodiscard]] std::array<Expression, 3> dims3() const { return unpack<3>(); }
  [[nodiscard]] std::array<Expression, 4> dims4() const { return unpack<4>(); }
  [[nodiscard]] std::array<Expression, 5> dims5() const { return unpack<5>(); }
  /// Its graph. Errors: Error if the graph is gone.
  [[nodiscard]] Graph graph() const;
  /// Its current value, after replacements by passes. Errors: Error if the graph or the node no longer
  /// exists.
  [[nodiscard]] Edge edge() const;
  [[nodiscard]] NodeId node() const { return edge().source.node; }
  [[nodiscard]] const ShapeTracker& view() const { return *view_; }
  [[nodiscard]] bool valid() const;
  /// The same value seen through another view of its buffer / of this tensor.
  [[nodiscard]] GraphTensor with_view(ShapeTracker view) const;

  // --- Data and life cycle (src/graph)
  /// Gives an input its data. Numbers convert to the tensor's dtype; floating numbers into an integer tensor
  /// are a DtypeError. One unknown named dim is taken from the number of elements. Errors: ShapeError if
  /// counts differ, Error if not an input.
  GraphTensor& set(const NestedList& values, Where where = Where::current());
  GraphTensor& set(std::initializer_list<NestedList> values, Where where = Where::current()) {
    return set(NestedList(values), where);
  }
  template <std::ranges::contiguous_range R>
    requires(!std::same_as<std::remove_cvref_t<R>, TensorData>)
  GraphTensor& set(const R& values, Where where = Where::current()) {
    using T = std::ranges::range_value_t<R>;
    return set_data(
        TensorData::of<T>({static_cast<int64_t>(std::ranges::size(values))}, std::span<const T>(values)),
        false, where);
  }
  GraphTensor& set(const std::vector<bool>& values, Where where = Where::current());
  /// Dense data of the tensor's own shape and dtype.
  GraphTensor& set(TensorData data, Where where = Where::current()) {
    return set_data(std::move(data), true, where);
  }
  /// Data together with its sizes; named dims take them.
  template <std::ranges::contiguous_range R>
  GraphTensor& set_dyn(const R& values, std::vector<int64_t> sizes, Where where = Where::current()) {
    using T = std::ranges::range_value_t<R>;
    check_values(std::ranges::size(values), sizes, where);
    return set_data(TensorData::of<T>(std::move(sizes), std::span<const T>(values)), true, where);
  }
  /// As set, with the dense data that `make` gives when they are first needed: by a run, or to be read. It is
  /// called at most once, and not at all if other data come first: a compile needs no data. It may not use the
  /// graph.  Errors: Error if not an input; from what needs the data: ShapeError or DtypeError if they do not
  /// fit, and those of `make`.
  GraphTensor& set_lazily(std::function<TensorData()> make, Where where = Where::current());
  /// As set_lazily, with a `read` that gives the same data each time, as the reader of a file does: while all that runs
  /// use is a copy in an order that suits their kernels, the graph gives the memory of the data back, and `read` is
  /// called again where something needs them as they were.
  GraphTensor& set_from(std::function<TensorData()> read, Where where = Where::current());
  /// `loader` is called for the data at each run that needs it.
  GraphTensor& set_deferred(std::function<TensorData()> loader, Where where = Where::current());
  /// `check` sees the data that this input holds now and whatever it is given later, before it is stored, and
  /// refuses them by throwing. Errors: Error if not an input; those of the check.
  GraphTensor& check_data(std::function<void(const TensorData&)> check, Where where = Where::current());
  /// The value survives runs: computed once, then read until it is dropped.
  GraphTensor& keep();
  /// The value is wanted on the host after each run.
  GraphTensor& retrieve();
  /// Forgets the value and the marks keep and retrieve.
  void drop();
  GraphTensor& set_name(std::string name);
  [[nodiscard]] std::string name() const;
  /// The value in row-major order of this tensor's dims. T must be the dtype's C++ type, or
  /// double/float/int64_t, to which all convert. Errors: Error if there is no value (execute first; retrieve
  /// or keep it), DtypeError for another T.
  template <class T>
  [[nodiscard]] std::vector<T> data() const {
    const TensorData converted = data_as(dtype_of<T>());
    const auto values = converted.as<T>();
    return std::vector<T>(values.begin(), values.end());
  }
  [[nodiscard]] TensorData data() const;
  /// The value of a tensor of one element: `loss.item()`, or `count.item<int64_t>()` as data() has its types.
  /// Errors: those of data(); ShapeError if there are several elements, or none.
  template <class T = double>
  [[nodiscard]] T item() const {
    const std::vector<T> values = data<T>();
    if (values.size() != 1) not_an_item(values.size());
    return values.front();
  }
  /// "f32[2, 3] [[1, 2, 3], [4, 5, 6]]", long axes shortened with "...".
  [[nodiscard]] std::string to_string(int max_items = 6) const;
  /// Declares this input as state: after each run it takes the value that `next` had in it.
  void assign(const GraphTensor& next, Where where = Where::current()) const;

  // --- Unary (src/ops/composite/unary.cpp, activation.cpp): elementwise. f16 and bf16 activations are
  // computed in f32 and rounded once.
  /// Absolute value. The gradient at 0 is 0.
  [[nodiscard]] GraphTensor abs(Where where = Where::current()) const;
  /// -1, 0 or 1; NaN stays NaN, as in NumPy.
  [[nodiscard]] GraphTensor sign(Where where = Where::current()) const;
  /// Next whole number below, above, nearest (half to even), toward 0. Integers are whole already.
  [[nodiscard]] GraphTensor floor(Where where = Where::current()) const;
  [[nodiscard]] GraphTensor ceil(Where where = Where::current()) const;
  [[nodiscard]] GraphTensor round(Where where = Where::current()) const;
  [[nodiscard]] GraphTensor trunc(Where where = Where::current()) const;
  /// Integers and bool give f32, here and in all functions of floats that follow.
  [[nodiscard]] GraphTensor exp(Where where = Where::current()) const;
  [[nodiscard]] GraphTensor exp2(Where where = Where::current()) const;
  [[nodiscard]] GraphTensor log(Where where = Where::current()) const;
  [[nodiscard]] GraphTensor log2(Where where = Where::current()) const;
  [[nodiscard]] GraphTensor log1p(Where where = Where::current()) const;
  [[nodiscard]] GraphTensor expm1(Where where = Where::current()) const;
  [[nodiscard]] GraphTensor sin(Where where = Where::current()) const;
  [[nodiscard]] GraphTensor cos(Where where = Where::current()) const;
  [[nodiscard]] GraphTensor tan(Where where = Where::current()) const;
  [[nodiscard]] GraphTensor tanh(Where where = Where::current()) const;
  [[nodiscard]] GraphTensor erf(Where where = Where::current()) const;
  [[nodiscard]] GraphTensor sqrt(Where where = Where::current()) const;
  /// 1 / sqrt(x).
  [[nodiscard]] GraphTensor rsqrt(Where where = Where::current()) const;
  [[nodiscard]] GraphTensor reciprocal(Where where = Where::current()) const;
  [[nodiscard]] GraphTensor square(Where where = Where::current()) const;
  /// True where the element is 0 (false); NaN counts as true.
  [[nodiscard]] GraphTensor logical_not(Where where = Where::current()) const;
  /// Tests of floats; integers are finite.
  [[nodiscard]] GraphTensor isnan(Where where = Where::current()) const;
  [[nodiscard]] GraphTensor isinf(Where where = Where::current()) const;
  [[nodiscard]] GraphTensor isfinite(Where where = Where::current()) const;
  /// The value itself; gradients end here (PyTorch's detach).
  [[nodiscard]] GraphTensor stop_gradient(Where where = Where::current()) const;
  /// max(0, x). The gradient at 0 is 0, and NaN stays NaN.
  [[nodiscard]] GraphTensor relu(Where where = Where::current()) const;
  /// 1 / (1 + exp(-x)), and its gradient, finite for every finite x.
  [[nodiscard]] GraphTensor sigmoid(Where where = Where::current()) const;
  /// x * sigmoid(x). NaN at minus infinity, as in PyTorch; so are gelu and mish.
  [[nodiscard]] GraphTensor silu(Where where = Where::current()) const;
  /// silu's other name.
  [[nodiscard]] GraphTensor swish(Where where = Where::current()) const;
  /// x * clip(x + 3, 0, 6) / 6, 0 at minus infinity; slopes at -3 and 3 are 0 and 1, as in PyTorch.
  [[nodiscard]] GraphTensor hard_swish(Where where = Where::current()) const;
  /// x * tanh(softplus(x)).
  [[nodiscard]] GraphTensor mish(Where where = Where::current()) const;
  friend GraphTensor operator-(const Operand& a);
  [[nodiscard]] GraphTensor leaky_relu(double negative_slope = 0.01, Where where = Where::current()) const;
  /// x above 0, alpha * expm1(x) elsewhere.
  [[nodiscard]] GraphTensor elu(double alpha = 1, Where where = Where::current()) const;
  /// x above 0, weight * x elsewhere. Shapes: a weight of rank 1 with more than one element holds one slope
  /// for each channel (axis 1), as in PyTorch; others broadcast.  Errors: ShapeError if the channels differ.
  [[nodiscard]] GraphTensor prelu(const Operand& weight) const;
  /// `approximate`: "none" (erf) or "tanh".  Errors: Error for another name.
  [[nodiscard]] GraphTensor gelu(std::string_view approximate = "none", Where where = Where::current()) const;
  /// log(1 + exp(beta * x)) / beta; x itself where beta * x > threshold, as in PyTorch.
  [[nodiscard]] GraphTensor softplus(double beta = 1, double threshold = 20,
                                     Where where = Where::current()) const;
  /// exp(x - m) / sum(exp(x - m)) over one or several axes, m their maximum, through which no gradient flows.
  /// A row of minus infinities is NaN, as in PyTorch (`attention` gives zeros there).
  [[nodiscard]] GraphTensor softmax(Axes axes = -1, Where where = Where::current()) const;
  /// log(softmax(x)), without the logarithm of a small number.
  [[nodiscard]] GraphTensor log_softmax(Axes axes = -1, Where where = Where::current()) const;
  /// First half times sigmoid (silu for swiglu) of the second half along `axis`, as PyTorch's glu.
  /// Errors: ShapeError if the size is odd.
  [[nodiscard]] GraphTensor glu(int axis = -1, Where where = Where::current()) const;
  [[nodiscard]] GraphTensor swiglu(int axis = -1, Where where = Where::current()) const;
  /// To another dtype: to integers toward zero (saturating, NaN gives 0), to bool "not 0".
  [[nodiscard]] GraphTensor cast(Dtype dtype, Where where = Where::current()) const;
  /// The bits read as another dtype of the same width.
  [[nodiscard]] GraphTensor as_dtype(Dtype dtype, Where where = Where::current()) const;

  // --- Binary (src/ops/composite/binary.cpp, compare.cpp, power.cpp)
  // Shapes: broadcast right-aligned; a size is repeated only if it is 1.  Dtypes: the table in dtype.h; bool
  // takes part in arithmetic as 0 and 1 (i64).  Errors: ShapeError with both shapes, DtypeError if a number
  // does not fit the tensor's integer dtype, Error for tensors of two graphs.
  friend GraphTensor operator+(const Operand& a, const Operand& b);
  friend GraphTensor operator-(const Operand& a, const Operand& b);
  friend GraphTensor operator*(const Operand& a, const Operand& b);
  /// True division: integers give f32.
  friend GraphTensor operator/(const Operand& a, const Operand& b);
  /// Remainder with the divisor's sign.
  friend GraphTensor operator%(const Operand& a, const Operand& b);
  GraphTensor& operator+=(const Operand& b);
  GraphTensor& operator-=(const Operand& b);
  GraphTensor& operator*=(const Operand& b);
  GraphTensor& operator/=(const Operand& b);
  GraphTensor& operator%=(const Operand& b);
  /// Quotient rounded down, exact for floats too (1 // 0.1 is 9); integers by 0 give 0. No gradient.
  [[nodiscard]] GraphTensor floor_div(const Operand& b) const;
  [[nodiscard]] GraphTensor fmod(const Operand& b) const;  ///< remainder with the dividend's sign
  /// Negative bases with whole exponents are exact in sign; integers wrap.  Errors: DtypeError for an integer
  /// to a negative number.
  [[nodiscard]] GraphTensor pow(const Operand& exponent) const;
  /// NaN if either is NaN; a tie splits the gradient.
  [[nodiscard]] GraphTensor maximum(const Operand& b) const;
  [[nodiscard]] GraphTensor minimum(const Operand& b) const;
  /// NaN stays NaN; a bound that is absent is minus or plus infinity. The gradient passes at the bounds.
  [[nodiscard]] GraphTensor clip(const Operand& low, const Operand& high) const;
  /// Comparisons give bool; with NaN all are false but `ne`.
  [[nodiscard]] GraphTensor lt(const Operand& b) const;
  [[nodiscard]] GraphTensor gt(const Operand& b) const;
  [[nodiscard]] GraphTensor le(const Operand& b) const;
  [[nodiscard]] GraphTensor ge(const Operand& b) const;
  [[nodiscard]] GraphTensor eq(const Operand& b) const;
  [[nodiscard]] GraphTensor ne(const Operand& b) const;
  /// Of "not 0", NaN counting as true.
  [[nodiscard]] GraphTensor logical_and(const Operand& b) const;
  [[nodiscard]] GraphTensor logical_or(const Operand& b) const;
  [[nodiscard]] GraphTensor logical_xor(const Operand& b) const;
  /// Errors: DtypeError for floats.
  [[nodiscard]] GraphTensor bitwise_and(const Operand& b) const;
  [[nodiscard]] GraphTensor bitwise_or(const Operand& b) const;
  [[nodiscard]] GraphTensor bitwise_xor(const Operand& b) const;
  /// Bits moved left (amount > 0) or, arithmetically, right (amount < 0).
  [[nodiscard]] GraphTensor shift(const Operand& amount) const;
  /// This tensor is the condition (bool, or numbers: not 0). What is not chosen leaves no trace, NaN
  /// included.
  [[nodiscard]] GraphTensor where(const Operand& if_true, const Operand& if_false) const;

  // --- Reductions (src/ops/composite/reduce.cpp, scan.cpp)
  // Over one axis, several, or all; `keepdims` leaves size 1. Over nothing: 0, 1, minus (plus) infinity for
  // max (min), NaN for the mean.
  /// Dtypes: integers and bool add up in i64, f16 and bf16 in f32.
  [[nodiscard]] GraphTensor sum(Axes axes = {}, bool keepdims = false, Where where = Where::current()) const;
  /// Dtypes: integers and bool give f32. Range: an infinity where the sum is one.
  [[nodiscard]] GraphTensor mean(Axes axes = {}, bool keepdims = false, Where where = Where::current()) const;
  /// NaN if any is NaN. `ties`: which of equal maxima get the gradient.
  [[nodiscard]] GraphTensor max(Axes axes = {}, bool keepdims = false, Ties ties = Ties::Split,
                                Where where = Where::current()) const;
  [[nodiscard]] GraphTensor min(Axes axes = {}, bool keepdims = false, Ties ties = Ties::Split,
                                Where where = Where::current()) const;
  [[nodiscard]] GraphTensor prod(Axes axes = {}, bool keepdims = false, Where where = Where::current()) const;
  /// Sum of squared distances from the mean by (count - correction); NaN for a single element. Range: an
  /// infinity where the sum or that of the squared distances is one (f16 and bf16: in f32).
  [[nodiscard]] GraphTensor var(Axes axes = {}, bool keepdims = false, int correction = 1,
                                Where where = Where::current()) const;
  [[nodiscard]] GraphTensor std(Axes axes = {}, bool keepdims = false, int correction = 1,
                                Where where = Where::current()) const;
  /// log(sum(exp(x))), stable. A row of minus infinities gives minus infinity, and a gradient of 0.
  [[nodiscard]] GraphTensor logsumexp(Axes axes = {}, bool keepdims = false,
                                      Where where = Where::current()) const;
  /// (sum |x|^p)^(1/p); p = 0 counts what is not 0, p = +-infinity is the greatest (least) |x|. The gradient
  /// at the origin is 0.
  [[nodiscard]] GraphTensor norm(double p = 2, Axes axes = {}, bool keepdims = false,
                                 Where where = Where::current()) const;
  [[nodiscard]] GraphTensor any(Axes axes = {}, bool keepdims = false, Where where = Where::current()) const;
  [[nodiscard]] GraphTensor all(Axes axes = {}, bool keepdims = false, Where where = Where::current()) const;
  /// Position (i64) of the greatest (least) element, the first of equals; NaN counts as such, as in PyTorch.
  /// Errors: ShapeError for an axis of size 0.
  [[nodiscard]] GraphTensor argmax(int axis, bool keepdims = false, Where where = Where::current()) const;
  [[nodiscard]] GraphTensor argmin(int axis, bool keepdims = false, Where where = Where::current()) const;
  /// Sum, maximum, product of each element and all before it. Cost: O(n). Sums of floats accumulate in f64.
  [[nodiscard]] GraphTensor cumsum(int axis, Where where = Where::current()) const;
  [[nodiscard]] GraphTensor cummax(int axis, Where where = Where::current()) const;
  /// An infinity stays one until a zero. Dtypes: f32 multiplies in f64, f16 and bf16 in f32.
  [[nodiscard]] GraphTensor cumprod(int axis, Where where = Where::current()) const;
  /// Elements in order along `axis`; equal ones keep theirs (stable), NaN is the greatest, as in PyTorch. The
  /// gradient goes to where a value came from. Cost: O(n), a few passes for each byte of an element.
  [[nodiscard]] GraphTensor sort(int axis = -1, bool descending = false,
                                 Where where = Where::current()) const;
  /// The positions (i64) that `sort` takes the elements from.
  [[nodiscard]] GraphTensor argsort(int axis = -1, bool descending = false,
                                    Where where = Where::current()) const;
  /// The k greatest (least) elements along `axis`, the first one first, and their positions (i64); of equal
  /// ones the first. Errors: ShapeError if k is below 0 or above a known size, Error at run time
  /// if above another. Cost: O(n).
  [[nodiscard]] std::pair<GraphTensor, GraphTensor> topk(int64_t k, int axis = -1, bool largest = true,
                                                         Where where = Where::current()) const;

  // --- Normalisation (src/ops/composite/norm.cpp)
  /// (x - mean) / sqrt(variance + epsilon), no weights; the variance divides by the count. Range: 0 where the
  /// sum of the squared distances is infinite, NaN where the sum is (f16 and bf16: in f32).
  [[nodiscard]] GraphTensor layer_norm(Axes axes = -1, double epsilon = 1e-5,
                                       Where where = Where::current()) const;
  /// x / sqrt(mean(x^2) + epsilon), as std_norm.
  [[nodiscard]] GraphTensor rms_norm(Axes axes = -1, double epsilon = 1e-6,
                                     Where where = Where::current()) const;
  /// x - mean(x).
  [[nodiscard]] GraphTensor mean_norm(Axes axes = -1, Where where = Where::current()) const;
  [[nodiscard]] GraphTensor std_norm(Axes axes = -1, double epsilon = 1e-5,
                                     Where where = Where::current()) const;
  /// x / max(norm(p), epsilon).
  [[nodiscard]] GraphTensor normalize(double p = 2, Axes axes = -1, double epsilon = 1e-12,
                                      Where where = Where::current()) const;
  /// The channels (axis 1 of [N, C, ...]) in `groups` equal groups, each normalised as by layer_norm.
  /// Errors: ShapeError below rank 2, or if the groups do not divide the channels.
  [[nodiscard]] GraphTensor group_norm(int64_t groups, double epsilon = 1e-5,
                                       Where where = Where::current()) const;
  /// Each channel (axis 1 of [N, C, ...]) by its own mean and variance over all other axes.
  [[nodiscard]] GraphTensor batch_norm(double epsilon = 1e-5, Where where = Where::current()) const;
  /// The same with mean and variance given, [C] each, as running statistics are.
  [[nodiscard]] GraphTensor batch_norm(const GraphTensor& mean, const GraphTensor& variance,
                                       double epsilon = 1e-5, Where where = Where::current()) const;

  // --- Movement (src/ops/composite/movement.cpp): views, no copy. Joining chooses between padded views
  // (concat.cpp).
  [[nodiscard]] GraphTensor permute(std::vector<int> order, Where where = Where::current()) const;
  [[nodiscard]] GraphTensor transpose(int a = -2, int b = -1, Where where = Where::current()) const;
  [[nodiscard]] GraphTensor t(Where where = Where::current()) const;  ///< the last two axes exchanged
  /// Row-major; one dim may be -1.  Errors: ShapeError if the counts of elements differ.
  [[nodiscard]] GraphTensor reshape(Shape dims, Where where = Where::current()) const;
  [[nodiscard]] GraphTensor flatten(int first = 0, int last = -1, Where where = Where::current()) const;
  /// Broadcasts to `dims`, right-aligned; -1 keeps a size.
  [[nodiscard]] GraphTensor expand(Shape dims, Where where = Where::current()) const;
  /// Inserts a broadcast axis of that size before `axis`.
  [[nodiscard]] GraphTensor expand_dim(int axis, const Expression& size,
                                       Where where = Where::current()) const;
  [[nodiscard]] GraphTensor unsqueeze(int axis, Where where = Where::current()) const;
  [[nodiscard]] GraphTensor squeeze(int axis, Where where = Where::current()) const;
  /// Axes a .. b as one; split_dims puts `inner` just after `axis`: [50, 3].split_dims(0, 5) is [10, 5, 3].
  [[nodiscard]] GraphTensor merge_dims(int a, int b, Where where = Where::current()) const;
  [[nodiscard]] GraphTensor split_dims(int axis, const Expression& inner,
                                       Where where = Where::current()) const;
  /// NumPy's basic indexing; see Subscript.  Errors: ShapeError if there are more entries than axes, or for a
  /// position out of range (at the run where the size is not known before).
  [[nodiscard]] GraphTensor operator[](const Subscript& subscript) const;
  /// [start, end) of the first axes, the others whole. Constants count from the end if negative and are
  /// clamped, as in Python.  Example: x.slice({{0, 2}, {-3, INT64_MAX}})
  [[nodiscard]] GraphTensor slice(RangePairs ranges, Where where = Where::current()) const;
  [[nodiscard]] GraphTensor slice_along(int axis, const Expression& start, const Expression& end,
                                        const Expression& step = 1, Where where = Where::current()) const;
  /// (before, after) of the first axes; a negative constant cuts off.  Errors: DtypeError if `fill` does not
  /// fit.
  [[nodiscard]] GraphTensor pad(RangePairs amounts, Number fill = 0, Where where = Where::current()) const;
  [[nodiscard]] GraphTensor pad_along(int axis, const Expression& before, const Expression& after,
                                      Number fill = 0, Where where = Where::current()) const;
  [[nodiscard]] GraphTensor concat_along(const Operand& other, int axis) const;
  /// Pieces of `size`, the last one shorter.  Errors: ShapeError if their number depends on the run.
  [[nodiscard]] std::vector<GraphTensor> split(const Expression& size, int axis = 0,
                                               Where where = Where::current()) const;
  /// At most `chunks` pieces of equal size, the last one shorter, as PyTorch's chunk.
  [[nodiscard]] std::vector<GraphTensor> chunk(int chunks, int axis = 0,
                                               Where where = Where::current()) const;
  [[nodiscard]] GraphTensor repeat(Shape times,
                                   Where where = Where::current()) const;  ///< tiles, as PyTorch's repeat
  [[nodiscard]] GraphTensor flip(Axes axes, Where where = Where::current()) const;
  /// On and below (above) a diagonal of the last two axes; 0 elsewhere, whatever stood there.
  [[nodiscard]] GraphTensor tril(const Expression& diagonal = 0, Where where = Where::current()) const;
  [[nodiscard]] GraphTensor triu(const Expression& diagonal = 0, Where where = Where::current()) const;
  /// Moved by `shift` along `axis`; what leaves at one end comes in at the other.
  [[nodiscard]] GraphTensor roll(const Expression& shift, int axis, Where where = Where::current()) const;
  /// Windows of `size` every `step` elements along `axis`, as a new last axis (PyTorch's Tensor.unfold).
  [[nodiscard]] GraphTensor unfold(int axis, const Expression& size, const Expression& step,
                                   Where where = Where::current()) const;
  /// Drops `size` elements of the last axis after every `spacing`: [0..9].excise(2, 3) is [0, 1, 5, 6].
  [[nodiscard]] GraphTensor excise(const Expression& spacing, const Expression& size,
                                   Where where = Where::current()) const;
  /// (..., N) -> (..., windows, kernel).
  [[nodiscard]] GraphTensor pool_last_dim(const Expression& kernel, const Expression& stride = 1,
                                          const Expression& dilation = 1,
                                          Where where = Where::current()) const;
  /// A dense copy, as a separate node; the tensor itself if its view is already dense.
  [[nodiscard]] GraphTensor contiguous(Where where = Where::current()) const;

  // --- Indexing (src/ops/composite/index.cpp)
  // Positions count from 0; one that is negative or out of range is an Error at run time.
  /// Elements at flat positions of this tensor: result has the index's dims.
  [[nodiscard]] GraphTensor gather(const GraphTensor& index, Where where = Where::current()) const;
  [[nodiscard]] GraphTensor take(const GraphTensor& index, Where where = Where::current()) const {
    return gather(index, where);
  }
  [[nodiscard]] GraphTensor gather(int axis, const GraphTensor& index, Where where = Where::current()) const {
    return gather_elements(axis, index, where);
  }
  /// out[i][j] = this[index[i][j]][j] for axis 0: index has this tensor's rank (PyTorch's gather).
  [[nodiscard]] GraphTensor gather_elements(int axis, const GraphTensor& index,
                                            Where where = Where::current()) const;
  /// Whole slices along `axis` at the positions in `index` (any rank): dims[:axis] + index dims +
  /// dims[axis+1:].
  [[nodiscard]] GraphTensor index_select(int axis, const GraphTensor& index,
                                         Where where = Where::current()) const;

  /// A copy of this tensor in which, for axis 0, out[index[i][j]][j] = updates[i][j] (PyTorch's scatter); of
  /// several updates of one place the last one in row-major order stays. Shapes: index and updates alike, and
  /// no larger than this tensor outside `axis`.  Errors: ShapeError, DtypeError.
  [[nodiscard]] GraphTensor scatter(int axis, const GraphTensor& index, const GraphTensor& updates,
                                    Where where = Where::current()) const;
  /// The same with += : all updates of a place add up.
  [[nodiscard]] GraphTensor scatter_add(int axis, const GraphTensor& index, const GraphTensor& updates,
                                        Where where = Where::current()) const;
  /// Integers [...] -> [..., classes]: 1 at the class, 0 elsewhere; a row of zeros for a number that is no
  /// class.
  [[nodiscard]] GraphTensor one_hot(const Expression& classes, Dtype dtype = Dtype::I64,
                                    Where where = Where::current()) const;

  // --- Products (src/ops/composite/matmul.cpp, conv.cpp, attention.cpp)
  /// Matrix product over the last two axes; leading axes broadcast (NumPy rules); rank 1 as in PyTorch.
  /// Shapes: [..., M, K] x [..., K, N] -> [..., M, N].  Errors: ShapeError if a rank is 0 or K differs. Cost:
  /// 2*M*N*K flops.
  [[nodiscard]] GraphTensor matmul(const Operand& other) const;
  /// Sum of products of two vectors of equal length.
  [[nodiscard]] GraphTensor dot(const Operand& other) const;

  // --- Markers (src/ops/composite/marker.cpp)
  /// Prints message and value at each run; returns its input and keeps it alive.
  GraphTensor print(std::string message, Where where = Where::current()) const;
  /// Compares the value at each run with a file of raw little-endian numbers, in the value's own dtype or f32
  /// (told apart by the file's size), and reports statistics, percentiles and the worst differences.
  GraphTensor diff(std::string file, double atol = 1e-5, double rtol = 1e-3,
                   Where where = Where::current()) const;
  /// Nothing fuses across: the value exists in memory.
  [[nodiscard]] GraphTensor graph_break(Where where = Where::current()) const;
  /// Zeroes each element with probability `p` and scales the rest by 1/(1-p).
  [[nodiscard]] GraphTensor dropout(double p, Where where = Where::current()) const;

 private:
  template <size_t N>
  [[nodiscard]] std::array<Expression, N> unpack() const {
    check_rank(static_cast<int>(N));
    std::array<Expression, N> result;
    for (size_t i = 0; i < N; ++i) result[i] = dims()[i];
    return result;
  }
  void check_rank(int wanted) const;
  [[noreturn]] void not_an_item(size_t elements) const;
  [[nodiscard]] TensorData data_as(Dtype dtype) const;
  void check_values(size_t given, const std::vector<int64_t>& sizes, Where where) const;
  GraphTensor& set_data(TensorData data, bool shaped, Where where);
  std::weak_ptr<GraphState> graph_;
  Value source_;
  std::shared_ptr<const ShapeTracker> view_ = std::make_shared<const ShapeTracker>();
};

}  // namespace luminal

// Functions of tensors, convolutions and pools among them.
#include "luminal/convolution.h"
#include "luminal/tensor_functions.h"

#endif  // LUMINAL_GRAPH_TENSOR_H
