#pragma once
#include <map>

#include "search/cover/selection.h"

namespace luminal::search::test {

/// A selection over the same fusions by one whose costs are guesses at first, `least` to `most` times what
/// they are, and prices only where it asks for them.
struct GuessedChoice {
  Selection selection;
  double true_cost_us = 0;
  size_t asked = 0, specs = 0;

  GuessedChoice(const CoverProblem& problem, const Structure& structure,
                std::vector<std::vector<Fusion>> fusions, double least = 0.4, double most = 1.05) {
    std::map<SpecId, double> prices;
    for (auto& list : fusions)
      for (Fusion& fusion : list) {
        prices[fusion.spec] = fusion.cost_us;
        fusion.cost_us *= least + (most - least) * static_cast<double>(fusion.spec * 7919 % 14) / 13;
      }
    Selector selector(problem, structure, fusions, [&](SpecId spec) {
      ++asked;
      return prices.at(spec);
    });
    selection = selector.run();
    for (size_t c = 0; c < fusions.size(); ++c)
      if (selection.fusion[c] >= 0)
        true_cost_us += prices.at(fusions[c][static_cast<size_t>(selection.fusion[c])].spec);
    specs = prices.size();
  }
};

}  // namespace luminal::search::test
