#include "codegen/barriers.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace luminal::codegen {
namespace {

using Kind = Instruction::Kind;

/// Which values and variables may differ between the threads of a block. What loops carry is followed until nothing
/// changes any more.
class Differences {
 public:
  Differences(const Program& program, const Stage& stage) : program_(program), differs_(stage.value_count) {
    variables_.insert(stage.thread_variable);
    do {
      changed_ = false;
      block(stage.body, "");
    } while (changed_);
  }
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  [[nodiscard]] bool differs(const Expression& e) const {
    return std::ranges::any_of(e.to_indices(), [&](int v) { return variables_.contains(v); });
  }
  [[nodiscard]] bool differs(Id id) const { return id != kNone && differs_[id]; }
  [[nodiscard]] bool differs(const std::vector<Id>& ids) const {
    return std::ranges::any_of(ids, [&](Id id) { return differs(id); });
  }
  void mark(Id id) {
    changed_ = changed_ || !differs_[id];
    differs_[id] = true;
  }

  /// `why`: what keeps some threads out of the block; "" if all of them run it.
  void block(const Block& b, const std::string& why) {
    for (const Instruction& i : b) instruction(i, why);
  }

  void instruction(const Instruction& i, const std::string& why) {
    switch (i.kind) {
      case Kind::Barrier:
        if (!why.empty()) problem_ = why;
        return;
      case Kind::If:
        return block(i.body,
                     why.empty() && differs(i.operands)
                         ? fmt::format("a branch on %{}, which threads see differently", i.operands[0])
                         : why);
      case Kind::Loop:
        return loop(i, why);
      default:
        if (i.result != kNone && (differs(i.operands) || differs(i.mask) || differs(i.index) || reads_own(i)))
          mark(i.result);
    }
  }

  /// Whether it reads what threads write.
  [[nodiscard]] bool reads_own(const Instruction& i) const {
    if (i.buffer < 0) return false;
    const Space space = program_.buffers[static_cast<size_t>(i.buffer)].space;
    return space != Space::Slot && space != Space::Table && space != Space::Prepared;
  }

  void loop(const Instruction& i, const std::string& why) {
    const bool uneven = differs(i.extent);
    if (uneven && variables_.insert(i.variable).second) changed_ = true;
    block(i.body, why.empty() && uneven ? fmt::format("a loop of {} passes, which threads see differently",
                                                      i.extent.to_string())
                                        : why);
    for (size_t k = 0; k < i.initial.size(); ++k) {
      const bool carried = differs(i.initial[k]) || differs(i.next[k]);
      if (carried) mark(i.carried[k]);
      if (carried || uneven) mark(i.results[k]);
    }
  }

  const Program& program_;
  std::vector<bool> differs_;
  std::set<int> variables_;
  bool changed_ = false;
  std::string problem_;
};

}  // namespace

std::string barrier_problem(const Program& program, const Stage& stage) {
  return stage.threads > 1 ? Differences(program, stage).problem() : "";
}

}  // namespace luminal::codegen
