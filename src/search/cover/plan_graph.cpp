#include "search/cover/plan_graph.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <unordered_map>

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
  find_bits();
  guess_of_.assign(needs_.size(), -1);
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

void PlanGraph::find_bits() {
  constexpr size_t kBits = 64;
  readers_.resize(problem_.classes.size());
  std::vector<int> bit_of(problem_.classes.size(), -1), asked;  // of the class at hand
  for (int c = 0; c < class_count(); ++c) {
    const auto fusions = static_cast<int>(fusions_[static_cast<size_t>(c)].size());
    const auto each_list = [&](const auto& visit) {
      for (int number = 0; number < fusions; ++number) {
        const Needs& own = needs(c, number);
        visit(own.leaves, 2 * static_cast<size_t>(number));
        visit(own.once, 2 * static_cast<size_t>(number) + 1);
      }
    };
    each_list([&](std::span<const int> list, size_t) {
      for (const int other : list)
        if (int& bit = bit_of[static_cast<size_t>(other)]; bit < 0) {
          bit = static_cast<int>(asked.size());
          asked.push_back(other);
        }
    });
    const Bits own{words_, (asked.size() + kBits - 1) / kBits, masks_.size()};
    bits_.push_back(own);
    words_ += own.words;
    masks_.resize(masks_.size() + 2 * own.words * static_cast<size_t>(fusions), 0);
    each_list([&](std::span<const int> list, size_t mask) {
      for (const int other : list) {
        const auto bit = static_cast<size_t>(bit_of[static_cast<size_t>(other)]);
        masks_[own.masks + mask * own.words + bit / kBits] |= uint64_t{1} << bit % kBits;
      }
    });
    for (size_t bit = 0; bit < asked.size(); ++bit) {
      const auto at = static_cast<size_t>(asked[bit]);
      readers_[at].push_back({c, own.first + bit / kBits, uint64_t{1} << bit % kBits});
      bit_of[at] = -1;
    }
    asked.clear();
  }
}

PlanGraph::Ready PlanGraph::ready_of(const std::vector<char>& in_memory) const {
  Ready ready(words_, 0);
  for (size_t c = 0; c < in_memory.size(); ++c)
    if (in_memory[c] != 0)
      for (const Reader& reader : readers_[c]) ready[reader.word] |= reader.bit;
  return ready;
}

void PlanGraph::add_guesses() {
  std::unordered_map<SpecId, int> numbers;
  for (int c = 0; c < class_count(); ++c) {
    const std::vector<Fusion>& fusions = fusions_[static_cast<size_t>(c)];
    for (size_t place = 0; place < fusions.size(); ++place) {
      const auto [known, fresh] = numbers.try_emplace(fusions[place].spec, static_cast<int>(guesses_.size()));
      if (fresh) guesses_.push_back({.spec = fusions[place].spec, .cost_us = fusions[place].cost_us});
      guess_of_[need_of(c, static_cast<int>(place))] = known->second;
      Guess& guess = guesses_[static_cast<size_t>(known->second)];
      if (guess.classes.empty() || guess.classes.back() != c) guess.classes.push_back(c);
      guess.mark = std::min(guess.mark, std::pair(structure_.exact[static_cast<size_t>(c)], place));
    }
  }
}

void PlanGraph::link() {
  possible_readers_.resize(node_count());
  const auto add = [](std::vector<int>& list, int node) {
    if (list.empty() || list.back() != node) list.push_back(node);
  };
  for (int c = 0; c < class_count(); ++c) {
    for (const Fusion& fusion : fusions_[static_cast<size_t>(c)])
      for (const int leaf : fusion.leaves) add(possible_readers_[static_cast<size_t>(leaf)], c);
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

PlanGraph::Entry PlanGraph::cheapest(int c, const Ready& ready, bool downhill) const {
  const Bits& bits = bits_[static_cast<size_t>(c)];
  const uint64_t* const there = ready.data() + bits.first;
  for (const Entry& entry : by_cost_[static_cast<size_t>(c)]) {
    if (downhill && !needs(c, entry.fusion).downhill) continue;
    const uint64_t* const leaves =
        masks_.data() + bits.masks + 2 * static_cast<size_t>(entry.fusion) * bits.words;
    const uint64_t* const once = leaves + bits.words;
    bool is_open = true;
    // What is computed once and is in memory is computed elsewhere.
    for (size_t w = 0; w < bits.words && is_open; ++w)
      is_open = (leaves[w] & ~there[w]) == 0 && (once[w] & there[w]) == 0;
    if (is_open) return entry;
  }
  return {};
}

std::span<const int> PlanGraph::reads(int node, int number) const {
  const auto at = static_cast<size_t>(node);
  if (node >= class_count()) return host_reads_[at - problem_.classes.size()];
  if (problem_.classes[at].host >= 0) return std::span(&host_of_[at], 1);
  if (number < 0) return {};
  return needs(node, number).leaves;
}

std::vector<int> PlanGraph::set_price(int guess, double cost_us) {
  Guess& known = guesses_[static_cast<size_t>(guess)];
  for (const int c : known.classes) {
    for (Entry& entry : by_cost_[static_cast<size_t>(c)])
      if (int& own = guess_of_[need_of(c, entry.fusion)]; own == guess) {
        entry.cost_us = cost_us;
        own = -1;
      }
    sort(static_cast<size_t>(c));
  }
  return std::exchange(known.classes, {});
}

}  // namespace luminal::search
