#include "search/plan_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/fail.h"
#include "base/hash.h"
#include "base/stopwatch.h"
#include "kernel/cost.h"
#include "kernel/in_place.h"
#include "search/cache/kernel_cache.h"
#include "search/tuning/tuner.h"

namespace luminal::search {
namespace {

using runtime::Launch;
using runtime::PlanTensor;
using runtime::TensorIndex;

/// The record as the executor runs it: an elementwise op on dtypes that no kernel takes runs its own element
/// loop.
const OpDef& runnable(const OpDef& op) {
  if (op.evaluate) return op;
  LUMINAL_CHECK(op.elementwise != nullptr, "'{}' has no evaluation of its own", op.name);
  static std::mutex mutex;
  static std::map<const OpDef*, OpDef> records;
  const std::scoped_lock lock(mutex);
  const auto [known, fresh] = records.try_emplace(&op, op);
  if (fresh)
    known->second.evaluate = [kernels = op.elementwise, name = op.name](EvalContext& context) {
      std::vector<Dtype> dtypes;
      std::vector<const void*> inputs;
      for (const TensorData* input : context.inputs) {
        dtypes.push_back(input->dtype);
        inputs.push_back(input->bytes.data());
      }
      TensorData& out = context.outputs[0];
      const ElementKernel kernel = kernels(dtypes, out.dtype);
      if (kernel == nullptr) fail<DtypeError>("[{}] does not take {}", name, luminal::name(dtypes[0]));
      kernel(inputs.data(), out.bytes.data(), out.element_count(), context.attributes);
    };
  return known->second;
}

class Builder {
 public:
  Builder(const Graph& graph, const KernelGraph& kernel_graph, const SaturatedGraph& saturated,
          const Cover& cover, SpecStore& store, const Loops& loops)
      : graph_(graph),
        kernel_graph_(kernel_graph),
        saturated_(saturated),
        cover_(cover),
        store_(store),
        loops_(loops) {
    first_.assign(saturated.cover.classes.size(), -1);
  }

  runtime::Plan run(const ImplementationFor& choose, backends::Device& backend, const codegen::Bucket& bucket,
                    PlanFacts& facts) {
    plan_.bucket = bucket;
    key_ = hash_bytes(key_text(backend.target()));
    for (const auto& [dim, known] : bucket.facts)
      if (known.min == known.max) fixed_[dim] = known.min;
    for (const CoverStep& step : cover_.steps) step.kernel >= 0 ? kernel(step.kernel) : host(step.host);
    for (const auto& [value, id] : kernel_graph_.results) plan_.results.push_back({value, tensor_of(id)});
    for (const auto& [state, id] : kernel_graph_.updates) plan_.updates.push_back({state, tensor_of(id)});
    compile(choose, backend, facts);
    facts.host_ops = static_cast<int>(
        std::ranges::count_if(plan_.launches, [](const Launch& launch) { return launch.host.has_value(); }));
    plan_.key = key_;
    return std::move(plan_);
  }

 private:
  /// A kernel that has still to be chosen and compiled.
  struct Open {
    size_t launch;
    SpecId spec;
  };

  void kernel(int number) {
    const CoverKernel& kernel = cover_.kernels[static_cast<size_t>(number)];
    if (computes_nothing(kernel)) return;
    Launch launch{.kernel = runtime::KernelLaunch{}};
    for (const int c : kernel.inputs) launch.kernel->inputs.push_back(tensor_of_class(c));
    const kernel::KernelSpec& spec = store_.at(kernel.spec);
    for (size_t i = 0; i < kernel.outputs.size(); ++i) {
      const int c = kernel.outputs[i];
      launch.kernel->outputs.push_back(made(c, spec.outputs()[i], spec));
    }
    launch.kernel->in_place = in_place(spec);
    describe(launch, kernel);
    open_.push_back({plan_.launches.size(), kernel.spec});
    plan_.launches.push_back(std::move(launch));
  }

  /// Outputs without elements are there without a launch. True if that is all the kernel has.
  bool computes_nothing(const CoverKernel& kernel) {
    const kernel::KernelSpec& spec = store_.at(kernel.spec);
    const auto is_fixed = [&](const std::string& dim) { return fixed_.contains(dim); };
    if (!std::ranges::all_of(spec.outputs(),
                             [&](const kernel::Output& o) { return is_nothing(o.elements); }) ||
        !std::ranges::all_of(spec.symbols(), is_fixed))
      return false;
    for (size_t i = 0; i < kernel.outputs.size(); ++i)
      make_empty(made(kernel.outputs[i], spec.outputs()[i], spec));
    return true;
  }
  [[nodiscard]] bool is_nothing(const Expression& elements) const {
    return elements.substitute(fixed_) == Expression(0);
  }
  void make_empty(TensorIndex number) {
    PlanTensor& tensor = plan_.tensors[static_cast<size_t>(number)];
    tensor.role = PlanTensor::Role::Constant;
    tensor.constant = std::make_shared<const TensorData>(tensor.dtype, exec(tensor.dims, fixed_));
  }

  static std::vector<runtime::InPlace> in_place(const kernel::KernelSpec& spec) {
    std::vector<runtime::InPlace> list;
    for (const int slot : kernel::replaceable_slots(spec)) list.push_back({.output = 0, .input = slot});
    return list;
  }

  void host(int number) {
    const KernelGraph::Host& host = kernel_graph_.hosts[static_cast<size_t>(number)];
    const Node& node = graph_.node(host.node);
    if (node.op->is(Trait::PassesOn)) return pass_on(host);
    Launch launch;
    if (const auto& body = loops_.bodies.at(static_cast<size_t>(number))) {
      launch.loop = loop_launch(node, *body, loops_.plans.at(static_cast<size_t>(number)));
      key_ = combine(key_, launch.loop->body->key);
      add_up_steps(launch);
    } else {
      launch.host =
          runtime::HostLaunch{.node = host.node, .op = &runnable(*node.op), .attributes = node.attributes};
    }
    auto& inputs = launch.host ? launch.host->inputs : launch.loop->inputs;
    auto& outputs = launch.host ? launch.host->outputs : launch.loop->outputs;
    for (const TensorId id : host.inputs) inputs.push_back(tensor_of(id));
    for (const TensorId id : host.outputs) {
      const int c = saturated_.class_of[static_cast<size_t>(id)];
      const TensorType& type = kernel_graph_.tensors[static_cast<size_t>(id)].type;
      const TensorIndex tensor = add({.dtype = type.dtype,
                                      .dims = type.dims,
                                      .value = kernel_graph_.tensors[static_cast<size_t>(id)].value});
      first_[static_cast<size_t>(c)] = tensor;
      outputs.push_back(tensor);
    }
    launch.name = node.op->name;
    if (node.origin) launch.origin = node.origin->to_string();
    launch.covers = {host.node};
    key_ = combine(key_, hash_bytes(node.op->name));
    plan_.launches.push_back(std::move(launch));
  }

  /// The output is the input's tensor by another name.
  void pass_on(const KernelGraph::Host& host) {
    const TensorIndex tensor = tensor_of(host.inputs.at(0));
    const TensorId output = host.outputs.at(0);
    first_[static_cast<size_t>(saturated_.class_of[static_cast<size_t>(output)])] = tensor;
    PlanTensor& known = plan_.tensors[static_cast<size_t>(tensor)];
    const std::optional<Value>& value = kernel_graph_.tensors[static_cast<size_t>(output)].value;
    if (!known.value)
      known.value = value;
    else if (value)
      known.aliases.push_back(*value);
  }

  /// What all steps of a loop cost.
  void add_up_steps(Launch& launch) const {
    const auto steps = static_cast<double>(launch.loop->length.exec(plan_.bucket.top()));
    for (const Launch& each : launch.loop->body->launches) {
      launch.flops += steps * each.flops;
      launch.bytes += steps * each.bytes;
      launch.predicted_us += steps * each.predicted_us;
    }
  }

  TensorIndex add(PlanTensor tensor) {
    plan_.tensors.push_back(std::move(tensor));
    return static_cast<TensorIndex>(plan_.tensors.size()) - 1;
  }

  /// The tensor of an output; a class that only laws made has no dims of its own and is flat.
  TensorIndex made(int c, const kernel::Output& output, const kernel::KernelSpec& spec) {
    PlanTensor tensor{.dtype = spec.values()[static_cast<size_t>(output.value)].dtype(),
                      .dims = {output.elements}};
    if (const auto& known = saturated_.tensors_of[static_cast<size_t>(c)]; !known.empty()) {
      const KernelGraph::Tensor& first = kernel_graph_.tensors[static_cast<size_t>(known[0])];
      tensor.dims = first.type.dims;
      for (const TensorId id : known)
        if (const auto& value = kernel_graph_.tensors[static_cast<size_t>(id)].value) {
          if (!tensor.value)
            tensor.value = value;
          else
            tensor.aliases.push_back(*value);
        }
    }
    return first_[static_cast<size_t>(c)] = add(std::move(tensor));
  }

  TensorIndex tensor_of_class(int c) {
    TensorIndex& first = first_[static_cast<size_t>(c)];
    if (first >= 0) return first;
    const auto& known = saturated_.tensors_of[static_cast<size_t>(c)];
    const auto is_input = [&](TensorId id) {
      return kernel_graph_.tensors[static_cast<size_t>(id)].kind == KernelGraph::Tensor::Kind::Input;
    };
    if (const auto id = std::ranges::find_if(known, is_input); id != known.end()) {
      const KernelGraph::Tensor& tensor = kernel_graph_.tensors[static_cast<size_t>(*id)];
      PlanTensor input{.dtype = tensor.type.dtype,
                       .dims = tensor.type.dims,
                       .value = tensor.value,
                       .role = PlanTensor::Role::Input};
      for (const TensorId other : known)
        if (const auto& value = kernel_graph_.tensors[static_cast<size_t>(other)].value;
            value && value != tensor.value)
          input.aliases.push_back(*value);
      return first = add(std::move(input));
    }
    LUMINAL_CHECK(false, "class {} is read before it is made", c);
    return -1;
  }

  /// The program's tensor with its own dims: equal content in other dims takes a copy, as a buffer of a plan
  /// has one shape.
  TensorIndex tensor_of(TensorId id) {
    const int c = saturated_.class_of[static_cast<size_t>(id)];
    const KernelGraph::Tensor& wanted = kernel_graph_.tensors[static_cast<size_t>(id)];
    const TensorIndex first = tensor_of_class(c);
    if (plan_.tensors[static_cast<size_t>(first)].dims == wanted.type.dims) return first;
    const auto [known, fresh] = reshaped_.try_emplace({c, luminal::to_string(wanted.type.dims)}, 0);
    if (!fresh) return known->second;
    known->second = add({.dtype = wanted.type.dtype, .dims = wanted.type.dims, .value = wanted.value});
    if (is_nothing(element_count(wanted.type.dims))) {
      make_empty(known->second);
      return known->second;
    }
    Launch launch{.kernel =
                      runtime::KernelLaunch{.kernel = {}, .inputs = {first}, .outputs = {known->second}}};
    launch.kernel->in_place = {{.output = 0, .input = 0}};
    const SpecId copy = store_.intern(
        copy_spec(ShapeTracker::contiguous({element_count(wanted.type.dims)}), wanted.type.dtype));
    open_.push_back({plan_.launches.size(), copy});
    plan_.launches.push_back(std::move(launch));
    return known->second;
  }

  /// The nodes of its outputs, and those that they read of what the kernel computes on the way: of equal values, such
  /// as a scalar that each weight's update computes for itself, only their own. All of a class of which they read none.
  [[nodiscard]] std::vector<NodeId> covers_of(const CoverKernel& kernel) const {
    std::vector<NodeId> covers;
    std::vector<TensorId> open;
    std::unordered_set<TensorId> seen;
    const auto take = [&](TensorId id) {
      if (!seen.insert(id).second) return;
      const KernelGraph::Tensor& tensor = kernel_graph_.tensors[static_cast<size_t>(id)];
      covers.insert(covers.end(), tensor.covers.begin(), tensor.covers.end());
      open.push_back(id);
    };
    const auto take_class = [&](int c) {
      for (const TensorId id : saturated_.tensors_of[static_cast<size_t>(c)]) take(id);
    };
    std::unordered_map<int, bool> reached;  // by class of the interior
    for (const int c : kernel.interior) reached[c] = false;
    const auto follow = [&] {
      while (!open.empty()) {
        const TensorId id = open.back();
        open.pop_back();
        for (const TensorId argument : kernel_graph_.tensors[static_cast<size_t>(id)].arguments) {
          const auto interior = reached.find(saturated_.class_of[static_cast<size_t>(argument)]);
          if (interior == reached.end()) continue;
          interior->second = true;
          take(argument);
        }
      }
    };
    std::ranges::for_each(kernel.outputs, take_class);
    follow();
    for (const int c : kernel.interior)
      if (!reached[c]) take_class(c), follow();
    return covers;
  }

  void describe(Launch& launch, const CoverKernel& kernel) const {
    launch.covers = covers_of(kernel);
    std::ranges::sort(launch.covers);
    launch.covers.erase(std::unique(launch.covers.begin(), launch.covers.end()), launch.covers.end());
    for (const int c : kernel.outputs)
      for (const TensorId id : saturated_.tensors_of[static_cast<size_t>(c)])
        if (const auto& value = kernel_graph_.tensors[static_cast<size_t>(id)].value;
            value && launch.origin.empty())
          if (const Node& node = graph_.node(value->node); node.origin)
            launch.origin = node.origin->to_string();
    launch.predicted_us = kernel.cost_us;
  }

  /// What all launches of one kernel share.
  struct SharedFacts {
    std::string name;
    kernel::Work work;
    uint64_t schedule = 0, parameters = 0;  ///< hashes
  };

  void compile(const ImplementationFor& choose, backends::Device& backend, PlanFacts& facts) {
    auto begin = std::chrono::steady_clock::now();
    std::unordered_map<SpecId, size_t> numbers;
    std::vector<SharedFacts> shared;
    facts.kernel_of.assign(plan_.launches.size(), 0);
    for (const Open& open : open_) {
      const auto [known, fresh] = numbers.try_emplace(open.spec, facts.list.size());
      if (fresh) shared.push_back(add_distinct(choose, open, facts));
      facts.kernel_of[open.launch] = known->second;
      add_launch(open, shared[known->second], facts.list[known->second]);
    }
    facts.choose_ms = 1e3 * seconds_since(begin);
    begin = std::chrono::steady_clock::now();
    std::vector<KernelRequest> requests;
    for (const PlanFacts::Kernel& kernel : facts.list)
      requests.push_back({store_.at(kernel.spec), kernel.implementation, kernel.bucket});
    const std::vector<KernelResult> made = KernelCache::of_process().get(backend, requests);
    for (size_t i = 0; i < made.size(); ++i) {
      facts.list[i].code = made[i].code;
      if (made[i].compile_ms > 0) ++facts.compiled_kernels;
    }
    for (const Open& open : open_) {
      runtime::KernelLaunch& launch = *plan_.launches[open.launch].kernel;
      launch.kernel = made[facts.kernel_of[open.launch]].kernel;
      const auto prepared = launch.kernel->prepared_slots();
      launch.frozen.assign(prepared.begin(), prepared.end());
    }
    facts.compile_ms = 1e3 * seconds_since(begin);
    facts.kernels = static_cast<int>(open_.size());
    facts.distinct_kernels = static_cast<int>(facts.list.size());
  }

  SharedFacts add_distinct(const ImplementationFor& choose, const Open& open, PlanFacts& facts) const {
    const kernel::KernelSpec& spec = store_.at(open.spec);
    const codegen::Bucket own = restricted(plan_.bucket, spec);
    const Implementation implementation = choose(spec, own);
    facts.list.push_back({open.spec, implementation, own, open.launch});
    const std::string_view schedule = implementation.schedule->name;
    return {.name = fmt::format("{}_{:04x}", schedule, spec.hash() & 0xffff),
            .work = kernel::work_of(spec, plan_.bucket.top()),
            .schedule = hash_bytes(schedule),
            .parameters = hash_bytes(codegen::to_string(implementation.parameters))};
  }

  void add_launch(const Open& open, const SharedFacts& shared, PlanFacts::Kernel& kernel) {
    ++kernel.launches;
    Launch& launch = plan_.launches[open.launch];
    if (kernel.implementation.schedule->foreign) launch.kernel->in_place.clear();
    launch.name = shared.name;
    launch.flops = shared.work.flops;
    launch.bytes = shared.work.bytes_read + shared.work.bytes_written;
    launch.predicted_us = kernel.implementation.predicted_us;
    launch.measured_us = kernel.implementation.measured_us;
    key_ = combine(combine(key_, store_.at(open.spec).hash()), shared.schedule);
    key_ = combine(key_, shared.parameters);
    for (const auto* list : {&launch.kernel->inputs, &launch.kernel->outputs})
      for (const TensorIndex tensor : *list) key_ = combine(key_, static_cast<uint64_t>(tensor));
  }

  const Graph& graph_;
  const KernelGraph& kernel_graph_;
  const SaturatedGraph& saturated_;
  const Cover& cover_;
  SpecStore& store_;
  const Loops& loops_;
  runtime::Plan plan_;
  DimMap fixed_;                    ///< dims of which the bucket holds one size
  std::vector<TensorIndex> first_;  ///< by class
  std::map<std::pair<int, std::string>, TensorIndex> reshaped_;
  std::vector<Open> open_;
  uint64_t key_ = 0;
};

}  // namespace

runtime::Plan build_plan(const Graph& graph, const KernelGraph& kernel_graph, const SaturatedGraph& saturated,
                         const Cover& cover, SpecStore& store, const Loops& loops,
                         const ImplementationFor& choose, backends::Device& backend,
                         const codegen::Bucket& bucket, PlanFacts* facts) {
  PlanFacts ignored;
  return Builder(graph, kernel_graph, saturated, cover, store, loops)
      .run(choose, backend, bucket, facts != nullptr ? *facts : ignored);
}

}  // namespace luminal::search
