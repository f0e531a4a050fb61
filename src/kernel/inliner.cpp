#include "kernel/inliner.h"

#include <algorithm>

#include "kernel/canonical_steps.h"
#include "kernel/coordinates.h"
#include "scalar/monoid.h"

namespace luminal::kernel {

namespace {
using Kind = Operand::Kind;
}

Inliner::Inliner(SpecParts& target, const KernelSpec& producer, int first_slot)
    : target_(target),
      producer_(producer),
      first_slot_(first_slot),
      dense_(dense_order(producer.outputs()[0].index, producer.extents())),
      counts_(producer.values().size(), 0) {
  // Every free axis of the result must be found from the index; axes of extent 1 do not stand in canonical
  // specs.
  defined_ = dense_.size() == producer.result().axes.size();
}

Inliner::Place Inliner::place_of(const Expression& index, const Expression& valid) const {
  Place place{.coordinates = axis_variables(producer_.extents()), .valid = valid};
  const auto coordinates = coordinates_of(index, dense_, producer_.extents(), valid);
  for (size_t k = 0; k < dense_.size(); ++k)
    place.coordinates[static_cast<size_t>(dense_[k].axis)] = coordinates[k];
  return place;
}

std::optional<Scalar> Inliner::inline_load(ScalarBuilder& b, std::vector<Operand>& operands,
                                           const Operand& load) {
  if (!defined_) return std::nullopt;
  Expression valid = 1;
  for (const Mask& m : load.masks) valid = valid & m.predicate;
  Place place = place_of(load.index, valid);
  bool select = !load.masks.empty();
  for (const Number& candidate : {load.masks.empty() ? Number(0) : load.masks[0].fill, Number(0)})
    if (select && load.masks.size() == 1 && absorbs(load.masks[0].fill, candidate)) {
      place.fill = candidate;
      select = false;
    }
  if (static_cast<int>(target_.extents.size()) + static_cast<int>(producer_.extents().size()) > kMaxAxes)
    return std::nullopt;
  const Value& v = producer_value(result());
  const auto input = [&](Operand o) {
    const Dtype dtype = o.dtype;
    return b.input(add_operand(operands, std::move(o)), dtype);
  };
  Scalar value;
  if (v.monoid) {
    value = input({.kind = Kind::Value, .dtype = v.dtype(), .value = instance(result(), place), .masks = {}});
  } else {
    count(result(), place);
    std::vector<Scalar> inputs;
    for (const Operand& o : v.operands) inputs.push_back(input(moved(o, place)));
    value = b.inline_function(v.body, inputs)[0];
  }
  if (!select) return value;
  for (size_t k = load.masks.size(); k-- > 0;) {
    const Scalar predicate =
        input({.kind = Kind::Index, .dtype = Dtype::I64, .index = load.masks[k].predicate, .masks = {}});
    value = b.select(b.convert(predicate, Dtype::Bool), value,
                     number_constant(b, load.dtype, load.masks[k].fill));
  }
  return value;
}

std::optional<int> Inliner::instantiate_output(size_t output, const Expression& index) {
  if (!defined_) return std::nullopt;
  return instance(producer_.outputs()[output].value, place_of(index, 1));
}

Operand Inliner::moved(const Operand& o, const Place& place) {
  Operand result = o;
  if (o.kind == Kind::Value) {
    result.value = instance(o.value, place);
    return result;
  }
  result.index = o.index.substitute_indices(place.coordinates);
  if (o.kind == Kind::Index) return result;
  result.slot += first_slot_;
  result.masks.clear();
  append_mask(result.masks, place.valid, place.fill);
  for (const Mask& m : o.masks)
    append_mask(result.masks, m.predicate.substitute_indices(place.coordinates), m.fill);
  return result;
}

int Inliner::instance(int source, const Place& place) {
  const Value& w = producer_value(source);
  Instance made{.source = source, .valid = place.valid, .fill = place.fill};
  for (const int a : w.axes) made.coordinates.push_back(place.coordinates[static_cast<size_t>(a)]);
  for (const Instance& known : instances_)
    if (known.source == source && known.coordinates == made.coordinates && known.valid == made.valid &&
        known.fill == made.fill)
      return known.value;
  count(source, place);
  Place inner = place;
  Value v{.monoid = w.monoid, .body = w.body};
  for (const int a : w.reduced) {
    const Expression& extent = producer_.extents()[static_cast<size_t>(a)];
    const int fresh = static_cast<int>(target_.extents.size());
    target_.extents.push_back(extent);
    inner.coordinates[static_cast<size_t>(a)] = Expression::index(fresh, extent);
    v.reduced.push_back(fresh);
  }
  AxisSet axes = 0;
  for (const Operand& o : w.operands) {
    v.operands.push_back(moved(o, inner));
    axes |= axes_of(v.operands.back(), target_.values);
  }
  v.axes = list_of(axes & ~axes_of(v.reduced));
  made.value = static_cast<int>(target_.values.size());
  target_.values.push_back(std::move(v));
  instances_.push_back(std::move(made));
  return instances_.back().value;
}

/// The bits of a producer value where all its loads give `fill`, if they are the same everywhere.
std::optional<uint64_t> Inliner::constant_under(int source, const Number& fill) const {
  const Value& v = producer_value(source);
  ScalarBuilder b;
  std::vector<Scalar> inputs;
  for (const Operand& o : v.operands) {
    if (o.kind == Kind::Index) return std::nullopt;
    if (o.kind == Kind::Load) {
      inputs.push_back(number_constant(b, o.dtype, fill));
    } else if (const auto bits = constant_under(o.value, fill)) {
      inputs.push_back(b.constant_bits(o.dtype, *bits));
    } else {
      return std::nullopt;
    }
  }
  const Scalar root = b.inline_function(v.body, inputs)[0];
  if (!b.is_constant(root)) return std::nullopt;
  const uint64_t bits = b[root].payload;
  if (!v.monoid) return bits;
  if (bits == neutral_bits(*v.monoid, v.dtype())) return bits;
  const bool some = std::ranges::all_of(
      v.reduced, [&](int a) { return producer_.extents()[static_cast<size_t>(a)].range().min >= 1; });
  return some && info(*v.monoid).selects ? std::optional(bits) : std::nullopt;
}

/// Whether loads masked with `candidate` make the result exactly `fill`.
bool Inliner::absorbs(const Number& fill, const Number& candidate) const {
  const auto bits = constant_under(result(), candidate);
  if (!bits) return false;
  ScalarBuilder b;
  const Dtype dtype = producer_.result().dtype();
  return b.constant_bits(dtype, *bits) == number_constant(b, dtype, fill);
}

namespace {

double volume(AxisSet axes, std::span<const Expression> extents) {
  double product = 1;
  for_each_axis(axes, [&](int a) { product *= typical_size(extents[static_cast<size_t>(a)]); });
  return product;
}

}  // namespace

void Inliner::count(int source, const Place& place) {
  AxisSet used = 0;
  for (const int a : producer_value(source).axes) used |= axes_of(place.coordinates[static_cast<size_t>(a)]);
  counts_[static_cast<size_t>(source)] += volume(used, target_.extents);
}

double Inliner::evaluations() const {
  constexpr int kFewOperations = 4;  // recomputing these costs less than the traffic they save
  double most = 0;
  for (size_t k = 0; k < counts_.size(); ++k) {
    const Value& v = producer_.values()[k];
    if (!v.monoid && v.body.cost().weight() <= kFewOperations) continue;
    const double own = volume(axes_of(v.axes), producer_.extents());
    if (own > 0) most = std::max(most, counts_[k] / own);
  }
  return most;
}

}  // namespace luminal::kernel
