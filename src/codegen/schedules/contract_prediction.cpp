#include "codegen/schedules/contract_prediction.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>

#include "codegen/schedules/cost.h"

namespace luminal::codegen::contract {
namespace {

double ceil_div(double a, double b) { return std::ceil(a / b); }

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
bool is_plain(const kernel::KernelSpec& spec, const Factor& f) {
  const bool converts = std::ranges::all_of(f.body.nodes(), [](const ScalarNode& n) {
    return n.op == ScalarOp::Input || n.op == ScalarOp::Convert;
  });
  if (!converts || is_masked(f)) return false;
  const kernel::Operand& o = f.operands[f.body.nodes()[0].payload];
  return o.kind == kernel::Operand::Kind::Load &&
         !is_quantized(spec.slots()[static_cast<size_t>(o.slot)].dtype);
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
    const Dtype stored = spec.slots()[static_cast<size_t>(o.slot)].dtype;
    return static_cast<int64_t>(static_cast<double>(std::abs(o.index.exec(top, at) - from)) *
                                kernel::mean_element_bytes(stored));
  }
  return 0;
}

/// What it takes to compute a vector of a body's, with the values it reads.
double cycles_of(const kernel::KernelSpec& spec, const ScalarFunction& body,
                 std::span<const kernel::Operand> operands) {
  double cycles = body_cycles(body);
  for (const ScalarNode& n : body.nodes()) {
    if (n.op != ScalarOp::Input || operands[n.payload].kind != kernel::Operand::Kind::Value) continue;
    const kernel::Value& value = spec.values()[static_cast<size_t>(operands[n.payload].value)];
    if (!value.monoid) cycles += cycles_of(spec, value.body, value.operands);
  }
  return cycles;
}

/// Appends what each operand of a body takes to load, those of the values that it reads included, without what
/// decodes blocks. Returns that.
double add_loads(const kernel::KernelSpec& spec, const ScalarFunction& body,
                 std::span<const kernel::Operand> operands, const AxisGroup& along, int lanes,
                 std::vector<double>& cycles) {
  double decoding = 0;
  for (const ScalarNode& n : body.nodes()) {
    if (n.op != ScalarOp::Input) continue;
    const kernel::Operand& o = operands[n.payload];
    if (o.kind != kernel::Operand::Kind::Value) {
      const double decode = decode_cycles(spec, o, along, lanes);
      cycles.push_back(load_cycles(spec, o, along, lanes) - decode);
      decoding += decode;
      continue;
    }
    const kernel::Value& value = spec.values()[static_cast<size_t>(o.value)];
    if (!value.monoid) decoding += add_loads(spec, value.body, value.operands, along, lanes, cycles);
  }
  return decoding;
}

/// What a side takes to compute a vector of, once for each place in which it is packed: its body, and all
/// that it loads but one, which the way of packing pays for. `straight`: as if its lanes were neighbours.
double weight_of(const kernel::KernelSpec& spec, const Factor& f, const AxisGroup& along, int lanes,
                 bool straight) {
  constexpr double kStraight = 0.5;
  std::vector<double> loads;
  const double decoding = add_loads(spec, f.body, f.operands, along, lanes, loads);
  double paid = loads.empty() ? 0 : std::ranges::max(loads);
  if (loads.size() > 1 && straight) paid = kStraight;
  return cycles_of(spec, f.body, f.operands) + decoding + std::accumulate(loads.begin(), loads.end(), -paid);
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
    bytes += static_cast<double>(s.elements.exec(top)) * kernel::mean_element_bytes(s.dtype);
  }
  return bytes;
}

/// Rows that lie a multiple of a page apart meet in one set of the first cache, and each needs a translation
/// of its own.
double conflict(int64_t bytes, double together) {
  if (together <= 4 || bytes == 0) return 1;
  return bytes % 4096 == 0 ? 4 : bytes % 2048 == 0 ? 2 : bytes >= 4096 ? 1.2 : 1;
}

/// One step of one register tile: fma ports, load ports and the latency of a chain of sums overlap.
double step_cycles(double height, double vectors) {
  return std::max({height * vectors / 2, 0.62 * (height + vectors), 4.0});
}

}  // namespace

Problem problem_of(const kernel::KernelSpec& spec, const Contraction& c, bool swap_operands,
                   const DimMap& top, const Target& target) {
  Problem p;
  p.element = static_cast<int>(element_bytes(c.dtype));
  p.lanes = target.lanes(p.element);
  const Tiling t{.swap_operands = swap_operands, .tile_m = 1, .tile_n = 1};
  const Layout l = lay_out(spec, c, t, top, p.lanes);
  p.m = size_of(spec, l.c.rows, top), p.n = size_of(spec, l.c.columns, top);
  p.k = size_of(spec, l.c.summed, top), p.batch = size_of(spec, l.c.batch, top);
  p.steps = static_cast<double>(l.summed.extents[0].exec(top));
  p.plain_m = is_plain(spec, l.c.left), p.plain_n = is_plain(spec, l.c.right);
  p.masked_m = is_masked(l.c.left), p.masked_n = is_masked(l.c.right);
  p.frozen_m = is_frozen(spec, l.c.left), p.frozen_n = is_frozen(spec, l.c.right);
  p.turned = l.turned, p.lines = l.lines, p.columns_out = l.columns_out;
  const auto filled = [&](int64_t line) {
    const auto length = static_cast<double>(std::max<int64_t>(line, 1));
    return length / (ceil_div(length, p.lanes) * p.lanes);
  };
  if (p.lines && p.masked_m) p.part_of_m = filled(l.left_line);
  if (p.turned) p.part_of_n = filled(l.right_line);
  for (const ScalarNode& n : l.c.right.body.nodes())
    if (n.op == ScalarOp::Input)
      if (const auto even = evenly(l.c.right.operands[n.payload].index, l.columns)) {
        p.near_n = even->stride == 1;
        p.second_n = even->stride == 2;
        p.even_n = p.near_n && even->inner == l.columns.axes.size();
      }
  p.weight_m = weight_of(spec, l.c.left, l.lines ? l.summed : l.rows, p.lanes, l.lines);
  p.weight_n = weight_of(spec, l.c.right, l.turned ? l.summed : l.columns, p.lanes, l.turned || p.near_n);
  if (l.lines && !l.c.rows.empty()) p.row_bytes = bytes_along(spec, l.c.left, l.rows.axes.back(), top);
  if (!l.lines) p.left_step_bytes = bytes_along(spec, l.c.left, l.summed.axes.back(), top);
  p.step_bytes = bytes_along(spec, l.c.right, l.summed.axes.back(), top);
  p.left_bytes = bytes_of(spec, l.c.left, top), p.right_bytes = bytes_of(spec, l.c.right, top);
  for (const kernel::Output& o : spec.outputs())
    p.out_bytes += static_cast<double>(o.elements.exec(top) *
                                       element_bytes(spec.values()[static_cast<size_t>(o.value)].dtype()));
  return p;
}

Tiles::Tiles(const Problem& p, int64_t tile_m, int64_t tile_n, const Target& target)
    : height(static_cast<double>(tile_m)),
      width(static_cast<double>(tile_n * p.lanes)),
      count_m(ceil_div(p.m, height)),
      count_n(ceil_div(p.n, width)),
      least_us(p.batch * count_m * count_n * p.k * step_cycles(height, static_cast<double>(tile_n)) /
                   target.threads / kRates.cycles_per_us +
               kRates.stage_us) {
  const auto tiles = static_cast<int64_t>(count_m), panels = static_cast<int64_t>(count_n);
  const int64_t threads = target.threads;
  const auto add = [&](int64_t m, int64_t n, bool waiting = false) {
    Dealt d{.task_m = std::clamp<int64_t>(m, 1, tiles), .task_n = std::clamp<int64_t>(n, 1, panels)};
    const auto same = [&](const Dealt& o) { return o.task_m == d.task_m && o.task_n == d.task_n; };
    if (std::ranges::any_of(dealt, same)) return;
    const double task_m = static_cast<double>(d.task_m), task_n = static_cast<double>(d.task_n);
    d.row_blocks = ceil_div(count_m, task_m), d.column_blocks = ceil_div(count_n, task_n);
    d.tasks = p.batch * (count_m / task_m) * (count_n / task_n);
    d.uneven = unevenness(d.tasks, target.threads);
    d.waiting = waiting;
    dealt.push_back(d);
  };
  // Panels that share all rows, or rows that share all panels, for few or many tasks.
  for (const int64_t rows : {2, 3, 5, 6, 10}) add(rows, panels);
  for (const int64_t each : {4, 2, 1}) add((tiles + each * threads - 1) / (each * threads), panels);
  add(5, (panels + threads - 1) / threads);
  add(10, 16);
  for (const int64_t each : {4, 2, 1}) add(tiles, (panels + each * threads - 1) / (each * threads));
  add(tiles, 1);
  // Sums of all rows that wait in memory, in half the second cache or half the first.
  const int64_t column_bytes = tiles * tile_m * tile_n * target.vector_bytes;
  if (tiles <= kMostStreamed) add(tiles, target.l2_bytes / 2 / column_bytes, true);
  if (tiles == 1) add(1, target.l1_bytes / 2 / column_bytes, true);
  std::ranges::sort(dealt, {}, [](const Dealt& d) { return std::pair(d.task_m, d.task_n); });
}

Prediction::Prediction(const Problem& p, const Tiles& tiles, const Tiling& t, const Target& target)
    : p_(p),
      tiles_(tiles),
      t_(t),
      target_(target),
      l1_(static_cast<double>(target.l1_bytes)),
      l2_(static_cast<double>(target.l2_bytes)),
      all_(p.batch * tiles.count_m * tiles.count_n),
      splits_(static_cast<double>(t.splits)) {
  const double steps = t.depth > 0 ? static_cast<double>(t.depth) : ceil_div(p.steps, splits_);
  blocks_ = t.depth > 0 ? ceil_div(p.steps, steps) : 1;
  depth_ = std::min(p.k, steps * p.k / p.steps);
  panel_bytes_ = depth_ * tiles.width * p.element;
  far_ = p.left_bytes + p.right_bytes + p.out_bytes > l2_;
  // A panel that leaves the second cache while it is read again and again.
  tile_steps_ = all_ * p.k * step() * (panel_bytes_ > l2_ / 2 ? 1.15 : 1);
  stages_us_ =
      kRates.stage_us * (1 + (packs_rows() ? 1 : 0) + (packs_columns() ? 1 : 0) + (splits_ > 1 ? 1 : 0));
  set_packing();
  least_cycles_ = tile_steps_ + tile_ends(0) + std::min(pack_m_one_block_, pack_m_) + pack_n_ + packed_;
}

double Prediction::us(const Dealt& d, double most) const {
  const double uneven = t_.splits == 1 ? d.uneven : unevenness(d.tasks * splits_, target_.threads);
  constexpr double kRounding = 1 - 1e-12;  // equal times are not given up
  if (least_cycles_ * uneven * kRounding > (most - stages_us_) * kRates.cycles_per_us * target_.threads)
    return kNever;
  const double arithmetic = tile_steps(d) + tile_ends(trips(d)), memory = traffic(d),
               fetched = fetched_traffic(d);
  const double cycles = std::max(arithmetic, memory + fetched) + 0.15 * std::min(arithmetic, memory) +
                        0.05 * std::min(arithmetic, fetched) + packing(d);
  return cycles * uneven / target_.threads / kRates.cycles_per_us + stages_us_;
}

double Prediction::least_us() const {
  return least_cycles_ / target_.threads / kRates.cycles_per_us + stages_us_;
}

/// A step of a register tile, and what does not overlap with it: what misses the first cache or is put
/// together from masked parts; what is not packed is computed anew for each tile of rows.
double Prediction::step() const {
  const auto n = static_cast<double>(t_.tile_n);
  double stalls = 0.1;
  if (t_.pack_m == Packing::Direct)
    stalls += tiles_.height * (conflict(p_.row_bytes, tiles_.height) - 1) +
              4 * (conflict(p_.left_step_bytes, p_.k) - 1);
  if (t_.pack_n == Packing::Direct)
    stalls += n * (p_.weight_n + (depth_ > 64 ? 2 * (conflict(p_.step_bytes, p_.k) - 1) : 0) +
                   (p_.masked_n ? 4.5 * masks()
                    : p_.even_n ? 0.2
                                : 1.5));
  // A panel that does not stay in the first cache comes from the second, which all but keeps up.
  if (panel_bytes_ > 0.75 * l1_) stalls += n * (t_.ahead > 0 ? 0.004 : 0.006) * target_.vector_bytes;
  return step_cycles(tiles_.height, n) + stalls;
}
double Prediction::tile_steps(const Dealt& d) const {
  // Rows that leave the cache in which they are read again and again.
  const bool leave =
      tiles_.count_m > 1 &&
      static_cast<double>(d.task_m) * tiles_.height * depth_ * p_.element + panel_bytes_ > 0.5 * l2_;
  return leave ? 1.06 * tile_steps_ : tile_steps_;
}

/// Vectors of sums that wait in memory for the next block, there and back.
double Prediction::trips(const Dealt& d) const {
  const double tile_bytes = static_cast<double>(t_.tile_m * t_.tile_n) * target_.vector_bytes;
  if (splits_ > 1) return 8 * blocks_ + splits_ * (all_ * splits_ * tile_bytes > l2_ ? 25 : 8);
  if (blocks_ <= 1) return 0;
  const double waiting = static_cast<double>(d.task_m) * static_cast<double>(d.task_n) * tile_bytes;
  return 4 + blocks_ * (waiting > 2 * l2_ ? 16 : waiting > l2_ / 2 ? 8 : waiting > 0.75 * l1_ ? 3 : 2);
}
/// Tiles start, end and are written.
double Prediction::tile_ends(double trips) const {
  const auto vectors = static_cast<double>(t_.tile_m * t_.tile_n);
  const double start = depth_ <= 32 ? 10 : 30;  // the end of a short loop is foreseen
  return all_ * (std::max(blocks_, splits_) * start + vectors * trips + vectors * (p_.columns_out ? 2 : 10));
}

/// What comes from beyond the second cache while tiles are computed: panels once for each block of rows,
/// sides that are not packed, and the results.
double Prediction::traffic(const Dealt& d) const {
  if (!far_) return 0;
  double bytes = 2 * p_.out_bytes;
  if (t_.pack_n == Packing::Direct)
    bytes += p_.right_bytes * scatter(d.task_n, tiles_.width, p_.n) *
             (p_.right_bytes > l2_ / 2 ? d.row_blocks : 1);
  else if (t_.pack_n == Packing::Shared && !fetched_near())
    bytes += panel_traffic(d);
  if (t_.pack_m == Packing::Direct)
    bytes += p_.left_bytes * (p_.lines ? 1 : scatter(d.task_m, tiles_.height, p_.m)) *
             (p_.left_bytes > l2_ / 2 ? d.column_blocks : 1);
  else if (t_.pack_m == Packing::Shared)
    bytes += p_.packed_m() * (p_.packed_m() > l2_ / 2 ? d.column_blocks : 1);
  return bytes / kRates.far_bytes_per_cycle();
}
/// Of packed panels, once for each block of rows.
double Prediction::panel_traffic(const Dealt& d) const {
  return p_.packed_n() * (p_.packed_n() > l2_ / 2 ? d.row_blocks : 1);
}
/// Panels that are fetched ahead and lie in the last cache, of which others take their part.
bool Prediction::fetched_near() const { return t_.ahead > 0 && p_.packed_n() <= 4 * l2_; }
/// Arithmetic hides nearly all of it.
double Prediction::fetched_traffic(const Dealt& d) const {
  if (!far_ || t_.pack_n != Packing::Shared || !fetched_near()) return 0;
  return panel_traffic(d) / kRates.near_bytes_per_cycle();
}
/// How much longer it takes to read a side where it lies, whose rows along the sum are `whole` elements of which a tile
/// reads `part`. A few rows at a time stream by; where other rows come next, some twenty lines that the processor has
/// fetched beyond the end of each piece are for nothing. Many rows are so many pieces that nothing fetches ahead but the
/// steps that wait for them; lines come in pairs. None of it counts where all rows fit the second cache.
double Prediction::scatter(int64_t tiles_of_task, double part, double whole) const {
  constexpr double kTwentyLines = 1200, kTwoLines = 128, kMost = 2.5;
  const bool streams = depth_ <= 32;
  const double piece = streams ? static_cast<double>(tiles_of_task) * part : part;
  if (piece >= whole) return 1;
  if (p_.k * whole * p_.element <= l2_ / 2) return scattered(whole * p_.element);
  const double bytes = piece * p_.element;
  if (streams) return blocks_ > 1 ? scattered(bytes, kTwentyLines) : scattered(bytes);
  return std::min(kMost, scattered(bytes)) * ceil_div(bytes, kTwoLines) * kTwoLines /
         std::max(bytes, kTwoLines);
}

/// Vectors moved, their masks, and the way through memory.
void Prediction::set_packing() {
  const double rows = p_.packed_m() / target_.vector_bytes, columns = p_.packed_n() / target_.vector_bytes;
  const double lanes = p_.lanes;
  // Windows of an image are packed in pieces shorter than a cache line; each waits for what the second cache lacks.
  const double waits = p_.masked_m ? std::min(45.0, 7.5 * p_.left_bytes / l2_) : 0;
  const auto row_cost = [&](double lines) {
    return p_.weight_m + (p_.lines ? lines / p_.part_of_m
                                   : waits + (p_.masked_m ? 6 : 2.5) * ceil_div(tiles_.height, lanes) *
                                                 lanes / tiles_.height);
  };
  const double column_cost = p_.weight_n + (p_.turned     ? (p_.masked_n ? 9 * masks() : 6) / p_.part_of_n
                                            : p_.near_n   ? (p_.masked_n ? 5 * masks() : 1.5)
                                            : p_.second_n ? (p_.masked_n ? 7 * masks() : 3)
                                                          : 1.2 * lanes);
  const double read_m = far_ ? p_.left_bytes / kRates.far_bytes_per_cycle() : 0;
  // Rows of many panels are read as they lie; single panels in pieces.
  const bool wide = p_.even_n && !p_.masked_n && !p_.turned && t_.pack_n == Packing::Shared;
  const double read_n = far_ ? p_.right_bytes / kRates.far_bytes_per_cycle() *
                                   (wide || p_.turned ? 1 : scattered(tiles_.width * p_.element))
                             : 0;
  if (t_.pack_m == Packing::Task) {
    // Masks of lines are cheap only where one task packs all rows.
    pack_m_one_block_ = rows * row_cost(p_.masked_m ? 4 * masks() : 2) + read_m;
    pack_m_ = rows * row_cost(p_.masked_m ? 30 * masks() : 2) + read_m;
  }
  if (t_.pack_n == Packing::Task) pack_n_ = columns * column_cost + read_n;
  if (packs_rows())
    packed_ += rows * (row_cost(p_.masked_m ? 4 * masks() : 2) + 1) + read_m +
               (far_ ? p_.packed_m() / kRates.far_bytes_per_cycle() : 0);
  if (packs_columns())
    packed_ +=
        columns * (column_cost + 1) + read_n + (far_ ? p_.packed_n() / kRates.far_bytes_per_cycle() : 0);
}
double Prediction::packing(const Dealt& d) const {
  return (d.row_blocks == 1 ? pack_m_one_block_ : pack_m_) * d.column_blocks + pack_n_ * d.row_blocks +
         packed_;
}

}  // namespace luminal::codegen::contract
