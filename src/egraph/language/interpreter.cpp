#include "egraph/language/interpreter.h"

#include <algorithm>
#include <utility>

#include "base/file.h"
#include "egraph/core/limits.h"

namespace luminal::egraph::language {

namespace {

/// Messages of ours carry their place; those of the engine get the command's. Those of hosts and of files may
/// quote anything.
[[noreturn]] void place_error(const Error& error, const Span& span) {
  constexpr size_t kLongest = 600;
  const std::string text = error.what();
  const bool placed = text.find(": error: ") != std::string::npos;
  throw CommandFailed(placed ? text : render_diagnostic(span, clipped(text, kLongest)));
}

}  // namespace

Interpreter::Interpreter(EgglogOptions options)
    : options_(std::move(options)), library_(graph_, symbols_), fresh_(symbols_) {
  check_budget(options_.budget);
  if (options_.proofs || options_.prove_checks) graph_.enable_explanations();
  graph_.set_threads(options_.threads);
  library_.install(scope_);
  scope_.rulesets.emplace(
      Symbol{}, RulesetInfo{.id = graph_.ruleset("default ruleset"), .parts = {}, .rule_names = {}});
}

LoweringContext Interpreter::lowering() {
  return {.scope = scope_,
          .graph = graph_,
          .exprs = *exprs_,
          .symbols = symbols_,
          .make_target =
              [this](const FunctionTarget& target, std::vector<const SortInfo*> partial) {
                return library_.target_number(target, std::move(partial));
              },
          .own_terms = options_.proofs || options_.prove_checks,
          .seminaive = options_.seminaive};
}

void Interpreter::set_budget(const Budget& budget) {
  check_budget(budget);
  options_.budget = budget;
}

void Interpreter::emit(std::string text) {
  if (options_.on_output) options_.on_output(text);
  output_ += text;
  count_output();
}

void Interpreter::count_output() {
  graph_.state().text_bytes += output_.size() - counted_output_;
  counted_output_ = output_.size();
}

std::string Interpreter::run(std::string_view text, std::string file_name) {
  output_.clear();
  count_output();
  include_depth_ = 0;
  Limits limits(graph_.state(), options_.budget, nullptr, options_.interrupt);
  const LimitsScope scope(graph_.state(), &limits);
  run_source(sources_.emplace_back(Source(std::move(file_name), std::string(text))));
  std::string printed = std::exchange(output_, {});
  count_output();
  return printed;
}

SortId Interpreter::host_sort(ContainerSort sort, bool is_container) {
  const std::string name = sort.name;
  const Symbol symbol = symbols_.intern(name);
  if (scope_.names.contains(symbol) || scope_.find_sort(symbol) != nullptr)
    throw Error(fmt::format("[egg] the name '{}' of a host sort is taken; choose another", name));
  PrimitiveSort& plain = sort;
  const SortId id =
      is_container ? graph_.container_sort(std::move(sort)) : graph_.primitive_sort(std::move(plain));
  library_.add_host_sort(scope_, name, id);
  return id;
}

Program Interpreter::parsed(const Source& source) {
  const Span whole{&source, 0, static_cast<uint32_t>(std::min<size_t>(source.text.size(), 1))};
  const auto poll = [this] { graph_.state().poll(); };
  try {
    const bool has_rationals = scope_.find_sort(symbols_.intern("Rational")) != nullptr;
    if (!has_rationals && mentions_rationals(source, symbols_, poll)) library_.install_rationals(scope_);
    return parse_program(source, symbols_, fresh_, poll);
  } catch (const Stopped& why) {
    stopped(why.reason, whole);
  } catch (const std::bad_alloc&) {
    throw BudgetError(render_diagnostic(whole, "out of memory"), StopReason::ByteBudget);
  }
}

void Interpreter::run_source(const Source& source) {
  Program program = parsed(source);
  ExprPool* const outer = std::exchange(exprs_, &program.exprs);
  try {
    for (const Command& each : program.commands) command(each);
  } catch (...) {
    exprs_ = outer;
    throw;
  }
  exprs_ = outer;
}

// Every error that is not placed yet is one of this command's.
void Interpreter::command(const Command& c) {
  try {
    graph_.state().limits->check();
    dispatch(c);
  } catch (const Stopped& why) {
    stopped(why.reason, c.span);
  } catch (const std::bad_alloc&) {
    throw BudgetError(render_diagnostic(c.span, "out of memory"), StopReason::ByteBudget);
  } catch (const BudgetError&) {
    throw;
  } catch (const ProgramError&) {
    throw;
  } catch (const CommandFailed&) {
    throw;
  } catch (const Error& error) {
    place_error(error, c.span);
  }
}

void Interpreter::stopped(StopReason reason, const Span& span) const {
  const Budget& budget = options_.budget;
  std::string message = fmt::format("stopped by the {}", name_of(reason));
  if (reason == StopReason::TimeBudget) message += fmt::format(" of {} s", budget.seconds);
  if (reason == StopReason::NodeBudget) message += fmt::format(" of {} rows", budget.nodes);
  if (reason == StopReason::ByteBudget) message += fmt::format(" of {} bytes", budget.bytes);
  throw BudgetError(render_diagnostic(span, message), reason);
}

void Interpreter::dispatch(const Command& c) {
  using Kind = Command::Kind;
  switch (c.kind) {
    case Kind::Sort:
      return sort(c.sort);
    case Kind::Datatypes:
      return datatypes(c);
    case Kind::Function:
      return function(c.function);
    case Kind::Ruleset:
      return ruleset(c.name, c.span);
    case Kind::CombinedRuleset:
      return combined_ruleset(c);
    case Kind::Rule:
      return rule(c.rule, c.rule.name);
    case Kind::Rewrite:
      return rewrite(c.rewrite);
    case Kind::Action:
      return action(c.action);
    case Kind::RunSchedule:
      return run_schedule(c.schedule);
    case Kind::Check:
      return check(c);
    case Kind::Prove:
      return prove(c);
    case Kind::ProveExists:
      return prove_exists(c);
    case Kind::Extract:
      return extract(c);
    case Kind::MultiExtract:
      return multi_extract(c);
    case Kind::KeepBest:
      return keep_best(c);
    case Kind::PrintStats:
      return print_stats(c);
    case Kind::PrintFunction:
      return print_function(c);
    case Kind::PrintSize:
      return print_size(c);
    case Kind::Input:
      return input(c);
    case Kind::Output:
      return output(c);
    case Kind::Include:
      return include(c);
    case Kind::Fail:
      return fail(c);
    case Kind::Push:
      return push(c.count);
    case Kind::Pop:
      return pop(c);
    case Kind::Sequence:
      for (const Command& each : c.body) command(each);
  }
}

void Interpreter::push(int64_t count) {
  EngineState& state = graph_.state();
  for (int64_t i = 0; i < count; ++i) {
    state.check_limits();
    const size_t bytes = saved_bytes();
    state.require_memory(bytes);
    saved_.push_back({scope_, rule_names_, shown_rules_});
    try {
      graph_.push();
    } catch (...) {
      saved_.pop_back();  // both or neither
      throw;
    }
    state.count_saved(bytes);
  }
}

// What the maps and their strings take, about.
size_t Interpreter::saved_bytes() const {
  constexpr size_t kEntry = 64;
  size_t entries = scope_.sorts.size() + scope_.functions.size() + scope_.primitives.size() +
                   scope_.names.size() + scope_.global_stems.size() + scope_.sort_order.size() +
                   scope_.function_order.size() + rule_names_.size() + shown_rules_.size();
  size_t bytes = sizeof(Saved);
  for (const auto& [name, overloads] : scope_.primitives) bytes += kEntry + overloads.size() * sizeof(void*);
  for (const auto& [symbol, ruleset] : scope_.rulesets) {
    bytes += 2 * kEntry + sizeof ruleset;
    entries += ruleset.rule_names.size();
    for (const auto& [name, span] : ruleset.rule_names) bytes += name.size();
  }
  for (const std::string& name : rule_names_) bytes += name.size();
  for (const auto& [number, name] : shown_rules_) bytes += name.size();
  return bytes + entries * kEntry;
}

void Interpreter::pop(const Command& c) {
  for (int64_t i = 0; i < c.count; ++i) {
    if (saved_.empty()) command_failed(c.span, "there is no (push) left for this (pop)");
    graph_.pop();
    scope_ = std::move(saved_.back().scope);
    rule_names_ = std::move(saved_.back().rule_names);
    shown_rules_ = std::move(saved_.back().shown_rules);
    saved_.pop_back();
  }
}

void Interpreter::fail(const Command& c) {
  const size_t printed = output_.size();
  auto on_output = std::exchange(options_.on_output, nullptr);
  bool failed = false;
  try {
    command(c.body[0]);
  } catch (const ProgramError&) {
    options_.on_output = std::move(on_output);
    throw;  // not a well-typed command: the program itself is wrong
  } catch (const BudgetError&) {
    options_.on_output = std::move(on_output);
    throw;  // nobody knows how it would have gone on
  } catch (const Error&) {
    failed = true;
  }
  options_.on_output = std::move(on_output);
  output_.resize(printed);
  count_output();
  if (!failed) command_failed(c.span, "this command should have failed, but it succeeded");
}

// -- Actions and checks

const std::vector<Value>& Interpreter::execute(const ActionBlock& block, const Span& span) {
  try {
    values_ = graph_.execute(block);
    graph_.rebuild();  // a conflict that a union causes belongs to this place
    return values_;
  } catch (const Error& error) {
    place_error(error, span);
  }
}

void Interpreter::action(const ActionSyntax& syntax) {
  if (syntax.kind == ActionSyntax::Kind::Let) return global(syntax);
  execute(lower_action(lowering(), syntax), syntax.span);
}

Interpreter::Evaluated Interpreter::evaluate(ExprId expr, const SortInfo* expected) {
  const LoweredExpr lowered = lower_expr(lowering(), expr, expected);
  if (!lowered.value.is_variable()) return {lowered.value.at, lowered.sort};
  return {execute(lowered.block, (*exprs_)[expr].span)[lowered.value.at], lowered.sort};
}

void Interpreter::check(const Command& c) {
  const Query query = lower_query(lowering(), c.facts, c.span);
  if (options_.prove_checks) {
    static_cast<void>(proof_of(query, c.facts, c.span));
    return;
  }
  if (graph_.check(query)) return;
  std::string facts;
  for (const Fact& fact : c.facts) facts += "\n    " + to_text(*exprs_, fact);
  command_failed(c.span, "check failed: nothing in the database matches{}", facts);
}

// -- Schedules

struct Interpreter::Prepared {
  ScheduleSyntax::Kind kind = ScheduleSyntax::Kind::Run;
  Symbol ruleset;
  Span span;
  int64_t count = 0;
  std::optional<Query> until;
  std::vector<Prepared> body;
  std::optional<size_t> scheduler;  ///< its place: of a LetScheduler, or of a Run that has one
  int64_t match_limit = 0, ban_length = 0;
};

const RulesetInfo& Interpreter::find_ruleset(Symbol name, const Span& span) const {
  const auto found = scope_.rulesets.find(name);
  if (found == scope_.rulesets.end())
    command_failed(span, "unknown ruleset '{}'{}", name.text(), scope_.suggest_ruleset(name));
  return found->second;
}

Interpreter::Prepared Interpreter::prepare(const ScheduleSyntax& schedule) {
  Prepared out{.kind = schedule.kind,
               .ruleset = schedule.ruleset,
               .span = schedule.span,
               .count = schedule.count,
               .until = {},
               .body = {},
               .scheduler = {},
               .match_limit = schedule.match_limit,
               .ban_length = schedule.ban_length};
  if (schedule.until) out.until = lower_query(lowering(), *schedule.until, schedule.span);
  if (schedule.scheduler) {
    const auto known = std::find_if(visible_schedulers_.begin(), visible_schedulers_.end(),
                                    [&](const auto& one) { return one.first == schedule.scheduler; });
    const bool declares = schedule.kind == ScheduleSyntax::Kind::LetScheduler;
    if (declares && known != visible_schedulers_.end())
      fail_at(schedule.span, "scheduler '{}' already exists", schedule.scheduler.text());
    if (!declares && known == visible_schedulers_.end())
      fail_at(schedule.span,
              "unknown scheduler '{}': (let-scheduler {} (back-off)) makes one, for what follows",
              schedule.scheduler.text(), schedule.scheduler.text());
    out.scheduler = declares ? schedulers_.size() : known->second;
    if (declares) {
      visible_schedulers_.emplace_back(schedule.scheduler, schedulers_.size());
      schedulers_.emplace_back();
    }
  }
  // A scheduler serves what follows it within the same parentheses.
  const size_t visible = visible_schedulers_.size();
  for (const ScheduleSyntax& inner : schedule.body) out.body.push_back(prepare(inner));
  if (!schedule.body.empty()) visible_schedulers_.resize(visible);
  return out;
}

void Interpreter::run_schedule(const ScheduleSyntax& schedule) {
  visible_schedulers_.clear();
  schedulers_.clear();
  step(prepare(schedule));
}

Interpreter::Progress Interpreter::step(const Prepared& schedule) {
  using Kind = ScheduleSyntax::Kind;
  Progress total;
  const auto once = [&] {
    Progress round;
    for (const Prepared& inner : schedule.body) {
      const Progress part = step(inner);
      round.updated |= part.updated;
      round.can_stop &= part.can_stop;
    }
    total.updated |= round.updated;
    total.can_stop &= round.can_stop;
    return round;
  };
  switch (schedule.kind) {
    case Kind::Run:
      return run_ruleset(schedule);
    case Kind::Seq:
      once();
      return total;
    case Kind::Repeat:
      for (int64_t i = 0; i < schedule.count; ++i)
        if (once().can_stop) break;
      return total;
    case Kind::Saturate:
      while (!once().can_stop) {
      }
      return total;
    case Kind::LetScheduler:
      schedulers_[*schedule.scheduler].emplace(static_cast<uint64_t>(schedule.match_limit),
                                               static_cast<uint64_t>(schedule.ban_length));
      return total;
  }
  return total;
}

Interpreter::Progress Interpreter::run_ruleset(const Prepared& schedule) {
  const RulesetInfo& ruleset = find_ruleset(schedule.ruleset, schedule.span);
  if (schedule.until && graph_.check(*schedule.until)) return {};
  Schedule one = Schedule::run(ruleset.id);
  if (schedule.scheduler) one.scheduler = schedulers_[*schedule.scheduler];
  const Report report = graph_.run(one);
  report_.add(report);
  RulesetTime& time = ruleset_times_[schedule.ruleset ? schedule.ruleset.text() : std::string()];
  time.rebuild_s += report.rebuild_s;
  time.search_s += report.total_s - report.rebuild_s;
  if (report.stop != StopReason::Finished && report.stop != StopReason::Saturated &&
      report.stop != StopReason::Until)
    stopped(report.stop, schedule.span);
  return {.updated = report.updated, .can_stop = !report.updated && !report.held_back};
}

}  // namespace luminal::egraph::language

namespace luminal::egraph {

struct EgglogProgram::Impl : language::Interpreter {
  using Interpreter::Interpreter;
};

EgglogProgram::EgglogProgram(EgglogOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
EgglogProgram::~EgglogProgram() = default;
EgglogProgram::EgglogProgram(EgglogProgram&&) noexcept = default;
EgglogProgram& EgglogProgram::operator=(EgglogProgram&&) noexcept = default;

std::string EgglogProgram::run(std::string_view text, std::string file_name) {
  return impl_->run(text, std::move(file_name));
}
std::string EgglogProgram::run_file(const std::filesystem::path& path) {
  return impl_->run(read_file(path), path.string());
}
SortId EgglogProgram::host_sort(PrimitiveSort sort) {
  ContainerSort plain;
  static_cast<PrimitiveSort&>(plain) = std::move(sort);
  return impl_->host_sort(std::move(plain), false);
}
SortId EgglogProgram::host_sort(ContainerSort sort) { return impl_->host_sort(std::move(sort), true); }
void EgglogProgram::set_budget(const Budget& budget) { impl_->set_budget(budget); }
void EgglogProgram::host_primitive(PrimitiveSpec spec) { impl_->host_primitive(std::move(spec)); }
bool EgglogProgram::is_incomplete(std::string_view text) {
  return language::is_incomplete(std::string(text));
}
EGraph& EgglogProgram::graph() { return impl_->graph(); }
const Report& EgglogProgram::report() const { return impl_->report(); }

std::string run_program(std::string_view text, std::string file_name, EgglogOptions options) {
  return EgglogProgram(std::move(options)).run(text, std::move(file_name));
}

}  // namespace luminal::egraph
