#include "luminal/graph_tensor.h"

#include <algorithm>

#include "base/fail.h"
#include "graph/data_input.h"
#include "graph/graph_state.h"
#include "graph/materialize.h"

namespace luminal {

// --- Handles

GraphTensor::GraphTensor(std::weak_ptr<GraphState> graph, Edge edge)
    : graph_(std::move(graph)),
      source_(edge.source),
      view_(std::make_shared<const ShapeTracker>(std::move(edge.view))) {}

Graph GraphTensor::graph() const { return Graph(lock(graph_)); }

Edge GraphTensor::edge() const {
  const Graph owner = graph();
  Edge edge = owner.resolve({source_, *view_});
  if (!owner.contains(edge.source.node))
    fail("[tensor] a pass removed the node of this tensor {}; give it to run_pass() so that it is kept",
         luminal::to_string(dims()));
  return edge;
}

bool GraphTensor::valid() const {
  const auto state = graph_.lock();
  if (!state) return false;
  const Graph owner(state);
  return owner.contains(owner.resolve({source_, *view_}).source.node);
}

GraphTensor GraphTensor::with_view(ShapeTracker view) const {
  note_dims(*lock(graph_), view);
  GraphTensor result(*this);
  result.view_ = std::make_shared<const ShapeTracker>(std::move(view));
  return result;
}

Dtype GraphTensor::dtype() const { return graph().type(edge().source).dtype; }

namespace {

/// "'w' f32[2] (made at model.cpp:41)"; for a view the dims that are seen, and the line of the value beneath.
std::string describe(const GraphTensor& tensor) {
  const Graph graph = tensor.graph();
  return describe_value(graph, tensor.edge().source, tensor.type());
}

}  // namespace

const Expression& GraphTensor::dim(int axis) const {
  const int at = axis < 0 ? axis + rank() : axis;
  if (at < 0 || at >= rank())
    fail<ShapeError>(
        "[dim] axis {} is out of range for {}; {}", axis, describe(*this),
        rank() == 0 ? "it has no axes" : fmt::format("axes go from {} to {}", -rank(), rank() - 1));
  return dims()[static_cast<size_t>(at)];
}

void GraphTensor::check_rank(int wanted) const {
  if (rank() != wanted)
    fail<ShapeError>("[dims{}] {} has rank {}; ask for as many dims as it has", wanted, describe(*this),
                     rank());
}

void GraphTensor::not_an_item(size_t elements) const {
  fail<ShapeError>(
      "[item] {} has {} elements, and item() gives the value of one; index it first, or read all with data()",
      describe(*this), elements);
}

std::vector<int> Axes::resolve(int rank, std::string_view op) const {
  std::vector<int> result;
  if (all_) {
    for (int axis = 0; axis < rank; ++axis) result.push_back(axis);
    return result;
  }
  for (const int axis : axes_) {
    const int at = axis < 0 ? axis + rank : axis;
    if (at < 0 || at >= rank)
      fail<ShapeError>("[{}] axis {} is out of range for rank {}; axes go from {} to {}", op, axis, rank,
                       -rank, rank - 1);
    result.push_back(at);
  }
  std::ranges::sort(result);
  if (const auto twice = std::ranges::adjacent_find(result); twice != result.end())
    fail<ShapeError>("[{}] axis {} is given twice; name each axis once", op, *twice);
  return result;
}

std::pair<std::vector<int64_t>, std::vector<Number>> NestedList::flatten() const {
  if (!is_list_) return {{}, {value_}};
  std::vector<int64_t> dims{static_cast<int64_t>(items_.size())};
  std::vector<Number> numbers;
  std::vector<int64_t> inner;
  for (size_t i = 0; i < items_.size(); ++i) {
    auto [sizes, values] = items_[i].flatten();
    if (i > 0 && sizes != inner)
      fail<ShapeError>("[set] the nested list is ragged: item 0 is [{}] and item {} is [{}]; make all alike",
                       fmt::join(inner, ", "), i, fmt::join(sizes, ", "));
    inner = std::move(sizes);
    numbers.insert(numbers.end(), values.begin(), values.end());
  }
  dims.insert(dims.end(), inner.begin(), inner.end());
  return {dims, numbers};
}

// --- Data and life cycle

namespace {

/// The input behind a handle. Errors: Error if it is computed, or seen through a view.
Value input_of(const GraphTensor& tensor, std::string_view call) {
  const Edge edge = tensor.edge();
  const Graph graph = tensor.graph();
  const Node& node = graph.node(edge.source.node);
  if (is_computed(*node.op))
    fail("[{}] only inputs take data, and this {} is made by '{}'; declare it with tensor()", call,
         tensor.type().to_string(), node.op->name);
  if (!edge.view.is_identity())
    fail("[{}] this tensor is a view of an input ({}); set the input itself", call, edge.view.to_string());
  return edge.source;
}

}  // namespace

GraphTensor& GraphTensor::set_data(TensorData data, bool shaped, Where where) {
  const CallSite site("set", where);
  Graph owner = graph();
  const Turn turn(*owner.state(), "set", Turn::For::Values);
  const Value input = input_of(*this, "set");
  owner.store(input, std::make_shared<TensorData>(fit_input(owner, input, std::move(data), shaped)), true);
  return *this;
}

void GraphTensor::check_values(size_t given, const std::vector<int64_t>& sizes, Where where) const {
  const CallSite site("set", where);
  const bool negative = std::ranges::any_of(sizes, [](int64_t size) { return size < 0; });
  const int64_t count = negative ? -1 : luminal::detail::count_elements(sizes);
  if (count != static_cast<int64_t>(given))
    fail<ShapeError>(
        "[set] {} values for {} do not fill the sizes [{}], which hold {}; give as many, or their own sizes",
        given, describe(*this), fmt::join(sizes, ", "), negative ? "none" : std::to_string(count));
}

GraphTensor& GraphTensor::set(const NestedList& values, Where where) {
  const CallSite site("set", where);
  auto [sizes, numbers] = values.flatten();
  const bool integers = std::ranges::all_of(numbers, [](const Number& n) { return n.is_integer(); });
  const bool shaped = sizes.size() != 1 && static_cast<int>(sizes.size()) == rank();
  if (!shaped && sizes.size() > 1)
    fail<ShapeError>("[set] a nested list of [{}] does not fit {}; ranks must be equal",
                     fmt::join(sizes, ", "), type().to_string());
  if (!shaped) sizes = {static_cast<int64_t>(numbers.size())};
  const auto fill = [&]<class T>(T) {
    std::vector<T> plain;
    plain.reserve(numbers.size());
    for (const Number& number : numbers) plain.push_back(number.as<T>());
    return TensorData::of<T>(std::move(sizes), plain);
  };
  return set_data(integers ? fill(int64_t{}) : fill(double{}), shaped, where);
}

GraphTensor& GraphTensor::set(const std::vector<bool>& values, Where where) {
  TensorData data(Dtype::Bool, {static_cast<int64_t>(values.size())});
  std::ranges::copy(values, data.as<bool>().begin());
  return set_data(std::move(data), false, where);
}

GraphTensor& GraphTensor::set_lazily(std::function<TensorData()> make, Where where) {
  const CallSite site("set_lazily", where);
  const auto state = lock(graph_);
  const Turn turn(*state, "set_lazily", Turn::For::Values);
  graph().store_lazily(input_of(*this, "set_lazily"), std::move(make), Makes::Once);
  return *this;
}

GraphTensor& GraphTensor::set_from(std::function<TensorData()> read, Where where) {
  const CallSite site("set_from", where);
  const auto state = lock(graph_);
  const Turn turn(*state, "set_from", Turn::For::Values);
  graph().store_lazily(input_of(*this, "set_from"), std::move(read), Makes::Again);
  return *this;
}

GraphTensor& GraphTensor::set_deferred(std::function<TensorData()> loader, Where where) {
  const CallSite site("set_deferred", where);
  const auto state = lock(graph_);
  const Turn turn(*state, "set_deferred", Turn::For::Values);
  const Value input = input_of(*this, "set_deferred");
  state->values[input].loader = std::move(loader);
  return *this;
}

GraphTensor& GraphTensor::check_data(std::function<void(const TensorData&)> check, Where where) {
  const CallSite site("check_data", where);
  const auto state = lock(graph_);
  const Turn turn(*state, "check_data", Turn::For::Values);
  const Value input = input_of(*this, "check_data");
  if (const auto held = graph().value(input)) check(*held);
  state->checks[input].push_back(std::move(check));
  return *this;
}

GraphTensor& GraphTensor::keep() {
  const auto state = lock(graph_);
  const Turn turn(*state, "keep", Turn::For::Structure);
  if (state->kept.insert(edge().source).second) ++state->version;
  return *this;
}

GraphTensor& GraphTensor::retrieve() {
  const auto state = lock(graph_);
  const Turn turn(*state, "retrieve", Turn::For::Structure);
  if (state->retrieved.insert(edge().source).second) ++state->version;
  return *this;
}

void GraphTensor::drop() {
  const auto state = lock(graph_);
  const Turn turn(*state, "drop", Turn::For::Structure);
  const Value value = edge().source;
  graph().erase(value);
  if (state->kept.erase(value) + state->retrieved.erase(value) > 0) ++state->version;
}

GraphTensor& GraphTensor::set_name(std::string name) {
  const auto state = lock(graph_);
  const Turn turn(*state, "set_name", Turn::For::Structure);
  state->slots[node().index].node.name = std::move(name);
  return *this;
}

std::string GraphTensor::name() const { return graph().node(node()).name; }

TensorData GraphTensor::data() const {
  const Graph owner = graph();
  const Turn turn(*owner.state(), "data", Turn::For::Values);
  const Edge edge = this->edge();
  const auto stored = owner.value(edge.source);
  if (!stored) fail("[data] {}", no_value_text(owner, edge.source));
  if (edge.view.is_identity()) return *stored;
  DimMap dims = owner.dims();
  return materialize(*stored, edge.view, dims);
}

TensorData GraphTensor::data_as(Dtype dtype) const {
  const TensorData raw = data();
  if (raw.dtype != dtype && dtype != Dtype::F64 && dtype != Dtype::F32 && dtype != Dtype::I64)
    fail<DtypeError>("[data] {} was requested as {}; request its own type, or double, float or int64_t",
                     describe(*this), luminal::name(dtype));
  return convert(raw, dtype);
}

// --- Printing

namespace {

std::string element_text(const TensorData& data, int64_t i) {
  return visit_dtype(data.dtype, [&](auto tag) {
    using T = decltype(tag);
    const T value = data.as<T>()[static_cast<size_t>(i)];
    if constexpr (std::is_same_v<T, bool>)
      return std::string(value ? "true" : "false");
    else if constexpr (std::is_integral_v<T>)
      return std::to_string(static_cast<int64_t>(value));
    else
      return fmt::format("{:.6g}", static_cast<double>(value));
  });
}

void append_axis(std::string& text, const TensorData& data, size_t axis, int64_t offset, int max_items) {
  if (axis == data.dims.size()) {
    text += element_text(data, offset);
    return;
  }
  int64_t stride = 1;
  for (size_t i = axis + 1; i < data.dims.size(); ++i) stride *= data.dims[i];
  const int64_t size = data.dims[axis];
  const int64_t head = size > max_items ? (max_items + 1) / 2 : size,
                tail = size > max_items ? max_items / 2 : 0;
  text += '[';
  for (int64_t i = 0; i < size; ++i) {
    if (i == head) {
      text += i > 0 ? ", ..." : "...";
      i = size - tail;
      if (i >= size) break;
    }
    if (i > 0) text += ", ";
    append_axis(text, data, axis + 1, offset + i * stride, max_items);
  }
  text += ']';
}

}  // namespace

std::string to_text(const TensorData& data, int max_items) {
  data.check_bytes("to_text");
  std::string text = fmt::format("{}[{}] ", name(data.dtype), fmt::join(data.dims, ", "));
  if (is_quantized(data.dtype)) return text + "<blocks>";
  append_axis(text, data, 0, 0, max_items);
  return text;
}

std::string GraphTensor::to_string(int max_items) const { return to_text(data(), max_items); }

}  // namespace luminal
