#include "codegen/schedules/ramp.h"

#include <algorithm>
#include <cmath>

#include "base/fail.h"
#include "kernel/axes.h"
#include "scalar/typing.h"
#include "symbolic/movement.h"
#include "symbolic/node.h"
#include "symbolic/polynomial.h"

namespace luminal::codegen {
namespace {

using kernel::Operand;

/// The factors of the group's axes in `index`, in their order; other axes count as constants. Empty if the
/// index is not a sum of such products.
std::optional<std::vector<Expression>> strides_along(const Expression& index, std::span<const int> axes) {
  const kernel::AxisSet group = kernel::axes_of(axes);
  std::vector<Expression> strides(axes.size(), 0);
  for (const symbolic::Term& t : symbolic::Terms(index)) {
    if ((kernel::axes_of(t.monomial) & group) == 0) continue;
    Expression stride = t.coefficient;
    size_t place = axes.size();
    for (const Expression& f : symbolic::factors(t.monomial)) {
      if ((kernel::axes_of(f) & group) == 0) {
        stride *= f;
      } else if (place < axes.size() || symbolic::kind_of(f) != symbolic::Kind::Index) {
        return std::nullopt;
      } else {
        place = static_cast<size_t>(std::ranges::find(axes, static_cast<int>(f.node().value)) - axes.begin());
      }
    }
    strides[place] += stride;
  }
  return strides;
}

/// Whether every part of the formula stays within 32 bits.
bool is_small(const Expression& e) {
  const symbolic::Node& n = e.node();
  const auto fits = [](const Range& r, int64_t factor) {
    const double most = std::max(std::abs(static_cast<double>(r.min)), std::abs(static_cast<double>(r.max)));
    return most * std::abs(static_cast<double>(factor)) < INT32_MAX;
  };
  return fits(n.range, 1) && std::ranges::all_of(n.args, is_small) &&
         std::ranges::all_of(n.terms, [&](const symbolic::Term& t) {
           return is_small(t.monomial) && fits(t.monomial.range(), t.coefficient);
         });
}

}  // namespace

void AxisGroup::place(const Expression& position, std::vector<Expression>& at) const {
  const std::vector<Expression> c = symbolic::unflatten(extents, position);
  for (size_t k = 0; k < axes.size(); ++k) at[static_cast<size_t>(axes[k])] = first[k] + c[k];
}

Expression AxisGroup::position(std::span<const Expression> at) const {
  Expression position = 0;
  for (size_t k = 0; k < axes.size(); ++k)
    position = position * extents[k] + at[static_cast<size_t>(axes[k])];
  return position;
}

AxisGroup group_of(std::span<const Expression> extents, std::vector<int> axes) {
  AxisGroup g;
  for (const int a : axes) g.extents.push_back(extents[static_cast<size_t>(a)]);
  g.first.assign(axes.size(), 0);
  g.axes = std::move(axes);
  return g;
}

AxisGroup part_of(const AxisGroup& g, size_t from, size_t to) {
  AxisGroup p;
  for (size_t k = from; k < to; ++k) {
    p.axes.push_back(g.axes[k]);
    p.extents.push_back(g.extents[k]);
    p.first.push_back(g.first[k]);
  }
  return p;
}

size_t even_axes(std::span<const Expression> formulas, const AxisGroup& group) {
  size_t inner = group.axes.size();
  for (const Expression& f : formulas)
    if (depends_on(f, group.axes))
      if (const auto even = evenly(f, group)) inner = std::min(inner, even->inner);
  return std::max<size_t>(inner, 1);
}

bool depends_on(const Expression& e, std::span<const int> axes) {
  return (kernel::axes_of(e) & kernel::axes_of(axes)) != 0;
}

std::optional<Evenly> evenly(const Expression& index, const AxisGroup& group) {
  const auto strides = strides_along(index, group.axes);
  if (!strides) return std::nullopt;
  if (group.axes.empty()) return Evenly{.stride = 0, .inner = 0, .size = 1};
  const size_t last = group.axes.size() - 1;
  const auto stride = (*strides)[last].constant();
  if (!stride) return std::nullopt;
  Evenly e{.stride = *stride, .inner = 1, .size = group.extents[last]};
  while (e.inner <= last && Expression::known_equal((*strides)[last - e.inner], e.size * e.stride)) {
    e.size *= group.extents[last - e.inner];
    ++e.inner;
  }
  return e;
}

std::optional<Repeated> repeated(const Expression& index, const AxisGroup& group, const Evenly& even,
                                 int lanes) {
  if (even.stride != 0 || even.inner == group.axes.size()) return std::nullopt;
  const auto times = even.size.constant();
  if (!times || *times < 2 || lanes % *times != 0) return std::nullopt;
  const AxisGroup outside = part_of(group, 0, group.axes.size() - even.inner);
  const auto over = evenly(index, outside);
  if (!over || (over->inner != outside.axes.size() && !(over->size % (lanes / *times) == Expression(0))))
    return std::nullopt;
  return Repeated{*times, *over, even.inner + over->inner};
}

struct Ramp::Access {
  enum class Kind : uint8_t { Uniform, Even, TwoParts, Repeated, Scattered } kind;
  int64_t stride = 0;
  Expression row = 1;  ///< positions that lie evenly
  size_t inner = 0;
  int64_t times = 1;  ///< positions that lie on one element
};

Ramp::Ramp(StageBuilder& b, const AxisGroup& group, Expression start, int lanes, const Expression& count)
    : b_(&b), group_(group), start_(std::move(start)), count_(count), lanes_(lanes) {
  if (!Expression::known_less_equal(start_ + lanes, count)) inside_ = b.lane_mask(count - start_, lanes);
  const auto small = [](const Expression& e) { return e.range().max < (1 << 21); };
  if (!std::ranges::all_of(group.extents, small) || !std::ranges::all_of(group.first, small))
    coordinate_type_ = Dtype::I64;
}

bool Ramp::depends_on_place(const Expression& e) const {
  return !assigned_.empty() && depends_on(e, assigned_);
}
bool Ramp::varies(const Expression& e) const {
  return (lanes_ > 1 && depends_on(e, group_.axes)) || depends_on_place(e);
}

void Ramp::assign(int axis, Id place, Id there) {
  if (lanes_ > 1) prepare_coordinates();
  coordinates_[axis] = place;
  assigned_.push_back(axis);
  inside_ = both(inside_, there);
}

Ramp::Access Ramp::access(const Expression& index) const {
  if (!varies(index)) return {Access::Kind::Uniform};
  if (depends_on_place(index)) return {Access::Kind::Scattered};
  const auto even = evenly(index, group_);
  if (!even) return {Access::Kind::Scattered};
  Access a{Access::Kind::Even, even->stride, even->size, even->inner};
  if (even->inner == group_.axes.size()) return a;
  const bool at_block = start_ % lanes_ == Expression(0);
  if (const auto r = repeated(index, group_, *even, lanes_); r && at_block)
    return {Access::Kind::Repeated, r->over.stride, r->over.size, r->inner, r->times};
  const bool aligned = unbroken_ || (at_block && even->size % lanes_ == Expression(0));
  if (!aligned) a.kind = even->size.range().min >= lanes_ ? Access::Kind::TwoParts : Access::Kind::Scattered;
  return a;
}

void Ramp::prepare(const Operand& operand) {
  if (operand.kind == Operand::Kind::Value) return;
  bool needed = operand.kind == Operand::Kind::Index && varies(operand.index);
  for (const kernel::Mask& m : operand.masks) needed = needed || varies(m.predicate);
  if (needed) prepare_coordinates();
  if (operand.kind == Operand::Kind::Load) prepare(operand.index);
}

void Ramp::prepare(const Expression& index) {
  if (access(index).kind == Access::Kind::Scattered) prepare_coordinates();
}

/// Coordinates of each lane. Lanes run on from the first one's; what passes an axis's end carries into the
/// next: a comparison where an axis is at least as long as the vector, otherwise a quotient, found in
/// floating point (exact: (v + 1/2) / extent is at least 1/(2 extent) away from an integer).
void Ramp::prepare_coordinates() {
  if (!coordinates_.empty()) return;
  const Type type{coordinate_type_, lanes_};
  const std::vector<Expression> start = symbolic::unflatten(group_.extents, start_);
  Id carry = b_->convert(b_->lanes(lanes_), type.dtype);
  for (size_t k = group_.axes.size(); k-- > 0;) {
    Id v = widen(b_->convert(b_->index(start[k]), type.dtype));
    if (carry != kNone) v = b_->compute(ScalarOp::Add, {v, carry});
    carry = k > 0 ? coordinate(k, v) : kNone;
    if (carry != kNone) {
      const Id extent = widen(b_->convert(b_->index(group_.extents[k]), type.dtype));
      v = b_->compute(ScalarOp::Sub, {v, b_->compute(ScalarOp::Mul, {carry, extent})});
    }
    if (!(group_.first[k] == Expression(0)))
      v = b_->compute(ScalarOp::Add, {v, widen(b_->convert(b_->index(group_.first[k]), type.dtype))});
    coordinates_[group_.axes[k]] = v;
  }
}

/// How often `position` has passed the end of the group's axis k.
Id Ramp::coordinate(size_t k, Id position) const {
  const Type type = b_->type(position);
  const Expression& extent = group_.extents[k];
  if (extent.range().min >= lanes_) {
    const Id end = widen(b_->convert(b_->index(extent), type.dtype));
    return b_->convert(b_->compute(ScalarOp::Le, {end, position}), type.dtype);
  }
  const Dtype real = type.dtype == Dtype::I32 ? Dtype::F32 : Dtype::F64;
  const Id middle =
      b_->compute(ScalarOp::Add, {b_->convert(position, real), b_->constant({real, lanes_}, 0.5)});
  const Id size = b_->convert(b_->index(extent), real);
  const Id reciprocal = b_->compute(ScalarOp::Div, {b_->constant({real, 1}, 1), size});
  return b_->convert(b_->compute(ScalarOp::Floor, {b_->compute(ScalarOp::Mul, {middle, widen(reciprocal)})}),
                     type.dtype);
}

Id Ramp::widen(Id id) const { return b_->type(id).lanes == lanes_ ? id : b_->broadcast(id, lanes_); }

Id Ramp::apply(ScalarOp op, Id a, Id b) const {
  if (b_->type(a).lanes != b_->type(b).lanes) a = widen(a), b = widen(b);
  return b_->compute(op, {a, b});
}

Id Ramp::both(Id a, Id b) const {
  if (a == kNone || b == kNone) return a == kNone ? b : a;
  return apply(ScalarOp::And, a, b);
}

/// A predicate lane by lane: Bool, a scalar if no lane differs.
Id Ramp::mask_of(const Expression& predicate, std::span<const Expression> at) const {
  using symbolic::Kind;
  const symbolic::Node& n = predicate.node();
  if (!varies(predicate)) {
    const Id value = b_->index(predicate.substitute_indices(at));
    return b_->compute(ScalarOp::Ne, {value, b_->constant({Dtype::I64, 1}, 0)});
  }
  const bool logical = std::ranges::all_of(n.args, symbolic::is_boolean);
  if (n.kind == Kind::Negative) {
    const Dtype type = is_small(n.args[0]) ? Dtype::I32 : Dtype::I64;
    return apply(ScalarOp::Lt, integers(n.args[0], at, type), b_->constant({type, 1}, 0));
  }
  if ((n.kind == Kind::And || n.kind == Kind::Product || n.kind == Kind::Or) && logical) {
    Id all = mask_of(n.args[0], at);
    for (size_t k = 1; k < n.args.size(); ++k)
      all = apply(n.kind == Kind::Or ? ScalarOp::Or : ScalarOp::And, all, mask_of(n.args[k], at));
    return all;
  }
  if (n.kind == Kind::Sum && n.value == 1 && n.terms.size() == 1 && n.terms[0].coefficient == -1 &&
      symbolic::is_boolean(n.terms[0].monomial))
    return b_->compute(ScalarOp::Not, {mask_of(n.terms[0].monomial, at)});
  const Dtype type = is_small(predicate) ? Dtype::I32 : Dtype::I64;
  return apply(ScalarOp::Ne, integers(predicate, at, type), b_->constant({type, 1}, 0));
}

/// An integer formula lane by lane; a scalar if no lane differs.
Id Ramp::integers(const Expression& e, std::span<const Expression> at, Dtype type) const {
  using symbolic::Kind;
  const symbolic::Node& n = e.node();
  if (!varies(e)) return b_->convert(b_->index(e.substitute_indices(at)), type);
  const auto fold = [&](ScalarOp op) {
    Id all = integers(n.args[0], at, type);
    for (size_t k = 1; k < n.args.size(); ++k) all = apply(op, all, integers(n.args[k], at, type));
    return all;
  };
  switch (n.kind) {
    case Kind::Index: {
      const auto known = coordinates_.find(static_cast<int>(n.value));
      LUMINAL_CHECK(known != coordinates_.end(), "lane coordinates of {} were not prepared", e.to_string());
      return b_->convert(known->second, type);
    }
    case Kind::FloorDiv:
      return fold(ScalarOp::FloorDiv);
    case Kind::Mod:
      return fold(ScalarOp::FloorMod);
    case Kind::Min:
      return fold(ScalarOp::Minimum);
    case Kind::Max:
      return fold(ScalarOp::Maximum);
    case Kind::Product:
      return fold(ScalarOp::Mul);
    case Kind::Negative:
      return b_->convert(mask_of(e, at), type);
    case Kind::And:
    case Kind::Or:
      // A conjunction may be 0 or 1 though a part of it is not: then it is bitwise.
      if (std::ranges::all_of(n.args, symbolic::is_boolean)) return b_->convert(mask_of(e, at), type);
      return fold(n.kind == Kind::And ? ScalarOp::And : ScalarOp::Or);
    case Kind::Sum:
      return sum_of(e, at, type);
    case Kind::Constant:
    case Kind::Dim:
    case Kind::Flat:
      break;  // do not vary
  }
  throw InternalError(fmt::format("[ramp] no way to compute '{}' lane by lane", e.to_string()));
}

/// The part that is the same in all lanes is one scalar.
Id Ramp::sum_of(const Expression& e, std::span<const Expression> at, Dtype type) const {
  const symbolic::Node& n = e.node();
  Expression same = n.value;
  Id total = kNone;
  for (const symbolic::Term& t : n.terms) {
    if (!varies(t.monomial)) {
      same += t.monomial * t.coefficient;
      continue;
    }
    Id term = integers(t.monomial, at, type);
    if (t.coefficient != 1)
      term =
          apply(ScalarOp::Mul, term,
                b_->constant_bits({type, 1}, type == Dtype::I32
                                                 ? static_cast<uint32_t>(static_cast<int32_t>(t.coefficient))
                                                 : static_cast<uint64_t>(t.coefficient)));
    total = total == kNone ? term : apply(ScalarOp::Add, total, term);
  }
  if (same == Expression(0)) return total;
  return apply(ScalarOp::Add, total, b_->convert(b_->index(same.substitute_indices(at)), type));
}

Expression Ramp::at_position(const Expression& index, const Expression& position,
                             std::span<const Expression> at) const {
  std::vector<Expression> c(at.begin(), at.end());
  group_.place(position, c);
  return index.substitute_indices(c);
}

void Ramp::prefetch(const Operand& o, const Expression& further, std::span<const Expression> at) const {
  b_->prefetch(o.slot, at_position(o.index, start_ + further, at));
}

/// Where lane 0 lies: elements are evenly spaced from where its row begins.
Expression Ramp::first_element(const Expression& index, const Access& a,
                               std::span<const Expression> at) const {
  const Expression element = start_ / a.times, positions = a.row * a.times;
  if (a.inner == group_.axes.size()) return at_position(index, 0, at) + element * a.stride;
  return at_position(index, start_ / positions * positions, at) + (element % a.row) * a.stride;
}

/// The lanes of a load without fills; a scalar where none differs.
Id Ramp::read(const Operand& o, Id mask, std::span<const Expression> at) const {
  StageBuilder& b = *b_;
  const Access a = access(o.index);
  switch (a.kind) {
    case Access::Kind::Uniform: {
      const Expression index = o.index.substitute_indices(at);
      // Lanes that are off may fulfil the mask where the element is not there.
      if (mask != kNone && b.type(mask).lanes > 1)
        return b.load(o.slot, index, lanes_, 0, both(mask, inside_));
      return b.load(o.slot, index, 1, 1, mask);
    }
    case Access::Kind::Even: {
      const Expression index = first_element(o.index, a, at);
      mask = both(mask, inside_);
      if (a.stride == 0 && mask == kNone) return b.load(o.slot, index);
      return b.load(o.slot, index, lanes_, a.stride, mask == kNone ? kNone : widen(mask));
    }
    case Access::Kind::TwoParts: {
      const Expression before = a.row - start_ % a.row;
      const Expression second = at_position(o.index, (start_ / a.row + 1) * a.row, at) - before * a.stride;
      const Id first = b.lane_mask(before, lanes_);
      const Id rest = b.compute(ScalarOp::Not, {first});
      mask = both(mask, inside_);
      const Id low = b.load(o.slot, first_element(o.index, a, at), lanes_, a.stride, both(first, mask));
      const Id high = b.load(o.slot, second, lanes_, a.stride, both(rest, mask));
      return b.compute(ScalarOp::Select, {first, low, high});
    }
    case Access::Kind::Repeated:
      if (mask == kNone || b.type(mask).lanes == 1) return read_repeated(o, a, mask, at);
      break;
    case Access::Kind::Scattered:
      break;
  }
  mask = both(mask, inside_);
  return b.gather(o.slot, widen(integers(o.index, at, Dtype::I64)), mask == kNone ? kNone : widen(mask));
}

/// As many elements as there are, then each of them `times` times.
Id Ramp::read_repeated(const Operand& o, const Access& a, Id mask, std::span<const Expression> at) const {
  const int lanes = lanes_ / static_cast<int>(a.times);
  const Expression index = first_element(o.index, a, at);
  if (lanes == 1) {
    if (inside_ != kNone)
      mask = both(mask, b_->compute(ScalarOp::Lt, {b_->index(start_), b_->index(count_)}));
    return b_->load(o.slot, index, 1, 1, mask);
  }
  if (mask != kNone) mask = b_->broadcast(mask, lanes);
  if (inside_ != kNone) mask = both(mask, b_->lane_mask((count_ - start_).ceil_div(a.times), lanes));
  const Id elements = b_->load(o.slot, index, lanes, a.stride, mask);
  std::vector<int> pattern;
  for (int k = 0; k < lanes_; ++k) pattern.push_back(k / static_cast<int>(a.times));
  return b_->shuffle(elements, elements, pattern);
}

/// Fills where masks do not hold: the first of them that does not decides.
Id Ramp::filled(const Operand& o, Id loaded, std::span<const Id> holds) const {
  Id value = loaded;
  for (size_t k = holds.size(); k-- > 0;) {
    const uint64_t bits = bits_of(o.dtype, o.masks[k].fill);
    const bool rest_zero =
        bits == 0 && std::all_of(o.masks.begin(), o.masks.end(),
                                 [&](const kernel::Mask& m) { return bits_of(o.dtype, m.fill) == 0; });
    if (rest_zero) return loaded;  // lanes without a mask hold 0 as they are
    const int lanes = std::max(b_->type(value).lanes, b_->type(holds[k]).lanes);
    const auto wide = [&](Id id) { return lanes == 1 ? id : widen(id); };
    value = b_->compute(ScalarOp::Select,
                        {wide(holds[k]), wide(value), b_->constant_bits({o.dtype, lanes}, bits)});
  }
  return value;
}

Id Ramp::load(const Operand& o, std::span<const Expression> at) const {
  if (o.kind == Operand::Kind::Index) return integers(o.index, at, Dtype::I64);
  LUMINAL_CHECK(o.kind == Operand::Kind::Load, "a value is not loaded");
  std::vector<Id> holds;
  Id mask = kNone;
  for (const kernel::Mask& m : o.masks) {
    holds.push_back(mask_of(m.predicate, at));
    mask = both(mask, holds.back());
  }
  return filled(o, read(o, mask, at), holds);
}

void Ramp::store(int buffer, const Expression& index, Id value, std::span<const Expression> at,
                 bool streaming) const {
  StageBuilder& b = *b_;
  if (lanes_ == 1) return b.store(buffer, index.substitute_indices(at), value, 1, inside_, streaming);
  value = widen(value);
  const Access a = access(index);
  LUMINAL_CHECK(a.kind != Access::Kind::Uniform && a.kind != Access::Kind::Repeated,
                "lanes stored to one place");
  if (a.kind == Access::Kind::Scattered)
    return b.scatter(buffer, value, widen(integers(index, at, Dtype::I64)), inside_);
  const Expression from = first_element(index, a, at);
  // A store of no lanes to where no memory is takes AMD's Zen 4 about 900 cycles: it is not even tried.
  const auto if_any = [&](const std::function<void()>& store) {
    if (inside_ == kNone) return store();
    b.if_true(b.compute(ScalarOp::Lt, {b.index(start_), b.index(count_)}), store);
  };
  const auto whole = [&] { b.store(buffer, from, value, a.stride, inside_, streaming); };
  if (a.kind == Access::Kind::Even) return if_any(whole);
  const Expression before = a.row - start_ % a.row, next = (start_ / a.row + 1) * a.row;
  const Id crosses = b.compute(ScalarOp::And, {b.compute(ScalarOp::Lt, {b.index(before), b.index(lanes_)}),
                                               b.compute(ScalarOp::Lt, {b.index(next), b.index(count_)})});
  b.if_true(b.compute(ScalarOp::Not, {crosses}), [&] { if_any(whole); });
  b.if_true(crosses, [&] {
    const Id first = b.lane_mask(before, lanes_);
    const Id rest = b.compute(ScalarOp::Not, {first});
    b.store(buffer, from, value, a.stride, both(first, inside_));
    b.store(buffer, at_position(index, next, at) - before * a.stride, value, a.stride, both(rest, inside_));
  });
}

Id Ramp::evaluate(const kernel::KernelSpec& spec, const ScalarFunction& body,
                  std::span<const Operand> operands, std::span<const Expression> at,
                  std::map<int, Id>& known) const {
  std::vector<Id> inputs(operands.size(), kNone);
  for (const ScalarNode& n : body.nodes()) {
    if (n.op != ScalarOp::Input) continue;
    const Operand& o = operands[n.payload];
    inputs[n.payload] = o.kind == Operand::Kind::Value ? value(spec, o.value, at, known) : load(o, at);
  }
  // Inputs that the body does not read still need a place in the list.
  const auto any = std::ranges::find_if(inputs, [](Id id) { return id != kNone; });
  if (any != inputs.end()) std::ranges::replace(inputs, kNone, *any);
  return b_->inline_function(body, inputs);
}

Id Ramp::value(const kernel::KernelSpec& spec, int v, std::span<const Expression> at,
               std::map<int, Id>& known) const {
  if (const auto at_hand = known.find(v); at_hand != known.end()) return at_hand->second;
  const kernel::Value& value = spec.values()[static_cast<size_t>(v)];
  LUMINAL_CHECK(!value.monoid, "value {} is reduced elsewhere", v);
  const Id id = evaluate(spec, value.body, value.operands, at, known);
  known[v] = id;
  return id;
}

}  // namespace luminal::codegen
