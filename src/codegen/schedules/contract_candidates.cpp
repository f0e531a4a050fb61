#include "codegen/schedules/contract_candidates.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

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
  return p;
}

double ceil_div(double a, double b) { return std::ceil(a / b); }

/// Cycles of one step of one register tile: fma ports, load ports and the latency of a chain of sums overlap;
/// what misses the first cache or is put together from masked parts does not.
double step_cycles(const Problem& p, const Tiling& t) {
  const auto m = static_cast<double>(t.tile_m), n = static_cast<double>(t.tile_n);
  double apart = 0.5;  // the loop itself
  if (t.pack_m == Packing::Direct)
    apart += m * (conflict(p.row_bytes, m) - 1) + 4 * (conflict(p.left_step_bytes, p.k) - 1);
  if (t.pack_n == Packing::Direct)
    apart += n * (2 * (conflict(p.step_bytes, p.k) - 1) + (p.even_n ? 0.2 : p.masked_n ? 3.5 : 2));
  return std::max({m * n / 2, (m + n) / 2, 4.0}) + apart;
}

double predicted_us(const Problem& p, const Tiling& t, const Target& target) {
  const double width = static_cast<double>(t.tile_n) * p.lanes;
  const double tiles = ceil_div(p.m, static_cast<double>(t.tile_m)), panels = ceil_div(p.n, width);
  const double row_blocks = ceil_div(tiles, static_cast<double>(t.task_m));
  const double column_blocks = ceil_div(panels, static_cast<double>(t.task_n));
  const auto splits = static_cast<double>(t.splits);
  const double inner = p.k / p.steps;
  const double depth = t.depth > 0 ? static_cast<double>(t.depth) : ceil_div(p.steps, splits);
  const double blocks = t.depth > 0 ? ceil_div(p.steps, depth) : 1;
  double cycles = p.batch * tiles * panels * p.k * step_cycles(p, t);
  // Tiles start, end and are written; sums that wait in memory for the next block go there and back.
  const auto vectors = static_cast<double>(t.tile_m * t.tile_n);
  const auto l2 = static_cast<double>(target.l2_bytes);
  const double tile_bytes = vectors * p.lanes * p.element;
  double trips = 0;
  if (splits > 1)
    trips = std::max(blocks, splits) * (p.batch * tiles * panels * splits * tile_bytes > l2 ? 12 : 5);
  else if (blocks > 1)
    trips = blocks * (static_cast<double>(t.task_m * t.task_n) * tile_bytes > l2 / 4 ? 6 : 2);
  cycles += p.batch * tiles * panels * (splits * 12 + vectors * trips + vectors * (p.columns_out ? 2 : 10));
  // A block of columns that leaves the cache in which it is read again and again.
  const double panel_bytes = depth * inner * width * p.element;
  if (panel_bytes > static_cast<double>(target.l1_bytes) * 0.75) cycles *= 1.02;
  if (panel_bytes > static_cast<double>(target.l2_bytes) / 2) cycles *= 1.15;
  const double row_bytes = static_cast<double>(t.task_m * t.tile_m) * depth * inner * p.element;
  if (row_bytes > static_cast<double>(target.l2_bytes) / 2) cycles *= 1.04;
  // Packing: vectors moved, their masks, and the trip through memory of what all tasks share.
  const double rows = p.batch * p.m * p.k / p.lanes, columns = p.batch * p.n * p.k / p.lanes;
  const auto height = static_cast<double>(t.tile_m);
  // Masks of lines are cheap only where one task packs all rows.
  const double line_cost = !p.masked_m ? 2 : t.pack_m == Packing::Shared || row_blocks == 1 ? 4 : 30;
  const double row_cost =
      p.lines ? line_cost : (p.masked_m ? 6 : 2.5) * ceil_div(height, p.lanes) * p.lanes / height;
  const double column_cost = p.turned   ? (p.masked_n ? 9 : 6)
                             : p.near_n ? (p.masked_n ? 3 : 1.5)
                                        : 1.2 * p.lanes;
  if (t.pack_m == Packing::Task) cycles += rows * row_cost * column_blocks;
  if (t.pack_m == Packing::Shared) cycles += rows * (row_cost + 4);
  if (t.pack_n == Packing::Task) cycles += columns * column_cost * row_blocks;
  if (t.pack_n == Packing::Shared) cycles += columns * (column_cost + 4);
  const double tasks = p.batch * row_blocks * column_blocks * splits;
  const double threads = target.threads;
  const double imbalance = ceil_div(tasks, threads) * threads / tasks;
  const double stages = 1 + (t.pack_m == Packing::Shared ? 1 : 0) + (t.pack_n == Packing::Shared ? 1 : 0) +
                        (splits > 1 ? 1 : 0);
  return cycles * imbalance / threads / kCyclesPerUs + stages * kStageUs;
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
        {std::min<int64_t>(tiles, 10), std::min<int64_t>(panels, 16)}};
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
    for (const double positions : {256.0, 512.0}) {
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
