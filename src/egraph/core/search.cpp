#include "egraph/core/search.h"

#include <algorithm>

namespace luminal::egraph {

namespace {

constexpr Row kPieceRows = 4096;
/// A piece that matches more is searched again, without keeping matches, when its turn comes.
constexpr size_t kMostKept = size_t{1} << 17;

/// Keeps the matches of one piece until it is its turn.
class PieceSink : public MatchSink {
 public:
  explicit PieceSink(const CompiledQuery& query) : columns_(query.slots.size()) {
    for (const Slot s : query.outputs)
      if (!query.slots[s].constant) read_.push_back(s);
  }
  void take(Batch& batch) override {
    for (const Slot s : read_)
      columns_[s].insert(columns_[s].end(), batch.columns[s], batch.columns[s] + batch.count);
    count_ += batch.count;
  }
  bool should_stop() override { return count_ > kMostKept; }

  void search(EngineState& state, const CompiledQuery& query, const Plan& plan,
              std::span<const RowRange> ranges, Scratch& scratch) {
    count_ = 0;
    for (const Slot s : read_) columns_[s].clear();
    JoinRun join(state, query, plan, ranges, *this, scratch);
    complete_ = join.run();
    searched_ = join.rows_searched();
  }
  [[nodiscard]] bool is_complete() const { return complete_; }
  [[nodiscard]] uint64_t rows_searched() const { return searched_; }

  bool hand_over(RuleSink& sink) {
    std::vector<uint32_t*> columns(columns_.size(), nullptr);
    for (size_t first = 0; first < count_; first += kBatch) {
      for (const Slot s : read_) columns[s] = columns_[s].data() + first;
      Batch batch{static_cast<uint32_t>(std::min(kBatch, count_ - first)), columns.data()};
      sink.take(batch);
      if (sink.should_stop()) return false;
    }
    return true;
  }

 private:
  std::vector<Slot> read_;
  std::vector<std::vector<uint32_t>> columns_;  // by slot
  size_t count_ = 0;
  uint64_t searched_ = 0;
  bool complete_ = false;
};

class Search {
 public:
  Search(EngineState& state, const CompiledQuery& query, PlanCache& cache, std::span<const RowRange> ranges,
         RuleSink& sink)
      : state_(state), query_(query), cache_(cache), plan_(cache.plan), sink_(sink), ranges_(ranges) {}

  bool run() {
    if (!run_first()) return false;
    Row piece = 1;
    const bool calls = std::any_of(plan_.steps.begin(), plan_.steps.end(),
                                   [](const PlanStep& s) { return s.kind == PlanStep::Kind::Call; });
    Parallel* parallel = calls || pieces_ == 1 ? nullptr : state_.parallel_for(whole_.size());
    if (parallel != nullptr) {
      std::vector<PieceSink> kept(parallel->team.size(), PieceSink(query_));
      for (; piece < pieces_; piece += static_cast<Row>(kept.size())) {
        const size_t wave = std::min<size_t>(kept.size(), pieces_ - piece);
        search_wave(*parallel, {kept.data(), wave}, piece);
        for (size_t i = 0; i < wave; i++) {
          if (!kept[i].is_complete()) return run_alone(piece + static_cast<Row>(i));
          searched_ += kept[i].rows_searched();
          if (!kept[i].hand_over(sink_)) return false;
        }
      }
    }
    return run_alone(piece);
  }
  [[nodiscard]] uint64_t rows_searched() const { return searched_; }

 private:
  // Statistics can be wrong by orders of magnitude where columns depend on each other, and a query of dozens
  // of atoms multiplies that. What was met once is known to the next plan.
  bool run_first() {
    constexpr int kMostPlans = 40;
    constexpr double kFewRows = 1 << 16, kMuchLonger = 8;
    for (int plans = 1;; plans++) {
      cut();
      const std::vector<RowRange> ranges = ranges_of(0);
      const bool last = plans == kMostPlans || query_.atoms.size() < 3;
      JoinRun join(state_, query_, plan_, ranges, sink_, state_.scratch);
      sink_.begin();
      const bool finished = last ? join.run() : join.run(kFewRows + kMuchLonger * plan_.cost);
      searched_ += join.rows_searched();
      if (!join.wants_restart()) return finished;
      learn_and_plan(state_, query_, ranges_, join.counts(), cache_);
      prepare_indexes(state_, query_, plan_, ranges_);
    }
  }

  void cut() {
    const bool scans = !plan_.steps.empty() && plan_.steps[0].kind == PlanStep::Kind::Scan;
    whole_ = scans ? ranges_[plan_.steps[0].at] : RowRange{};
    pieces_ = std::max<Row>(1, (whole_.size() + kPieceRows - 1) / kPieceRows);
  }

  [[nodiscard]] std::vector<RowRange> ranges_of(Row piece) const {
    std::vector<RowRange> ranges(ranges_.begin(), ranges_.end());
    if (pieces_ == 1) return ranges;
    const Row begin = whole_.begin + piece * kPieceRows;
    ranges[plan_.steps[0].at] = {begin, std::min(whole_.end, begin + kPieceRows)};
    return ranges;
  }

  void search_wave(Parallel& parallel, std::span<PieceSink> kept, Row first) {
    parallel.team.run([&](uint32_t t) {
      if (t < kept.size()) kept[t].search(state_, query_, plan_, ranges_of(first + t), parallel.scratch[t]);
    });
  }

  bool run_alone(Row piece) {
    for (; piece < pieces_; piece++) {
      const std::vector<RowRange> ranges = ranges_of(piece);
      JoinRun join(state_, query_, plan_, ranges, sink_, state_.scratch);
      const bool finished = join.run();
      searched_ += join.rows_searched();
      if (!finished) return false;
    }
    return true;
  }

  EngineState& state_;
  const CompiledQuery& query_;
  PlanCache& cache_;
  const Plan& plan_;
  RuleSink& sink_;
  std::span<const RowRange> ranges_;
  RowRange whole_;
  Row pieces_ = 1;
  uint64_t searched_ = 0;
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
