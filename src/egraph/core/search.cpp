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

class PiecewiseSearch {
 public:
  PiecewiseSearch(EngineState& state, const CompiledQuery& query, const Plan& plan,
                  std::span<const RowRange> ranges, RuleSink& sink)
      : state_(state), query_(query), plan_(plan), sink_(sink), ranges_(ranges.begin(), ranges.end()) {
    whole_ = ranges_[plan.steps[0].at];
    pieces_ = (whole_.size() + kPieceRows - 1) / kPieceRows;
  }

  bool run() {
    const bool calls = std::any_of(plan_.steps.begin(), plan_.steps.end(),
                                   [](const PlanStep& s) { return s.kind == PlanStep::Kind::Call; });
    Parallel* parallel = calls ? nullptr : state_.parallel_for(whole_.size());
    Row piece = 0;
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
  [[nodiscard]] std::vector<RowRange> ranges_of(Row piece) const {
    std::vector<RowRange> ranges = ranges_;
    const Row begin = whole_.begin + piece * kPieceRows;
    ranges[plan_.steps[0].at] = {begin, std::min(whole_.end, begin + kPieceRows)};
    return ranges;
  }

  void search_wave(Parallel& parallel, std::span<PieceSink> kept, Row first) {
    parallel.team.run([&](uint32_t t) {
      if (t >= kept.size()) return;
      kept[t].search(state_, query_, plan_, ranges_of(first + t), parallel.scratch[t]);
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
  const Plan& plan_;
  RuleSink& sink_;
  std::vector<RowRange> ranges_;
  RowRange whole_;
  Row pieces_ = 0;
  uint64_t searched_ = 0;
};

}  // namespace

bool search(EngineState& state, const CompiledQuery& query, const Plan& plan,
            std::span<const RowRange> ranges, RuleSink& sink, uint64_t& searched) {
  prepare_indexes(state, query, plan, ranges);
  const bool long_scan = !plan.steps.empty() && plan.steps[0].kind == PlanStep::Kind::Scan &&
                         ranges[plan.steps[0].at].size() > kPieceRows;
  if (long_scan) {
    PiecewiseSearch pieces(state, query, plan, ranges, sink);
    const bool finished = pieces.run();
    searched += pieces.rows_searched();
    return finished;
  }
  JoinRun join(state, query, plan, ranges, sink, state.scratch);
  const bool finished = join.run();
  searched += join.rows_searched();
  return finished;
}

}  // namespace luminal::egraph
