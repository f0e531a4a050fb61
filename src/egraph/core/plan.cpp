#include "egraph/core/plan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

#include "base/fail.h"
#include "egraph/core/state.h"

namespace luminal::egraph {

namespace {

constexpr Row kSample = 512;
constexpr size_t kExhaustiveAtoms = 6;  ///< more are ordered greedily, from several starts
constexpr size_t kStarts = 8;
constexpr uint32_t kIndexableColumns = 64;

/// Distinct values of a set of columns, from how often two sampled rows agree. Depends on content only.
double sample_distinct(const Table& table, uint64_t columns) {
  const Row rows = table.rows();
  if (rows <= 1) return rows;
  const Row count = std::min(rows, kSample);
  std::vector<uint64_t> hashes;
  hashes.reserve(count);
  for (Row i = 0; i < count; i++) {
    const Row row = static_cast<Row>(uint64_t{i} * rows / count);
    if (!table.is_live(row)) continue;
    uint64_t hash = 0;
    for (uint64_t rest = columns; rest != 0; rest &= rest - 1)
      hash = (hash + table.column(static_cast<uint32_t>(std::countr_zero(rest)))[row] + 1) *
             0x9E3779B97F4A7C15ULL;
    hashes.push_back(hash);
  }
  std::sort(hashes.begin(), hashes.end());
  double equal_pairs = 0;
  for (size_t i = 0, j = 0; i < hashes.size(); i = j) {
    while (j < hashes.size() && hashes[j] == hashes[i]) j++;
    equal_pairs += static_cast<double>(j - i) * static_cast<double>(j - i - 1);
  }
  const double n = static_cast<double>(hashes.size());
  if (n <= 1) return n;
  const double fan_out = 1 + (table.live_rows() - 1) * equal_pairs / (n * (n - 1));
  return std::max(1.0, table.live_rows() / fan_out);
}

double distinct_values(FunctionInfo& function, uint64_t columns) {
  const Row rows = function.table.rows();
  for (ColumnStatistics& known : function.statistics) {
    if (known.columns != columns) continue;
    if (rows <= known.rows * 2 && known.rows <= rows * 2 && (rows > 64 || rows == known.rows))
      return known.distinct * (known.rows == 0 ? 1 : static_cast<double>(rows) / known.rows);
    known = {columns, rows, 0, sample_distinct(function.table, columns)};
    return known.distinct;
  }
  function.statistics.push_back({columns, rows, 0, sample_distinct(function.table, columns)});
  return function.statistics.back().distinct;
}

/// How one atom would be joined to what is bound so far.
struct Access {
  PlanStep::Kind kind = PlanStep::Kind::Scan;
  uint64_t key_columns = 0;
  double cost = 0;     ///< of the step, for all bindings
  double matches = 0;  ///< bindings afterwards
};

class Planner {
 public:
  Planner(EngineState& state, const CompiledQuery& query, std::span<const RowRange> ranges,
          std::span<const Observation> observations)
      : state_(state),
        query_(query),
        ranges_(ranges),
        observations_(observations),
        domain_(query.slots.size(), 0),
        bound_(query.slots.size()),
        placed_(query.atoms.size()) {
    for (Slot s = 0; s < query.slots.size(); s++)
      if (query.slots[s].constant) bind(s, 1);
    for (const CompiledAtom& atom : query.atoms) infos_.push_back(&state.at(atom.function));
  }

  std::vector<uint32_t> order() {
    best_cost_ = std::numeric_limits<double>::infinity();
    std::vector<Slot> fresh;
    place_calls(fresh);
    if (query_.atoms.size() > kExhaustiveAtoms)
      search_greedily();
    else
      search(0, 1, 0);
    return best_order_;
  }
  [[nodiscard]] double cost() const { return best_cost_; }

  Access access(uint32_t atom, double bindings) const {
    const FunctionInfo& info = *infos_[atom];
    const CompiledAtom& a = query_.atoms[atom];
    const double rows = ranges_[atom].size();
    const double all_rows = std::max<double>(1, info.table.live_rows());
    uint64_t bound_columns = 0;
    double domain = 1;
    for (uint32_t c = 0; c < a.columns.size() && c < kIndexableColumns; c++) {
      if (!bound_[a.columns[c]]) continue;
      bound_columns |= uint64_t{1} << c;
      domain = std::max(domain, domain_[a.columns[c]]);
    }
    const auto matches_by = [&](uint64_t columns, double key_domain) {
      for (const Observation& o : observations_)
        if (o.atom == atom && o.columns == columns) return o.rows;
      return rows / std::max({1.0, distinct_values(*infos_[atom], columns), key_domain});
    };
    Access best;
    if (bound_columns == 0) {
      best.cost = bindings * rows;
      best.matches = bindings * rows;
      return best;
    }
    const double matches = bindings * matches_by(bound_columns, domain);
    best.matches = matches;
    best.cost = bindings * rows;
    const uint64_t keys = (uint64_t{1} << info.table.key_width()) - 1;
    if (info.table.key_width() < kIndexableColumns && (bound_columns & keys) == keys) {
      best.kind = PlanStep::Kind::Get;
      best.matches = std::min(bindings, bindings * rows / all_rows);
      best.cost = bindings * 2;
      return best;
    }
    const auto consider = [&](uint64_t columns, double found, double build_factor) {
      const double build = build_factor * missing_rows(atom, columns);
      const double cost = bindings * (2 + found) + build + 8;
      if (cost < best.cost) {
        best.cost = cost;
        best.kind = PlanStep::Kind::Probe;
        best.key_columns = columns;
      }
    };
    for (uint64_t rest = bound_columns; rest != 0; rest &= rest - 1) {
      const uint64_t column = rest & -rest;
      const Slot slot = a.columns[static_cast<uint32_t>(std::countr_zero(column))];
      consider(column, matches_by(column, domain_[slot]), 1);
    }
    if (std::popcount(bound_columns) > 1) consider(bound_columns, matches / std::max(bindings, 1e-9), 4);
    return best;
  }

  void bind(Slot slot, double domain) {
    bound_[slot] = true;
    domain_[slot] = domain;
  }
  [[nodiscard]] bool is_bound(Slot slot) const { return bound_[slot]; }

  /// Binds the atom's open variables, and what calls derive from them; returns the slots for undoing.
  std::vector<Slot> place(uint32_t atom) {
    std::vector<Slot> fresh;
    const CompiledAtom& a = query_.atoms[atom];
    for (uint32_t c = 0; c < a.columns.size(); c++) {
      if (bound_[a.columns[c]]) continue;
      const double domain = c < kIndexableColumns ? distinct_values(*infos_[atom], uint64_t{1} << c) : 1e9;
      bind(a.columns[c], domain);
      fresh.push_back(a.columns[c]);
    }
    place_calls(fresh);
    return fresh;
  }
  void place_calls(std::vector<Slot>& fresh) {
    for (bool progress = true; progress;) {
      progress = false;
      for (const CompiledCall& call : query_.calls) {
        if (bound_[call.output] || !ready(call)) continue;
        double domain = 1;
        for (const Slot s : call.args) domain = std::max(domain, domain_[s]);
        bind(call.output, domain);
        fresh.push_back(call.output);
        progress = true;
      }
    }
  }
  [[nodiscard]] bool ready(const CompiledCall& call) const {
    return std::all_of(call.args.begin(), call.args.end(), [&](Slot s) { return bound_[s]; });
  }

 private:
  double missing_rows(uint32_t atom, uint64_t columns) const {
    const FunctionInfo& info = *infos_[atom];
    for (const JoinIndex& index : info.indexes) {
      if (index.columns().size() != static_cast<size_t>(std::popcount(columns))) continue;
      uint64_t have = 0;
      for (const uint32_t c : index.columns()) have |= uint64_t{1} << c;
      if (have == columns) return index.missing(info.table, ranges_[atom].end);
    }
    return ranges_[atom].end;
  }

  struct Choice {
    uint32_t atom;
    Access access;
    [[nodiscard]] double price() const { return access.cost + access.matches; }
  };

  /// The atoms that are not placed yet, the cheapest first.
  std::vector<Choice> ranked(double bindings) const {
    std::vector<Choice> choices;
    for (uint32_t atom = 0; atom < query_.atoms.size(); atom++) {
      state_.poll();
      if (!placed_[atom]) choices.push_back({atom, access(atom, bindings)});
    }
    std::sort(choices.begin(), choices.end(), [](const Choice& a, const Choice& b) {
      return a.price() != b.price() ? a.price() < b.price() : a.atom < b.atom;
    });
    return choices;
  }

  /// The cheapest of the atoms that are not placed yet and share a variable with those that are, or of all where none
  /// does; nothing once all are placed. `ground` slots have one value, so sharing them connects nothing.
  std::optional<Choice> cheapest_connected(double bindings, const std::vector<bool>& ground) const {
    std::optional<Choice> best;
    for (const bool connected : {true, false}) {
      for (uint32_t atom = 0; atom < query_.atoms.size(); atom++) {
        state_.poll();
        if (placed_[atom]) continue;
        const std::vector<Slot>& columns = query_.atoms[atom].columns;
        if (connected &&
            std::none_of(columns.begin(), columns.end(), [&](Slot s) { return bound_[s] && !ground[s]; }))
          continue;
        const Choice choice{atom, access(atom, bindings)};
        if (!best || choice.price() < best->price()) best = choice;
      }
      if (best) break;
    }
    return best;
  }

  /// One greedy pass from each of the cheapest first atoms and from the one that is restricted to new rows.
  void search_greedily() {
    double cost = 0;
    for (bool progress = true; progress;) {
      progress = false;
      for (const Choice& choice : ranked(1)) {
        if (choice.access.kind != PlanStep::Kind::Get) continue;
        take(choice);
        cost += choice.price();
        progress = true;
        break;
      }
    }
    const std::vector<bool> ground = bound_, placed = placed_;
    const std::vector<uint32_t> prefix = order_;
    const std::vector<Choice> starts = ranked(1);
    for (size_t i = 0; i < starts.size(); i++) {
      if (i >= kStarts && ranges_[starts[i].atom].begin == 0) continue;
      complete_greedily(starts[i], cost, ground);
      order_ = prefix;
      bound_ = ground;
      placed_ = placed;
    }
    if (starts.empty()) {
      best_order_ = order_;
      best_cost_ = cost;
    }
  }

  /// An atom that shares no variable with those before it multiplies what all later steps cost: it waits
  /// until only such atoms remain.
  void complete_greedily(const Choice& start, double cost, const std::vector<bool>& ground) {
    for (std::optional<Choice> next = start; next; next = cheapest_connected(next->access.matches, ground)) {
      cost += next->price();
      if (cost >= best_cost_) return;
      take(*next);
    }
    best_cost_ = cost;
    best_order_ = order_;
  }

  /// Returns what `place` does.
  std::vector<Slot> take(const Choice& choice) {
    order_.push_back(choice.atom);
    placed_[choice.atom] = true;
    return place(choice.atom);
  }

  void search(size_t depth, double bindings, double cost) {
    if (depth == query_.atoms.size()) {
      if (cost < best_cost_) {
        best_cost_ = cost;
        best_order_ = order_;
      }
      return;
    }
    const std::vector<Choice> choices = ranked(bindings);
    for (const Choice& choice : choices) {
      const double total = cost + choice.access.cost + choice.access.matches;
      if (total >= best_cost_) break;
      const std::vector<Slot> fresh = take(choice);
      search(depth + 1, choice.access.matches, total);
      for (const Slot s : fresh) bound_[s] = false;
      placed_[choice.atom] = false;
      order_.pop_back();
    }
  }

  const EngineState& state_;
  const CompiledQuery& query_;
  std::span<const RowRange> ranges_;
  std::span<const Observation> observations_;
  std::vector<double> domain_;
  std::vector<bool> bound_, placed_;
  std::vector<FunctionInfo*> infos_;
  std::vector<uint32_t> order_, best_order_;
  double best_cost_ = 0;
};

/// Turns the order into steps.
class PlanWriter {
 public:
  PlanWriter(EngineState& state, const CompiledQuery& query, Planner& planner)
      : state_(state),
        query_(query),
        planner_(planner),
        bound_(query.slots.size()),
        called_(query.calls.size()) {
    for (Slot s = 0; s < query.slots.size(); s++) bound_[s] = query.slots[s].constant;
  }

  JoinPlan write(const std::vector<uint32_t>& order) {
    add_calls();
    std::vector<Slot> fresh;
    planner_.place_calls(fresh);
    double bindings = 1;
    for (const uint32_t atom : order) {
      const Access access = planner_.access(atom, bindings);
      add_atom(atom, access);
      planner_.place(atom);
      bindings = access.matches;
      add_calls();
    }
    find_slots_to_carry();
    return std::move(plan_);
  }

 private:
  void add_atom(uint32_t atom, const Access& access) {
    PlanStep step;
    step.kind = access.kind;
    step.at = atom;
    const CompiledAtom& a = query_.atoms[atom];
    FunctionInfo& info = state_.at(a.function);
    if (access.kind == PlanStep::Kind::Probe) step.index = index_for(info, access.key_columns);
    for (uint32_t c = 0; c < a.columns.size(); c++) {
      const bool in_key = access.kind == PlanStep::Kind::Get ? c < info.table.key_width()
                                                             : (c < 64 && (access.key_columns >> c & 1) != 0);
      if (in_key) {
        step.key.push_back({c, a.columns[c]});
      } else if (bound_[a.columns[c]]) {
        step.check.push_back({c, a.columns[c]});
      } else {
        const auto earlier = std::find_if(step.bind.begin(), step.bind.end(),
                                          [&](const ColumnSlot& b) { return b.slot == a.columns[c]; });
        if (earlier != step.bind.end())
          step.same.emplace_back(earlier->column, c);
        else
          step.bind.push_back({c, a.columns[c]});
      }
    }
    for (const ColumnSlot& b : step.bind) bound_[b.slot] = true;
    plan_.steps.push_back(std::move(step));
  }

  void add_calls() {
    for (bool progress = true; progress;) {
      progress = false;
      for (uint32_t i = 0; i < query_.calls.size(); i++) {
        const CompiledCall& call = query_.calls[i];
        if (called_[i] || !std::all_of(call.args.begin(), call.args.end(), [&](Slot s) { return bound_[s]; }))
          continue;
        called_[i] = true;
        PlanStep step;
        step.kind = PlanStep::Kind::Call;
        step.at = i;
        step.binds_output = !bound_[call.output];
        bound_[call.output] = true;
        plan_.steps.push_back(std::move(step));
        progress = true;
      }
    }
  }

  void find_slots_to_carry() {
    std::vector<bool> needed(query_.slots.size(), false);
    for (const Slot s : query_.outputs) needed[s] = true;
    for (size_t i = plan_.steps.size(); i-- > 0;) {
      PlanStep& step = plan_.steps[i];
      std::vector<Slot> made, read;
      if (step.kind == PlanStep::Kind::Call) {
        const CompiledCall& call = query_.calls[step.at];
        read = call.args;
        (step.binds_output ? made : read).push_back(call.output);
      } else {
        for (const ColumnSlot& b : step.bind) made.push_back(b.slot);
        // What nobody reads later need not be fetched.
        std::erase_if(step.bind, [&](const ColumnSlot& b) { return !needed[b.slot]; });
        for (const ColumnSlot& k : step.key) read.push_back(k.slot);
        for (const ColumnSlot& c : step.check) read.push_back(c.slot);
      }
      for (const Slot s : made) needed[s] = false;
      for (Slot s = 0; s < needed.size(); s++)
        if (needed[s] && !query_.slots[s].constant) step.carry.push_back(s);
      for (const Slot s : read) needed[s] = true;
    }
  }

  EngineState& state_;
  const CompiledQuery& query_;
  Planner& planner_;
  std::vector<bool> bound_, called_;
  JoinPlan plan_;
};

}  // namespace

uint32_t index_for(FunctionInfo& info, uint64_t columns) {
  std::vector<uint32_t> list;
  for (uint64_t rest = columns; rest != 0; rest &= rest - 1)
    list.push_back(static_cast<uint32_t>(std::countr_zero(rest)));
  for (uint32_t i = 0; i < info.indexes.size(); i++)
    if (info.indexes[i].columns() == list) return i;
  info.indexes.emplace_back(std::move(list));
  return static_cast<uint32_t>(info.indexes.size() - 1);
}

std::vector<RowRange> all_rows(EngineState& state, const CompiledQuery& query) {
  std::vector<RowRange> ranges;
  for (const CompiledAtom& atom : query.atoms) ranges.push_back({0, state.at(atom.function).table.rows()});
  return ranges;
}

JoinPlan make_plan(EngineState& state, const CompiledQuery& query, std::span<const RowRange> ranges,
                   std::span<const Observation> observations) {
  Planner planner(state, query, ranges, observations);
  const std::vector<uint32_t> order = planner.order();
  Planner replay(state, query, ranges, observations);
  JoinPlan plan = PlanWriter(state, query, replay).write(order);
  plan.cost = planner.cost();
  return plan;
}

const JoinPlan& cached_plan(EngineState& state, const CompiledQuery& query, std::span<const RowRange> ranges,
                            PlanCache& cache) {
  std::vector<uint8_t> sizes;
  sizes.reserve(2 * ranges.size() + 1);
  sizes.push_back(1);  // tells a made plan from none
  for (size_t i = 0; i < ranges.size(); i++) {
    sizes.push_back(static_cast<uint8_t>(std::bit_width(ranges[i].size())));
    sizes.push_back(static_cast<uint8_t>(std::bit_width(state.at(query.atoms[i].function).table.rows())));
  }
  if (sizes != cache.sizes) {
    cache.plan = make_plan(state, query, ranges, cache.observations);
    cache.sizes = std::move(sizes);
  }
  return cache.plan;
}

void learn_and_plan(EngineState& state, const CompiledQuery& query, std::span<const RowRange> ranges,
                    std::span<const StepCount> counts, PlanCache& cache, bool for_all_rows) {
  const auto note = [&](uint32_t atom, uint64_t columns, double rows) {
    for (Observation& known : cache.observations) {
      if (known.atom != atom || known.columns != columns) continue;
      known.rows = std::max(known.rows, rows);
      return;
    }
    cache.observations.push_back({atom, columns, rows});
  };
  for (size_t i = 0; i < counts.size(); i++) {
    const PlanStep& step = cache.plan.steps[i];
    if (step.kind != PlanStep::Kind::Probe || counts[i].bindings == 0) continue;
    const auto bits = [](const std::vector<ColumnSlot>& list) {
      uint64_t columns = 0;
      for (const ColumnSlot& c : list)
        if (c.column < kIndexableColumns) columns |= uint64_t{1} << c.column;
      return columns;
    };
    const double bindings = static_cast<double>(counts[i].bindings);
    note(step.at, bits(step.key), static_cast<double>(counts[i].looked_at) / bindings);
    if (!step.check.empty())
      note(step.at, bits(step.key) | bits(step.check), static_cast<double>(counts[i].passed) / bindings);
  }
  if (!for_all_rows) {
    cache.plan = make_plan(state, query, ranges, cache.observations);
    return;
  }
  Planner for_new_rows(state, query, ranges, cache.observations);
  for_new_rows.order();
  cache.plan = make_plan(state, query, all_rows(state, query), cache.observations);
  cache.plan.cost = std::min(cache.plan.cost, for_new_rows.cost());
}

}  // namespace luminal::egraph
