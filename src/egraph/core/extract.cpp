#include "egraph/core/extract.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <tuple>

#include "base/fail.h"

namespace luminal::egraph {

namespace {

uint64_t literal_key(SortId sort, Value value) { return (uint64_t{index_of(sort)} << 32) | value; }

void check_cost(Cost cost, std::string_view what) {
  if (!(cost >= 0)) fail("[extract] the cost of {} is {}; costs are numbers of at least 0", what, cost);
}

}  // namespace

ExtractionGraph::ExtractionGraph(EGraph& graph, const CostModel& model) : graph_(graph), model_(model) {
  graph.rebuild();
  EngineState& state = graph.state();
  part_of_id_.assign(state.ids.size(), kNone);
  for (uint32_t f = 0; f < state.functions.size(); f++) {
    const FunctionInfo& info = state.functions[f];
    if (info.spec.kind != FunctionKind::Constructor || info.spec.unextractable) continue;
    check_cost(info.spec.cost, info.spec.name);
    for (Row row = 0; row < info.table.rows(); row++)
      if (info.table.is_live(row) && !info.table.is_subsumed(row)) add_row(FunctionId{f}, info, row);
  }
  options_.push_back({kNone, FunctionId{}, kNoRow, static_cast<uint32_t>(children_.size()), 0});
  options_begin_.assign(parts_.size() + 2, 0);
  for (Option o = 0; o < option_count(); o++) options_begin_[options_[o].part + 2]++;
  for (size_t p = 2; p < options_begin_.size(); p++) options_begin_[p] += options_begin_[p - 1];
  options_by_part_.resize(option_count());
  for (Option o = 0; o < option_count(); o++) options_by_part_[options_begin_[options_[o].part + 1]++] = o;
}

Cost ExtractionGraph::literal_cost(SortId sort, Value value) const {
  const Cost cost = model_.literal ? model_.literal(sort, value, {}) : graph_.sort_hooks(sort).cost;
  check_cost(cost, graph_.sort_name(sort));
  return cost;
}

void ExtractionGraph::add_row(FunctionId f, const FunctionInfo& info, Row row) {
  OptionInfo option{part_of(info.spec.output, info.table.output_of(row)), f, row, 0, info.spec.cost};
  std::vector<Part> children;
  for (uint32_t c = 0; c < info.spec.inputs.size(); c++) {
    const SortId sort = info.spec.inputs[c];
    const Value value = info.table.column(c)[row];
    if (is_literal(sort))
      option.own += literal_cost(sort, value);
    else
      children.push_back(part_of(sort, value));
  }
  // After part_of, which may have added containers with options of their own.
  option.first_child = static_cast<uint32_t>(children_.size());
  children_.insert(children_.end(), children.begin(), children.end());
  options_.push_back(option);
}

ExtractionGraph::Part ExtractionGraph::part_of(SortId sort, Value value) {
  const Part next = static_cast<Part>(parts_.size());
  if (graph_.state().at(sort).kind == SortKind::Eq) {
    Part& part = part_of_id_[value];
    if (part == kNone) {
      part = next;
      parts_.push_back({sort, value});
    }
    return part;
  }
  const auto [entry, fresh] = part_of_container_.try_emplace(literal_key(sort, value), next);
  if (!fresh) return entry->second;
  parts_.push_back({sort, value});
  add_container(next);
  return next;
}

void ExtractionGraph::add_container(Part part) {
  const auto [sort, value] = parts_[part];
  const ContainerSort& hooks = graph_.sort_hooks(sort);
  OptionInfo option{part, FunctionId{}, kNoRow, 0, hooks.cost};
  std::vector<Part> children;
  hooks.elements(value, [&](SortId s, Value v) {
    if (is_literal(s))
      option.own += literal_cost(s, v);
    else
      children.push_back(part_of(s, v));
  });
  option.first_child = static_cast<uint32_t>(children_.size());
  children_.insert(children_.end(), children.begin(), children.end());
  options_.push_back(option);
}

ExtractionGraph::Part ExtractionGraph::find(SortId sort, Value value) const {
  value = graph_.canonical(sort, value);
  if (graph_.is_eq_sort(sort)) return value < part_of_id_.size() ? part_of_id_[value] : kNone;
  const auto known = part_of_container_.find(literal_key(sort, value));
  return known == part_of_container_.end() ? kNone : known->second;
}

Cost ExtractionGraph::cost(Option o, std::span<const Cost> child_costs) const {
  const OptionInfo& option = options_[o];
  const bool container = option.row == kNoRow;
  if (container ? !model_.literal : !model_.node) {
    Cost sum = option.own;
    for (const Cost c : child_costs) sum += c;
    return sum;
  }
  std::vector<Cost> costs;
  size_t child = 0;
  const auto add = [&](SortId sort, Value value) {
    costs.push_back(is_literal(sort) ? literal_cost(sort, value) : child_costs[child++]);
  };
  Cost result = 0;
  if (container) {
    const auto [sort, value] = parts_[option.part];
    graph_.sort_hooks(sort).elements(value, add);
    result = model_.literal(sort, value, costs);
  } else {
    const FunctionInfo& info = graph_.state().at(option.function);
    std::vector<Value> args;
    for (uint32_t c = 0; c < info.spec.inputs.size(); c++) {
      args.push_back(info.table.column(c)[option.row]);
      add(info.spec.inputs[c], args.back());
    }
    result = model_.node(option.function, args, costs);
  }
  check_cost(result, container ? "a container" : graph_.spec(option.function).name);
  return result;
}

uint32_t ExtractionGraph::append_node(TermDag& dag, Option o, std::span<const uint32_t> child_nodes,
                                      std::unordered_map<uint64_t, uint32_t>& literals) const {
  const OptionInfo& option = options_[o];
  TermDag::Node node;
  node.sort = parts_[option.part].sort;
  node.value = parts_[option.part].value;
  size_t child = 0;
  const auto add = [&](SortId sort, Value value) {
    if (!is_literal(sort)) {
      node.children.push_back(child_nodes[child++]);
      return;
    }
    const auto [entry, fresh] =
        literals.try_emplace(literal_key(sort, value), static_cast<uint32_t>(dag.nodes.size()));
    if (fresh) dag.nodes.push_back({false, FunctionId{}, sort, value, {}});
    node.children.push_back(entry->second);
  };
  if (option.row == kNoRow) {
    graph_.sort_hooks(node.sort).elements(node.value, add);
  } else {
    node.is_function = true;
    node.function = option.function;
    const FunctionInfo& info = graph_.state().at(option.function);
    for (uint32_t c = 0; c < info.spec.inputs.size(); c++)
      add(info.spec.inputs[c], info.table.column(c)[option.row]);
  }
  dag.nodes.push_back(std::move(node));
  return static_cast<uint32_t>(dag.nodes.size() - 1);
}

TreeChoice cheapest_trees(const ExtractionGraph& graph) {
  using Option = ExtractionGraph::Option;
  const size_t parts = graph.part_count(), options = graph.option_count();
  TreeChoice out{std::vector<Cost>(parts, kInfinite), std::vector<Option>(parts, ExtractionGraph::kNone),
                 std::vector<Cost>(options, kInfinite), std::vector<uint32_t>(parts, 0)};
  // Where each part occurs as a child.
  std::vector<uint32_t> begin(parts + 2, 0), waiting(options);
  for (Option o = 0; o < options; o++)
    for (const auto child : graph.children(o)) begin[child + 2]++;
  for (size_t p = 2; p < begin.size(); p++) begin[p] += begin[p - 1];
  std::vector<Option> users(begin.back());
  for (Option o = 0; o < options; o++) {
    waiting[o] = static_cast<uint32_t>(graph.children(o).size());
    for (const auto child : graph.children(o)) users[begin[child + 1]++] = o;
  }
  using Entry = std::pair<Cost, Option>;  // options are numbered by function and row: ties go to the older
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  std::vector<Cost> costs;
  const auto offer = [&](Option o) {
    costs.clear();
    for (const auto child : graph.children(o)) costs.push_back(out.cost[child]);
    out.option_cost[o] = graph.cost(o, costs);
    if (out.option_cost[o] < kInfinite) queue.emplace(out.option_cost[o], o);
  };
  for (Option o = 0; o < options; o++)
    if (waiting[o] == 0) offer(o);
  uint32_t rank = 0;
  while (!queue.empty()) {
    const auto [cost, o] = queue.top();
    queue.pop();
    const auto part = graph.option(o).part;
    if (out.option[part] != ExtractionGraph::kNone) continue;
    out.option[part] = o;
    out.cost[part] = cost;
    out.rank[part] = rank++;
    for (uint32_t u = begin[part]; u < begin[part + 1]; u++)
      if (--waiting[users[u]] == 0) offer(users[u]);
  }
  return out;
}

std::vector<ExtractionGraph::Part> reachable_in_order(const ExtractionGraph& graph,
                                                      const std::vector<ExtractionGraph::Option>& choice,
                                                      ExtractionGraph::Part root) {
  std::vector<ExtractionGraph::Part> order;
  std::vector<uint8_t> seen(graph.part_count(), 0);
  std::vector<std::pair<ExtractionGraph::Part, size_t>> stack{{root, 0}};
  seen[root] = 1;
  while (!stack.empty()) {
    auto& [part, next] = stack.back();
    const auto children = graph.children(choice[part]);
    if (next == children.size()) {
      order.push_back(part);
      stack.pop_back();
      continue;
    }
    const auto child = children[next++];
    if (seen[child] != 0) continue;
    seen[child] = 1;
    stack.emplace_back(child, 0);
  }
  return order;
}

TermDag term_of_choice(const ExtractionGraph& graph, const std::vector<ExtractionGraph::Option>& choice,
                       ExtractionGraph::Part root) {
  TermDag dag;
  std::unordered_map<uint64_t, uint32_t> literals;
  std::unordered_map<ExtractionGraph::Part, uint32_t> node_of;
  std::vector<uint32_t> children;
  for (const auto part : reachable_in_order(graph, choice, root)) {
    children.clear();
    for (const auto child : graph.children(choice[part])) children.push_back(node_of.at(child));
    node_of[part] = graph.append_node(dag, choice[part], children, literals);
  }
  dag.root = node_of.at(root);
  return dag;
}

struct Extractor::State {
  State(EGraph& g, CostModel m) : model(std::move(m)), graph(g, model), trees(cheapest_trees(graph)) {}
  CostModel model;
  ExtractionGraph graph;
  TreeChoice trees;

  /// The part of a value that can be made; kNone otherwise.
  [[nodiscard]] ExtractionGraph::Part makeable(SortId sort, Value value) const {
    const auto part = graph.find(sort, value);
    return part != ExtractionGraph::kNone && trees.cost[part] < kInfinite ? part : ExtractionGraph::kNone;
  }
  [[nodiscard]] TermDag literal(SortId sort, Value value) const {
    TermDag dag;
    dag.nodes.push_back({false, FunctionId{}, sort, value, {}});
    dag.cost = graph.literal_cost(sort, value);
    return dag;
  }
  /// A container that no row holds is no part, but its elements may be.
  [[nodiscard]] std::optional<TermDag> container(const Extractor& self, SortId sort, Value value) const {
    if (graph.graph().is_eq_sort(sort)) return std::nullopt;
    const ContainerSort& hooks = graph.graph().sort_hooks(sort);
    TermDag dag;
    TermDag::Node top{false, FunctionId{}, sort, value, {}};
    std::vector<Cost> costs;
    bool complete = true;
    hooks.elements(value, [&](SortId s, Value v) {
      const std::optional<TermDag> element = complete ? self.best(s, v) : std::nullopt;
      complete &= element.has_value();
      if (!complete) return;
      const uint32_t offset = static_cast<uint32_t>(dag.nodes.size());
      for (TermDag::Node node : element->nodes) {
        for (uint32_t& child : node.children) child += offset;
        dag.nodes.push_back(std::move(node));
      }
      top.children.push_back(element->root + offset);
      costs.push_back(element->cost);
    });
    if (!complete) return std::nullopt;
    dag.cost = hooks.cost;
    for (const Cost c : costs) dag.cost += c;
    if (model.literal) dag.cost = model.literal(sort, value, costs);
    dag.root = static_cast<uint32_t>(dag.nodes.size());
    dag.nodes.push_back(std::move(top));
    return dag;
  }
};

Extractor::Extractor(EGraph& graph, CostModel model)
    : state_(std::make_unique<State>(graph, std::move(model))) {}
Extractor::~Extractor() = default;
Extractor::Extractor(Extractor&&) noexcept = default;

std::optional<Cost> Extractor::cost(SortId sort, Value value) const {
  if (state_->graph.is_literal(sort)) return state_->graph.literal_cost(sort, value);
  const auto part = state_->makeable(sort, value);
  if (part != ExtractionGraph::kNone) return state_->trees.cost[part];
  const std::optional<TermDag> term = state_->container(*this, sort, value);
  return term ? std::optional(term->cost) : std::nullopt;
}

std::optional<TermDag> Extractor::best(SortId sort, Value value) const {
  if (state_->graph.is_literal(sort)) return state_->literal(sort, value);
  const auto part = state_->makeable(sort, value);
  if (part == ExtractionGraph::kNone) return state_->container(*this, sort, value);
  TermDag dag = term_of_choice(state_->graph, state_->trees.option, part);
  dag.cost = state_->trees.cost[part];
  return dag;
}

std::vector<TermDag> Extractor::variants(SortId sort, Value value, size_t k) const {
  if (state_->graph.is_literal(sort)) return {state_->literal(sort, value)};
  const auto part = state_->makeable(sort, value);
  std::vector<TermDag> out;
  if (part == ExtractionGraph::kNone) return out;
  const auto all = state_->graph.options_of(part);
  std::vector<ExtractionGraph::Option> options(all.begin(), all.end());
  const std::vector<Cost>& costs = state_->trees.option_cost;
  std::erase_if(options, [&](auto o) { return !(costs[o] < kInfinite); });
  std::sort(options.begin(), options.end(),
            [&](auto a, auto b) { return std::tie(costs[a], a) < std::tie(costs[b], b); });
  for (size_t i = 0; i < options.size() && i < k; i++) {
    // The root may occur below itself: its node there is the best one, so terms are built below the root.
    TermDag dag;
    std::unordered_map<uint64_t, uint32_t> literals;
    std::unordered_map<ExtractionGraph::Part, uint32_t> node_of;
    std::vector<uint32_t> children;
    for (const auto child : state_->graph.children(options[i])) {
      for (const auto below : reachable_in_order(state_->graph, state_->trees.option, child)) {
        if (node_of.contains(below)) continue;
        children.clear();
        for (const auto c : state_->graph.children(state_->trees.option[below]))
          children.push_back(node_of.at(c));
        node_of[below] = state_->graph.append_node(dag, state_->trees.option[below], children, literals);
      }
    }
    children.clear();
    for (const auto child : state_->graph.children(options[i])) children.push_back(node_of.at(child));
    dag.root = state_->graph.append_node(dag, options[i], children, literals);
    dag.cost = costs[options[i]];
    out.push_back(std::move(dag));
  }
  return out;
}

std::vector<TermDag> Extractor::k_best(SortId sort, Value value, size_t k) const {
  if (state_->model.node || state_->model.literal)
    fail("[extract] k_best takes the additive cost model only; use variants with a model of your own");
  if (state_->graph.is_literal(sort)) return {state_->literal(sort, value)};
  const auto part = state_->makeable(sort, value);
  if (part == ExtractionGraph::kNone) return {};
  return cheapest_k(state_->graph, state_->trees, part, k);
}

std::optional<TermDag> Extractor::best_dag(SortId sort, Value value, size_t exact_classes) const {
  if (state_->model.node || state_->model.literal)
    fail(
        "[extract] best_dag takes the additive cost model only; set costs in the constructors' declarations");
  if (state_->graph.is_literal(sort)) return state_->literal(sort, value);
  const auto part = state_->makeable(sort, value);
  if (part == ExtractionGraph::kNone) return std::nullopt;
  return cheapest_dag(state_->graph, state_->trees, part, exact_classes);
}

}  // namespace luminal::egraph
