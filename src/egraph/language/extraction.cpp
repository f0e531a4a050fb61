#include "egraph/language/extraction.h"

#include <algorithm>
#include <tuple>
#include <unordered_set>

namespace luminal::egraph::language {
namespace {

constexpr uint64_t kNoCost = UINT64_MAX;

uint64_t saturating_add(uint64_t a, uint64_t b) { return a > kNoCost - 1 - b ? kNoCost - 1 : a + b; }
uint64_t saturating_multiply(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kNoCost - 1 : std::min(product, kNoCost - 1);
}

}  // namespace

TermExtractor::TermExtractor(const EGraph& graph, const Library& library, const Scope& scope,
                             std::span<const SortInfo* const> roots)
    : graph_(graph), library_(library), writer_(graph, library) {
  find_tables(scope, roots);
  read_rows();
  settle_costs();
  choose_rows();
}

// Breadth first from the root sorts: the order in which tables are reached is part of how ties are broken.
void TermExtractor::find_tables(const Scope& scope, std::span<const SortInfo* const> roots) {
  std::vector<const SortInfo*> queue;
  std::unordered_set<const SortInfo*> seen;
  const auto reach = [&](const SortInfo* sort) {
    if (seen.insert(sort).second) queue.push_back(sort);
  };
  for (const SortInfo* root : roots) reach(root);
  for (size_t next = 0; next < queue.size(); ++next) {
    const SortInfo* sort = queue[next];
    if (sort->presort == SortInfo::Presort::Function) {
      for (const SortInfo* partial : library_.partial_sorts(sort)) reach(partial);
    } else {
      for (const SortInfo* inner : sort->inner) reach(inner);
    }
    if (!sort->is_eq()) continue;
    for (const FunctionInfo* function : scope.function_order) {
      if (function->kind != FunctionKind::Constructor || function->output != sort || function->hidden)
        continue;
      const FunctionSpec& spec = graph_.spec(function->id);
      if (spec.unextractable) continue;
      for (const SortInfo* input : function->inputs) reach(input);
      Table table{
          .function = function, .cost = static_cast<uint64_t>(spec.cost), .row_costs = {}, .cells = {}};
      if (const auto costs = graph_.find_function(cost_table_name(function->name.text())))
        for (const FunctionInfo* candidate : scope.function_order)
          if (candidate->id == *costs && candidate->inputs == function->inputs &&
              candidate->output == library_.i64)
            table.costs = candidate;
      tables_.push_back(std::move(table));
    }
  }
}

void TermExtractor::read_rows() {
  Value most = 0;
  for (Table& table : tables_) {
    const size_t cells = graph_.row_count(table.function->id) * table.width();
    graph_.state().require_memory(cells * sizeof(Value));
    table.cells.reserve(cells);
    graph_.for_each_row(table.function->id, [&](std::span<const Value> args, Value output, bool subsumed) {
      graph_.state().poll();
      if (subsumed) return true;
      table.cells.insert(table.cells.end(), args.begin(), args.end());
      table.cells.push_back(output);
      if (table.costs) table.row_costs.push_back(own_cost(table, args));
      most = std::max(most, output);
      return true;
    });
  }
  classes_.resize(static_cast<size_t>(most) + 1);
}

template <class Visit>
void TermExtractor::for_each_element(const SortInfo* sort, Value value, const Visit& visit) const {
  const Library::Args sequence = sort->store->at(value);
  if (sort->presort == SortInfo::Presort::MultiSet) {
    for (size_t i = 0; i < sequence.size(); i += 2)
      visit(sort->inner[0], sequence[i], static_cast<uint64_t>(graph_.as_i64(sequence[i + 1])));
    return;
  }
  for (size_t i = Library::first_element(sort); i < sequence.size(); ++i)
    visit(library_.element_sort(sort, sequence, i), sequence[i], uint64_t{1});
}

// Recursion follows the nesting of container sorts, which is as deep as their declarations.
std::optional<uint64_t> TermExtractor::cost(const SortInfo* sort, Value value) const {
  if (sort->kind == SortInfo::Kind::Container) {
    std::optional<uint64_t> total = 0;
    for_each_element(sort, value, [&](const SortInfo* inner, Value element, uint64_t times) {
      const std::optional<uint64_t> part = total ? cost(inner, element) : std::nullopt;
      total = part ? std::optional(saturating_add(*total, saturating_multiply(*part, times))) : std::nullopt;
    });
    return total;
  }
  if (!sort->is_eq() || !sort->unionable) return 1;
  if (value >= classes_.size() || classes_[value].cost == kNoCost) return {};
  return classes_[value].cost;
}

uint32_t TermExtractor::rank(const SortInfo* sort, Value value) const {
  if (sort->kind == SortInfo::Kind::Container) {
    uint32_t highest = 0;
    for_each_element(sort, value, [&](const SortInfo* inner, Value element, uint64_t) {
      highest = std::max(highest, rank(inner, element));
    });
    return highest;
  }
  if (!sort->is_eq()) return 0;
  return value < classes_.size() ? classes_[value].rank : UINT32_MAX;
}

uint64_t TermExtractor::own_cost(const Table& table, std::span<const Value> args) const {
  const std::optional<Value> set = graph_.lookup(table.costs->id, args);
  return set ? static_cast<uint64_t>(std::max<int64_t>(graph_.as_i64(*set), 0)) : table.cost;
}

std::optional<uint64_t> TermExtractor::row_cost(const Table& table, size_t i) const {
  const Value* row = table.row(i);
  uint64_t total = table.costs ? table.row_costs[i] : table.cost;
  for (size_t a = 0; a + 1 < table.width(); ++a) {
    const std::optional<uint64_t> part = cost(table.function->inputs[a], row[a]);
    if (!part) return {};
    total = saturating_add(total, *part);
  }
  return total;
}

void TermExtractor::settle_costs() {
  uint32_t next_rank = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (const Table& table : tables_) {
      for (size_t i = 0; i < table.rows(); ++i) {
        graph_.state().poll();
        const Value* row = table.row(i);
        const std::optional<uint64_t> found = row_cost(table, i);
        Class& target = classes_[row[table.width() - 1]];
        if (!found || *found >= target.cost) continue;
        target.cost = *found;
        target.rank = ++next_rank;
        changed = true;
      }
    }
  }
}

void TermExtractor::choose_rows() {
  for (uint32_t t = 0; t < tables_.size(); ++t) {
    const Table& table = tables_[t];
    for (uint32_t i = 0; i < table.rows(); ++i) {
      graph_.state().poll();
      const Value* row = table.row(i);
      Class& target = classes_[row[table.width() - 1]];
      if (target.table != UINT32_MAX || target.cost == kNoCost || row_cost(table, i) != target.cost) continue;
      uint32_t highest = 0;
      for (size_t a = 0; a + 1 < table.width(); ++a)
        highest = std::max(highest, rank(table.function->inputs[a], row[a]));
      if (target.rank <= highest) continue;
      target.table = t;
      target.row = i;
    }
  }
}

bool TermExtractor::is_best(const FunctionInfo* function, std::span<const Value> args, Value output) const {
  if (output >= classes_.size() || classes_[output].table == UINT32_MAX) return false;
  const Class& c = classes_[output];
  const Table& table = tables_[c.table];
  return table.function == function && std::equal(args.begin(), args.end(), table.row(c.row));
}

TermTexts::Id TermExtractor::built(const SortInfo* sort, Value value) const {
  return terms_.at(key(sort, value));
}

void TermExtractor::build(const SortInfo* sort, Value value) {
  std::vector<std::pair<const SortInfo*, Value>> todo{{sort, value}};
  while (!todo.empty()) {
    graph_.state().poll();
    const auto [s, v] = todo.back();
    if (terms_.contains(key(s, v))) {
      todo.pop_back();
      continue;
    }
    // Children first; a node that finds one missing waits for it on the stack.
    const size_t before = todo.size();
    std::vector<TermTexts::Id> children;
    const auto child = [&](const SortInfo* inner, Value element, uint64_t) {
      const auto found = terms_.find(key(inner, element));
      if (found == terms_.end())
        todo.emplace_back(inner, element);
      else
        children.push_back(found->second);
    };
    if (s->kind == SortInfo::Kind::Container) {
      for_each_element(s, v, child);
      if (todo.size() > before) continue;
      terms_.emplace(key(s, v), writer_.container(s, v, std::move(children)));
    } else if (s->is_eq()) {
      const Table& table = tables_[classes_[v].table];
      const Value* row = table.row(classes_[v].row);
      for (size_t i = 0; i + 1 < table.width(); ++i) child(table.function->inputs[i], row[i], 1);
      if (todo.size() > before) continue;
      terms_.emplace(key(s, v), texts().call(table.function->name.text(), std::move(children)));
    } else {
      terms_.emplace(key(s, v), writer_.leaf(s, v));
    }
    todo.pop_back();
  }
}

std::optional<TermTexts::Id> TermExtractor::best(const SortInfo* sort, Value value) {
  if (!sort->unionable || !cost(sort, value)) return {};
  build(sort, value);
  return built(sort, value);
}

std::vector<TermTexts::Id> TermExtractor::variants(const SortInfo* sort, Value value, size_t count) {
  // Among equally cheap rows by name, then by the numbers of their arguments.
  using Key = std::tuple<uint64_t, std::string_view, std::vector<Value>, const Table*>;
  std::vector<Key> rows;
  for (const Table& table : tables_) {
    if (table.function->output != sort) continue;
    for (size_t i = 0; i < table.rows(); ++i) {
      graph_.state().poll();
      const Value* row = table.row(i);
      if (row[table.width() - 1] != value) continue;
      if (const std::optional<uint64_t> price = row_cost(table, i))
        rows.emplace_back(*price, table.function->name.text(),
                          std::vector<Value>(row, row + table.width() - 1), &table);
    }
  }
  std::sort(rows.begin(), rows.end(), [](const Key& a, const Key& b) {
    return std::tie(std::get<0>(a), std::get<1>(a), std::get<2>(a)) <
           std::tie(std::get<0>(b), std::get<1>(b), std::get<2>(b));
  });
  if (rows.size() > count) rows.resize(count);
  std::vector<TermTexts::Id> out;
  for (const auto& [price, name, args, table] : rows) {
    std::vector<TermTexts::Id> children;
    for (size_t i = 0; i < args.size(); ++i) {
      build(table->function->inputs[i], args[i]);
      children.push_back(built(table->function->inputs[i], args[i]));
    }
    out.push_back(texts().call(name, std::move(children)));
  }
  return out;
}

}  // namespace luminal::egraph::language
