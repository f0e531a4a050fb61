#pragma once
#include <functional>
#include <queue>
#include <span>
#include <vector>

#include "search/cover/cover.h"
#include "search/cover/topological_order.h"

namespace luminal::search {

/// Launches of a cover and what each waits for: kernels 0 .., hosts behind them.
class Launches {
  [[nodiscard]] auto reads() const {
    return [this](int launch) -> const std::vector<int>& { return waits_for(launch); };
  }

 public:
  Launches(const CoverProblem& problem, const Cover& cover);
  [[nodiscard]] size_t size() const { return waits_.size(); }
  [[nodiscard]] bool is_kernel(int launch) const { return launch >= 0 && launch < kernels_; }
  /// Of a class; -1: it is an input, or nobody needs it.
  [[nodiscard]] int maker(int c) const { return makers_[static_cast<size_t>(c)]; }
  [[nodiscard]] const std::vector<int>& waits_for(int launch) const {
    return waits_[static_cast<size_t>(launch)];
  }

  [[nodiscard]] bool waits(int launch, int other) { return order_.needs(launch, other, true, reads()); }
  /// Through at least one other launch.
  [[nodiscard]] bool waits_indirectly(int launch, int other) {
    return order_.needs(launch, other, false, reads());
  }

  /// One launch, `first`, does what two did; `outputs` are those of the other. No third launch lies between
  /// the two.
  void merge(int first, int second, std::span<const int> outputs);

  /// All that do not wait for each other in a circle, those with the least key first.
  template <class Key>
  [[nodiscard]] std::vector<int> in_order(const Key& key) const {
    using Entry = std::pair<decltype(key(0)), int>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    std::vector<size_t> open;
    for (size_t l = 0; l < size(); ++l) {
      open.push_back(waits_[l].size());
      if (open[l] == 0) ready.emplace(key(static_cast<int>(l)), static_cast<int>(l));
    }
    std::vector<int> list;
    while (!ready.empty()) {
      list.push_back(ready.top().second);
      ready.pop();
      for (const int reader : readers_[static_cast<size_t>(list.back())])
        if (--open[static_cast<size_t>(reader)] == 0) ready.emplace(key(reader), reader);
    }
    return list;
  }

 private:
  void add(int launch, int waited);

  int kernels_;
  std::vector<int> makers_;
  std::vector<std::vector<int>> waits_, readers_;  ///< each launch once
  TopologicalOrder order_;
};

}  // namespace luminal::search
