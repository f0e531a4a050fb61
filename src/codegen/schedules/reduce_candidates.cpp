#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "codegen/schedules/cost.h"
#include "codegen/schedules/reduce.h"
#include "codegen/schedules/specialise.h"
#include "kernel/axes.h"
#include "kernel/cost.h"

namespace luminal::codegen {
namespace {

using kernel::KernelSpec;
using kernel::Operand;
using kernel::Value;

/// Cycles for a vector of elements: operations, and loads that are dearer where lanes are apart.
double vector_cycles(const KernelSpec& spec, const Reduction& r, const AxisGroup& lanes_along, int lanes,
                     int64_t shared) {
  double cycles = 0;
  for (const int v : r.values) {
    const Value& value = spec.values()[static_cast<size_t>(v)];
    cycles += body_cycles(spec, value, kernel::axes_of(r.reduced)) + 0.5;
    for (const Operand& o : value.operands)
      cycles += load_cycles(spec, o, lanes_along, lanes) / (depends_on(o.index, r.axes) ? 1 : double(shared));
  }
  return cycles;
}

/// Results that are made together: `rows` of the columns' axes, `across` of the shared ones.
struct Tile {
  int64_t rows = 1, across = 1;
  kernel::AxisSet columns = 0, shared = 0;

  [[nodiscard]] int64_t results() const { return rows * across; }
  /// How many differ among the tile's results, of what depends on these axes.
  [[nodiscard]] double distinct(kernel::AxisSet axes) const {
    return static_cast<double>(((axes & columns) != 0 ? rows : 1) * ((axes & shared) != 0 ? across : 1));
  }
};

/// Cycles for a vector of elements of each result of the tile.
double tile_cycles(const KernelSpec& spec, const Reduction& r, const AxisGroup& lanes_along, int lanes,
                   const Tile& tile) {
  const kernel::AxisSet reduced = kernel::axes_of(r.reduced);
  double cycles = 0;
  for (const int v : r.values) {
    const Value& value = spec.values()[static_cast<size_t>(v)];
    const std::vector<kernel::AxisSet> axes = kernel::node_axes(value, spec.values());
    for (size_t i = 0; i < axes.size(); ++i)
      if ((axes[i] & reduced) != 0) cycles += node_cycles(value.body.nodes()[i].op) * tile.distinct(axes[i]);
    const bool fuses = value.monoid == Monoid::Add && value.body[value.body.outputs()[0]].op == ScalarOp::Mul;
    if (!fuses) cycles += 0.5 * static_cast<double>(tile.results());
    for (const Operand& o : value.operands)
      cycles += load_cycles(spec, o, lanes_along, lanes) * tile.distinct(kernel::axes_of(o, spec.values()));
  }
  return cycles;
}

/// Candidates with their predictions.
class ReduceCandidates {
 public:
  ReduceCandidates(const KernelSpec& spec, const Reduction& r, const DimMap& top, const Target& target)
      : spec_(spec),
        r_(r),
        top_(top),
        target_(target),
        lanes_(target.lanes(4)),
        results_(size(r.axes, top)),
        reduced_(size(r.reduced, top)),
        roofline_(roofline_of(spec, top, target)),
        inner_(group_of(spec.extents(), r.reduced)),
        outer_(group_of(spec.extents(), r.axes)),
        shared_(shared_axes(spec, r, top)) {
    for (const int a : r.axes) extents_.push_back(spec.extents()[static_cast<size_t>(a)].exec(top));
    for (const kernel::Output& o : spec.outputs())
      if (spec.values()[static_cast<size_t>(o.value)].axes.size() > r.axes.size())
        further_ += static_cast<double>(o.elements.exec(top));
    const size_t axes = inner_.axes.size();
    inner_ = part_of(inner_, axes - axes_of_lanes(spec, r, inner_, lanes_), axes);
    for (const int v : r.values)
      for (const Operand& o : spec.values()[static_cast<size_t>(v)].operands)
        if (o.kind == Operand::Kind::Load && depends_on(o.index, r.axes) && depends_on(o.index, r.reduced))
          if (const auto even = evenly(o.index, outer_); even && even->stride == 1) {
            row_ = std::max(row_, even->size.exec(top));
            element_ = element_bytes(o.dtype);
          }
  }

  std::vector<Candidate> all() {
    for (const int64_t splits : {int64_t{1}, int64_t{target_.threads}, int64_t{8} * target_.threads}) {
      if (splits > 1 && reduced_ < 64 * splits) continue;
      if (splits == 1 || results_ <= int64_t{1024} * target_.threads) {
        along_reduced(splits);
        if (!r_.axes.empty()) along_results(splits);
        along_shared(splits);
      }
      if (results_ >= 2 * lanes_ && reduced_ >= 2 * kHeld * splits) along_rows(splits);
    }
    along_inner();
    along_window();
    constexpr size_t kMost = 10;
    std::ranges::stable_sort(found_, {}, &Predicted::us);
    if (found_.size() > kMost) found_.resize(kMost);
    std::vector<Candidate> candidates;
    for (const auto& [form, us] : found_) candidates.push_back({form.parameters(), us});
    return candidates;
  }

 private:
  static constexpr int64_t kHeld = 8;         ///< rows that share one trip of a total through memory
  static constexpr double kWholeBlock = 0.6;  ///< of the cycles of its vectors one by one

  [[nodiscard]] int64_t size(const std::vector<int>& axes, const DimMap& top) const {
    int64_t n = 1;
    for (const int a : axes) n *= spec_.extents()[static_cast<size_t>(a)].exec(top);
    return n;
  }
  /// Results along the `inner` innermost axes.
  [[nodiscard]] int64_t columns_of(int64_t inner) const {
    int64_t n = 1;
    for (int64_t k = 1; k <= inner; ++k) n *= extents_[extents_.size() - static_cast<size_t>(k)];
    return n;
  }
  [[nodiscard]] double groups_of(int64_t group) const {
    return std::ceil(static_cast<double>(results_) / static_cast<double>(group));
  }

  /// One row is one stream, as memory delivers it best; several rows share what they all read.
  void along_reduced(int64_t splits) {
    for (const int64_t rows : {1, 4}) {
      if (rows > results_) continue;
      const double per = vector_cycles(spec_, r_, inner_, lanes_, rows);
      const double vectors =
          static_cast<double>(results_) * std::ceil(static_cast<double>(reduced_) / lanes_);
      const bool streams = rows > 1 && roofline_.bytes > static_cast<double>(target_.l3_bytes) / 2;
      for (const int64_t unroll : {4, 1})
        if (unroll == 1 || reduced_ >= int64_t{4} * lanes_)
          consider({.along = 1, .unroll = unroll, .rows = rows, .splits = splits},
                   vectors * std::max(per, 4.0 / double(unroll * rows)) + double(results_ * splits) * 8,
                   (streams ? 1.2 : 1) * passes_of_rows(1));
      if (rows == 1) along_blocks(splits, per * vectors);
    }
  }

  /// Rows of several inputs against one large operand (a few tokens and the weights): its vectors are loaded, and
  /// decoded, once for all rows of a tile.
  void along_shared(int64_t splits) {
    const int64_t shared = size(shared_, top_);
    if (shared < 2 || reads_masked()) return;
    Tile tile{.columns = kernel::axes_of(r_.axes) & ~kernel::axes_of(shared_),
              .shared = kernel::axes_of(shared_)};
    const int64_t columns = results_ / shared;
    const auto folds = static_cast<int64_t>(r_.values.size());
    std::set<int64_t> heights;
    for (const int64_t most : {4, 6, 8, 12}) {
      const int64_t blocks = (shared + most - 1) / most;
      heights.insert((shared + blocks - 1) / blocks);
    }
    for (const int64_t across : heights)
      for (const int64_t rows : {1, 2, 3, 4, 6, 8}) {
        tile.rows = rows, tile.across = across;
        if (rows > columns || (tile.results() + rows + 1) * folds > target_.vector_registers) break;
        consider_tile(tile, columns, shared, splits);
      }
  }

  /// Lanes that are off at borders keep vectors from being shared.
  [[nodiscard]] bool reads_masked() const {
    return std::ranges::any_of(r_.values, [&](int v) {
      return std::ranges::any_of(spec_.values()[static_cast<size_t>(v)].operands,
                                 [](const Operand& o) { return !o.masks.empty(); });
    });
  }

  void consider_tile(const Tile& tile, int64_t columns, int64_t shared, int64_t splits) {
    const double tiles = std::ceil(static_cast<double>(columns) / static_cast<double>(tile.rows)) *
                         std::ceil(static_cast<double>(shared) / static_cast<double>(tile.across));
    const double vectors = tiles * std::ceil(static_cast<double>(reduced_) / lanes_);
    const double per = tile_cycles(spec_, r_, inner_, lanes_, tile);
    // What the rows read comes from the second cache for each tile anew, beside what comes from memory.
    const double near = tiles * far_bytes(tile) / nominal_limits(target_).l2_bytes_per_us;
    const double slow = 1 + near * roofline_.bytes_per_us / roofline_.bytes;
    const int64_t latency = std::max<int64_t>(1, 8 / tile.results()), block = vectors_of_block();
    for (const int64_t unroll : {latency, block})
      if (unroll >= latency)
        consider({.along = 1, .unroll = unroll, .rows = tile.rows, .splits = splits, .across = tile.across},
                 vectors * std::max(per * (unroll == block ? kWholeBlock : 1),
                                    4.0 / static_cast<double>(std::min(unroll, latency))) +
                     static_cast<double>(results_ * splits) * 8,
                 slow);
  }

  /// Bytes that a tile reads along its shared axes, if the first cache does not hold them until the next one.
  [[nodiscard]] double far_bytes(const Tile& tile) const {
    double bytes = 0;
    for (const int v : r_.values)
      for (const Operand& o : spec_.values()[static_cast<size_t>(v)].operands)
        if (o.kind == Operand::Kind::Load && (kernel::axes_of(o, spec_.values()) & tile.shared) != 0)
          bytes += static_cast<double>(tile.across * reduced_) * kernel::mean_element_bytes(o.dtype);
    return bytes > static_cast<double>(target_.l1_bytes) / 2 ? bytes : 0;
  }

  /// Of the blocks that are read; no more than are worth unrolling.
  [[nodiscard]] int64_t vectors_of_block() const {
    constexpr int64_t kMostVectors = 16;
    int64_t elements = 0;
    for (const kernel::Slot& s : spec_.slots())
      elements = std::max<int64_t>(elements, info(s.dtype).block_elements);
    const int64_t vectors = std::min(elements / lanes_, kMostVectors);
    return reduced_ >= vectors * lanes_ ? vectors : 0;
  }
  /// Vectors of a whole block at a time: where each lies in it is known, and they share scales. `cycles`: without that.
  void along_blocks(int64_t splits, double cycles) {
    const int64_t vectors = vectors_of_block();
    if (vectors > 4)
      consider({.along = 1, .unroll = vectors, .rows = 1, .splits = splits},
               cycles * kWholeBlock + double(results_ * splits) * 8, 1);
  }

  void along_results(int64_t splits) {
    const double per = vector_cycles(spec_, r_, outer_, lanes_, 1);
    for (const int64_t vectors : {1, 4, 8}) {
      if (vectors > 1 && (vectors - 1) * lanes_ >= results_) continue;
      consider({.along = 0, .unroll = vectors, .splits = splits},
               groups_of(lanes_) * static_cast<double>(reduced_) * std::max(per, 4.0 / double(vectors)),
               slow(vectors * lanes_) * passes_of_rows(1));
    }
  }

  /// How often memory is read where rows of results follow each other, each along the last `inner` axes: once more for
  /// each row what is the same for all of them and too large for the second cache.
  [[nodiscard]] double passes_of_rows(size_t inner) const {
    double bytes = roofline_.bytes;
    for (const int v : r_.values)
      for (const Operand& o : spec_.values()[static_cast<size_t>(v)].operands) {
        if (o.kind != Operand::Kind::Load) continue;
        const kernel::Slot& slot = spec_.slots()[static_cast<size_t>(o.slot)];
        const double size =
            kernel::mean_element_bytes(slot.dtype) * static_cast<double>(slot.elements.exec(top_));
        if (size < static_cast<double>(target_.l2_bytes)) continue;
        const kernel::AxisSet axes = kernel::axes_of(o, spec_.values());
        double times = 1;
        for (size_t k = 0; k + inner < r_.axes.size(); ++k)
          if ((axes & kernel::axis_bit(r_.axes[k])) == 0) times *= static_cast<double>(extents_[k]);
        bytes += (times - 1) * size;
      }
    return bytes / roofline_.bytes;
  }

  /// As `nest` does: worth it where a vector along all results would gather.
  void along_inner() {
    for (size_t inner = 1; inner < r_.axes.size(); ++inner) {
      const size_t at = r_.axes.size() - inner;
      const auto columns = static_cast<double>(columns_of(static_cast<int64_t>(inner)));
      const double per = vector_cycles(spec_, r_, part_of(outer_, at, r_.axes.size()), lanes_, 1);
      const double rows = static_cast<double>(results_) / std::max(1.0, columns);
      const double passes = passes_of_rows(inner);
      for (const int64_t vectors : {1, 4}) {
        if (vectors > 1 && static_cast<double>((vectors - 1) * lanes_) >= columns) continue;
        const double blocks = std::ceil(columns / static_cast<double>(lanes_));
        consider(
            {.along = 0, .unroll = vectors, .inner = static_cast<int64_t>(inner)},
            rows * (6 + blocks * (2 + static_cast<double>(reduced_) * std::max(per, 4.0 / double(vectors)))),
            passes > 1 ? passes * slow(vectors * lanes_) : 1);
      }
      along_tiles(inner, rows, columns);
    }
  }

  /// Rows of vectors whose windows share vectors.
  void along_tiles(size_t inner, double all_rows, double columns) {
    const size_t row_axis = r_.axes.size() - inner - 1;
    const AxisGroup reduced = group_of(spec_.extents(), r_.reduced);
    const AxisGroup lanes_along = part_of(outer_, row_axis + 1, r_.axes.size());
    constexpr int64_t kMostRows = 8, kMostSteps = 256;
    if (!reduced.size().constant() || !outer_.extents[row_axis].constant() || !lanes_along.size().constant())
      return;
    const int lanes = tile_lanes(*lanes_along.size().constant(), lanes_);
    for (int64_t rows = 2; rows <= kMostRows && rows * reduced_ <= kMostSteps; ++rows) {
      if (extents_[row_axis] % rows != 0) continue;
      const auto per = shared_cycles(reduced, r_.axes[row_axis], rows, lanes_along, lanes);
      if (!per) return;
      for (const int64_t vectors : {1, 2}) {
        if (vectors > 1 && static_cast<double>(lanes) >= columns) continue;
        const double blocks =
            std::ceil(columns / static_cast<double>(vectors * lanes)) * static_cast<double>(vectors);
        consider({.along = 0, .unroll = vectors, .rows = rows, .inner = static_cast<int64_t>(inner)},
                 all_rows *
                     (6.0 / static_cast<double>(rows) + blocks * (2 + static_cast<double>(reduced_) * *per)),
                 1);
      }
    }
  }

  /// Lanes' masks are made once for all positions that lie on top of each other.
  [[nodiscard]] double shared_load_cycles(Operand o, const AxisGroup& lanes_along, int lanes) const {
    constexpr double kMask = 0.5;
    const double masks = kMask * static_cast<double>(o.masks.size());
    o.masks.clear();
    return load_cycles(spec_, o, lanes_along, lanes) + masks;
  }

  /// Cycles for a vector at one position of a window, where `rows` neighbours are taken together. Nothing where
  /// they share no vectors.
  [[nodiscard]] std::optional<double> shared_cycles(const AxisGroup& window, int row_axis, int64_t rows,
                                                    const AxisGroup& lanes_along, int lanes) const {
    // Most reductions are no windows: their elements are not worth counting.
    const auto slides = [&](const Operand& o) {
      return o.kind == Operand::Kind::Load && depends_on(o.index, lanes_along.axes) &&
             depends_on(o.index, std::array{row_axis}) && depends_on(o.index, window.axes);
    };
    if (std::ranges::none_of(r_.values, [&](int v) {
          return std::ranges::any_of(spec_.values()[static_cast<size_t>(v)].operands, slides);
        }))
      return std::nullopt;
    double cycles = 0.5 * static_cast<double>(r_.values.size());
    bool shares = false;
    for (const int v : r_.values) {
      const Value& value = spec_.values()[static_cast<size_t>(v)];
      cycles += body_cycles(spec_, value, kernel::axes_of(r_.reduced));
      for (const Operand& o : value.operands) {
        const double share = o.kind == Operand::Kind::Load
                                 ? distinct_share(o, window, spec_.extents().size(), row_axis, rows, top_)
                                 : 1;
        cycles += shared_load_cycles(o, lanes_along, lanes) * share;
        shares = shares || (share < 1 && slides(o));
      }
    }
    return shares ? std::optional(cycles) : std::nullopt;
  }

  /// All results of a window, which share vectors of the rows they read.
  void along_window() {
    const AxisGroup reduced = group_of(spec_.extents(), reduced_by_stride(spec_, r_, top_));
    if (reduced.axes.size() < 2) return;
    const size_t last = reduced.axes.size() - 1;
    const auto columns = reduced.extents[last].constant(), all_rows = reduced.extents[last - 1].constant();
    if (!columns || !all_rows) return;
    constexpr int64_t kMostRows = 8, kMostSteps = 256, kMostPositions = 32;
    constexpr double kFold = 8, kSpill = 1;
    const AxisGroup lanes_along = part_of(reduced, last, last + 1);
    const int lanes = tile_lanes(*columns, lanes_);
    const double blocks = std::ceil(static_cast<double>(*columns) / lanes);
    for (size_t inner = 1; inner <= r_.axes.size(); ++inner) {
      const AxisGroup window = part_of(outer_, r_.axes.size() - inner, r_.axes.size());
      const auto positions = window.size().constant();
      if (!positions || *positions > kMostPositions) break;
      const bool spills = *positions + 4 > target_.vector_registers;
      for (int64_t rows = 1; rows <= kMostRows && rows * *positions <= kMostSteps; ++rows) {
        if (*all_rows % rows != 0) continue;
        const auto per = shared_cycles(window, reduced.axes[last - 1], rows, lanes_along, lanes);
        if (!per) continue;
        const double vectors =
            static_cast<double>(results_) * static_cast<double>(reduced_ / *columns) * blocks;
        consider({.along = 1, .unroll = 1, .rows = rows, .inner = static_cast<int64_t>(inner)},
                 vectors * (*per + (spills ? kSpill : 0) + 2.0 / static_cast<double>(rows * *positions)) +
                     static_cast<double>(results_) * kFold,
                 1);
      }
    }
  }

  /// Totals that wait in memory take no more than half the first cache, or some of the second, from where they
  /// come more slowly but let a task read longer pieces of memory.
  void along_rows(int64_t splits) {
    constexpr int64_t kUnroll = 2;
    const int64_t width = kUnroll * lanes_, groups = static_cast<int64_t>(groups_of(width));
    const auto bytes = static_cast<int64_t>(static_cast<size_t>(width) * r_.values.size() * sizeof(float));
    const int64_t near = std::max<int64_t>(1, target_.l1_bytes / 2 / bytes);
    const double each = vector_cycles(spec_, r_, outer_, lanes_, 1);
    for (const int64_t most : {near, std::max(near, target_.l2_bytes / 8 / bytes)})
      for (const int64_t parts : {int64_t{1}, int64_t{target_.threads}, int64_t{4} * target_.threads}) {
        const int64_t task = std::min(most, (groups + parts - 1) / parts);
        const double per = each + (task > near ? 3.0 : 1.5) / kHeld;
        consider({.along = 0, .unroll = kUnroll, .task = task, .splits = splits, .held = kHeld},
                 groups_of(lanes_) * static_cast<double>(reduced_) * per,
                 slow(task * width) * passes_of_rows(1));
      }
  }

  /// For tasks that read `results` neighbours from each row.
  [[nodiscard]] double slow(int64_t results) const {
    if (reduced_ == 1 || results >= row_) return 1;
    const bool near = roofline_.bytes < static_cast<double>(target_.l2_bytes);
    return near ? 1.1 : scattered(static_cast<double>(results * element_));
  }

  void consider(ReduceForm f, double cycles, double slow) {
    cycles += 2 * further_ / (f.along != 0 ? 1 : lanes_);
    // Results that one group makes, and those that groups cut into.
    const int64_t inner = f.inner == 0 ? results_ : columns_of(f.inner);
    const int64_t row = f.along == 0 && f.inner != 0 ? inner * f.rows : inner;
    const int64_t group = f.along != 0  ? (f.inner == 0 ? f.rows * f.across : row)
                          : f.rows == 1 ? f.unroll * lanes_
                                        : row;
    const int64_t groups =
        results_ / std::max<int64_t>(1, row) * ((row + group - 1) / std::max<int64_t>(1, group));
    if (f.held == 0)
      f.task = std::clamp<int64_t>(
          groups / (8 * target_.threads), 1,
          std::max<int64_t>(1, 32768 / std::max<int64_t>(1, reduced_ * group / f.splits)));
    if (std::ranges::find(found_, f, &Predicted::form) != found_.end()) return;
    // A tensor without elements takes no task, and as long as one.
    const auto tasks = static_cast<double>(std::max<int64_t>(1, (groups + f.task - 1) / f.task) * f.splits);
    const double threads = target_.threads, busy = tasks / (std::ceil(tasks / threads) * threads);
    const double us = roofline_.us(cycles / busy, f.splits > 1 ? 2 : 1, slow / busy);
    found_.push_back({f, us});
  }

  const KernelSpec& spec_;
  const Reduction& r_;
  const DimMap& top_;
  const Target& target_;
  int lanes_;
  int64_t results_, reduced_;
  Roofline roofline_;
  AxisGroup inner_;  ///< reduced axes along which lanes may run
  AxisGroup outer_;
  std::vector<int> shared_;       ///< of the results
  std::vector<int64_t> extents_;  ///< of the results' axes
  double further_ = 0;            ///< elements of outputs that have more axes
  int64_t row_ = 1;               ///< results that lie side by side in the tensor
  int64_t element_ = 4;           ///< bytes there
  struct Predicted {
    ReduceForm form;
    double us = 0;
  };
  std::vector<Predicted> found_;
};

}  // namespace

std::vector<Candidate> reduce_candidates(const KernelSpec& original, const Bucket& bucket,
                                         const Target& target) {
  const KernelSpec spec = specialised(original, bucket);
  const auto r = analyse_reduction(spec);
  if (!r || target.lanes(8) < 2) return {};
  return ReduceCandidates(spec, *r, bucket.top(), target).all();
}

}  // namespace luminal::codegen
