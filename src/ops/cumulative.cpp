#include "ops/cumulative.h"

#include "luminal/graph.h"
#include "ops/types.h"

namespace luminal::ops {

InferRule cumulative_types(std::string_view op, int arity) {
  return [op, arity](std::span<const TensorType> inputs, const Attributes& attributes) {
    check_arity(op, inputs, static_cast<size_t>(arity));
    for (const TensorType& type : inputs) {
      check_dtype(op, type, Takes::Numbers);
      check_same_dtype(op, inputs[0], type);
      check_same_dims(op, inputs[0], type);
    }
    check_axis(op, inputs[0], attributes);
    return std::vector{inputs[0]};
  };
}

std::vector<Attributes> cumulative_variants() {
  return {{{"axis", int64_t{0}}, {"reverse", false}}, {{"axis", int64_t{0}}, {"reverse", true}}};
}

Walkway Walkway::of(const Attributes& attributes) {
  return {.axis = static_cast<int>(attributes.get<int64_t>("axis")),
          .reverse = attributes.get<bool>("reverse")};
}

GraphTensor Walkway::walk(const OpDef& op, std::span<const GraphTensor> inputs) const {
  Graph graph = inputs[0].graph();
  auto node = graph.add_op(op);
  for (const GraphTensor& input : inputs) node.input(input);
  return node.attribute("axis", int64_t{axis}).attribute("reverse", reverse).finish();
}

GraphTensor Walkway::before(const GraphTensor& x, Number first) const {
  const Expression size = x.dim(axis);
  return reverse ? x.pad_along(axis, 0, 1, first).slice_along(axis, 1, size + 1)
                 : x.pad_along(axis, 1, 0, first).slice_along(axis, 0, size);
}

}  // namespace luminal::ops
