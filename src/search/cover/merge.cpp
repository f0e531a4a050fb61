#include "search/cover/merge.h"

#include <algorithm>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <tuple>

#include "base/cancel.h"
#include "base/fail.h"
#include "base/hash.h"

namespace luminal::search {
namespace {

constexpr double kLeastGain = 1e-3;  // of what the two cost: predictions are no better
constexpr size_t kManyReaders = 24;  // of a tensor whose readers have nothing else in common

/// Launches and what each waits for: kernels 0 .., hosts behind them.
class Order {
 public:
  Order(const CoverProblem& problem, const Cover& cover) : kernels_(static_cast<int>(cover.kernels.size())) {
    makers_.assign(problem.classes.size(), -1);
    for (int k = 0; k < kernels_; ++k)
      for (const int c : cover.kernels[static_cast<size_t>(k)].outputs) makers_[static_cast<size_t>(c)] = k;
    for (size_t c = 0; c < makers_.size(); ++c)
      if (problem.classes[c].host >= 0) makers_[c] = kernels_ + problem.classes[c].host;
    waits_.resize(static_cast<size_t>(kernels_) + problem.hosts.size());
    for (int k = 0; k < kernels_; ++k)
      for (const int c : cover.kernels[static_cast<size_t>(k)].inputs)
        add(k, makers_[static_cast<size_t>(c)]);
    for (size_t h = 0; h < problem.hosts.size(); ++h) {
      for (const int c : problem.hosts[h].inputs)
        add(kernels_ + static_cast<int>(h), makers_[static_cast<size_t>(c)]);
      for (const int other : problem.hosts[h].after) add(kernels_ + static_cast<int>(h), kernels_ + other);
    }
  }
  [[nodiscard]] const std::vector<int>& waits(int launch) const {
    return waits_[static_cast<size_t>(launch)];
  }
  [[nodiscard]] int maker(int c) const { return makers_[static_cast<size_t>(c)]; }
  [[nodiscard]] size_t size() const { return waits_.size(); }

  /// Whether `from` waits for `to` through at least one other launch.
  [[nodiscard]] bool waits_indirectly(int from, int to) const {
    std::vector<char> seen(waits_.size(), 0);
    std::vector<int> stack;
    for (const int next : waits(from))
      if (next != to) stack.push_back(next);
    while (!stack.empty()) {
      const int at = stack.back();
      stack.pop_back();
      if (at == to) return true;
      if (seen[static_cast<size_t>(at)]++ != 0) continue;
      stack.insert(stack.end(), waits(at).begin(), waits(at).end());
    }
    return false;
  }
  [[nodiscard]] bool waits_at_all(int from, int to) const {
    return std::ranges::find(waits(from), to) != waits(from).end() || waits_indirectly(from, to);
  }

 private:
  void add(int launch, int waited) {
    auto& list = waits_[static_cast<size_t>(launch)];
    if (waited >= 0 && std::ranges::find(list, waited) == list.end()) list.push_back(waited);
  }
  int kernels_;
  std::vector<int> makers_;
  std::vector<std::vector<int>> waits_;
};

class Merger {
 public:
  Merger(const CoverProblem& problem, const Structure& structure, SpecStore& store, CostTable& rough,
         CostTable& fine, Cover& cover)
      : problem_(problem), structure_(structure), store_(store), rough_(rough), fine_(fine), cover_(cover) {
    for (; next_serial_ < count(); ++next_serial_) serials_.push_back(next_serial_);
  }

  void run() {
    while (const auto pair = best_pair()) {
      throw_if_cancelled();
      cover_.kernels[static_cast<size_t>(pair->first)] = pair->merged;
      serials_[static_cast<size_t>(pair->first)] = next_serial_++;
      cover_.kernels.erase(cover_.kernels.begin() + pair->second);
      serials_.erase(serials_.begin() + pair->second);
      ++cover_.merges;
    }
  }

 private:
  struct Pair {
    int first = 0, second = 0;  ///< `merged` takes the place of the first
    CoverKernel merged;
    double gain = 0;
    uint64_t key = 0;
  };

  std::optional<Pair> best_pair() {
    const Order order(problem_, cover_);
    const Pair* best = nullptr;
    int first = 0, second = 0;
    const auto offer = [&](int a, int b, bool exporting) {
      const std::optional<Pair>& pair = offered(a, b, exporting);
      if (!pair) return;
      if (best != nullptr && std::tuple(-pair->gain, pair->key) >= std::tuple(-best->gain, best->key)) return;
      const bool cyclic =
          exporting ? order.waits_indirectly(a, b) : order.waits_at_all(a, b) || order.waits_at_all(b, a);
      if (cyclic) return;
      best = &*pair;
      first = a;
      second = b;
    };
    for (const auto& [reader, producer] : readings(order)) offer(reader, producer, true);
    for (auto [a, b] : siblings()) {
      // The order of the two decides the order of outputs: by mark, not by number.
      if (mark(at(b).outputs[0]) < mark(at(a).outputs[0])) std::swap(a, b);
      offer(a, b, false);
    }
    if (best == nullptr) return std::nullopt;
    Pair implementation = *best;
    implementation.first = first;
    implementation.second = second;
    return implementation;
  }

  /// What merging two kernels gives, worked out once for as long as both are there.
  const std::optional<Pair>& offered(int a, int b, bool exporting) {
    const auto [known, fresh] =
        offers_.try_emplace({serials_[static_cast<size_t>(a)], serials_[static_cast<size_t>(b)], exporting});
    if (fresh) known->second = exporting ? with_export(a, b) : merged_siblings(a, b);
    return known->second;
  }

  [[nodiscard]] std::set<std::pair<int, int>> readings(const Order& order) const {
    std::set<std::pair<int, int>> pairs;
    for (int k = 0; k < count(); ++k)
      for (const int c : at(k).inputs)
        if (order.maker(c) >= 0 && order.maker(c) < count()) pairs.emplace(k, order.maker(c));
    return pairs;
  }

  [[nodiscard]] std::set<std::pair<int, int>> siblings() const {
    std::map<int, std::vector<int>> readers;
    for (int k = 0; k < count(); ++k)
      for (const int c : at(k).inputs) readers[c].push_back(k);
    std::set<std::pair<int, int>> pairs;
    for (const auto& [c, list] : readers) {
      if (list.size() > kManyReaders) continue;
      for (size_t i = 0; i < list.size(); ++i)
        for (size_t j = i + 1; j < list.size(); ++j) pairs.emplace(list[i], list[j]);
    }
    return pairs;
  }

  std::optional<Pair> with_export(int reader, int producer) {
    const CoverKernel &a = at(reader), &b = at(producer);
    if (b.outputs.size() != 1) return {};
    const auto slot = static_cast<int>(std::ranges::find(a.inputs, b.outputs[0]) - a.inputs.begin());
    const std::vector<uint32_t> own(a.inputs.begin(), a.inputs.end()),
        theirs(b.inputs.begin(), b.inputs.end());
    const SpecStore::Made* made = store_.compose_exporting(a.spec, slot, b.spec, own, theirs);
    if (made == nullptr) return {};
    return pair_of(reader, producer, *made);
  }

  std::optional<Pair> merged_siblings(int first, int second) {
    const CoverKernel &a = at(first), &b = at(second);
    const std::vector<uint32_t> own(a.inputs.begin(), a.inputs.end()),
        theirs(b.inputs.begin(), b.inputs.end());
    const SpecStore::Made* made = store_.merge_siblings(a.spec, b.spec, own, theirs);
    if (made == nullptr) return {};
    return pair_of(first, second, *made);
  }

  std::optional<Pair> pair_of(int first, int second, const SpecStore::Made& made) {
    const CoverKernel &a = at(first), &b = at(second);
    Pair pair{.first = first, .second = second};
    pair.merged.spec = made.spec;
    const double apart = rough_.of(a.spec) + rough_.of(b.spec);
    if (apart - rough_.of(made.spec) <= kLeastGain * apart) return {};
    pair.merged.cost_us = fine_.of(made.spec);
    pair.gain = a.cost_us + b.cost_us - pair.merged.cost_us;
    if (pair.gain <= kLeastGain * (a.cost_us + b.cost_us)) return {};
    for (const auto& from : made.slots)
      pair.merged.inputs.push_back((from.producer ? b.inputs : a.inputs)[static_cast<size_t>(from.slot)]);
    pair.merged.outputs = a.outputs;
    pair.merged.outputs.insert(pair.merged.outputs.end(), b.outputs.begin(), b.outputs.end());
    std::set<int> interior(a.interior.begin(), a.interior.end());
    interior.insert(b.interior.begin(), b.interior.end());
    for (const int c : pair.merged.outputs) interior.erase(c);
    pair.merged.interior.assign(interior.begin(), interior.end());
    pair.key = combine(store_.at(made.spec).hash(), combine(mark(a.outputs[0]), mark(b.outputs[0])));
    return pair;
  }

  [[nodiscard]] int count() const { return static_cast<int>(cover_.kernels.size()); }
  [[nodiscard]] const CoverKernel& at(int k) const { return cover_.kernels[static_cast<size_t>(k)]; }
  [[nodiscard]] uint64_t mark(int c) const { return structure_.exact[static_cast<size_t>(c)]; }

  const CoverProblem& problem_;
  const Structure& structure_;
  SpecStore& store_;
  CostTable &rough_, &fine_;
  Cover& cover_;
  std::vector<int> serials_;  ///< by kernel: a number that no other kernel has or had
  int next_serial_ = 0;
  std::map<std::tuple<int, int, bool>, std::optional<Pair>> offers_;
};

}  // namespace

void merge_kernels(const CoverProblem& problem, const Structure& structure, SpecStore& store,
                   CostTable& rough, CostTable& fine, Cover& cover) {
  Merger(problem, structure, store, rough, fine, cover).run();
}

void order_steps(const CoverProblem& problem, const Structure& structure, const SpecStore& store,
                 Cover& cover) {
  const Order order(problem, cover);
  const auto kernels = static_cast<int>(cover.kernels.size());
  // Hosts run if they must or if a launch that runs waits for them.
  std::vector<char> runs(order.size(), 0);
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
    if (runs[static_cast<size_t>(at)]++ != 0) continue;
    ++running;
    stack.insert(stack.end(), order.waits(at).begin(), order.waits(at).end());
  }
  std::vector<int> open(order.size(), 0);
  std::vector<std::vector<int>> readers(order.size());
  for (size_t l = 0; l < order.size(); ++l)
    for (const int waited : order.waits(static_cast<int>(l))) {
      ++open[l];
      readers[static_cast<size_t>(waited)].push_back(static_cast<int>(l));
    }
  const auto key = [&](int launch) {
    if (launch >= kernels) return std::tuple(0, uint64_t{0}, uint64_t{0}, launch);  // in the program's order
    const CoverKernel& kernel = cover.kernels[static_cast<size_t>(launch)];
    const auto first = static_cast<size_t>(kernel.outputs[0]);
    return std::tuple(structure.depth[first], store.at(kernel.spec).hash(), structure.exact[first], launch);
  };
  using Entry = std::pair<decltype(key(0)), int>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  for (size_t l = 0; l < order.size(); ++l)
    if (runs[l] != 0 && open[l] == 0) ready.emplace(key(static_cast<int>(l)), static_cast<int>(l));
  cover.steps.clear();
  while (!ready.empty()) {
    const int launch = ready.top().second;
    ready.pop();
    cover.steps.push_back(launch < kernels ? CoverStep{.kernel = launch}
                                           : CoverStep{.host = launch - kernels});
    for (const int reader : readers[static_cast<size_t>(launch)])
      if (--open[static_cast<size_t>(reader)] == 0 && runs[static_cast<size_t>(reader)] != 0)
        ready.emplace(key(reader), reader);
  }
  LUMINAL_CHECK(cover.steps.size() == running, "{} of {} launches wait for each other",
                running - cover.steps.size(), running);
}

}  // namespace luminal::search
