#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "egraph/core/column.h"
#include "luminal/egraph.h"

namespace luminal::egraph {

/// Matches of a rule that wait: a column for each variable that its actions read.
struct HeldMatches {
  std::vector<Column> columns;
  size_t count = 0;
  void truncate(size_t to) {
    for (Column& column : columns) column.truncate(to);
    count = to;
  }
};

/// What a back-off scheduler knows of the rules. The counting is that of egglog-experimental's scheduler, so
/// that the same schedules give the same e-graphs.
struct BackOff::State {
  struct Ban {
    uint64_t steps = 0;  ///< that the rule took part in
    uint64_t until = 0;  ///< banned before that step
    uint32_t times = 0;
  };
  struct Rule {
    Ban ban;
    HeldMatches held;
    uint32_t seen = 0;  ///< as `RuleInfo::seen`: plain runs and schedulers search on their own
    bool searches = true;
  };

  uint64_t match_limit = 0, ban_length = 0;
  std::unordered_map<uint32_t, Rule> rules;

  /// After a rule's search in a step: are its matches to be applied?
  [[nodiscard]] bool allows(Rule& rule) const;
  /// After a step of these rules that changed nothing: true if some are banned. Their bans are shortened
  /// then, so that the next of them ends at once.
  bool shorten_bans(const std::vector<RuleId>& of);
};

}  // namespace luminal::egraph
