#include "luminal/user_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>

#include "base/fail.h"
#include "base/hash.h"
#include "codegen/schedule.h"
#include "codegen/schedules/specialise.h"
#include "graph/graph_state.h"
#include "kernel/cost.h"
#include "search/cover/fusion.h"
#include "search/saturate/saturated_graph.h"
#include "search/tuning/implementation.h"
#include "search/tuning/user_kernels.h"

// User kernels: a schedule family for each name, which takes exactly the specs that its
// definitions come to.
namespace luminal {
namespace {

using codegen::Bucket;
using codegen::Program;
using codegen::Target;
using kernel::KernelSpec;

constexpr size_t kMostInputs = 16;
std::atomic<uint64_t> contents{0};  ///< of all families: sum over the kernels

/// A definition as one kernel: slot k of the spec reads input slots[k].
struct Match {
  KernelSpec spec;
  std::vector<int> slots;
};

/// One kernel for one spec.
struct Entry {
  UserKernel kernel;
  std::vector<int> slots;
  std::vector<std::string> dims;  ///< named dims of the inputs, sorted
};

/// Every kernel that computes what the definition says from all of its inputs, with the laws of every mode:
/// whichever of them a cover comes to, it is found.
class Matches {
 public:
  Matches(std::string_view name, std::span<const TensorType> inputs, const Definition& definition)
      : name_(name) {
    for (const TensorType& type : inputs) inputs_.push_back(graph_.tensor(type.dims, type.dtype));
    GraphTensor result = definition(inputs_);
    if (result.graph().state() != graph_.state())
      fail(
          "[user_kernel] the definition of '{}' gives a tensor of another graph; compute it from the inputs "
          "that it is called with",
          name_);
    result.contiguous().retrieve();
  }

  [[nodiscard]] std::vector<Match> find() {
    for (const MathMode mode : {MathMode::Strict, MathMode::Relaxed, MathMode::Fast}) search(mode);
    if (!found_.empty()) return std::move(found_);
    fail(
        "[user_kernel] no single kernel computes the definition of '{}' from its {} input{}: it reads only "
        "some of them, or is more than one kernel can do; define a smaller part of the graph",
        name_, inputs_.size(), inputs_.size() == 1 ? "" : "s");
  }

 private:
  void search(MathMode mode) {
    const auto store = std::make_shared<search::SpecStore>(mode);
    search::Language language({.math = mode}, store);
    const search::KernelGraph program = search::encode(graph_, false, mode);
    const auto values = language.load(program);
    language.saturate();
    const search::SaturatedGraph saturated = search::read_classes(language, program, values);
    const search::SpecCost operations = [](const KernelSpec& spec) {
      return kernel::typical_operations(spec);
    };
    search::CostTable costs(*store, operations);
    constexpr int kKeep = 64;
    const auto fusions =
        find_fusions(saturated.cover, structure_of(saturated.cover, *store), *store, costs, kKeep);
    const auto input_of = inputs_by_class(program, saturated);
    const int result = saturated.class_of[static_cast<size_t>(program.results.at(0).second)];
    for (const search::Fusion& fusion : fusions[static_cast<size_t>(result)])
      take(fusion, input_of, store->at(fusion.spec));
  }

  [[nodiscard]] std::map<int, int> inputs_by_class(const search::KernelGraph& program,
                                                   const search::SaturatedGraph& saturated) const {
    std::map<int, int> input_of;
    for (size_t t = 0; t < program.tensors.size(); ++t)
      for (size_t i = 0; i < inputs_.size(); ++i)
        if (program.tensors[t].kind == search::KernelGraph::Tensor::Kind::Input &&
            program.tensors[t].value == inputs_[i].edge().source)
          input_of.emplace(saturated.class_of[t], static_cast<int>(i));
    return input_of;
  }

  void take(const search::Fusion& fusion, const std::map<int, int>& input_of, const KernelSpec& spec) {
    std::vector<int> slots;
    for (const int leaf : fusion.leaves) {
      const auto input = input_of.find(leaf);
      if (input == input_of.end()) return;
      slots.push_back(input->second);
    }
    if (slots.size() != inputs_.size() || std::ranges::find(found_, spec, &Match::spec) != found_.end())
      return;
    found_.push_back({spec, std::move(slots)});
  }

  std::string_view name_;
  Graph graph_;
  std::vector<GraphTensor> inputs_;
  std::vector<Match> found_;
};

/// All kernels of one name.
class Family {
 public:
  explicit Family(const UserKernel& kernel) : name_(kernel.name), doc_("a user kernel") {
    schedule_ = {.name = name_,
                 .doc = doc_,
                 .candidates = [this](const KernelSpec& spec, const Bucket& bucket,
                                      const Target& target) { return candidates(spec, bucket, target); },
                 .lower = [this](const KernelSpec& spec, const codegen::Parameters& parameters, const Bucket&,
                                 const Target&) { return lower(spec, parameters); },
                 .foreign = true};
    register_schedule(schedule_);
  }
  Family(const Family&) = delete;

  void add(const Match& match, const Entry& entry) {
    const std::scoped_lock lock(mutex_);
    // A kernel that may have been made already keeps its code.
    if (entries_[match.spec].try_emplace(entry.kernel.version, entry).second)
      contents +=
          combine(combine(hash_bytes(name_), match.spec.hash()), static_cast<uint64_t>(entry.kernel.version));
  }
  [[nodiscard]] bool takes(const KernelSpec& spec, const Target& target) const {
    const std::scoped_lock lock(mutex_);
    const auto* versions = versions_of(spec);
    return versions != nullptr && std::ranges::any_of(*versions, [&](const auto& version) {
             return version.second.kernel.device == target.name;
           });
  }

 private:
  /// While the mutex is held: by version, what computes the spec, whichever of its slots are frozen; null if nothing does.
  [[nodiscard]] const std::map<int64_t, Entry>* versions_of(const KernelSpec& spec) const {
    const auto found = entries_.find(kernel::without_frozen(spec));
    return found == entries_.end() ? nullptr : &found->second;
  }

  /// Nobody can predict it: it is tried first among equals of what is generated.
  std::vector<codegen::Candidate> candidates(const KernelSpec& spec, const Bucket& bucket,
                                             const Target& target) const {
    std::vector<codegen::Candidate> list;
    const std::scoped_lock lock(mutex_);
    const auto* versions = versions_of(spec);
    if (versions == nullptr) return list;
    double predicted_us = -1;
    for (const auto& [version, entry] : *versions) {
      if (entry.kernel.device != target.name) continue;
      if (predicted_us < 0) predicted_us = search::best_by_model(spec, bucket, target).predicted_us;
      list.push_back({{{"version", version}}, predicted_us});
    }
    std::ranges::reverse(list);  // the newest first
    return list;
  }

  [[nodiscard]] Entry entry_of(const KernelSpec& spec, int64_t version) const {
    const std::scoped_lock lock(mutex_);
    if (const auto* versions = versions_of(spec))
      if (const auto entry = versions->find(version); entry != versions->end()) return entry->second;
    fail("[user_kernel] '{}' has no version {} for\n{}", name_, version, spec.to_string());
  }

  [[nodiscard]] Program lower(const KernelSpec& spec, const codegen::Parameters& parameters) const {
    const Entry entry = entry_of(spec, codegen::parameter_or(parameters, "version", 1));
    const UserKernel& kernel = entry.kernel;
    Program program = codegen::program_for(spec, name_);
    program.dims = entry.dims;
    const auto workspace = [&](const char* name, codegen::Space space, const Expression& bytes) {
      if (bytes != Expression(0))
        add_buffer(program, {.name = name, .space = space, .dtype = Dtype::U8, .elements = bytes});
    };
    workspace("shared", codegen::Space::Shared, kernel.shared_bytes);
    workspace("local", codegen::Space::Local, kernel.local_bytes);
    codegen::StageBuilder(program, kernel.tasks).finish();
    program.native = std::make_shared<const codegen::Native>(
        codegen::Native{fmt::format("native {} version {}", name_, kernel.version),
                        [run = kernel.run, slots = entry.slots](const codegen::NativeCall& call) {
                          std::array<const void*, kMostInputs> inputs{};
                          for (size_t slot = 0; slot < slots.size(); ++slot)
                            inputs[static_cast<size_t>(slots[slot])] = call.slots[slot];
                          run({.inputs = inputs.data(),
                               .output = call.outputs[0],
                               .dims = call.dims,
                               .begin = call.begin,
                               .end = call.end,
                               .shared = call.shared,
                               .local = call.local});
                        }});
    return program;
  }

  std::string name_, doc_;
  codegen::Schedule schedule_;
  mutable std::mutex mutex_;
  std::unordered_map<KernelSpec, std::map<int64_t, Entry>> entries_;
};

/// Families of the process by name, for ever: plans hold their kernels.
struct Families {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<Family>, std::less<>> all;
  static Families& of_process() {
    static Families families;
    return families;
  }
};

Family& family_of(const UserKernel& kernel) {
  Families& families = Families::of_process();
  const std::scoped_lock lock(families.mutex);
  const auto known = families.all.find(kernel.name);
  if (known != families.all.end()) return *known->second;
  return *families.all.emplace(kernel.name, std::make_unique<Family>(kernel)).first->second;
}

void check(const UserKernel& kernel, size_t inputs, const std::set<std::string>& dims) {
  if (!codegen::is_identifier(kernel.name))
    fail("[user_kernel] '{}' is not an identifier; name the kernel like a C function", kernel.name);
  if (!kernel.run) fail("[user_kernel] '{}' has no code to run; set UserKernel::run", kernel.name);
  if (inputs == 0 || inputs > kMostInputs)
    fail("[user_kernel] '{}' has {} inputs; give it 1 to {}", kernel.name, inputs, kMostInputs);
  for (const auto& [what, e] :
       {std::pair("tasks", kernel.tasks), std::pair("shared_bytes", kernel.shared_bytes),
        std::pair("local_bytes", kernel.local_bytes)})
    for (const std::string& dim : e.to_symbols())
      if (!dims.contains(dim))
        fail("[user_kernel] {} of '{}' depends on dim '{}', which no input has; use dims of the inputs", what,
             kernel.name, dim);
}

}  // namespace

void add_kernel(const UserKernel& kernel, std::span<const TensorType> inputs, const Definition& definition) {
  std::set<std::string> dims;
  for (const TensorType& type : inputs)
    for (const Expression& size : type.dims) dims.merge(size.to_symbols());
  check(kernel, inputs.size(), dims);
  const std::vector<Match> matches = Matches(kernel.name, inputs, definition).find();
  Family& family = family_of(kernel);
  for (const Match& match : matches) family.add(match, {kernel, match.slots, {dims.begin(), dims.end()}});
}

GraphTensor with_kernel(const UserKernel& kernel, std::span<const GraphTensor> inputs,
                        const Definition& definition) {
  std::vector<TensorType> types;
  for (const GraphTensor& input : inputs) types.push_back(input.type());
  add_kernel(kernel, types, definition);
  // The kernel reads and writes dense memory: where an input is a view there has to be a value that is not.
  std::vector<GraphTensor> dense;
  for (const GraphTensor& input : inputs)
    dense.push_back(input.view().is_identity() ? input : input.contiguous());
  GraphTensor result = definition(dense);
  std::set<NodeId>& materialized = result.graph().state()->materialized;
  for (const GraphTensor& input : dense) materialized.insert(input.node());
  materialized.insert(result.node());
  return result;
}

namespace search {

std::vector<std::string> user_kernels_for(const KernelSpec& spec, const Target& target) {
  Families& families = Families::of_process();
  const std::scoped_lock lock(families.mutex);
  std::vector<std::string> names;
  for (const auto& [name, family] : families.all)
    if (family->takes(spec, target)) names.push_back(name);
  return names;
}

uint64_t user_kernels_hash() { return contents; }

}  // namespace search
}  // namespace luminal
