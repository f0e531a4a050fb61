#include "base/fail.h"
#include "luminal/gradient.h"
#include "luminal/graph.h"
#include "luminal/ops.h"
#include "ops/indexing.h"
#include "ops/scatter_updates.h"

namespace luminal {
namespace {

const std::string& mode_of(const Attributes& attributes) { return attributes.get<std::string>("mode"); }

std::vector<TensorType> infer_scatter(std::span<const TensorType> inputs, const Attributes& attributes) {
  ops::check_arity("scatter", inputs, 3);
  const std::string& mode = mode_of(attributes);
  if (mode != "assign" && mode != "add")
    fail<Error>("[scatter] mode is '{}'; choose 'assign' or 'add'", mode);
  ops::check_dtype("scatter", inputs[0], mode == "add" ? ops::Takes::Numbers : ops::Takes::All);
  ops::check_same_dtype("scatter", inputs[0], inputs[2]);
  TensorType result = inputs[0];
  if (attributes.has("dims")) {
    if (!result.dims.empty())
      fail<ShapeError>("[scatter] the base {} is no single number, and dims say how far one reaches",
                       result.to_string());
    result.dims = attributes.get<Shape>("dims");
  }
  TensorType written = inputs[1];
  written.dims = ops::indexed_dims("scatter", result.dims, inputs[1], attributes);
  ops::check_same_dims("scatter", written, inputs[2]);
  return {std::move(result)};
}

void scatter(EvalContext& context) {
  TensorData& out = context.outputs[0];
  const ops::IndexedPlaces places("scatter", *context.inputs[1], *context.inputs[0], out.dims,
                                  context.attributes);
  const ops::ScatterBase base{*context.inputs[0], context.attributes.has("dims")};
  places.checked([&] {
    mode_of(context.attributes) == "assign" ? ops::assign_updates(places, base, *context.inputs[2], out)
                                            : ops::add_updates(places, base, *context.inputs[2], out);
  });
}

/// The same node's form of index over other inputs.
GraphTensor along_the_index(const Gradient& g, const OpDef& op, std::initializer_list<GraphTensor> inputs,
                            Attributes attributes = {}) {
  Graph graph = g.upstream().graph();
  auto node = graph.add_op(op);
  for (const GraphTensor& input : inputs) node.input(input);
  for (const char* name : {"axis", "slices"})
    if (const Attribute* value = g.attributes().find(name)) attributes.set(name, *value);
  for (const auto& [name, value] : attributes.entries()) node.attribute(name, value);
  return node.finish();
}

GraphTensor assigned(const Gradient& g, const GraphTensor& number, const GraphTensor& updates) {
  return along_the_index(g, kScatter, {number, g.input(1), updates},
                         {{"mode", std::string("assign")}, {"dims", g.upstream().dims()}});
}

/// Gives the base its gradient, which is one number where the base is one.
void to_base(Gradient& g, const GraphTensor& gradient) {
  g.to(0, g.attributes().has("dims") ? gradient.sum() : gradient);
}

/// Of several updates of one place the last one stays: it alone gets the gradient.
void assign_gradient(Gradient& g) {
  const GraphTensor &index = g.input(1), &upstream = g.upstream();
  Graph graph = upstream.graph();
  const Shape written = g.input(2).dims();
  if (g.wants(0))
    to_base(g, along_the_index(g, kScatter, {upstream, index, graph.zeros(written, upstream.dtype())},
                               {{"mode", std::string("assign")}}));
  if (g.wants(2)) {
    const GraphTensor number = graph.iota(Expression::flat_index(), written);
    const GraphTensor last =
        along_the_index(g, kGather, {assigned(g, graph.constant(0, Dtype::I64), number), index});
    g.to(2, where(number.lt(last), 0, along_the_index(g, kGather, {upstream, index})));
  }
}

void add_gradient(Gradient& g) {
  if (g.wants(0)) to_base(g, g.upstream());
  if (g.wants(2)) g.to(2, along_the_index(g, kGather, {g.upstream(), g.input(1)}));
}

}  // namespace

const OpDef kScatter = {
    .name = "scatter",
    .arity = 3,
    .traits = Trait::Overwrites,
    .infer = infer_scatter,
    .evaluate = scatter,
    .gradient = [](Gradient& g) { mode_of(g.attributes()) == "add" ? add_gradient(g) : assign_gradient(g); },
    .flops_per_element = 1,
    .positions_input = 1,
    .variants = {{{"mode", std::string("assign")}}, {{"mode", std::string("add")}}},
    .doc =
        "A copy of the first input, or `dims` filled with it if it is one number, in which the places that "
        "the second "
        "names, as for gather, take (mode assign: the last one stays) or add the values of the third.",
};

}  // namespace luminal
