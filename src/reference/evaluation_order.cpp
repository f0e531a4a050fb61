#include "reference/evaluation_order.h"

#include <algorithm>

#include "base/fail.h"
#include "graph/needed.h"

namespace luminal::reference {

Dtype storage(Dtype dtype, ReferencePrecision precision) {
  if (is_quantized(dtype)) dtype = Dtype::F32;
  return precision == ReferencePrecision::Double && is_float(dtype) ? Dtype::F64 : dtype;
}

EvaluationOrder::EvaluationOrder(const Graph& graph, ReferencePrecision precision, bool everything)
    : graph_(graph), precision_(precision), everything_(everything) {
  find_needed();
  for (const NodeId id : graph.topological_order()) {
    if (!needed_.contains(id) || streams_into_reader(id)) continue;
    Step step{.id = id, .node = &graph.node(id)};
    for (const TensorType& type : step.node->outputs) step.out_dims.push_back(exec(type.dims, graph.dims()));
    const OpDef& op = *step.node->op;
    if (!is_computed(op) || graph.is_pinned({id, 0}))
      step.kind = Step::Kind::Input;
    else if (op.monoid)
      plan_reduction(step);
    else if (op.elementwise && (kernel_of(*step.node) != nullptr))
      plan_elements(step);
    else
      for (const Edge& edge : step.node->inputs) ++reads_[edge.source];
    step.as_written = op.elementwise || op.is(Trait::Leaf) || op.is(Trait::Opaque);
    count_reads(step.pattern);
    steps_.push_back(std::move(step));
  }
}

void EvaluationOrder::find_needed() {
  std::vector<Value> results = graph_.wanted();
  for (const auto& update : graph_.state_updates()) results.push_back(update.next.source);
  if (everything_)
    for (const NodeId id : graph_.nodes())
      for (int i = 0; i < static_cast<int>(graph_.node(id).outputs.size()); ++i) results.push_back({id, i});
  result_set_.insert(results.begin(), results.end());
  results_.assign(result_set_.begin(), result_set_.end());
  std::ranges::sort(results_);

  needed_ = needed_nodes(graph_, graph_.roots(results_));
}

/// An elementwise node is evaluated inside its only reader if that is a reduction (or streams into one
/// itself) that reads each element at most once and sees no padding of it, and if nobody else wants the
/// value.
bool EvaluationOrder::streams_into_reader(NodeId id) const {
  const Node& node = graph_.node(id);
  if (!node.op->elementwise || result_set_.contains({id, 0}) || graph_.is_present(id) ||
      kernel_of(node) == nullptr)
    return false;
  std::vector<Use> uses = graph_.uses(id);
  std::erase_if(uses,
                [&](const Use& use) { return !needed_.contains(use.node) || graph_.is_present(use.node); });
  if (uses.size() != 1) return false;
  const Node& reader = graph_.node(uses[0].node);
  const ShapeTracker& view = reader.inputs[static_cast<size_t>(uses[0].input)].view;
  if (!view.masks().empty()) return false;
  if (view.n_elements().exec(graph_.dims()) > view.n_physical_elements().exec(graph_.dims())) return false;
  if (reader.op->monoid) return true;
  return reader.op->elementwise && streams_into_reader(uses[0].node);
}

ElementKernel EvaluationOrder::kernel_of(const Node& node) const {
  std::vector<Dtype> inputs;
  for (const Edge& edge : node.inputs) inputs.push_back(storage(graph_.type(edge.source).dtype, precision_));
  return node.op->elementwise(inputs, storage(node.outputs[0].dtype, precision_));
}

Pattern EvaluationOrder::leaf(const Value& value, const ShapeTracker& view) {
  return {.dtype = storage(graph_.type(value).dtype, precision_),
          .value = value,
          .reader = std::make_shared<const ViewReader>(view, graph_.dims())};
}

Pattern EvaluationOrder::pattern_of(const Edge& edge) {
  if (!streams_into_reader(edge.source.node)) return leaf(edge.source, edge.view);
  return apply(graph_.node(edge.source.node), edge.view);
}

/// `node` as seen through `view`: its inputs read through their own views and then this one.
Pattern EvaluationOrder::apply(const Node& node, const ShapeTracker& view) {
  Pattern pattern{
      .dtype = storage(node.outputs[0].dtype, precision_), .node = &node, .kernel = kernel_of(node)};
  for (const Edge& edge : node.inputs)
    pattern.inputs.push_back(pattern_of({edge.source, edge.view.then(view)}));
  return pattern;
}

void EvaluationOrder::plan_elements(Step& step) {
  step.kind = Step::Kind::Elements;
  step.pattern = apply(*step.node, ShapeTracker::contiguous(step.node->outputs[0].dims));
}

namespace {

double cost_of(const Pattern& pattern) {
  if (pattern.reader) return pattern.reader->cost();
  double total = 1;
  for (const Pattern& input : pattern.inputs) total += cost_of(input);
  return total;
}

}  // namespace

/// Two orders: each output's elements in a run, or rows along the last axes that stay. The cheaper reads win.
void EvaluationOrder::plan_reduction(Step& step) {
  step.kind = Step::Kind::Reduction;
  const Edge& edge = step.node->inputs[0];
  const auto& axes = step.node->attributes.get<std::vector<int64_t>>("axes");
  const int rank = edge.view.rank();
  std::vector<int> kept, reduced;
  for (int axis = 0; axis < rank; ++axis)
    (std::ranges::find(axes, axis) != axes.end() ? reduced : kept).push_back(axis);
  const auto size_of = [&](std::span<const int> list) {
    int64_t size = 1;
    for (const int axis : list) size *= edge.view.dims()[static_cast<size_t>(axis)].exec(graph_.dims());
    return size;
  };
  const auto ordered = [&](size_t inner_axes) {
    std::vector<int> order(kept.begin(), kept.end() - static_cast<std::ptrdiff_t>(inner_axes));
    order.insert(order.end(), reduced.begin(), reduced.end());
    order.insert(order.end(), kept.end() - static_cast<std::ptrdiff_t>(inner_axes), kept.end());
    return pattern_of({edge.source, edge.view.permute(order)});
  };
  // Axes behind the last reduced one stay together as the row; at least the last kept axis.
  size_t inner_axes = 0;
  while (inner_axes < kept.size() && (reduced.empty() || kept[kept.size() - 1 - inner_axes] > reduced.back()))
    ++inner_axes;
  inner_axes = std::max(inner_axes, std::min<size_t>(1, kept.size()));

  constexpr double kCallCost = 30;  // of starting a row of accumulation, in contiguous reads
  step.reduced = size_of(reduced);
  Pattern runs = ordered(0);
  const double run_cost =
      cost_of(runs) + kCallCost / static_cast<double>(std::max<int64_t>(1, std::min(step.reduced, kChunk)));
  step.pattern = std::move(runs);
  step.outer = size_of(kept);
  if (inner_axes == 0) return;
  const int64_t inner = size_of(std::span(kept).last(inner_axes));
  Pattern rows = ordered(inner_axes);
  if (inner > 1 && cost_of(rows) + kCallCost / static_cast<double>(inner) < run_cost) {
    step.pattern = std::move(rows);
    step.inner = inner;
    step.outer = inner == 0 ? 0 : step.outer / inner;
  }
}

void EvaluationOrder::count_reads(const Pattern& pattern) {
  if (pattern.reader) ++reads_[pattern.value];
  for (const Pattern& input : pattern.inputs) count_reads(input);
}

}  // namespace luminal::reference
