#include <algorithm>

#include "base/fail.h"
#include "base/threads.h"
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

/// Ranges of the elements that are written, one thread each: every thread meets all positions in their order and leaves
/// those of other ranges aside, so that the result does not depend on how many threads there are.
template <class Body>
void for_each_range(int64_t elements, Body&& body) {
  constexpr int64_t kElements = int64_t{1} << 20,
                    kMost = 16;  // a range's sums fit a cache; positions are read as often
  const int64_t ranges = std::clamp<int64_t>(elements / kElements, 1, kMost);
  parallel_for(ranges, 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) body(elements * r / ranges, elements * (r + 1) / ranges);
  });
}

/// Calls `update(position, i)` for update i of each position in [begin, end).
template <class Update>
void for_each_update(const ops::FlatPositions& positions, int64_t begin, int64_t end, Update&& update) {
  positions.for_each_piece(0, positions.count(), [&](int64_t first, std::span<const int64_t> piece) {
    for (size_t i = 0; i < piece.size(); ++i)
      if (piece[i] >= begin && piece[i] < end)
        update(static_cast<size_t>(piece[i]), static_cast<size_t>(first) + i);
  });
}

template <class T>
void assign(const TensorData& base, const ops::FlatPositions& positions, const TensorData& updates,
            TensorData& out) {
  const auto start = base.as<T>(), from = updates.as<T>();
  const auto to = out.as<T>();
  for_each_range(base.element_count(), [&](int64_t begin, int64_t end) {
    std::copy(start.begin() + begin, start.begin() + end, to.begin() + begin);
    for_each_update(positions, begin, end, [&](size_t position, size_t i) { to[position] = from[i]; });
  });
}

/// Floats accumulate in f64 and round once, as sums do.
template <class T>
void accumulate(const TensorData& base, const ops::FlatPositions& positions, const TensorData& updates,
                TensorData& out) {
  using Acc = std::conditional_t<is_float(dtype_of<T>()), double, T>;
  const auto widen = [](T v) { return static_cast<Acc>(static_cast<ops::Compute<T>>(v)); };
  const auto start = base.as<T>(), from = updates.as<T>();
  const auto to = out.as<T>();
  for_each_range(base.element_count(), [&](int64_t begin, int64_t end) {
    const auto first = static_cast<size_t>(begin), count = static_cast<size_t>(end - begin);
    std::vector<Acc> sums(count);
    for (size_t i = 0; i < count; ++i) sums[i] = widen(start[first + i]);
    for_each_update(positions, begin, end, [&](size_t position, size_t i) {
      Acc& sum = sums[position - first];
      sum = ops::add(sum, widen(from[i]));
    });
    for (size_t i = 0; i < count; ++i) to[first + i] = static_cast<T>(sums[i]);
  });
}

void scatter(EvalContext& context) {
  const TensorData &base = *context.inputs[0], &updates = *context.inputs[2];
  const ops::FlatPositions positions("scatter", *context.inputs[1], base, context.attributes);
  positions.checked([&] {
    visit_dtype(base.dtype, [&]<class T>(T) {
      if (mode_of(context.attributes) == "assign")
        return assign<T>(base, positions, updates, context.outputs[0]);
      if constexpr (ops::takes_type<T, ops::Takes::Numbers>())
        accumulate<T>(base, positions, updates, context.outputs[0]);
    });
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
