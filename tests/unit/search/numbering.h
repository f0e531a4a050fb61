#pragma once
#include <algorithm>
#include <vector>

#include "search/cover/cover.h"

/// Covers compared whatever numbers their classes have.
namespace luminal::test {}
namespace luminal::search::test {

using namespace luminal::test;  // one `test` for those who are in luminal::search

/// What a cover is, whatever its classes are numbered.
inline std::vector<uint64_t> launches(const Cover& cover, const SpecStore& store) {
  std::vector<uint64_t> list;
  for (const CoverStep& step : cover.steps)
    list.push_back(step.host >= 0 ? static_cast<uint64_t>(step.host)
                                  : store.at(cover.kernels[static_cast<size_t>(step.kernel)].spec).hash());
  return list;
}

/// The problem with classes numbered by `order`.
inline CoverProblem renumbered(const CoverProblem& problem, const std::vector<int>& order) {
  std::vector<int> place(order.size());
  for (size_t i = 0; i < order.size(); ++i) place[static_cast<size_t>(order[i])] = static_cast<int>(i);
  CoverProblem result = problem;
  const auto rename = [&](std::vector<int>& list) {
    for (int& c : list) c = place[static_cast<size_t>(c)];
  };
  for (auto& host : result.hosts) rename(host.inputs);
  for (size_t c = 0; c < order.size(); ++c) {
    auto& own = result.classes[static_cast<size_t>(place[c])] = problem.classes[c];
    for (auto& alternative : own.alternatives) rename(alternative.arguments);
    std::ranges::reverse(own.alternatives);
  }
  return result;
}

}  // namespace luminal::search::test
