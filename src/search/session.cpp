#include "search/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <list>
#include <map>
#include <mutex>
#include <tuple>

#include "base/cancel.h"
#include "base/environment.h"
#include "base/fail.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/reason.h"
#include "base/stopwatch.h"
#include "graph/graph_state.h"
#include "kernel/cost.h"
#include "luminal/compile_report.h"
#include "runtime/executor.h"
#include "runtime/machine.h"
#include "runtime/profiler.h"
#include "search/bucket.h"
#include "search/kernel_cache.h"
#include "search/measured.h"
#include "search/plan_builder.h"
#include "search/plan_check.h"
#include "search/replay.h"
#include "search/tell.h"
#include "search/variant.h"

namespace luminal::search {
namespace {

constexpr size_t kMostVariants = 8;
constexpr size_t kMostSpecs = 200'000;  // then the store of specs begins anew

/// Languages of the process, one for each set of options: their rules are read once, and those of one math
/// mode share their specs.
class Languages {
 public:
  static Languages& of_process() {
    static Languages languages;
    return languages;
  }
  /// Calls `use(language, store)`; one at a time.
  template <class F>
  void with(const SearchOptions& options, F use) {
    const std::scoped_lock lock(mutex_);
    auto& store = stores_[options.math];
    if (!store || store->size() > kMostSpecs) {
      std::erase_if(languages_, [&](const auto& entry) { return entry.first.math == options.math; });
      store = std::make_shared<SpecStore>(options.math);
    }
    auto& language = languages_[options];
    if (!language) language = std::make_unique<Language>(options, store);
    use(*language, store);
  }
  /// What the model said that kernels of a store cost on a device for a bucket of sizes.
  CostMemory& costs(const std::shared_ptr<SpecStore>& store, const std::string& device,
                    const std::string& bucket) {
    constexpr size_t kMostCosts = 64;
    if (costs_.size() > kMostCosts) costs_.clear();
    Costs& costs = costs_[{device, bucket, store.get()}];
    costs.store = store;
    return costs.memory;
  }
  /// The store is shared: whoever composes specs holds this.
  std::mutex& mutex() { return mutex_; }

 private:
  std::mutex mutex_;
  std::map<MathMode, std::shared_ptr<SpecStore>> stores_;
  std::map<SearchOptions, std::unique_ptr<Language>> languages_;
  struct Costs {
    std::shared_ptr<SpecStore> store;  ///< kept, so that no other store gets its address
    CostMemory memory;
  };
  std::map<std::tuple<std::string, std::string, const SpecStore*>, Costs> costs_;
};

/// LUMINAL_DEBUG=6: how the e-graph grew, and the laws that did most.
/// LUMINAL_DEBUG=7: every application of a law.
void tell_saturation(Language& language, const egraph::Report& report, const Front& front) {
  if (environment::debug_level() < 6) return;
  debug(6, "[saturate] {} -> {} kernels; rows of all tables after each round: {}", front.rows_before,
        front.rows_after, fmt::join(report.rows_after, " "));
  std::vector<CompileReport::Rule> rules = front.rules;
  std::ranges::stable_sort(rules, std::greater<>(), &CompileReport::Rule::applied);
  for (const CompileReport::Rule& rule : rules)
    debug(6, "[saturate]   {}: {} matches, {} applied, {:.0f} us", rule.name, rule.matched, rule.applied,
          rule.time_us);
  if (environment::debug_level() < 7) return;
  for (const egraph::RuleReport& rule : report.rules)
    if (rule.applied > 0)
      for (const std::string& match : language.matches_of(rule.rule))
        debug(7, "[rule] {}: {}", rule.name, match);
}

class SearchExecutable : public Executable, public Explained {
 public:
  SearchExecutable(std::shared_ptr<const SessionParts> parts, CompilationMode mode, SearchOptions options)
      : parts_(std::move(parts)), mode_(mode), options_(std::move(options)) {}

  /// Makes the plan for the sizes in force, if all are known.
  void prepare(Graph& graph) {
    const auto front = front_of(graph, false);
    missing_.clear();
    for (const auto& [dim, facts] : front->dims)
      if (!graph.dims().contains(dim)) missing_.push_back(dim);
    if (missing_.empty()) (void)variant_for(graph, front);
  }

  void run(Graph& graph, const Options& options) override {
    ran_ = nullptr;
    const Variant& variant = variant_for(graph, front_of(graph, options.keep_everything));
    variant.executor->run(graph, options.trace);
    ran_ = &variant.identity;
  }
  [[nodiscard]] const PlanIdentity* plan() const override { return ran_; }

  [[nodiscard]] CompileReport details() const override {
    if (variants_.empty())
      fail(
          "[compile] nothing is compiled yet: the size of '{}' is not known; give it with set_dim (on the "
          "command line: --dim {}=SIZE)",
          fmt::join(missing_, "', '"), fmt::join(missing_, "=SIZE --dim "));
    return report_of(variants_.front(), *parts_, mode_);
  }

  [[nodiscard]] std::string report() const override {
    if (variants_.empty()) return fmt::format("{}: compiled when sizes are known", parts_->device);
    const Variant& v = variants_.front();
    const Front& f = *v.front;
    std::string text = fmt::format(
        "{}: {} kernels ({} distinct, {} compiled now), predicted {:.1f} us\nops_outside_plan: {}\n"
        "encode: {:.3f} ms, {} tensors\nsaturate: {:.3f} ms, {} rounds, {} -> {} rows\ncover: {:.3f} ms\n"
        "choose: {:.3f} ms\ncompile: {:.3f} ms",
        parts_->device, v.facts.kernels, v.facts.distinct_kernels, v.facts.compiled_kernels, v.cost_us,
        v.facts.host_ops, f.encode_ms, f.program.tensors.size(), f.saturate_ms, f.rounds, f.rows_before,
        f.rows_after, v.cover_ms, v.facts.choose_ms, v.facts.compile_ms);
    if (const std::string bucket = to_string(v.executor->plan().bucket); !bucket.empty())
      text += fmt::format("\nbucket: {}", bucket);
    return text + fmt::format("\nplan: {:016x}", v.executor->plan().key);
  }

 private:
  std::shared_ptr<const Front> front_of(const Graph& graph, bool everything) {
    const uint64_t version = graph.version(), presence = graph.state()->presence;
    for (const auto& front : fronts_)
      if (front->version == version && front->presence == presence && front->everything == everything)
        return front;
    auto front = std::make_shared<Front>();
    front->version = version;
    front->presence = presence;
    front->everything = everything;
    auto begin = std::chrono::steady_clock::now();
    front->program = encode(graph, everything, options_.math);
    front->encode_ms = 1e3 * seconds_since(begin);
    front->dims = dims_of(front->program);
    for (const Program::Tensor& tensor : front->program.tensors)
      if (tensor.kind == Program::Tensor::Kind::Input && tensor.value)
        front->names[*tensor.value] = graph.node(tensor.value->node).name;
    std::string fault;
    Languages::of_process().with(options_, [&](Language& language, const std::shared_ptr<SpecStore>& store) {
      begin = std::chrono::steady_clock::now();
      front->store = store;
      const auto classes = language.load(front->program);
      front->rows_before = language.kernel_count();
      const egraph::Report report = language.saturate();
      throw_if_cancelled();  // its e-graph is not all that it would be
      front->rounds = report.iterations;
      front->growth = report.rows_after;
      for (const egraph::RuleReport& rule : report.rules)
        if (rule.applied > 0)
          front->rules.push_back(
              {rule.name, rule.matched, rule.applied, (rule.search_s + rule.apply_s) * 1e6});
      front->rows_after = language.kernel_count();
      tell_saturation(language, report, *front);
      try {
        front->saturated = read_classes(language, front->program, classes);
      } catch (const LawFault& wrong) {
        fault = wrong.what();
      }
      front->saturate_ms = 1e3 * seconds_since(begin);
    });
    if (!fault.empty()) {
      LUMINAL_CHECK(!laws_off_, "{}", fault);
      switch_laws_off(fault);
      return front_of(graph, everything);
    }
    // An older front of another version never comes back.
    std::erase_if(
        fronts_, [&](const auto& old) { return old->version != version || fronts_.size() >= kMostVariants; });
    std::erase_if(variants_, [&](const Variant& old) { return old.front->version != version; });
    fronts_.push_back(front);
    return front;
  }

  Variant& variant_for(Graph& graph, const std::shared_ptr<const Front>& front) {
    const auto fits = [&](const Variant& v) {
      return v.front == front && holds(v.executor->plan().bucket, graph.dims());
    };
    const auto found = std::ranges::find_if(variants_, fits);
    if (found != variants_.begin() && found != variants_.end())
      variants_.splice(variants_.begin(), variants_, found);  // most recently used first
    else if (found == variants_.end() && !build(graph, front)) {
      const bool everything = front->everything;
      switch_laws_off("[verify] a law does not hold for this graph");
      if (!build(graph, front_of(graph, everything)))
        throw InternalError("[verify] the plan is wrong without laws too");
    }
    return variants_.front();
  }

  /// A law that holds for specs and not for the user's nodes: which one, nobody can tell, so none is used
  /// here.
  void switch_laws_off(std::string_view why) {
    log_line(fmt::format("{}; it is compiled without laws", why));
    laws_off_ = true;
    options_.rules.clear();
    for (const RuleText& rule : rule_texts()) options_.rules_off.insert(rule.name);
    fronts_.clear();
    variants_.clear();
  }

  /// False if what it computes is not what the user's nodes say.
  bool build(Graph& graph, const std::shared_ptr<const Front>& front) {
    const codegen::Bucket bucket = admitted(graph, bucket_of(front->dims, graph.dims()), graph.dims());
    if (!variants_.empty())
      debug(1, "{}: compiled anew because {}", parts_->device,
            variants_.front().front == front
                ? fmt::format("sizes left the bucket: {} instead of {}", to_string(bucket),
                              to_string(variants_.front().executor->plan().bucket))
                : std::string("other values are wanted or there already"));
    throw_if_cancelled();
    const auto begin = std::chrono::steady_clock::now();
    Variant variant{.front = front};
    const kernel::MachineLimits& limits = runtime::machine_limits(*parts_->backend);
    variant.limits_ms = 1e3 * seconds_since(begin);
    const std::scoped_lock lock(Languages::of_process().mutex());
    Choose choose = chooser();
    const bool by_model =
        std::holds_alternative<Fast>(mode_) || parts_->chooser || !parts_->backend->computes();
    if (by_model) {
      const auto cover_begin = std::chrono::steady_clock::now();
      const DimMap top = bucket.top();
      const SpecCost cost = [&](const kernel::KernelSpec& spec) {
        return kernel::predicted_us(spec, top, limits);
      };
      const SpecCost as_run = [&](const kernel::KernelSpec& spec) {
        return choose(spec, restricted(bucket, spec)).predicted_us;
      };
      // A session with a chooser of its own has costs of its own.
      CostMemory* known =
          parts_->chooser ? nullptr
                          : &Languages::of_process().costs(front->store, parts_->device, to_string(bucket));
      variant.cover = find_cover(front->saturated.cover, *front->store, {cost, as_run, known}, options_);
      variant.cover_ms = 1e3 * seconds_since(cover_begin);
      variant.cost_us = variant.cover.cost_us;
    } else {
      try {
        measure(graph, bucket, limits, begin, variant);
      } catch (const NoKernelStands& error) {
        if (laws_off_) throw;
        log_line(fmt::format("[verify] {}", reason_of(error)));
        return false;
      }
      choose = [&, by_model = choose](const kernel::KernelSpec& spec, const codegen::Bucket& own) -> Chosen {
        const auto tuned = variant.tuned.find(front->store->intern(spec));
        if (tuned == variant.tuned.end()) return by_model(spec, own);
        const Tuned& t = tuned->second;
        return {&codegen::find_schedule(t.schedule), t.parameters, t.predicted_us, t.measured_us};
      };
    }
    runtime::Plan plan = build_plan(graph, front->program, front->saturated, variant.cover, *front->store,
                                    choose, *parts_->backend, bucket, &variant.facts);
    if (environment::debug_level() >= 3) debug(3, "{}", plan.to_string());
    if ((!by_model || (parts_->backend->computes() && !options_.rules.empty())) &&
        !is_sound(graph, plan, begin, variant))
      return false;
    variant.identity = {to_string(plan.bucket), plan.key};
    variant.executor = std::make_unique<runtime::Executor>(parts_->backend, std::move(plan));
    variant.total_ms = 1e3 * seconds_since(begin) + front->encode_ms + front->saturate_ms;
    note_budget(variant);
    if (variants_.size() == kMostVariants) variants_.pop_back();
    variants_.push_front(std::move(variant));
    if (is_told())
      tell({details(), graph, front->saturated, *front->store, variants_.front().executor->plan()});
    return true;
  }

  /// A budget is held unless what has to be done at least takes longer.
  void note_budget(Variant& variant) const {
    const auto* budget = std::get_if<TimeBudget>(&mode_);
    if (budget == nullptr) return;
    const auto most = static_cast<double>(budget->duration.count());
    if (variant.total_ms <= std::max(1.05 * most, most + 100)) return;
    variant.note += fmt::format(
        "{}this took longer than its budget: at least one kernel for each spec is compiled, which took "
        "{:.0f} ms",
        variant.note.empty() ? "" : "; ", variant.tuning.compile_s * 1e3);
  }

  /// Runs the plan once as a whole, beside a plan in which nothing shares memory. A launch that is wrong in
  /// place loses the permission. False if kernels that stand each by itself compute something else together.
  bool is_sound(const Graph& graph, runtime::Plan& plan, Clock::time_point begin, Variant& variant) const {
    const auto start = Clock::now();
    const DimMap top = plan.bucket.top();
    const int64_t bytes = 2 * separate_bytes(plan, top);
    if (bytes > this_machine().available_bytes / 2 || start >= deadlines_of(mode_, begin).verify) {
      debug(1, "{}: the plan was not run as a whole before use ({:.0f} MB, and the time of the mode)",
            parts_->device, static_cast<double>(bytes) / 1e6);
      return true;
    }
    const runtime::Given given = plan_inputs(graph, plan, top, 0);
    std::optional<PlanFault> fault;
    throw_if_cancelled();
    while ((fault = check_plan(*parts_->backend, graph, plan, top, given, options_.math))) {
      const auto replay = replay_of(graph, plan, variant.facts, *variant.front->store, *fault);
      log_line(fmt::format(
          "[verify] a plan is wrong and not used: {}. Please report this{}", fault->message,
          replay ? "; " + write_replay(*replay, combine(plan.key, hash_bytes(fault->message))) : ""));
      if (fault->kind != PlanFault::Kind::InPlace) break;
      auto& allowed = plan.launches[static_cast<size_t>(fault->launch)].kernel->in_place;
      if (allowed.empty()) break;
      allowed.clear();
    }
    variant.tuning.verify_s += seconds_since(start);
    if (fault && fault->kind != PlanFault::Kind::Value)
      throw InternalError(fmt::format("[verify] {}", fault->message));
    return !fault;
  }

  /// Cover and kernels by measurement.
  void measure(const Graph& graph, const codegen::Bucket& bucket, const kernel::MachineLimits& limits,
               Clock::time_point begin, Variant& variant) const {
    const Front& front = *variant.front;
    MeasuredCover found = find_measured_cover({.graph = graph,
                                               .program = front.program,
                                               .saturated = front.saturated,
                                               .store = *front.store,
                                               .backend = *parts_->backend,
                                               .cache = Cache::of_process(),
                                               .limits = limits,
                                               .bucket = bucket,
                                               .options = options_},
                                              deadlines_of(mode_, begin));
    variant.cover_ms = found.cover_s * 1e3;
    variant.cost_us = found.best_us;
    variant.cover = std::move(found.cover);
    variant.tuned = std::move(found.kernels);
    variant.tuning = found.phases;
    variant.rounds = std::move(found.rounds);
    variant.plan_us = found.plan_us;
    variant.fast_us = found.models_plan_us;
    if (found.models_plan)
      variant.note =
          "what was measured kernel by kernel ran slower as a whole: the plan of Fast mode is kept";
  }

  [[nodiscard]] Choose chooser() const {
    if (parts_->chooser) return parts_->chooser(mode_);
    return [this](const kernel::KernelSpec& spec, const codegen::Bucket& bucket) {
      return choose_by_model(spec, bucket, parts_->backend->target());
    };
  }

  std::shared_ptr<const SessionParts> parts_;
  CompilationMode mode_;
  SearchOptions options_;  ///< the graph's, laws off that were found wrong
  bool laws_off_ = false;
  std::vector<std::string> missing_;   ///< dims whose sizes were not known when it was compiled
  const PlanIdentity* ran_ = nullptr;  ///< of the variant that ran last: it lives as long as that is the case
  std::vector<std::shared_ptr<const Front>> fronts_;
  std::list<Variant> variants_;
};

class SearchSession : public Session {
 public:
  explicit SearchSession(SessionParts parts)
      : parts_(std::make_shared<const SessionParts>(std::move(parts))) {}
  [[nodiscard]] std::string_view device() const override { return parts_->device; }
  [[nodiscard]] std::unique_ptr<Executable> compile(Graph& graph, const CompilationMode& mode) override {
    auto executable = std::make_unique<SearchExecutable>(parts_, mode, graph.search());
    executable->prepare(graph);
    return executable;
  }

 private:
  std::shared_ptr<const SessionParts> parts_;
};

}  // namespace

std::shared_ptr<Session> make_session(SessionParts parts) {
  return std::make_shared<SearchSession>(std::move(parts));
}

void register_device(const std::string& name, std::function<std::shared_ptr<backends::Device>()> make) {
  backends::register_device(name, std::move(make));
  register_session(name, [name] {
    return make_session({.device = name, .backend = backends::find_device(name), .chooser = {}});
  });
}

}  // namespace luminal::search
