#pragma once
#include <vector>

#include "search/cones.h"

namespace luminal::search {

/// Which classes are in memory, and the cone each of them takes.
struct Choice {
  std::vector<int> cone;  ///< by class; -1: nobody needs the class in memory
  double cost_us = 0;
  int flips = 0;
};

/// Chooses what is in memory: everything at first, then one colour at a time is taken out or put back while
/// the plan gets cheaper. Each class in memory takes its cheapest cone over the others; a cycle makes the
/// classes on it take downhill cones.
class Chooser {
 public:
  Chooser(const CoverProblem& problem, const Colours& colours, const std::vector<std::vector<Cone>>& cones);
  /// Errors: InternalError if there is no plan at all.
  Choice run();
  /// Cost of the plan over the given classes in memory, infinite if there is none. For tests: an exhaustive
  /// search asks for every subset.
  double cost_of(const std::vector<char>& in_memory);
  /// Classes that must be in memory.
  [[nodiscard]] const std::vector<char>& forced() const { return forced_; }

 private:
  struct Walk;
  [[nodiscard]] int cheapest(int c, const std::vector<char>& in_memory,
                             const std::vector<char>& restricted) const;
  [[nodiscard]] bool leaf_ready(int c, const std::vector<char>& in_memory) const;
  /// One depth-first walk from what is wanted. False if it meets a cycle, whose classes become restricted.
  bool walk(const std::vector<char>& in_memory, std::vector<char>& restricted, Choice& choice,
            bool& possible);
  double plan(const std::vector<char>& in_memory, Choice& choice);
  [[nodiscard]] std::vector<std::vector<int>> groups() const;

  const CoverProblem& problem_;
  const Colours& colours_;
  const std::vector<std::vector<Cone>>& cones_;
  std::vector<char> forced_;
  std::vector<int> roots_;  ///< wanted classes, then hosts that must run (numbered behind the classes)
};

}  // namespace luminal::search
