#include "base/fail.h"
#include "luminal/gradient.h"
#include "luminal/graph.h"
#include "luminal/ops.h"
#include "ops/elementwise.h"
#include "ops/indexing.h"
#include "ops/reduction.h"

namespace luminal {
namespace {

const std::string& mode_of(const Attributes& attributes) { return attributes.get<std::string>("mode"); }

std::vector<TensorType> infer_scatter(std::span<const TensorType> inputs, const Attributes& attributes) {
  ops::check_arity("scatter", inputs, 3);
  const std::string& mode = mode_of(attributes);
  if (mode != "assign" && mode != "add")
    fail<Error>("[scatter] mode is '{}'; choose 'assign' or 'add'", mode);
  ops::check_dtype("scatter", inputs[0], mode == "add" ? ops::Takes::Numbers : ops::Takes::All);
  ops::check_index("scatter", inputs[1]);
  ops::check_same_dtype("scatter", inputs[0], inputs[2]);
  ops::check_same_dims("scatter", inputs[1], inputs[2]);
  return {inputs[0]};
}

template <class T>
void assign(const TensorData& base, std::span<const int64_t> positions, const TensorData& updates,
            TensorData& out) {
  out.bytes = base.bytes;
  const auto to = out.as<T>();
  const auto from = updates.as<T>();
  for (size_t i = 0; i < positions.size(); ++i) to[static_cast<size_t>(positions[i])] = from[i];
}

/// Floats accumulate in f64 and round once, as sums do.
template <class T>
void accumulate(const TensorData& base, std::span<const int64_t> positions, const TensorData& updates,
                TensorData& out) {
  using Acc = std::conditional_t<is_float(dtype_of<T>()), double, T>;
  const auto widen = [](T v) { return static_cast<Acc>(static_cast<ops::Compute<T>>(v)); };
  const auto start = base.as<T>();
  std::vector<Acc> sums(start.size());
  for (size_t i = 0; i < sums.size(); ++i) sums[i] = widen(start[i]);
  const auto from = updates.as<T>();
  for (size_t i = 0; i < positions.size(); ++i) {
    Acc& sum = sums[static_cast<size_t>(positions[i])];
    sum = ops::add(sum, widen(from[i]));
  }
  const auto to = out.as<T>();
  for (size_t i = 0; i < sums.size(); ++i) to[i] = static_cast<T>(sums[i]);
}

void scatter(EvalContext& context) {
  const TensorData &base = *context.inputs[0], &updates = *context.inputs[2];
  const auto positions = ops::flat_positions("scatter", *context.inputs[1], base, context.attributes);
  visit_dtype(base.dtype, [&]<class T>(T) {
    if (mode_of(context.attributes) == "assign")
      return assign<T>(base, positions, updates, context.outputs[0]);
    if constexpr (ops::takes_type<T, ops::Takes::Numbers>())
      accumulate<T>(base, positions, updates, context.outputs[0]);
  });
}

GraphTensor scattered(const GraphTensor& base, const GraphTensor& index, const GraphTensor& updates) {
  return base.graph()
      .add_op(kScatter)
      .input(base)
      .input(index)
      .input(updates)
      .attribute("mode", std::string("assign"))
      .finish();
}

/// Of several updates of one position the last one stays: it alone gets the gradient.
void assign_gradient(Gradient& g) {
  const GraphTensor &index = g.input(1), &upstream = g.upstream();
  Graph graph = upstream.graph();
  if (g.wants(0)) g.to(0, scattered(upstream, index, graph.zeros(index.dims(), upstream.dtype())));
  if (g.wants(2)) {
    const GraphTensor number = graph.iota(Expression::flat_index(), index.dims());
    const GraphTensor last = scattered(graph.zeros(upstream.dims(), Dtype::I64), index, number).gather(index);
    g.to(2, where(number.lt(last), 0, upstream.gather(index)));
  }
}

void add_gradient(Gradient& g) {
  if (g.wants(0)) g.to(0, g.upstream());
  if (g.wants(2)) g.to(2, g.upstream().gather(g.input(1)));
}

}  // namespace

const OpDef kScatter = {
    .name = "scatter",
    .arity = 3,
    .infer = infer_scatter,
    .evaluate = scatter,
    .gradient = [](Gradient& g) { mode_of(g.attributes()) == "add" ? add_gradient(g) : assign_gradient(g); },
    .flops_per_element = 1,
    .positions_input = 1,
    .variants = {{{"mode", std::string("assign")}}, {{"mode", std::string("add")}}},
    .doc =
        "A copy of the first input in which the flat positions in the second take (mode assign: the last one "
        "stays) or add the values of the third.",
};

}  // namespace luminal
