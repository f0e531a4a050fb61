#include "search/tuning/example_inputs.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "base/fail.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/suggest.h"
#include "graph/data_input.h"
#include "graph/graph_state.h"
#include "graph/node_run.h"
#include "luminal/quantized.h"
#include "ops/indexing.h"
#include "search/encode/node_spec.h"
#include "search/verification/plan_check.h"

namespace luminal::search {
namespace {

using runtime::PlanTensor;
using runtime::TensorIndex;
using Data = std::shared_ptr<const TensorData>;

std::string text_of(const TensorData& data) {
  return fmt::format("{}[{}]", name(data.dtype), fmt::join(data.dims, ", "));
}

/// Inputs by the names that programs gave them.
std::multimap<std::string, NodeId, std::less<>> named_inputs(const Graph& graph) {
  std::multimap<std::string, NodeId, std::less<>> inputs;
  for (const NodeId id : graph.nodes())
    if (const Node& node = graph.node(id); !is_computed(*node.op) && !node.name.empty())
      inputs.emplace(node.name, id);
  return inputs;
}

void check_example(const Graph& graph, const std::string& label, NodeId id, const TensorData& data) {
  const TensorType& type = graph.type({id, 0});
  if (data.dtype != type.dtype)
    fail<DtypeError>("[search] the example of '{}' is {}, and the input is {}; give {} numbers", label,
                     text_of(data), type.to_string(), name(type.dtype));
  const bool fits = data.dims.size() == type.dims.size() &&
                    std::ranges::equal(data.dims, type.dims, [](int64_t is, auto& dim) {
                      const auto fixed = dim.constant();
                      return fixed ? is == *fixed : is > 0;
                    });
  if (!fits || static_cast<int64_t>(data.bytes.size()) != size_bytes(data.dtype, data.element_count()))
    fail<ShapeError>(
        "[search] the example of '{}' is {}, and the input is {}; give one of that rank, with one element at "
        "least "
        "along named dims",
        label, text_of(data), type.to_string());
}

}  // namespace

void check_examples(const Graph& graph, const SearchOptions& options) {
  if (!options.examples.empty()) {
    const auto inputs = named_inputs(graph);
    std::vector<std::string> names;
    for (const auto& [label, id] : inputs) names.push_back(label);
    for (const auto& [label, data] : options.examples) {
      const auto count = inputs.count(label);
      if (count == 0)
        fail("[search] there is an example of '{}', and no input has that name{}{}", label,
             names.empty() ? "; name inputs with named_tensor"
                           : fmt::format("; there are {}", fmt::join(names, ", ")),
             did_you_mean(label, names));
      if (count > 1)
        fail("[search] there is an example of '{}', and {} inputs have that name; give each its own", label,
             count);
      check_example(graph, label, inputs.find(label)->second, data);
    }
  }
  const std::vector<std::string> dims = graph.dim_names();
  for (const DimMap& sizes : options.sizes)
    for (const auto& [dim, size] : sizes)
      if (std::ranges::find(dims, dim) == dims.end())
        fail("[search] there is a size of '{}', and no tensor has that dim{}{}", dim,
             dims.empty() ? "" : fmt::format("; there are {}", fmt::join(dims, ", ")),
             did_you_mean(dim, dims));
}

std::string key_text_of_examples(const SearchOptions& options) {
  uint64_t content = 0;
  for (const auto& [label, data] : options.examples) {
    content = combine(combine(content, hash_bytes(label)), hash_bytes(text_of(data)));
    content = combine(content, hash_bytes(data.bytes.data(), data.bytes.size()));
  }
  std::string text = options.examples.empty() ? "" : fmt::format("examples {:016x}", content);
  for (const DimMap& sizes : options.sizes) {
    text += " at";
    for (const auto& [dim, size] : sizes) text += fmt::format(" {} {}", dim, size);
  }
  return text;
}

std::vector<DimMap> sizes_to_time(const Graph& graph, const codegen::Bucket& bucket,
                                  const SearchOptions& options, std::span<const DimMap> seen) {
  constexpr size_t kMost = 3;
  const DimMap top = bucket.top();
  std::vector<DimMap> list;
  const auto add = [&](const DimMap& sizes) {
    DimMap all = top;
    for (auto& [dim, size] : all)
      if (const auto named = sizes.find(dim); named != sizes.end()) size = named->second;
    if (list.size() < kMost && holds(bucket, all) && std::ranges::find(list, all) == list.end() &&
        takes_sizes(graph, top, all))
      list.push_back(std::move(all));
  };
  for (const DimMap& sizes : options.sizes) add(sizes);
  if (!list.empty()) return list;
  for (const DimMap& sizes : seen)
    if (list.size() + 1 < kMost) add(sizes);
  add(top);
  return list;
}

Data fitted(Data data, const std::vector<int64_t>& dims) {
  if (data->dims == dims || is_quantized(data->dtype)) return data;
  LUMINAL_CHECK(data->dims.size() == dims.size() && data->element_count() > 0, "{} is made fit [{}]",
                text_of(*data), fmt::join(dims, ", "));
  auto made = std::make_shared<TensorData>(data->dtype, dims);
  if (dims.empty() || made->element_count() == 0) return made;
  const auto element = static_cast<size_t>(size_bytes(data->dtype, 1));
  const auto row = static_cast<size_t>(dims.back()), row_there = static_cast<size_t>(data->dims.back());
  const auto rows = static_cast<size_t>(made->element_count()) / row;
  for (size_t r = 0; r < rows; ++r) {
    size_t rest = r, there = 0, stride = 1;
    for (size_t axis = dims.size() - 1; axis-- > 0;) {
      const auto size = static_cast<size_t>(dims[axis]), size_there = static_cast<size_t>(data->dims[axis]);
      there += rest % size % size_there * stride;
      rest /= size;
      stride *= size_there;
    }
    for (size_t done = 0; done < row; done += row_there)
      std::memcpy(&made->bytes[(r * row + done) * element], &data->bytes[there * row_there * element],
                  std::min(row_there, row - done) * element);
  }
  return made;
}

namespace {

/// What integers of inputs are below, as their readers tell.
class Bounds {
 public:
  Bounds(const Graph& graph, const DimMap& dims) : graph_(graph), dims_(dims) {}

  std::optional<int64_t> of(NodeId input) {
    least_.reset();
    seen_.clear();
    follow(input, 0);
    return least_;
  }

 private:
  void follow(NodeId id, int depth) {
    constexpr int kMostNodes = 16;  // from an input to where it says a place
    if (depth > kMostNodes || !seen_.insert(id).second) return;
    for (const Use& use : graph_.uses(id)) {
      const Node& reader = graph_.node(use.node);
      if (reader.op->positions_input == use.input) {
        bound(ops::index_bound(graph_.type(reader.inputs[0].source), reader.attributes).exec(dims_));
      } else if (reader.op->is(Trait::Elementwise)) {
        if (reader.outputs[0].dtype == Dtype::Bool) compare(reader, use.input);
        if (is_integer(reader.outputs[0].dtype)) follow(use.node, depth + 1);
      }
    }
  }

  /// Compared with a formula that counts 0 ... n - 1.
  void compare(const Node& reader, int input) {
    for (int other = 0; other < static_cast<int>(reader.inputs.size()); ++other)
      if (other != input)
        if (const auto greatest = greatest_of(reader.inputs[static_cast<size_t>(other)].source))
          bound(*greatest + 1);
  }

  /// Of a formula over its places, of casts of it.
  [[nodiscard]] std::optional<int64_t> greatest_of(const Value& value) const {
    const Node* node = &graph_.node(value.node);
    while (node->op->is(Trait::Elementwise) && node->inputs.size() == 1)
      node = &graph_.node(node->inputs[0].source.node);
    if (!node->op->formula) return std::nullopt;
    const auto formula = node->op->formula(node->attributes);
    const auto* counted = std::get_if<Expression>(&formula);
    if (counted == nullptr || !is_integer(node->outputs[0].dtype)) return std::nullopt;
    const int64_t last = element_count(node->outputs[0].dims).exec(dims_) - 1;
    const auto at = [&](int64_t place) { return counted->substitute_flat_index(place).exec(dims_); };
    if (last < 1 || at(0) != 0 || at(last) != last) return std::nullopt;
    return last;
  }

  void bound(int64_t below) {
    if (below > 0) least_ = std::min(below, least_.value_or(below));
  }

  const Graph& graph_;
  const DimMap& dims_;
  std::optional<int64_t> least_;
  std::unordered_set<NodeId> seen_;
};

/// Spread over 0 ... below - 1.
Data draw_below(int64_t below, Dtype dtype, const std::vector<int64_t>& sizes, uint64_t seed) {
  TensorData numbers(Dtype::I64, sizes);
  uint64_t state = seed;
  for (int64_t& each : numbers.as<int64_t>()) {
    state = combine(state, 1);
    each = static_cast<int64_t>(state % static_cast<uint64_t>(below));
  }
  return std::make_shared<const TensorData>(convert(numbers, dtype));
}

/// The stored data of a value with these sizes; what is made or loaded when it is first asked for is left alone.
bool is_held(const Graph& graph, const Value& value, Dtype dtype, const std::vector<int64_t>& sizes) {
  const auto stored = graph.state()->values.find(value);
  return stored != graph.state()->values.end() && stored->second.data && stored->second.data->dims == sizes &&
         stored->second.data->dtype == dtype;
}

}  // namespace

runtime::Given timing_inputs(const Graph& graph, const runtime::Plan& plan, const DimMap& dims,
                             const SearchOptions& options, const Leaves& known) {
  runtime::Given given = plan_inputs(graph, plan, dims, options.seed);
  Bounds bounds(graph, dims);
  for (auto& [tensor, data] : given) {
    const PlanTensor& t = plan.tensors[static_cast<size_t>(tensor)];
    if (!t.value) continue;
    const std::vector<int64_t> sizes = exec(t.dims, dims);
    const auto take = [&](Data other) {
      if (other->dtype != t.dtype || other->dims.size() != sizes.size() || other->element_count() == 0)
        return false;
      other = fitted(std::move(other), sizes);
      if (other->dims != sizes) return false;
      data = std::move(other);
      return true;
    };
    if (const auto leaf = known.find(*t.value); leaf != known.end() && take(leaf->second)) continue;
    const Node& node = graph.node(t.value->node);
    if (t.role != PlanTensor::Role::Input) continue;
    if (const auto example = options.examples.find(node.name);
        example != options.examples.end() && take(std::make_shared<const TensorData>(example->second)))
      continue;
    if (!is_integer(t.dtype) || is_held(graph, *t.value, t.dtype, sizes)) continue;
    if (const auto below = bounds.of(t.value->node))
      data = draw_below(*below, t.dtype, sizes, combine(options.seed, number_of(*t.value)));
  }
  return given;
}

namespace {

/// A plan that runs launch by launch, with the host's ops.
class Recording {
 public:
  Recording(backends::Device& device, const Graph& graph, const runtime::Plan& plan, const DimMap& dims,
            const runtime::Given& given)
      : graph_(graph),
        plan_(plan),
        dims_(dims),
        runner_(device, plan, dims, given, runtime::PlanRunner::Memory::Separate) {}

  void run(Progress& progress) {
    for (int launch = 0; launch < static_cast<int>(plan_.launches.size()); ++launch, ++progress) {
      if (const auto& host = plan_.launches[static_cast<size_t>(launch)].host; host && may_run(*host))
        evaluate(*host);
      runner_.run_launch(launch);
    }
  }
  [[nodiscard]] TensorData::Bytes bytes(TensorIndex tensor) const { return runner_.bytes(tensor); }
  [[nodiscard]] ValueRange range(TensorIndex tensor) const {
    const Dtype dtype = plan_.tensors[static_cast<size_t>(tensor)].dtype;
    if (const auto in_place = runner_.view(tensor); !in_place.empty()) return range_of({dtype, in_place});
    return range_of({dtype, runner_.bytes(tensor)});
  }

  /// Looks at nothing but its inputs, and changes nothing but its outputs.
  static bool may_run(const runtime::HostLaunch& host) {
    return !host.op->is(Trait::SideEffect) && !host.op->is(Trait::Opaque);
  }

 private:
  [[nodiscard]] TensorData data_of(TensorIndex tensor) const {
    const PlanTensor& t = plan_.tensors[static_cast<size_t>(tensor)];
    if (t.role == PlanTensor::Role::Constant) return *t.constant;
    TensorData data;
    data.dtype = t.dtype;
    data.dims = exec(t.dims, dims_);
    data.bytes = runner_.bytes(tensor);
    return data;
  }

  void evaluate(const runtime::HostLaunch& host) {
    std::vector<TensorData> inputs, outputs;
    std::vector<const TensorData*> pointers;
    for (const TensorIndex input : host.inputs) inputs.push_back(data_of(input));
    for (const TensorData& input : inputs) pointers.push_back(&input);
    for (const TensorIndex output : host.outputs) {
      const PlanTensor& t = plan_.tensors[static_cast<size_t>(output)];
      outputs.emplace_back(t.dtype, exec(t.dims, dims_));
    }
    const NodeRun run(graph_, host.node);
    EvalContext context{pointers, outputs, host.attributes, dims_, graph_.step()};
    host.op->evaluate(context);
    for (size_t i = 0; i < outputs.size(); ++i)
      runner_.give(host.outputs[i], std::make_shared<const TensorData>(std::move(outputs[i])));
  }

  const Graph& graph_;
  const runtime::Plan& plan_;
  const DimMap& dims_;
  runtime::PlanRunner runner_;
};

struct Made {
  TensorIndex tensor;
  bool by_host;
};
struct Kept {
  TensorIndex tensor;
  int64_t offset, bytes;
};

/// What launches make that is a value of the graph: first what the host's ops make.
std::vector<Made> values_made(const runtime::Plan& plan) {
  std::vector<Made> list;
  for (const bool by_host : {true, false})
    for (const runtime::Launch& launch : plan.launches) {
      if (launch.loop || (launch.host && !Recording::may_run(*launch.host)) ||
          launch.host.has_value() != by_host)
        continue;
      for (const TensorIndex output : launch.outputs())
        if (plan.tensors[static_cast<size_t>(output)].value) list.push_back({output, by_host});
    }
  return list;
}

/// Of `made` all that the host's ops make, and other values that are not large, the first ones first.
std::vector<Kept> values_to_keep(const runtime::Plan& plan, const DimMap& dims, std::span<const Made> made) {
  constexpr int64_t kLarge = int64_t{16} << 20, kAll = int64_t{256} << 20;
  std::vector<Kept> list;
  int64_t total = 0;
  for (const auto& [tensor, by_host] : made) {
    const PlanTensor& t = plan.tensors[static_cast<size_t>(tensor)];
    const int64_t bytes = size_bytes(t.dtype, element_count(t.dims).exec(dims));
    if (bytes == 0 || (!by_host && bytes > kLarge) || total + bytes > kAll) continue;
    list.push_back({tensor, total, bytes});
    total += backends::aligned(bytes);
  }
  return list;
}

template <class Known, class What>
void add(std::unordered_map<Value, Known>& known, const PlanTensor& tensor, const What& what) {
  known.try_emplace(*tensor.value, what);
  for (const Value& alias : tensor.aliases) known.try_emplace(alias, what);
}

/// A range on its way out of a contained process.
struct RangeRecord {
  size_t count;
  double quantiles[ValueRange::kMost];

  void set(const ValueRange& range) {
    count = std::min(range.quantiles.size(), ValueRange::kMost);
    std::copy_n(range.quantiles.begin(), count, quantiles);
  }
  [[nodiscard]] ValueRange get() const { return {{quantiles, quantiles + count}}; }
};

}  // namespace

RunValues record_values(backends::Device& device, const Graph& graph, const runtime::Plan& plan,
                        const DimMap& dims, const runtime::Given& given,
                        std::chrono::steady_clock::time_point until) {
  const std::vector<Made> made = values_made(plan);
  const std::vector<Kept> kept = values_to_keep(plan, dims, made);
  const SharedBytes memory(kept.empty() ? 1 : kept.back().offset + kept.back().bytes);
  const SharedBytes ranges(static_cast<int64_t>((made.size() + 1) * sizeof(RangeRecord)));
  std::string trouble;
  try {
    trouble = run_contained(
        [&](Progress& progress) {
          Recording recording(device, graph, plan, dims, given);
          recording.run(progress);
          for (const Kept& each : kept)
            std::ranges::copy(recording.bytes(each.tensor), memory.bytes().begin() + each.offset);
          for (size_t i = 0; i < made.size(); ++i, ++progress)
            ranges.as<RangeRecord>()[i].set(recording.range(made[i].tensor));
        },
        std::chrono::seconds(20), containment_of(device), until);
  } catch (const Error& error) {  // an op of the host refuses what it is given
    trouble = fmt::format("ended with \"{}\"", error.what());
  }
  if (!trouble.empty()) {
    debug(1, "search: a run that shows what kernels read {}; candidates are timed on numbers that are drawn",
          trouble);
    return {};
  }
  RunValues values;
  for (size_t i = 0; i < made.size(); ++i)
    add(values.ranges, plan.tensors[static_cast<size_t>(made[i].tensor)], ranges.as<RangeRecord>()[i].get());
  for (const Kept& each : kept) {
    const PlanTensor& t = plan.tensors[static_cast<size_t>(each.tensor)];
    auto data = std::make_shared<TensorData>(t.dtype, exec(t.dims, dims));
    std::ranges::copy(
        memory.bytes().subspan(static_cast<size_t>(each.offset), static_cast<size_t>(each.bytes)),
        data->bytes.begin());
    add(values.leaves, t, Data(data));
  }
  for (const auto& [tensor, data] : given) {
    const PlanTensor& t = plan.tensors[static_cast<size_t>(tensor)];
    if (!t.value || t.role != PlanTensor::Role::Input) continue;
    add(values.leaves, t, data);
    add(values.ranges, t, range_of(elements_of(*data)));
  }
  for (const PlanTensor& t : plan.tensors)
    if (t.value && t.role == PlanTensor::Role::Constant)
      add(values.ranges, t, range_of(elements_of(*t.constant)));
  return values;
}

}  // namespace luminal::search
