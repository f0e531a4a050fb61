#include "codegen/schedules/contract_candidates.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "codegen/schedules/contract_prediction.h"

// Which tilings are worth trying: shapes of register tiles that fit the registers and waste few rows, blocks
// that fit the caches (Low et al. 2016), and a prediction of each in cycles.
namespace luminal::codegen::contract {
namespace {

/// Rows for a register tile of `vectors` columns that waste least of `m` rows, many first: they are usually
/// the best.
std::vector<int64_t> tile_heights(const Problem& p, int64_t vectors, const Target& target) {
  const int64_t most = std::min<int64_t>((target.vector_registers - 1 - vectors) / vectors, 28);
  std::set<int64_t> heights;
  for (const int64_t limit : {most, most - most / 4}) {
    if (limit < 1) continue;
    const auto rows = static_cast<int64_t>(p.m);
    const int64_t count = (rows + limit - 1) / limit;
    heights.insert(std::max<int64_t>(1, std::min(limit, (rows + count - 1) / count)));
    heights.insert(std::min(limit, rows));
  }
  return {heights.rbegin(), heights.rend()};
}

/// What is thought of a tiling. Of equal times the lesser tiling is the better one, so that what is found
/// does not depend on the order in which tilings are looked at.
struct Rated {
  double us = 0;
  Tiling tiling;
  friend auto operator<=>(const Rated&, const Rated&) = default;
};

/// The few best of those that were added.
class Best {
 public:
  explicit Best(size_t most) : most_(most) {}
  /// What takes longer is not kept.
  [[nodiscard]] double limit() const { return rated_.size() < most_ ? kNever : rated_.back().us; }
  void add(const Rated& rated) {
    if (rated.us == kNever || (rated_.size() == most_ && rated >= rated_.back())) return;
    if (rated_.size() == most_) rated_.pop_back();
    rated_.insert(std::ranges::upper_bound(rated_, rated), rated);
  }
  [[nodiscard]] const std::vector<Rated>& rated() const { return rated_; }

 private:
  size_t most_;
  std::vector<Rated> rated_;  ///< best first
};

/// What looks best so far: the very best only, or some of each kind, since close relatives differ less than
/// the prediction errs.
class Found {
 public:
  explicit Found(bool only_best) : only_best_(only_best) {}
  /// Where a tiling belongs that begins like this one.
  [[nodiscard]] Best& list_of(const Tiling& t) {
    const Kind kind = only_best_ ? Kind{} : Kind{t.swap_operands, t.pack_n, t.tile_n};
    return lists_.try_emplace(kind, only_best_ ? 1 : kRelatives).first->second;
  }
  [[nodiscard]] std::vector<Candidate> take() const {
    std::vector<Rated> all;
    for (const auto& [kind, list] : lists_) all.insert(all.end(), list.rated().begin(), list.rated().end());
    std::ranges::sort(all);
    std::vector<Candidate> chosen;
    std::map<std::tuple<bool, Packing>, int> kinds;
    for (const auto& [us, t] : all) {
      if (chosen.size() == kMost || (!chosen.empty() && us > 3 * chosen[0].predicted_us)) break;
      if (kinds[{t.swap_operands, t.pack_n}]++ >= kKind) continue;
      chosen.push_back({parameters_of(t), us});
    }
    return chosen;
  }

 private:
  static constexpr size_t kMost = 12, kRelatives = 2;
  static constexpr int kKind = 5;
  using Kind = std::tuple<bool, Packing, int64_t>;
  bool only_best_;
  std::map<Kind, Best> lists_;
};

/// Steps that packed columns are fetched ahead: some hundred cycles.
constexpr int64_t kAhead = 32;
/// The same for columns that are read where they lie, a few steps of every panel at a time.
constexpr int64_t kStreamedAhead = 64;

/// Summed positions of which a block has fewer only where a right side streams by.
constexpr double kFewSteps = 256;

/// The number nearest to `parts`, at most a half away, of which `total` is a multiple: loops over blocks of one size have
/// constant bounds. `parts` itself if there is none.
double even_parts(double total, double parts) {
  for (double away = 0; away <= parts / 2; ++away)
    for (const double number : {parts - away, parts + away})
      if (number > 1 && std::fmod(total, number) == 0) return number;
  return parts;
}

struct Search {
  const Problem& p;
  const Target& target;
  Found& found;

  /// All ways to deal out the tiles, and splits of the sum where there are too few tiles for the threads.
  void tasks(const Tiles& tiles, Tiling t) {
    const double steps = t.depth > 0 ? static_cast<double>(t.depth) * p.k / p.steps : p.k;
    // What a task has packed itself lies in the first cache if it fits; other panels have to come there first.
    const double fits = (t.pack_n == Packing::Task ? 0.75 : 0.25) * static_cast<double>(target.l1_bytes);
    const bool long_panels = steps * tiles.width * p.element > fits;
    const bool is_direct = t.pack_n == Packing::Direct;
    const bool is_far = p.right_bytes > static_cast<double>(target.l2_bytes);
    if (is_direct)
      t.ahead = is_far && t.depth > 0 && steps < kFewSteps ? kStreamedAhead : 0;
    else
      t.ahead = long_panels ? kAhead : 0;
    Best& best = found.list_of(t);
    if (tiles.least_us > best.limit()) return;
    for (const int64_t splits : {int64_t{1}, int64_t{target.threads}, int64_t{4} * target.threads}) {
      if (splits > 1 && (p.steps < static_cast<double>(2 * splits) || p.k < 512)) break;
      t.splits = splits;
      const Prediction prediction(p, tiles, t, target);
      if (prediction.least_us() <= best.limit())
        for (const Dealt& d : tiles.dealt) {
          const bool busy = p.batch * d.row_blocks * d.column_blocks >= 2 * target.threads;
          if ((d.waiting && t.depth == 0) || (splits > 1 && busy)) continue;
          t.task_m = d.task_m, t.task_n = d.task_n;
          if (const double us = prediction.us(d, best.limit()); us <= best.limit()) best.add({us, t});
        }
      if (target.threads == 1) break;
    }
  }

  void depths(const Tiles& tiles, Tiling t) {
    t.depth = 0;
    tasks(tiles, t);
    const double inner = p.k / p.steps;
    // One row of tiles has nothing to use a panel for again, and a few have little use for it: a right side that is not
    // packed streams by in a few of its rows at a time, if there are many of them.
    const bool are_many = p.k > kFewSteps && p.right_bytes / p.batch > static_cast<double>(target.l2_bytes);
    const bool streams =
        t.pack_n == Packing::Direct && (tiles.count_m == 1 || (are_many && tiles.count_m <= kMostStreamed));
    for (const double positions : {8.0, 16.0, 256.0, 512.0, 1024.0}) {
      if (positions < kFewSteps && !streams) continue;
      const double steps = std::max(1.0, std::round(positions / inner));
      if (p.k < 1.5 * positions || steps >= p.steps) continue;
      t.depth = static_cast<int64_t>(std::ceil(p.steps / even_parts(p.steps, std::ceil(p.steps / steps))));
      tasks(tiles, t);
    }
  }

  /// Whether masks of columns that are read in pieces, where they lie, push sums out of the registers: those of two
  /// vectors fit the processor's mask registers.
  [[nodiscard]] bool spills(int64_t height, int64_t vectors) const {
    constexpr int64_t kMasks = 4;
    return !p.even_n && vectors > 2 && (height + 1) * vectors + kMasks > target.vector_registers;
  }

  void all(bool swap_operands) {
    for (int64_t vectors = 4; vectors >= 1; --vectors) {
      if (vectors > 1 && double(p.lanes) * double(vectors - 1) >= p.n) continue;
      for (const int64_t height : tile_heights(p, vectors, target)) {
        const Tiles tiles(p, height, vectors, target);
        for (const Packing m : {Packing::Direct, Packing::Task, Packing::Shared})
          for (const Packing n : {Packing::Direct, Packing::Task, Packing::Shared}) {
            if (m == Packing::Direct && !p.plain_m) continue;
            if (n == Packing::Direct && (!p.near_n || spills(height, vectors))) continue;
            // A matrix times a vector reads everything once: nothing is read again from a copy.
            if (p.m == 1 && (m != Packing::Direct || n != Packing::Direct)) continue;
            depths(tiles, {.swap_operands = swap_operands,
                           .tile_m = height,
                           .tile_n = vectors,
                           .pack_m = m,
                           .pack_n = n});
          }
      }
    }
  }
};

/// What was found, by what it was found from: a cover asks for one contraction with many epilogues, for which
/// the answer is one.
class Memory {
 public:
  static Memory& of_process() {
    static Memory memory;
    return memory;
  }
  using Key = std::pair<std::map<bool, Problem>, std::array<int64_t, 6>>;
  static Key key(std::map<bool, Problem> problems, const Target& t, bool only_best) {
    return {std::move(problems),
            {t.vector_bytes, t.vector_registers, t.threads, t.l1_bytes, t.l2_bytes, only_best ? 1 : 0}};
  }

  std::optional<std::vector<Candidate>> find(const Key& key) {
    const std::scoped_lock lock(mutex_);
    const auto known = found_.find(key);
    return known == found_.end() ? std::nullopt : std::optional(known->second);
  }
  void keep(Key key, const std::vector<Candidate>& candidates) {
    constexpr size_t kMost = 1000;
    const std::scoped_lock lock(mutex_);
    if (found_.size() == kMost) found_.clear();
    found_.emplace(std::move(key), candidates);
  }

 private:
  std::mutex mutex_;
  std::map<Key, std::vector<Candidate>> found_;
};

std::vector<Candidate> search(const kernel::KernelSpec& spec, const Contraction& c, const DimMap& top,
                              const Target& target, bool only_best) {
  if (target.lanes(static_cast<int>(element_bytes(c.dtype))) < 2) return {};
  std::map<bool, Problem> problems;  // by whether the sides change places
  for (const bool swap_operands : {false, true})
    if (!(swap_operands ? c.rows : c.columns).empty())
      problems.emplace(swap_operands, problem_of(spec, c, swap_operands, top, target));
  Memory& memory = Memory::of_process();
  Memory::Key key = Memory::key(std::move(problems), target, only_best);
  if (auto known = memory.find(key)) return *std::move(known);
  Found found(only_best);
  for (const auto& [swap_operands, p] : key.first) Search{p, target, found}.all(swap_operands);
  const std::vector<Candidate> candidates = found.take();
  memory.keep(std::move(key), candidates);
  return candidates;
}

}  // namespace

std::vector<Candidate> candidates(const kernel::KernelSpec& spec, const Contraction& contraction,
                                  const DimMap& top, const Target& target) {
  return search(spec, contraction, top, target, false);
}

std::optional<Candidate> best_candidate(const kernel::KernelSpec& spec, const Contraction& contraction,
                                        const DimMap& top, const Target& target) {
  auto found = search(spec, contraction, top, target, true);
  return found.empty() ? std::nullopt : std::optional(std::move(found.front()));
}

}  // namespace luminal::codegen::contract
