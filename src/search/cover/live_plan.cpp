#include "search/cover/live_plan.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace luminal::search {

LivePlan::LivePlan(const PlanGraph& graph) : graph_(graph), stamps_(graph.node_count(), 0) {
  const std::vector<int>& depth = graph.structure().depth;
  std::vector<int> order(graph.node_count());
  std::iota(order.begin(), order.end(), 0);
  const auto height = [&](int node) -> int64_t {
    if (node < graph.class_count()) return 2 * int64_t{depth[static_cast<size_t>(node)]};
    int64_t deepest = 0;
    for (const int read : graph.reads(node, -1))
      if (read < graph.class_count()) deepest = std::max<int64_t>(deepest, depth[static_cast<size_t>(read)]);
    return 2 * deepest + 1;
  };
  std::ranges::stable_sort(order, {}, height);
  std::vector<int> places(order.size());
  for (size_t i = 0; i < order.size(); ++i) places[static_cast<size_t>(order[i])] = static_cast<int>(i);
  order_ = TopologicalOrder(std::move(places));
}

void LivePlan::start(const std::vector<char>& in_memory) {
  in_memory_ = in_memory;
  ready_ = graph_.ready_of(in_memory);
  reads_.assign(graph_.node_count(), 0);
  alive_.assign(graph_.node_count(), 0);
  ordered_.assign(graph_.node_count(), 0);
  pick_.assign(in_memory.size(), {});
  computed_.assign(in_memory.size(), 0);
  takers_.assign(graph_.guesses().size(), 0);
  taken_guesses_ = 0;
  loose_.clear();
  cost_us_ = 0;
  stuck_ = conflicts_ = 0;
  for (const int root : graph_.roots()) retain(root);
  propagate();
}

void LivePlan::flip(std::span<const int> classes) {
  cost_before_us_ = cost_us_;
  for (const int c : classes) {
    in_memory_[static_cast<size_t>(c)] ^= 1;
    for (const PlanGraph::Reader& reader : graph_.readers(c)) ready_[reader.word] ^= reader.bit;
  }
  for (const int c : classes)
    for (const PlanGraph::Reader& reader : graph_.readers(c)) reconsider(reader.c);
  propagate();
}

/// Sums and differences of the same costs leave a rest.
void LivePlan::undo(std::span<const int> classes) {
  const std::optional<double> cost_us = cost_before_us_;
  flip(classes);
  cost_us_ = cost_us.value_or(cost_us_);
}

void LivePlan::reprice(int guess, std::span<const int> classes) {
  if (std::exchange(takers_[static_cast<size_t>(guess)], 0) > 0) --taken_guesses_;
  cost_before_us_.reset();
  for (const int c : classes) reconsider(c);
  propagate();
}

void LivePlan::reconsider(int c) {
  const auto at = static_cast<size_t>(c);
  ++work_;
  touch(c);
  if (alive_[at] == 0 || !graph_.takes_fusion(c)) return;
  const PlanGraph::Entry entry = graph_.cheapest(c, ready_, false), before = pick_[at];
  if (entry == before) return;
  drop(c);
  take(c, entry);
  if (entry.fusion == before.fusion) return;
  ordered_[at] = 0;
  loose_.push_back(c);
  for (const int leaf : graph_.reads(c, entry.fusion)) retain(leaf);
  for (const int leaf : graph_.reads(c, before.fusion)) release(leaf);
}

void LivePlan::take(int c, const PlanGraph::Entry& entry) {
  pick_[static_cast<size_t>(c)] = entry;
  if (entry.fusion < 0) {
    ++stuck_;
    return;
  }
  cost_us_ += entry.cost_us;
  if (const int guess = graph_.guess(c, entry.fusion);
      guess >= 0 && takers_[static_cast<size_t>(guess)]++ == 0)
    ++taken_guesses_;
  for (const int inner : graph_.computed_once(c, entry.fusion))
    if (++computed_[static_cast<size_t>(inner)] > 1) ++conflicts_;
}

void LivePlan::drop(int c) {
  const PlanGraph::Entry entry = pick_[static_cast<size_t>(c)];
  pick_[static_cast<size_t>(c)] = {};
  if (entry.fusion < 0) {
    --stuck_;
    return;
  }
  cost_us_ -= entry.cost_us;
  if (const int guess = graph_.guess(c, entry.fusion);
      guess >= 0 && --takers_[static_cast<size_t>(guess)] == 0)
    --taken_guesses_;
  for (const int inner : graph_.computed_once(c, entry.fusion))
    if (--computed_[static_cast<size_t>(inner)] > 0) --conflicts_;
}

void LivePlan::retain(int node) {
  touch(node);
  if (reads_[static_cast<size_t>(node)]++ == 0) births_.push_back(node);
}

void LivePlan::release(int node) {
  touch(node);
  if (--reads_[static_cast<size_t>(node)] == 0) deaths_.push_back(node);
}

/// A node that is read for the first time takes what it reads; one that nobody reads any longer gives it up.
/// A node that one reader drops and another takes in the same step stays as it is.
void LivePlan::propagate() {
  while (!births_.empty()) {
    const int node = births_.back();
    const auto at = static_cast<size_t>(node);
    births_.pop_back();
    if (alive_[at] != 0 || reads_[at] == 0) continue;
    ++work_;
    alive_[at] = 1;
    if (graph_.takes_fusion(node)) take(node, graph_.cheapest(node, ready_, false));
    const int number = node < graph_.class_count() ? pick_[at].fusion : -1;
    ordered_[at] = 0;
    loose_.push_back(node);
    for (const int read : graph_.reads(node, number)) retain(read);
  }
  while (!deaths_.empty()) {
    const int node = deaths_.back();
    const auto at = static_cast<size_t>(node);
    deaths_.pop_back();
    if (alive_[at] == 0 || reads_[at] > 0) continue;
    ++work_;
    alive_[at] = 0;
    ordered_[at] = 0;
    const int number = node < graph_.class_count() ? pick_[at].fusion : -1;
    if (graph_.takes_fusion(node)) drop(node);
    for (const int read : graph_.reads(node, number)) release(read);
  }
  put_in_order();
}

std::vector<int> LivePlan::fusions() const {
  std::vector<int> list;
  for (const PlanGraph::Entry& entry : pick_) list.push_back(entry.fusion);
  return list;
}

std::optional<int> LivePlan::dearest_guess() const {
  if (taken_guesses_ == 0) return std::nullopt;
  const std::vector<PlanGraph::Guess>& guesses = graph_.guesses();
  std::optional<int> dearest;
  for (size_t guess = 0; guess < takers_.size(); ++guess)
    if (takers_[guess] > 0 &&
        (!dearest || guesses[guess].rank() > guesses[static_cast<size_t>(*dearest)].rank()))
      dearest = static_cast<int>(guess);
  return dearest;
}

std::span<const int> LivePlan::ordered_reads(int node) const {
  const auto at = static_cast<size_t>(node);
  if (alive_[at] == 0) return {};
  return graph_.reads(node, node < graph_.class_count() ? pick_[at].fusion : -1)
      .first(static_cast<size_t>(ordered_[at]));
}

/// Readings enter the order one by one. One that closes a cycle with those that are in it stays out.
void LivePlan::put_in_order() {
  std::vector<int> left;
  for (const int node : loose_) {
    const auto at = static_cast<size_t>(node);
    if (alive_[at] == 0) continue;
    const auto reads = graph_.reads(node, node < graph_.class_count() ? pick_[at].fusion : -1);
    while (static_cast<size_t>(ordered_[at]) < reads.size() &&
           in_order(node, reads[static_cast<size_t>(ordered_[at])]))
      ++ordered_[at];
    if (static_cast<size_t>(ordered_[at]) < reads.size()) left.push_back(node);
  }
  std::ranges::sort(left);
  left.erase(std::unique(left.begin(), left.end()), left.end());
  loose_ = std::move(left);
}

bool LivePlan::in_order(int node, int read) {
  const auto reads = [&](int at) { return ordered_reads(at); };
  const auto is_reader = [&](int at, int of) {
    return std::ranges::find(ordered_reads(at), of) != ordered_reads(at).end();
  };
  const auto readers = [&](int at) -> const std::vector<int>& { return graph_.possible_readers(at); };
  return order_.put_behind(node, read, reads, readers, is_reader);
}

}  // namespace luminal::search
