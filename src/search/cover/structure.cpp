#include "search/cover/structure.h"

#include <algorithm>
#include <limits>
#include <map>
#include <ranges>
#include <unordered_set>
#include <utility>

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
    structure.push_back(combine(combine(each.label, each.alternatives.size()),
                                (each.wanted ? 1U : 0U) + (each.no_recompute ? 2U : 0U) +
                                    (each.host >= 0 ? 4U : 0U) + (each.unstored ? 8U : 0U)));
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

/// Knuth's generalisation of breadth-first search: a class is reached when all arguments of one of its ways
/// are.
std::vector<int> depths(const CoverProblem& problem) {
  struct Way {
    int made;     ///< class
    size_t open;  ///< arguments that are not reached yet
  };
  std::vector<Way> ways;
  std::vector<std::vector<size_t>> waiting(problem.classes.size());  // ways, by argument
  std::vector<int> depth(problem.classes.size(), kUnreached), reached;
  const auto reach = [&](int c, int at) {
    if (depth[static_cast<size_t>(c)] != kUnreached) return;
    depth[static_cast<size_t>(c)] = at;
    reached.push_back(c);
  };
  for (int c = 0; c < static_cast<int>(depth.size()); ++c) {
    const auto& each = problem.classes[static_cast<size_t>(c)];
    const auto add = [&](const std::vector<int>& arguments) {
      for (const int a : arguments) waiting[static_cast<size_t>(a)].push_back(ways.size());
      ways.push_back({c, arguments.size()});
      if (arguments.empty()) reach(c, 0);
    };
    if (each.host >= 0)
      add(problem.hosts[static_cast<size_t>(each.host)].inputs);
    else if (each.alternatives.empty())
      reach(c, 0);
    for (const auto& alternative : each.alternatives) add(alternative.arguments);
  }
  for (size_t i = 0; i < reached.size(); ++i) {
    const auto at = static_cast<size_t>(reached[i]);
    for (const size_t way : waiting[at])
      if (--ways[way].open == 0) reach(ways[way].made, depth[at] + 1);
  }
  return depth;
}

/// Sweeps up and down the depths, each class with what is known of its arguments and readers by then: news
/// cross the whole graph in one sweep, where a round moves them by one step.
class Sweeps {
 public:
  Sweeps(const CoverProblem& problem, const SpecStore& store, const std::vector<int>& depth)
      : problem_(problem), store_(store), readings_(problem.classes.size()) {
    std::map<int, std::vector<size_t>> by_depth;
    for (size_t c = 0; c < depth.size(); ++c) by_depth[depth[c]].push_back(c);
    for (auto& [at, classes] : by_depth) levels_.push_back(std::move(classes));
    for (size_t c = 0; c < depth.size(); ++c)
      for (const auto& alternative : problem.classes[c].alternatives)
        for (size_t slot = 0; slot < alternative.arguments.size(); ++slot)
          readings_[static_cast<size_t>(alternative.arguments[slot])].push_back(
              {c, combine(store.at(alternative.spec).hash(), slot)});
  }

  void sweep(Hashes& now) const {
    const auto level = [&](const std::vector<size_t>& classes, auto&& news) {
      Hashes next;
      for (const size_t c : classes) next.push_back(combine(now[c], news(c)));
      for (size_t i = 0; i < classes.size(); ++i) now[classes[i]] = next[i];
    };
    for (const auto& classes : levels_) level(classes, [&](size_t c) { return made(c, now); });
    for (const auto& classes : std::views::reverse(levels_))
      level(classes, [&](size_t c) { return read(c, now); });
  }

 private:
  [[nodiscard]] uint64_t made(size_t c, const Hashes& now) const {
    Hashes ways;
    const auto add = [&](uint64_t own, const std::vector<int>& arguments) {
      for (const int a : arguments) own = combine(own, now[static_cast<size_t>(a)]);
      ways.push_back(own);
    };
    const auto& own = problem_.classes[c];
    for (const auto& alternative : own.alternatives)
      add(store_.at(alternative.spec).hash(), alternative.arguments);
    if (own.host >= 0) {
      const auto& host = problem_.hosts[static_cast<size_t>(own.host)];
      add(host.label, host.inputs);
    }
    return combined(std::move(ways));
  }
  [[nodiscard]] uint64_t read(size_t c, const Hashes& now) const {
    Hashes readers;
    for (const Reading& reading : readings_[c]) readers.push_back(combine(now[reading.reader], reading.how));
    return combined(std::move(readers));
  }

  struct Reading {
    size_t reader;
    uint64_t how;
  };
  const CoverProblem& problem_;
  const SpecStore& store_;
  std::vector<std::vector<size_t>> levels_;  ///< classes by depth
  std::vector<std::vector<Reading>> readings_;
};

}  // namespace

Structure structure_of(const CoverProblem& problem, const SpecStore& store) {
  Structure result;
  result.depth = depths(problem);
  Hashes now = initial(problem);
  for (int round = 0; round < kShapeRounds; ++round) now = refined(problem, store, now);
  result.shape = now;
  const Sweeps sweeps(problem, store, result.depth);
  for (size_t before = 0, count = distinct(now); count > before;) {
    sweeps.sweep(now);
    before = std::exchange(count, distinct(now));
  }
  result.exact = std::move(now);
  return result;
}

}  // namespace luminal::search
