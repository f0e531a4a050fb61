#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "luminal/error.h"
#include "luminal/ops.h"
#include "validate/cases/case.h"

// The primitives, from their records: every dtype that the shape rule takes, on the record's own samples and
// on values inside every op's domain. What a name means in PyTorch stands in compare.py; a record that is not
// there fails.
namespace luminal::validate {
namespace {

constexpr Dtype kPlain[] = {Dtype::F32, Dtype::F64, Dtype::F16, Dtype::BF16, Dtype::I8,
                            Dtype::U8,  Dtype::I32, Dtype::I64, Dtype::Bool};

std::vector<Dtype> dtypes_of(const OpDef& op, Dtype dtype) {
  std::vector<Dtype> types(static_cast<size_t>(op.arity), dtype);
  if (&op == &kWhere) types[0] = Dtype::Bool;
  return types;
}

bool is_taken(const OpDef& op, Dtype dtype, const Attributes& attributes) {
  try {
    std::vector<TensorType> types;
    for (const Dtype each : dtypes_of(op, dtype)) types.push_back({each, {}});
    (void)op.infer(types, attributes);
    return true;
  } catch (const Error&) {
    return false;
  }
}

Build node_of(const OpDef& op, const Attributes& attributes) {
  return [&op, attributes](Graph& cx, const Tensors& inputs) {
    OpBuilder builder = cx.add_op(op);
    for (const GraphTensor& input : inputs) builder.input(input);
    for (const auto& [key, value] : attributes.entries()) builder.attribute(key, value);
    return Tensors{builder.finish()};
  };
}

/// Samples that the dtype holds.
std::vector<double> fitting(const OpDef& op, Dtype dtype) {
  std::vector<double> result;
  for (const double sample : op.samples) {
    if (!is_float(dtype) && !(std::abs(sample) < 0x1p62 && sample == std::floor(sample))) continue;
    if (dtype == Dtype::U8 && !(sample >= 0 && sample <= 255)) continue;
    if (dtype == Dtype::I8 && !(sample >= -128 && sample <= 127)) continue;
    if (dtype == Dtype::Bool && sample != 0 && sample != 1) continue;
    result.push_back(sample);
  }
  if (result.empty()) result = {0, 1};
  return result;
}

/// Python's text of the attributes that matter for the meaning.
std::string attribute_text(const Attributes& attributes) {
  std::string text;
  if (attributes.has("dtype")) text += fmt::format(", '{}'", name(attributes.get<Dtype>("dtype")));
  if (attributes.has("bits")) text += fmt::format(", {}", attributes.get<int64_t>("bits"));
  return text;
}

/// Tells variants of one meaning apart.
std::string ties_text(const Attributes& attributes) {
  return attributes.has("ties") ? ", ties " + attributes.get<std::string>("ties") : "";
}

void add_elementwise_op(Suite& suite, const OpDef& op, const Attributes& attributes) {
  const std::string variables[] = {"x", "x, y", "x, y, z"};
  for (const Dtype dtype : kPlain) {
    if (!is_taken(op, dtype, attributes)) continue;
    if (attributes.has("dtype") && is_quantized(attributes.get<Dtype>("dtype"))) continue;
    const std::vector<double> samples = fitting(op, dtype);
    const auto k = static_cast<int64_t>(samples.size());
    Spec spec;
    spec.group = fmt::format("primitive {}", op.name);
    spec.torch =
        fmt::format("PRIMITIVES['{}']({}{})", op.name, variables[op.arity - 1], attribute_text(attributes));
    spec.build = node_of(op, attributes);
    spec.dtypes = {dtype};
    spec.ulps = std::max(1.0, op.ulp) + 0.5;
    spec.scale = Scale::Element;
    spec.gradient = false;
    spec.label = spec.torch + ties_text(attributes) + "/samples";
    const std::vector<Dtype> types = dtypes_of(op, dtype);
    for (int input = 0; input < op.arity; ++input) {  // every sample with every other
      InputSpec given{.dims = {op.arity == 1 ? k : k * k}, .dtype = types[static_cast<size_t>(input)]};
      for (int64_t i = 0; i < given.dims[0]; ++i)
        given.given.push_back(samples[static_cast<size_t>(input == op.arity - 1 ? i % k : i / k)]);
      spec.inputs.push_back(std::move(given));
    }
    suite.specs.push_back(spec);
    // Gradients inside the domain of every op, away from where they jump.
    const bool to_float = !attributes.has("dtype") || is_float(attributes.get<Dtype>("dtype"));
    if (!op.gradient || !is_float(dtype) || !to_float) continue;
    for (InputSpec& input : spec.inputs)
      input = {.dims = {3, 5}, .low = 0.1, .high = 2, .dtype = input.dtype};
    if (&op == &kWhere) spec.inputs[0].given = {1, 0, 1, 1, 0};
    spec.label = spec.torch + ties_text(attributes) + "/domain";
    spec.scale = Scale::Tensor;
    spec.ulps = std::max(4.0, 4 * op.ulp);
    spec.gradient = true;
    suite.specs.push_back(spec);
  }
}

void add_reduction_op(Suite& suite, const OpDef& op, const Attributes& variant) {
  for (const std::vector<int64_t>& axes : {std::vector<int64_t>{0}, {1, 2}, {0, 1, 2}}) {
    Attributes attributes = variant;
    attributes.set("axes", axes);
    for (const Dtype dtype : kPlain) {
      Attributes of_scalar = variant;
      of_scalar.set("axes", std::vector<int64_t>{});
      if (!is_taken(op, dtype, of_scalar)) continue;
      Spec spec;
      spec.group = fmt::format("primitive {}", op.name);
      spec.torch = fmt::format("PRIMITIVES['{}'](x, ({},))", op.name, fmt::join(axes, ", "));
      spec.inputs = {{.dims = {2, 3, 4}, .low = 0.5, .high = 1.5, .values = Values::Distinct}};
      if (!is_float(dtype))
        spec.inputs = {{.dims = {2, 3, 4}, .low = 0, .high = 3, .values = Values::Integers}};
      if (dtype == Dtype::Bool) spec.inputs[0].high = 2;
      spec.build = node_of(op, attributes);
      spec.dtypes = {dtype};
      spec.ulps = 16;
      spec.gradient = static_cast<bool>(op.gradient);
      spec.label = spec.torch + ties_text(variant);
      suite.specs.push_back(spec);
    }
  }
}

}  // namespace

void add_primitives(Suite& suite) {
  for (const OpDef* op : all_ops()) {
    const std::vector<Attributes> variants = op->variants.empty() ? std::vector<Attributes>(1) : op->variants;
    for (const Attributes& variant : variants) {
      if (op->is(Trait::Elementwise) && op->arity > 0) add_elementwise_op(suite, *op, variant);
      if (op->monoid) add_reduction_op(suite, *op, variant);
    }
  }
}

}  // namespace luminal::validate
