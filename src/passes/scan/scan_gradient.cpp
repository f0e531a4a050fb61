#include "passes/scan/scan_gradient.h"

#include <algorithm>

#include "base/fail.h"
#include "luminal/autograd.h"
#include "luminal/graph.h"
#include "luminal/ops.h"
#include "ops/scan_form.h"
#include "passes/rewrite.h"

namespace luminal::passes {
namespace {

/// The gradient of one step as a graph: from the state before it, its elements, shared values and what flows
/// back into its results to what flows back out of it. Of the loop's inputs only those that it reads are
/// among its own.
class StepGradient {
 public:
  StepGradient(const ScanForm& form, const Gradient& g) : form_(form), g_(g) {
    for (size_t i = 0; i < form.inputs(); ++i) inputs_.push_back(input(form.input_type(i)));
    const std::vector<GraphTensor> outputs = inlined(*form.body, graph_, inputs_);
    find_wanted();
    std::vector<GraphTensor> params;
    for (const size_t i : wanted_) params.push_back(inputs_[i]);
    const GraphTensor loss = loss_of(outputs);
    if (loss.valid() && !params.empty()) gradients_ = graph_.run_pass(Autograd(params, loss));
  }

  /// False: no gradient flows through the loop at all.
  [[nodiscard]] bool exists() const { return !gradients_.empty(); }

  /// The loop over it, and what it gives, in order: for which of the loop's inputs.
  struct Loop {
    ScanForm form;
    std::vector<GraphTensor> inputs;
    std::vector<size_t> results;
  };
  /// `states(carries)` gives the states before each step of these carries.
  using States = std::function<std::vector<GraphTensor>(const std::vector<size_t>& carries)>;
  [[nodiscard]] Loop loop(Graph& cx, const States& states) {
    Loop made{.form = {.length = form_.length, .reverse = !form_.reverse}, .inputs = {}, .results = {}};
    std::vector<GraphTensor> given, outputs, elements;
    std::vector<size_t> of_elements;
    for (size_t k = 0; k < wanted_.size(); ++k) {
      const size_t i = wanted_[k];
      if (form_.is_sequence(i)) {
        elements.push_back(gradients_[k]);
        of_elements.push_back(i);
        continue;
      }
      const TensorType type = form_.input_type(i);
      const Dtype wide = accumulation_dtype(type.dtype);
      given.push_back(i < form_.carries ? upstream_[i] : input({wide, type.dims}));
      outputs.push_back(i < form_.carries ? gradients_[k] : given.back() + gradients_[k].cast(wide));
      made.inputs.push_back(i < form_.carries ? g_.upstream(i) : cx.zeros(type.dims, wide));
      made.results.push_back(i);
    }
    made.form.carries = given.size();
    outputs.insert(outputs.end(), elements.begin(), elements.end());
    made.results.insert(made.results.end(), of_elements.begin(), of_elements.end());
    add_what_is_read(made, given, outputs, states);
    return made;
  }

 private:
  /// The other inputs of the loop, sequences first; `given` are its carries.
  void add_what_is_read(Loop& made, std::vector<GraphTensor> given, const std::vector<GraphTensor>& outputs,
                        const States& states) const {
    std::vector<Edge> edges;
    for (const GraphTensor& output : outputs) edges.push_back(output.edge());
    const auto computed = [&](NodeId id) { return is_computed(*graph_.node(id).op); };
    const std::vector<Value> read = extract(graph_, {}, edges, computed).captured;
    const auto is_read = [&](const GraphTensor& tensor) {
      return tensor.valid() && std::ranges::find(read, tensor.edge().source) != read.end();
    };
    const auto add = [&](const GraphTensor& inside, const GraphTensor& outside) {
      given.push_back(inside);
      made.inputs.push_back(outside);
    };
    std::vector<size_t> carries;
    for (size_t i = 0; i < form_.carries; ++i)
      if (is_read(inputs_[i])) carries.push_back(i);
    const std::vector<GraphTensor> before = states(carries);
    for (size_t k = 0; k < carries.size(); ++k) add(inputs_[carries[k]], before[k]);
    for (size_t i = form_.carries; i < form_.carries + form_.sequences; ++i)
      if (is_read(inputs_[i])) add(inputs_[i], g_.input(i));
    for (size_t i = form_.carries; i < form_.outputs(); ++i)
      if (is_read(upstream_[i])) add(upstream_[i], g_.upstream(i));
    made.form.sequences = given.size() - made.form.carries;
    for (size_t i = form_.carries + form_.sequences; i < form_.inputs(); ++i)
      if (is_read(inputs_[i])) add(inputs_[i], g_.input(i));
    std::vector<Value> values;
    for (const GraphTensor& tensor : given) values.push_back(tensor.edge().source);
    std::shared_ptr<Subgraph> part = extract(graph_, values, edges, computed).part;
    part->gradient = scan_gradient;
    made.form.body = interned(std::move(part));
  }

  GraphTensor input(const TensorType& type) { return graph_.tensor(type.dims, type.dtype); }

  /// The state's gradient flows from step to step whoever asks for it.
  void find_wanted() {
    for (size_t i = 0; i < form_.inputs(); ++i)
      if (is_float(form_.input_type(i).dtype) && (i < form_.carries || g_.wants(i))) wanted_.push_back(i);
  }

  /// Its gradients are those of the results weighted by what flows back into them.
  GraphTensor loss_of(const std::vector<GraphTensor>& outputs) {
    GraphTensor loss;
    for (size_t i = 0; i < outputs.size(); ++i) {
      upstream_.emplace_back();
      if (!is_float(outputs[i].dtype())) continue;
      if (i >= form_.carries && is_zero(g_.upstream(i))) continue;
      upstream_[i] = input(outputs[i].type());
      const GraphTensor part = (outputs[i] * upstream_[i]).sum();
      const GraphTensor typed = part.cast(Dtype::F32);
      loss = loss.valid() ? loss + typed : typed;
    }
    return loss;
  }

  static bool is_zero(const GraphTensor& tensor) {
    const std::optional<Number> value = uniform_value(tensor.graph(), tensor.edge());
    return value && *value == Number(0.0);
  }

  const ScanForm& form_;
  const Gradient& g_;
  Graph graph_;
  std::vector<GraphTensor> inputs_, upstream_;  ///< of the loop's inputs and outputs; none where none flows
  std::vector<size_t> wanted_;                  ///< inputs with a gradient, ascending
  std::vector<GraphTensor> gradients_;          ///< of those
};

/// States before each step as outputs of the forward loop, which is replaced by one that has them if it has
/// not.
std::vector<GraphTensor> states_before_steps(Graph& cx, const Gradient& g, const ScanForm& form,
                                             const std::vector<size_t>& carries) {
  const Subgraph& body = *form.body;
  std::vector<Edge> outputs = body.outputs;
  std::vector<int> places;
  for (const size_t i : carries) {
    const Edge state{body.inputs[i], ShapeTracker::contiguous(form.input_type(i).dims)};
    const auto known =
        std::find(outputs.begin() + static_cast<std::ptrdiff_t>(form.carries), outputs.end(), state);
    places.push_back(static_cast<int>(known - outputs.begin()));
    if (known == outputs.end()) outputs.push_back(state);
  }
  NodeId node = g.output().node();
  if (outputs.size() > body.outputs.size()) {
    ScanForm longer = form;
    std::shared_ptr<Subgraph> part =
        extract(body.graph, body.inputs, outputs, [](NodeId) { return true; }).part;
    part->gradient = body.gradient;
    longer.body = interned(std::move(part));
    const Graph::OriginScope scope(cx, g.node().origin);
    const NodeId old = node;
    node = cx.add_node(kScan, longer.attributes(), g.node().inputs);
    for (int i = 0; i < static_cast<int>(form.outputs()); ++i)
      cx.replace({old, i}, cx.tensor_of(Value{node, i}).edge());
    cx.remove(old);
  }
  std::vector<GraphTensor> states;
  for (const int place : places) states.push_back(cx.tensor_of(Value{node, place}));
  return states;
}

}  // namespace

void scan_gradient(Gradient& g) {
  const std::optional<ScanForm> form = ScanForm::of(g.attributes());
  LUMINAL_CHECK(form.has_value(), "attributes of a scan: {}", g.attributes().to_string());
  Graph cx = g.output().graph();
  StepGradient step(*form, g);
  if (!step.exists()) return;
  const StepGradient::Loop loop = step.loop(
      cx, [&](const std::vector<size_t>& carries) { return states_before_steps(cx, g, *form, carries); });
  std::vector<Edge> edges;
  for (const GraphTensor& input : loop.inputs) edges.push_back(input.edge());
  const NodeId node = cx.add_node(kScan, loop.form.attributes(), std::move(edges));
  for (size_t k = 0; k < loop.results.size(); ++k)
    if (g.wants(loop.results[k])) g.to(loop.results[k], cx.tensor_of(Value{node, static_cast<int>(k)}));
}

}  // namespace luminal::passes
