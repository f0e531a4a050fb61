#include "text/grammar/program.h"

#include <algorithm>
#include <numeric>

#include "base/fail.h"
#include "text/unicode.h"

namespace luminal::text {
namespace {

using Op = GrammarProgram::Op;
using NodeKind = GrammarNode::Kind;

constexpr size_t kMostInstructions = size_t{1} << 18;

/// Builds from the end: what is emitted goes on at `next`.
class GrammarCompiler {
 public:
  explicit GrammarCompiler(const GrammarSyntax& syntax) : syntax_(syntax), starts_(syntax.names.size()) {}

  GrammarProgram compile() {
    const uint32_t end = add({.op = Op::Return});
    for (size_t rule = 0; rule < starts_.size(); ++rule) starts_[rule] = emit(syntax_.bodies[rule], end);
    check_left_recursion();
    for (auto& instruction : program_.instructions)
      if (instruction.op == Op::Call) instruction.other = starts_[instruction.other];
    program_.start = starts_[syntax_.root];
    return std::move(program_);
  }

 private:
  uint32_t add(GrammarProgram::Instruction instruction) {
    if (program_.instructions.size() == kMostInstructions)
      fail<FormatError>("[grammar] it unfolds to more than {} steps; make its repetitions smaller",
                        kMostInstructions);
    program_.instructions.push_back(instruction);
    return static_cast<uint32_t>(program_.instructions.size() - 1);
  }
  uint32_t byte(uint8_t first, uint8_t last, uint32_t next) {
    return add({.op = Op::Byte, .first = first, .last = last, .next = next});
  }
  uint32_t split(uint32_t one, uint32_t other) { return add({.op = Op::Split, .next = one, .other = other}); }

  uint32_t emit(const GrammarNode& node, uint32_t next) {
    switch (node.kind) {
      case NodeKind::Literal:
        for (size_t i = node.literal.size(); i > 0; --i) {
          const auto c = static_cast<uint8_t>(node.literal[i - 1]);
          next = byte(c, c, next);
        }
        return next;
      case NodeKind::Class:
        return characters(node, next);
      case NodeKind::Rule:
        return add({.op = Op::Call, .next = next, .other = node.rule});
      case NodeKind::Sequence:
        for (size_t i = node.parts.size(); i > 0; --i) next = emit(node.parts[i - 1], next);
        return next;
      case NodeKind::Choice: {
        uint32_t start = emit(node.parts.back(), next);
        for (size_t i = node.parts.size() - 1; i > 0; --i)
          start = split(emit(node.parts[i - 1], next), start);
        return start;
      }
      case NodeKind::Repeat:
        break;
    }
    const GrammarNode& part = node.parts.front();
    uint32_t start = next;
    if (node.most == GrammarNode::kUnbounded) {
      start = split(next, next);
      const uint32_t body = emit(part, start);
      program_.instructions[start].next = body;
    } else {
      for (uint32_t i = node.least; i < node.most; ++i) start = split(emit(part, start), next);
    }
    for (uint32_t i = 0; i < node.least; ++i) {
      const uint32_t longer = emit(part, start);
      if (longer == start) break;  // nothing, however often
      start = longer;
    }
    return start;
  }

  uint32_t characters(const GrammarNode& node, uint32_t next) {
    sequences_.clear();
    for (const auto& [first, last] : node.ranges) cut(first, last);
    if (sequences_.empty()) return byte(1, 0, next);  // the class of nothing
    uint32_t start = 0;
    for (size_t i = 0; i < sequences_.size(); ++i) {
      uint32_t chain = next;
      for (size_t k = sequences_[i].size(); k > 0; --k)
        chain = byte(sequences_[i][k - 1].first, sequences_[i][k - 1].second, chain);
      start = i == 0 ? chain : split(chain, start);
    }
    return start;
  }

  /// Cuts a range of characters where their UTF-8 is not a range in each byte, as RE2 does.
  void cut(char32_t first, char32_t last) {
    if (first <= 0xDFFF && last >= 0xD800) {  // surrogates are no characters
      if (first < 0xD800) cut(first, 0xD7FF);
      if (last > 0xDFFF) cut(0xE000, last);
      return;
    }
    for (const char32_t longest : {0x7F, 0x7FF, 0xFFFF})
      if (first <= longest && longest < last) {
        cut(first, longest);
        return cut(longest + 1, last);
      }
    const size_t length = utf8(first).size();
    for (size_t i = 1; i < length; ++i) {
      const char32_t low = (char32_t{1} << (6 * i)) - 1;
      if ((first & ~low) == (last & ~low)) continue;
      if ((first & low) != 0) {
        cut(first, first | low);
        return cut((first | low) + 1, last);
      }
      if ((last & low) != low) {
        cut(first, (last & ~low) - 1);
        return cut(last & ~low, last);
      }
    }
    const std::string from = utf8(first), to = utf8(last);
    auto& sequence = sequences_.emplace_back();
    for (size_t i = 0; i < length; ++i)
      sequence.emplace_back(static_cast<uint8_t>(from[i]), static_cast<uint8_t>(to[i]));
  }

  /// Walks from a rule's start without reading: returns whether its end is reached, and calls `call` for each rule
  /// on the way.
  template <class Call>
  bool reaches_end(uint32_t rule, const std::vector<bool>& empty, const Call& call) {
    visited_.resize(program_.instructions.size());
    ++walk_;
    std::vector<uint32_t> waiting{starts_[rule]};
    bool end = false;
    while (!waiting.empty()) {
      const uint32_t at = waiting.back();
      waiting.pop_back();
      if (visited_[at] == walk_) continue;
      visited_[at] = walk_;
      const auto& instruction = program_.instructions[at];
      if (instruction.op == Op::Return) end = true;
      if (instruction.op == Op::Split) waiting.insert(waiting.end(), {instruction.next, instruction.other});
      if (instruction.op == Op::Call) {
        call(instruction.other);
        if (empty[instruction.other]) waiting.push_back(instruction.next);
      }
    }
    return end;
  }

  /// Which rules derive the empty text: a rule is looked at again when one that it begins with turns out to.
  std::vector<bool> empty_rules() {
    std::vector<bool> empty(starts_.size());
    std::vector<std::vector<uint32_t>> callers(starts_.size());
    std::vector<uint32_t> waiting(starts_.size());
    std::iota(waiting.begin(), waiting.end(), 0U);
    while (!waiting.empty()) {
      const uint32_t rule = waiting.back();
      waiting.pop_back();
      if (empty[rule] || !reaches_end(rule, empty, [&](uint32_t called) { callers[called].push_back(rule); }))
        continue;
      empty[rule] = true;
      waiting.insert(waiting.end(), callers[rule].begin(), callers[rule].end());
    }
    return empty;
  }

  void check_left_recursion() {
    const std::vector<bool> empty = empty_rules();
    std::vector<std::vector<uint32_t>> calls(starts_.size());
    std::vector<uint32_t> callers(starts_.size()), free;
    for (uint32_t rule = 0; rule < starts_.size(); ++rule) {
      (void)reaches_end(rule, empty, [&](uint32_t called) { calls[rule].push_back(called); });
      for (const uint32_t called : calls[rule]) ++callers[called];
    }
    // What is left when rules without callers are taken away, again and again, is in a circle or behind one.
    for (uint32_t rule = 0; rule < callers.size(); ++rule)
      if (callers[rule] == 0) free.push_back(rule);
    size_t taken = 0;
    while (!free.empty()) {
      const uint32_t rule = free.back();
      free.pop_back();
      ++taken;
      for (const uint32_t called : calls[rule])
        if (--callers[called] == 0) free.push_back(called);
    }
    if (taken == callers.size()) return;
    const auto rule =
        std::ranges::find_if(callers, [](uint32_t count) { return count > 0; }) - callers.begin();
    fail<FormatError>(
        "[grammar] rule '{}' calls itself before it reads anything, or is called by one that does; write "
        "the recursion at the end of the rule, or as a repetition",
        syntax_.names[static_cast<size_t>(rule)]);
  }

  const GrammarSyntax& syntax_;
  std::vector<uint32_t> starts_;
  GrammarProgram program_;
  std::vector<uint64_t> visited_;  ///< by instruction: the last walk that came there
  uint64_t walk_ = 0;
  std::vector<std::vector<std::pair<uint8_t, uint8_t>>> sequences_;
};

}  // namespace

GrammarProgram compile_grammar(const GrammarSyntax& syntax) { return GrammarCompiler(syntax).compile(); }

}  // namespace luminal::text
