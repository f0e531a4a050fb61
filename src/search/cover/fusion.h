#pragma once
#include <limits>
#include <mutex>
#include <vector>

#include "base/short_lock.h"
#include "search/cover/cover.h"
#include "search/cover/structure.h"

namespace luminal::search {

/// How far a fusion may grow. A fusion that computes a value of its interior anew for each place that reads
/// it does more work with every step of a chain (a sorting network doubles it), so that its size and the time
/// to compose it would grow exponentially with its depth.
struct FusionLimits {
  /// Compositions tried for one root and kept fusion, cheapest fusions first: a bound on the time that a
  /// class takes. Leaves that are still undecided then stay leaves.
  int compositions = 10;
  /// A growing fusion is given up if it costs this many times the best one more than the best one does, at
  /// least where `kUsual` are kept.
  double worse = 3;
  static constexpr double kUsual = 8;
  double repeats = 4;  ///< operations of a fusion's kernel, at most, over those of its classes computed once
};

/// A kernel that computes a class: what it reads, and what it computes on the way.
struct Fusion {
  SpecId spec = 0;
  std::vector<int> leaves;    ///< classes by slot, each once
  std::vector<int> interior;  ///< ascending, the root not counted
  double cost_us = 0;
  bool downhill =
      true;  ///< every leaf lies below the root (Structure::depth): such fusions never close a cycle
};

/// Costs of interned specs, each computed once. Thread safety: any thread may ask if the costs are shared.
class CostTable {
 public:
  /// `known`: where costs are kept, if they are to outlive the table. `shared`: several threads may ask for them.
  CostTable(const SpecStore& store, const SpecCost& cost, std::vector<double>* known = nullptr,
            bool shared = false)
      : store_(&store), cost_(&cost), known_(known != nullptr ? known : &own_), shared_(shared) {}
  CostTable(const CostTable&) = delete;
  CostTable& operator=(const CostTable&) = delete;
  [[nodiscard]] bool is_shared() const { return shared_; }
  double of(SpecId spec) {
    {
      const auto lock = short_lock(mutex_);
      if (spec >= known_->size()) known_->resize(store_->size(), -1);
      if (const double cost = (*known_)[spec]; cost >= 0) return cost;
    }
    const double cost = (*cost_)(store_->at(spec));
    const auto lock = short_lock(mutex_);
    return (*known_)[spec] = cost;
  }

 private:
  const SpecStore* store_;
  const SpecCost* cost_;
  std::vector<double> own_;
  std::vector<double>* known_;
  bool shared_;
  std::mutex mutex_;  ///< of `known_`
};

/// The best `keep` fusions of each class, cheapest first. Fusions grow from the root: the deepest leaf that
/// is undecided stays a leaf or is replaced by one of its own alternatives, in every place where it is read.
/// What counts is a fusion's own cost and a share of what its leaves cost.
[[nodiscard]] std::vector<std::vector<Fusion>> find_fusions(const CoverProblem& problem,
                                                            const Structure& structure, SpecStore& store,
                                                            CostTable& costs, int keep);

}  // namespace luminal::search
