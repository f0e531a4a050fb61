#pragma once
#include <limits>
#include <vector>

#include "search/colours.h"
#include "search/cover.h"

namespace luminal::search {

/// How far a cone may grow. A cone that computes a value of its interior anew for each place that reads it
/// does more work with every step of a chain (a sorting network doubles it), so that its size and the time to
/// compose it would grow exponentially with its depth.
struct ConeLimits {
  /// Compositions tried for one root and kept cone, cheapest cones first: a bound on the time that a class
  /// takes. Leaves that are still undecided then stay leaves.
  int compositions = 5;
  /// A growing cone is given up if it costs this many times the best one more than the best one does, at
  /// least where `kUsual` are kept.
  double worse = 3;
  static constexpr double kUsual = 8;
  double repeats = 4;  ///< operations of a cone's kernel, at most, over those of its classes computed once
};

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
  /// `known`: where costs are kept, if they are to outlive the table.
  CostTable(const SpecStore& store, const SpecCost& cost, std::vector<double>* known = nullptr)
      : store_(&store), cost_(&cost), known_(known != nullptr ? known : &own_) {}
  CostTable(const CostTable&) = delete;
  CostTable& operator=(const CostTable&) = delete;
  double of(SpecId spec) {
    if (spec >= known_->size()) known_->resize(store_->size(), -1);
    double& cost = (*known_)[spec];
    if (cost < 0) cost = (*cost_)(store_->at(spec));
    return cost;
  }

 private:
  const SpecStore* store_;
  const SpecCost* cost_;
  std::vector<double> own_;
  std::vector<double>* known_;
};

/// The best `keep` cones of each class, cheapest first. Cones grow from the root: the deepest leaf that is
/// undecided stays a leaf or is replaced by one of its own alternatives, in every place where it is read.
/// What counts is a cone's own cost and a share of what its leaves cost.
[[nodiscard]] std::vector<std::vector<Cone>> find_cones(const CoverProblem& problem, const Colours& colours,
                                                        SpecStore& store, CostTable& costs, int keep);

}  // namespace luminal::search
