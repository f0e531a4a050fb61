#include "search/cover/launches.h"

#include <algorithm>
#include <utility>

#include "base/fail.h"

namespace luminal::search {

Launches::Launches(const CoverProblem& problem, const Cover& cover)
    : kernels_(static_cast<int>(cover.kernels.size())),
      makers_(problem.classes.size(), -1),
      waits_(cover.kernels.size() + problem.hosts.size()),
      readers_(waits_.size()) {
  for (int k = 0; k < kernels_; ++k)
    for (const int c : cover.kernels[static_cast<size_t>(k)].outputs) makers_[static_cast<size_t>(c)] = k;
  for (size_t c = 0; c < makers_.size(); ++c)
    if (problem.classes[c].host >= 0) makers_[c] = kernels_ + problem.classes[c].host;
  for (int k = 0; k < kernels_; ++k)
    for (const int c : cover.kernels[static_cast<size_t>(k)].inputs) add(k, maker(c));
  for (size_t h = 0; h < problem.hosts.size(); ++h) {
    const int launch = kernels_ + static_cast<int>(h);
    for (const int c : problem.hosts[h].inputs) add(launch, maker(c));
    for (const int other : problem.hosts[h].after) add(launch, kernels_ + other);
  }
  std::vector<int> places(size(), 0);
  int next = 0;
  for (const int launch : in_order([](int l) { return l; })) places[static_cast<size_t>(launch)] = next++;
  order_ = TopologicalOrder(std::move(places));
}

void Launches::add(int launch, int waited) {
  auto& list = waits_[static_cast<size_t>(launch)];
  if (waited < 0 || std::ranges::find(list, waited) != list.end()) return;
  list.push_back(waited);
  readers_[static_cast<size_t>(waited)].push_back(launch);
}

void Launches::merge(int first, int second, std::span<const int> outputs) {
  for (const int c : outputs) makers_[static_cast<size_t>(c)] = first;
  const std::vector<int> waited = std::exchange(waits_[static_cast<size_t>(second)], {}),
                         readers = std::exchange(readers_[static_cast<size_t>(second)], {});
  std::erase(waits_[static_cast<size_t>(first)], second);
  for (const int launch : waited) std::erase(readers_[static_cast<size_t>(launch)], second);
  for (const int launch : readers) std::erase(waits_[static_cast<size_t>(launch)], second);
  const auto is_reader = [](int, int) { return true; };
  const auto readers_of = [this](int launch) -> const std::vector<int>& {
    return readers_[static_cast<size_t>(launch)];
  };
  const auto link = [&](int reader, int read) {
    LUMINAL_CHECK(order_.put_behind(reader, read, reads(), readers_of, is_reader),
                  "merged launches wait for each other");
    add(reader, read);
  };
  for (const int launch : waited)
    if (launch != first) link(first, launch);
  for (const int launch : readers)
    if (launch != first) link(launch, first);
}

}  // namespace luminal::search
