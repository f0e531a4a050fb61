#include "luminal/scan.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "base/call_site.h"
#include "base/fail.h"
#include "graph/graph_state.h"
#include "luminal/graph.h"
#include "luminal/ops.h"
#include "luminal/tensor_functions.h"
#include "ops/scan_form.h"
#include "passes/scan/scan_gradient.h"

namespace luminal {
namespace {

/// Calls a body on stand-ins in the graph itself, and takes out again what it made of them. What it made of
/// other tensors alone stays: it is computed before the loop.
class Recording {
 public:
  explicit Recording(Graph& graph) : graph_(graph), first_(graph.state()->slots.size()) {}
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording() {
    for (const NodeId id : dependents()) graph_.remove(id);
  }

  GraphTensor stand_in(const TensorType& type) {
    const GraphTensor tensor = graph_.tensor(type.dims, type.dtype);
    given_.push_back(tensor.edge().source);
    return tensor;
  }

  Extracted take(std::span<const GraphTensor> outputs) const {
    std::vector<Edge> edges;
    for (const GraphTensor& output : outputs) {
      if (!output.valid() || output.graph().state() != graph_.state())
        fail("[scan] the body returns a tensor of another graph, or none; return what it computes");
      edges.push_back(output.edge());
    }
    std::unordered_set<NodeId> inside;
    for (const NodeId id : dependents()) inside.insert(id);
    for (const NodeId id : made()) check(id, inside.contains(id));
    std::unordered_map<NodeId, bool> formulas;
    return extract(graph_, given_, edges,
                   [&](NodeId id) { return inside.contains(id) || is_formula(id, formulas); });
  }

 private:
  /// Nodes made since the recording began, in order.
  [[nodiscard]] std::vector<NodeId> made() const {
    std::vector<NodeId> list;
    const GraphState& state = *graph_.state();
    for (size_t i = first_; i < state.slots.size(); ++i)
      if (state.slots[i].alive) list.push_back({static_cast<uint32_t>(i), state.serial});
    return list;
  }

  /// What depends on stand-ins, these included; readers before what they read.
  [[nodiscard]] std::vector<NodeId> dependents() const {
    std::unordered_set<NodeId> seen;
    std::vector<NodeId> list;
    std::vector<std::pair<NodeId, bool>> stack;  // and whether its readers are done
    for (const Value& value : given_) stack.emplace_back(value.node, false);
    while (!stack.empty()) {
      const auto [id, done] = stack.back();
      stack.pop_back();
      if (done) {
        list.push_back(id);
      } else if (seen.insert(id).second) {
        stack.emplace_back(id, true);
        for (const Use& use : graph_.uses(id)) stack.emplace_back(use.node, false);
      }
    }
    return list;
  }

  /// A value of constants and positions alone: a kernel of the body makes it where it needs it.
  [[nodiscard]] bool is_formula(NodeId id, std::unordered_map<NodeId, bool>& known) const {
    if (const auto found = known.find(id); found != known.end()) return found->second;
    const Node& node = graph_.node(id);
    const bool plain = is_computed(*node.op) && !node.op->is(Trait::Stateful) && !graph_.is_present(id) &&
                       (node.op->is(Trait::Leaf) || node.op->elementwise);
    const bool formula = plain && std::ranges::all_of(node.inputs, [&](const Edge& edge) {
                           return is_formula(edge.source.node, known);
                         });
    return known[id] = formula;
  }

  /// What the body called to make the node.
  [[nodiscard]] static std::string call_of(const Node& node) {
    const auto& calls = node.origin->ops;
    const auto own = std::find(calls.rbegin(), calls.rend(), kScan.name).base();
    return own != calls.end() ? *own : std::string(node.op->name);
  }

  void check(NodeId id, bool depends) const {
    const Node& node = graph_.node(id);
    const std::string what = call_of(node);
    if (node.op->is(Trait::SideEffect))
      fail("[scan] the body calls '{}', which acts in each run; call it on what the scan gives", what);
    if (node.op->is(Trait::Stateful))
      fail(
          "[scan] the body calls '{}', whose value differs from run to run; draw [T, ...] before the scan "
          "and "
          "give it as a sequence, so that each step has its own",
          what);
    if (!depends) return;
    const auto marked = [&](const Value& value) { return value.node == id; };
    if (std::ranges::any_of(graph_.wanted(), marked))
      fail(
          "[scan] the body marks a value with retrieve() or keep(), and it has one for each step; return it "
          "as an output");
    const auto updates = [&](const auto& update) {
      return update.state.node == id || update.next.source.node == id;
    };
    if (std::ranges::any_of(graph_.state_updates(), updates))
      fail("[scan] the body assigns a state, which has one next value a run; carry it through the scan");
  }

  Graph& graph_;
  size_t first_;
  std::vector<Value> given_;
};

/// What a scan is told, checked.
struct ScanCall {
  std::vector<GraphTensor> carry, sequences;
  const ScanBody& body;
  bool reverse;
  Expression length;
};

Graph graph_of_scan(const std::vector<GraphTensor>& carry, const std::vector<GraphTensor>& sequences) {
  for (const auto* list : {&carry, &sequences})
    for (const GraphTensor& tensor : *list) return tensor.graph();
  fail("[scan] there is neither a carry nor a sequence; give at least one of them");
}

Expression length_of_scan(const std::vector<GraphTensor>& sequences, const ScanOptions& options) {
  std::optional<Expression> length = options.length;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const GraphTensor& x = sequences[i];
    if (x.rank() == 0)
      fail<ShapeError>("[scan] sequence {} is {} and has no axis to step along", i, x.type().to_string());
    if (!length) length = x.dim(0);
    if (!Expression::known_equal(x.dim(0), *length))
      fail<ShapeError>("[scan] sequence {} is {}, and the scan has {} steps; give sequences of one length", i,
                       x.type().to_string(), length->to_string());
  }
  if (!length) fail("[scan] there is no sequence to say how many steps there are; give options.length");
  if (length->range().min < 0)
    fail<ShapeError>("[scan] a length of {} steps; give 0 or more", length->to_string());
  return *length;
}

TensorType element_type(const GraphTensor& sequence) {
  return {sequence.dtype(), Shape(sequence.dims().begin() + 1, sequence.dims().end())};
}

/// One node over all steps.
ScanResult add_scan(Graph& cx, const ScanCall& call) {
  std::vector<GraphTensor> inputs = call.carry;
  inputs.insert(inputs.end(), call.sequences.begin(), call.sequences.end());
  ScanForm form{.carries = call.carry.size(),
                .sequences = call.sequences.size(),
                .length = call.length,
                .reverse = call.reverse};
  {
    Recording recording(cx);
    std::vector<GraphTensor> carry, elements;
    for (const GraphTensor& tensor : call.carry) carry.push_back(recording.stand_in(tensor.type()));
    for (const GraphTensor& tensor : call.sequences)
      elements.push_back(recording.stand_in(element_type(tensor)));
    ScanStep step = call.body(carry, elements);
    if (step.carry.size() != carry.size())
      fail("[scan] a step takes {} carries and gives {}; give the next value of each", carry.size(),
           step.carry.size());
    step.carry.insert(step.carry.end(), step.outputs.begin(), step.outputs.end());
    if (step.carry.empty()) fail("[scan] the body gives nothing; return a carry or an output");
    Extracted taken = recording.take(step.carry);
    taken.part->gradient = passes::scan_gradient;
    form.body = interned(std::move(taken.part));
    for (const Value& value : taken.captured) inputs.push_back(cx.tensor_of(value));
  }
  std::vector<Edge> edges;
  for (const GraphTensor& input : inputs) edges.push_back(input.edge());
  const NodeId node = cx.add_node(kScan, form.attributes(), std::move(edges));
  ScanResult result;
  for (size_t i = 0; i < form.outputs(); ++i)
    (i < form.carries ? result.carry : result.outputs)
        .push_back(cx.tensor_of(Value{node, static_cast<int>(i)}));
  return result;
}

/// A scan over segments of `every` steps whose body is a scan over one of them, and one over the steps that
/// are left. The gradient of the outer one keeps the state before each segment.
ScanResult add_scan_of_segments(Graph& cx, const ScanCall& call, int64_t every) {
  const Expression segments = call.length / every, whole = segments * every;
  const auto over_segments = [&](std::vector<GraphTensor> carry) {
    std::vector<GraphTensor> sequences;
    for (const GraphTensor& x : call.sequences)
      sequences.push_back(x.slice_along(0, 0, whole).split_dims(0, every));
    const ScanBody body = [&](std::span<const GraphTensor> state, std::span<const GraphTensor> segment) {
      const ScanCall inner{{state.begin(), state.end()},
                           {segment.begin(), segment.end()},
                           call.body,
                           call.reverse,
                           Expression(every)};
      ScanResult steps = add_scan(cx, inner);
      return ScanStep{std::move(steps.carry), std::move(steps.outputs)};
    };
    ScanResult result = add_scan(cx, {std::move(carry), std::move(sequences), body, call.reverse, segments});
    for (GraphTensor& output : result.outputs) output = output.merge_dims(0, 1);
    return result;
  };
  const Expression left = call.length - whole;
  if (left == Expression(0)) return over_segments(call.carry);
  const auto over_rest = [&](std::vector<GraphTensor> carry) {
    std::vector<GraphTensor> sequences;
    for (const GraphTensor& x : call.sequences) sequences.push_back(x.slice_along(0, whole, call.length));
    return add_scan(cx, {std::move(carry), std::move(sequences), call.body, call.reverse, left});
  };
  ScanResult first = call.reverse ? over_rest(call.carry) : over_segments(call.carry);
  ScanResult second = call.reverse ? over_segments(first.carry) : over_rest(first.carry);
  if (call.reverse) std::swap(first.outputs, second.outputs);
  for (size_t i = 0; i < first.outputs.size(); ++i)
    second.outputs[i] = concat({first.outputs[i], second.outputs[i]}, 0);
  return second;
}

/// Steps between kept states where the caller leaves it open.
int64_t checkpoint_distance(const ScanCall& call) {
  constexpr double kMostBytes = 256 << 20;
  double bytes = 0;
  for (const GraphTensor& tensor : call.carry) {
    const auto count = element_count(tensor.dims()).constant();
    if (count) bytes += static_cast<double>(size_bytes(tensor.dtype(), *count));
  }
  const auto length = static_cast<double>(call.length.constant().value_or(1));
  return bytes * length <= kMostBytes ? 1 : std::llround(std::ceil(std::sqrt(length)));
}

}  // namespace

ScanResult scan(std::vector<GraphTensor> carry, std::vector<GraphTensor> sequences, const ScanBody& body,
                const ScanOptions& options, Where where) {
  const CallSite site("scan", where);
  Graph cx = graph_of_scan(carry, sequences);
  for (const auto* list : {&carry, &sequences})
    for (const GraphTensor& tensor : *list)
      if (tensor.graph().state() != cx.state())
        fail("[scan] the tensors belong to different graphs; move values with transfer_data");
  const Expression length = length_of_scan(sequences, options);
  const ScanCall call{std::move(carry), std::move(sequences), body, options.reverse, length};
  if (options.checkpoint_every && *options.checkpoint_every < 1)
    fail("[scan] checkpoint_every is {}; give 1 or more", *options.checkpoint_every);
  const int64_t every = options.checkpoint_every.value_or(checkpoint_distance(call));
  if (every == 1 || length.range().max <= every) return add_scan(cx, call);
  return add_scan_of_segments(cx, call, every);
}

}  // namespace luminal
