#include "egraph/core/back_off.h"

#include <algorithm>
#include <limits>

#include "egraph/core/state.h"

namespace luminal::egraph {

namespace {

uint64_t shifted(uint64_t x, uint32_t times) {
  const bool fits = times < 64 && (x << times) >> times == x;
  return fits ? x << times : std::numeric_limits<uint64_t>::max() / 2;
}

}  // namespace

BackOff::BackOff(uint64_t match_limit, uint64_t ban_length) : state_(std::make_shared<State>()) {
  state_->match_limit = match_limit;
  state_->ban_length = ban_length;
}

bool BackOff::State::allows(Rule& rule) const {
  Ban& ban = rule.ban;
  ban.steps++;
  rule.searches = false;  // unless its matches go: what it kept is looked at again first
  if (ban.steps < ban.until) return false;
  if (rule.held.count > shifted(match_limit, ban.times)) {
    ban.until = ban.steps + shifted(ban_length, ban.times);
    ban.times++;
    return false;
  }
  rule.searches = true;
  return true;
}

bool BackOff::State::shorten_bans(const std::vector<RuleId>& of) {
  constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();
  uint64_t shortest = kNone;
  bool some = false;
  for (const RuleId id : of) {
    auto& [ban, held, seen, searches] = rules[index_of(id)];
    if (ban.until > ban.steps) shortest = std::min(shortest, ban.until - ban.steps);
    some |= ban.until > ban.steps || held.count != 0;  // a ban may be of no steps
    if (ban.until <= ban.steps && held.count == 0) ban = {};
  }
  for (const RuleId id : of)
    if (Ban& ban = rules[index_of(id)].ban; ban.until > ban.steps) ban.until -= shortest;
  return some;
}

}  // namespace luminal::egraph
