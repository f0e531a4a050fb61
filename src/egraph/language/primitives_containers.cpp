// Primitives on Vec, Set, Map and Pair, and on function values.
#include <algorithm>

#include "egraph/language/define.h"

namespace luminal::egraph::language {
namespace {

using Args = Library::Args;
using Result = std::optional<Value>;
using Presort = SortInfo::Presort;

std::vector<Value> copy(Args sequence) { return {sequence.begin(), sequence.end()}; }

bool contains(Args sequence, Value v) {
  return std::find(sequence.begin(), sequence.end(), v) != sequence.end();
}

/// Shorthand for the many definitions on one container sort `c`.
struct Definer {
  Library& library;
  Scope& scope;
  const SortInfo* c;

  [[nodiscard]] Args at(Value v) const { return c->store->at(v); }
  void operator()(std::string_view name, std::vector<const SortInfo*> inputs, const SortInfo* output,
                  Library::Function call) const {
    library.add(scope, name, std::move(inputs), output, std::move(call));
  }
  void variadic(std::string_view name, const SortInfo* element, Library::Function call) const {
    Overload overload;
    overload.name = library.symbol(name);
    overload.shape = Overload::Shape::Variadic;
    overload.inputs = {element};
    overload.output = c;
    library.add_overload(scope, std::move(overload), std::move(call));
  }
};

// Position of the key in a map's sequence, or its end.
size_t find_key(Args map, Value key) {
  size_t i = 0;
  while (i < map.size() && map[i] != key) i += 2;
  return i;
}

}  // namespace

void Library::install_vec(Scope& scope, const SortInfo* c) {
  const SortInfo* e = c->inner[0];
  const Definer def{*this, scope, c};
  def("vec-empty", {}, c, [this, c](Args) -> Result { return intern(c, {}); });
  def.variadic("vec-of", e, [this, c](Args args) -> Result { return intern(c, copy(args)); });
  def.variadic("vec-append", c, [this, c](Args args) -> Result {
    size_t size = 0;
    for (const Value v : args) size += c->store->at(v).size();
    check_room(c, size);
    std::vector<Value> out;
    out.reserve(size);
    for (const Value v : args) out.insert(out.end(), c->store->at(v).begin(), c->store->at(v).end());
    return intern(c, std::move(out));
  });
  def("vec-push", {c, e}, c, [this, c](Args args) -> Result {
    std::vector<Value> out = copy(c->store->at(args[0]));
    out.push_back(args[1]);
    return intern(c, std::move(out));
  });
  def("vec-pop", {c}, c, [this, c](Args args) -> Result {
    std::vector<Value> out = copy(c->store->at(args[0]));
    if (!out.empty()) out.pop_back();
    return intern(c, std::move(out));
  });
  def("vec-length", {c}, i64, [this, c](Args args) -> Result {
    return graph_.i64(static_cast<int64_t>(c->store->at(args[0]).size()));
  });
  def("vec-contains", {c, e}, unit,
      [c](Args args) { return unit_if(contains(c->store->at(args[0]), args[1])); });
  def("vec-not-contains", {c, e}, unit,
      [c](Args args) { return unit_if(!contains(c->store->at(args[0]), args[1])); });
  const auto index = [this, c](Args args) -> std::optional<size_t> {
    const int64_t i = graph_.as_i64(args[1]);
    if (i < 0 || static_cast<size_t>(i) >= c->store->at(args[0]).size()) return {};
    return static_cast<size_t>(i);
  };
  def("vec-get", {c, i64}, e, [c, index](Args args) -> Result {
    const auto i = index(args);
    return i ? Result(c->store->at(args[0])[*i]) : std::nullopt;
  });
  def("vec-set", {c, i64, e}, c, [this, c, index](Args args) -> Result {
    const auto i = index(args);
    if (!i) return {};
    std::vector<Value> out = copy(c->store->at(args[0]));
    out[*i] = args[2];
    return intern(c, std::move(out));
  });
  def("vec-remove", {c, i64}, c, [this, c, index](Args args) -> Result {
    const auto i = index(args);
    if (!i) return {};
    std::vector<Value> out = copy(c->store->at(args[0]));
    out.erase(out.begin() + static_cast<ptrdiff_t>(*i));
    return intern(c, std::move(out));
  });
  if (e == i64) {
    constexpr int64_t kLongest = int64_t{1} << 28;
    def("vec-range", {i64}, c, [this, c](Args args) -> Result {
      const int64_t end = std::max<int64_t>(graph_.as_i64(args[0]), 0);
      if (end > kLongest) return {};
      check_room(c, static_cast<size_t>(end));
      std::vector<Value> out;
      out.reserve(static_cast<size_t>(end));
      for (int64_t i = 0; i < end; ++i) {
        poll();
        out.push_back(graph_.i64(i));
      }
      return intern(c, std::move(out));
    });
  }
  if (e->is_eq()) {
    add_contextual(scope, "vec-union", {c, c}, c, kWhereWriting, [this, c](Context, Args args) -> Result {
      const std::vector<Value> left = copy(c->store->at(args[0])), right = copy(c->store->at(args[1]));
      if (left.size() != right.size()) return {};
      for (size_t i = 0; i < left.size(); ++i) graph_.unite(left[i], right[i]);
      return args[0];
    });
  }
  for (const SortInfo* sort : scope.sort_order)
    if (sort->presort == Presort::Function) install_higher_order(scope, sort, c);
}

void Library::install_set(Scope& scope, const SortInfo* c) {
  const SortInfo* e = c->inner[0];
  const Definer def{*this, scope, c};
  def("set-empty", {}, c, [this, c](Args) -> Result { return intern(c, {}); });
  def.variadic("set-of", e, [this, c](Args args) -> Result { return intern(c, copy(args)); });
  def("set-get", {c, i64}, e, [this, c](Args args) -> Result {
    const int64_t i = graph_.as_i64(args[1]);
    const Args set = c->store->at(args[0]);
    if (i < 0 || static_cast<size_t>(i) >= set.size()) return {};
    return set[static_cast<size_t>(i)];
  });
  def("set-insert", {c, e}, c, [this, c](Args args) -> Result {
    std::vector<Value> out = copy(c->store->at(args[0]));
    out.push_back(args[1]);
    return intern(c, std::move(out));
  });
  def("set-remove", {c, e}, c, [this, c](Args args) -> Result {
    std::vector<Value> out = copy(c->store->at(args[0]));
    std::erase(out, args[1]);
    return intern(c, std::move(out));
  });
  def("set-length", {c}, i64, [this, c](Args args) -> Result {
    return graph_.i64(static_cast<int64_t>(c->store->at(args[0]).size()));
  });
  def("set-contains", {c, e}, unit,
      [c](Args args) { return unit_if(contains(c->store->at(args[0]), args[1])); });
  def("set-not-contains", {c, e}, unit,
      [c](Args args) { return unit_if(!contains(c->store->at(args[0]), args[1])); });
  def("set-union", {c, c}, c, [this, c](Args args) -> Result {
    std::vector<Value> out = copy(c->store->at(args[0]));
    const Args more = c->store->at(args[1]);
    check_room(c, out.size() + more.size());
    out.insert(out.end(), more.begin(), more.end());
    return intern(c, std::move(out));
  });
  const auto filtered = [this, c](Args args, bool keep) -> Result {
    std::vector<Value> out = copy(c->store->at(args[0]));
    const Args other = c->store->at(args[1]);
    std::erase_if(out, [&](Value v) {
      poll();
      return contains(other, v) != keep;
    });
    return intern(c, std::move(out));
  };
  def("set-diff", {c, c}, c, [filtered](Args args) { return filtered(args, false); });
  def("set-intersect", {c, c}, c, [filtered](Args args) { return filtered(args, true); });
}

void Library::install_map(Scope& scope, const SortInfo* c) {
  const SortInfo *k = c->inner[0], *v = c->inner[1];
  const Definer def{*this, scope, c};
  def("map-empty", {}, c, [this, c](Args) -> Result { return intern(c, {}); });
  Overload of;
  of.name = symbol("map-of");
  of.shape = Overload::Shape::Alternating;
  of.inputs = {k, v};
  of.output = c;
  add_overload(scope, std::move(of), [this, c](Args args) -> Result { return intern(c, copy(args)); });
  def("map-get", {c, k}, v, [c](Args args) -> Result {
    const Args map = c->store->at(args[0]);
    const size_t i = find_key(map, args[1]);
    return i < map.size() ? Result(map[i + 1]) : std::nullopt;
  });
  def("map-insert", {c, k, v}, c, [this, c](Args args) -> Result {
    std::vector<Value> out = copy(c->store->at(args[0]));
    out.push_back(args[1]);
    out.push_back(args[2]);
    return intern(c, std::move(out));
  });
  def("map-remove", {c, k}, c, [this, c](Args args) -> Result {
    std::vector<Value> out = copy(c->store->at(args[0]));
    const size_t i = find_key(out, args[1]);
    if (i < out.size())
      out.erase(out.begin() + static_cast<ptrdiff_t>(i), out.begin() + static_cast<ptrdiff_t>(i) + 2);
    return intern(c, std::move(out));
  });
  def("map-length", {c}, i64, [this, c](Args args) -> Result {
    return graph_.i64(static_cast<int64_t>(c->store->at(args[0]).size() / 2));
  });
  const auto has = [c](Args args) {
    return find_key(c->store->at(args[0]), args[1]) < c->store->at(args[0]).size();
  };
  def("map-contains", {c, k}, unit, [has](Args args) { return unit_if(has(args)); });
  def("map-not-contains", {c, k}, unit, [has](Args args) { return unit_if(!has(args)); });
}

void Library::install_pair(Scope& scope, const SortInfo* c) {
  const Definer def{*this, scope, c};
  def("pair", {c->inner[0], c->inner[1]}, c,
      [this, c](Args args) -> Result { return intern(c, copy(args)); });
  def("pair-first", {c}, c->inner[0], [c](Args args) -> Result { return c->store->at(args[0])[0]; });
  def("pair-second", {c}, c->inner[1], [c](Args args) -> Result { return c->store->at(args[0])[1]; });
}

// -- Function values

void Library::install_function_sort(Scope& scope, const SortInfo* c) {
  Overload maker;
  maker.name = symbol("unstable-fn");
  maker.shape = Overload::Shape::FunctionMaker;
  maker.inputs = {string};
  maker.output = c;
  add_overload(scope, std::move(maker), [this, c](Args args) -> Result {
    std::vector<Value> sequence = copy(args);
    sequence[0] = static_cast<Value>(graph_.as_i64(args[0]));
    return intern(c, std::move(sequence));
  });
  std::vector<const SortInfo*> inputs{c};
  inputs.insert(inputs.end(), c->inputs().begin(), c->inputs().end());
  add_contextual(
      scope, "unstable-app", std::move(inputs), c->output(), kEverywhere,
      [this, c](Context context, Args args) { return apply(c, context, args[0], args.subspan(1)); });
  const std::vector<const SortInfo*> sorts = scope.sort_order;
  for (const SortInfo* sort : sorts)
    if (sort->presort == Presort::Vec || sort->presort == Presort::MultiSet)
      install_higher_order(scope, c, sort);
}

// Called for each pair of a function sort and a container sort, when the later of the two is declared.
void Library::install_higher_order(Scope& scope, const SortInfo* function, const SortInfo* container) {
  const auto install_map_between = [&](const SortInfo* from, const SortInfo* to) {
    const auto inputs = function->inputs();
    if (inputs.size() != 1 || inputs[0] != from->inner[0] || function->output() != to->inner[0]) return;
    if (from->presort == Presort::Vec)
      install_vec_map(scope, function, from, to);
    else
      install_multiset_map(scope, function, from, to);
  };
  const std::vector<const SortInfo*> sorts = scope.sort_order;
  for (const SortInfo* other : sorts) {
    if (other->presort != container->presort) continue;
    // A function sort that is declared last meets each container once; the pairs (container, other) with
    // both orders then come up when `other` is the container.
    const bool function_is_last = sorts.back() == function;
    install_map_between(container, other);
    if (other != container && !function_is_last) install_map_between(other, container);
  }
  if (container->presort == Presort::MultiSet) install_multiset_higher_order(scope, function, container);
}

void Library::install_vec_map(Scope& scope, const SortInfo* function, const SortInfo* from,
                              const SortInfo* to) {
  add_contextual(scope, "unstable-vec-map", {function, from}, to, kEverywhere,
                 [this, function, from, to](Context context, Args args) -> Result {
                   const std::vector<Value> elements = copy(from->store->at(args[1]));
                   std::vector<Value> out;
                   for (const Value v : elements)
                     if (const Result mapped = apply(function, context, args[0], {&v, 1}))
                       out.push_back(*mapped);
                   return intern(to, std::move(out));
                 });
}

}  // namespace luminal::egraph::language
