#pragma once
#include <limits>
#include <vector>

#include "search/colours.h"
#include "search/cover.h"

namespace luminal::search {

/// A kernel that computes a class: what it reads, and what it computes on the way.
struct Cone {
  SpecId spec = 0;
  std::vector<int> leaves;    ///< classes by slot, each once
  std::vector<int> interior;  ///< ascending, the root not counted
  double cost_us = 0;
  bool downhill = true;  ///< every leaf lies below the root (Colours::depth): such cones never close a cycle
};

/// Costs of interned specs, each computed once.
class CostTable {
 public:
  CostTable(const SpecStore& store, const SpecCost& cost) : store_(&store), cost_(&cost) {}
  double of(SpecId spec) {
    if (spec >= known_.size()) known_.resize(spec + 64, -1);
    if (known_[spec] < 0) known_[spec] = (*cost_)(store_->at(spec));
    return known_[spec];
  }

 private:
  const SpecStore* store_;
  const SpecCost* cost_;
  std::vector<double> known_;
};

/// The best `keep` cones of each class, cheapest first. Cones grow from the root: the deepest leaf that is
/// undecided stays a leaf or is replaced by one of its own alternatives, in every place where it is read.
/// What counts is a cone's own cost and a share of what its leaves cost.
[[nodiscard]] std::vector<std::vector<Cone>> find_cones(const CoverProblem& problem, const Colours& colours,
                                                        SpecStore& store, CostTable& costs, int keep);

}  // namespace luminal::search
