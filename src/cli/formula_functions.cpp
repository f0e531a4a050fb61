#include "cli/formula_functions.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/fail.h"
#include "luminal/convolution.h"

namespace luminal::cli {

// --- Arguments

const FormulaValue* FormulaCall::find(size_t at, const std::string& name) const {
  if (const auto option = options.find(name); option != options.end()) return &option->second;
  return at < arguments.size() ? &arguments[at] : nullptr;
}

GraphTensor FormulaCall::tensor(size_t at) const {
  if (at >= arguments.size()) fail("[{}] argument {} is missing: a tensor", function, at + 1);
  if (const auto* tensor = std::get_if<GraphTensor>(&arguments[at])) return *tensor;
  fail("[{}] argument {} must be a tensor", function, at + 1);
}

GraphTensor FormulaCall::operand(size_t at, Graph& graph) const {
  if (at < arguments.size())
    if (const auto* number = std::get_if<Number>(&arguments[at])) return graph.constant(*number);
  return tensor(at);
}

double FormulaCall::real(size_t at, const std::string& name, std::optional<double> fallback) const {
  const FormulaValue* value = find(at, name);
  if (!value && fallback) return *fallback;
  if (value)
    if (const auto* number = std::get_if<Number>(value)) return number->as<double>();
  fail("[{}] {} must be a number", function, name);
}

int64_t FormulaCall::integer(size_t at, const std::string& name, std::optional<int64_t> fallback) const {
  const FormulaValue* value = find(at, name);
  if (!value && fallback) return *fallback;
  if (value)
    if (const auto* number = std::get_if<Number>(value); number && number->is_integer())
      return number->as<int64_t>();
  fail("[{}] {} must be an integer", function, name);
}

namespace {

int narrow_axis(std::string_view function, const std::string& name, int64_t axis) {
  if (!std::in_range<int>(axis)) fail<ShapeError>("[{}] {} {} is out of range", function, name, axis);
  return static_cast<int>(axis);
}

}  // namespace

int FormulaCall::axis(size_t at, const std::string& name, std::optional<int64_t> fallback) const {
  return narrow_axis(function, name, integer(at, name, fallback));
}

bool FormulaCall::flag(size_t at, const std::string& name, bool fallback) const {
  return integer(at, name, fallback ? 1 : 0) != 0;
}

std::vector<int64_t> FormulaCall::integers(size_t at, const std::string& name) const {
  const FormulaValue* value = find(at, name);
  if (!value) return {};
  if (const auto* number = std::get_if<Number>(value); number && number->is_integer())
    return {number->as<int64_t>()};
  std::vector<int64_t> result;
  if (const auto* list = std::get_if<std::vector<Expression>>(value)) {
    for (const Expression& e : *list) {
      if (!e.constant()) fail("[{}] {} must be integers, '{}' is symbolic", function, name, e.to_string());
      result.push_back(*e.constant());
    }
    return result;
  }
  fail("[{}] {} must be an integer or a list such as [2, 2]", function, name);
}

void FormulaCall::check_count(const std::string& name, size_t given, size_t wanted) const {
  if (given != wanted) fail("[{}] {} has {} numbers; give one for all, or {}", function, name, given, wanted);
}

std::vector<int> FormulaCall::axes(size_t at, const std::string& name) const {
  const Shape list = shape(at, name);
  std::vector<int> result;
  for (const Expression& e : list) {
    if (!e.constant()) fail("[{}] {} must be integers, '{}' is symbolic", function, name, e.to_string());
    result.push_back(narrow_axis(function, name, *e.constant()));
  }
  return result;
}

Axes FormulaCall::axes_or_all(size_t at, const std::string& name) const {
  return find(at, name) ? Axes(axes(at, name)) : Axes();
}
Axes FormulaCall::axes_or(size_t at, const std::string& name, int fallback) const {
  return find(at, name) ? Axes(axes(at, name)) : Axes(fallback);
}

Shape FormulaCall::shape(size_t at, const std::string& name) const {
  const FormulaValue* value = find(at, name);
  if (value) {
    if (const auto* list = std::get_if<std::vector<Expression>>(value)) return *list;
    if (const auto* e = std::get_if<Expression>(value)) return {*e};
    if (const auto* number = std::get_if<Number>(value); number && number->is_integer())
      return {Expression(number->as<int64_t>())};
  }
  fail("[{}] {} must be a list of sizes such as [2, 3]", function, name);
}

std::string FormulaCall::text(size_t at, const std::string& name, std::optional<std::string> fallback) const {
  const FormulaValue* value = find(at, name);
  if (!value && fallback) return *fallback;
  if (value)
    if (const auto* text = std::get_if<std::string>(value)) return *text;
  fail("[{}] {} must be text in quotes", function, name);
}

// --- The functions

namespace {

using Call = FormulaCall;

template <auto method>
GraphTensor unary(const Call& call, Graph&) {
  return (call.tensor(0).*method)(std::source_location::current());
}

template <auto method>
GraphTensor reduction(const Call& call, Graph&) {
  return (call.tensor(0).*method)(call.axes_or_all(1, "axes"), call.flag(2, "keepdims", false),
                                  std::source_location::current());
}

/// var and std: `correction` is subtracted from the number of elements.
template <auto method>
GraphTensor deviation(const Call& call, Graph&) {
  return (call.tensor(0).*method)(call.axes_or_all(1, "axes"), call.flag(2, "keepdims", false),
                                  static_cast<int>(call.integer(3, "correction", 1)),
                                  std::source_location::current());
}

template <auto method>
GraphTensor binary(const Call& call, Graph& graph) {
  return (call.tensor(0).*method)(call.operand(1, graph));
}

template <size_t N>
ConvOptions<N> conv_options(const Call& call) {
  return {.stride = call.extents<N>(2, "stride", 1),
          .padding = call.extents<N>(3, "padding", 0),
          .dilation = call.extents<N>(4, "dilation", 1),
          .groups = call.integer(5, "groups", 1)};
}

template <size_t N>
PoolOptions<N> pool_options(const Call& call) {
  return {.kernel = call.extents<N>(1, "kernel", 2),
          .stride = call.extents<N>(2, "stride", 0),
          .padding = call.extents<N>(3, "padding", 0),
          .dilation = call.extents<N>(4, "dilation", 1)};
}

GraphTensor call_attention(const Call& call, Graph&) {
  const AttentionOptions options{.causal = call.flag(4, "causal", false), .scale = call.real(5, "scale", 0)};
  if (call.arguments.size() > 3)
    return attention(call.tensor(0), call.tensor(1), call.tensor(2), call.tensor(3), options);
  return attention(call.tensor(0), call.tensor(1), call.tensor(2), options);
}

using T = GraphTensor;

constexpr std::string_view kAxes = "x, axes=all, keepdims=0";
constexpr std::string_view kDeviation = "x, axes=all, keepdims=0, correction=1";
constexpr std::string_view kConv = "x, w, stride=1, padding=0, dilation=1, groups=1";
constexpr std::string_view kPool = "x, kernel=2, stride=kernel, padding=0, dilation=1";

constexpr std::array kFunctions{
    FormulaFunction{"abs", "x", unary<&T::abs>},
    FormulaFunction{"argmax", "x, axis=-1",
                    [](const Call& c, Graph&) { return c.tensor(0).argmax(c.axis(1, "axis", -1)); }},
    FormulaFunction{"argsort", "x, axis=-1",
                    [](const Call& c, Graph&) { return c.tensor(0).argsort(c.axis(1, "axis", -1)); }},
    FormulaFunction{"attention", "q, k, v, mask, causal=0, scale=1/sqrt(E)", call_attention},
    FormulaFunction{"avg_pool2d", kPool,
                    [](const Call& c, Graph&) { return avg_pool2d(c.tensor(0), pool_options<2>(c)); }},
    FormulaFunction{"cast", "x, dtype",
                    [](const Call& c, Graph&) { return c.tensor(0).cast(parse_dtype(c.text(1, "dtype"))); }},
    FormulaFunction{"ceil", "x", unary<&T::ceil>},
    FormulaFunction{
        "conv1d", kConv,
        [](const Call& c, Graph&) { return conv1d(c.tensor(0), c.tensor(1), conv_options<1>(c)); }},
    FormulaFunction{
        "conv2d", kConv,
        [](const Call& c, Graph&) { return conv2d(c.tensor(0), c.tensor(1), conv_options<2>(c)); }},
    FormulaFunction{
        "conv3d", kConv,
        [](const Call& c, Graph&) { return conv3d(c.tensor(0), c.tensor(1), conv_options<3>(c)); }},
    FormulaFunction{"cos", "x", unary<&T::cos>},
    FormulaFunction{"cummax", "x, axis=-1",
                    [](const Call& c, Graph&) { return c.tensor(0).cummax(c.axis(1, "axis", -1)); }},
    FormulaFunction{"cumprod", "x, axis=-1",
                    [](const Call& c, Graph&) { return c.tensor(0).cumprod(c.axis(1, "axis", -1)); }},
    FormulaFunction{"cumsum", "x, axis=-1",
                    [](const Call& c, Graph&) { return c.tensor(0).cumsum(c.axis(1, "axis", -1)); }},
    FormulaFunction{"einsum", "equation, tensors...",
                    [](const Call& c, Graph&) {
                      std::vector<GraphTensor> operands;
                      for (size_t i = 1; i < c.arguments.size(); ++i) operands.push_back(c.tensor(i));
                      return einsum(c.text(0, "equation"), operands);
                    }},
    FormulaFunction{"erf", "x", unary<&T::erf>},
    FormulaFunction{"exp", "x", unary<&T::exp>},
    FormulaFunction{"exp2", "x", unary<&T::exp2>},
    FormulaFunction{"expand", "x, dims",
                    [](const Call& c, Graph&) { return c.tensor(0).expand(c.shape(1, "dims")); }},
    FormulaFunction{"flatten", "x, first=0, last=-1",
                    [](const Call& c, Graph&) {
                      return c.tensor(0).flatten(c.axis(1, "first", 0), c.axis(2, "last", -1));
                    }},
    FormulaFunction{"flip", "x, axes",
                    [](const Call& c, Graph&) { return c.tensor(0).flip(c.axes(1, "axes")); }},
    FormulaFunction{"floor", "x", unary<&T::floor>},
    FormulaFunction{
        "gather", "x, index, axis=0",
        [](const Call& c, Graph&) { return c.tensor(0).index_select(c.axis(2, "axis", 0), c.tensor(1)); }},
    FormulaFunction{
        "gather_elements", "x, index, axis=0",
        [](const Call& c, Graph&) { return c.tensor(0).gather_elements(c.axis(2, "axis", 0), c.tensor(1)); }},
    FormulaFunction{"gelu", "x, approximate=\"none\"",
                    [](const Call& c, Graph&) { return c.tensor(0).gelu(c.text(1, "approximate", "none")); }},
    FormulaFunction{"layer_norm", "x, axes=-1, epsilon=1e-5",
                    [](const Call& c, Graph&) {
                      return c.tensor(0).layer_norm(c.axes_or(1, "axes", -1), c.real(2, "epsilon", 1e-5));
                    }},
    FormulaFunction{"log", "x", unary<&T::log>},
    FormulaFunction{"log2", "x", unary<&T::log2>},
    FormulaFunction{"log_softmax", "x, axes=-1",
                    [](const Call& c, Graph&) { return c.tensor(0).log_softmax(c.axes_or(1, "axes", -1)); }},
    FormulaFunction{"logsumexp", kAxes, reduction<&T::logsumexp>},
    FormulaFunction{"matmul", "a, b", binary<&T::matmul>},
    FormulaFunction{"max", kAxes,
                    [](const Call& c, Graph&) {
                      return c.tensor(0).max(c.axes_or_all(1, "axes"), c.flag(2, "keepdims", false));
                    }},
    FormulaFunction{"max_pool2d", kPool,
                    [](const Call& c, Graph&) { return max_pool2d(c.tensor(0), pool_options<2>(c)); }},
    FormulaFunction{"maximum", "a, b", binary<&T::maximum>},
    FormulaFunction{"mean", kAxes, reduction<&T::mean>},
    FormulaFunction{"min", kAxes,
                    [](const Call& c, Graph&) {
                      return c.tensor(0).min(c.axes_or_all(1, "axes"), c.flag(2, "keepdims", false));
                    }},
    FormulaFunction{"minimum", "a, b", binary<&T::minimum>},
    FormulaFunction{"permute", "x, order",
                    [](const Call& c, Graph&) { return c.tensor(0).permute(c.axes(1, "order")); }},
    FormulaFunction{"pow", "x, exponent", binary<&T::pow>},
    FormulaFunction{"prod", kAxes, reduction<&T::prod>},
    FormulaFunction{"reciprocal", "x", unary<&T::reciprocal>},
    FormulaFunction{"relu", "x", unary<&T::relu>},
    FormulaFunction{"reshape", "x, dims",
                    [](const Call& c, Graph&) { return c.tensor(0).reshape(c.shape(1, "dims")); }},
    FormulaFunction{"rms_norm", "x, axes=-1, epsilon=1e-6",
                    [](const Call& c, Graph&) {
                      return c.tensor(0).rms_norm(c.axes_or(1, "axes", -1), c.real(2, "epsilon", 1e-6));
                    }},
    FormulaFunction{"rsqrt", "x", unary<&T::rsqrt>},
    FormulaFunction{"scatter", "x, index, updates, axis=0",
                    [](const Call& c, Graph&) {
                      return c.tensor(0).scatter(c.axis(3, "axis", 0), c.tensor(1), c.tensor(2));
                    }},
    FormulaFunction{"scatter_add", "x, index, updates, axis=0",
                    [](const Call& c, Graph&) {
                      return c.tensor(0).scatter_add(c.axis(3, "axis", 0), c.tensor(1), c.tensor(2));
                    }},
    FormulaFunction{"sigmoid", "x", unary<&T::sigmoid>},
    FormulaFunction{"silu", "x", unary<&T::silu>},
    FormulaFunction{"sin", "x", unary<&T::sin>},
    FormulaFunction{"slice_along", "x, axis, start, end, step=1",
                    [](const Call& c, Graph&) {
                      return c.tensor(0).slice_along(c.axis(1, "axis"), c.integer(2, "start"),
                                                     c.integer(3, "end"), c.integer(4, "step", 1));
                    }},
    FormulaFunction{"softmax", "x, axes=-1",
                    [](const Call& c, Graph&) { return c.tensor(0).softmax(c.axes_or(1, "axes", -1)); }},
    FormulaFunction{"softplus", "x", [](const Call& c, Graph&) { return c.tensor(0).softplus(); }},
    FormulaFunction{"sort", "x, axis=-1",
                    [](const Call& c, Graph&) { return c.tensor(0).sort(c.axis(1, "axis", -1)); }},
    FormulaFunction{"sqrt", "x", unary<&T::sqrt>},
    FormulaFunction{"square", "x", unary<&T::square>},
    FormulaFunction{"squeeze", "x, axis",
                    [](const Call& c, Graph&) { return c.tensor(0).squeeze(c.axis(1, "axis")); }},
    FormulaFunction{"std", kDeviation, deviation<&T::std>},
    FormulaFunction{"sum", kAxes, reduction<&T::sum>},
    FormulaFunction{"t", "x", unary<&T::t>},
    FormulaFunction{"tanh", "x", unary<&T::tanh>},
    FormulaFunction{"topk", "x, k, axis=-1",
                    [](const Call& c, Graph&) {
                      return c.tensor(0).topk(c.integer(1, "k"), c.axis(2, "axis", -1)).first;
                    }},
    FormulaFunction{
        "transpose", "x, a=-2, b=-1",
        [](const Call& c, Graph&) { return c.tensor(0).transpose(c.axis(1, "a", -2), c.axis(2, "b", -1)); }},
    FormulaFunction{"unsqueeze", "x, axis",
                    [](const Call& c, Graph&) { return c.tensor(0).unsqueeze(c.axis(1, "axis")); }},
    FormulaFunction{"var", kDeviation, deviation<&T::var>},
    FormulaFunction{
        "where", "condition, a, b",
        [](const Call& c, Graph& g) { return c.tensor(0).where(c.operand(1, g), c.operand(2, g)); }},
};

}  // namespace

std::span<const FormulaFunction> formula_function_table() { return kFunctions; }

}  // namespace luminal::cli
