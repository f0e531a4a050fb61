#include <algorithm>
#include <optional>

#include "kernel/canonical_steps.h"

namespace luminal::kernel {
namespace {

using Renaming = std::vector<std::pair<int, int>>;  ///< from, to

class Sharing {
 public:
  explicit Sharing(SpecParts& parts) : parts_(parts) {}

  void run() {
    if (!worthwhile()) return;
    find_enclosing();
    while (share_one()) find_enclosing();
  }

 private:
  /// Something to share needs a reduction and an axis that is not all of its own value's.
  [[nodiscard]] bool worthwhile() {
    AxisSet all = 0, smallest = ~AxisSet{0};
    parallel_ = 0;
    for (const Output& o : parts_.outputs)
      parallel_ |= axes_of(parts_.values[static_cast<size_t>(o.value)].axes);
    for (const Value& v : parts_.values) {
      all |= all_axes(v);
      if (!v.reduced.empty()) smallest &= all_axes(v);
    }
    return smallest != ~AxisSet{0} && (all & ~smallest) != 0;
  }

  /// Axes of the loops that a value stands in without depending on them: its own reduced axes must differ
  /// from these.
  void find_enclosing() {
    enclosing_.assign(parts_.values.size(), 0);
    for (size_t k = parts_.values.size(); k-- > 0;) {
      const Value& v = parts_.values[k];
      for (const Operand& o : v.operands) {
        if (o.kind != Operand::Kind::Value) continue;
        const Value& w = parts_.values[static_cast<size_t>(o.value)];
        const bool nested =
            (axes_of(w.axes) & ~parallel_) != 0 || (axes_of(w.axes) & axes_of(v.reduced)) != 0;
        if (nested) enclosing_[static_cast<size_t>(o.value)] |= all_axes(v) | enclosing_[k];
      }
    }
  }

  [[nodiscard]] bool conflict(int a, int b) const {
    const AxisSet both = axis_bit(a) | axis_bit(b);
    for (size_t k = 0; k < parts_.values.size(); ++k) {
      const AxisSet own = all_axes(parts_.values[k]), reduced = axes_of(parts_.values[k].reduced);
      if ((own & both) == both) return true;
      if ((reduced & both) != 0 && ((own | enclosing_[k]) & both) == both) return true;
    }
    return false;
  }

  bool share_one() {
    for (const Value& v : parts_.values)
      for (const Operand& a : v.operands) {
        if (a.kind != Operand::Kind::Load) continue;
        for (const Value& w : parts_.values) {
          if (&w == &v) continue;
          for (const Operand& b : w.operands) {
            if (b.kind != Operand::Kind::Load || b.slot != a.slot || b.masks.size() != a.masks.size())
              continue;
            if (const auto renaming = match(a, b)) {
              apply(*renaming);
              return true;
            }
          }
        }
      }
    return false;
  }

  /// A renaming of axes that makes the loads equal.
  [[nodiscard]] std::optional<Renaming> match(const Operand& a, const Operand& b) const {
    const AxisSet of_a = axes_of(a, parts_.values), of_b = axes_of(b, parts_.values);
    const std::vector<int> from = list_of(of_a & ~of_b);
    std::vector<int> to = list_of(of_b & ~of_a);
    constexpr size_t kMost = 4;  // orders of more are not tried
    if (from.empty() || from.size() != to.size() || from.size() > kMost) return std::nullopt;
    do {
      Renaming renaming;
      bool fits = true;
      for (size_t k = 0; k < from.size() && fits; ++k) {
        const bool keep = (parallel_ & axis_bit(from[k])) != 0, free = (parallel_ & axis_bit(to[k])) != 0;
        fits = !(keep && free) &&
               parts_.extents[static_cast<size_t>(from[k])] == parts_.extents[static_cast<size_t>(to[k])] &&
               !conflict(from[k], to[k]);
        renaming.push_back(keep ? std::pair(to[k], from[k]) : std::pair(from[k], to[k]));
      }
      if (fits && equal_after(a, b, renaming)) return renaming;
    } while (std::ranges::next_permutation(to).found);
    return std::nullopt;
  }

  [[nodiscard]] std::vector<Expression> replacement(const Renaming& renaming) const {
    std::vector<Expression> result = axis_variables(parts_.extents);
    for (const auto& [from, to] : renaming)
      result[static_cast<size_t>(from)] = result[static_cast<size_t>(to)];
    return result;
  }

  [[nodiscard]] bool equal_after(const Operand& a, const Operand& b, const Renaming& renaming) const {
    const auto r = replacement(renaming);
    const auto same = [&r](const Expression& x, const Expression& y) {
      return x.substitute_indices(r) == y.substitute_indices(r);
    };
    if (!same(a.index, b.index)) return false;
    for (size_t k = 0; k < a.masks.size(); ++k)
      if (!(a.masks[k].fill == b.masks[k].fill) || !same(a.masks[k].predicate, b.masks[k].predicate))
        return false;
    return true;
  }

  void apply(const Renaming& renaming) {
    const auto r = replacement(renaming);
    substitute_axes(parts_, r);
    for (Value& v : parts_.values)
      for (std::vector<int>* axes : {&v.axes, &v.reduced}) {
        AxisSet set = axes_of(*axes);
        for (const auto& [from, to] : renaming)
          if ((set & axis_bit(from)) != 0) set = (set & ~axis_bit(from)) | axis_bit(to);
        *axes = list_of(set);
      }
  }

  SpecParts& parts_;
  AxisSet parallel_ = 0;
  std::vector<AxisSet> enclosing_;
};

/// Equal values become one; readers follow.
bool join_equal_values(SpecParts& parts) {
  bool joined = false;
  auto& values = parts.values;
  std::vector<int> place(values.size());
  for (size_t k = 0; k < values.size(); ++k) {
    place[k] = static_cast<int>(k);
    for (Operand& o : values[k].operands)
      if (o.kind == Operand::Kind::Value) o.value = place[static_cast<size_t>(o.value)];
    for (size_t j = 0; j < k; ++j)
      if (place[j] == static_cast<int>(j) && values[j] == values[k]) {
        place[k] = static_cast<int>(j);
        joined = true;
        break;
      }
  }
  for (Output& o : parts.outputs) o.value = place[static_cast<size_t>(o.value)];
  return joined;
}

}  // namespace

bool share_axes(SpecParts& parts) {
  if (parts.values.size() < 2) return false;
  for (Value& v : parts.values) {
    std::ranges::sort(v.axes);
    std::ranges::sort(v.reduced);
  }
  Sharing(parts).run();
  return join_equal_values(parts);
}

}  // namespace luminal::kernel
