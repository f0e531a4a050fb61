#include "search/cover/structure.h"

#include <algorithm>
#include <limits>
#include <unordered_set>

#include "base/hash.h"

namespace luminal::search {
namespace {

constexpr int kShapeRounds = 4;
constexpr int kUnreached = std::numeric_limits<int>::max();

using Hashes = std::vector<uint64_t>;

uint64_t combined(Hashes list) {
  std::ranges::sort(list);
  uint64_t hash = list.size();
  for (const uint64_t each : list) hash = combine(hash, each);
  return hash;
}

Hashes initial(const CoverProblem& problem) {
  Hashes structure;
  for (const auto& each : problem.classes)
    structure.push_back(
        combine(combine(each.label, each.alternatives.size()),
                (each.wanted ? 1U : 0U) + (each.no_recompute ? 2U : 0U) + (each.host >= 0 ? 4U : 0U)));
  return structure;
}

/// One round: each class takes in how it is made and who reads it.
Hashes refined(const CoverProblem& problem, const SpecStore& store, const Hashes& before) {
  std::vector<Hashes> made(before.size()), read(before.size());
  for (size_t c = 0; c < before.size(); ++c) {
    for (const auto& alternative : problem.classes[c].alternatives) {
      uint64_t own = store.at(alternative.spec).hash();
      for (const int argument : alternative.arguments)
        own = combine(own, before[static_cast<size_t>(argument)]);
      made[c].push_back(own);
      for (size_t slot = 0; slot < alternative.arguments.size(); ++slot)
        read[static_cast<size_t>(alternative.arguments[slot])].push_back(
            combine(combine(before[c], store.at(alternative.spec).hash()), slot));
    }
    if (problem.classes[c].host < 0) continue;
    const auto& host = problem.hosts[static_cast<size_t>(problem.classes[c].host)];
    uint64_t own = host.label;
    for (const int input : host.inputs) own = combine(own, before[static_cast<size_t>(input)]);
    made[c].push_back(own);
  }
  for (const auto& host : problem.hosts)
    for (size_t i = 0; i < host.inputs.size(); ++i)
      read[static_cast<size_t>(host.inputs[i])].push_back(combine(host.label, i));
  Hashes after;
  for (size_t c = 0; c < before.size(); ++c)
    after.push_back(combine(combine(before[c], combined(std::move(made[c]))), combined(std::move(read[c]))));
  return after;
}

size_t distinct(const Hashes& structure) {
  return std::unordered_set<uint64_t>(structure.begin(), structure.end()).size();
}

std::vector<int> depths(const CoverProblem& problem) {
  std::vector<int> depth(problem.classes.size(), kUnreached);
  const auto of = [&](const std::vector<int>& arguments) {
    int deepest = -1;
    for (const int a : arguments) {
      if (depth[static_cast<size_t>(a)] == kUnreached) return kUnreached;
      deepest = std::max(deepest, depth[static_cast<size_t>(a)]);
    }
    return deepest + 1;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t c = 0; c < depth.size(); ++c) {
      const auto& each = problem.classes[c];
      int best = kUnreached;
      if (each.host >= 0)
        best = of(problem.hosts[static_cast<size_t>(each.host)].inputs);
      else if (each.alternatives.empty())
        best = 0;
      for (const auto& alternative : each.alternatives) best = std::min(best, of(alternative.arguments));
      if (best < depth[c]) {
        depth[c] = best;
        changed = true;
      }
    }
  }
  return depth;
}

}  // namespace

Structure structure_of(const CoverProblem& problem, const SpecStore& store) {
  Structure result;
  result.depth = depths(problem);
  Hashes now = initial(problem);
  size_t count = distinct(now);
  for (int round = 0;; ++round) {
    Hashes next = refined(problem, store, now);
    const size_t more = distinct(next);
    now = std::move(next);
    if (round + 1 == kShapeRounds) result.shape = now;
    if (more == count && round + 1 >= kShapeRounds) break;
    count = more;
  }
  result.exact = std::move(now);
  return result;
}

}  // namespace luminal::search
