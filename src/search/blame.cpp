#include "search/blame.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/team.h"
#include "search/bucket.h"
#include "search/cache/cache.h"
#include "search/cache/kernel_cache.h"
#include "search/tuning/implementation.h"
#include "search/verification/batch.h"

namespace luminal::search {
namespace {

/// A tensor of the user's graph, or a kernel of terms whose result no user named.
struct Term {
  TensorId tensor = -1;
  SpecId spec = 0;
  std::vector<Term> arguments;
};

/// The e-graph says that `tensor` is what `kernel` computes.
struct Claim {
  TensorId tensor = -1;
  Term kernel;
};

/// What an e-graph says, by names that hold in the e-graphs of other sets of laws too.
class Claims {
 public:
  explicit Claims(const FrontEnd& front_end) : front_end_(front_end) {
    const auto& classes = saturated().cover.classes;
    for (size_t c = 0; c < classes.size(); ++c)
      for (const CoverProblem::Alternative& a : classes[c].alternatives)
        class_of_.emplace(std::pair(a.spec, a.arguments), static_cast<int>(c));
  }

  [[nodiscard]] std::vector<Claim> of(const std::set<int>& classes) const {
    std::vector<Claim> claims;
    for (const int c : classes) {
      const std::vector<TensorId> named = named_tensors(c);
      for (size_t i = 1; i < named.size(); ++i)
        claims.push_back({named[i], Term{.tensor = named[0], .arguments = {}}});
      for (const CoverProblem::Alternative& alternative : alternatives(c)) {
        std::set<int> above{c};
        if (const std::optional<Term> term = term_of(alternative, above))
          for (const TensorId tensor : named) claims.push_back({tensor, *term});
      }
    }
    // Arguments before readers: what is wrong first made the rest wrong.
    std::ranges::stable_sort(claims, {}, &Claim::tensor);
    return claims;
  }
  [[nodiscard]] bool has(const Claim& claim) const {
    const std::optional<int> found = find(claim.kernel);
    return found && found == saturated().class_of[static_cast<size_t>(claim.tensor)];
  }

 private:
  [[nodiscard]] const SaturatedGraph& saturated() const { return front_end_.saturated; }
  [[nodiscard]] const KernelGraph& kernel_graph() const { return front_end_.kernel_graph; }
  /// Tensors of a class that are values of the user's graph.
  [[nodiscard]] std::vector<TensorId> named_tensors(int c) const {
    std::vector<TensorId> named;
    for (const TensorId tensor : saturated().tensors_of[static_cast<size_t>(c)])
      if (kernel_graph().tensors[static_cast<size_t>(tensor)].value) named.push_back(tensor);
    return named;
  }
  [[nodiscard]] const std::vector<CoverProblem::Alternative>& alternatives(int c) const {
    return saturated().cover.classes[static_cast<size_t>(c)].alternatives;
  }

  /// None where it would read itself.
  [[nodiscard]] std::optional<Term> term_of(const CoverProblem::Alternative& alternative,
                                            std::set<int>& above) const {
    Term term{.spec = alternative.spec, .arguments = {}};
    for (const int argument : alternative.arguments) {
      std::optional<Term> own = argument_of(argument, above);
      if (!own) return std::nullopt;
      term.arguments.push_back(std::move(*own));
    }
    return term;
  }
  [[nodiscard]] std::optional<Term> argument_of(int c, std::set<int>& above) const {
    if (const std::vector<TensorId> named = named_tensors(c); !named.empty())
      return Term{.tensor = named[0], .arguments = {}};
    constexpr size_t kDeepest = 4;
    if (above.size() > kDeepest || !above.insert(c).second) return std::nullopt;
    std::optional<Term> first;
    for (const CoverProblem::Alternative& alternative : alternatives(c))
      if ((first = term_of(alternative, above))) break;
    above.erase(c);
    return first;
  }

  [[nodiscard]] std::optional<int> find(const Term& term) const {
    if (term.tensor >= 0) return saturated().class_of[static_cast<size_t>(term.tensor)];
    std::vector<int> arguments;
    for (const Term& argument : term.arguments) {
      const std::optional<int> own = find(argument);
      if (!own) return std::nullopt;
      arguments.push_back(*own);
    }
    const auto known = class_of_.find(std::pair(term.spec, std::move(arguments)));
    return known == class_of_.end() ? std::nullopt : std::optional(known->second);
  }

  const FrontEnd& front_end_;
  std::map<std::pair<SpecId, std::vector<int>>, int> class_of_;
};

/// A term as one kernel of tensors; none where its kernels do not compose.
std::optional<Term> as_one_kernel(Term term, SpecStore& store) {
  for (;;) {
    const auto inner =
        std::ranges::find_if(term.arguments, [](const Term& argument) { return argument.tensor < 0; });
    if (inner == term.arguments.end()) return term;
    const std::optional<Term> producer = as_one_kernel(*inner, store);
    if (!producer) return std::nullopt;
    uint32_t unnamed = 1U << 31;
    const auto named = [&](const Term& reader) {
      std::vector<uint32_t> list;
      for (const Term& argument : reader.arguments)
        list.push_back(argument.tensor >= 0 ? static_cast<uint32_t>(argument.tensor) : unnamed++);
      return list;
    };
    const std::vector<uint32_t> own = named(term), of_producer = named(*producer);
    const SpecStore::Made* made = store.compose(term.spec, static_cast<int>(inner - term.arguments.begin()),
                                                producer->spec, own, of_producer);
    if (made == nullptr) return std::nullopt;
    Term composed{.spec = made->spec, .arguments = {}};
    for (const SpecStore::From& from : made->slots)
      composed.arguments.push_back(
          (from.producer ? *producer : term).arguments[static_cast<size_t>(from.slot)]);
    term = std::move(composed);
  }
}

/// Runs claims and asks the user's nodes.
class ClaimCheck {
 public:
  ClaimCheck(const Graph& graph, const FrontEnd& front_end, const BackEnd& target,
             const codegen::Bucket& bucket, bool strict)
      : graph_(graph), front_end_(front_end), target_(target), bucket_(bucket), strict_(strict) {}

  /// By claim; what cannot be run counts as right.
  [[nodiscard]] std::vector<bool> wrong(std::span<const Claim> claims) const {
    std::vector<KernelRequest> requests;
    std::vector<Subject> subjects;
    std::vector<size_t> which;
    std::unique_lock<std::mutex> lock = lock_specs();
    for (size_t i = 0; i < claims.size(); ++i) {
      const std::optional<Term> kernel = as_one_kernel(runnable(claims[i].kernel), *front_end_.store);
      if (!kernel) continue;
      const kernel::KernelSpec& spec = front_end_.store->at(kernel->spec);
      requests.push_back(
          {.spec = spec,
           .implementation = best_by_model(spec, restricted(bucket_, spec), target_.backend->target()),
           .bucket = bucket_});
      subjects.push_back({.graph = &graph_,
                          .unit = unit_of(claims[i].tensor, *kernel),
                          .sizes = {bucket_.top()},
                          .options = {.strict = strict_, .consistent = true}});
      which.push_back(i);
    }
    lock.unlock();
    const auto kernels = KernelCache::of_process().make(*target_.backend, Cache::of_process(), requests);
    std::vector<FullCheck> checks;
    std::vector<size_t> checked;
    for (size_t k = 0; k < kernels.size(); ++k) {
      if (!kernels[k].kernel) continue;
      checks.push_back(
          {.subject = &subjects[k], .candidate = kernels[k].kernel.get(), .options = {.launches = 0}});
      checked.push_back(which[k]);
    }
    std::vector<bool> is_wrong(claims.size(), false);
    if (checks.empty()) return is_wrong;
    const std::vector<FullVerdict> verdicts = verify_in_full(checks, Team::shared().size());
    for (size_t k = 0; k < checks.size(); ++k) is_wrong[checked[k]] = verdicts[k].fault.has_value();
    return is_wrong;
  }

 private:
  /// Two tensors that are said to be the same: a copy.
  [[nodiscard]] Term runnable(const Term& term) const {
    if (term.tensor < 0) return term;
    const TensorType& type = front_end_.kernel_graph.tensors[static_cast<size_t>(term.tensor)].type;
    return {.spec = front_end_.store->intern(copy_spec(ShapeTracker::contiguous(type.dims), type.dtype)),
            .arguments = {term}};
  }
  [[nodiscard]] Unit unit_of(TensorId result, const Term& kernel) const {
    Unit unit{.tensors = {}, .kernels = {{}}};
    const auto add = [&](TensorId id, std::vector<int>& list) {
      const luminal::Value value = *front_end_.kernel_graph.tensors[static_cast<size_t>(id)].value;
      list.push_back(static_cast<int>(unit.tensors.size()));
      unit.tensors.push_back({graph_.type(value), value, {}});
    };
    for (const Term& argument : kernel.arguments) add(argument.tensor, unit.kernels[0].inputs);
    add(result, unit.kernels[0].outputs);
    return unit;
  }

  const Graph& graph_;
  const FrontEnd& front_end_;
  const BackEnd& target_;
  const codegen::Bucket& bucket_;
  bool strict_;
};

/// Laws in use, those of the program's own first.
std::vector<std::string> laws_in_use(const SearchOptions& options) {
  std::vector<std::string> own, ours;
  for (const RuleText& rule : rules_for(options)) {
    const bool is_ours = std::ranges::find(rule_texts(), rule.name, &RuleText::name) != rule_texts().end();
    (is_ours ? ours : own).push_back(rule.name);
  }
  own.insert(own.end(), ours.begin(), ours.end());
  return own;
}

SearchOptions without(const SearchOptions& options, const std::string& law) {
  SearchOptions fewer = options;
  fewer.rules_off.insert(law);
  return fewer;
}

std::string described(const Graph& graph, const luminal::Value& value) {
  const Node& node = graph.node(value.node);
  return graph.type(value).to_string() + (node.origin ? fmt::format(" ({})", node.origin->to_string()) : "");
}

}  // namespace

Blame find_wrong_laws(const Graph& graph, bool everything, const SearchOptions& options,
                      const FrontEnd& front_end, std::span<const int> classes, const BackEnd& target,
                      const codegen::Bucket& bucket) {
  const std::vector<Claim> claims = Claims(front_end).of({classes.begin(), classes.end()});
  const std::vector<bool> wrong =
      ClaimCheck(graph, front_end, target, bucket, options.math == MathMode::Strict).wrong(claims);
  const auto all_wrong = std::ranges::count(wrong, true);
  Blame blame;
  if (all_wrong > 0) {
    const auto first = static_cast<size_t>(std::ranges::find(wrong, true) - wrong.begin());
    const TensorId tensor = claims[first].tensor;
    blame.value = described(graph, *front_end.kernel_graph.tensors[static_cast<size_t>(tensor)].value);
  }
  std::optional<std::pair<int64_t, std::string>> best;  // right claims that are lost with a law
  std::vector<std::string> own, ours;                   // laws with which any claim is lost
  for (const std::string& law : laws_in_use(options)) {
    if (std::ranges::find(front_end.rules, law, &CompileReport::Rule::name) == front_end.rules.end())
      continue;
    const FrontEnd fewer = run_front_end(graph, everything, without(options, law));
    const Claims left(fewer);
    int64_t lost_wrong = 0, lost_right = 0;
    for (size_t i = 0; i < claims.size(); ++i)
      if (!left.has(claims[i])) ++(wrong[i] ? lost_wrong : lost_right);
    if (lost_wrong + lost_right == 0) continue;
    (std::ranges::find(rule_texts(), law, &RuleText::name) != rule_texts().end() ? ours : own).push_back(law);
    if (all_wrong > 0 && lost_wrong == all_wrong && (!best || lost_right < best->first))
      best.emplace(lost_right, law);
  }
  if (best)
    blame.laws = {best->second};
  else
    blame.laws = !own.empty() ? own : ours;
  if (blame.laws.empty())
    for (const CompileReport::Rule& rule : front_end.rules) blame.laws.push_back(rule.name);
  return blame;
}

Blame find_impossible_laws(const Graph& graph, bool everything, const SearchOptions& options) {
  const auto is_possible = [&](const SearchOptions& fewer) {
    try {
      (void)run_front_end(graph, everything, fewer);
      return true;
    } catch (const LawFault&) {
      return false;
    }
  };
  const std::vector<std::string> laws = laws_in_use(options);
  for (const std::string& law : laws)
    if (is_possible(without(options, law))) return {{law}, ""};
  Blame blame;
  SearchOptions fewer = options;
  for (const std::string& law : laws) {
    blame.laws.push_back(law);
    fewer.rules_off.insert(law);
    if (is_possible(fewer)) break;
  }
  return blame;
}

}  // namespace luminal::search
