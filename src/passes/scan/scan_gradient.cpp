#include "passes/scan/scan_gradient.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/fail.h"
#include "luminal/autograd.h"
#include "luminal/graph.h"
#include "luminal/ops.h"
#include "ops/scan_form.h"
#include "passes/autograd/view_gradient.h"
#include "passes/rewrite.h"
#include "passes/scan/step_sum.h"

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

  /// `states(carries)` gives the states before each step of these carries.
  using States = std::function<std::vector<GraphTensor>(const std::vector<size_t>& carries)>;

  /// Adds the loop over it, and hands what it gives to `g`.
  void add_loop(Graph& cx, Gradient& g, const States& states) {
    find_results(cx);
    find_inputs(states);
    std::vector<Edge> edges;
    for (const GraphTensor& input : loop_inputs_) edges.push_back(input.edge());
    const NodeId node = cx.add_node(kScan, loop_.attributes(), std::move(edges));
    const auto output = [&](size_t at) { return cx.tensor_of(Value{node, static_cast<int>(at)}); };
    for (size_t at = 0; at < results_.size(); ++at)
      if (results_[at] && g.wants(*results_[at])) g.to(*results_[at], output(at));
    const auto factor = [&](const Value& value) { return of_all_steps(value, output); };
    for (const auto& [i, part] : sums_) g.to(i, sum_over_steps(graph_, part, cx, form_.length, factor));
  }

 private:
  /// The loop carries gradients of the state, and sums of those of shared values unless one sum over all
  /// steps makes these behind it. It hands out gradients of elements, and the factors of such sums.
  void find_results(Graph& cx) {
    std::vector<std::pair<GraphTensor, size_t>> elements;
    for (size_t k = 0; k < wanted_.size(); ++k) {
      const size_t i = wanted_[k];
      if (form_.is_sequence(i))
        elements.emplace_back(gradients_[k], i);
      else if (i < form_.carries)
        add_carry(upstream_[i], gradients_[k], g_.upstream(i), i);
      else if (!sum_behind_loop(i, gradients_[k].edge()))
        add_sum(cx, i, gradients_[k]);
    }
    loop_.carries = given_.size();
    for (const auto& [gradient, i] : elements) {
      edges_.push_back(gradient.edge());
      results_.emplace_back(i);
    }
    for (const Value& factor : factors_) {
      places_.emplace(factor, edges_.size());
      edges_.push_back(graph_.tensor_of(factor).edge());
      results_.emplace_back();
    }
  }
  void add_carry(const GraphTensor& in, const GraphTensor& out, const GraphTensor& first, size_t i) {
    given_.push_back(in);
    edges_.push_back(out.edge());
    loop_inputs_.push_back(first);
    results_.emplace_back(i);
  }
  void add_sum(Graph& cx, size_t i, const GraphTensor& part) {
    const Shape dims = form_.input_type(i).dims;
    const Dtype wide = accumulation_dtype(part.dtype());
    const GraphTensor sum = input({wide, dims});
    add_carry(sum, sum + part.cast(wide), cx.zeros(dims, wide), i);
  }

  /// If handing out what it takes is less than the sum would be.
  bool sum_behind_loop(size_t i, const Edge& part) {
    const std::vector<Value> factors = factors_of_sum(graph_, part);
    if (factors.empty()) return false;
    std::vector<Value> fresh;
    double elements = 0;
    for (const Value& factor : factors)
      if (!outside_of(factor) && std::ranges::find(factors_, factor) == factors_.end()) {
        fresh.push_back(factor);
        elements += autograd::typical_elements(graph_.type(factor).dims);
      }
    if (elements > autograd::typical_elements(form_.input_type(i).dims)) return false;
    factors_.insert(factors_.end(), fresh.begin(), fresh.end());
    for (const Value& factor : factors)
      if (const auto known = outside_of(factor); known && *known < form_.carries) states_read_.insert(*known);
    sums_.emplace_back(i, part);
    return true;
  }

  /// The input of the forward loop that a value of the step is, or behind all of these the output whose
  /// upstream gradient it is, if it need not be carried.
  [[nodiscard]] std::optional<size_t> outside_of(const Value& value) const {
    const auto is_it = [&](const GraphTensor& tensor) {
      return tensor.valid() && tensor.edge().source == value;
    };
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (is_it(inputs_[i])) return i;
    for (size_t i = form_.carries; i < upstream_.size(); ++i)
      if (is_it(upstream_[i])) return inputs_.size() + i;
    return std::nullopt;
  }

  /// A factor of all steps, these along the last axis.
  GraphTensor of_all_steps(const Value& value, const std::function<GraphTensor(size_t)>& output) const {
    const auto turned = [](const GraphTensor& all) {
      std::vector<int> order;
      for (int axis = 1; axis <= all.rank(); ++axis) order.push_back(axis % all.rank());
      return all.with_view(all.view().permute(order));
    };
    const std::optional<size_t> place = outside_of(value);
    if (!place) return turned(output(places_.at(value)));
    if (*place >= inputs_.size()) return turned(g_.upstream(*place - inputs_.size()));
    if (*place < form_.carries) return turned(before_.at(*place));
    const GraphTensor& given = g_.input(*place);
    return form_.is_sequence(*place) ? turned(given) : given.expand_dim(given.rank(), form_.length);
  }

  /// What the loop reads besides what it carries: sequences first.
  void find_inputs(const States& states) {
    const auto computed = [&](NodeId id) { return is_computed(*graph_.node(id).op); };
    const std::vector<Value> read = extract(graph_, {}, edges_, computed).captured;
    const auto is_read = [&](const GraphTensor& tensor) {
      return tensor.valid() && std::ranges::find(read, tensor.edge().source) != read.end();
    };
    const auto add = [&](const GraphTensor& inside, const GraphTensor& outside) {
      given_.push_back(inside);
      loop_inputs_.push_back(outside);
    };
    for (size_t i = 0; i < form_.carries; ++i)
      if (is_read(inputs_[i])) states_read_.insert(i);
    const std::vector<size_t> carries(states_read_.begin(), states_read_.end());
    const std::vector<GraphTensor> before = states(carries);
    for (size_t k = 0; k < carries.size(); ++k) {
      before_.emplace(carries[k], before[k]);
      if (is_read(inputs_[carries[k]])) add(inputs_[carries[k]], before[k]);
    }
    for (size_t i = form_.carries; i < form_.carries + form_.sequences; ++i)
      if (is_read(inputs_[i])) add(inputs_[i], g_.input(i));
    for (size_t i = form_.carries; i < form_.outputs(); ++i)
      if (is_read(upstream_[i])) add(upstream_[i], g_.upstream(i));
    loop_.sequences = given_.size() - loop_.carries;
    for (size_t i = form_.carries + form_.sequences; i < form_.inputs(); ++i)
      if (is_read(inputs_[i])) add(inputs_[i], g_.input(i));
    std::vector<Value> values;
    for (const GraphTensor& tensor : given_) values.push_back(tensor.edge().source);
    std::shared_ptr<Subgraph> part = extract(graph_, values, edges_, computed).part;
    part->gradient = scan_gradient;
    loop_.body = interned(std::move(part));
    loop_.length = form_.length;
    loop_.reverse = !form_.reverse;
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

  ScanForm loop_;
  std::vector<GraphTensor> given_, loop_inputs_;  ///< inputs of the loop's body, and of the loop
  std::vector<Edge> edges_;                       ///< outputs of the body
  std::vector<std::optional<size_t>> results_;    ///< by output: the forward loop's input it is for
  std::vector<std::pair<size_t, Edge>> sums_;     ///< what is summed behind the loop: for which input
  std::vector<Value> factors_;                    ///< that the body hands out for these sums
  std::map<Value, size_t> places_;                ///< of factors among the outputs
  std::set<size_t> states_read_;                  ///< carries whose states before each step are read
  std::map<size_t, GraphTensor> before_;          ///< these states
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
  step.add_loop(
      cx, g, [&](const std::vector<size_t>& carries) { return states_before_steps(cx, g, *form, carries); });
}

}  // namespace luminal::passes
