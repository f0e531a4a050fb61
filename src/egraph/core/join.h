#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "egraph/core/plan.h"
#include "egraph/core/state.h"

namespace luminal::egraph {

/// Bindings by slot: `columns[slot][i]`; null for slots that nobody reads.
struct Batch {
  uint32_t count = 0;
  uint32_t** columns = nullptr;
};

/// Where matches go, a batch at a time. It may overwrite the batch.
class MatchSink {
 public:
  virtual ~MatchSink() = default;
  virtual void take(Batch& batch) = 0;
  /// Asked now and then while nothing matches; true ends the search.
  virtual bool should_stop() { return false; }
  /// True if the search may begin anew: the sink forgets what it took.
  virtual bool restart() { return false; }
};

/// Rows that `prepare_indexes` has to sort.
[[nodiscard]] uint64_t rows_to_index(const EngineState& state, const CompiledQuery& query,
                                     const JoinPlan& plan, std::span<const RowRange> ranges);
/// Makes the indexes that a plan needs cover the ranges. To be called before it runs.
void prepare_indexes(EngineState& state, const CompiledQuery& query, const JoinPlan& plan,
                     std::span<const RowRange> ranges);

/// Runs one plan. The tables may grow meanwhile (the sink's doing): rows past each range are not seen.
/// Several threads may run joins at once, each with a scratch of its own, while nothing changes the tables
/// and no primitive is called.
class JoinRun {
 public:
  JoinRun(EngineState& state, const CompiledQuery& query, const JoinPlan& plan,
          std::span<const RowRange> ranges, MatchSink& sink, Scratch& scratch);
  /// Returns false if the sink stopped it, or if it looked at more than `most_rows` and the sink lets it
  /// restart.
  bool run(double most_rows = std::numeric_limits<double>::infinity());
  /// It did not come to its end because it was longer than expected.
  [[nodiscard]] bool wants_restart() const { return wants_restart_; }
  [[nodiscard]] std::span<const StepCount> counts() const { return counts_; }
  [[nodiscard]] uint64_t rows_searched() const { return searched_; }

 private:
  void advance(size_t step, Batch& batch);
  void scan(const PlanStep& step, size_t at, Batch& in);
  void probe(const PlanStep& step, size_t at, Batch& in);
  template <class Find, class Prefetch>
  void probe_part(const PlanStep& step, size_t at, Batch& in, const JoinIndex::Part& part, Find&& find,
                  Prefetch&& prefetch);
  void get(const PlanStep& step, Batch& batch);
  void call(const PlanStep& step, Batch& batch);
  void emit(const PlanStep& step, size_t at, Batch& in, bool check_live);
  void keep(const PlanStep& step, Batch& batch, const uint32_t* kept, uint32_t count);

  EngineState& state_;
  const CompiledQuery& query_;
  const JoinPlan& plan_;
  std::span<const RowRange> ranges_;
  MatchSink& sink_;
  Scratch::Mark mark_;
  std::vector<uint32_t*> pointers_;  // all levels' column tables
  std::vector<Batch> levels_;        // [0] is the root, [i + 1] goes out of step i
  uint32_t* source_;                 // of pending pairs: position in the incoming batch
  uint32_t* rows_;                   // and row
  uint32_t pairs_ = 0;
  std::vector<StepCount> counts_;
  uint64_t searched_ = 0, next_check_ = 0;
  double most_rows_ = 0;
  bool stopped_ = false, wants_restart_ = false;
};

/// All matches of a query over the whole database (after a rebuild).
bool run_query(EngineState& state, const CompiledQuery& query, MatchSink& sink);

}  // namespace luminal::egraph
