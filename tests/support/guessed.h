#pragma once
#include <map>

#include "search/choice.h"

namespace luminal::search::test {

/// A choice over the same cones by one whose costs are guesses at first, `least` to `most` times what they
/// are, and prices only where it asks for them.
struct GuessedChoice {
  Choice choice;
  double true_cost_us = 0;
  size_t asked = 0, specs = 0;

  GuessedChoice(const CoverProblem& problem, const Colours& colours, std::vector<std::vector<Cone>> cones,
                double least = 0.4, double most = 1.05) {
    std::map<SpecId, double> prices;
    for (auto& list : cones)
      for (Cone& cone : list) {
        prices[cone.spec] = cone.cost_us;
        cone.cost_us *= least + (most - least) * static_cast<double>(cone.spec * 7919 % 14) / 13;
      }
    Chooser chooser(problem, colours, cones, [&](SpecId spec) {
      ++asked;
      return prices.at(spec);
    });
    choice = chooser.run();
    for (size_t c = 0; c < cones.size(); ++c)
      if (choice.cone[c] >= 0) true_cost_us += prices.at(cones[c][static_cast<size_t>(choice.cone[c])].spec);
    specs = prices.size();
  }
};

}  // namespace luminal::search::test
