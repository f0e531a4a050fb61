#pragma once
#include <algorithm>
#include <utility>
#include <vector>

namespace luminal::search {

/// Places of nodes such that each stands behind what it reads, mended where a new reading contradicts them:
/// what is searched and moved lies between the two nodes (Pearce and Kelly, "A dynamic topological sort
/// algorithm for directed acyclic graphs", 2006). The graph is the caller's: `reads(node)` and
/// `readers(node)` are ranges of nodes, the latter perhaps with more than there are (`is_reader` says).
class TopologicalOrder {
 public:
  explicit TopologicalOrder(std::vector<int> places = {})
      : place_(std::move(places)), seen_(place_.size(), 0) {}
  [[nodiscard]] int place(int node) const { return place_[static_cast<size_t>(node)]; }
  /// Nodes looked at so far.
  [[nodiscard]] uint64_t work() const { return work_; }

  /// Whether `node` reads `other` through others, of which the first is not `other` unless `directly`.
  template <class Reads>
  [[nodiscard]] bool needs(int node, int other, bool directly, const Reads& reads) {
    if (place(node) < place(other)) return false;
    begin();
    for (const int next : reads(node)) {
      if (next == other && directly) return true;
      if (next != other) enter(next, place(next) > place(other));
    }
    while (!stack_.empty()) {
      for (const int next : reads(pop())) {
        if (next == other) return true;
        enter(next, place(next) > place(other));
      }
    }
    return false;
  }

  /// Makes room for a new reading of `read` by `node`: `node` and its readers move behind `read` and what that
  /// reads. False if `read` needs `node`; nothing has moved then.
  template <class Reads, class Readers, class IsReader>
  [[nodiscard]] bool put_behind(int node, int read, const Reads& reads, const Readers& readers,
                                const IsReader& is_reader) {
    const int first = place(node), last = place(read);
    if (last < first) return true;
    moved_.clear();
    begin();
    enter(read, true);
    while (!stack_.empty()) {
      moved_.push_back(pop());
      for (const int next : reads(moved_.back())) {
        if (next == node) return false;
        enter(next, place(next) > first);
      }
    }
    const auto before = static_cast<std::ptrdiff_t>(moved_.size());
    enter(node, true);
    while (!stack_.empty()) {
      const int at = pop();
      moved_.push_back(at);
      for (const int next : readers(at))
        if (place(next) < last && is_reader(next, at)) enter(next, true);
    }
    share_places(before);
    return true;
  }

 private:
  void begin() {
    stack_.clear();
    ++stamp_;
  }
  void enter(int node, bool between) {
    if (!between || seen_[static_cast<size_t>(node)] == stamp_) return;
    seen_[static_cast<size_t>(node)] = stamp_;
    stack_.push_back(node);
  }
  int pop() {
    const int node = stack_.back();
    stack_.pop_back();
    ++work_;
    return node;
  }
  /// The first `before` moved nodes get the first places of all that moved; the order within both parts stays.
  void share_places(std::ptrdiff_t before) {
    const auto by_place = [&](int node) { return place(node); };
    std::ranges::sort(moved_.begin(), moved_.begin() + before, {}, by_place);
    std::ranges::sort(moved_.begin() + before, moved_.end(), {}, by_place);
    places_.clear();
    for (const int node : moved_) places_.push_back(place(node));
    std::ranges::sort(places_);
    for (size_t i = 0; i < moved_.size(); ++i) place_[static_cast<size_t>(moved_[i])] = places_[i];
  }

  std::vector<int> place_, seen_, stack_, moved_, places_;
  int stamp_ = 0;
  uint64_t work_ = 0;
};

}  // namespace luminal::search
