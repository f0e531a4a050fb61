#include "codegen/schedules/own_axes.h"

#include <algorithm>
#include <map>

#include "kernel/axes.h"

namespace luminal::codegen {
namespace {

using kernel::AxisSet;
using kernel::KernelSpec;
using kernel::Operand;
using kernel::Value;

/// Copies values; `renamed` are the output axes that stand for their second name at the place of use.
class Renamer {
 public:
  explicit Renamer(const KernelSpec& spec) : spec_(spec), parts_(spec.parts()) {
    outputs_ = kernel::axes_of(spec.parallel_axes());
    parts_.values.clear();
  }

  KernelSpec ramp() {
    for (kernel::Output& o : parts_.outputs) o.value = copy(o.value, 0);
    return KernelSpec(std::move(parts_));
  }

 private:
  int second_name(int axis) {
    const auto [at, fresh] = second_.try_emplace(axis, static_cast<int>(parts_.extents.size()));
    if (fresh) parts_.extents.push_back(Expression(parts_.extents[static_cast<size_t>(axis)]));
    return at->second;
  }
  std::vector<int> names(const std::vector<int>& axes, AxisSet renamed) {
    std::vector<int> result;
    for (const int a : axes) result.push_back((renamed & kernel::axis_bit(a)) != 0 ? second_name(a) : a);
    std::ranges::sort(result);
    return result;
  }
  Expression formula(const Expression& e, AxisSet renamed) {
    if ((kernel::axes_of(e) & renamed) == 0) return e;
    std::vector<Expression> values = kernel::axis_variables(parts_.extents);
    kernel::for_each_axis(renamed, [&](int a) {
      values[static_cast<size_t>(a)] =
          Expression::index(second_name(a), spec_.extents()[static_cast<size_t>(a)]);
    });
    return e.substitute_indices(values);
  }

  int copy(int number, AxisSet renamed) {
    const Value& v = spec_.values()[static_cast<size_t>(number)];
    renamed &= kernel::axes_of(v.axes);
    if (const auto at = known_.find({number, renamed}); at != known_.end()) return at->second;
    Value made = v;
    const AxisSet inside = renamed | (kernel::axes_of(v.reduced) & outputs_);
    made.axes = names(v.axes, renamed);
    made.reduced = names(v.reduced, inside);
    for (Operand& o : made.operands) {
      if (o.kind == Operand::Kind::Value) o.value = copy(o.value, inside);
      o.index = formula(o.index, inside);
      for (kernel::Mask& m : o.masks) m.predicate = formula(m.predicate, inside);
    }
    parts_.values.push_back(std::move(made));
    return known_[{number, renamed}] = static_cast<int>(parts_.values.size()) - 1;
  }

  const KernelSpec& spec_;
  kernel::SpecParts parts_;
  AxisSet outputs_ = 0;
  std::map<int, int> second_;
  std::map<std::pair<int, AxisSet>, int> known_;
};

}  // namespace

KernelSpec with_own_axes(const KernelSpec& spec) {
  const AxisSet outputs = kernel::axes_of(spec.parallel_axes());
  const auto owns = [&](const Value& v) { return (kernel::axes_of(v.reduced) & outputs) == 0; };
  return std::ranges::all_of(spec.values(), owns) ? spec : Renamer(spec).ramp();
}

}  // namespace luminal::codegen
