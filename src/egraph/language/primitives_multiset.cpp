// Primitives on MultiSet. A multiset's sequence holds its distinct elements in content order, each with its
// count as an i64, so that work follows the distinct elements. The length of every multiset fits in an i64:
// what would be longer is undefined, like a sum of integers that overflows.
#include <algorithm>

#include "egraph/language/define.h"

namespace luminal::egraph::language {
namespace {

using Args = Library::Args;
using Result = std::optional<Value>;

struct Counted {
  Value element;
  int64_t count;
};

std::vector<Counted> counts_of(const Library& library, const SortInfo* c, Value multiset) {
  std::vector<Counted> out;
  const Args sequence = c->store->at(multiset);
  for (size_t i = 0; i < sequence.size(); i += 2)
    out.push_back({sequence[i], library.graph().as_i64(sequence[i + 1])});
  return out;
}

int64_t length(std::span<const Counted> counts) {
  int64_t total = 0;
  for (const Counted& entry : counts) total += entry.count;
  return total;
}

int64_t count_in(const Library& library, const SortInfo* c, Value multiset, Value element) {
  const Args sequence = c->store->at(multiset);
  for (size_t i = 0; i < sequence.size(); i += 2)
    if (sequence[i] == element) return library.graph().as_i64(sequence[i + 1]);
  return 0;
}

/// The multiset of these elements, which may repeat; undefined if it is longer than an i64 tells.
Result made(Library& library, const SortInfo* c, std::span<const Counted> counts) {
  std::vector<Value> sequence;
  int64_t total = 0;
  library.check_room(c, 2 * counts.size());
  for (const Counted& entry : counts) {
    if (__builtin_add_overflow(total, entry.count, &total)) return {};
    if (entry.count > 0) sequence.insert(sequence.end(), {entry.element, library.graph().i64(entry.count)});
  }
  return library.intern(c, std::move(sequence));
}

std::unordered_map<Value, int64_t> by_element(std::span<const Counted> counts) {
  std::unordered_map<Value, int64_t> out;
  for (const Counted& entry : counts) out.emplace(entry.element, entry.count);
  return out;
}

/// `from` less the elements of `less`; undefined if some are missing.
Result subtract(Library& library, const SortInfo* c, Value from, std::span<const Counted> less) {
  std::unordered_map<Value, int64_t> missing = by_element(less);
  std::vector<Counted> left = counts_of(library, c, from);
  for (Counted& entry : left) {
    const auto found = missing.find(entry.element);
    if (found == missing.end()) continue;
    if (found->second > entry.count) return {};
    entry.count -= found->second;
    missing.erase(found);
  }
  return missing.empty() ? made(library, c, left) : std::nullopt;
}

/// Appends each entry of `counts` `times` times; false if a count would not fit in an i64.
bool append(const Library& library, const SortInfo* c, std::vector<Counted>& out,
            std::span<const Counted> counts, int64_t times) {
  constexpr size_t kValues = sizeof(Counted) / sizeof(Value);
  library.poll();
  library.check_room(c, kValues * (out.size() + counts.size()));
  for (const Counted& entry : counts) {
    int64_t count = 0;
    if (__builtin_mul_overflow(entry.count, times, &count)) return false;
    out.push_back({entry.element, count});
  }
  return true;
}

}  // namespace

void Library::install_multiset_basics(Scope& scope, const SortInfo* c) {
  const SortInfo* e = c->inner[0];
  const auto subtracted = [this, c](Value from, Value less) {
    return subtract(*this, c, from, counts_of(*this, c, less));
  };
  const auto without = [this, c](Value from, Value element) {
    const Counted one{element, 1};
    return subtract(*this, c, from, {&one, 1});
  };
  const auto count = [this, c](Value multiset, Value element) {
    return count_in(*this, c, multiset, element);
  };
  add(scope, "multiset-remove", {c, e}, c, [without](Args args) { return without(args[0], args[1]); });
  add(scope, "multiset-remove-swapped", {e, c}, c,
      [without](Args args) { return without(args[1], args[0]); });
  add(scope, "multiset-subtract", {c, c}, c,
      [subtracted](Args args) { return subtracted(args[0], args[1]); });
  add(scope, "multiset-subtract-swapped", {c, c}, c,
      [subtracted](Args args) { return subtracted(args[1], args[0]); });
  add(scope, "multiset-contains", {c, e}, unit,
      [count](Args args) { return unit_if(count(args[0], args[1]) > 0); });
  add(scope, "multiset-not-contains", {c, e}, unit,
      [count](Args args) { return unit_if(count(args[0], args[1]) == 0); });
  add(scope, "multiset-contains-swapped", {e, c}, unit,
      [count](Args args) { return unit_if(count(args[1], args[0]) > 0); });
  add(scope, "multiset-not-contains-swapped", {e, c}, unit,
      [count](Args args) { return unit_if(count(args[1], args[0]) == 0); });
  add(scope, "multiset-length", {c}, i64,
      [this, c](Args args) -> Result { return graph_.i64(length(counts_of(*this, c, args[0]))); });
  add(scope, "multiset-count", {c, e}, i64,
      [this, count](Args args) -> Result { return graph_.i64(count(args[0], args[1])); });
  add(scope, "multiset-sum", {c, c}, c, [this, c](Args args) -> Result {
    std::vector<Counted> out = counts_of(*this, c, args[0]);
    append(*this, c, out, counts_of(*this, c, args[1]), 1);
    return made(*this, c, out);
  });
  add(scope, "multiset-intersection", {c, c}, c, [this, c](Args args) -> Result {
    const std::unordered_map<Value, int64_t> other = by_element(counts_of(*this, c, args[1]));
    std::vector<Counted> out = counts_of(*this, c, args[0]);
    for (Counted& entry : out) {
      const auto found = other.find(entry.element);
      entry.count = found == other.end() ? 0 : std::min(entry.count, found->second);
    }
    return made(*this, c, out);
  });
  add(scope, "multiset-reset-counts", {c}, c, [this, c](Args args) -> Result {
    std::vector<Counted> out = counts_of(*this, c, args[0]);
    for (Counted& entry : out) entry.count = 1;
    return made(*this, c, out);
  });
  add(scope, "multiset-pick", {c}, e, [c](Args args) -> Result {
    const Args sequence = c->store->at(args[0]);
    return sequence.empty() ? std::nullopt : Result(sequence[0]);
  });
  add(scope, "multiset-pick-max", {c}, e, [this, c](Args args) -> Result {
    Counted best{0, 0};  // of equally frequent ones the last
    for (const Counted& entry : counts_of(*this, c, args[0]))
      if (entry.count >= best.count) best = entry;
    return best.count == 0 ? std::nullopt : Result(best.element);
  });
}

void Library::install_multiset(Scope& scope, const SortInfo* c) {
  const SortInfo* e = c->inner[0];
  Overload of;
  of.name = symbol("multiset-of");
  of.shape = Overload::Shape::Variadic;
  of.inputs = {e};
  of.output = c;
  add_overload(scope, std::move(of), [this, c](Args args) -> Result {
    std::vector<Counted> out;
    for (const Value v : args) out.push_back({v, 1});
    return made(*this, c, out);
  });
  add(scope, "multiset-single", {e, i64}, c, [this, c](Args args) -> Result {
    const Counted all{args[0], graph_.as_i64(args[1])};
    return all.count < 0 ? std::nullopt : made(*this, c, {&all, 1});
  });
  add(scope, "multiset-insert", {c, e}, c, [this, c](Args args) -> Result {
    std::vector<Counted> out = counts_of(*this, c, args[0]);
    out.push_back({args[1], 1});
    return made(*this, c, out);
  });
  install_multiset_basics(scope, c);
  if (e->presort == SortInfo::Presort::MultiSet) {
    add(scope, "multiset-sum-multisets", {c}, e, [this, c, e](Args args) -> Result {
      std::vector<Counted> out;
      for (const auto& [inner, count] : counts_of(*this, c, args[0]))
        if (!append(*this, e, out, counts_of(*this, e, inner), count)) return {};
      return made(*this, e, out);
    });
  }
  for (const SortInfo* sort : std::vector<const SortInfo*>(scope.sort_order))
    if (sort->presort == SortInfo::Presort::Function) install_higher_order(scope, sort, c);
  if (e->is_eq()) {
    add_contextual(scope, "multiset-union-values", {c}, e, kWhereWriting,
                   [this, c](Context, Args args) -> Result {
                     const std::vector<Counted> elements = counts_of(*this, c, args[0]);
                     if (elements.empty()) return {};
                     for (const Counted& entry : elements) graph_.unite(elements[0].element, entry.element);
                     return elements[0].element;
                   });
  }
}

void Library::install_multiset_map(Scope& scope, const SortInfo* function, const SortInfo* from,
                                   const SortInfo* to) {
  add_contextual(scope, "unstable-multiset-map", {function, from}, to, kEverywhere,
                 [this, function, from, to](Context context, Args args) -> Result {
                   std::vector<Counted> out;
                   for (const auto& [v, count] : counts_of(*this, from, args[1]))
                     if (const Result mapped = apply(function, context, args[0], {&v, 1}))
                       out.push_back({*mapped, count});
                   return made(*this, to, out);
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
                       std::vector<Counted> out;
                       for (const auto& [v, count] : counts_of(*this, c, args[1]))
                         if (apply(f, context, args[0], {&v, 1}).has_value() == keep)
                           out.push_back({v, count});
                       return made(*this, c, out);
                     });
    }
  }
  if (unary && f->output() == c) {
    // Elements for which the function is undefined stay as they are.
    add_contextual(scope, "unstable-multiset-flat-map", {f, c}, c, kEverywhere,
                   [this, f, c](Context context, Args args) -> Result {
                     std::vector<Counted> out;
                     for (const auto& [v, count] : counts_of(*this, c, args[1])) {
                       const Result mapped = apply(f, context, args[0], {&v, 1});
                       if (!mapped)
                         out.push_back({v, count});
                       else if (!append(*this, c, out, counts_of(*this, c, *mapped), count))
                         return {};
                     }
                     return made(*this, c, out);
                   });
  }
  if (inputs.size() == 2 && inputs[0] == e && inputs[1] == e && f->output() == e) {
    add_contextual(scope, "unstable-multiset-reduce", {f, e, c}, e, kEverywhere,
                   [this, f, c](Context context, Args args) -> Result {
                     std::vector<Counted> elements = counts_of(*this, c, args[2]);
                     if (elements.empty()) return args[1];
                     Value total = elements[0].element;
                     elements[0].count--;
                     for (const auto& [v, count] : elements) {
                       for (int64_t i = 0; i < count; ++i) {
                         const Value pair[] = {total, v};
                         const Result next = apply(f, context, args[0], pair);
                         if (!next) return {};
                         if (*next == total) break;  // and so for the other occurrences
                         total = *next;
                       }
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
                   for (const auto& [v, count] : counts_of(*this, c, args[0])) {
                     const Value row[] = {args[0], v};
                     // One row there means that all are: merges such as (+ old new) must not count twice.
                     if (graph_.lookup(table->id, row)) break;
                     graph_.set(table->id, row, graph_.i64(count));
                   }
                   return kUnitValue;
                 });
  add_contextual(scope, "unstable-multiset-clear-index", {c, f}, unit, kWhereWriting,
                 [this, c, table_of](Context, Args args) -> Result {
                   const FunctionInfo* table = table_of(args[1]);
                   if (!table) return {};
                   for (const auto& [v, count] : counts_of(*this, c, args[0])) {
                     const Value row[] = {args[0], v};
                     graph_.remove(table->id, row);
                   }
                   return kUnitValue;
                 });
}

}  // namespace luminal::egraph::language
