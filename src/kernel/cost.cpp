#include "kernel/cost.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernel/axes.h"
#include "scalar/typing.h"
#include "symbolic/node.h"

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

double element_size(Dtype dtype) {
  return static_cast<double>(info(dtype).block_bytes) / static_cast<double>(info(dtype).block_elements);
}

/// Calls f(coefficient, monomial) for each term of a formula but its constant.
template <class F>
void for_each_term(const Expression& e, F f) {
  const symbolic::Node& n = e.node();
  if (n.kind == symbolic::Kind::Constant) return;
  if (n.kind != symbolic::Kind::Sum) return f(int64_t{1}, e);
  for (const symbolic::Term& t : n.terms) f(t.coefficient, t.monomial);
}

/// A part of a flat index: `count` places `stride` apart.
struct Step {
  double stride = 0, count = 1;
};

/// The steps of an index at given sizes: one for each linear axis; a quotient, remainder or product of axes
/// is one axis of as many places as its range or its axes allow.
std::vector<Step> steps_of(const Expression& index, const DimMap& dims, const Sizes& sizes) {
  const Expression at_sizes = dims.empty() ? index : index.substitute(dims);
  std::vector<Step> steps;
  for_each_term(at_sizes, [&](int64_t coefficient, const Expression& monomial) {
    const Range r = monomial.range();
    double count = volume(axes_of(monomial), sizes);
    if (r.min != INT64_MIN && r.max != INT64_MAX)
      count = std::min(count, static_cast<double>(r.max) - static_cast<double>(r.min) + 1);
    steps.push_back({std::abs(static_cast<double>(coefficient)), count});
  });
  return steps;
}

/// Different places that steps reach. Sorted by stride, each either leaves the places before it apart (their
/// number multiplies) or slides over them (windows of a convolution: only the new ones count).
double distinct_places(std::vector<Step> steps) {
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
  for_each_term(
      dims.empty() ? index : index.substitute(dims), [&](int64_t coefficient, const Expression& monomial) {
        if ((axes_of(monomial) & axis_bit(axis)) == 0) return;
        stride += symbolic::kind_of(monomial) == symbolic::Kind::Index ? static_cast<double>(coefficient)
                                                                       : std::nan("");
      });
  return stride;
}

class Costing {
 public:
  Costing(const KernelSpec& spec, const DimMap& dims) : Costing(spec, dims, sizes_of(spec, dims)) {}
  Costing(const KernelSpec& spec, const DimMap& dims, const Sizes& sizes)
      : spec_(spec), dims_(dims), sizes_(sizes) {
    for (const Value& v : spec.values()) node_axes_.push_back(find_node_axes(v));
  }

  double operations() {
    for (const Value& v : spec_.values()) add(v);
    return work_.operations;
  }

  Work work() {
    (void)operations();
    for (size_t s = 0; s < spec_.slots().size(); ++s) work_.bytes_read += slot_bytes(static_cast<int>(s));
    for (const Output& o : spec_.outputs())
      work_.bytes_written += static_cast<double>(o.elements.exec(dims_)) *
                             element_size(spec_.values()[static_cast<size_t>(o.value)].dtype());
    return work_;
  }

  double predicted_us(const MachineLimits& limits) {
    const Work w = work();
    double compute_us = 0;
    for (const Value& v : spec_.values()) compute_us += value_us(v, limits);
    double memory_us = 0;
    const auto traffic = [&](double bytes) {
      // What fills less than half of the cache is likely there from the kernel before.
      const bool cached = bytes < static_cast<double>(limits.cache_bytes) / 2;
      memory_us += bytes / (cached ? limits.cache_bytes_per_us : limits.memory_bytes_per_us);
    };
    for (size_t s = 0; s < spec_.slots().size(); ++s) traffic(slot_bytes(static_cast<int>(s)));
    traffic(w.bytes_written);
    return std::max(compute_us, memory_us) + limits.launch_us;
  }

 private:
  /// Operations count as often as the axes they depend on have coordinates: what is the same along an axis is
  /// computed outside of it.
  void add(const Value& v) {
    const std::vector<AxisSet>& axes = node_axes(v);
    const auto nodes = v.body.nodes();
    for (size_t i = 0; i < nodes.size(); ++i) {
      const ScalarCost cost = cost_of(nodes[i].op);
      if (cost.weight() == 0) continue;
      const double times = volume(axes[i], sizes_);
      work_.flops += times * cost.flops();
      work_.operations += times * cost.weight();
    }
    if (v.combiner != Combiner::None) {
      const double times = volume(all_axes(v), sizes_);
      work_.flops += times;
      if (!is_product(v)) work_.operations += times;  // otherwise multiply and add are one instruction
    }
    for (const Operand& o : v.operands) {
      if (o.kind != Operand::Kind::Load) continue;
      work_.loads += volume(axes_of(o, spec_.values()), sizes_);
      for (const Mask& m : o.masks) work_.operations += volume(axes_of(m.predicate), sizes_);
    }
  }

  [[nodiscard]] const std::vector<AxisSet>& node_axes(const Value& v) const {
    return node_axes_[static_cast<size_t>(&v - spec_.values().data())];
  }
  [[nodiscard]] std::vector<AxisSet> find_node_axes(const Value& v) const {
    const auto nodes = v.body.nodes();
    std::vector<AxisSet> axes(nodes.size(), 0);
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].op == ScalarOp::Input) axes[i] = axes_of(v.operands[nodes[i].payload], spec_.values());
      for (int k = 0; k < arity(nodes[i].op); ++k)
        axes[i] |= axes[nodes[i].operands[static_cast<size_t>(k)].index];
    }
    return axes;
  }

  static bool is_product(const Value& v) {
    return v.combiner == Combiner::Add && v.body[v.body.outputs()[0]].op == ScalarOp::Mul;
  }

  /// A sum of products whose factors are each reused along an axis of the other.
  [[nodiscard]] bool is_contraction(const Value& v) const {
    if (!is_product(v)) return false;
    const std::vector<AxisSet>& axes = node_axes(v);
    const ScalarNode& root = v.body[v.body.outputs()[0]];
    const AxisSet a = axes[root.operands[0].index], b = axes[root.operands[1].index], all = all_axes(v);
    return (all & ~a) != 0 && (all & ~b) != 0;
  }

  /// Distinct bytes of a slot.
  [[nodiscard]] double slot_bytes(int slot) const {
    const Slot& s = spec_.slots()[static_cast<size_t>(slot)];
    const auto elements = static_cast<double>(s.elements.exec(dims_));
    double places = 0;
    std::vector<Expression> seen;
    for (const Value& v : spec_.values())
      for (const Operand& o : v.operands) {
        if (o.kind != Operand::Kind::Load || o.slot != slot || std::ranges::count(seen, o.index) > 0)
          continue;
        seen.push_back(o.index);
        places += distinct_places(steps_of(o.index, dims_, sizes_));
      }
    return std::min(places, elements) * element_size(s.dtype);
  }

  /// Compute time of one value: contractions near the fma rate, all else at one operation per lane and cycle
  /// plus what its loads take along the best axis to vectorise.
  [[nodiscard]] double value_us(const Value& v, const MachineLimits& limits) const {
    constexpr double kContractionShare = 0.75;  // of the fma rate: packing, tails
    const double width = element_size(v.dtype()) / 4;
    const double rate = limits.flops_per_us / 2 / width;  // elements of one operation
    const bool contraction = is_contraction(v);
    double operations = 0;
    const std::vector<AxisSet>& axes = node_axes(v);
    const auto nodes = v.body.nodes();
    for (size_t i = 0; i < nodes.size(); ++i)
      operations += volume(axes[i], sizes_) * cost_of(nodes[i].op).weight();
    const double all = volume(all_axes(v), sizes_);
    if (contraction) return operations / (kContractionShare * rate);
    if (v.combiner != Combiner::None && !is_product(v)) operations += all;
    return (operations + load_operations(v, limits)) / rate;
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
      const double lanes = std::max(1.0, limits.vector_bytes / element_size(o.dtype));
      const double filled = std::min(1.0, sizes_[static_cast<size_t>(axis)] / lanes);
      const double stride = stride_along(o.index, axis, dims_);
      const double times = volume(axes_of(o, spec_.values()), sizes_) / std::max(filled, 1 / lanes);
      cost += times * (std::abs(stride) == 1 ? 0.5 : stride == 0 ? 0.1 : kGathered * lanes);
    }
    return cost;
  }

  const KernelSpec& spec_;
  const DimMap& dims_;
  Sizes sizes_;
  std::vector<std::vector<AxisSet>> node_axes_;  ///< by value: what each node of its body depends on
  Work work_;
};

}  // namespace

Work work_of(const KernelSpec& spec, const DimMap& dims) { return Costing(spec, dims).work(); }

double typical_operations(const KernelSpec& spec) {
  const DimMap none;
  return Costing(spec, none, typical_sizes(spec)).operations();
}

double predicted_us(const KernelSpec& spec, const DimMap& dims, const MachineLimits& limits) {
  return Costing(spec, dims).predicted_us(limits);
}

}  // namespace luminal::kernel
