#include "egraph/language/library.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/fail.h"
#include "egraph/core/limits.h"

namespace luminal::egraph::language {
namespace {

using Presort = SortInfo::Presort;

struct PresortRow {
  std::string_view name;
  Presort presort;
  size_t sorts;
};
constexpr PresortRow kPresorts[] = {{"Vec", Presort::Vec, 1},   {"Set", Presort::Set, 1},
                                    {"Map", Presort::Map, 2},   {"MultiSet", Presort::MultiSet, 1},
                                    {"Pair", Presort::Pair, 2}, {"UnstableFn", Presort::Function, 2}};

std::string_view maker_of(Presort presort, bool empty) {
  switch (presort) {
    case Presort::Vec:
      return empty ? "vec-empty" : "vec-of";
    case Presort::Set:
      return "set-of";
    case Presort::Map:
      return "map-of";
    case Presort::MultiSet:
      return "multiset-of";
    case Presort::Pair:
      return "pair";
    case Presort::Function:
      return "unstable-fn";
    case Presort::None:
      break;
  }
  return "";
}

// Small numbers come first, the negative and the large ones after them: the order that programs see through
// set-get and the like, where integers are stored in place if they fit in 31 bits.
int compare_integers(int64_t a, int64_t b) {
  const auto is_small = [](int64_t x) { return x >= 0 && x < (int64_t{1} << 31); };
  return is_small(a) == is_small(b) ? three_way(a, b) : is_small(a) ? -1 : 1;
}

constexpr size_t kFewElements = 1024;  ///< for which nobody asks whether there is room

/// Primitives that give their arguments back where those are equal, on every sort that has them.
bool is_idempotent(std::string_view name) {
  constexpr std::string_view kNames[] = {"min",
                                         "max",
                                         "and",
                                         "or",
                                         "&",
                                         "|",
                                         "set-union",
                                         "set-intersect",
                                         "ordering-min",
                                         "ordering-max",
                                         "multiset-intersection"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

}  // namespace

Library::Library(EGraph& graph, SymbolTable& symbols) : graph_(graph), symbols_(symbols) {}

// -- Sorts

SortInfo* Library::new_sort(Scope& scope, SortInfo info) {
  SortInfo* sort = &sorts_.emplace_back(std::move(info));
  scope.sorts.emplace(sort->name, sort);
  scope.sort_order.push_back(sort);
  return sort;
}

const SortInfo* Library::add_base_sort(Scope& scope, std::string_view name, SortId id) {
  SortInfo info;
  info.name = symbol(name);
  info.id = id;
  info.kind = SortInfo::Kind::Base;
  return new_sort(scope, std::move(info));
}

const SortInfo* Library::add_interned_sort(Scope& scope, std::string_view name,
                                           std::function<std::string(Value)> print,
                                           std::function<int(Value, Value)> compare) {
  PrimitiveSort spec;
  spec.name = name;
  spec.print = [print = std::move(print)](Value v, std::span<const std::string>) { return print(v); };
  spec.compare = std::move(compare);
  const SortInfo* sort = add_base_sort(scope, name, graph_.primitive_sort(std::move(spec)));
  add_ordering(scope, sort);
  return sort;
}

const SortInfo* Library::add_host_sort(Scope& scope, std::string_view name, SortId id) {
  return add_base_sort(scope, name, id);
}

const SortInfo* Library::declare_sort(Scope& scope, Symbol name, Symbol union_table) {
  SortInfo info;
  info.name = name;
  info.union_table = union_table;
  info.id = graph_.eq_sort(name.text());
  const SortInfo* sort = new_sort(scope, std::move(info));
  add_ordering(scope, sort);
  return sort;
}

const SortInfo* Library::relation_sort(Symbol name) {
  SortInfo info;
  info.name = name;
  info.id = kUnit;
  info.unionable = false;
  return &sorts_.emplace_back(std::move(info));
}

void Library::add_ordering(Scope& scope, const SortInfo* sort) {
  add(scope, "ordering-min", {sort, sort}, sort, [this, sort](Args args) -> std::optional<Value> {
    return less(sort, args[0], args[1]) ? args[0] : args[1];
  });
  add(scope, "ordering-max", {sort, sort}, sort, [this, sort](Args args) -> std::optional<Value> {
    return less(sort, args[1], args[0]) ? args[0] : args[1];
  });
}

void Library::install(Scope& scope) {
  // The order of the engine's numbering of its own sorts.
  unit = add_base_sort(scope, "Unit", kUnit);
  boolean = add_base_sort(scope, "bool", kBool);
  i64 = add_base_sort(scope, "i64", kI64);
  f64 = add_base_sort(scope, "f64", kF64);
  string = add_base_sort(scope, "String", kString);
  for (const SortInfo* sort : {unit, boolean, i64, f64, string}) add_ordering(scope, sort);
  const auto quoted = [](const BigInt& x) { return "(from-string \"" + x.str() + "\")"; };
  big_int_sort = add_interned_sort(
      scope, "BigInt", [this, quoted](Value v) { return quoted(big_int(v)); },
      [this](Value a, Value b) { return three_way(big_int(a), big_int(b)); });
  big_rat_sort = add_interned_sort(
      scope, "BigRat",
      [this, quoted](Value v) {
        return "(bigrat " + quoted(big_rat(v).numerator) + " " + quoted(big_rat(v).denominator) + ")";
      },
      [this](Value a, Value b) { return language::compare(big_rat(a), big_rat(b)); });
  install_generic(scope);
  install_text_and_bool(scope);
  install_i64(scope);
  install_f64(scope);
  install_big_int(scope);
  install_big_rat(scope);
}

const SortInfo* Library::declare_container(Scope& scope, const SortSyntax& syntax, const ExprPool& exprs) {
  const auto* row = std::find_if(std::begin(kPresorts), std::end(kPresorts),
                                 [&](const PresortRow& r) { return r.name == syntax.presort.text(); });
  if (row == std::end(kPresorts))
    fail_at(syntax.span, "unknown container '{}' (known: Vec, Set, Map, MultiSet, Pair, UnstableFn)",
            syntax.presort.text());
  if (syntax.args.size() != row->sorts)
    fail_at(syntax.span, "{} takes {} sort{}, but {} given", row->name, row->sorts,
            row->sorts == 1 ? "" : "s", syntax.args.size());
  SortInfo info;
  info.name = syntax.name;
  info.kind = SortInfo::Kind::Container;
  info.presort = row->presort;
  info.store = std::make_shared<ContainerStore>();
  const auto add_inner = [&](Symbol name, const Span& span) {
    const SortInfo* sort = scope.find_sort(name);
    if (!sort) fail_at(span, "unknown sort '{}'{}", name.text(), scope.suggest_sort(name));
    info.inner.push_back(sort);
  };
  for (const ExprId arg : syntax.args) {
    const ExprNode& node = exprs[arg];
    const bool is_inputs = row->presort == Presort::Function && arg == syntax.args[0];
    if (is_inputs && node.kind == ExprNode::Kind::Call) {  // "(i64 String)" reads as a call of i64
      add_inner(node.name, node.span);
      for (const ExprId input : exprs.args_of(arg)) {
        if (exprs[input].kind != ExprNode::Kind::Variable)
          fail_at(exprs[input].span, "expected the name of a sort");
        add_inner(exprs[input].name, exprs[input].span);
      }
    } else if (is_inputs && node.kind == ExprNode::Kind::Constant &&
               std::holds_alternative<std::monostate>(exprs.literal_of(arg))) {
      continue;  // "()": no inputs
    } else if (!is_inputs && node.kind == ExprNode::Kind::Variable) {
      add_inner(node.name, node.span);
    } else {
      fail_at(node.span, "expected {}", is_inputs ? "the input sorts in parentheses" : "the name of a sort");
    }
  }
  SortInfo* sort = new_sort(scope, std::move(info));
  register_container(sort);
  add_ordering(scope, sort);
  switch (sort->presort) {
    case Presort::Vec:
      install_vec(scope, sort);
      break;
    case Presort::Set:
      install_set(scope, sort);
      break;
    case Presort::Map:
      install_map(scope, sort);
      break;
    case Presort::MultiSet:
      install_multiset(scope, sort);
      break;
    case Presort::Pair:
      install_pair(scope, sort);
      break;
    case Presort::Function:
      install_function_sort(scope, sort);
      break;
    case Presort::None:
      break;
  }
  return sort;
}

void Library::register_container(SortInfo* sort) {
  ContainerSort spec;
  spec.name = sort->name.text();
  spec.cost = 0;
  spec.print = [this, sort](Value v, std::span<const std::string> children) {
    return print(sort, v, children);
  };
  spec.compare = [this, sort](Value a, Value b) { return compare(sort, a, b); };
  spec.rebuild = [this, sort](Value v, const ElementMap& map) { return rebuild(sort, v, map); };
  spec.elements = [this, sort](Value v, const std::function<void(SortId, Value)>& visit) {
    const Args sequence = sort->store->at(v);
    for (size_t i = first_element(sort); i < sequence.size(); ++i)
      visit(element_sort(sort, sequence, i)->id, sequence[i]);
  };
  sort->id = graph_.container_sort(std::move(spec));
}

const SortInfo* Library::element_sort(const SortInfo* sort, Args sequence, size_t i) const {
  switch (sort->presort) {
    case Presort::Map:
    case Presort::Pair:
      return sort->inner[i % 2];
    case Presort::MultiSet:
      return i % 2 == 0 ? sort->inner[0] : i64;
    case Presort::Function:
      return target_info(sequence[0]).partial[i - 1];
    default:
      return sort->inner[0];
  }
}

Value Library::rebuild(const SortInfo* sort, Value value, const ElementMap& map) {
  const Args sequence = sort->store->at(value);
  std::vector<Value> mapped(sequence.begin(), sequence.end());
  for (size_t i = first_element(sort); i < mapped.size(); ++i)
    mapped[i] = map(element_sort(sort, sequence, i)->id, mapped[i]);
  if (std::equal(mapped.begin(), mapped.end(), sequence.begin())) return value;
  return intern(sort, std::move(mapped));
}

std::string Library::print_multiset(Args sequence, std::span<const std::string> children) const {
  std::string listed;
  std::vector<std::string> parts;
  for (size_t i = 0; i < sequence.size(); i += 2) {
    const int64_t count = graph_.as_i64(sequence[i + 1]);
    if (count > kMostRepeats)
      parts.push_back("(multiset-single " + children[i] + " " + children[i + 1] + ")");
    else
      for (int64_t n = 0; n < count; ++n) listed += " " + children[i];
  }
  if (!listed.empty() || parts.empty()) parts.insert(parts.begin(), "(multiset-of" + listed + ")");
  std::string text;
  for (size_t i = 1; i < parts.size(); ++i) text += "(multiset-sum ";
  text += parts[0];
  for (size_t i = 1; i < parts.size(); ++i) text += " " + parts[i] + ")";
  return text;
}

std::string Library::print(const SortInfo* sort, Value value, std::span<const std::string> children) const {
  const Args sequence = sort->store->at(value);
  if (sort->presort == Presort::MultiSet) return print_multiset(sequence, children);
  std::string text = "(" + std::string(maker_of(sort->presort, sequence.empty()));
  if (sort->presort == Presort::Function) text += " " + to_text(Literal(target_info(sequence[0]).name));
  for (const std::string& child : children) text += " " + child;
  return text + ")";
}

void Library::normalize_map(const SortInfo* map, std::vector<Value>& sequence) const {
  std::vector<size_t> order(sequence.size() / 2);
  std::iota(order.begin(), order.end(), size_t{0});
  const SortInfo* key = map->inner[0];
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    poll();
    const int by_key = compare(key, sequence[2 * a], sequence[2 * b]);
    return by_key != 0 ? by_key < 0 : a < b;
  });
  std::vector<Value> sorted;
  for (size_t i = 0; i < order.size(); ++i) {
    const Value here = sequence[2 * order[i]];
    // Of equal keys the last one given stays.
    if (i + 1 < order.size() && here == sequence[2 * order[i + 1]]) continue;
    sorted.push_back(here);
    sorted.push_back(sequence[2 * order[i] + 1]);
  }
  sequence = std::move(sorted);
}

// The sum of all counts fits in an i64 (primitives_multiset.cpp), so that of some does.
void Library::normalize_multiset(const SortInfo* multiset, std::vector<Value>& sequence) const {
  std::vector<std::pair<Value, int64_t>> entries;
  for (size_t i = 0; i < sequence.size(); i += 2)
    entries.emplace_back(sequence[i], graph_.as_i64(sequence[i + 1]));
  const SortInfo* element = multiset->inner[0];
  std::sort(entries.begin(), entries.end(), [&](const auto& a, const auto& b) {
    poll();
    const int order = compare(element, a.first, b.first);
    return order != 0 ? order < 0 : a.first < b.first;
  });
  sequence.clear();
  for (size_t i = 0, j = 0; i < entries.size(); i = j) {
    int64_t count = 0;
    for (; j < entries.size() && entries[j].first == entries[i].first; ++j) count += entries[j].second;
    sequence.insert(sequence.end(), {entries[i].first, graph_.i64(count)});
  }
}

void Library::normalize(const SortInfo* container, std::vector<Value>& sequence) const {
  if (container->presort == Presort::Map) return normalize_map(container, sequence);
  if (container->presort == Presort::MultiSet) return normalize_multiset(container, sequence);
  if (container->presort != Presort::Set) return;
  const SortInfo* element = container->inner[0];
  if (element->is_eq())
    std::sort(sequence.begin(), sequence.end());
  else
    std::sort(sequence.begin(), sequence.end(), [&](Value a, Value b) {
      poll();
      return less(element, a, b);
    });
  sequence.erase(std::unique(sequence.begin(), sequence.end()), sequence.end());
}

Value Library::intern(const SortInfo* container, std::vector<Value> sequence) {
  check_room(container, sequence.size());
  EngineState& state = graph_.state();
  normalize(container, sequence);
  ContainerStore& store = *container->store;
  const size_t before = store.size_bytes();
  const Value value = store.intern(sequence);
  state.host_bytes += store.size_bytes() - before;
  return value;
}

// The elements are listed twice, while they are put in order and where they are kept.
void Library::check_room(const SortInfo* container, size_t elements) const {
  constexpr size_t kMostElements = std::numeric_limits<uint32_t>::max();
  if (elements <= kFewElements) return;
  graph_.state().require_memory(2 * elements * sizeof(Value));
  if (elements > kMostElements)
    fail<ErrorInRule>("[{}] a container of {} elements is too large, {} are possible",
                      clipped(container->name.text()), elements, kMostElements);
}

void Library::check_text(std::string_view primitive, size_t bytes) const {
  constexpr size_t kMostBytes = size_t{1} << 31, kFewBytes = 4096;
  if (bytes <= kFewBytes) return;
  graph_.state().require_memory(2 * bytes);  // made, then kept
  if (bytes > kMostBytes)
    fail<ErrorInRule>("[{}] a String of {} bytes is too long, {} are possible", primitive, bytes, kMostBytes);
}

// As a number and, where it is kept, as the key that finds it.
void Library::check_number(uint64_t bits, double seconds) const {
  constexpr uint64_t kFewBits = uint64_t{1} << 14;
  if (bits > kFewBits) graph_.state().require_memory(3 * (bits / 8), seconds);
}

void Library::poll() const { graph_.state().poll(); }

void Library::count_bytes(size_t bytes) { graph_.state().host_bytes += bytes; }

int Library::compare(const SortInfo* sort, Value left, Value right) const {
  if (left == right) return 0;
  if (sort->is_eq()) return three_way(left, right);
  if (sort == i64) return compare_integers(graph_.as_i64(left), graph_.as_i64(right));
  if (sort == string) return three_way(graph_.as_string(left), graph_.as_string(right));
  if (sort == f64) {
    const double a = graph_.as_f64(left), b = graph_.as_f64(right);
    if (std::isnan(a) || std::isnan(b))
      return static_cast<int>(std::isnan(a)) - static_cast<int>(std::isnan(b));
    return three_way(a, b);
  }
  if (sort == big_int_sort) return three_way(big_int(left), big_int(right));
  if (sort == big_rat_sort) return language::compare(big_rat(left), big_rat(right));
  if (sort == rational_sort) return language::compare(rational(left), rational(right));
  if (sort->kind != SortInfo::Kind::Container) return three_way(left, right);
  const Args a = sort->store->at(left), b = sort->store->at(right);
  if (sort->presort == Presort::Function) {
    if (const int order = three_way(target_info(a[0]).name, target_info(b[0]).name)) return order;
    if (const int order = three_way(a[0], b[0])) return order;
  }
  if (sort->presort == Presort::MultiSet) return compare_multisets(sort, a, b);
  for (size_t i = first_element(sort); i < std::min(a.size(), b.size()); ++i)
    if (const int order = compare(element_sort(sort, a, i), a[i], b[i])) return order;
  return three_way(a.size(), b.size());
}

// As the sorted lists of all their elements, repeats included.
int Library::compare_multisets(const SortInfo* sort, Args left, Args right) const {
  for (size_t i = 0; i < std::min(left.size(), right.size()); i += 2) {
    if (const int order = compare(sort->inner[0], left[i], right[i])) return order;
    const int64_t a = graph_.as_i64(left[i + 1]), b = graph_.as_i64(right[i + 1]);
    // The list with fewer of this element goes on with a greater one, or ends.
    if (a < b) return i + 2 < left.size() ? 1 : -1;
    if (a > b) return i + 2 < right.size() ? -1 : 1;
  }
  return three_way(left.size(), right.size());
}

// -- Primitives

Overload& Library::add_overload(Scope& scope, Overload overload, Function call) {
  Overload& kept = overloads_.emplace_back(std::move(overload));
  PrimitiveSpec spec;
  spec.name = kept.name.text();
  spec.call = std::move(call);
  spec.idempotent = is_idempotent(spec.name);
  if (kept.shape == Overload::Shape::Exact)
    for (const SortInfo* sort : kept.inputs) spec.inputs.push_back(sort->id);
  if (kept.output) spec.output = kept.output->id;
  kept.ids.fill(graph_.primitive(std::move(spec)));
  scope.primitives[kept.name].push_back(&kept);
  return kept;
}

void Library::add(Scope& scope, std::string_view name, std::vector<const SortInfo*> inputs,
                  const SortInfo* output, Function call) {
  Overload overload;
  overload.name = symbol(name);
  overload.inputs = std::move(inputs);
  overload.output = output;
  add_overload(scope, std::move(overload), std::move(call));
}

void Library::add_host_primitive(Scope& scope, PrimitiveSpec spec) {
  const auto sort_of = [&](SortId id) {
    for (const SortInfo* sort : scope.sort_order)
      if (sort->id == id) return sort;
    fail("[egg] the sort '{}' in the signature of '{}' is not one that a text can name; declare it first",
         graph_.sort_name(id), spec.name);
  };
  Overload& kept = overloads_.emplace_back();
  kept.name = symbol(spec.name);
  for (const SortId id : spec.inputs) kept.inputs.push_back(sort_of(id));
  kept.output = sort_of(spec.output);
  if (spec.mutates) kept.contexts = kWhereWriting;
  kept.ids.fill(graph_.primitive(std::move(spec)));
  scope.primitives[kept.name].push_back(&kept);
}

void Library::add_contextual(Scope& scope, std::string_view name, std::vector<const SortInfo*> inputs,
                             const SortInfo* output, ContextMask contexts,
                             const std::function<std::optional<Value>(Context, Args)>& call) {
  Overload& kept = overloads_.emplace_back();
  kept.name = symbol(name);
  kept.inputs = std::move(inputs);
  kept.output = output;
  kept.contexts = contexts;
  for (const Context context : {Context::Pure, Context::Read, Context::Write, Context::Full}) {
    if ((contexts & mask_of(context)) == 0) continue;
    PrimitiveSpec spec;
    spec.name = kept.name.text();
    spec.call = [call, context](Args args) { return call(context, args); };
    spec.mutates = (mask_of(context) & kWhereWriting) != 0;
    spec.reads = context == Context::Read || context == Context::Full;
    for (const SortInfo* sort : kept.inputs) spec.inputs.push_back(sort->id);
    spec.output = output->id;
    kept.ids[static_cast<size_t>(context)] = graph_.primitive(std::move(spec));
  }
  scope.primitives[kept.name].push_back(&kept);
}

// -- Function values

int64_t Library::target_number(const FunctionTarget& target, std::vector<const SortInfo*> partial) {
  for (size_t i = 0; i < targets_.size(); ++i)
    if (targets_[i].target.function == target.function && targets_[i].target.primitive == target.primitive &&
        targets_[i].partial == partial)
      return static_cast<int64_t>(i);
  const Symbol name = target.function ? target.function->name : target.primitive->name;
  targets_.push_back({name.text(), target, std::move(partial)});
  return static_cast<int64_t>(targets_.size() - 1);
}

std::vector<const SortInfo*> Library::partial_sorts(const SortInfo* function_sort) const {
  std::vector<const SortInfo*> out;
  for (Value v = 0; v < function_sort->store->size(); ++v) {
    const std::vector<const SortInfo*>& partial = target_info(function_sort->store->at(v)[0]).partial;
    out.insert(out.end(), partial.begin(), partial.end());
  }
  return out;
}

std::optional<Value> Library::apply(const SortInfo* sort, Context context, Value function, Args args) {
  graph_.state().poll();
  const Args sequence = sort->store->at(function);
  const FunctionKindInfo& kind = target_info(sequence[0]);
  std::vector<Value> all(sequence.begin() + 1, sequence.end());
  all.insert(all.end(), args.begin(), args.end());
  const bool may_write = context == Context::Write || context == Context::Full;
  const bool may_read = context == Context::Read || context == Context::Full;
  const auto refuse = [&]() -> std::optional<Value> {
    throw ErrorInRule(
        fmt::format("[egg] the function value of '{}' is applied where its function must not be called; in a "
                    "rule, add :naive",
                    kind.name));
  };
  if (const FunctionInfo* table = kind.target.function) {
    if (table->kind != FunctionKind::Function && may_write) return graph_.add(table->id, all);
    return may_read ? graph_.lookup(table->id, all) : refuse();
  }
  const Overload& primitive = *kind.target.primitive;
  if ((primitive.contexts & mask_of(context)) == 0) return refuse();
  return graph_.spec(primitive.ids[static_cast<size_t>(context)]).call(all);
}

}  // namespace luminal::egraph::language
