#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "egraph/language/library.h"
#include "egraph/language/terms.h"

namespace luminal::egraph::language {

/// Cheapest terms by tree cost, with the choices among equally cheap ones that egglog's output shows: costs
/// settle in rounds over the tables, in order of declaration as they are reached from the root sorts; the
/// order in which classes got their final cost ranks them, and a class takes its first cheapest row all of
/// whose arguments rank below it. (The engine's own `Extractor` serves everything whose ties are free.)
class TermExtractor {
 public:
  /// Computes the costs of all classes that terms of `roots` can contain.
  TermExtractor(const EGraph& graph, const Library& library, const Scope& scope,
                std::span<const SortInfo* const> roots);

  /// Nullopt if the value has no term: its class is empty, or all its rows are subsumed or unextractable.
  [[nodiscard]] std::optional<uint64_t> cost(const SortInfo* sort, Value value) const;
  [[nodiscard]] std::optional<TermTexts::Id> best(const SortInfo* sort, Value value);
  /// One term for each of the `count` cheapest rows of a class.
  [[nodiscard]] std::vector<TermTexts::Id> variants(const SortInfo* sort, Value value, size_t count);
  /// Whether a row is the one its class is extracted from.
  [[nodiscard]] bool is_best(const FunctionInfo* function, std::span<const Value> args, Value output) const;
  [[nodiscard]] TermTexts& texts() { return writer_.texts(); }

 private:
  struct Table {
    const FunctionInfo* function = nullptr;
    uint64_t cost = 1;
    const FunctionInfo* costs = nullptr;  // table of rows that have a cost of their own
    std::vector<uint64_t> row_costs;      // with `costs`: of each row
    std::vector<Value> cells;             // rows one after the other: arguments, output
    [[nodiscard]] size_t width() const { return function->inputs.size() + 1; }
    [[nodiscard]] size_t rows() const { return cells.size() / width(); }
    [[nodiscard]] const Value* row(size_t i) const { return cells.data() + i * width(); }
  };
  struct Class {
    uint64_t cost = UINT64_MAX;  // none yet
    uint32_t rank = UINT32_MAX;
    uint32_t table = UINT32_MAX, row = 0;  // of the best row
  };

  void find_tables(const Scope& scope, std::span<const SortInfo* const> roots);
  void read_rows();
  void settle_costs();
  void choose_rows();
  [[nodiscard]] uint64_t own_cost(const Table& table, std::span<const Value> args) const;
  [[nodiscard]] std::optional<uint64_t> row_cost(const Table& table, size_t i) const;
  [[nodiscard]] uint32_t rank(const SortInfo* sort, Value value) const;
  void build(const SortInfo* sort, Value value);
  [[nodiscard]] TermTexts::Id built(const SortInfo* sort, Value value) const;
  static uint64_t key(const SortInfo* sort, Value value) {
    return static_cast<uint64_t>(sort->id) << 32 | value;
  }
  template <class Visit>
  void for_each_element(const SortInfo* sort, Value value, const Visit& visit) const;

  const EGraph& graph_;
  const Library& library_;
  TermWriter writer_;
  std::vector<Table> tables_;
  std::vector<Class> classes_;  // by id
  std::unordered_map<uint64_t, TermTexts::Id> terms_;
};

}  // namespace luminal::egraph::language
