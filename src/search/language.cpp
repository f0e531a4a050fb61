#include "search/language.h"

#include <cctype>
#include <deque>
#include <iterator>
#include <sstream>
#include <unordered_map>

#include "base/fail.h"
#include "base/hash.h"

namespace luminal::search {
namespace {

using egraph::SortId;
using Values = std::span<const egraph::Value>;

/// Interned lists of classes.
class ArgsStore {
 public:
  egraph::Value intern(Values list) {
    std::vector<egraph::Value> key(list.begin(), list.end());
    const auto [known, fresh] = ids_.try_emplace(std::move(key), static_cast<egraph::Value>(lists_.size()));
    if (fresh) lists_.push_back(&known->first);
    return known->second;
  }
  [[nodiscard]] Values at(egraph::Value id) const { return *lists_[id]; }

 private:
  struct Hash {
    size_t operator()(const std::vector<egraph::Value>& key) const noexcept {
      return static_cast<size_t>(hash_bytes(key.data(), key.size() * sizeof(egraph::Value)));
    }
  };
  std::unordered_map<std::vector<egraph::Value>, egraph::Value, Hash> ids_;
  std::deque<const std::vector<egraph::Value>*> lists_;
};

}  // namespace

struct Language::State {
  State(const SearchOptions& options, std::shared_ptr<SpecStore> specs) : store(std::move(specs)) {
    program.run("(sort Tensor)", "language");
    tensor = *graph().find_sort("Tensor");
    declare_sorts();
    program.run(
        "(constructor Op (Spec Args) Tensor) (constructor Input (i64) Tensor)"
        "(constructor Host (i64 i64 Args) Tensor) (relation use (Args i64 Tensor)) (relation slot (i64))"
        "(ruleset strict) (ruleset relaxed) (ruleset fast)",
        "language");
    functions = {*graph().find_function("Op"), *graph().find_function("Input"),
                 *graph().find_function("Host"), *graph().find_function("use")};
    slots = *graph().find_function("slot");
    declare_slot_primitives();
    declare_law_primitives();
    declare_composition();
    for (const RuleText& rule : rules_for(options)) program.run(rule.text, rule.file);
    std::vector<egraph::RulesetId> parts;
    for (const MathMode mode : {MathMode::Strict, MathMode::Relaxed, MathMode::Fast})
      if (mode <= options.math) parts.push_back(*graph().find_ruleset(luminal::name(mode)));
    rules = graph().combined_ruleset("laws", parts);
  }

  egraph::EGraph& graph() { return program.graph(); }

  void declare_sorts() {
    egraph::PrimitiveSort specs{.name = "Spec"};
    specs.print = [this](egraph::Value v, std::span<const std::string>) {
      return fmt::format("(spec \"{:016x}\")", store->at(v).hash());
    };
    specs.compare = [this](egraph::Value a, egraph::Value b) {
      const uint64_t x = store->at(a).hash(), y = store->at(b).hash();
      return x < y ? -1 : x > y ? 1 : 0;
    };
    spec = program.host_sort(std::move(specs));
    egraph::ContainerSort lists;
    lists.name = "Args";
    lists.print = [](egraph::Value, std::span<const std::string> children) {
      return fmt::format("(args {})", fmt::join(children, " "));
    };
    lists.rebuild = [this](egraph::Value v, const egraph::ElementMap& map) {
      std::vector<egraph::Value> mapped;
      for (const egraph::Value x : lists_at(v)) mapped.push_back(map(tensor, x));
      return args.intern(mapped);
    };
    lists.elements = [this](egraph::Value v, const std::function<void(SortId, egraph::Value)>& visit) {
      for (const egraph::Value x : lists_at(v)) visit(tensor, x);
    };
    list = program.host_sort(std::move(lists));
  }
  [[nodiscard]] Values lists_at(egraph::Value v) const { return args.at(v); }

  using Call = std::function<std::optional<egraph::Value>(Values)>;
  void define(std::string name, std::vector<SortId> inputs, SortId output, Call call) {
    program.host_primitive(
        {.name = std::move(name), .call = std::move(call), .inputs = std::move(inputs), .output = output});
  }
  [[nodiscard]] int slot(egraph::Value v) { return static_cast<int>(graph().as_i64(v)); }
  // A program's own laws may ask anything: what does not fit is undefined, so the law does not fire.
  [[nodiscard]] bool has_slot(egraph::Value s, egraph::Value number) {
    const int64_t at = graph().as_i64(number);
    return at >= 0 && at < static_cast<int64_t>(store->at(s).slots().size());
  }
  [[nodiscard]] bool fits(egraph::Value s, egraph::Value arguments) const {
    return store->at(s).slots().size() == args.at(arguments).size();
  }
  static std::optional<egraph::Value> unit_if(bool holds) {
    return holds ? std::optional<egraph::Value>(egraph::kUnitValue) : std::nullopt;
  }

  /// Slots and arguments alone.
  void declare_slot_primitives() {
    define("arg", {list, egraph::kI64}, tensor, [this](Values v) -> std::optional<egraph::Value> {
      const Values all = args.at(v[0]);
      const int at = slot(v[1]);
      return at >= 0 && at < static_cast<int>(all.size()) ? std::optional(all[static_cast<size_t>(at)])
                                                          : std::nullopt;
    });
    define("swap", {list, egraph::kI64, egraph::kI64}, list,
           [this](Values v) -> std::optional<egraph::Value> {
             std::vector<egraph::Value> all(args.at(v[0]).begin(), args.at(v[0]).end());
             const auto i = static_cast<size_t>(slot(v[1])), j = static_cast<size_t>(slot(v[2]));
             if (std::max(i, j) >= all.size()) return std::nullopt;
             std::swap(all[i], all[j]);
             return args.intern(all);
           });
    define("symmetric", {spec, egraph::kI64, egraph::kI64}, egraph::kUnit, [this](Values v) {
      return unit_if(has_slot(v[0], v[1]) && has_slot(v[0], v[2]) &&
                     store->symmetric(v[0], slot(v[1]), slot(v[2])));
    });
    const auto joined = [this](Values v) -> const SpecStore::Made* {
      return fits(v[0], v[1]) ? store->join(v[0], args.at(v[1])) : nullptr;
    };
    define("join-slots", {spec, list}, spec, [joined](Values v) { return spec_of(joined(v)); });
    define("join-slots-args", {spec, list}, list,
           [this, joined](Values v) { return args_of(joined(v), args.at(v[1]), {}); });
  }

  void declare_law_primitives() {
    for (const MathMode mode : {MathMode::Strict, MathMode::Relaxed})
      define(mode == MathMode::Strict ? "identity-of" : "identity-over-reals", {spec}, egraph::kI64,
             [this, mode](Values v) -> std::optional<egraph::Value> {
               const auto slot = store->identity_of(v[0], mode);
               return slot ? std::optional(graph().i64(*slot)) : std::nullopt;
             });
    define("elementwise", {spec}, egraph::kUnit,
           [this](Values v) { return unit_if(store->is_elementwise(v[0])); });
    define("exact", {spec}, egraph::kUnit, [this](Values v) { return unit_if(store->is_exact(v[0])); });
    define("rounds", {spec}, egraph::kUnit, [this](Values v) { return unit_if(!store->is_exact(v[0])); });
    define("copy-only", {spec}, egraph::kUnit, [this](Values v) { return unit_if(store->is_copy(v[0])); });
    define("fold-constant", {spec, egraph::kI64, spec}, spec,
           [this](Values v) { return spec_of(folded(v[0], v[1], v[2])); });
    define("fold-constant-args", {spec, list, egraph::kI64, spec}, list,
           [this](Values v) { return args_of(folded(v[0], v[2], v[3]), args.at(v[1]), {}); });
    define("reduce-repeated", {spec}, spec,
           [this](Values v) { return spec_of(store->reduce_repeated(v[0])); });
    define("reduce-repeated-args", {spec, list}, list, [this](Values v) -> std::optional<egraph::Value> {
      return args_of(store->reduce_repeated(v[0]), args.at(v[1]), {});
    });
    declare_split("leave-sum", [this](SpecId s) { return store->leave_sum(s); });
    declare_split("leave-sum-constants", [this](SpecId s) { return store->leave_sum_constants(s); });
    declare_split("leave-max", [this](SpecId s) { return store->leave_max(s); });
  }

  const SpecStore::Made* folded(egraph::Value s, egraph::Value number, egraph::Value producer) {
    return has_slot(s, number) ? store->fold_constant(s, slot(number), producer) : nullptr;
  }

  /// (leave-sum s) is the kernel outside, (leave-sum-inner s) the one inside; their arguments likewise.
  void declare_split(const std::string& law, const std::function<const SpecStore::Split*(SpecId)>& split) {
    define(law, {spec}, spec, [split](Values v) -> std::optional<egraph::Value> {
      const SpecStore::Split* parts = split(v[0]);
      return parts != nullptr ? std::optional<egraph::Value>(parts->outer) : std::nullopt;
    });
    define(law + "-inner", {spec}, spec, [split](Values v) -> std::optional<egraph::Value> {
      const SpecStore::Split* parts = split(v[0]);
      return parts != nullptr ? std::optional<egraph::Value>(parts->inner) : std::nullopt;
    });
    define(law + "-inner-args", {spec, list}, list, [this, split](Values v) -> std::optional<egraph::Value> {
      const SpecStore::Split* parts = split(v[0]);
      return parts != nullptr ? pick(parts->inner_slots, args.at(v[1]), egraph::kNoValue) : std::nullopt;
    });
    define(law + "-args", {spec, list, tensor}, list,
           [this, split](Values v) -> std::optional<egraph::Value> {
             const SpecStore::Split* parts = split(v[0]);
             return parts != nullptr ? pick(parts->outer_slots, args.at(v[1]), v[2]) : std::nullopt;
           });
  }

  void declare_composition() {
    const std::vector<SortId> inputs{spec, list, egraph::kI64, spec, list};
    const auto made = [this](Values v) -> const SpecStore::Made* {
      if (!has_slot(v[0], v[2]) || !fits(v[0], v[1]) || !fits(v[3], v[4])) return nullptr;
      const kernel::Slot& read = store->at(v[0]).slots()[static_cast<size_t>(slot(v[2]))];
      if (read.dtype != store->at(v[3]).result().dtype()) return nullptr;
      return store->compose(v[0], slot(v[2]), v[3], args.at(v[1]), args.at(v[4]));
    };
    define("compose", inputs, spec, [made](Values v) { return spec_of(made(v)); });
    define("compose-args", inputs, list,
           [this, made](Values v) { return args_of(made(v), args.at(v[1]), args.at(v[4])); });
  }

  static std::optional<egraph::Value> spec_of(const SpecStore::Made* made) {
    return made != nullptr ? std::optional<egraph::Value>(made->spec) : std::nullopt;
  }
  std::optional<egraph::Value> args_of(const SpecStore::Made* made, Values consumer, Values producer) {
    if (made == nullptr) return std::nullopt;
    std::vector<egraph::Value> result;
    for (const auto& from : made->slots) {
      const Values given = from.producer ? producer : consumer;
      if (static_cast<size_t>(from.slot) >= given.size()) return std::nullopt;
      result.push_back(given[static_cast<size_t>(from.slot)]);
    }
    return args.intern(result);
  }
  std::optional<egraph::Value> pick(const std::vector<int>& picked, Values from, egraph::Value inner) {
    std::vector<egraph::Value> result;
    for (const int at : picked) {
      if (at >= static_cast<int>(from.size())) return std::nullopt;
      result.push_back(at < 0 ? inner : from[static_cast<size_t>(at)]);
    }
    return args.intern(result);
  }

  [[nodiscard]] std::string text_of(SortId sort, egraph::Value v) {
    if (sort == tensor) return fmt::format("#{}", graph().find(v));
    if (sort == egraph::kI64) return fmt::format("{}", graph().as_i64(v));
    if (sort == spec) {
      const std::string text = store->at(v).to_string();
      std::istringstream words(text);
      return fmt::format("{{{}}}", fmt::join(std::istream_iterator<std::string>(words),
                                             std::istream_iterator<std::string>(), " "));
    }
    std::vector<std::string> all;
    if (sort == list)
      for (const egraph::Value x : args.at(v)) all.push_back(text_of(tensor, x));
    return fmt::format("[{}]", fmt::join(all, " "));
  }

  std::shared_ptr<SpecStore> store;
  ArgsStore args;
  egraph::EgglogProgram program;
  SortId tensor{}, spec{}, list{};
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
egraph::Value Language::args(Values tensors) { return state_->args.intern(tensors); }
Values Language::args_of(egraph::Value args) const { return state_->args.at(args); }

std::vector<egraph::Value> Language::load(const Program& program) {
  State& s = *state_;
  egraph::EGraph& graph = s.graph();
  graph.clear_facts();
  for (int i = 0; i < kernel::ComposeLimits().slots; ++i) graph.add(s.slots, {graph.i64(i)});
  std::vector<egraph::Value> classes;
  for (const Program::Tensor& tensor : program.tensors) {
    const auto number = graph.i64(static_cast<int64_t>(classes.size()));
    std::vector<egraph::Value> arguments;
    for (const TensorId id : tensor.arguments) arguments.push_back(classes[static_cast<size_t>(id)]);
    switch (tensor.kind) {
      case Program::Tensor::Kind::Input:
        classes.push_back(graph.add(s.functions.input, {number}));
        break;
      case Program::Tensor::Kind::Kernel:
        classes.push_back(
            graph.add(s.functions.op, {s.store->intern(tensor.spec), s.args.intern(arguments)}));
        break;
      case Program::Tensor::Kind::Host: {
        const Program::Host& host = program.hosts[static_cast<size_t>(tensor.host)];
        for (const TensorId id : host.inputs) arguments.push_back(classes[static_cast<size_t>(id)]);
        classes.push_back(graph.add(
            s.functions.host, {graph.i64(tensor.host), graph.i64(tensor.output), s.args.intern(arguments)}));
        break;
      }
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
