#pragma once
#include <vector>

#include "egraph/core/actions.h"
#include "egraph/core/join.h"
#include "egraph/core/limits.h"

namespace luminal::egraph {

/// Collects the matches of a rule into blocks and runs its actions on each. Blocks are the same at every
/// thread count, so that fresh ids are.
class RuleSink : public MatchSink {
 public:
  RuleSink(EngineState& state, const RuleInfo& rule, Limits& limits, RuleReport& report);
  void take(Batch& batch) override;
  bool should_stop() override { return limits_.exceeded(); }
  /// Of each search: nothing of it is applied yet.
  void begin() { restartable_ = true; }
  bool restart() override {
    if (restartable_) count_ = 0;
    return restartable_;
  }
  /// Applies what is left of a search that came to its end.
  void finish() { apply_block(); }

 private:
  void apply_block();
  void apply_logged();

  EngineState& state_;
  const RuleInfo& rule_;
  Limits& limits_;
  RuleReport& report_;
  Scratch::Mark mark_;
  std::vector<uint32_t*> columns_;   ///< by slot; null where no action reads
  std::vector<Slot> read_;           ///< variables among them
  uint32_t count_ = 0, filled_ = 0;  ///< matches; length of the constants' columns
  size_t room_;
  bool restartable_ = false;
  ActionRun actions_;
};

}  // namespace luminal::egraph
