#include "search/cover/plan_graph.h"

#include <algorithm>
#include <iterator>
#include <tuple>

namespace luminal::search {

PlanGraph::PlanGraph(const CoverProblem& problem, const Structure& structure,
                     const std::vector<std::vector<Fusion>>& fusions, bool guessed)
    : problem_(problem),
      structure_(structure),
      fusions_(fusions),
      by_cost_(fusions.size()),
      forced_(problem.classes.size(), 0) {
  for (size_t c = 0; c < fusions.size(); ++c) {
    for (size_t i = 0; i < fusions[c].size(); ++i)
      by_cost_[c].push_back({static_cast<int>(i), fusions[c][i].cost_us});
    sort(c);
  }
  find_needs();
  if (guessed) add_guesses();
  for (size_t c = 0; c < forced_.size(); ++c)
    forced_[c] = problem.classes[c].wanted || problem.classes[c].alternatives.empty() ? 1 : 0;
  for (const auto& host : problem.hosts)
    for (const int input : host.inputs) forced_[static_cast<size_t>(input)] = 1;
  for (int c = 0; c < class_count(); ++c)
    if (problem.classes[static_cast<size_t>(c)].wanted) roots_.push_back(c);
  std::ranges::sort(roots_, {}, [&](int c) {
    return std::tuple(structure.depth[static_cast<size_t>(c)], structure.exact[static_cast<size_t>(c)], c);
  });
  for (const auto& each : problem.classes) host_of_.push_back(class_count() + each.host);
  for (size_t h = 0; h < problem.hosts.size(); ++h) {
    if (problem.hosts[h].must_run) roots_.push_back(class_count() + static_cast<int>(h));
    host_reads_.push_back(problem.hosts[h].inputs);
    for (const int other : problem.hosts[h].after) host_reads_.back().push_back(class_count() + other);
  }
  link();
}

void PlanGraph::find_needs() {
  const auto computes_once = [&](int c) { return problem_.classes[static_cast<size_t>(c)].no_recompute; };
  std::vector<std::pair<size_t, size_t>> ends;  // of leaves and once, in needed_, which moves while it grows
  for (const auto& list : fusions_) {
    first_need_.push_back(needs_.size());
    for (const Fusion& fusion : list) {
      needs_.push_back({{}, {}, fusion.downhill});
      needed_.insert(needed_.end(), fusion.leaves.begin(), fusion.leaves.end());
      const size_t leaves = needed_.size();
      std::ranges::copy_if(fusion.interior, std::back_inserter(needed_), computes_once);
      ends.emplace_back(leaves, needed_.size());
    }
  }
  for (size_t i = 0, begin = 0; i < ends.size(); begin = ends[i++].second) {
    needs_[i].leaves = std::span(needed_).subspan(begin, ends[i].first - begin);
    needs_[i].once = std::span(needed_).subspan(ends[i].first, ends[i].second - ends[i].first);
  }
}

void PlanGraph::add_guesses() {
  for (size_t c = 0; c < fusions_.size(); ++c)
    for (size_t place = 0; place < fusions_[c].size(); ++place) {
      Guess& guess = guesses_[fusions_[c][place].spec];
      if (guess.classes.empty() || guess.classes.back() != static_cast<int>(c))
        guess.classes.push_back(static_cast<int>(c));
      guess.mark = std::min(guess.mark, Mark(structure_.exact[c], place));
    }
}

void PlanGraph::link() {
  readers_.resize(problem_.classes.size());
  possible_readers_.resize(node_count());
  const auto add = [](std::vector<int>& list, int node) {
    if (list.empty() || list.back() != node) list.push_back(node);
  };
  for (int c = 0; c < class_count(); ++c) {
    for (const Fusion& fusion : fusions_[static_cast<size_t>(c)]) {
      for (const int leaf : fusion.leaves) {
        add(readers_[static_cast<size_t>(leaf)], c);
        add(possible_readers_[static_cast<size_t>(leaf)], c);
      }
      for (const int inner :
           needs(c, static_cast<int>(&fusion - fusions_[static_cast<size_t>(c)].data())).once)
        add(readers_[static_cast<size_t>(inner)], c);
    }
    if (problem_.classes[static_cast<size_t>(c)].host >= 0)
      add(possible_readers_[static_cast<size_t>(host_of_[static_cast<size_t>(c)])], c);
  }
  for (size_t h = 0; h < host_reads_.size(); ++h)
    for (const int read : host_reads_[h])
      add(possible_readers_[static_cast<size_t>(read)], class_count() + static_cast<int>(h));
}

/// Of equal costs the one that stands first stays first.
void PlanGraph::sort(size_t c) {
  std::ranges::sort(by_cost_[c], {}, [](const Entry& e) { return std::pair(e.cost_us, e.fusion); });
}

PlanGraph::Entry PlanGraph::cheapest(int c, const std::vector<char>& in_memory, bool downhill) const {
  const auto ready = [&](int leaf) { return in_memory[static_cast<size_t>(leaf)] != 0; };
  for (const Entry& entry : by_cost_[static_cast<size_t>(c)]) {
    const Needs& own = needs(c, entry.fusion);
    if (downhill && !own.downhill) continue;
    // What is computed once and is in memory is computed elsewhere.
    if (std::ranges::all_of(own.leaves, ready) && std::ranges::none_of(own.once, ready)) return entry;
  }
  return {};
}

bool PlanGraph::may_change(int c, const Entry& cheapest, int changed, bool is_in_memory) const {
  if (cheapest.fusion < 0 || problem_.classes[static_cast<size_t>(changed)].no_recompute) return true;
  const auto reads_it = [&](int number) {
    const std::span<const int> leaves = needs(c, number).leaves;
    return std::ranges::find(leaves, changed) != leaves.end();
  };
  if (!is_in_memory) return reads_it(cheapest.fusion);
  for (const Entry& entry : by_cost_[static_cast<size_t>(c)]) {
    if (entry.fusion == cheapest.fusion) return false;
    if (reads_it(entry.fusion)) return true;
  }
  return true;
}

std::span<const int> PlanGraph::reads(int node, int number) const {
  const auto at = static_cast<size_t>(node);
  if (node >= class_count()) return host_reads_[at - problem_.classes.size()];
  if (problem_.classes[at].host >= 0) return std::span(&host_of_[at], 1);
  if (number < 0) return {};
  return needs(node, number).leaves;
}

std::vector<int> PlanGraph::set_price(SpecId guess, double cost_us) {
  const auto known = guesses_.find(guess);
  std::vector<int> classes = std::move(known->second.classes);
  guesses_.erase(known);
  for (const int c : classes) {
    for (Entry& entry : by_cost_[static_cast<size_t>(c)])
      if (fusion(c, entry.fusion).spec == guess) entry.cost_us = cost_us;
    sort(static_cast<size_t>(c));
  }
  return classes;
}

}  // namespace luminal::search
