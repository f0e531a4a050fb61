#include <algorithm>
#include <chrono>
#include <optional>

#include "base/cancel.h"
#include "base/environment.h"
#include "base/fail.h"
#include "base/log.h"
#include "graph/data_input.h"
#include "graph/materialize.h"
#include "graph/node_run.h"
#include "graph/update_states.h"
#include "luminal/graph.h"
#include "luminal/quantized.h"
#include "luminal/reference.h"
#include "reference/evaluation_order.h"
#include "reference/finite.h"

namespace luminal {
namespace reference {
namespace {

using Buffer = std::shared_ptr<const TensorData>;

/// One run in an order: the buffers of its values, freed after their last reader.
class GraphRun {
 public:
  GraphRun(Graph& graph, const EvaluationOrder& order, ReferencePrecision precision, bool check_finite)
      : graph_(graph), order_(order), precision_(precision), reads_left_(order.reads()) {
    for (const Value& value : order.results()) ++reads_left_[value];
    if (check_finite) check_.emplace(graph);
  }

  void step(const Step& step) {
    switch (step.kind) {
      case Step::Kind::Input:
        return load(step);
      case Step::Kind::Elements: {
        TensorData out(storage(step.node->outputs[0].dtype, precision_), step.out_dims[0]);
        evaluate_elements(source(step.pattern), out);
        keep({step.id, 0}, std::move(out));
        return release(step.pattern);
      }
      case Step::Kind::Reduction: {
        TensorData out(storage(step.node->outputs[0].dtype, precision_), step.out_dims[0]);
        evaluate_reduction(source(step.pattern), fold_loops(*step.node->op->monoid, step.pattern.dtype),
                           step.outer, step.reduced, step.inner, out);
        keep({step.id, 0}, std::move(out));
        return release(step.pattern);
      }
      case Step::Kind::General:
        return general(step);
    }
  }

  /// In place of a step: its results as they are given.
  void take(const Step& step, const std::unordered_map<Value, TensorData>& given) {
    for (int output = 0; output < static_cast<int>(step.out_dims.size()); ++output) {
      const Value value{step.id, output};
      keep(value, convert(given.at(value), storage(graph_.type(value).dtype, precision_)));
    }
    for (const Edge& edge : step.node->inputs) release(edge.source);
  }

  [[nodiscard]] const FiniteCheck& check() const { return *check_; }

  /// Hands the wanted values to the graph, in its own dtypes.
  void finish() {
    for (const Value& value : order_.results()) {
      if (graph_.is_pinned(value)) continue;
      const Dtype dtype = graph_.type(value).dtype;
      Buffer buffer = buffers_.at(value);
      if (buffer->dtype != dtype) buffer = std::make_shared<TensorData>(convert(*buffer, dtype));
      graph_.store(value, std::move(buffer), false);
    }
  }

 private:
  void keep(const Value& value, TensorData data) {
    const Buffer& kept = buffers_[value] = std::make_shared<TensorData>(std::move(data));
    if (!check_) return;
    if (const auto fault = check_->computed(value, *kept)) report(value, *kept, *fault);
  }

  /// What streamed into the node comes first, if there is memory to write it down.
  [[noreturn]] void report(const Value& value, const TensorData& data, size_t fault) {
    const Node& node = graph_.node(value.node);
    std::vector<TensorData> operands;
    for (const Edge& edge : node.inputs)
      if (auto dense = operand(edge)) operands.push_back(std::move(*dense));
    if (!node.op->elementwise || operands.size() != node.inputs.size()) operands.clear();
    check_->report(value, data, fault, operands);
  }

  /// What a node reads. What streams is evaluated, and looked at, node by node.
  std::optional<TensorData> operand(const Edge& edge) {
    constexpr double kMostElements = 1 << 26;
    if (!buffers_.contains(edge.source)) {
      const Node& node = graph_.node(edge.source.node);
      const std::vector<int64_t> dims = exec(node.outputs[0].dims, graph_.dims());
      double elements = 1;
      for (const int64_t size : dims) elements *= static_cast<double>(size);
      if (elements > kMostElements) return std::nullopt;
      std::vector<TensorData> inputs, outputs;
      for (const Edge& input : node.inputs) {
        auto dense = operand(input);
        if (!dense) return std::nullopt;
        inputs.push_back(std::move(*dense));
      }
      outputs.emplace_back(storage(node.outputs[0].dtype, precision_), dims);
      evaluate(*node.op, node.attributes, inputs, outputs, graph_.dims(), graph_.step());
      keep(edge.source, std::move(outputs[0]));
    }
    return materialize(*buffers_.at(edge.source), edge.view, graph_.dims());
  }

  void load(const Step& step) {
    for (int output = 0; output < static_cast<int>(step.out_dims.size()); ++output) {
      const Value value{step.id, output};
      Buffer data = graph_.value(value);
      LUMINAL_CHECK(data != nullptr, "input #{} has no value", step.id.index);
      if (is_quantized(data->dtype)) data = std::make_shared<TensorData>(dequantize(*data));
      if (check_) check_->given(value, *data);
      const Dtype wanted = storage(graph_.type(value).dtype, precision_);
      if (data->dtype != wanted) data = std::make_shared<TensorData>(convert(*data, wanted));
      buffers_[value] = std::move(data);
    }
  }

  Source source(const Pattern& pattern) {
    Source result{.dtype = pattern.dtype, .reader = pattern.reader, .kernel = pattern.kernel};
    if (pattern.reader) {
      result.buffer = buffers_.at(pattern.value).get();
      LUMINAL_CHECK(result.buffer->element_count() == pattern.reader->buffer_elements(),
                    "a view of {} elements on a buffer of {}", pattern.reader->buffer_elements(),
                    result.buffer->element_count());
    } else {
      result.attributes = &pattern.node->attributes;
    }
    for (const Pattern& input : pattern.inputs) result.inputs.push_back(source(input));
    return result;
  }

  /// Ops with an evaluation of their own, on dense copies. At double precision, ops that depend on the bits
  /// or on user code see the dtypes of the graph.
  void general(const Step& step) {
    std::vector<TensorData> inputs;
    for (const Edge& edge : step.node->inputs) {
      TensorData dense = materialize(*buffers_.at(edge.source), edge.view, graph_.dims());
      const Dtype own = graph_.type(edge.source).dtype;
      inputs.push_back(step.as_written && !is_quantized(own) ? convert(dense, own) : std::move(dense));
    }
    std::vector<TensorData> outputs;
    for (size_t i = 0; i < step.out_dims.size(); ++i) {
      const Dtype own = step.node->outputs[i].dtype;
      outputs.emplace_back(step.as_written ? own : storage(own, precision_), step.out_dims[i]);
    }
    const NodeRun run(graph_, step.id);
    evaluate(*step.node->op, step.node->attributes, inputs, outputs, graph_.dims(), graph_.step());
    for (size_t i = 0; i < outputs.size(); ++i)
      keep({step.id, static_cast<int>(i)},
           convert(outputs[i], storage(step.node->outputs[i].dtype, precision_)));
    for (const Edge& edge : step.node->inputs) release(edge.source);
  }

  void release(const Pattern& pattern) {
    if (pattern.reader) release(pattern.value);
    for (const Pattern& input : pattern.inputs) release(input);
  }
  void release(const Value& value) {
    if (--reads_left_.at(value) == 0) buffers_.erase(value);
  }

 public:
  /// Evaluates any computed op on dense inputs.
  static void evaluate(const OpDef& op, const Attributes& attributes, std::span<const TensorData> inputs,
                       std::span<TensorData> outputs, const DimMap& dims, uint64_t step) {
    if (op.evaluate) {
      std::vector<const TensorData*> pointers;
      for (const TensorData& input : inputs) pointers.push_back(&input);
      EvalContext context{pointers, outputs, attributes, dims, step};
      return op.evaluate(context);
    }
    std::vector<Dtype> dtypes;
    std::vector<const void*> pointers;
    for (const TensorData& input : inputs) {
      dtypes.push_back(input.dtype);
      pointers.push_back(input.bytes.data());
    }
    const ElementKernel kernel = op.elementwise(dtypes, outputs[0].dtype);
    if (kernel == nullptr)
      fail<DtypeError>("[{}] does not take {}", op.name, name(dtypes.empty() ? outputs[0].dtype : dtypes[0]));
    kernel(pointers.data(), outputs[0].bytes.data(), outputs[0].element_count(), attributes);
  }

 private:
  Graph& graph_;
  const EvaluationOrder& order_;
  ReferencePrecision precision_;
  std::unordered_map<Value, Buffer> buffers_;
  std::unordered_map<Value, int> reads_left_;
  std::optional<FiniteCheck> check_;
};

std::string shapes_of(const Step& step, const Graph& graph) {
  std::string text;
  for (const Edge& edge : step.node->inputs)
    text += fmt::format("{}{} ", name(graph.type(edge.source).dtype), to_string(edge.view.dims()));
  return fmt::format("{}-> {}[{}]", text, name(step.node->outputs[0].dtype),
                     fmt::join(step.out_dims[0], ", "));
}

double flops_of(const Pattern& pattern, double elements) {
  double flops = pattern.node == nullptr ? 0 : pattern.node->op->flops_per_element * elements;
  for (const Pattern& input : pattern.inputs) flops += flops_of(input, elements);
  return flops;
}

double bytes_of(const Pattern& pattern, double elements) {
  double bytes = 0;
  if (pattern.reader) {
    const auto reads = std::min(elements, static_cast<double>(pattern.reader->buffer_elements()));
    bytes += reads * static_cast<double>(element_bytes(pattern.dtype));
  }
  for (const Pattern& input : pattern.inputs) bytes += bytes_of(input, elements);
  return bytes;
}

/// One line for LUMINAL_DEBUG=2. The interpreter has no roofline of its own to compare with.
std::string summary_of(const Step& step, const Graph& graph, double time_us) {
  double outputs = 1;
  for (const int64_t size : step.out_dims[0]) outputs *= static_cast<double>(size);
  double elements = outputs, flops = 0;
  if (step.kind == Step::Kind::Reduction) {
    elements =
        static_cast<double>(step.outer) * static_cast<double>(step.reduced) * static_cast<double>(step.inner);
    flops = elements * step.node->op->flops_per_element;
  }
  flops += flops_of(step.pattern, elements);
  const double bytes = bytes_of(step.pattern, elements) +
                       outputs * static_cast<double>(info(step.node->outputs[0].dtype).block_bytes);
  return fmt::format("{:<14} {:>10.1f} us {:>8.3f} GFLOP/s {:>8.3f} GB/s  {}", step.node->op->name, time_us,
                     flops / time_us * 1e-3, bytes / time_us * 1e-3, shapes_of(step, graph));
}

class ReferenceExecutable : public Executable {
 public:
  explicit ReferenceExecutable(ReferencePrecision precision) : precision_(precision) {}

  void run(Graph& graph, const Options& options) override {
    const EvaluationOrder& order = ready(graph, options.keep_everything);
    const bool told = environment::debug_level() >= 2;
    GraphRun run(graph, order, precision_, options.check_finite);
    for (const Step& step : order.steps()) {
      throw_if_cancelled();
      const auto begin = std::chrono::steady_clock::now();
      run.step(step);
      if (step.kind == Step::Kind::Input || (options.trace == nullptr && !told)) continue;
      const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
      if (options.trace != nullptr)
        options.trace->push_back({std::string(step.node->op->name), shapes_of(step, graph), time.count()});
      if (told) log_line(summary_of(step, graph, time.count()));
    }
    run.finish();
    update_states(graph);
  }

  [[nodiscard]] std::string report() const override {
    return fmt::format("reference interpreter, {} steps", order_ ? order_->steps().size() : 0);
  }

 private:
  /// The order depends on structure, sizes and on which values are there already.
  const EvaluationOrder& ready(const Graph& graph, bool everything) {
    std::vector<Value> pinned;
    for (const NodeId id : graph.nodes())
      if (graph.is_present(id) && is_computed(*graph.node(id).op)) pinned.push_back({id, 0});
    const bool same = order_ && version_ == graph.version() && dims_ == graph.dims() &&
                      everything_ == everything && pinned_ == pinned;
    if (!same) {
      if (order_) debug(1, "reference: planned again because {}", reason(graph, everything));
      order_.emplace(graph, precision_, everything);
      version_ = graph.version();
      dims_ = graph.dims();
      everything_ = everything;
      pinned_ = std::move(pinned);
    }
    return *order_;
  }

  /// Why the order at hand does not serve: the first of its conditions that fails.
  [[nodiscard]] std::string reason(const Graph& graph, bool everything) const {
    if (version_ != graph.version()) return "the graph or its marks changed";
    if (dims_ != graph.dims()) {
      std::string sizes;
      for (const auto& [name, size] : graph.dims()) sizes += fmt::format(" {}={}", name, size);
      return "sizes changed:" + sizes;
    }
    return everything_ != everything ? "keep_everything changed" : "other values are already present";
  }

  ReferencePrecision precision_;
  std::optional<EvaluationOrder> order_;
  uint64_t version_ = 0;
  DimMap dims_;
  bool everything_ = false;
  std::vector<Value> pinned_;
};

class ReferenceSession : public Session {
 public:
  explicit ReferenceSession(ReferencePrecision precision) : precision_(precision) {}
  [[nodiscard]] std::string_view device() const override {
    return precision_ == ReferencePrecision::AsWritten ? "reference" : "reference-f64";
  }
  [[nodiscard]] std::unique_ptr<Executable> compile(Graph&, const CompilationMode&) override {
    return std::make_unique<ReferenceExecutable>(precision_);
  }

 private:
  ReferencePrecision precision_;
};

TensorData reduce(const OpDef& op, const Attributes& attributes, const TensorData& input,
                  const TensorType& type) {
  const Shape dims(input.dims.begin(), input.dims.end());
  const auto& axes = attributes.get<std::vector<int64_t>>("axes");
  std::vector<int> order;
  int64_t outer = 1, reduced = 1;
  for (int axis = 0; axis < static_cast<int>(dims.size()); ++axis)
    if (std::ranges::find(axes, axis) == axes.end()) {
      order.push_back(axis);
      outer *= input.dims[static_cast<size_t>(axis)];
    }
  for (const int64_t axis : axes) {
    order.push_back(static_cast<int>(axis));
    reduced *= input.dims[static_cast<size_t>(axis)];
  }
  TensorData out(type.dtype, exec(type.dims, {}));
  const Source source{
      .dtype = input.dtype,
      .buffer = &input,
      .reader = std::make_shared<const ViewReader>(ShapeTracker::contiguous(dims).permute(order), DimMap{})};
  evaluate_reduction(source, fold_loops(*op.monoid, input.dtype), outer, reduced, 1, out);
  return out;
}

}  // namespace

FiniteCheck check_nodes(Graph& graph, std::unordered_set<NodeId> nodes,
                        const std::unordered_map<Value, TensorData>& effects) {
  const EvaluationOrder order(graph, ReferencePrecision::AsWritten, false);
  GraphRun run(graph, order, ReferencePrecision::AsWritten, true);
  // Nodes that stream into others have no step of their own.
  std::erase_if(nodes, [&](NodeId id) {
    return std::ranges::find(order.steps(), id, &Step::id) == order.steps().end();
  });
  for (auto step = order.steps().begin(); step != order.steps().end() && !nodes.empty(); ++step) {
    throw_if_cancelled();
    if (!step->node->op->is(Trait::SideEffect))
      run.step(*step);
    else if (effects.contains({step->id, 0}))
      run.take(*step, effects);
    else
      break;
    nodes.erase(step->id);
  }
  return run.check();
}

}  // namespace reference

std::shared_ptr<Session> make_reference_session(ReferencePrecision precision) {
  return std::make_shared<reference::ReferenceSession>(precision);
}

std::vector<TensorData> evaluate_op(const OpDef& op, const Attributes& attributes,
                                    std::span<const TensorData> inputs, const DimMap& dims, uint64_t step) {
  std::vector<TensorType> types;
  for (const TensorData& input : inputs)
    types.push_back({input.dtype, Shape(input.dims.begin(), input.dims.end())});
  std::vector<TensorData> outputs;
  for (const TensorType& type : op.infer(types, attributes)) {
    if (op.monoid) return {reference::reduce(op, attributes, inputs[0], type)};
    outputs.emplace_back(type.dtype, exec(type.dims, dims));
  }
  reference::GraphRun::evaluate(op, attributes, inputs, outputs, dims, step);
  return outputs;
}

}  // namespace luminal
