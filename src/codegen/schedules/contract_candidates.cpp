#include "codegen/schedules/contract_candidates.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "codegen/schedules/roofline.h"

// Which tilings are worth trying: shapes of register tiles that fit the registers and waste few rows, blocks
// that fit the caches (Low et al. 2016), and a prediction of each in cycles.
namespace luminal::codegen::contract {
namespace {

constexpr double kCyclesPerUs = 3000, kStageUs = 2;

/// A contraction at one size, seen from one assignment of the sides.
struct Problem {
  double m = 1, n = 1, k = 1, batch = 1, steps = 1;
  int lanes = 1, element = 4;
  bool plain_m = false, plain_n = false;  ///< one unmasked load: may be read where it lies
  bool masked_m = false, masked_n = false;
  bool even_n = false;          ///< columns are neighbours in memory, all of them
  bool near_n = false;          ///< they are neighbours within rows
  int64_t row_bytes = 0;        ///< of the left side from one row to the next, if packed rows would be lines
  int64_t left_step_bytes = 0;  ///< of the left side from one summed position to the next, if not lines
  int64_t step_bytes = 0;       ///< of the right side from one summed position to the next
  bool turned = false, lines = false;
  bool columns_out = true;
  double left_bytes = 0, right_bytes = 0, out_bytes = 0;  ///< of the tensors
  [[nodiscard]] double packed_m() const { return batch * m * k * element; }
  [[nodiscard]] double packed_n() const { return batch * n * k * element; }
};

double size_of(const kernel::KernelSpec& spec, const std::vector<int>& axes, const DimMap& top) {
  double size = 1;
  for (const int a : axes) size *= static_cast<double>(spec.extents()[static_cast<size_t>(a)].exec(top));
  return size;
}

bool is_masked(const Factor& f) {
  return std::ranges::any_of(f.body.nodes(), [&](const ScalarNode& n) {
    return n.op == ScalarOp::Input && !f.operands[n.payload].masks.empty();
  });
}

/// One load, perhaps converted: cheap enough to be read in the inner loop.
bool is_plain(const Factor& f) {
  return !is_masked(f) && std::ranges::all_of(f.body.nodes(), [](const ScalarNode& n) {
    return n.op == ScalarOp::Input || n.op == ScalarOp::Convert;
  }) && f.operands[f.body.nodes()[0].payload].kind == kernel::Operand::Kind::Load;
}

/// Bytes from one step of `axis` to the next in the side's first load.
int64_t bytes_along(const kernel::KernelSpec& spec, const Factor& f, int axis, const DimMap& top) {
  for (const ScalarNode& n : f.body.nodes()) {
    if (n.op != ScalarOp::Input) continue;
    const kernel::Operand& o = f.operands[n.payload];
    if (o.kind != kernel::Operand::Kind::Load) continue;
    std::vector<int64_t> at(spec.extents().size(), 0);
    const int64_t from = o.index.exec(top, at);
    at[static_cast<size_t>(axis)] = 1;
    return std::abs(o.index.exec(top, at) - from) * element_bytes(o.dtype);
  }
  return 0;
}

/// Of the tensors that a side reads, each once.
double bytes_of(const kernel::KernelSpec& spec, const Factor& f, const DimMap& top) {
  std::set<int> slots;
  for (const ScalarNode& n : f.body.nodes())
    if (n.op == ScalarOp::Input && f.operands[n.payload].kind == kernel::Operand::Kind::Load)
      slots.insert(f.operands[n.payload].slot);
  double bytes = 0;
  for (const int slot : slots) {
    const kernel::Slot& s = spec.slots()[static_cast<size_t>(slot)];
    bytes += static_cast<double>(s.elements.exec(top) * element_bytes(s.dtype));
  }
  return bytes;
}

/// Rows that lie a multiple of a page apart meet in one set of the first cache, and each needs a translation
/// of its own.
double conflict(int64_t bytes, double together) {
  if (together <= 4 || bytes == 0) return 1;
  return bytes % 4096 == 0 ? 4 : bytes % 2048 == 0 ? 2 : bytes >= 4096 ? 1.2 : 1;
}

Problem problem_of(const kernel::KernelSpec& spec, const Contraction& c, bool exchange, const DimMap& top,
                   const Target& target) {
  Problem p;
  p.element = static_cast<int>(element_bytes(c.dtype));
  p.lanes = target.lanes(p.element);
  const Tiling t{.exchange = exchange, .tile_m = 1, .tile_n = 1};
  const Layout l = lay_out(spec, c, t, top, p.lanes);
  p.m = size_of(spec, l.c.rows, top), p.n = size_of(spec, l.c.columns, top);
  p.k = size_of(spec, l.c.summed, top), p.batch = size_of(spec, l.c.batch, top);
  p.steps = static_cast<double>(l.summed.extents[0].exec(top));
  p.plain_m = is_plain(l.c.left), p.plain_n = is_plain(l.c.right);
  p.masked_m = is_masked(l.c.left), p.masked_n = is_masked(l.c.right);
  p.turned = l.turned, p.lines = l.lines, p.columns_out = l.columns_out;
  for (const ScalarNode& n : l.c.right.body.nodes())
    if (n.op == ScalarOp::Input)
      if (const auto even = evenly(l.c.right.operands[n.payload].index, l.columns)) {
        p.near_n = even->stride == 1;
        p.even_n = p.near_n && even->inner == l.columns.axes.size();
      }
  if (l.lines) p.row_bytes = bytes_along(spec, l.c.left, l.rows.axes.back(), top);
  if (!l.lines) p.left_step_bytes = bytes_along(spec, l.c.left, l.summed.axes.back(), top);
  p.step_bytes = bytes_along(spec, l.c.right, l.summed.axes.back(), top);
  p.left_bytes = bytes_of(spec, l.c.left, top), p.right_bytes = bytes_of(spec, l.c.right, top);
  p.out_bytes = p.batch * p.m * p.n * p.element;
  return p;
}

double ceil_div(double a, double b) { return std::ceil(a / b); }

/// Bytes a cycle from beyond the second cache, for one core.
constexpr double kFarBytes = 5;

/// What one tiling makes of a problem, in cycles of all threads together.
class Prediction {
 public:
  Prediction(const Problem& p, const Tiling& t, const Target& target)
      : p_(p),
        t_(t),
        target_(target),
        l1_(static_cast<double>(target.l1_bytes)),
        l2_(static_cast<double>(target.l2_bytes)),
        width_(static_cast<double>(t.tile_n) * p.lanes),
        height_(static_cast<double>(t.tile_m)),
        tiles_(ceil_div(p.m, height_)),
        panels_(ceil_div(p.n, width_)),
        task_m_(std::min(tiles_, static_cast<double>(t.task_m))),
        task_n_(std::min(panels_, static_cast<double>(t.task_n))),
        row_blocks_(ceil_div(tiles_, task_m_)),
        column_blocks_(ceil_div(panels_, task_n_)),
        splits_(static_cast<double>(t.splits)) {
    const double steps = t.depth > 0 ? static_cast<double>(t.depth) : ceil_div(p.steps, splits_);
    blocks_ = t.depth > 0 ? ceil_div(p.steps, steps) : 1;
    depth_ = std::min(p.k, steps * p.k / p.steps);
    panel_bytes_ = depth_ * width_ * p.element;
    far_ = p.left_bytes + p.right_bytes + p.out_bytes > l2_;
  }

  [[nodiscard]] double us() const {
    const double arithmetic = tile_steps() + tile_ends(), memory = traffic();
    const double cycles = std::max(arithmetic, memory) + 0.15 * std::min(arithmetic, memory) + packing();
    const double stages = 1 + (t_.pack_m == Packing::Shared ? 1 : 0) +
                          (t_.pack_n == Packing::Shared ? 1 : 0) + (splits_ > 1 ? 1 : 0);
    return cycles * imbalance() / target_.threads / kCyclesPerUs + stages * kStageUs;
  }

 private:
  /// One step of one register tile: fma ports, load ports and the latency of a chain of sums overlap; what
  /// misses the first cache or is put together from masked parts does not.
  [[nodiscard]] double step() const {
    const auto n = static_cast<double>(t_.tile_n);
    double apart = 0.1;
    if (t_.pack_m == Packing::Direct)
      apart += height_ * (conflict(p_.row_bytes, height_) - 1) + 4 * (conflict(p_.left_step_bytes, p_.k) - 1);
    if (t_.pack_n == Packing::Direct)
      apart += n * ((depth_ > 64 ? 2 * (conflict(p_.step_bytes, p_.k) - 1) : 0) + (p_.masked_n ? 4.5 * masks()
                                                                                   : p_.even_n ? 0.2
                                                                                               : 2));
    // A panel that does not stay in the first cache comes from the second, which all but keeps up.
    if (panel_bytes_ > 0.75 * l1_) apart += n * 0.006 * target_.vector_bytes;
    return std::max({height_ * n / 2, 0.62 * (height_ + n), 4.0}) + apart;
  }
  /// Masks are found anew for each block of summed positions.
  [[nodiscard]] double masks() const { return blocks_ > 1 ? 2 : 1; }
  [[nodiscard]] double tile_steps() const {
    double cycles = p_.batch * tiles_ * panels_ * p_.k * step();
    // Blocks that leave the cache in which they are read again and again.
    if (panel_bytes_ > l2_ / 2) cycles *= 1.15;
    if (tiles_ > 1 && task_m_ * height_ * depth_ * p_.element + panel_bytes_ > 0.5 * l2_) cycles *= 1.06;
    return cycles;
  }

  /// Tiles start, end and are written; sums that wait in memory for the next block go there and back.
  [[nodiscard]] double tile_ends() const {
    const auto vectors = static_cast<double>(t_.tile_m * t_.tile_n);
    const double tile_bytes = vectors * target_.vector_bytes, all = p_.batch * tiles_ * panels_;
    double trips = 0;
    if (splits_ > 1) {
      trips = 8 * blocks_ + splits_ * (all * splits_ * tile_bytes > l2_ ? 25 : 8);
    } else if (blocks_ > 1) {
      const double waiting = task_m_ * task_n_ * tile_bytes;
      trips = 4 + blocks_ * (waiting > l2_ / 2 ? 24 : waiting > l2_ / 8 ? 12 : waiting > 0.75 * l1_ ? 8 : 3);
    }
    return all * (std::max(blocks_, splits_) * 30 + vectors * trips + vectors * (p_.columns_out ? 2 : 10));
  }

  /// What comes from beyond the second cache while tiles are computed: panels once for each block of rows,
  /// sides that are not packed, and the results.
  [[nodiscard]] double traffic() const {
    if (!far_) return 0;
    double bytes = 2 * p_.out_bytes;
    const double passes_n = row_blocks_, passes_m = column_blocks_;
    if (t_.pack_n == Packing::Direct)
      bytes += p_.right_bytes * scatter() * (p_.right_bytes > l2_ / 2 ? passes_n : 1);
    else if (t_.pack_n == Packing::Shared)
      bytes += p_.packed_n() * (p_.packed_n() > l2_ / 2 ? passes_n : 1);
    if (t_.pack_m == Packing::Direct)
      bytes += p_.left_bytes * (p_.left_bytes > l2_ / 2 ? passes_m : 1);
    else if (t_.pack_m == Packing::Shared)
      bytes += p_.packed_m() * (p_.packed_m() > l2_ / 2 ? passes_m : 1);
    return bytes / kFarBytes;
  }
  /// How much longer it takes to read the right side where it lies: few rows at a time stream by, many are so
  /// many pieces that nothing fetches ahead.
  [[nodiscard]] double scatter() const {
    const double piece = depth_ <= 32 ? task_n_ * width_ : width_;
    return piece >= p_.n ? 1 : scattered(piece * p_.element);
  }

  /// Vectors moved, their masks, and the way through memory.
  [[nodiscard]] double packing() const {
    const double rows = p_.packed_m() / target_.vector_bytes, columns = p_.packed_n() / target_.vector_bytes;
    const double lanes = p_.lanes;
    // Masks of lines are cheap only where one task packs all rows.
    const double line_cost = !p_.masked_m                                       ? 2
                             : t_.pack_m == Packing::Shared || row_blocks_ == 1 ? 4 * masks()
                                                                                : 30 * masks();
    const double row_cost =
        p_.lines ? line_cost : (p_.masked_m ? 6 : 2.5) * ceil_div(height_, lanes) * lanes / height_;
    const double column_cost = p_.turned   ? (p_.masked_n ? 9 * masks() : 6)
                               : p_.near_n ? (p_.masked_n ? 5 * masks() : 1.5)
                                           : 1.2 * lanes;
    const double read_m = far_ ? p_.left_bytes / kFarBytes : 0;
    // Rows of many panels are read as they lie; single panels in pieces.
    const bool wide = p_.even_n && !p_.masked_n && !p_.turned && t_.pack_n == Packing::Shared;
    const double read_n =
        far_ ? p_.right_bytes / kFarBytes * (wide || p_.turned ? 1 : scattered(width_ * p_.element)) : 0;
    double cycles = 0;
    if (t_.pack_m == Packing::Task) cycles += (rows * row_cost + read_m) * column_blocks_;
    if (t_.pack_m == Packing::Shared)
      cycles += rows * (row_cost + 1) + read_m + (far_ ? p_.packed_m() / kFarBytes : 0);
    if (t_.pack_n == Packing::Task) cycles += (columns * column_cost + read_n) * row_blocks_;
    if (t_.pack_n == Packing::Shared)
      cycles += columns * (column_cost + 1) + read_n + (far_ ? p_.packed_n() / kFarBytes : 0);
    return cycles;
  }

  /// The last task may be a part of one.
  [[nodiscard]] double imbalance() const {
    const double threads = target_.threads;
    const double tasks = p_.batch * (tiles_ / task_m_) * (panels_ / task_n_) * splits_;
    const double whole = std::floor(tasks), part = tasks - whole;
    const double longest =
        std::fmod(whole, threads) == 0 ? whole / threads + part : std::ceil(whole / threads);
    return longest * threads / tasks;
  }

  const Problem& p_;
  const Tiling& t_;
  const Target& target_;
  double l1_, l2_, width_, height_, tiles_, panels_, task_m_, task_n_, row_blocks_, column_blocks_, splits_;
  double blocks_ = 1, depth_ = 1, panel_bytes_ = 0;
  bool far_ = false;  ///< the tensors do not fit the second cache
};

double predicted_us(const Problem& p, const Tiling& t, const Target& target) {
  return Prediction(p, t, target).us();
}

/// Rows for a register tile of `vectors` columns that waste least of `m` rows.
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
  return {heights.begin(), heights.end()};
}

struct Search {
  const Problem& p;
  const Target& target;
  std::vector<std::pair<double, Tiling>> found;

  void consider(const Tiling& t) { found.emplace_back(predicted_us(p, t, target), t); }

  /// Blocks of tasks, and splits of the sum where there are too few tiles for the threads.
  void tasks(Tiling t) {
    const double width = static_cast<double>(t.tile_n) * p.lanes;
    const auto tiles = static_cast<int64_t>(ceil_div(p.m, static_cast<double>(t.tile_m)));
    const auto panels = static_cast<int64_t>(ceil_div(p.n, width));
    const int64_t threads = target.threads;
    std::set<std::pair<int64_t, int64_t>> blocks{
        {tiles, 1},
        {tiles, (panels + threads - 1) / threads},
        {tiles, (panels + 4 * threads - 1) / (4 * threads)},
        {(tiles + threads - 1) / threads, panels},
        {(tiles + 4 * threads - 1) / (4 * threads), panels},
        {std::min<int64_t>(tiles, 5), panels},
        {std::min<int64_t>(tiles, 6), panels},
        {std::min<int64_t>(tiles, 10), panels},
        {std::min<int64_t>(tiles, 5), (panels + threads - 1) / threads},
        {std::min<int64_t>(tiles, 10), std::min<int64_t>(panels, 16)}};
    // Sums that wait in memory for one row of tiles, in half the first cache.
    if (t.depth > 0 && tiles == 1)
      blocks.insert({1, std::clamp<int64_t>(target.l1_bytes / 2 / (t.tile_m * t.tile_n * target.vector_bytes),
                                            1, panels)});
    for (const auto& [m, n] : blocks) {
      t.task_m = std::max<int64_t>(m, 1), t.task_n = std::max<int64_t>(n, 1);
      t.splits = 1;
      consider(t);
      const double all =
          p.batch * ceil_div(double(tiles), double(t.task_m)) * ceil_div(double(panels), double(t.task_n));
      for (const int64_t splits : {threads, 4 * threads})
        if (threads > 1 && all < 2 * double(threads) && p.steps >= double(2 * splits) && p.k >= 512) {
          t.splits = splits;
          consider(t);
        }
    }
  }

  void depths(Tiling t) {
    t.depth = 0;
    tasks(t);
    const double inner = p.k / p.steps;
    // One row of tiles has nothing to use a panel for again: a right side that is not packed streams by in a
    // few of its rows at a time.
    const bool streams = p.m <= static_cast<double>(t.tile_m) && t.pack_n == Packing::Direct;
    for (const double positions : {8.0, 16.0, 256.0, 512.0, 1024.0}) {
      if (positions < 256 && !streams) continue;
      const double steps = std::max(1.0, std::round(positions / inner));
      if (p.k < 1.5 * positions || steps >= p.steps) continue;
      t.depth = static_cast<int64_t>(ceil_div(p.steps, ceil_div(p.steps, steps)));  // blocks of one size
      tasks(t);
    }
  }

  void all(bool exchange) {
    for (int64_t vectors = 1; vectors <= 4; ++vectors) {
      if (vectors > 1 && double(p.lanes) * double(vectors - 1) >= p.n) break;
      for (const int64_t height : tile_heights(p, vectors, target))
        for (const Packing m : {Packing::Direct, Packing::Task, Packing::Shared})
          for (const Packing n : {Packing::Direct, Packing::Task, Packing::Shared}) {
            if (m == Packing::Direct && !p.plain_m) continue;
            if (n == Packing::Direct && !p.near_n) continue;
            depths({.exchange = exchange, .tile_m = height, .tile_n = vectors, .pack_m = m, .pack_n = n});
          }
    }
  }
};

}  // namespace

std::vector<Candidate> candidates(const kernel::KernelSpec& spec, const Contraction& c, const DimMap& top,
                                  const Target& target) {
  constexpr size_t kMost = 12;
  if (target.lanes(static_cast<int>(element_bytes(c.dtype))) < 2) return {};
  std::vector<std::pair<double, Tiling>> found;
  for (const bool exchange : {false, true}) {
    const Problem p = problem_of(spec, c, exchange, top, target);
    Search search{p, target, {}};
    search.all(exchange);
    found.insert(found.end(), search.found.begin(), search.found.end());
  }
  std::ranges::stable_sort(found, {}, [](const auto& f) { return f.first; });
  // Close relatives differ less than the prediction errs: a few of each kind.
  std::vector<Candidate> chosen;
  std::map<std::tuple<bool, Packing>, int> kinds;
  std::map<std::tuple<bool, Packing, int64_t>, int> relatives;
  for (const auto& [us, t] : found) {
    if (chosen.size() == kMost || (!chosen.empty() && us > 3 * chosen[0].predicted_us)) break;
    int &kind = kinds[{t.exchange, t.pack_n}], &relative = relatives[{t.exchange, t.pack_n, t.tile_n}];
    if (kind == 5 || relative == 2) continue;
    ++kind, ++relative;
    chosen.push_back({parameters_of(t), us});
  }
  return chosen;
}

}  // namespace luminal::codegen::contract
