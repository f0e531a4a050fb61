#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "base/fail.h"
#include "graph/graph_state.h"
#include "graph/needed.h"
#include "search/encode/kernel_graph.h"
#include "search/encode/node_spec.h"
#include "search/saturate/spec_store.h"

namespace luminal::search {
namespace {

class Encoder {
 public:
  Encoder(const Graph& graph, bool everything, MathMode mode)
      : graph_(graph), everything_(everything), mode_(mode), specs_(mode) {}

  KernelGraph run() {
    find_results();
    count_readers();
    for (const NodeId id : graph_.topological_order())
      if (needed_.contains(id)) order_.push_back(id);
    for (const NodeId id : order_) node(id);
    link_hosts();
    for (const Value& value : results_)
      if (!graph_.is_pinned(value)) kernel_graph_.results.emplace_back(value, tensor_of(value));
    for (const auto& update : graph_.state_updates())
      kernel_graph_.updates.emplace_back(update.state, dense(update.next));
    mark_compared_sums();
    return std::move(kernel_graph_);
  }

 private:
  /// A kernel that may still become part of its one reader.
  struct Pending {
    KernelGraph::Tensor tensor;
  };

  void find_results() {
    results_ = graph_.wanted();
    std::vector<Value> wanted = results_;
    for (const auto& update : graph_.state_updates()) wanted.push_back(update.next.source);
    if (everything_)
      for (const NodeId id : graph_.nodes())
        for (int i = 0; i < static_cast<int>(graph_.node(id).outputs.size()); ++i)
          results_.push_back({id, i});
    std::ranges::sort(results_);
    results_.erase(std::unique(results_.begin(), results_.end()), results_.end());
    wanted.insert(wanted.end(), results_.begin(), results_.end());
    wanted_.insert(wanted.begin(), wanted.end());
    needed_ = needed_nodes(graph_, graph_.roots(wanted));
  }

  [[nodiscard]] bool is_input(NodeId id) const {
    return !is_computed(*graph_.node(id).op) || graph_.is_present(id);
  }

  void count_readers() {
    for (const NodeId id : needed_) {
      if (is_input(id)) continue;
      std::set<NodeId> sources;
      for (const Edge& edge : graph_.node(id).inputs) sources.insert(edge.source.node);
      for (const NodeId source : sources) ++readers_[source];
    }
  }

  void node(NodeId id) {
    const Node& node = graph_.node(id);
    if (is_input(id)) return inputs(id, node);
    if (is_formula(graph_, id)) {
      if (wanted_.contains({id, 0})) (void)formula(id);
      return;
    }
    if (!has_spec(node)) return host(id, node);
    KernelGraph::Tensor tensor = kernel_of(id, node);
    if (may_fold(id, node))
      pending_.emplace(id, Pending{std::move(tensor)});
    else
      add({id, 0}, std::move(tensor));
  }

  /// Read by one node only, and of an op that works element by element: its reader may hold it.
  [[nodiscard]] bool may_fold(NodeId id, const Node& node) const {
    const auto readers = readers_.find(id);
    return node.op->is(Trait::Elementwise) && !wanted_.contains({id, 0}) &&
           !graph_.state()->materialized.contains(id) && readers != readers_.end() && readers->second == 1;
  }

  void inputs(NodeId id, const Node& node) {
    for (int i = 0; i < static_cast<int>(node.outputs.size()); ++i)
      add({id, i}, {.kind = KernelGraph::Tensor::Kind::Input});
  }

  TensorId add(const Value& value, KernelGraph::Tensor tensor) {
    tensor.value = value;
    tensor.type = graph_.type(value);
    const auto id = static_cast<TensorId>(kernel_graph_.tensors.size());
    kernel_graph_.tensors.push_back(std::move(tensor));
    tensors_.emplace(value, id);
    return id;
  }

  /// The tensor of a value that has to be one.
  TensorId tensor_of(const Value& value) {
    if (const auto known = tensors_.find(value); known != tensors_.end()) return known->second;
    if (const auto pending = pending_.find(value.node); pending != pending_.end()) {
      KernelGraph::Tensor tensor = std::move(pending->second.tensor);
      pending_.erase(pending);
      return add(value, std::move(tensor));
    }
    LUMINAL_CHECK(is_formula(graph_, value.node), "value #{} was not encoded", value.node.index);
    return formula(value.node);
  }

  TensorId formula(NodeId id) {
    if (const auto known = tensors_.find(Value{id, 0}); known != tensors_.end()) return known->second;
    KernelGraph::Tensor tensor{.kind = KernelGraph::Tensor::Kind::Kernel};
    tensor.spec = canonical_of(spec_of(graph_, id).parts).spec;
    tensor.covers = {id};
    return add({id, 0}, std::move(tensor));
  }

  /// A tensor that holds what the edge shows, row by row.
  TensorId dense(const Edge& edge) {
    const TensorId source = tensor_of(edge.source);
    if (edge.view.is_identity()) return source;
    const auto [known, fresh] = copies_.try_emplace({source, edge.view.to_string()}, 0);
    if (!fresh) return known->second;
    KernelGraph::Tensor copy{.kind = KernelGraph::Tensor::Kind::Kernel};
    copy.spec = copy_spec(edge.view, graph_.type(edge.source).dtype);
    copy.type = {copy.spec.result().dtype(), edge.view.dims()};
    copy.arguments.assign(copy.spec.slots().size(), source);
    kernel_graph_.tensors.push_back(std::move(copy));
    return known->second = static_cast<TensorId>(kernel_graph_.tensors.size()) - 1;
  }

  void host(NodeId id, const Node& node) {
    KernelGraph::Host host{.node = id, .must_run = node.op->is(Trait::SideEffect)};
    for (const Edge& edge : node.inputs) host.inputs.push_back(dense(edge));
    const auto number = static_cast<int>(kernel_graph_.hosts.size());
    for (int i = 0; i < static_cast<int>(node.outputs.size()); ++i)
      host.outputs.push_back(add(
          {id, i}, {.kind = KernelGraph::Tensor::Kind::Host, .host = number, .output = i, .covers = {id}}));
    host_of_.emplace(id, number);
    kernel_graph_.hosts.push_back(std::move(host));
  }

  /// Hosts that a host comes after by an order edge, or by a path with one: data alone orders the rest.
  void link_hosts() {
    for (KernelGraph::Host& host : kernel_graph_.hosts) {
      std::unordered_set<NodeId> seen;
      std::set<int> before;
      std::vector<NodeId> stack = predecessors(host.node);
      while (!stack.empty()) {
        const NodeId id = stack.back();
        stack.pop_back();
        if (!needed_.contains(id) || !seen.insert(id).second) continue;
        if (const auto other = host_of_.find(id); other != host_of_.end()) {
          before.insert(other->second);
          continue;
        }
        if (is_input(id)) continue;
        for (const NodeId further : predecessors(id)) stack.push_back(further);
      }
      host.after.assign(before.begin(), before.end());
    }
  }
  [[nodiscard]] std::vector<NodeId> predecessors(NodeId id) const {
    const Node& node = graph_.node(id);
    std::vector<NodeId> list = node.after;
    for (const Edge& edge : node.inputs) list.push_back(edge.source.node);
    return list;
  }

  // --- Kernels

  KernelGraph::Tensor kernel_of(NodeId id, const Node& node) {
    NodeSpec plain = spec_of(graph_, id);
    const kernel::Canonical& canonical = canonical_of(std::move(plain.parts));
    KernelGraph::Tensor tensor{.kind = KernelGraph::Tensor::Kind::Kernel, .spec = canonical.spec};
    std::vector<Value> sources;
    for (const int slot : canonical.slots) sources.push_back(plain.slots[static_cast<size_t>(slot)]);
    fold_into(tensor, sources, node);
    for (const Value& source : sources) tensor.arguments.push_back(tensor_of(source));
    tensor.covers.push_back(id);
    return tensor;
  }

  /// Its slots are different values. Nodes that are alike differ in values alone.
  const kernel::Canonical& canonical_of(kernel::SpecParts parts) {
    const auto [known, fresh] = canonical_.try_emplace(std::move(parts));
    if (fresh) {
      std::vector<uint32_t> names(known->first.slots.size());
      std::iota(names.begin(), names.end(), 0U);
      known->second = kernel::canonical(known->first, names, mode_);
    }
    return known->second;
  }

  /// Composes pending producers into the spec; `sources` are its slots and follow.
  void fold_into(KernelGraph::Tensor& tensor, std::vector<Value>& sources, const Node& node) {
    if (everything_) return;
    for (size_t i = 0; i < sources.size();) {
      const auto pending = pending_.find(sources[i].node);
      if (pending == pending_.end() || !reads_once(node, sources[i]) ||
          !fold(tensor, sources, i, pending->second.tensor)) {
        ++i;
        continue;
      }
      pending_.erase(pending);
      i = 0;  // slots are numbered anew
    }
  }

  /// Views that repeat no element: then holding the producer costs no work.
  static bool reads_once(const Node& node, const Value& source) {
    return std::ranges::all_of(node.inputs, [&](const Edge& edge) {
      return edge.source != source || std::ranges::all_of(edge.view.steps(), [](const MovementStep& step) {
               return step.free_dims.empty();
             });
    });
  }

  bool fold(KernelGraph::Tensor& tensor, std::vector<Value>& sources, size_t slot,
            const KernelGraph::Tensor& producer) {
    std::vector<Value> producer_sources;
    for (const TensorId id : producer.arguments)
      producer_sources.push_back(*kernel_graph_.tensors[static_cast<size_t>(id)].value);
    std::unordered_map<Value, uint32_t> names;
    const auto named = [&](const std::vector<Value>& values) {
      std::vector<uint32_t> list;
      for (const Value& value : values)
        list.push_back(names.try_emplace(value, static_cast<uint32_t>(names.size())).first->second);
      return list;
    };
    const auto own = named(sources), theirs = named(producer_sources);
    const SpecStore::Made* composed = specs_.compose(specs_.intern(tensor.spec), static_cast<int>(slot),
                                                     specs_.intern(producer.spec), own, theirs);
    if (composed == nullptr) return false;
    std::vector<Value> slots;
    for (const auto& from : composed->slots)
      slots.push_back((from.producer ? producer_sources : sources)[static_cast<size_t>(from.slot)]);
    tensor.spec = specs_.at(composed->spec);
    sources = std::move(slots);
    tensor.covers.insert(tensor.covers.end(), producer.covers.begin(), producer.covers.end());
    return true;
  }

  // --- Sums that comparisons depend on

  /// Sums of floats whose rounding a value shows: reached without passing another such sum.
  using Sums = std::set<NodeId>;

  [[nodiscard]] Sums sums_behind(NodeId from) const {
    Sums sums;
    std::unordered_set<NodeId> seen;
    std::vector<NodeId> stack{from};
    while (!stack.empty()) {
      const NodeId id = stack.back();
      stack.pop_back();
      if (!needed_.contains(id) || is_input(id) || !seen.insert(id).second) continue;
      const Node& node = graph_.node(id);
      if (is_rounded_sum(node))
        sums.insert(id);
      else if (has_spec(node))
        for (const Edge& edge : node.inputs) stack.push_back(edge.source.node);
    }
    return sums;
  }
  [[nodiscard]] static bool is_rounded_sum(const Node& node) {
    return node.op->monoid && !info(*node.op->monoid).selects && is_float(node.outputs[0].dtype);
  }

  /// Whether the op compares two of its inputs with each other.
  [[nodiscard]] bool compares(const Node& node) {
    if (!node.op->is(Trait::Elementwise) || node.inputs.size() < 2 || !has_spec(node)) return false;
    if (!node.attributes.entries().empty()) return lowers_to_comparison(node);
    std::vector<Dtype> dtypes;
    for (const Edge& edge : node.inputs) dtypes.push_back(graph_.type(edge.source).dtype);
    const auto [known, fresh] = comparisons_.try_emplace({node.op, std::move(dtypes)}, false);
    if (fresh) known->second = lowers_to_comparison(node);
    return known->second;
  }

  [[nodiscard]] bool lowers_to_comparison(const Node& node) const {
    ScalarBuilder builder;
    std::vector<Scalar> inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      inputs.push_back(builder.input(static_cast<int>(i), graph_.type(node.inputs[i].source).dtype));
    const ScalarFunction body = builder.finish(node.op->lower(builder, inputs, node.attributes));
    return std::ranges::any_of(body.nodes(), [&](const ScalarNode& n) {
      const bool comparison =
          n.op == ScalarOp::Lt || n.op == ScalarOp::Le || n.op == ScalarOp::Eq || n.op == ScalarOp::Ne;
      return comparison && body[n.operands[0]].op != ScalarOp::Constant &&
             body[n.operands[1]].op != ScalarOp::Constant;
    });
  }

  void mark_compared_sums() {
    std::set<NodeId> once;
    for (const NodeId id : order_) {
      const Node& node = graph_.node(id);
      if (is_input(id) || !compares(node)) continue;
      std::map<NodeId, int> sides;
      for (const Edge& edge : node.inputs)
        for (const NodeId sum : sums_behind(edge.source.node)) ++sides[sum];
      for (const auto& [sum, count] : sides)
        if (count > 1) once.insert(sum);
    }
    for (KernelGraph::Tensor& tensor : kernel_graph_.tensors)
      tensor.no_recompute = tensor.kind == KernelGraph::Tensor::Kind::Kernel && tensor.value &&
                            once.contains(tensor.value->node);
  }

  const Graph& graph_;
  bool everything_;
  MathMode mode_;
  KernelGraph kernel_graph_;
  std::vector<Value> results_;
  std::unordered_set<Value> wanted_;
  std::unordered_set<NodeId> needed_;
  std::vector<NodeId> order_;  ///< of what is needed
  std::unordered_map<NodeId, int> readers_;
  std::unordered_map<NodeId, Pending> pending_;
  std::unordered_map<Value, TensorId> tensors_;
  std::map<std::pair<TensorId, std::string>, TensorId> copies_;
  std::unordered_map<NodeId, int> host_of_;
  struct PartsHash {  // not noexcept, so that the map keeps hashes beside its keys
    size_t operator()(const kernel::SpecParts& parts) const { return static_cast<size_t>(parts.hash()); }
  };
  std::unordered_map<kernel::SpecParts, kernel::Canonical, PartsHash> canonical_;
  /// What `compares` says of ops without attributes, by the dtypes that they read.
  std::map<std::pair<const OpDef*, std::vector<Dtype>>, bool> comparisons_;
  SpecStore specs_;  ///< layers that are alike are composed once
};

}  // namespace

KernelGraph encode(const Graph& graph, bool everything, MathMode mode) {
  return Encoder(graph, everything, mode).run();
}

}  // namespace luminal::search
