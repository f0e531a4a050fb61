// States are interned sets of places; stacks are interned lists of frames, so that places that share callers share them.
#include <algorithm>
#include <set>

#include "base/fail.h"
#include "text/grammar/program.h"

namespace luminal::text {
namespace {

using GrammarOp = GrammarProgram::Op;

constexpr size_t kMostPlaces = 1 << 14;  // of a state, and what is looked at to find them
constexpr size_t kManyStates = 1 << 12;  // 1 KiB of transitions each
constexpr size_t kMostStates = 1 << 16;
constexpr uint32_t kDeepestStack = 4096;

uint64_t paired(uint32_t high, uint32_t low) { return uint64_t{high} << 32 | low; }

}  // namespace

GrammarAutomaton::GrammarAutomaton(const GrammarProgram& program) : program_(program) {
  frames_.emplace_back();
  states_.emplace_back();  // kDead
  start_ = state_of({{program_.start, 0}});
}

uint32_t GrammarAutomaton::pushed(uint32_t back, uint32_t parent) {
  if (program_.instructions[back].op == GrammarOp::Return)
    return parent;  // a call at a rule's end comes back no more
  const uint32_t depth = frames_[parent].depth + 1;
  if (depth > kDeepestStack)
    fail<Error>("[grammar] rules are nested deeper than {} levels in this text", kDeepestStack);
  const auto [found, added] =
      frame_names_.emplace(paired(back, parent), static_cast<uint32_t>(frames_.size()));
  if (added) frames_.push_back({back, parent, depth});
  return found->second;
}

uint32_t GrammarAutomaton::state_of(std::vector<Place> waiting) {
  std::set<Place> visited;
  State state;
  while (!waiting.empty()) {
    const Place place = waiting.back();
    waiting.pop_back();
    if (!visited.insert(place).second) continue;
    if (visited.size() > kMostPlaces)
      fail<Error>("[grammar] it is too ambiguous: the text fits it in more than {} ways", kMostPlaces);
    const auto& [at, stack] = place;
    const auto& instruction = program_.instructions[at];
    switch (instruction.op) {
      case GrammarOp::Byte:
        state.places.push_back(place);
        break;
      case GrammarOp::Split:
        waiting.emplace_back(instruction.next, stack);
        waiting.emplace_back(instruction.other, stack);
        break;
      case GrammarOp::Call:
        waiting.emplace_back(instruction.other, pushed(instruction.next, stack));
        break;
      case GrammarOp::Return:
        if (stack == 0)
          state.complete = true;
        else
          waiting.emplace_back(frames_[stack].back, frames_[stack].parent);
    }
  }
  if (state.places.empty() && !state.complete) return kDead;
  std::ranges::sort(state.places);
  uint64_t hash = state.complete ? 1 : 0;
  for (const auto& [at, stack] : state.places)
    hash = (hash ^ paired(at, stack)) * 0x9E3779B97F4A7C15U ^ hash >> 29;
  for (auto [it, end] = names_.equal_range(hash); it != end; ++it)
    if (states_[it->second].places == state.places && states_[it->second].complete == state.complete)
      return it->second;
  if (states_.size() == kMostStates)
    fail<Error>("[grammar] its tokens lead to more than {} states", kMostStates);
  const auto name = static_cast<uint32_t>(states_.size());
  names_.emplace(hash, name);
  states_.push_back(std::move(state));
  return name;
}

uint32_t GrammarAutomaton::next(uint32_t state, uint8_t byte) {
  constexpr uint32_t kUnknown = ~uint32_t{0};
  if (state == kDead) return kDead;
  if (states_[state].next.empty()) states_[state].next.assign(256, kUnknown);
  if (const uint32_t known = states_[state].next[byte]; known != kUnknown) return known;
  std::vector<Place> places;
  for (const auto& [at, stack] : states_[state].places)
    if (const auto& instruction = program_.instructions[at];
        instruction.first <= byte && byte <= instruction.last)
      places.emplace_back(instruction.next, stack);
  const uint32_t found = state_of(std::move(places));
  return states_[state].next[byte] = found;
}

uint32_t GrammarAutomaton::trimmed(uint32_t state) {
  if (states_.size() < kManyStates && frames_.size() < kMostStates) return state;
  ++generation_;
  const State kept = std::move(states_[state]);
  const std::vector<Frame> frames = std::move(frames_);
  states_.assign(1, {});
  frames_.assign(1, {});
  names_.clear();
  frame_names_.clear();
  std::vector<Place> places;
  for (const auto& [at, stack] : kept.places) {
    std::vector<uint32_t> backs;
    for (uint32_t frame = stack; frame != 0; frame = frames[frame].parent)
      backs.push_back(frames[frame].back);
    uint32_t renamed = 0;
    for (size_t i = backs.size(); i > 0; --i) renamed = pushed(backs[i - 1], renamed);
    places.emplace_back(at, renamed);
  }
  start_ = state_of({{program_.start, 0}});
  constexpr uint32_t kEnd = 0;  // the Return that all rules share
  if (kept.complete) places.emplace_back(kEnd, 0);
  return state_of(std::move(places));
}

}  // namespace luminal::text
