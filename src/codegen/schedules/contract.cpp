#include "codegen/schedules/contract.h"

#include <algorithm>

#include "base/fail.h"
#include "codegen/schedules/contract_candidates.h"
#include "codegen/schedules/families.h"
#include "codegen/schedules/specialise.h"

namespace luminal::codegen {
namespace contract {
namespace {

/// The loops of one contraction under one tiling.
class Lowering {
 public:
  Lowering(const kernel::KernelSpec& spec, Layout layout, const Target& target)
      : l_(std::move(layout)),
        threads_(target.threads),
        l2_bytes_(target.l2_bytes),
        vector_registers_(target.vector_registers),
        program_(program_for(spec, "contract")) {}

  Program lower() {
    for (const bool prepares : {true, false}) {  // the stages that prepare come first
      if (l_.t.pack_m == Packing::Shared && is_frozen(*l_.spec, l_.c.left) == prepares)
        pack_rows_stage(prepares);
      if (l_.t.pack_n == Packing::Shared && is_frozen(*l_.spec, l_.c.right) == prepares)
        pack_columns_stage(prepares);
    }
    compute_stage();
    if (l_.t.splits > 1) sum_stage();
    return std::move(program_);
  }

 private:
  struct Place {  ///< of a task
    Coordinates at;
    Expression batch, row_block, column_block, split;
  };

  int workspace(std::string_view name, Space space, const Expression& elements) {
    return add_buffer(program_,
                      {.name = std::string(name), .space = space, .dtype = l_.c.dtype, .elements = elements});
  }
  [[nodiscard]] Expression steps() const { return l_.summed.extents[0]; }
  [[nodiscard]] Expression tile_elements() const { return l_.t.tile_m * l_.tile_columns(); }
  /// Coordinates with those of the batch axes set.
  [[nodiscard]] Coordinates at_batch(const Expression& batch) const {
    Coordinates at(l_.spec->extents().size(), 0);
    l_.batch.place(batch, at);
    return at;
  }
  /// Steps of the first summed axis for one packing task: some tasks for each thread.
  [[nodiscard]] Expression pack_chunk(const Expression& others) const {
    const int64_t wanted = 4 * threads_;
    const auto have = others.constant();
    if (!have || *have >= wanted) return steps();
    return steps().ceil_div((wanted + *have - 1) / std::max<int64_t>(*have, 1)).max(1);
  }

  void pack_rows_stage(bool prepares) {
    rows_ = workspace("rows", prepares ? Space::Prepared : Space::Shared,
                      l_.batch.size() * l_.tiles * l_.row_tile_elements(steps()));
    const Expression batches = l_.batch.size(), groups = pack_all_rows() ? Expression(1) : l_.tiles;
    const Expression chunk = pack_chunk(batches * groups), chunks = steps().ceil_div(chunk);
    StageBuilder b(program_, batches * groups * chunks);
    const Expression batch = b.task() / chunks / groups, group = b.task() / chunks % groups;
    const Expression from = b.task() % chunks * chunk;
    const Expression tile_size = l_.row_tile_elements(steps());
    const Expression base =
        (batch * l_.tiles + group) * tile_size + from * l_.inner * (l_.lines ? 1 : l_.t.tile_m);
    pack_row_tiles(b, l_, at_batch(batch), group, pack_all_rows() ? l_.tiles : Expression(1),
                   l_.block(from, chunk.min(steps() - from)), rows_, base, l_.line(steps()), tile_size);
    b.finish(prepares);
  }
  /// Masks are cheapest where one task packs all rows.
  [[nodiscard]] bool pack_all_rows() const {
    return l_.lines &&
           std::ranges::any_of(l_.c.left.operands, [](const kernel::Operand& o) { return !o.masks.empty(); });
  }

  void pack_columns_stage(bool prepares) {
    const Expression panel_size = l_.panel_elements(steps());
    columns_ = workspace("columns", prepares ? Space::Prepared : Space::Shared,
                         l_.batch.size() * l_.panels * panel_size);
    const bool wide = packs_rows_of_panels(l_);
    const Expression together = wide ? l_.panels.min(panels_together()) : Expression(1);
    const Expression groups = l_.panels.ceil_div(together);
    const Expression chunk = pack_chunk(l_.batch.size() * groups), chunks = steps().ceil_div(chunk);
    StageBuilder b(program_, l_.batch.size() * groups * chunks);
    const Expression group = b.task() / chunks % groups, batch = b.task() / chunks / groups;
    const Expression from = b.task() % chunks * chunk, first = group * together;
    const AxisGroup range = l_.block(from, chunk.min(steps() - from));
    const Expression base = (batch * l_.panels + first) * panel_size + from * l_.inner * l_.tile_columns();
    if (wide)
      pack_panels(b, l_, at_batch(batch), first, (l_.panels - first).min(together), range, columns_, base,
                  panel_size, leaves_cache(l_.batch.size() * l_.panels * panel_size));
    else
      pack_panel(b, l_, at_batch(batch), first, range, columns_, base);
    b.finish(prepares);
  }
  /// About two pages of each row at a time.
  [[nodiscard]] int64_t panels_together() const {
    return std::max<int64_t>(1, 8192 / (l_.tile_columns() * element_bytes(l_.c.dtype)));
  }
  /// What is written now and is larger than the second cache is read from further away in any case.
  [[nodiscard]] bool leaves_cache(const Expression& elements) const {
    return elements.range().min > l2_bytes_ / element_bytes(l_.c.dtype);
  }

  void workspaces() {
    if (l_.t.pack_m == Packing::Task)
      rows_ = workspace("rows", Space::Local, l_.t.task_m * l_.row_tile_elements(l_.depth));
    if (l_.t.pack_n == Packing::Task)
      columns_ = workspace("columns", Space::Local, l_.panel_elements(l_.depth));
    if (l_.t.splits > 1)
      sums_ = workspace("sums", Space::Shared,
                        l_.t.splits * l_.batch.size() * l_.tiles * l_.panels * tile_elements());
    else if (l_.accumulates_in_memory())
      sums_ = workspace("sums", Space::Local, l_.t.task_m * l_.t.task_n * tile_elements());
    else if (!in_registers())
      sums_ = workspace("sums", Space::Local, tile_elements());
  }

  /// Whether what follows the sum is short enough to stand once for each vector of the tile.
  [[nodiscard]] bool in_registers() const {
    size_t nodes = 0;
    for (const kernel::Value& v : l_.spec->values())
      if (!v.monoid) nodes += v.body.nodes().size();
    return l_.columns_out && !l_.accumulates_in_memory() && nodes <= 16;
  }

  void compute_stage() {
    workspaces();
    const Expression row_blocks = l_.tiles.ceil_div(l_.t.task_m),
                     column_blocks = l_.panels.ceil_div(l_.t.task_n);
    StageBuilder b(program_, l_.batch.size() * column_blocks * row_blocks * l_.t.splits);
    Place p;
    p.split = b.task() % l_.t.splits;
    p.row_block = b.task() / l_.t.splits % row_blocks;
    p.column_block = b.task() / l_.t.splits / row_blocks % column_blocks;
    p.batch = b.task() / l_.t.splits / row_blocks / column_blocks;
    p.at = at_batch(p.batch);
    if (l_.accumulates_in_memory()) clear_sums(b, p);
    b.loop(l_.task_blocks, LoopKind::Serial, [&](const Expression& block) { add_block(b, p, block); });
    if (l_.accumulates_in_memory() && l_.t.splits == 1) write_task(b, p);
    b.finish();
  }

  [[nodiscard]] Expression tiles_in(const Place& p) const {
    return (l_.tiles - p.row_block * l_.t.task_m).min(l_.t.task_m);
  }
  [[nodiscard]] Expression panels_in(const Place& p) const {
    return (l_.panels - p.column_block * l_.t.task_n).min(l_.t.task_n);
  }
  /// Where the sums of a tile lie; tile and panel counted within the task.
  [[nodiscard]] Expression sums_at(const Place& p, const Expression& tile, const Expression& panel) const {
    if (l_.t.splits > 1)
      return (((p.split * l_.batch.size() + p.batch) * l_.panels + p.column_block * l_.t.task_n + panel) *
                  l_.tiles +
              p.row_block * l_.t.task_m + tile) *
             tile_elements();
    return l_.accumulates_in_memory() ? (panel * l_.t.task_m + tile) * tile_elements() : Expression(0);
  }

  void clear_sums(StageBuilder& b, const Place& p) {
    const Id zero = b.constant({l_.c.dtype, l_.lanes}, 0);
    b.loop(panels_in(p), LoopKind::Serial, [&](const Expression& j) {
      b.loop(tiles_in(p), LoopKind::Serial, [&](const Expression& i) {
        b.loop(l_.t.tile_m * l_.t.tile_n, LoopKind::Serial,
               [&](const Expression& v) { b.store(sums_, sums_at(p, i, j) + v * l_.lanes, zero); });
      });
    });
  }

  void add_block(StageBuilder& b, const Place& p, const Expression& block) {
    const Expression from = (p.split * l_.task_blocks + block) * l_.depth;
    const Expression count = l_.blocks == Expression(1) ? steps() : l_.depth.min(steps() - from).max(0);
    const AxisGroup range = l_.block(from, count);
    const Expression line = l_.line(l_.depth), row_size = l_.row_tile_elements(l_.depth);
    if (l_.t.pack_m == Packing::Task)
      pack_row_tiles(b, l_, p.at, p.row_block * l_.t.task_m, tiles_in(p), range, rows_, 0, line, row_size);
    b.loop(panels_in(p), LoopKind::Serial, [&](const Expression& j) {
      const Expression panel = p.column_block * l_.t.task_n + j;
      if (l_.t.pack_n == Packing::Task) pack_panel(b, l_, p.at, panel, range, columns_, 0);
      const std::vector<Ramp> ramps = column_runs(b, l_, panel);
      Source column_source{.buffer = columns_};
      if (l_.t.pack_n == Packing::Shared)
        column_source.base =
            (p.batch * l_.panels + panel) * l_.panel_elements(steps()) + from * l_.inner * l_.tile_columns();
      b.loop(tiles_in(p), LoopKind::Serial,
             [&](const Expression& i) { add_tile(b, p, i, j, ramps, range, column_source); });
    });
  }

  [[nodiscard]] Source row_source(const Place& p, const Expression& i, const AxisGroup& range) const {
    const Expression steps_packed = l_.t.pack_m == Packing::Shared ? steps() : l_.depth;
    Source s{.buffer = rows_, .base = i * l_.row_tile_elements(steps_packed), .line = l_.line(steps_packed)};
    if (l_.t.pack_m == Packing::Shared)
      s.base = (p.batch * l_.tiles + p.row_block * l_.t.task_m + i) * l_.row_tile_elements(steps_packed) +
               range.first[0] * l_.inner * (l_.lines ? 1 : l_.t.tile_m);
    return s;
  }

  void add_tile(StageBuilder& b, const Place& p, const Expression& i, const Expression& j,
                std::span<const Ramp> ramps, const AxisGroup& range, const Source& column_source) {
    const Expression tile = p.row_block * l_.t.task_m + i, at = sums_at(p, i, j);
    const int64_t vectors = l_.t.tile_m * l_.t.tile_n;
    std::vector<Id> sums;
    const bool memory = l_.accumulates_in_memory();
    const Id zero = memory ? kNone : b.constant({l_.c.dtype, l_.lanes}, 0);
    for (int64_t v = 0; v < vectors; ++v)
      sums.push_back(memory ? b.load(sums_, at + v * l_.lanes, l_.lanes) : zero);
    sums = add_products(b, l_, p.at, tile, ramps, range, row_source(p, i, range), column_source,
                        vector_registers_, std::move(sums));
    if (in_registers()) return write_registers(b, l_, p.at, tile, ramps, sums);
    for (int64_t v = 0; v < vectors; ++v) b.store(sums_, at + v * l_.lanes, sums[static_cast<size_t>(v)]);
    if (!memory) write_one(b, p, i, j);
  }

  void write_one(StageBuilder& b, const Place& p, const Expression& i, const Expression& j) {
    const Expression base = sums_at(p, i, j);
    write_tile(b, l_, p.at, p.row_block * l_.t.task_m + i, p.column_block * l_.t.task_n + j,
               [&](const Expression& offset, int lanes, int64_t stride, Id mask) {
                 return b.load(sums_, base + offset, lanes, stride, mask);
               });
  }

  void write_task(StageBuilder& b, const Place& p) {
    b.loop(panels_in(p), LoopKind::Serial, [&](const Expression& j) {
      b.loop(tiles_in(p), LoopKind::Serial, [&](const Expression& i) { write_one(b, p, i, j); });
    });
  }

  /// Adds what the splits have summed, tile by tile.
  void sum_stage() {
    StageBuilder b(program_, l_.batch.size() * l_.panels * l_.tiles);
    const Expression tile = b.task() % l_.tiles, panel = b.task() / l_.tiles % l_.panels;
    const Expression batch = b.task() / l_.tiles / l_.panels;
    const Expression all = l_.batch.size() * l_.panels * l_.tiles * tile_elements();
    write_tile(b, l_, at_batch(batch), tile, panel,
               [&](const Expression& offset, int lanes, int64_t stride, Id mask) {
                 const Id zero = b.constant({l_.c.dtype, lanes}, 0);
                 const Expression base = b.task() * tile_elements() + offset;
                 return b.loop(l_.t.splits, LoopKind::Serial, {zero},
                               [&](const Expression& split, std::span<const Id> sum) -> std::vector<Id> {
                                 const Id part = b.load(sums_, split * all + base, lanes, stride, mask);
                                 return {b.compute(ScalarOp::Add, {sum[0], part})};
                               })[0];
               });
    b.finish();
  }

  Layout l_;
  int threads_;
  int64_t l2_bytes_;
  int vector_registers_;
  Program program_;
  int rows_ = -1, columns_ = -1, sums_ = -1;
};

std::vector<Candidate> contract_candidates(const kernel::KernelSpec& original, const Bucket& bucket,
                                           const Target& target) {
  const kernel::KernelSpec spec = specialised(original, bucket);
  const auto contraction = analyse(spec);
  if (!contraction) return {};
  return candidates(spec, *contraction, bucket.top(), target);
}

std::optional<Candidate> contract_best(const kernel::KernelSpec& original, const Bucket& bucket,
                                       const Target& target) {
  const kernel::KernelSpec spec = specialised(original, bucket);
  const auto contraction = analyse(spec);
  if (!contraction) return std::nullopt;
  return best_candidate(spec, *contraction, bucket.top(), target);
}

Program contract_lower(const kernel::KernelSpec& original, const Parameters& parameters, const Bucket& bucket,
                       const Target& target) {
  const kernel::KernelSpec spec = specialised(original, bucket);
  const auto contraction = analyse(spec);
  LUMINAL_CHECK(contraction, "no contraction: {}", spec.to_string());
  const int lanes = target.lanes(static_cast<int>(element_bytes(contraction->dtype)));
  return Lowering(spec, lay_out(spec, *contraction, tiling_of(parameters), bucket.top(), lanes), target)
      .lower();
}

}  // namespace
}  // namespace contract

const Schedule& contract_schedule() {
  static const Schedule schedule{.name = "contract",
                                 .doc =
                                     "Sums of products (matrix products in all transpositions, batched, "
                                     "convolutions and the gradients of each): "
                                     "axes are sorted by who uses them, both sides are packed through their "
                                     "index maps or read where they lie, "
                                     "a tile of sums stays in registers, and what follows the sum is applied "
                                     "to the tile before it is stored. "
                                     "Goto and van de Geijn 2008; Low et al. 2016.",
                                 .candidates = contract::contract_candidates,
                                 .lower = contract::contract_lower,
                                 .best = contract::contract_best};
  return schedule;
}

}  // namespace luminal::codegen
