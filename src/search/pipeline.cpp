#include "search/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <tuple>

#include "base/cancel.h"
#include "base/environment.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/reason.h"
#include "base/stopwatch.h"
#include "codegen/schedules/cost.h"
#include "search/cover/freeze.h"
#include "search/cover/known_covers.h"
#include "search/program_key.h"
#include "search/tuning/example_inputs.h"
#include "search/verification/contain.h"
#include "search/verification/plan_check.h"
#include "search/verification/replay.h"
#include "search/watch.h"

namespace luminal::search {
namespace {

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
      std::erase_if(languages_,
                    [&](const auto& entry) { return std::get<MathMode>(entry.first) == options.math; });
      store = std::make_shared<SpecStore>(options.math);
    }
    auto& language = languages_[{options.math, options.rules_off, options.rules}];
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
  /// By what decides their rules.
  std::map<std::tuple<MathMode, std::set<std::string, std::less<>>, std::string>, std::unique_ptr<Language>>
      languages_;
  struct Costs {
    std::shared_ptr<SpecStore> store;  ///< kept, so that no other store gets its address
    CostMemory memory;
  };
  std::map<std::tuple<std::string, std::string, const SpecStore*>, Costs> costs_;
};

/// LUMINAL_DEBUG=6: how the e-graph grew, and the laws that did most.
/// LUMINAL_DEBUG=7: every application of a law.
void log_saturation(Language& language, const egraph::Report& report, const FrontEnd& front_end) {
  if (environment::debug_level() < 6) return;
  debug(6, "[saturate] {} -> {} kernels; rows of all tables after each round: {}", front_end.rows_before,
        front_end.rows_after, fmt::join(report.rows_after, " "));
  std::vector<CompileReport::Rule> rules = front_end.rules;
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

}  // namespace

std::unique_lock<std::mutex> lock_specs() { return std::unique_lock(Languages::of_process().mutex()); }

FrontEnd run_front_end(const Graph& graph, bool everything, const SearchOptions& options) {
  FrontEnd made;
  auto begin = Clock::now();
  made.kernel_graph = encode(graph, everything, options.math);
  made.encode_ms = 1e3 * seconds_since(begin);
  made.dims = dims_of(made.kernel_graph);
  made.loops = loop_bodies(graph, made.kernel_graph, options);
  add_loop_dims(graph, made.kernel_graph, made.loops, made.dims);
  for (const KernelGraph::Tensor& tensor : made.kernel_graph.tensors)
    if (tensor.kind == KernelGraph::Tensor::Kind::Input && tensor.value)
      made.names[*tensor.value] = graph.node(tensor.value->node).name;
  Languages::of_process().with(options, [&](Language& language, const std::shared_ptr<SpecStore>& store) {
    begin = Clock::now();
    made.store = store;
    const auto classes = language.load(made.kernel_graph);
    made.rows_before = language.kernel_count();
    const egraph::Report report = language.saturate();
    throw_if_cancelled();  // its e-graph is not all that it would be
    made.rounds = report.iterations;
    made.growth = report.rows_after;
    for (const egraph::RuleReport& rule : report.rules)
      if (rule.applied > 0)
        made.rules.push_back({rule.name, rule.matched, rule.applied, (rule.search_s + rule.apply_s) * 1e6});
    made.rows_after = language.kernel_count();
    log_saturation(language, report, made);
    made.saturated = read_classes(language, made.kernel_graph, classes);
    made.saturate_ms = 1e3 * seconds_since(begin);
  });
  return made;
}

namespace {

/// The steps from cover to plan for one bucket, with what they hand on.
class BackEndRun {
 public:
  BackEndRun(const Graph& graph, std::shared_ptr<const FrontEnd> front_end, const BackEnd& target,
             const codegen::Bucket& bucket, const CompilationMode& mode, const SearchOptions& options,
             const Earlier& earlier)
      : graph_(graph),
        target_(target),
        bucket_(bucket),
        mode_(mode),
        options_(options),
        earlier_(earlier),
        loops_{front_end->loops, {}} {
    compiled_.front_end = std::move(front_end);
    loops_.plans.resize(compiled_.front_end->loops.size());
  }

  BackEndResult run() {
    throw_if_cancelled();
    compile_loops();
    const std::scoped_lock lock(Languages::of_process().mutex());
    const bool by_model = std::holds_alternative<Fast>(mode_) || !target_.backend->computes();
    if (by_model)
      select_by_model();
    else
      select_by_measurement();
    build();
    // Fast mode verifies nothing, unless the program brings laws of its own.
    if (!by_model || (target_.backend->computes() && !options_.rules.empty())) check_whole();
    compiled_.total_ms =
        1e3 * seconds_since(begin_) + compiled_.front_end->encode_ms + compiled_.front_end->saturate_ms;
    note_budget();
    return std::move(compiled_);
  }

 private:
  /// The plan of what was selected.
  void build() {
    const auto begin = Clock::now();
    const FrontEnd& front_end = *compiled_.front_end;
    compiled_.facts = {};
    compiled_.plan = build_plan(
        graph_, front_end.kernel_graph, front_end.saturated, compiled_.cover, *front_end.store, loops_,
        [&](const kernel::KernelSpec& spec, const codegen::Bucket& own) { return implementation(spec, own); },
        *target_.backend, bucket_, &compiled_.facts);
    compiled_.plan_ms += 1e3 * seconds_since(begin) - compiled_.facts.compile_ms;
    if (environment::debug_level() >= 3) debug(3, "{}", compiled_.plan.to_string());
  }

  /// Plans of the bodies of loops. Of a budget they take half.
  void compile_loops() {
    std::map<const LoopBody*, std::shared_ptr<const runtime::Plan>> known;
    for (const auto& body : loops_.bodies)
      if (body) known.emplace(body.get(), nullptr);
    CompilationMode mode = mode_;
    if (auto* budget = std::get_if<TimeBudget>(&mode); budget != nullptr && !known.empty())
      budget->duration /= 2 * static_cast<int64_t>(known.size());
    for (size_t host = 0; host < loops_.bodies.size(); ++host) {
      const LoopBody* body = loops_.bodies[host].get();
      if (body == nullptr) continue;
      std::shared_ptr<const runtime::Plan>& plan = known.at(body);
      if (!plan) {
        codegen::Bucket own;
        for (const auto& [dim, facts] : body->front_end->dims) own.facts.emplace(dim, bucket_.facts.at(dim));
        BackEndResult made =
            run_back_end(*body->graph, body->front_end, target_, own, mode, options_, earlier_);
        plan = std::make_shared<const runtime::Plan>(std::move(made.plan));
        compiled_.loops.push_back({std::move(made), plan});
      }
      loops_.plans[host] = plan;
    }
  }

  void select_by_model() {
    const auto start = Clock::now();
    const FrontEnd& front_end = *compiled_.front_end;
    const DimMap top = bucket_.top();
    const kernel::MachineLimits limits = codegen::nominal_limits(target_.backend->target());
    const SpecCost rough = [&](const kernel::KernelSpec& spec) {
      return kernel::predicted_us(spec, top, limits);
    };
    const SpecCost fine = [&](const kernel::KernelSpec& spec) {
      return best_by_model(spec, restricted(bucket_, spec), target_.backend->target()).predicted_us;
    };
    CostMemory& known = Languages::of_process().costs(front_end.store, target_.device, to_string(bucket_));
    const CoverProblem& problem = front_end.saturated.cover;
    const auto find = [&] {
      return find_cover(problem, *front_end.store,
                        {.rough = rough,
                         .fine = fine,
                         .known = &known,
                         .shared = true,
                         .sizes = top,
                         .large_bytes = static_cast<double>(options_.large_bytes)},
                        options_);
    };
    // No version of ours tells what user kernels say that kernels cost.
    compiled_.cover = codegen::has_added_families()
                          ? find()
                          : known_cover(Cache::of_process(),
                                        cover_key(problem, *front_end.store, options_,
                                                  prices_of_model(target_.backend->target(), bucket_)),
                                        problem, *front_end.store, find);
    freeze_weights(graph_, front_end.kernel_graph, front_end.saturated, options_, *front_end.store,
                   compiled_.cover);
    compiled_.cover_ms = 1e3 * seconds_since(start);
    compiled_.cost_us = compiled_.cover.cost_us;
  }

  void select_by_measurement() {
    const kernel::MachineLimits limits = codegen::nominal_limits(target_.backend->target());
    const FrontEnd& front_end = *compiled_.front_end;
    if (!bucket_.facts.empty()) compiled_.timed_at = sizes_to_time(graph_, bucket_, options_, earlier_.sizes);
    PlanSearchResult found = search_plan({.graph = graph_,
                                          .kernel_graph = front_end.kernel_graph,
                                          .saturated = front_end.saturated,
                                          .store = *front_end.store,
                                          .backend = *target_.backend,
                                          .cache = Cache::of_process(),
                                          .limits = limits,
                                          .bucket = bucket_,
                                          .options = options_,
                                          .loops = loops_,
                                          .sizes = compiled_.timed_at,
                                          .passed_forms = earlier_.passed_forms},
                                         program(), deadlines_);
    compiled_.cover_ms = found.cover_s * 1e3;
    compiled_.cost_us = found.best_us;
    compiled_.cover = std::move(found.cover);
    compiled_.tuned = std::move(found.kernels);
    compiled_.tuning = found.phases;
    compiled_.rounds = std::move(found.rounds);
    compiled_.plan_us = found.plan_us;
    compiled_.fast_us = found.models_plan_us;
    compiled_.note = std::move(found.note);
    values_ = std::move(found.values);
    digests_ = std::move(found.digests);
  }

  /// What was tuned; the model's choice for the rest (copies that the plan itself needs).
  [[nodiscard]] Implementation implementation(const kernel::KernelSpec& spec,
                                              const codegen::Bucket& own) const {
    const auto tuned = compiled_.tuned.find(compiled_.front_end->store->intern(spec));
    if (tuned == compiled_.tuned.end()) return best_by_model(spec, own, target_.backend->target());
    const Tuned& t = tuned->second;
    return {&codegen::find_schedule(t.schedule), t.parameters, t.predicted_us, t.measured_us};
  }

  /// One kernel that was verified and overwrites nothing: there is nothing about the plan to go wrong.
  [[nodiscard]] bool is_one_verified_kernel() const {
    const runtime::Plan& plan = compiled_.plan;
    if (plan.launches.size() != 1 || !plan.updates.empty() || !plan.launches[0].kernel ||
        !plan.launches[0].kernel->in_place.empty() || compiled_.facts.list.size() != 1)
      return false;
    const auto tuned = compiled_.tuned.find(compiled_.facts.list[0].spec);
    return tuned != compiled_.tuned.end() && tuned->second.verified &&
           std::ranges::all_of(plan.tensors, [](const auto& tensor) { return tensor.aliases.empty(); });
  }

  /// Hashes the whole program, so it does so once.
  [[nodiscard]] const std::vector<std::string>& program() {
    if (program_.empty())
      program_ = program_parts(graph_, compiled_.front_end->kernel_graph, target_.backend->target(), bucket_,
                               options_);
    return program_;
  }

  /// Of the note that this plan was checked as a whole and is right. None for one with a user kernel, whose code nobody
  /// here knows.
  [[nodiscard]] std::optional<CacheKey> key_of_check() {
    const auto is_own = [](const PlanFacts::Kernel& kernel) {
      return kernel.implementation.schedule->foreign;
    };
    if (codegen::has_added_families() || std::ranges::any_of(compiled_.facts.list, is_own))
      return std::nullopt;
    std::vector<std::string> parts = program();
    uint64_t code = compiled_.plan.key;
    for (const PlanFacts::Kernel& kernel : compiled_.facts.list) code = combine(code, kernel.code);
    parts.insert(parts.begin(),
                 {"checked plan", std::string(source_version()), fmt::format("{:016x}", code)});
    return make_key(parts);
  }

  /// Runs the plan once as a whole, beside a plan in which nothing shares memory. A launch that is wrong in
  /// place loses the permission. A plan that was right is not checked again. Errors: LawFault if kernels that pass each
  /// by itself compute something else together.
  void check_whole() {
    if (is_one_verified_kernel()) return;
    const auto start = Clock::now();
    const std::optional<CacheKey> key = key_of_check();
    if (key && Cache::of_process().find_object(*key)) {
      debug(2, "{}: the plan was checked as a whole before", target_.device);
      return;
    }
    runtime::Plan& plan = compiled_.plan;
    const DimMap top = plan.bucket.top();
    const int64_t bytes =
        check_bytes(plan, top) + runtime::PlanRunner::arena_bytes(*target_.backend, plan, top);
    const bool is_too_large = bytes > this_machine().available_bytes / 2;
    constexpr double kRuns = 4;  // and the user's nodes at samples, which take about as long as one more
    const double takes_s = kRuns * 1e-6 * compiled_.cost_us + static_cast<double>(bytes) / kFreshBytesPerS;
    if (is_too_large || !fits(takes_s, deadlines_.verify)) {
      debug(1, "{}: the plan is not checked as a whole: {}", target_.device,
            is_too_large ? fmt::format("that takes {:.0f} MB, more than half of the free memory",
                                       static_cast<double>(bytes) / 1e6)
                         : std::string("the time of the mode is up"));
      return;
    }
    draw_own_inputs(graph_, plan);
    const auto inputs = [&] { return timing_inputs(graph_, plan, top, options_, values_); };
    throw_if_cancelled();
    const auto seen = digests_.find(plan.key);
    const auto digest = seen != digests_.end() ? std::optional(seen->second) : std::nullopt;
    bool is_right = true;
    while (const std::optional<PlanFault> fault = check_plan(*target_.backend, graph_, plan, top, inputs,
                                                             options_.math, deadlines_.verify, digest)) {
      is_right = false;
      const auto replay = replay_of(graph_, plan, compiled_.facts, *compiled_.front_end->store, *fault);
      const PlanFacts::Kernel* wrong_one = faulty_user_kernel(*fault);
      log_line(fmt::format(
          "[verify] a plan is wrong and not used: {}{}{}", fault->message,
          wrong_one ? "" : ". Please report this",
          replay ? "; " + write_replay(*replay, combine(plan.key, hash_bytes(fault->message))) : ""));
      if (wrong_one != nullptr) {
        drop_user_kernel(*wrong_one);
        continue;
      }
      if (fault->kind == PlanFault::Kind::Value) {
        LawFault wrong("[verify] a law does not hold for this graph");
        wrong.classes = classes_around(plan.tensors[static_cast<size_t>(fault->tensor)]);
        throw wrong;
      }
      auto* in_place = fault->kind == PlanFault::Kind::InPlace
                           ? &plan.launches[static_cast<size_t>(fault->launch)].kernel->in_place
                           : nullptr;
      if (in_place == nullptr || in_place->empty())
        throw InternalError(fmt::format("[verify] {}", fault->message));
      in_place->clear();
    }
    // Where time ran out a part of it has not been looked at.
    if (key && is_right && !is_over(deadlines_.verify))
      Cache::of_process().store_object(*key, std::as_bytes(std::span(&plan.key, 1)));
    compiled_.tuning.verify_s += seconds_since(start);
  }

  /// The user kernel that computes wrong values in a launch; null if none does.
  [[nodiscard]] const PlanFacts::Kernel* faulty_user_kernel(const PlanFault& fault) const {
    if (fault.kind != PlanFault::Kind::Value || fault.launch < 0) return nullptr;
    const PlanFacts& facts = compiled_.facts;
    const PlanFacts::Kernel& kernel = facts.list[facts.kernel_of[static_cast<size_t>(fault.launch)]];
    return kernel.implementation.schedule->foreign ? &kernel : nullptr;
  }

  /// The model's choice takes its place.
  void drop_user_kernel(const PlanFacts::Kernel& kernel) {
    add_note(fmt::format("{} is wrong and not used", kernel.implementation.schedule->name));
    forget_choice(compiled_.front_end->store->at(kernel.spec), kernel.bucket);
    compiled_.tuned.erase(kernel.spec);
    build();
  }

  /// Later searches do not take it for verified.
  void forget_choice(const kernel::KernelSpec& spec, const codegen::Bucket& bucket) const {
    for (const codegen::Bucket& each : {bucket, codegen::Bucket{}})
      Cache::of_process().forget(
          tuning_key(spec, each, target_.backend->target(), key_text_of_examples(options_)));
  }

  /// The classes of the kernel that makes a tensor, or of the tensor alone if none does.
  [[nodiscard]] std::vector<int> classes_around(const runtime::PlanTensor& tensor) const {
    const FrontEnd& front_end = *compiled_.front_end;
    std::vector<int> classes;
    const std::vector<KernelGraph::Tensor>& tensors = front_end.kernel_graph.tensors;
    for (size_t t = 0; t < tensors.size(); ++t)
      if (tensors[t].value && tensors[t].value == tensor.value)
        classes.push_back(front_end.saturated.class_of[t]);
    for (const CoverKernel& kernel : compiled_.cover.kernels)
      if (!classes.empty() && std::ranges::find(kernel.outputs, classes[0]) != kernel.outputs.end())
        for (const auto* list : {&kernel.inputs, &kernel.interior, &kernel.outputs})
          classes.insert(classes.end(), list->begin(), list->end());
    return classes;
  }

  /// A budget is held unless what has to be done at least takes longer.
  void note_budget() {
    const auto* budget = std::get_if<TimeBudget>(&mode_);
    if (budget == nullptr) return;
    const auto most = static_cast<double>(budget->duration.count());
    if (compiled_.total_ms <= std::max(1.05 * most, most + 100)) return;
    add_note(fmt::format(
        "the compile took {:.0f} ms, longer than its budget of {:.0f} ms: every spec needs at least one "
        "compiled kernel, which took {:.0f} ms",
        compiled_.total_ms, most, compiled_.tuning.compile_s * 1e3 + compiled_.facts.compile_ms));
  }

  void add_note(const std::string& text) { compiled_.note += (compiled_.note.empty() ? "" : "; ") + text; }

  const Graph& graph_;
  const BackEnd& target_;
  const codegen::Bucket& bucket_;
  const CompilationMode& mode_;
  const SearchOptions& options_;
  const Earlier& earlier_;
  std::map<uint64_t, uint64_t> digests_;  ///< PlanSearchResult::digests
  Leaves values_;                         ///< of the graph, as runs have them
  std::vector<std::string> program_;      ///< program_parts, once asked for
  Clock::time_point begin_ = Clock::now();
  Deadlines deadlines_ = deadlines_of(mode_, Watch::current() ? Watch::current()->start() : begin_);
  BackEndResult compiled_;
  Loops loops_;
  KeptPages pages_;
};

}  // namespace

BackEndResult run_back_end(const Graph& graph, std::shared_ptr<const FrontEnd> front_end,
                           const BackEnd& target, const codegen::Bucket& bucket, const CompilationMode& mode,
                           const SearchOptions& options, const Earlier& earlier) {
  return BackEndRun(graph, std::move(front_end), target, bucket, mode, options, earlier).run();
}

}  // namespace luminal::search
