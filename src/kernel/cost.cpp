#include "kernel/cost.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <tuple>

#include "kernel/axes.h"
#include "kernel/one_term.h"
#include "kernel/online.h"
#include "kernel/routed.h"
#include "scalar/typing.h"
#include "symbolic/polynomial.h"

namespace luminal::kernel {
namespace {

using Sizes = std::array<double, kMaxAxes>;

Sizes sizes_of(const KernelSpec& spec, const DimMap& dims) {
  Sizes sizes{};
  for (size_t a = 0; a < spec.extents().size(); ++a)
    sizes[a] = static_cast<double>(spec.extents()[a].exec(dims));
  return sizes;
}

Sizes typical_sizes(const KernelSpec& spec) {
  Sizes sizes{};
  for (size_t a = 0; a < spec.extents().size(); ++a) sizes[a] = typical_size(spec.extents()[a]);
  return sizes;
}

double volume(AxisSet axes, const Sizes& sizes) {
  double product = 1;
  for_each_axis(axes, [&](int a) { product *= sizes[static_cast<size_t>(a)]; });
  return product;
}

/// A part of a flat index: `count` places `stride` apart.
struct Step {
  double stride = 0, count = 1;
};

/// Different places that steps reach. Sorted by stride, each either leaves the places before it apart (their
/// number multiplies) or slides over them (windows of a convolution: only the new ones count).
double distinct_places(std::vector<Step>& steps) {
  std::ranges::sort(steps, {}, &Step::stride);
  double places = 1, span = 1;
  for (const Step& s : steps) {
    const double far = (s.count - 1) * s.stride;
    places = s.stride >= span ? places * s.count : std::min(places * s.count, places + far * (places / span));
    span += far;
  }
  return places;
}

/// How far from one place to the next when `axis` counts up, at given sizes; not a number if that varies.
double stride_along(const Expression& index, int axis, const DimMap& dims) {
  double stride = 0;
  if ((axes_of(index) & axis_bit(axis)) == 0) return stride;
  const Expression at_sizes = dims.empty() ? index : index.substitute(dims);
  for (const auto& [coefficient, monomial] : symbolic::Terms(at_sizes)) {
    if ((axes_of(monomial) & axis_bit(axis)) == 0) continue;
    stride += symbolic::kind_of(monomial) == symbolic::Kind::Index ? static_cast<double>(coefficient)
                                                                   : std::nan("");
  }
  return stride;
}

class Costing {
 public:
  Costing(const KernelSpec& spec, const DimMap& dims) : Costing(spec, dims, sizes_of(spec, dims)) {}
  Costing(const KernelSpec& spec, const DimMap& dims, const Sizes& sizes)
      : spec_(spec), dims_(dims), sizes_(sizes), computed_(sizes) {
    if (const auto routed = routed_of(spec)) compute_named_terms(*routed);
    for (size_t k = 0; k < spec.values().size(); ++k) {
      const Value& v = spec.values()[k];
      node_axes_.push_back(kernel::node_axes(v, spec_.values()));
      if (const auto term = one_term_of(spec.values(), k)) add_pick(v, term->axis);
      reductions_ += is_fold(v) ? 1 : 0;
    }
  }

  double operations() {
    for (const Value& v : spec_.values()) add(v);
    return work_.operations;
  }

  Work work() {
    (void)operations();
    find_slot_bytes();
    for (const double bytes : slot_bytes_) work_.bytes_read += bytes;
    for (const Output& o : spec_.outputs())
      work_.bytes_written += static_cast<double>(o.elements.exec(dims_)) *
                             mean_element_bytes(spec_.values()[static_cast<size_t>(o.value)].dtype());
    return work_;
  }

  double predicted_us(const MachineLimits& limits) {
    const Work w = work();
    double compute_us = 0;
    if (in_one_walk()) {
      compute_us = walk_us(limits);
    } else {
      for (const Value& v : spec_.values()) compute_us += value_us(v, limits);
      count_passes(limits);
    }
    double memory_us = 0;
    const auto traffic = [&](double bytes) {
      // What fills less than half of the cache is likely there from the kernel before.
      const bool cached = bytes < static_cast<double>(limits.cache_bytes) / 2;
      memory_us += bytes / (cached ? limits.cache_bytes_per_us : limits.memory_bytes_per_us);
    };
    std::ranges::for_each(slot_bytes_, traffic);
    traffic(w.bytes_written);
    return std::max(compute_us, memory_us) + limits.launch_us;
  }

 private:
  /// A row that leaves the thread's cache comes from memory once for each pass over it: for its sums, for what is folded
  /// from these, for what is written along it. Online sums need no pass of their own where nothing is.
  void count_passes(const MachineLimits& limits) {
    const auto is_long = [&](double bytes) { return bytes > static_cast<double>(limits.l2_bytes); };
    if (reductions_ == 0 || std::ranges::none_of(slot_bytes_, is_long)) return;
    const auto values = spec_.values();
    AxisSet of_all = ~AxisSet{0};  // folds: what lies along other axes is a row
    for (const Value& v : values)
      if (is_fold(v)) of_all &= axes_of(v.axes);
    const bool writes_along = std::ranges::any_of(spec_.outputs(), [&](const Output& o) {
      return (axes_of(values[static_cast<size_t>(o.value)].axes) & ~of_all) != 0;
    });
    std::vector<int> pass(values.size(), 0);         // in which a value can be computed
    std::vector<uint64_t> passes(values.size(), 0);  // in which it is
    for (size_t k = 0; k < values.size(); ++k) {
      for (const Operand& o : values[k].operands)
        if (o.kind == Operand::Kind::Value) {
          const auto read = static_cast<size_t>(o.value);
          pass[k] = std::max(pass[k], pass[read] + (is_fold(values[read]) ? 1 : 0));
        }
      if (pass[k] > 0 && values[k].online && !writes_along) --pass[k];
    }
    for (const Output& o : spec_.outputs())
      passes[static_cast<size_t>(o.value)] |= uint64_t{1} << std::min(pass[static_cast<size_t>(o.value)], 63);
    std::vector<uint64_t> of_slot(slot_bytes_.size(), 0);
    for (size_t k = values.size(); k-- > 0;) {
      if (is_fold(values[k])) passes[k] = uint64_t{1} << std::min(pass[k], 63);
      for (const Operand& o : values[k].operands) {
        if (o.kind == Operand::Kind::Value) passes[static_cast<size_t>(o.value)] |= passes[k];
        if (o.kind != Operand::Kind::Load) continue;
        const double row = volume(axes_read(values[k], o) & ~of_all, sizes_) * mean_element_bytes(o.dtype);
        if (is_long(row)) of_slot[static_cast<size_t>(o.slot)] |= passes[k];
      }
    }
    for (size_t s = 0; s < of_slot.size(); ++s) slot_bytes_[s] *= std::max(1, std::popcount(of_slot[s]));
  }
  /// Of a sum with one term, its axis counts one position.
  [[nodiscard]] const Sizes& sizes_in(const Value& v) const {
    const auto own = picks_.find(&v);
    return own == picks_.end() ? computed_ : own->second.sizes;
  }
  void add_pick(const Value& v, int axis) {
    Pick& pick = picks_.emplace(&v, Pick{axis, computed_}).first->second;
    pick.sizes[static_cast<size_t>(axis)] = 1;
  }
  /// Each place computes one term; of what terms read, all of them together read no more than there are.
  void compute_named_terms(const Routed& routed) {
    double& terms = sizes_[static_cast<size_t>(routed.term.axis)];
    terms = std::min(terms, volume(axes_of(routed.places), sizes_));
    computed_[static_cast<size_t>(routed.term.axis)] = 1;
    add_pick(spec_.values()[static_cast<size_t>(routed.sum)], routed.term.axis);
  }
  [[nodiscard]] bool is_fold(const Value& v) const { return v.monoid && !picks_.contains(&v); }
  /// Whether an operand is read at a computed place of its axis.
  [[nodiscard]] bool is_picked(const Value& v, const Operand& o) const {
    const auto pick = picks_.find(&v);
    return pick != picks_.end() && (axes_of(o, spec_.values()) & axis_bit(pick->second.axis)) != 0;
  }
  /// What an operand depends on: a place depends on all axes of the value.
  [[nodiscard]] AxisSet axes_read(const Value& v, const Operand& o) const {
    const AxisSet axes = axes_of(o, spec_.values());
    return is_picked(v, o) ? axes | axes_of(v.axes) : axes;
  }

  /// Operations count as often as the axes they depend on have coordinates: what is the same along an axis is
  /// computed outside of it.
  void add(const Value& v) {
    const Operations body = operations_of(v);
    work_.flops += body.flops;
    work_.operations += body.weight;
    if (v.monoid) {
      const double times = volume(all_axes(v), sizes_in(v));
      work_.flops += times;
      if (!is_product(v)) work_.operations += times;  // otherwise multiply and add are one instruction
    }
    for (const Operand& o : v.operands) {
      if (o.kind != Operand::Kind::Load) continue;
      work_.loads += volume(axes_read(v, o), sizes_in(v));
      for (const Mask& m : o.masks) work_.operations += volume(axes_of(m.predicate), sizes_in(v));
    }
  }

  struct Operations {
    double flops = 0, weight = 0;
  };
  /// Of the body, wherever it is computed.
  [[nodiscard]] Operations operations_of(const Value& v) const {
    const std::vector<AxisSet>& axes = node_axes(v);
    const auto nodes = v.body.nodes();
    Operations sum;
    AxisSet last = 0;
    double times = 1;  // volume of `last`: neighbours mostly depend on the same axes
    for (size_t i = 0; i < nodes.size(); ++i) {
      const ScalarCost cost = cost_of(nodes[i].op);
      if (cost.weight() == 0) continue;
      if (axes[i] != last) times = volume(last = axes[i], sizes_in(v));
      sum.flops += times * cost.flops();
      sum.weight += times * cost.weight();
    }
    return sum;
  }

  [[nodiscard]] const std::vector<AxisSet>& node_axes(const Value& v) const {
    return node_axes_[static_cast<size_t>(&v - spec_.values().data())];
  }
  static bool is_product(const Value& v) {
    return v.monoid == Monoid::Add && v.body[v.body.outputs()[0]].op == ScalarOp::Mul;
  }

  /// A sum of products whose factors are each reused along an axis of the other.
  [[nodiscard]] bool is_contraction(const Value& v) const {
    if (!is_product(v)) return false;
    const std::vector<AxisSet>& axes = node_axes(v);
    const ScalarNode& root = v.body[v.body.outputs()[0]];
    const AxisSet a = axes[root.operands[0].index], b = axes[root.operands[1].index], all = all_axes(v);
    return (all & ~a) != 0 && (all & ~b) != 0;
  }

  /// The steps of an index at given sizes: one for each linear axis; a quotient, remainder or product of axes is
  /// one axis of as many places as its range or its axes allow.
  void find_steps(const Expression& index, std::vector<Step>& steps) const {
    const Expression at_sizes = dims_.empty() ? index : index.substitute(dims_);
    steps.clear();
    for (const auto& [coefficient, monomial] : symbolic::Terms(at_sizes)) {
      const Range r = monomial.range();
      double count = volume(axes_of(monomial), sizes_);
      if (r.min != INT64_MIN && r.max != INT64_MAX)
        count = std::min(count, static_cast<double>(r.max) - static_cast<double>(r.min) + 1);
      steps.push_back({std::abs(static_cast<double>(coefficient)), count});
    }
  }

  /// Distinct bytes of each slot.
  void find_slot_bytes() {
    slot_bytes_.assign(spec_.slots().size(), 0);
    std::vector<std::tuple<int, const symbolic::Node*, bool>> seen;
    std::vector<Step> steps;
    for (const Value& v : spec_.values())
      for (const Operand& o : v.operands) {
        if (o.kind != Operand::Kind::Load) continue;
        const std::tuple read(o.slot, &o.index.node(), is_picked(v, o));
        if (std::ranges::find(seen, read) != seen.end()) continue;
        seen.push_back(read);
        find_steps(o.index, steps);
        slot_bytes_[static_cast<size_t>(o.slot)] +=
            is_picked(v, o) ? volume(axes_read(v, o), sizes_in(v)) : distinct_places(steps);
      }
    for (size_t s = 0; s < slot_bytes_.size(); ++s) {
      const Slot& slot = spec_.slots()[s];
      slot_bytes_[s] = std::min(slot_bytes_[s], static_cast<double>(slot.elements.exec(dims_))) *
                       mean_element_bytes(slot.dtype);
    }
  }

  /// Compute time of one value: contractions near the fma rate, all else at one operation per lane and cycle
  /// plus what its loads take along the best axis to vectorise.
  [[nodiscard]] double value_us(const Value& v, const MachineLimits& limits) const {
    constexpr double kContractionShare = 0.75;  // of the fma rate: packing, tails
    const double width = mean_element_bytes(v.dtype()) / 4;
    const double rate = limits.flops_per_us / 2 / width;  // elements of one operation
    const bool contraction = is_contraction(v);
    double operations = operations_of(v).weight;
    const double all = volume(all_axes(v), sizes_in(v));
    if (contraction) {
      // Beside another reduction no family tiles it: it is computed one element after the other.
      const double lanes = std::max(1.0, limits.vector_bytes / mean_element_bytes(v.dtype()));
      return operations / (reductions_ == 1 ? kContractionShare * rate : rate / lanes);
    }
    if (v.monoid && !is_product(v)) operations += all;
    return (operations + load_operations(v, limits)) / rate;
  }

  /// Whether one walk over some axes could compute all reductions: those at parallel coordinates fold over
  /// these axes, others stand inside.
  [[nodiscard]] bool in_one_walk() const {
    const AxisSet parallel = axes_of(spec_.parallel_axes());
    AxisSet streamed = 0;
    for (const Value& v : spec_.values())
      if (is_fold(v) && (axes_of(v.axes) & ~parallel) == 0) {
        if (streamed != 0 && axes_of(v.reduced) != streamed) return false;
        streamed = axes_of(v.reduced);
      }
    const auto fits = [&](const Value& v) {
      return (axes_of(v.axes) & ~(parallel | streamed)) == 0 &&
             (is_fold(v) || (axes_of(v.axes) & streamed) == 0);
    };
    if (reductions_ < 2 || parallel == 0 || (streamed & parallel) != 0 ||
        !std::ranges::all_of(spec_.values(), fits))
      return false;
    for (size_t v = 0; v < spec_.values().size(); ++v)
      if (is_fold(spec_.values()[v]) && !joins_walk(spec_.values(), static_cast<int>(v))) return false;
    return true;
  }

  /// How often a walk folds a value that stands at one of its coordinates: once for each tile of the rows on which the
  /// value does not depend.
  [[nodiscard]] double repeats(const Value& v) const {
    constexpr double kTileRows = 8;
    const AxisSet parallel = axes_of(spec_.parallel_axes()), own = axes_of(v.axes);
    if ((own & ~parallel) == 0) return 1;
    AxisSet rows = 0;  // of the other values at its coordinates
    for (const Value& other : spec_.values())
      if (is_fold(other) && (axes_of(other.axes) & own & ~parallel) != 0)
        rows |= axes_of(other.axes) & parallel;
    return std::max(1.0, volume(rows & ~own, sizes_) / kTileRows);
  }

  /// One walk packs little, stores nothing between its values, and computes once what several of them read at
  /// a place: of their operations beside products the dearest value's count for all.
  [[nodiscard]] double walk_us(const MachineLimits& limits) const {
    constexpr double kWalkShare = 0.85;  // of the fma rate
    double us = 0, most = 0;
    for (const Value& v : spec_.values()) {
      if (!is_contraction(v)) {
        if (is_fold(v))
          most = std::max(most, value_us(v, limits) * repeats(v));
        else
          us += value_us(v, limits);
        continue;
      }
      const double rate = limits.flops_per_us / 2 * 4 / mean_element_bytes(v.dtype());
      const double products = volume(all_axes(v), sizes_);
      us += products / (kWalkShare * rate);
      most = std::max(most, (operations_of(v).weight - products) / rate);
    }
    return us + most;
  }

  [[nodiscard]] double load_operations(const Value& v, const MachineLimits& limits) const {
    const AxisSet candidates = all_axes(v);
    if (candidates == 0) return 0;
    double best = -1;
    for_each_axis(candidates, [&](int axis) {
      const double cost = load_operations(v, axis, limits);
      if (best < 0 || cost < best) best = cost;
    });
    return best;
  }

  /// With `axis` in the vector lanes: a contiguous load is half an operation, one element for all lanes none,
  /// others go element by element.
  [[nodiscard]] double load_operations(const Value& v, int axis, const MachineLimits& limits) const {
    constexpr double kGathered = 0.75;  // operations an element
    double cost = 0;
    for (const Operand& o : v.operands) {
      if (o.kind != Operand::Kind::Load) continue;
      const double lanes = std::max(1.0, limits.vector_bytes / mean_element_bytes(o.dtype));
      const double filled = std::min(1.0, sizes_[static_cast<size_t>(axis)] / lanes);
      const double stride = stride_along(o.index, axis, dims_);
      const double times = volume(axes_read(v, o), sizes_in(v)) / std::max(filled, 1 / lanes);
      cost += times * (std::abs(stride) == 1 ? 0.5 : stride == 0 ? 0.1 : kGathered * lanes);
    }
    return cost;
  }

  const KernelSpec& spec_;
  const DimMap& dims_;
  Sizes sizes_;                                  ///< of what is in memory
  Sizes computed_;                               ///< of what is computed
  std::vector<std::vector<AxisSet>> node_axes_;  ///< by value: what each node of its body depends on
  std::vector<double> slot_bytes_;
  struct Pick {
    int axis;
    Sizes sizes;
  };
  std::map<const Value*, Pick> picks_;  ///< sums with one term
  int reductions_ = 0;
  Work work_;
};

}  // namespace

double mean_element_bytes(Dtype dtype) {
  return static_cast<double>(info(dtype).block_bytes) / static_cast<double>(info(dtype).block_elements);
}

double roofline_us(double flops, double bytes, const MachineLimits& limits) {
  const double rate = bytes <= static_cast<double>(limits.l2_bytes) * limits.threads ? limits.l2_bytes_per_us
                      : bytes <= static_cast<double>(limits.cache_bytes) ? limits.cache_bytes_per_us
                                                                         : limits.memory_bytes_per_us;
  return std::max(flops / limits.flops_per_us, bytes / rate);
}

Work work_of(const KernelSpec& spec, const DimMap& dims) { return Costing(spec, dims).work(); }

double typical_operations(const KernelSpec& spec) {
  const DimMap none;
  return Costing(spec, none, typical_sizes(spec)).operations();
}

double predicted_us(const KernelSpec& spec, const DimMap& dims, const MachineLimits& limits) {
  return Costing(spec, dims).predicted_us(limits);
}

}  // namespace luminal::kernel
