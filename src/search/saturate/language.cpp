#include "search/saturate/language.h"

#include <cctype>
#include <deque>
#include <iterator>
#include <map>
#include <sstream>
#include <unordered_map>

#include "base/fail.h"
#include "base/hash.h"

namespace luminal::search {
namespace {

using egraph::SortId;
using Values = std::span<const egraph::Value>;

/// Interned kernels: a spec and what it reads.
class Kernels {
 public:
  egraph::Value intern(SpecId spec, Values tensors) {
    std::vector<egraph::Value> key{spec};
    key.insert(key.end(), tensors.begin(), tensors.end());
    const auto [known, fresh] = ids_.try_emplace(std::move(key), static_cast<egraph::Value>(kernels_.size()));
    if (fresh) kernels_.push_back(&known->first);
    return known->second;
  }
  [[nodiscard]] SpecId spec(egraph::Value kernel) const { return kernels_[kernel]->front(); }
  [[nodiscard]] Values tensors(egraph::Value kernel) const { return Values(*kernels_[kernel]).subspan(1); }

 private:
  struct Hash {
    size_t operator()(const std::vector<egraph::Value>& key) const noexcept {
      return static_cast<size_t>(hash_bytes(key.data(), key.size() * sizeof(egraph::Value)));
    }
  };
  std::unordered_map<std::vector<egraph::Value>, egraph::Value, Hash> ids_;
  std::deque<const std::vector<egraph::Value>*> kernels_;
};

/// Interned splits: a kernel as a kernel outside of another one.
class Splits {
 public:
  struct Parts {
    const SpecStore::Split* how = nullptr;
    egraph::Value kernel{};
  };
  egraph::Value intern(const Parts& parts) {
    const auto [known, fresh] =
        ids_.try_emplace(std::pair(parts.how, parts.kernel), static_cast<egraph::Value>(parts_.size()));
    if (fresh) parts_.push_back(parts);
    return known->second;
  }
  [[nodiscard]] const Parts& at(egraph::Value split) const { return parts_[split]; }

 private:
  std::map<std::pair<const SpecStore::Split*, egraph::Value>, egraph::Value> ids_;
  std::vector<Parts> parts_;
};

}  // namespace

struct Language::State {
  State(const SearchOptions& options, std::shared_ptr<SpecStore> specs) : store(std::move(specs)) {
    program.run("(sort Tensor)", "language");
    tensor = *graph().find_sort("Tensor");
    declare_sorts();
    program.run(
        "(constructor Op (Kernel) Tensor) (constructor Input (i64) Tensor) (constructor Host (i64 i64) "
        "Tensor)"
        "(relation use (Kernel i64 Tensor)) (relation slot (i64))"
        "(ruleset strict) (ruleset relaxed) (ruleset fast)",
        "language");
    functions = {*graph().find_function("Op"), *graph().find_function("Input"),
                 *graph().find_function("Host"), *graph().find_function("use")};
    slots = *graph().find_function("slot");
    declare_questions();
    declare_makers();
    declare_splits();
    for (const RuleText& rule : rules_for(options)) program.run(rule.text, rule.file);
    std::vector<egraph::RulesetId> parts;
    for (const MathMode mode : {MathMode::Strict, MathMode::Relaxed, MathMode::Fast})
      if (mode <= options.math) parts.push_back(*graph().find_ruleset(luminal::name(mode)));
    rules = graph().combined_ruleset("laws", parts);
  }

  egraph::EGraph& graph() { return program.graph(); }

  void declare_sorts() {
    egraph::ContainerSort kernel_sort;
    kernel_sort.name = "Kernel";
    kernel_sort.print = [this](egraph::Value k, std::span<const std::string> children) {
      return fmt::format("(kernel \"{:016x}\" {})", store->at(kernels.spec(k)).hash(),
                         fmt::join(children, " "));
    };
    kernel_sort.rebuild = [this](egraph::Value k, const egraph::ElementMap& map) { return rebuilt(k, map); };
    kernel_sort.elements = [this](egraph::Value k, const std::function<void(SortId, egraph::Value)>& visit) {
      for (const egraph::Value x : kernels.tensors(k)) visit(tensor, x);
    };
    kernel = program.host_sort(std::move(kernel_sort));
    egraph::ContainerSort split_sort;
    split_sort.name = "Split";
    split_sort.print = [](egraph::Value, std::span<const std::string> children) {
      return fmt::format("(split {})", fmt::join(children, " "));
    };
    split_sort.rebuild = [this](egraph::Value s, const egraph::ElementMap& map) {
      const Splits::Parts& parts = splits.at(s);
      return splits.intern({parts.how, rebuilt(parts.kernel, map)});
    };
    split_sort.elements = [this](egraph::Value s, const std::function<void(SortId, egraph::Value)>& visit) {
      for (const egraph::Value x : kernels.tensors(splits.at(s).kernel)) visit(tensor, x);
    };
    split = program.host_sort(std::move(split_sort));
  }
  egraph::Value rebuilt(egraph::Value k, const egraph::ElementMap& map) {
    std::vector<egraph::Value> mapped;
    for (const egraph::Value x : kernels.tensors(k)) mapped.push_back(map(tensor, x));
    return kernels.intern(kernels.spec(k), mapped);
  }

  using Call = std::function<std::optional<egraph::Value>(Values)>;
  void define(std::string name, std::vector<SortId> inputs, SortId output, Call call) {
    program.host_primitive(
        {.name = std::move(name), .call = std::move(call), .inputs = std::move(inputs), .output = output});
  }
  /// A slot of a kernel. A program's own laws may ask anything: what is not there is undefined, so the law
  /// does not fire.
  [[nodiscard]] std::optional<int> slot_of(egraph::Value k, egraph::Value number) {
    const int64_t at = graph().as_i64(number);
    const auto count = static_cast<int64_t>(kernels.tensors(k).size());
    return at >= 0 && at < count ? std::optional(static_cast<int>(at)) : std::nullopt;
  }
  static std::optional<egraph::Value> unit_if(bool holds) {
    return holds ? std::optional<egraph::Value>(egraph::kUnitValue) : std::nullopt;
  }

  /// What laws ask of a kernel.
  void declare_questions() {
    const auto ask = [this](std::string name, std::function<bool(SpecId)> holds) {
      define(std::move(name), {kernel}, egraph::kUnit,
             [this, holds = std::move(holds)](Values v) { return unit_if(holds(kernels.spec(v[0]))); });
    };
    ask("elementwise", [this](SpecId s) { return store->is_elementwise(s); });
    ask("exact", [this](SpecId s) { return store->is_exact(s); });
    ask("rounds", [this](SpecId s) { return !store->is_exact(s); });
    ask("copy-only", [this](SpecId s) { return store->is_copy(s); });
    for (const MathMode mode : {MathMode::Strict, MathMode::Relaxed})
      define(mode == MathMode::Strict ? "identity-of" : "identity-over-reals", {kernel}, egraph::kI64,
             [this, mode](Values v) -> std::optional<egraph::Value> {
               const auto slot = store->identity_of(kernels.spec(v[0]), mode);
               return slot ? std::optional(graph().i64(*slot)) : std::nullopt;
             });
    define("symmetric", {kernel, egraph::kI64, egraph::kI64}, egraph::kUnit, [this](Values v) {
      const auto i = slot_of(v[0], v[1]), j = slot_of(v[0], v[2]);
      return unit_if(i && j && store->symmetric(kernels.spec(v[0]), *i, *j));
    });
    define("arg", {kernel, egraph::kI64}, tensor, [this](Values v) -> std::optional<egraph::Value> {
      const auto at = slot_of(v[0], v[1]);
      return at ? std::optional(kernels.tensors(v[0])[static_cast<size_t>(*at)]) : std::nullopt;
    });
  }

  /// Kernels that laws make of kernels.
  void declare_makers() {
    define("swap", {kernel, egraph::kI64, egraph::kI64}, kernel,
           [this](Values v) -> std::optional<egraph::Value> {
             const auto i = slot_of(v[0], v[1]), j = slot_of(v[0], v[2]);
             if (!i || !j) return std::nullopt;
             const Values given = kernels.tensors(v[0]);
             std::vector<egraph::Value> swapped(given.begin(), given.end());
             std::swap(swapped[static_cast<size_t>(*i)], swapped[static_cast<size_t>(*j)]);
             return kernels.intern(kernels.spec(v[0]), swapped);
           });
    define("join-slots", {kernel}, kernel,
           [this](Values v) { return made(store->join(kernels.spec(v[0]), kernels.tensors(v[0])), v[0]); });
    define("reduce-repeated", {kernel}, kernel,
           [this](Values v) { return made(store->reduce_repeated(kernels.spec(v[0])), v[0]); });
    define("fold-constant", {kernel, egraph::kI64, kernel}, kernel,
           [this](Values v) -> std::optional<egraph::Value> {
             const auto at = slot_of(v[0], v[1]);
             if (!at) return std::nullopt;
             return made(store->fold_constant(kernels.spec(v[0]), *at, kernels.spec(v[2])), v[0]);
           });
    define("compose", {kernel, egraph::kI64, kernel}, kernel,
           [this](Values v) -> std::optional<egraph::Value> {
             const auto at = slot_of(v[0], v[1]);
             const SpecId reader = kernels.spec(v[0]), producer = kernels.spec(v[2]);
             if (!at) return std::nullopt;
             const kernel::Slot& read = store->at(reader).slots()[static_cast<size_t>(*at)];
             if (read.dtype != store->at(producer).result().dtype()) return std::nullopt;
             return made(store->compose(reader, *at, producer, kernels.tensors(v[0]), kernels.tensors(v[2])),
                         v[0], v[2]);
           });
  }

  /// (leave-sum k) is k as a kernel (outer s t) of the tensor t that the kernel (inner s) makes.
  void declare_splits() {
    const auto law = [this](std::string name, std::function<const SpecStore::Split*(SpecId)> how) {
      define(std::move(name), {kernel}, split,
             [this, how = std::move(how)](Values v) -> std::optional<egraph::Value> {
               const SpecStore::Split* parts = how(kernels.spec(v[0]));
               return parts != nullptr ? std::optional(splits.intern({parts, v[0]})) : std::nullopt;
             });
    };
    law("leave-sum", [this](SpecId s) { return store->leave_sum(s); });
    law("leave-sum-constants", [this](SpecId s) { return store->leave_sum_constants(s); });
    law("leave-max", [this](SpecId s) { return store->leave_max(s); });
    define("inner", {split}, kernel, [this](Values v) -> std::optional<egraph::Value> {
      const Splits::Parts& parts = splits.at(v[0]);
      return picked(parts.how->inner, parts.how->inner_slots, parts.kernel, egraph::kNoValue);
    });
    define("outer", {split, tensor}, kernel, [this](Values v) -> std::optional<egraph::Value> {
      const Splits::Parts& parts = splits.at(v[0]);
      return picked(parts.how->outer, parts.how->outer_slots, parts.kernel, v[1]);
    });
  }

  /// What the store made of a kernel and of one that it reads.
  std::optional<egraph::Value> made(const SpecStore::Made* how, egraph::Value reader,
                                    egraph::Value producer = egraph::kNoValue) {
    if (how == nullptr) return std::nullopt;
    std::vector<egraph::Value> given;
    for (const auto& from : how->slots)
      given.push_back(kernels.tensors(from.producer ? producer : reader)[static_cast<size_t>(from.slot)]);
    return kernels.intern(how->spec, given);
  }
  /// Slot i reads what slot `slots[i]` of the kernel reads, `other` where that is negative.
  egraph::Value picked(SpecId spec, const std::vector<int>& slots_of_kernel, egraph::Value from,
                       egraph::Value other) {
    std::vector<egraph::Value> given;
    for (const int at : slots_of_kernel)
      given.push_back(at < 0 ? other : kernels.tensors(from)[static_cast<size_t>(at)]);
    return kernels.intern(spec, given);
  }

  [[nodiscard]] std::string text_of(SortId sort, egraph::Value v) {
    if (sort == tensor) return fmt::format("#{}", graph().find(v));
    if (sort == egraph::kI64) return fmt::format("{}", graph().as_i64(v));
    const egraph::Value k = sort == split ? splits.at(v).kernel : v;
    const std::string text = store->at(kernels.spec(k)).to_string();
    std::istringstream words(text);
    std::vector<std::string> read;
    for (const egraph::Value x : kernels.tensors(k)) read.push_back(text_of(tensor, x));
    return fmt::format(
        "{{{}}} [{}]",
        fmt::join(std::istream_iterator<std::string>(words), std::istream_iterator<std::string>(), " "),
        fmt::join(read, " "));
  }

  std::shared_ptr<SpecStore> store;
  Kernels kernels;
  Splits splits;
  egraph::EgglogProgram program;
  SortId tensor{}, kernel{}, split{};
  Functions functions;
  egraph::FunctionId slots{};
  egraph::RulesetId rules{};
};

Language::Language(const SearchOptions& options, std::shared_ptr<SpecStore> store)
    : state_(std::make_unique<State>(options, std::move(store))) {}
Language::~Language() = default;

SpecStore& Language::store() { return *state_->store; }
egraph::EGraph& Language::graph() { return state_->graph(); }
const Language::Functions& Language::functions() const { return state_->functions; }
size_t Language::kernel_count() { return static_cast<size_t>(graph().row_count(functions().op)); }
SpecId Language::spec_of(egraph::Value kernel) const { return state_->kernels.spec(kernel); }
Values Language::tensors_of(egraph::Value kernel) const { return state_->kernels.tensors(kernel); }

std::vector<egraph::Value> Language::load(const KernelGraph& kernel_graph) {
  State& s = *state_;
  egraph::EGraph& graph = s.graph();
  graph.clear_facts();
  for (int i = 0; i < kernel::ComposeLimits().slots; ++i) graph.add(s.slots, {graph.i64(i)});
  std::vector<egraph::Value> classes;
  for (const KernelGraph::Tensor& tensor : kernel_graph.tensors) {
    const auto number = graph.i64(static_cast<int64_t>(classes.size()));
    std::vector<egraph::Value> arguments;
    for (const TensorId id : tensor.arguments) arguments.push_back(classes[static_cast<size_t>(id)]);
    switch (tensor.kind) {
      case KernelGraph::Tensor::Kind::Input:
        classes.push_back(graph.add(s.functions.input, {number}));
        break;
      case KernelGraph::Tensor::Kind::Kernel:
        classes.push_back(
            graph.add(s.functions.op, {s.kernels.intern(s.store->intern(tensor.spec), arguments)}));
        break;
      case KernelGraph::Tensor::Kind::Host:
        classes.push_back(graph.add(s.functions.host, {graph.i64(tensor.host), graph.i64(tensor.output)}));
        break;
    }
  }
  return classes;
}

std::vector<std::string> Language::matches_of(egraph::RuleId rule) {
  State& s = *state_;
  const egraph::Query& query = s.graph().spec(rule).query;
  std::vector<std::string> lines;
  s.graph().match(query, [&](Values bound) {
    std::string line;
    for (size_t i = 0; i < query.variables.size(); ++i)
      if (const egraph::Variable& v = query.variables[i]; !v.name.empty() && std::isalpha(v.name[0]) != 0)
        line += fmt::format("{}{} = {}", line.empty() ? "" : ", ", v.name, s.text_of(v.sort, bound[i]));
    lines.push_back(std::move(line));
    return true;
  });
  return lines;
}

egraph::Report Language::saturate(double growth) {
  State& s = *state_;
  egraph::Budget budget;
  budget.nodes = static_cast<uint64_t>(growth * static_cast<double>(s.graph().row_count())) + 1000;
  return s.graph().run(egraph::Schedule::saturate(egraph::Schedule::run(s.rules)), budget);
}

}  // namespace luminal::search
