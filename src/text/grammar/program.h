#pragma once
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/grammar/syntax.h"

namespace luminal::text {

/// A grammar as an automaton over bytes, with calls of rules: characters of several bytes are chains of byte ranges,
/// so that tokens may end inside of one.
struct GrammarProgram {
  enum class Op : uint8_t { Byte, Split, Call, Return };
  struct Instruction {
    Op op = Op::Return;
    uint8_t first = 0, last = 0;  ///< Byte: the range
    uint32_t next = 0;            ///< Byte, Call: what follows; Split: one way on
    uint32_t other = 0;           ///< Call: where the rule begins; Split: the other way
  };
  std::vector<Instruction> instructions;
  uint32_t start = 0;
};

/// Errors: FormatError if the grammar is too large, or a rule calls itself before it reads anything.
[[nodiscard]] GrammarProgram compile_grammar(const GrammarSyntax& syntax);

/// Sets of places in a program, each with the stack of calls around it, as states of an automaton whose transitions
/// are found when they are first asked for.
class GrammarAutomaton {
 public:
  static constexpr uint32_t kDead = 0;

  explicit GrammarAutomaton(const GrammarProgram& program);
  [[nodiscard]] uint32_t start() const { return start_; }
  /// kDead if no text goes on like this. Errors: Error if there are too many places or states, or too deep a stack.
  [[nodiscard]] uint32_t next(uint32_t state, uint8_t byte);
  /// Whether the text may end there.
  [[nodiscard]] bool complete(uint32_t state) const { return states_[state].complete; }
  /// Forgets all states but this one if they have become many; returns its new name.
  [[nodiscard]] uint32_t trimmed(uint32_t state);
  /// Grows when states are forgotten: their names mean something else then.
  [[nodiscard]] uint64_t generation() const { return generation_; }

 private:
  /// A program counter in front of a Byte, and a stack.
  using Place = std::pair<uint32_t, uint32_t>;
  struct State {
    std::vector<Place> places;
    bool complete = false;
    std::vector<uint32_t> next;  ///< by byte; empty until asked for
  };
  struct Frame {
    uint32_t back = 0, parent = 0, depth = 0;
  };
  [[nodiscard]] uint32_t pushed(uint32_t back, uint32_t parent);
  [[nodiscard]] uint32_t state_of(std::vector<Place> places);
  const GrammarProgram& program_;
  std::vector<State> states_;
  std::unordered_multimap<uint64_t, uint32_t> names_;   ///< by hash of places
  std::vector<Frame> frames_;                           ///< the first is the empty stack
  std::unordered_map<uint64_t, uint32_t> frame_names_;  ///< by return address and parent
  uint32_t start_ = 0;
  uint64_t generation_ = 0;
};

}  // namespace luminal::text
