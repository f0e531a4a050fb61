#pragma once
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "egraph/core/query.h"
#include "egraph/core/table.h"

namespace luminal::egraph {

/// The rows that an atom may match: semi-naive evaluation restricts one atom to the new rows and those before
/// it to the old ones.
struct RowRange {
  Row begin = 0, end = 0;
  [[nodiscard]] Row size() const { return end - begin; }
};

struct ColumnSlot {
  uint32_t column;
  Slot slot;
};

/// One step of a join: bindings come in, zero or more go out for each.
struct PlanStep {
  enum class Kind : uint8_t {
    Scan,   ///< every row of the atom's range
    Probe,  ///< the rows that an index gives for the key slots
    Get,    ///< the one row that the table's own hash gives: all arguments are bound
    Call,   ///< a primitive
  };
  Kind kind = Kind::Scan;
  uint32_t at = 0;                                  ///< the atom's or the call's number in the query
  uint32_t index = 0;                               ///< Probe: which of the function's indexes
  std::vector<ColumnSlot> key;                      ///< Probe: in the order of the index's columns
  std::vector<ColumnSlot> bind;                     ///< columns that bind a slot
  std::vector<ColumnSlot> check;                    ///< columns that must equal a bound slot
  std::vector<std::pair<uint32_t, uint32_t>> same;  ///< columns of the row that must be equal
  bool binds_output = false;                        ///< Call: `output` is new (else it is compared)
  std::vector<Slot> carry;                          ///< variables bound before that are read later
};

struct JoinPlan {
  std::vector<PlanStep> steps;
  double cost = 0;  ///< rows that it is expected to look at, about
};

/// What a search found at an atom whose `columns` were bound, instead of what the statistics promise: rows
/// per binding that the index gave, or, for all bound columns together, that remained.
struct Observation {
  uint32_t atom = 0;
  uint64_t columns = 0;
  double rows = 0;
};

struct PlanCache {
  std::vector<uint8_t> sizes;  ///< magnitudes of ranges and tables that the plan was made for
  JoinPlan plan;
  std::vector<Observation> observations;
};

struct EngineState;
struct FunctionInfo;

/// Number of the function's index on these columns (a bit set); made, empty, if there is none.
[[nodiscard]] uint32_t index_for(FunctionInfo& info, uint64_t columns);

/// The whole table of each atom.
[[nodiscard]] std::vector<RowRange> all_rows(EngineState& state, const CompiledQuery& query);

/// The cheapest order of atoms by estimated sizes, calls as soon as their arguments are known.
[[nodiscard]] JoinPlan make_plan(EngineState& state, const CompiledQuery& query,
                                 std::span<const RowRange> ranges,
                                 std::span<const Observation> observations = {});
/// The cached plan, made anew when a size changed its magnitude.
[[nodiscard]] const JoinPlan& cached_plan(EngineState& state, const CompiledQuery& query,
                                          std::span<const RowRange> ranges, PlanCache& cache);

/// What one step of a plan met.
struct StepCount {
  uint64_t bindings = 0, looked_at = 0, passed = 0;
};
/// Notes what a search met that took much longer than expected, and plans anew; `for_all_rows`: as if no atom were
/// restricted to its new rows, for what is new may be unlike the rest of its table, of which the statistics tell. Such
/// a plan gets no more time than the one for the new rows would.
void learn_and_plan(EngineState& state, const CompiledQuery& query, std::span<const RowRange> ranges,
                    std::span<const StepCount> counts, PlanCache& cache, bool for_all_rows);

}  // namespace luminal::egraph
