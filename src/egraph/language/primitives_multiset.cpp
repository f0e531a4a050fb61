// Primitives on MultiSet. A multiset's sequence holds its elements in content order, with repeats.
#include <algorithm>

#include "egraph/language/define.h"

namespace luminal::egraph::language {
namespace {

using Args = Library::Args;
using Result = std::optional<Value>;
using Presort = SortInfo::Presort;

std::vector<Value> copy(Args sequence) { return {sequence.begin(), sequence.end()}; }
Result unit_if(bool condition) { return condition ? Result(kUnitValue) : std::nullopt; }
bool contains(Args sequence, Value v) {
  return std::find(sequence.begin(), sequence.end(), v) != sequence.end();
}

constexpr int64_t kMostElements = int64_t{1} << 28;

/// Elements with their counts, in order.
std::vector<std::pair<Value, size_t>> counts(Args sequence) {
  std::vector<std::pair<Value, size_t>> out;
  for (const Value v : sequence) {
    if (!out.empty() && out.back().first == v)
      ++out.back().second;
    else
      out.emplace_back(v, 1);
  }
  return out;
}

size_t count_of(Args sequence, Value v) {
  return static_cast<size_t>(std::count(sequence.begin(), sequence.end(), v));
}

// `from` less the elements of `less`; nullopt if some are missing.
std::optional<std::vector<Value>> subtract(Args from, Args less) {
  for (const auto& [v, count] : counts(less))
    if (count_of(from, v) < count) return {};
  std::vector<Value> out = copy(from);
  for (const Value v : less) out.erase(std::find(out.begin(), out.end(), v));
  return out;
}

}  // namespace

void Library::install_multiset_basics(Scope& scope, const SortInfo* c) {
  const SortInfo* e = c->inner[0];
  const auto at = [c](Value v) { return c->store->at(v); };
  const auto subtracted = [this, c, at](Value from, Value less) -> Result {
    auto out = subtract(at(from), at(less));
    return out ? Result(intern(c, std::move(*out))) : std::nullopt;
  };
  const auto without = [this, c, at](Value from, Value element) -> Result {
    auto out = subtract(at(from), {&element, 1});
    return out ? Result(intern(c, std::move(*out))) : std::nullopt;
  };
  add(scope, "multiset-remove", {c, e}, c, [without](Args args) { return without(args[0], args[1]); });
  add(scope, "multiset-remove-swapped", {e, c}, c,
      [without](Args args) { return without(args[1], args[0]); });
  add(scope, "multiset-subtract", {c, c}, c,
      [subtracted](Args args) { return subtracted(args[0], args[1]); });
  add(scope, "multiset-subtract-swapped", {c, c}, c,
      [subtracted](Args args) { return subtracted(args[1], args[0]); });
  add(scope, "multiset-contains", {c, e}, unit,
      [at](Args args) { return unit_if(contains(at(args[0]), args[1])); });
  add(scope, "multiset-not-contains", {c, e}, unit,
      [at](Args args) { return unit_if(!contains(at(args[0]), args[1])); });
  add(scope, "multiset-contains-swapped", {e, c}, unit,
      [at](Args args) { return unit_if(contains(at(args[1]), args[0])); });
  add(scope, "multiset-not-contains-swapped", {e, c}, unit,
      [at](Args args) { return unit_if(!contains(at(args[1]), args[0])); });
  add(scope, "multiset-length", {c}, i64,
      [this, at](Args args) -> Result { return graph_.i64(static_cast<int64_t>(at(args[0]).size())); });
  add(scope, "multiset-count", {c, e}, i64, [this, at](Args args) -> Result {
    return graph_.i64(static_cast<int64_t>(count_of(at(args[0]), args[1])));
  });
  add(scope, "multiset-sum", {c, c}, c, [this, c, at](Args args) -> Result {
    std::vector<Value> out = copy(at(args[0]));
    out.insert(out.end(), at(args[1]).begin(), at(args[1]).end());
    return intern(c, std::move(out));
  });
  add(scope, "multiset-intersection", {c, c}, c, [this, c, at](Args args) -> Result {
    std::vector<Value> out;
    for (const auto& [v, count] : counts(at(args[0])))
      out.insert(out.end(), std::min(count, count_of(at(args[1]), v)), v);
    return intern(c, std::move(out));
  });
  add(scope, "multiset-reset-counts", {c}, c, [this, c, at](Args args) -> Result {
    std::vector<Value> out;
    for (const auto& [v, count] : counts(at(args[0]))) out.push_back(v);
    return intern(c, std::move(out));
  });
  add(scope, "multiset-pick", {c}, e,
      [at](Args args) -> Result { return at(args[0]).empty() ? std::nullopt : Result(at(args[0])[0]); });
  add(scope, "multiset-pick-max", {c}, e, [at](Args args) -> Result {
    std::pair<Value, size_t> best{0, 0};  // of equally frequent ones the last
    for (const auto& entry : counts(at(args[0])))
      if (entry.second >= best.second) best = entry;
    return best.second == 0 ? std::nullopt : Result(best.first);
  });
}

void Library::install_multiset(Scope& scope, const SortInfo* c) {
  const SortInfo* e = c->inner[0];
  Overload of;
  of.name = symbol("multiset-of");
  of.shape = Overload::Shape::Variadic;
  of.inputs = {e};
  of.output = c;
  add_overload(scope, std::move(of), [this, c](Args args) -> Result { return intern(c, copy(args)); });
  add(scope, "multiset-single", {e, i64}, c, [this, c](Args args) -> Result {
    const int64_t count = graph_.as_i64(args[1]);
    if (count < 0 || count > kMostElements) return {};
    return intern(c, std::vector<Value>(static_cast<size_t>(count), args[0]));
  });
  add(scope, "multiset-insert", {c, e}, c, [this, c](Args args) -> Result {
    std::vector<Value> out = copy(c->store->at(args[0]));
    out.push_back(args[1]);
    return intern(c, std::move(out));
  });
  install_multiset_basics(scope, c);
  if (e->presort == Presort::MultiSet) {
    add(scope, "multiset-sum-multisets", {c}, e, [this, c, e](Args args) -> Result {
      std::vector<Value> out;
      for (const Value inner : c->store->at(args[0])) {
        const Args more = e->store->at(inner);
        out.insert(out.end(), more.begin(), more.end());
      }
      return intern(e, std::move(out));
    });
  }
  for (const SortInfo* sort : std::vector<const SortInfo*>(scope.sort_order))
    if (sort->presort == Presort::Function) install_higher_order(scope, sort, c);
  if (e->is_eq()) {
    add_contextual(scope, "multiset-union-values", {c}, e, kWhereWriting,
                   [this, c](Context, Args args) -> Result {
                     const std::vector<Value> elements = copy(c->store->at(args[0]));
                     if (elements.empty()) return {};
                     for (const Value v : elements) graph_.unite(elements[0], v);
                     return elements[0];
                   });
  }
}

void Library::install_multiset_map(Scope& scope, const SortInfo* function, const SortInfo* from,
                                   const SortInfo* to) {
  add_contextual(scope, "unstable-multiset-map", {function, from}, to, kEverywhere,
                 [this, function, from, to](Context context, Args args) -> Result {
                   std::vector<Value> out;
                   for (const auto& [v, count] : counts(copy(from->store->at(args[1]))))
                     if (const Result mapped = apply(function, context, args[0], {&v, 1}))
                       out.insert(out.end(), count, *mapped);
                   return intern(to, std::move(out));
                 });
}

void Library::install_multiset_higher_order(Scope& scope, const SortInfo* f, const SortInfo* c) {
  const SortInfo* e = c->inner[0];
  const auto inputs = f->inputs();
  const bool unary = inputs.size() == 1 && inputs[0] == e;
  if (unary && f->output() == unit) {
    for (const bool keep : {true, false}) {
      add_contextual(scope, keep ? "unstable-multiset-filter" : "unstable-multiset-filter-not", {f, c}, c,
                     kEverywhere, [this, f, c, keep](Context context, Args args) -> Result {
                       std::vector<Value> out;
                       for (const auto& [v, count] : counts(copy(c->store->at(args[1]))))
                         if (apply(f, context, args[0], {&v, 1}).has_value() == keep)
                           out.insert(out.end(), count, v);
                       return intern(c, std::move(out));
                     });
    }
  }
  if (unary && f->output() == c) {
    // Elements for which the function is undefined stay as they are.
    add_contextual(scope, "unstable-multiset-flat-map", {f, c}, c, kEverywhere,
                   [this, f, c](Context context, Args args) -> Result {
                     std::vector<Value> out;
                     for (const auto& [v, count] : counts(copy(c->store->at(args[1])))) {
                       const Result mapped = apply(f, context, args[0], {&v, 1});
                       const std::vector<Value> parts =
                           mapped ? copy(c->store->at(*mapped)) : std::vector<Value>{v};
                       for (size_t i = 0; i < count; ++i) out.insert(out.end(), parts.begin(), parts.end());
                     }
                     return intern(c, std::move(out));
                   });
  }
  if (inputs.size() == 2 && inputs[0] == e && inputs[1] == e && f->output() == e) {
    add_contextual(scope, "unstable-multiset-reduce", {f, e, c}, e, kEverywhere,
                   [this, f, c](Context context, Args args) -> Result {
                     const std::vector<Value> elements = copy(c->store->at(args[2]));
                     Result total = elements.empty() ? args[1] : elements[0];
                     for (size_t i = 1; total && i < elements.size(); ++i) {
                       const Value pair[] = {*total, elements[i]};
                       total = apply(f, context, args[0], pair);
                     }
                     return total;
                   });
  }
  if (inputs.size() == 2 && inputs[0] == c && inputs[1] == e && f->output() == i64)
    install_multiset_index(scope, f, c);
}

// An index function holds, for a multiset and an element, how often it occurs there.
void Library::install_multiset_index(Scope& scope, const SortInfo* f, const SortInfo* c) {
  const auto table_of = [this, f](Value function) {
    return target_info(f->store->at(function)[0]).target.function;
  };
  add_contextual(scope, "unstable-multiset-fill-index", {c, f}, unit, kOnlyFull,
                 [this, c, table_of](Context, Args args) -> Result {
                   const FunctionInfo* table = table_of(args[1]);
                   if (!table) return {};
                   for (const auto& [v, count] : counts(copy(c->store->at(args[0])))) {
                     const Value row[] = {args[0], v};
                     // One row there means that all are: merges such as (+ old new) must not count twice.
                     if (graph_.lookup(table->id, row)) break;
                     graph_.set(table->id, row, graph_.i64(static_cast<int64_t>(count)));
                   }
                   return kUnitValue;
                 });
  add_contextual(scope, "unstable-multiset-clear-index", {c, f}, unit, kWhereWriting,
                 [this, c, table_of](Context, Args args) -> Result {
                   const FunctionInfo* table = table_of(args[1]);
                   if (!table) return {};
                   for (const auto& [v, count] : counts(copy(c->store->at(args[0])))) {
                     const Value row[] = {args[0], v};
                     graph_.remove(table->id, row);
                   }
                   return kUnitValue;
                 });
}

}  // namespace luminal::egraph::language
