#include "egraph/core/search.h"

#include <algorithm>
#include <atomic>
#include <limits>

namespace luminal::egraph {

namespace {

/// Rows of a scan that are searched as one piece. What the threads find in a wave of pieces stays in their
/// caches until it is applied: longer ones are slower on two threads than on one.
constexpr Row kLeastPieceRows = 512, kMostPieceRows = 1024, kPieces = 16;
/// Pieces that are searched together: some more than there are threads, since some take longer than others.
constexpr Row kPiecesPerThread = 3;
/// A piece that matches more is searched again, without keeping matches, when its turn comes.
constexpr size_t kMostKept = size_t{1} << 17;
constexpr double kNoLimit = std::numeric_limits<double>::infinity();

/// Keeps the matches of one piece until it is its turn.
class PieceSink : public MatchSink {
 public:
  /// `sink`: the rule's. `columns`: a column for each slot of `read`.
  PieceSink(size_t slots, const std::vector<Slot>& read, const RuleSink& sink, Column* columns)
      : read_(read), columns_(columns), by_slot_(slots, nullptr), sink_(&sink), room_(sink.room()) {}
  void take(Batch& batch) override {
    for (size_t i = 0; i < read_.size(); i++) columns_[i].append(batch.columns[read_[i]], batch.count);
    count_ += batch.count;
  }
  bool should_stop() override {
    return count_ > kMostKept || abandoned_->load(std::memory_order_relaxed) || sink_->out_of_time();
  }
  bool restart() override { return count_ < room_; }  // as the rule's sink, which applies full blocks

  /// `abandoned` tells that the matches are not wanted after all.
  void search(JoinRun& join, double most_rows, std::atomic<bool>& abandoned) {
    count_ = 0;
    for (size_t i = 0; i < read_.size(); i++) columns_[i].clear();
    abandoned_ = &abandoned;
    complete_ = join.run(most_rows);
    searched_ = join.rows_searched();
    wants_restart_ = join.wants_restart();
    if (!wants_restart_) return;
    counts_.assign(join.counts().begin(), join.counts().end());
    abandoned.store(true, std::memory_order_relaxed);
  }
  [[nodiscard]] bool is_complete() const { return complete_; }
  [[nodiscard]] bool wants_restart() const { return wants_restart_; }
  [[nodiscard]] std::span<const StepCount> counts() const { return counts_; }
  [[nodiscard]] uint64_t rows_searched() const { return searched_; }

  /// All matches. Valid until the next search.
  [[nodiscard]] Batch matches() {
    for (size_t i = 0; i < read_.size(); i++) by_slot_[read_[i]] = columns_[i].data();
    return {static_cast<uint32_t>(count_), by_slot_.data()};
  }

 private:
  const std::vector<Slot>& read_;
  Column* columns_;
  std::vector<uint32_t*> by_slot_;
  std::vector<StepCount> counts_;  // if it wants a restart
  const std::atomic<bool>* abandoned_ = nullptr;
  const RuleSink* sink_;
  size_t room_, count_ = 0;
  uint64_t searched_ = 0;
  bool complete_ = false, wants_restart_ = false;
};

class Search {
 public:
  Search(EngineState& state, const CompiledQuery& query, PlanCache& cache, std::span<const RowRange> ranges,
         RuleSink& sink)
      : state_(state), query_(query), cache_(cache), plan_(cache.plan), sink_(sink), ranges_(ranges) {}

  // Statistics can be wrong by orders of magnitude where columns depend on each other, and a query of dozens
  // of atoms multiplies that. What was met once is known to the next plan. Every other one is a plan for all rows.
  bool run() {
    constexpr int kMostPlans = 40;
    constexpr double kFewRows = 1 << 16, kPlannedRows = 4096, kMuchLonger = 8;
    for (int plans = 1;; plans++) {
      cut();
      const bool last = plans == kMostPlans || query_.atoms.size() < 3;
      const double part = static_cast<double>(piece_rows_) / kPlannedRows;
      const double most_rows = last ? kNoLimit : part * (kFewRows + kMuchLonger * plan_.cost);
      Parallel* parallel = workers();
      const Outcome outcome = parallel == nullptr ? run_alone(0, most_rows) : run_waves(*parallel, most_rows);
      if (outcome != Outcome::Restart) return outcome == Outcome::Finished;
      prepare_indexes(state_, query_, plan_, ranges_);
    }
  }
  [[nodiscard]] uint64_t rows_searched() const { return searched_; }

 private:
  enum class Outcome : uint8_t { Finished, Stopped, Restart };

  // The same at every thread count, since the order of matches hangs on it.
  void cut() {
    const bool scans = !plan_.steps.empty() && plan_.steps[0].kind == PlanStep::Kind::Scan;
    whole_ = scans ? ranges_[plan_.steps[0].at] : RowRange{};
    piece_rows_ = kMostPieceRows;
    if (whole_.size() > kMostPieceRows)
      piece_rows_ = std::clamp(whole_.size() / kPieces, kLeastPieceRows, kMostPieceRows);
    pieces_ = std::max<Row>(1, (whole_.size() + piece_rows_ - 1) / piece_rows_);
  }

  /// Null if one thread searches alone.
  [[nodiscard]] Parallel* workers() const {
    const bool calls = std::any_of(plan_.steps.begin(), plan_.steps.end(),
                                   [](const PlanStep& s) { return s.kind == PlanStep::Kind::Call; });
    return calls || pieces_ == 1 ? nullptr : state_.parallel_for(whole_.size());
  }

  [[nodiscard]] std::vector<RowRange> ranges_of(Row piece) const {
    std::vector<RowRange> ranges(ranges_.begin(), ranges_.end());
    if (pieces_ == 1) return ranges;
    const Row begin = whole_.begin + piece * piece_rows_;
    ranges[plan_.steps[0].at] = {begin, std::min(whole_.end, begin + piece_rows_)};
    return ranges;
  }

  /// The pieces from `piece` on; the first of all may want to be planned anew.
  Outcome run_alone(Row piece, double most_rows = kNoLimit) {
    for (; piece < pieces_; piece++) {
      const std::vector<RowRange> ranges = ranges_of(piece);
      JoinRun join(state_, query_, plan_, ranges, sink_, state_.scratch);
      if (piece == 0) sink_.begin();
      const bool finished = join.run(piece == 0 ? most_rows : kNoLimit);
      searched_ += join.rows_searched();
      if (join.wants_restart()) return learn(join.counts());
      if (!finished) return Outcome::Stopped;
    }
    return Outcome::Finished;
  }

  Outcome run_waves(Parallel& parallel, double most_rows) {
    const Row most = std::min(pieces_, kPiecesPerThread * parallel.team.size());
    std::vector<Slot> read;
    for (const Slot s : query_.outputs)
      if (!query_.slots[s].constant) read.push_back(s);
    if (parallel.matches.size() < most * read.size()) parallel.matches.resize(most * read.size());
    std::vector<PieceSink> kept;
    for (Row i = 0; i < most; i++)
      kept.emplace_back(query_.slots.size(), read, sink_, parallel.matches.data() + i * read.size());
    for (Row piece = 0; piece < pieces_; piece += most) {
      const std::span<PieceSink> wave{kept.data(), std::min(most, pieces_ - piece)};
      search_wave(parallel, wave, piece, most_rows);
      std::vector<Batch> found;
      size_t matches = 0;
      for (PieceSink& one : wave) {
        if (one.is_complete() || one.wants_restart()) searched_ += one.rows_searched();
        if (one.wants_restart()) return learn(one.counts());  // the first of all
        if (!one.is_complete()) break;
        found.push_back(one.matches());
        matches += found.back().count;
      }
      sink_.take(found, state_.team_for(matches));
      if (sink_.should_stop()) return Outcome::Stopped;
      if (found.size() < wave.size()) return run_alone(piece + static_cast<Row>(found.size()));
    }
    return Outcome::Finished;
  }

  void search_wave(Parallel& parallel, std::span<PieceSink> kept, Row first, double most_rows) {
    std::atomic<Row> next = 0;
    std::atomic<bool> abandoned = false;
    parallel.team.run(parallel.team.size(), [&](uint32_t t) {
      for (Row i = next++; i < kept.size(); i = next++) {
        const std::vector<RowRange> ranges = ranges_of(first + i);
        JoinRun join(state_, query_, plan_, ranges, kept[i], parallel.scratch[t]);
        kept[i].search(join, first + i == 0 ? most_rows : kNoLimit, abandoned);
      }
    });
  }

  Outcome learn(std::span<const StepCount> counts) {
    learn_and_plan(state_, query_, ranges_, counts, cache_, for_all_rows_ = !for_all_rows_);
    return Outcome::Restart;
  }

  EngineState& state_;
  const CompiledQuery& query_;
  PlanCache& cache_;
  const JoinPlan& plan_;
  RuleSink& sink_;
  std::span<const RowRange> ranges_;
  RowRange whole_;
  Row pieces_ = 1, piece_rows_ = kMostPieceRows;
  uint64_t searched_ = 0;
  bool for_all_rows_ = false;  ///< how it was last planned anew
};

}  // namespace

bool search(EngineState& state, const CompiledQuery& query, PlanCache& cache,
            std::span<const RowRange> ranges, RuleSink& sink, uint64_t& searched) {
  Search run(state, query, cache, ranges, sink);
  const bool finished = run.run();
  searched += run.rows_searched();
  return finished;
}

}  // namespace luminal::egraph
