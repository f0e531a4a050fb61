#include "codegen/schedules/nest.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/fail.h"
#include "codegen/schedules/cost.h"
#include "codegen/schedules/families.h"
#include "codegen/schedules/interior.h"
#include "codegen/schedules/own_axes.h"
#include "codegen/schedules/specialise.h"
#include "codegen/schedules/task_grid.h"
#include "kernel/axes.h"
#include "scalar/monoid.h"

/// The floor under everything: loops as the spec's tree says them, vectors along the innermost output axis.
///
/// A reduced value that depends on output axes only is either stored by a stage of its own (`stored` 1) or
/// computed at the outermost loop that has its axes (0). One that depends on an axis over which others reduce (attention's
/// scores, the hidden values between two products) is computed anew wherever it is read, or kept for a row of the output
/// (2). Reductions run one element after the other in each lane, so lanes never meet.
namespace luminal::codegen {
namespace {

using kernel::AxisSet;
using kernel::KernelSpec;
using kernel::Operand;
using kernel::Value;

/// Values that outputs need, and those of them that are sums, maxima or products.
struct Needs {
  std::set<int> all;
  void add(const KernelSpec& spec, int v) {
    if (!all.insert(v).second) return;
    for (const Operand& o : spec.values()[static_cast<size_t>(v)].operands)
      if (o.kind == Operand::Kind::Value) add(spec, o.value);
  }
};

/// The parameter `stored`.
enum Stored : int64_t { kNothing = 0, kStages = 1, kRows = 2 };

AxisSet output_axes(const KernelSpec& spec) { return kernel::axes_of(spec.parallel_axes()); }

/// Reduced values that could be stored between stages: over output axes only, and not simply outputs.
std::vector<int> storable(const KernelSpec& spec) {
  Needs needs;
  for (const kernel::Output& o : spec.outputs()) needs.add(spec, o.value);
  std::vector<int> found;
  for (const int v : needs.all) {
    const Value& value = spec.values()[static_cast<size_t>(v)];
    const AxisSet axes = kernel::axes_of(value.axes);
    if (!value.monoid || (axes & ~output_axes(spec)) != 0) continue;
    const bool everywhere = std::ranges::all_of(spec.outputs(), [&](const kernel::Output& o) {
      return kernel::axes_of(spec.values()[static_cast<size_t>(o.value)].axes) == axes;
    });
    if (!everywhere) found.push_back(v);
  }
  return found;
}

bool contains(std::span<const int> values, size_t v) {
  return std::ranges::find(values, static_cast<int>(v)) != values.end();
}

double positions_of(const KernelSpec& spec, AxisSet axes, const DimMap& top) {
  double positions = 1;
  kernel::for_each_axis(axes, [&](int a) {
    positions *= std::max<double>(1, static_cast<double>(spec.extents()[static_cast<size_t>(a)].exec(top)));
  });
  return positions;
}

/// Those of a value that outputs lack.
std::vector<int> further_axes(const KernelSpec& spec, const Value& value) {
  std::vector<int> axes = value.axes;
  const AxisSet all = output_axes(spec);
  std::erase_if(axes, [&](int a) { return (all & kernel::axis_bit(a)) != 0; });
  return axes;
}

/// What a row of the output keeps while it is computed, where a row has all positions of `inner`: reduced values over
/// further axes than the output's that the row's elements share.
std::vector<int> held_values(const KernelSpec& spec, AxisSet inner, const DimMap& top) {
  constexpr double kMostBytes = 4e6;
  Needs needs;
  for (const kernel::Output& o : spec.outputs()) needs.add(spec, o.value);
  const AxisSet all = output_axes(spec);
  std::vector<int> found;
  double bytes = 0;
  for (const int v : needs.all) {
    const Value& value = spec.values()[static_cast<size_t>(v)];
    const AxisSet axes = kernel::axes_of(value.axes);
    if (!value.monoid || (axes & ~all) == 0 || (axes & inner) != 0) continue;
    found.push_back(v);
    bytes += positions_of(spec, axes & ~all, top) * static_cast<double>(element_bytes(value.dtype()));
  }
  if (bytes > kMostBytes) found.clear();
  return found;
}

/// How many of a stage's axes, the last of them, its vectors lie along: those among `inner`, or one.
std::ptrdiff_t axes_in_vectors(std::span<const int> axes, AxisSet inner) {
  const auto is_inner = [&](int a) { return (inner & kernel::axis_bit(a)) != 0; };
  const auto count = std::ranges::find_if_not(axes.rbegin(), axes.rend(), is_inner) - axes.rbegin();
  return std::min(std::max<std::ptrdiff_t>(count, 1), std::ssize(axes));
}

class Nest {
 public:
  Nest(const KernelSpec& spec, const Parameters& parameters, const Bucket& bucket, const Target& target)
      : spec_(&spec), program_(program_for(spec, "nest")), top_(bucket.top()), target_(target) {
    const auto inner = static_cast<size_t>(parameters.at("inner"));
    const std::vector<int> order = memory_order(*spec_, spec_->outputs()[0]);
    inner_axes_ = kernel::axes_of(std::span(order).last(std::min(inner, order.size())));
    lanes_ = static_cast<int>(parameters.at("lanes"));
    if (parameters.at("stored") == kStages) {
      stored_ = storable(*spec_);
      for (const int v : stored_) add_store(v, value(v).axes, Space::Shared);
    }
    if (parameters.at("stored") == kRows) {
      held_ = held_values(*spec_, inner_axes_, top_);
      for (const int v : held_) add_store(v, further_axes(*spec_, value(v)), Space::Local);
    }
  }

  Program ramp() {
    for (const int v : stored_) {
      const Store& s = stores_.at(v);
      stage(memory_order(*spec_, value(v).axes, s.index),
            {{.value = v, .buffer = s.buffer, .index = s.index}});
    }
    // Outputs over the same axes share their loops.
    std::vector<std::pair<std::vector<int>, std::vector<Goal>>> groups;
    for (size_t k = 0; k < spec_->outputs().size(); ++k) {
      const kernel::Output& o = spec_->outputs()[k];
      const auto same = std::ranges::find_if(
          groups, [&](const auto& g) { return value(g.second[0].value).axes == value(o.value).axes; });
      const Goal goal{o.value, static_cast<int>(spec_->slots().size() + k), o.index};
      if (same != groups.end())
        same->second.push_back(goal);
      else
        groups.push_back({memory_order(*spec_, o), {goal}});
    }
    for (const auto& [axes, goals] : groups) stage(axes, goals);
    return std::move(program_);
  }

 private:
  struct Goal {
    int value, buffer;
    Expression index;
  };
  struct Store {
    int buffer;
    Expression index;
  };
  using Known = std::map<int, Id>;

  [[nodiscard]] const Value& value(int v) const { return spec_->values()[static_cast<size_t>(v)]; }

  void add_store(int v, std::span<const int> axes, Space space) {
    const int buffer = add_buffer(program_, {.name = "V" + std::to_string(v),
                                             .space = space,
                                             .dtype = value(v).dtype(),
                                             .elements = kernel::elements_of(axes, spec_->extents())});
    stores_.emplace(v, Store{buffer, kernel::row_major(axes, spec_->extents())});
  }

  void stage(const std::vector<int>& axes, const std::vector<Goal>& goals) {
    TaskGrid grid;
    const std::ptrdiff_t inner = axes_in_vectors(axes, inner_axes_);
    grid.outer = group_of(spec_->extents(), {axes.begin(), axes.end() - inner});
    grid.inner = group_of(spec_->extents(), {axes.end() - inner, axes.end()});
    grid.width = axes.empty() ? 1 : lanes_;
    // Candidates that run a part of their tasks are compared with the same part of these loops: of many tasks that is
    // little more than what is compared.
    constexpr int kPerThread = 64;
    cut_into_tasks(grid, cycles_per_block(goals), top_, target_, kPerThread);
    const AxisSet outer = kernel::axes_of(grid.outer.axes);
    const std::vector<int> held = held_in_rows(goals, outer);
    if (!held.empty()) grid.blocks_per_task = std::max<int64_t>(1, grid.blocks().exec(top_));
    StageBuilder b(program_, grid.tasks());
    b_ = &b;
    current_.clear();
    for (const Goal& g : goals) current_.insert(g.value);
    for (const int v : held_)
      if (!contains(held, static_cast<size_t>(v))) current_.insert(v);
    Known row;
    const AxisSet looped = ~(outer | kernel::axes_of(grid.inner.axes));
    const Interior interior = interior_of(*spec_, grid.inner, looped);
    grid.visit(
        b, spec_->extents().size(),
        [&](const Coordinates& at) {
          row.clear();
          const Ramp one(b);
          for (const int v : held) hold(v, outer, at, row);
          for (const Goal& g : goals) hoist(g.value, outer, at, one, row);
        },
        [&](const Coordinates& at, const Expression& start) {
          const Expression size = grid.inner.size();
          if (interior.conditions.empty() || grid.width == 1) return block(grid, goals, at, start, size, row);
          const Expression full = (start + (grid.width - 1)).lt(size);
          guarded(b, full & interior.holds(grid.inner, at, start, grid.width), [&](bool inside) {
            const KernelSpec* const whole = std::exchange(spec_, inside ? &interior.spec : spec_);
            block(grid, goals, at, start, inside ? start + grid.width : size, row);
            spec_ = whole;
          });
        });
    b.finish();
  }

  /// Of the values that rows hold, those that these goals need and that are one for a row of this stage.
  [[nodiscard]] std::vector<int> held_in_rows(const std::vector<Goal>& goals, AxisSet outer) const {
    Needs needs;
    for (const Goal& g : goals) needs.add(*spec_, g.value);
    std::vector<int> found;
    for (const int v : held_)
      if (needs.all.contains(v) && (kernel::axes_of(value(v).axes) & output_axes(*spec_) & ~outer) == 0)
        found.push_back(v);
    return found;
  }

  /// A value at all positions that a row of the output reads, for what follows.
  void hold(int v, AxisSet outer, const Coordinates& row_at, Known& row) {
    current_.insert(v);
    hoist(v, outer, row_at, Ramp(*b_), row);
    const AxisGroup group = group_of(spec_->extents(), further_axes(*spec_, value(v)));
    const AxisSet bound = outer | kernel::axes_of(group.axes);
    b_->loop(group.size().ceil_div(lanes_), LoopKind::Serial, [&](const Expression& number) {
      const Expression start = number * lanes_;
      Coordinates at = row_at;
      if (lanes_ == 1) group.place(start, at);
      Ramp ramp = lanes_ == 1 ? Ramp(*b_) : Ramp(*b_, group, start, lanes_, group.size());
      const Goal goal{v, stores_.at(v).buffer, stores_.at(v).index};
      prepare(ramp, {goal});
      Known known = row;
      const Id id = compute(v, bound, at, ramp, known);
      ramp.store(goal.buffer, goal.index, id, at);
    });
    current_.erase(v);
  }

  /// The goals at lanes `start` .. of a row, those below `count`; `row`: what was computed for all of it.
  void block(const TaskGrid& grid, const std::vector<Goal>& goals, Coordinates at, const Expression& start,
             const Expression& count, const Known& row) {
    const bool scalar = grid.width == 1;
    if (scalar) grid.inner.place(start, at);
    Ramp ramp = scalar ? Ramp(*b_) : Ramp(*b_, grid.inner, start, static_cast<int>(grid.width), count);
    Known known = row;
    const AxisSet bound = kernel::axes_of(grid.outer.axes) | kernel::axes_of(grid.inner.axes);
    prepare(ramp, goals);
    for (const Goal& g : goals) {
      const Id id = compute(g.value, bound, at, ramp, known);
      ramp.store(g.buffer, g.index, id, at);
    }
  }

  void prepare(Ramp& ramp, const std::vector<Goal>& goals) const {
    Needs needs;
    for (const Goal& g : goals) {
      needs.add(*spec_, g.value);
      ramp.prepare(g.index);
    }
    for (const int v : needs.all) {
      for (const Operand& o : value(v).operands) ramp.prepare(o);
      if (const auto store = stores_.find(v); store != stores_.end()) ramp.prepare(store->second.index);
    }
  }

  /// Computes here every reduced value that `v` needs and whose axes are bound already.
  void hoist(int v, AxisSet bound, const Coordinates& at, const Ramp& ramp, Known& known) {
    if (known.contains(v) || is_stored(v)) return;
    const bool reduced = value(v).monoid.has_value();
    if (reduced && (kernel::axes_of(value(v).axes) & ~bound) == 0) {
      known[v] = reduce(v, bound, at, ramp, known);
      return;
    }
    for (const Operand& o : value(v).operands)
      if (o.kind == Operand::Kind::Value) hoist(o.value, bound, at, ramp, known);
  }
  [[nodiscard]] bool is_stored(int v) const { return stores_.contains(v) && !current_.contains(v); }

  /// The value at these coordinates; everything it needs goes to `known`.
  Id compute(int v, AxisSet bound, const Coordinates& at, const Ramp& ramp, Known& known) {
    if (const auto here = known.find(v); here != known.end()) return here->second;
    Id id = kNone;
    if (is_stored(v)) {
      const Store& s = stores_.at(v);
      id = ramp.load({.dtype = value(v).dtype(), .slot = s.buffer, .index = s.index}, at);
    } else if (value(v).monoid) {
      id = reduce(v, bound, at, ramp, known);
    } else {
      id = body(v, bound, at, ramp, known);
    }
    known[v] = id;
    return id;
  }

  Id body(int v, AxisSet bound, const Coordinates& at, const Ramp& ramp, Known& known) {
    for (const Operand& o : value(v).operands)
      if (o.kind == Operand::Kind::Value) compute(o.value, bound, at, ramp, known);
    return ramp.evaluate(*spec_, value(v).body, value(v).operands, at, known);
  }

  Id reduce(int v, AxisSet bound, const Coordinates& at, const Ramp& ramp, Known& known) {
    const Value& r = value(v);
    for (const Operand& o : r.operands)
      if (o.kind == Operand::Kind::Value)
        hoist(o.value, bound & ~kernel::axes_of(r.reduced), at, ramp, known);
    const Id neutral = b_->constant_bits({r.dtype(), ramp.lanes()}, neutral_bits(*r.monoid, r.dtype()));
    return fold(r, v, loop_order(r), bound, at, ramp, known, neutral);
  }

  /// What is reduced on the way to the elements of `r`.
  [[nodiscard]] std::set<int> reduced_within(const Value& r) const {
    Needs needs;
    for (const Operand& o : r.operands)
      if (o.kind == Operand::Kind::Value) needs.add(*spec_, o.value);
    std::erase_if(needs.all, [&](int v) { return !value(v).monoid || is_stored(v); });
    return std::move(needs.all);
  }

  /// The reduced axes, outermost first those on which reductions inside depend: these then run once for each
  /// of their positions and not within the other loops.
  [[nodiscard]] std::vector<int> loop_order(const Value& r) const {
    AxisSet inside = 0;
    for (const int v : reduced_within(r)) inside |= kernel::axes_of(value(v).axes);
    std::vector<int> order = r.reduced;
    std::ranges::stable_partition(order, [&](int a) { return (inside & kernel::axis_bit(a)) != 0; });
    return order;
  }

  /// Windows of a few elements, and nothing else to reduce in them.
  [[nodiscard]] bool is_short(const Value& r, std::span<const int> axes) const {
    constexpr int64_t kMost = 16;
    int64_t steps = 1;
    for (const int a : axes) {
      const auto extent = spec_->extents()[static_cast<size_t>(a)].constant();
      if (!extent || *extent < 1 || (steps *= std::min(*extent, kMost + 1)) > kMost) return false;
    }
    return reduced_within(r).empty();
  }

  /// Loops over `axes`, outermost first.
  Id fold(const Value& r, int v, std::span<const int> axes, AxisSet bound, const Coordinates& at,
          const Ramp& ramp, const Known& known, Id before) {
    if (axes.empty()) {
      Known inside = known;
      return b_->compute(info(*r.monoid).op, {before, ramp.widen(body(v, bound, at, ramp, inside))});
    }
    const int axis = axes[0];
    const Expression& extent = spec_->extents()[static_cast<size_t>(axis)];
    const auto loop = [&](const Expression& variable, std::span<const Id> carried) {
      Coordinates here = at;
      here[static_cast<size_t>(axis)] = variable;
      // An outer loop may run over the same axis: what was computed at its coordinate does not hold here.
      Known inside = known;
      std::erase_if(inside, [&](const auto& k) {
        return (kernel::axes_of(value(k.first).axes) & kernel::axis_bit(axis)) != 0;
      });
      const AxisSet later = kernel::axes_of(axes.subspan(1));
      const AxisSet now = (bound & ~later) | kernel::axis_bit(axis);
      for (const Operand& o : r.operands)
        if (o.kind == Operand::Kind::Value) hoist(o.value, now, here, ramp, inside);
      return std::vector<Id>{fold(r, v, axes.subspan(1), now, here, ramp, inside, carried[0])};
    };
    return b_->loop(extent, is_short(r, axes) ? LoopKind::Unrolled : LoopKind::Serial, {before}, loop)[0];
  }

  [[nodiscard]] double cycles_per_block(const std::vector<Goal>& goals) const {
    Needs needs;
    for (const Goal& g : goals) needs.add(*spec_, g.value);
    double cycles = 4;
    for (const int v : needs.all) {
      double times = 1;
      for (const int a : value(v).reduced) times *= spec_->extents()[static_cast<size_t>(a)].exec(top_);
      cycles += times * (4 + value(v).body.cost().weight());
    }
    return cycles;
  }

  const KernelSpec* spec_;  ///< without masks where a block is known to lie inside
  Program program_;
  DimMap top_;
  const Target& target_;
  AxisSet inner_axes_ = 0;  ///< along which vectors lie
  int lanes_ = 1;
  std::vector<int> stored_;  ///< by stages
  std::vector<int> held_;    ///< by rows
  std::map<int, Store> stores_;
  std::set<int> current_;  ///< what this stage computes itself
  StageBuilder* b_ = nullptr;
};

// --- candidates ---

/// How much longer memory takes where each step of a long reduction reads a few neighbours of another row.
double slow_of(const KernelSpec& spec, const AxisGroup& group, int64_t lanes, const DimMap& top) {
  constexpr int64_t kShort = 64, kLine = 64;  // steps whose rows stay in the cache for the next lanes; bytes
  double slow = 1;
  for (const Value& v : spec.values()) {
    const std::vector<Expression> steps = group_of(spec.extents(), v.reduced).extents;
    if (!v.monoid || element_count(steps).exec(top) < kShort) continue;
    for (const Operand& o : v.operands) {
      if (o.kind != Operand::Kind::Load || !depends_on(o.index, group.axes)) continue;
      const auto along = evenly(o.index, group);
      if (!along || along->stride != 1) continue;
      const int64_t piece = std::min(lanes, along->size.exec(top)) * element_bytes(o.dtype);
      const auto step = evenly(o.index, group_of(spec.extents(), {v.reduced.back()}));
      if (step && std::abs(step->stride) * element_bytes(o.dtype) <= std::max(piece, kLine)) continue;
      slow = std::max(slow, scattered(static_cast<double>(piece)));
    }
  }
  return slow;
}

/// What a step of a reduction waits for the caches, which reads a piece of neighbours for its lanes: the next row of the
/// output comes back to it after all others. Pieces that are a multiple of a page apart share a few sets of the second
/// cache.
double cache_cycles(const KernelSpec& spec, const Value& value, const AxisGroup& group, int64_t lanes,
                    const DimMap& top, const Target& target) {
  constexpr int64_t kLine = 64, kPage = 4096, kWays = 8;
  constexpr double kSecondCache = 4, kBeyond = 20;  // a line; on Zen 4 5 and 25 with what is done with it
  if (!value.monoid) return 0;
  const AxisGroup reduced = group_of(spec.extents(), value.reduced);
  const int64_t steps = reduced.size().exec(top);
  double cycles = 0;
  for (const Operand& o : value.operands) {
    if (o.kind != Operand::Kind::Load) continue;
    const auto along = evenly(o.index, group), step = evenly(o.index, reduced);
    if (!along || along->stride != 1 || !step) continue;
    const int64_t piece = std::min(lanes, along->size.exec(top)) * element_bytes(o.dtype),
                  apart = std::abs(step->stride) * element_bytes(o.dtype);
    if (apart <= std::max(piece, kLine)) continue;
    if (steps * group.size().exec(top) * element_bytes(o.dtype) <= target.l1_bytes) continue;
    const int64_t pieces_of_sets = kWays * std::max<int64_t>(1, target.l2_bytes / kWays / apart);
    const bool is_beyond = apart % kPage == 0 && steps > pieces_of_sets;
    cycles += static_cast<double>((piece + kLine - 1) / kLine) * (is_beyond ? kBeyond : kSecondCache);
  }
  return cycles;
}

/// Where a value is computed: over which axes, and in which reduction, where it is known from then on.
using Place = std::pair<AxisSet, size_t>;

/// By value: what depends on axes that outputs lack is part of each reduction that binds these, unless a row holds it.
std::vector<std::set<Place>> places_of(const KernelSpec& spec, AxisSet vector_axes,
                                       std::span<const int> stages, std::span<const int> held) {
  constexpr size_t kMostPlaces = 16;
  const AxisSet all = output_axes(spec);
  std::vector<std::set<Place>> places(spec.values().size());
  for (size_t k = spec.values().size(); k-- > 0;) {
    const Value& v = spec.values()[k];
    const AxisSet own = kernel::all_axes(v);
    const bool is_within = (kernel::axes_of(v.axes) & ~all) != 0;
    if (!is_within || contains(held, k) || places[k].empty()) {
      // What has no stage of its own is computed anew in every block, or in every row where lanes agree.
      const bool in_blocks = (own & vector_axes) != 0 && !contains(held, k);
      const AxisSet anew = contains(stages, k) || !v.monoid ? 0 : in_blocks ? all : all & ~vector_axes;
      places[k] = {{own | anew, k}};
    }
    for (const Operand& o : v.operands) {
      if (o.kind != Operand::Kind::Value) continue;
      const auto read = static_cast<size_t>(o.value);
      for (const auto& [axes, reduction] : places[k])
        if (places[read].size() < kMostPlaces)
          places[read].emplace(axes | kernel::all_axes(spec.values()[read]), reduction);
    }
  }
  return places;
}

/// How much longer it takes than if the threads shared the blocks of what is computed over these axes evenly, or its rows
/// where these are whole.
double idleness(const KernelSpec& spec, AxisSet axes, AxisSet vector_axes, bool whole_rows, int64_t lanes,
                int threads, const DimMap& top) {
  const double rows = positions_of(spec, axes & ~vector_axes, top);
  const double blocks =
      whole_rows ? 1 : std::ceil(positions_of(spec, axes & vector_axes, top) / static_cast<double>(lanes));
  return std::ceil(rows * blocks / threads) * threads / (rows * blocks);
}

/// Cycles of all bodies, each as often as it runs, and of the loops around them, while other threads wait, too: `inner`
/// axes in vectors of `lanes`, of which the last one may be nearly empty, the values `stages` before the others, `held`
/// ones in each row. `idle`: of the outputs.
double cycles_of(const KernelSpec& spec, const AxisGroup& group, std::span<const int> stages,
                 std::span<const int> held, int64_t lanes, int64_t natural, double idle, const DimMap& top,
                 const Target& target) {
  constexpr double kRow = 6, kBlock = 2, kAddition = 4;
  const auto side_by_side = static_cast<double>(std::max<int64_t>(1, lanes / natural));  // vectors of a block
  const AxisSet all = output_axes(spec), vector_axes = kernel::axes_of(group.axes);
  const auto blocks = [&](AxisSet axes) {
    return std::ceil(positions_of(spec, axes, top) / static_cast<double>(lanes));
  };
  const double rows = positions_of(spec, all & ~vector_axes, top);
  double cycles = idle * rows * (kRow + kBlock * blocks(vector_axes));
  const auto places = places_of(spec, vector_axes, stages, held);
  const Interior interior = interior_of(spec, group, ~(all | vector_axes));
  // Without a fold it does what `map` does, for which masks count as if no block lay inside: so they do here.
  const bool folds = std::ranges::any_of(spec.values(), [](const Value& v) { return v.monoid.has_value(); });
  for (size_t k = 0; k < spec.values().size(); ++k) {
    const Value& v = (folds ? interior.spec : spec).values()[k];
    const bool has_stage = contains(stages, k);
    const AxisGroup own =
        has_stage
            ? group_of(spec.extents(), {v.axes.end() - axes_in_vectors(v.axes, vector_axes), v.axes.end()})
        : contains(held, k) ? group_of(spec.extents(), further_axes(spec, v))
                            : group;
    const AxisSet in_vectors = kernel::axes_of(own.axes);
    const bool vectors = (kernel::all_axes(v) & in_vectors) != 0;
    double times = 0;
    for (const auto& [axes, reduction] : places[k])
      times += positions_of(spec, axes & ~in_vectors, top) * blocks(axes & in_vectors);
    double per_element = 1 + body_cycles(spec, v, kernel::all_axes(v));
    per_element += vectors ? load_cycles(spec, v.operands, own, static_cast<int>(std::min(lanes, natural)))
                           : static_cast<double>(v.operands.size());
    if (vectors) per_element *= side_by_side;
    if (vectors) per_element += cache_cycles(spec, v, own, lanes, top, target);
    if (v.monoid) per_element = std::max(per_element, kAddition);  // one after the other in each lane
    cycles +=
        times * per_element *
        (has_stage ? idleness(spec, kernel::axes_of(v.axes), in_vectors, false, lanes, target.threads, top)
                   : idle);
  }
  return cycles;
}

/// Outputs over the same axes share a stage.
int output_groups(const KernelSpec& spec) {
  std::set<std::vector<int>> groups;
  for (const kernel::Output& o : spec.outputs())
    groups.insert(spec.values()[static_cast<size_t>(o.value)].axes);
  return static_cast<int>(groups.size());
}

constexpr int64_t kSideBySide = 4;  // vectors, so that sums of one do not wait for those of the others

/// Points of the space, the fastest by the model first; those for comparisons alone if they are asked for.
std::vector<Candidate> points_of(const KernelSpec& given, const Bucket& bucket, const Target& target,
                                 bool for_comparisons) {
  const KernelSpec spec = with_own_axes(specialised(given, bucket));
  const DimMap top = bucket.top();
  const Roofline roofline = roofline_of(spec, top, target);
  const bool large = roofline.bytes > static_cast<double>(target.l2_bytes);
  const std::vector<int> axes = memory_order(spec, spec.outputs()[0]);
  const int64_t natural = natural_lanes(spec, target);
  // Along the innermost axis, along as many as fill half a vector or a whole one, along all.
  std::vector<size_t> inner{1};
  int64_t positions = 1;
  for (size_t k = 1; k <= axes.size() && positions < natural; ++k) {
    positions *= spec.extents()[static_cast<size_t>(axes[axes.size() - k])].exec(top);
    if (2 * positions >= natural && k > 1) inner.push_back(k);
  }
  if (axes.size() > inner.back()) inner.push_back(axes.size());
  const std::vector<int> early = storable(spec), none;
  std::vector<Candidate> found;
  for (const size_t i : inner) {
    const auto vectors = static_cast<std::ptrdiff_t>(std::min(i, axes.size()));
    const AxisGroup group = group_of(spec.extents(), {axes.end() - vectors, axes.end()});
    const std::vector<int> held = held_values(spec, kernel::axes_of(group.axes), top);
    for (const int64_t stored : {kNothing, kStages, kRows}) {
      const std::vector<int>&stages = stored == kStages ? early : none, &rows = stored == kRows ? held : none;
      if (stored != kNothing && stages.empty() && rows.empty()) continue;
      if (stored == kRows && !for_comparisons) continue;
      for (const int64_t lanes : {kSideBySide * natural, natural, int64_t{1}}) {
        if (lanes == 1 && i > 1) continue;
        if (lanes > natural && (!for_comparisons || group.size().exec(top) < lanes)) continue;
        const double idle = idleness(spec, output_axes(spec), kernel::axes_of(group.axes), !rows.empty(),
                                     lanes, target.threads, top);
        const double us = roofline.us(cycles_of(spec, group, stages, rows, lanes, natural, idle, top, target),
                                      output_groups(spec) + static_cast<int>(stages.size()),
                                      large ? idle * slow_of(spec, group, lanes, top) : idle);
        found.push_back({{{"inner", static_cast<int64_t>(i)}, {"stored", stored}, {"lanes", lanes}}, us});
      }
    }
  }
  std::ranges::stable_sort(found, {}, &Candidate::predicted_us);
  constexpr double kHopeless = 10;
  const double best = found[0].predicted_us;
  std::erase_if(found, [&](const Candidate& c) { return c.predicted_us > kHopeless * best; });
  return found;
}

/// No row keeps what others sum over: a plan that is to store nothing of attention would take such loops for it.
std::vector<Candidate> nest_candidates(const KernelSpec& spec, const Bucket& bucket, const Target& target) {
  return points_of(spec, bucket, target, false);
}

Program nest_lower(const KernelSpec& given, const Parameters& parameters, const Bucket& bucket,
                   const Target& target) {
  const KernelSpec spec = with_own_axes(specialised(given, bucket));
  return Nest(spec, parameters, bucket, target).ramp();
}

}  // namespace

std::vector<Candidate> plain_loops(const KernelSpec& spec, const Bucket& bucket, const Target& target) {
  return points_of(spec, bucket, target, true);
}

const Schedule& nest_schedule() {
  static const Schedule schedule{.name = "nest",
                                 .doc = "loops as the spec says them; takes every spec",
                                 .candidates = nest_candidates,
                                 .lower = nest_lower};
  return schedule;
}

}  // namespace luminal::codegen
