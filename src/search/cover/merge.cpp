#include "search/cover/merge.h"

#include <algorithm>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "base/cancel.h"
#include "base/fail.h"
#include "base/hash.h"
#include "base/team.h"
#include "search/cover/launches.h"

namespace luminal::search {
namespace {

constexpr double kLeastGain = 1e-3;     // of what the two cost: predictions are no better
constexpr double kMostOfSmaller = 0.5;  // of the smaller one's cost: so much is no error of the larger one's
constexpr size_t kManyReaders = 24;     // of a tensor whose readers have nothing else in common

/// Offers to merge two kernels wait in a queue, the best first; a merge makes new ones around itself.
class Merger {
 public:
  Merger(const CoverProblem& problem, const Structure& structure, SpecStore& store, CostTable& rough,
         CostTable& fine, Cover& cover)
      : structure_(structure),
        store_(store),
        rough_(rough),
        fine_(fine),
        cover_(cover),
        launches_(problem, cover),
        versions_(cover.kernels.size(), 0),
        readers_(problem.classes.size()) {
    for (int k = 0; k < static_cast<int>(cover.kernels.size()); ++k)
      for (const int c : at(k).inputs) readers_[static_cast<size_t>(c)].push_back(k);
  }

  void run() {
    Pairs exports, siblings;
    for (int k = 0; k < static_cast<int>(cover_.kernels.size()); ++k) add_exports(k, exports);
    for (size_t c = 0; c < readers_.size(); ++c) add_siblings(c, siblings);
    offer(exports, siblings);
    while (!queue_.empty()) {
      throw_if_cancelled();
      const Offer best = queue_.top();
      queue_.pop();
      if (is_current(best) && !is_cyclic(best)) merge(best);
    }
    std::vector<CoverKernel> left;
    for (size_t k = 0; k < cover_.kernels.size(); ++k)
      if (versions_[k] >= 0) left.push_back(std::move(cover_.kernels[k]));
    cover_.kernels = std::move(left);
  }

 private:
  /// The merged kernel takes the place of the first; a reader and what it reads, or siblings.
  struct Offer {
    double gain = 0;
    uint64_t key = 0;
    bool exporting = false;
    int first = 0, second = 0, first_version = 0, second_version = 0;
    const SpecStore::Made* made = nullptr;
    [[nodiscard]] auto rank() const { return std::tuple(-gain, key, !exporting, first, second); }
    friend bool operator<(const Offer& a, const Offer& b) { return a.rank() > b.rank(); }
  };
  using Pairs = std::set<std::pair<int, int>>;

  void add_exports(int k, Pairs& pairs) const {
    for (const int c : at(k).inputs)
      if (launches_.is_kernel(launches_.maker(c))) pairs.emplace(k, launches_.maker(c));
  }
  void add_siblings(size_t c, Pairs& pairs) const {
    const std::vector<int>& list = readers_[c];
    if (list.size() > kManyReaders) return;
    for (size_t i = 0; i < list.size(); ++i)
      for (size_t j = i + 1; j < list.size(); ++j) pairs.insert(std::minmax(list[i], list[j]));
  }

  /// Two kernels that may become one.
  struct Pair {
    int first = 0, second = 0;
    bool exporting = false;
    std::vector<int> slots;  ///< exporting: of the reader, by output of what it reads
    const SpecStore::Made* made = nullptr;
  };

  void offer(const Pairs& exports, const Pairs& siblings) {
    std::vector<Pair> pairs;
    for (const auto& [reader, producer] : exports)
      pairs.push_back({reader, producer, true, slots_of(reader, producer)});
    for (auto [a, b] : siblings) {
      // The order of the two decides the order of outputs: by mark, not by number.
      if (mark(at(b).outputs[0]) < mark(at(a).outputs[0])) std::swap(a, b);
      pairs.push_back({a, b, false, {}});
    }
    if (fine_.is_shared() && rough_.is_shared())
      Team::shared().for_each(pairs.size(), [&](size_t i) { merge_specs(pairs[i]); });
    else
      std::ranges::for_each(pairs, [&](Pair& pair) { merge_specs(pair); });
    for (const Pair& pair : pairs)
      if (pair.made != nullptr) offer(pair);
  }

  /// Finds the spec of a pair and what it costs, if it may save time.
  void merge_specs(Pair& pair) {
    const CoverKernel &a = at(pair.first), &b = at(pair.second);
    const SpecStore::Names own = names_of(a.inputs), theirs = names_of(b.inputs);
    pair.made = pair.exporting ? store_.compose_exporting(a.spec, pair.slots, b.spec, own, theirs)
                               : store_.merge_siblings(a.spec, b.spec, own, theirs);
    if (pair.made != nullptr && !may_save(pair)) pair.made = nullptr;
    if (pair.made != nullptr) (void)fine_.of(pair.made->spec);
  }

  [[nodiscard]] static bool saves(double gain, double first_us, double second_us) {
    return gain >
           std::min(kLeastGain * (first_us + second_us), kMostOfSmaller * std::min(first_us, second_us));
  }

  /// By the rough costs.
  [[nodiscard]] bool may_save(const Pair& pair) const {
    const double first_us = rough_.of(at(pair.first).spec), second_us = rough_.of(at(pair.second).spec);
    const double apart = first_us + second_us;
    // Beside a kernel that takes a thousand times as long a guess of the smaller one says nothing.
    const bool is_clear = std::min(first_us, second_us) > kLeastGain * apart;
    return !is_clear || apart - rough_.of(pair.made->spec) > kLeastGain * apart;
  }

  void offer(const Pair& pair) {
    const CoverKernel &a = at(pair.first), &b = at(pair.second);
    const double gain = a.cost_us + b.cost_us - fine_.of(pair.made->spec);
    if (!saves(gain, a.cost_us, b.cost_us)) return;
    const uint64_t key =
        combine(store_.at(pair.made->spec).hash(), combine(mark(a.outputs[0]), mark(b.outputs[0])));
    queue_.push({gain, key, pair.exporting, pair.first, pair.second, version(pair.first),
                 version(pair.second), pair.made});
  }

  [[nodiscard]] std::vector<int> slots_of(int reader, int producer) const {
    const std::vector<int>& inputs = at(reader).inputs;
    std::vector<int> slots;
    for (const int c : at(producer).outputs) {
      const auto slot = std::ranges::find(inputs, c);
      slots.push_back(slot == inputs.end() ? -1 : static_cast<int>(slot - inputs.begin()));
    }
    return slots;
  }

  [[nodiscard]] bool is_current(const Offer& o) const {
    return version(o.first) == o.first_version && version(o.second) == o.second_version;
  }
  /// Merging others leaves a way from the one to the other what it is.
  [[nodiscard]] bool is_cyclic(const Offer& o) {
    if (o.exporting) return launches_.waits_indirectly(o.first, o.second);
    return launches_.waits(o.first, o.second) || launches_.waits(o.second, o.first);
  }

  void merge(const Offer& o) {
    const CoverKernel a = at(o.first), b = at(o.second);
    CoverKernel merged;
    merged.spec = o.made->spec;
    merged.cost_us = fine_.of(merged.spec);
    for (const auto& from : o.made->slots)
      merged.inputs.push_back((from.producer ? b.inputs : a.inputs)[static_cast<size_t>(from.slot)]);
    merged.outputs = a.outputs;
    merged.outputs.insert(merged.outputs.end(), b.outputs.begin(), b.outputs.end());
    std::set<int> interior(a.interior.begin(), a.interior.end());
    interior.insert(b.interior.begin(), b.interior.end());
    for (const int c : merged.outputs) interior.erase(c);
    merged.interior.assign(interior.begin(), interior.end());
    cover_.kernels[static_cast<size_t>(o.first)] = std::move(merged);
    ++versions_[static_cast<size_t>(o.first)];
    versions_[static_cast<size_t>(o.second)] = -1;
    launches_.merge(o.first, o.second, b.outputs);
    ++cover_.merges;
    offer_around(o.first, o.second, a, b);
  }

  /// `k` was `a` and, now gone, `b`. A tensor that has few readers only now has offers that it had not.
  void offer_around(int k, int gone, const CoverKernel& a, const CoverKernel& b) {
    Pairs exports, siblings;
    std::set<int> read(a.inputs.begin(), a.inputs.end());
    read.insert(b.inputs.begin(), b.inputs.end());
    for (const int c : read) {
      std::vector<int>& list = readers_[static_cast<size_t>(c)];
      const size_t before = list.size();
      std::erase_if(list, [&](int other) { return other == k || other == gone; });
      if (std::ranges::find(at(k).inputs, c) != at(k).inputs.end()) list.push_back(k);
      if (before > kManyReaders) add_siblings(static_cast<size_t>(c), siblings);
    }
    for (const int c : at(k).inputs) {
      const std::vector<int>& list = readers_[static_cast<size_t>(c)];
      if (list.size() > kManyReaders) continue;
      for (const int other : list)
        if (other != k) siblings.insert(std::minmax(other, k));
    }
    add_exports(k, exports);
    for (const int c : at(k).outputs)
      for (const int reader : readers_[static_cast<size_t>(c)]) exports.emplace(reader, k);
    offer(exports, siblings);
  }

  [[nodiscard]] const CoverKernel& at(int k) const { return cover_.kernels[static_cast<size_t>(k)]; }
  [[nodiscard]] int version(int k) const { return versions_[static_cast<size_t>(k)]; }
  [[nodiscard]] uint64_t mark(int c) const { return structure_.exact[static_cast<size_t>(c)]; }

  const Structure& structure_;
  SpecStore& store_;
  CostTable &rough_, &fine_;
  Cover& cover_;
  Launches launches_;
  std::vector<int> versions_;              ///< by kernel; -1: it was merged into another one
  std::vector<std::vector<int>> readers_;  ///< kernels, by class
  std::priority_queue<Offer> queue_;
};

}  // namespace

void merge_kernels(const CoverProblem& problem, const Structure& structure, SpecStore& store,
                   CostTable& rough, CostTable& fine, Cover& cover) {
  Merger(problem, structure, store, rough, fine, cover).run();
}

void order_steps(const CoverProblem& problem, const Structure& structure, const SpecStore& store,
                 Cover& cover) {
  const Launches launches(problem, cover);
  const auto kernels = static_cast<int>(cover.kernels.size());
  // Hosts run if they must or if a launch that runs waits for them.
  std::vector<char> runs(launches.size(), 0);
  std::vector<int> stack;
  for (int k = 0; k < kernels; ++k) stack.push_back(k);
  for (size_t h = 0; h < problem.hosts.size(); ++h)
    if (problem.hosts[h].must_run) stack.push_back(kernels + static_cast<int>(h));
  for (size_t c = 0; c < problem.classes.size(); ++c)
    if (problem.classes[c].wanted && problem.classes[c].host >= 0)
      stack.push_back(kernels + problem.classes[c].host);
  size_t running = 0;
  while (!stack.empty()) {
    const int at = stack.back();
    stack.pop_back();
    if (std::exchange(runs[static_cast<size_t>(at)], 1) != 0) continue;
    ++running;
    stack.insert(stack.end(), launches.waits_for(at).begin(), launches.waits_for(at).end());
  }
  const auto key = [&](int launch) {
    if (launch >= kernels) return std::tuple(0, uint64_t{0}, uint64_t{0}, launch);  // in the program's order
    const CoverKernel& kernel = cover.kernels[static_cast<size_t>(launch)];
    const auto first = static_cast<size_t>(kernel.outputs[0]);
    return std::tuple(structure.depth[first], store.at(kernel.spec).hash(), structure.exact[first], launch);
  };
  cover.steps.clear();
  for (const int launch : launches.in_order(key))
    if (runs[static_cast<size_t>(launch)] != 0)
      cover.steps.push_back(launch < kernels ? CoverStep{.kernel = launch}
                                             : CoverStep{.host = launch - kernels});
  LUMINAL_CHECK(cover.steps.size() == running, "{} of {} launches wait for each other",
                running - cover.steps.size(), running);
}

}  // namespace luminal::search
