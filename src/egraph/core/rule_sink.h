#pragma once
#include <span>
#include <vector>

#include "egraph/core/actions.h"
#include "egraph/core/back_off.h"
#include "egraph/core/join.h"
#include "egraph/core/limits.h"

namespace luminal::egraph {

/// Collects the matches of a rule into blocks and runs its actions on each. Blocks are the same at every
/// thread count, so that fresh ids are.
class RuleSink : public MatchSink {
 public:
  /// With `held`, matches are added to it instead, until `release`.
  RuleSink(EngineState& state, const RuleInfo& rule, Limits& limits, RuleReport& report,
           HeldMatches* held = nullptr);
  void take(Batch& batch) override { take({&batch, 1}, nullptr); }
  /// All of them, one after the other; what must be copied is copied by the team, if there is one.
  void take(std::span<const Batch> batches, Team* team);
  bool should_stop() override { return limits_.exceeded(); }
  /// Other threads may ask while nothing is applied.
  [[nodiscard]] bool out_of_time() const { return limits_.out_of_time(); }
  /// Matches that it keeps until it applies them.
  [[nodiscard]] size_t room() const { return room_; }
  /// Of each search: nothing of it is applied yet.
  void begin() {
    restartable_ = true;
    if (held_ != nullptr) held_before_ = held_->count;
  }
  bool restart() override {
    if (restartable_) drop();
    return restartable_;
  }
  /// Applies what is left of a search that came to its end. False if the budget does not allow it.
  bool finish();
  /// Applies all that is held. False as above; then it is still held, to be applied again.
  bool release();

 private:
  void hold(const Batch& batch);
  void copy_waiting(Team& team);
  void drop();
  bool apply(uint32_t** columns, uint32_t count);
  void apply_logged(uint32_t** columns, uint32_t count);

  /// Matches `first` to `first + count` of a batch have their places, from `to` on, but are not copied yet.
  struct Waiting {
    uint32_t** from;
    uint32_t first, to, count;
  };

  EngineState& state_;
  const RuleInfo& rule_;
  Limits& limits_;
  RuleReport& report_;
  Scratch::Mark mark_;
  std::vector<uint32_t*> columns_;   ///< by slot; null where no action reads
  std::vector<uint32_t*> in_place_;  ///< as above, but matches where others keep them
  std::vector<Slot> read_;           ///< variables among them
  std::vector<Waiting> waiting_;     ///< the last of the matches
  HeldMatches* held_;
  size_t held_before_ = 0;           ///< matches held when the search began
  uint32_t count_ = 0, filled_ = 0;  ///< matches; length of the constants' columns
  size_t room_;
  bool restartable_ = false;
  ActionRun actions_;
};

}  // namespace luminal::egraph
