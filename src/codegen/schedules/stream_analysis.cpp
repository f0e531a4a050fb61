#include <algorithm>

#include "codegen/schedules/stream.h"
#include "codegen/schedules/task_grid.h"
#include "kernel/axes.h"
#include "kernel/calls.h"
#include "kernel/copies.h"

// Which specs are streams.
namespace luminal::codegen::stream {
namespace {

using kernel::AxisSet;
using kernel::KernelSpec;
using kernel::Operand;
using kernel::Value;

ScalarFunction one(Dtype dtype) {
  ScalarBuilder b;
  return b.finish(b.constant(dtype, 1));
}

/// The two factors of a body, of which one has none of some axes. Products inside of a factor stay as they are: formed
/// in another order they might overflow.
struct Sides {
  ScalarFunction without, with;  ///< 1 where the whole body is the other side
  AxisSet axes_with = 0;
};

/// None where both operands of the product have such axes.
std::optional<Sides> sides_of(const ScalarFunction& f, const std::vector<AxisSet>& axes, AxisSet some) {
  const Scalar root = f.outputs()[0];
  const auto has_some = [&](Scalar s) { return (axes[s.index] & some) != 0; };
  if (!has_some(root)) return Sides{.without = kernel::part_of(f, root), .with = one(f[root].dtype)};
  const ScalarNode& node = f[root];
  const bool is_product = node.op == ScalarOp::Mul && !kernel::call_at(f, root);
  for (const size_t side : {0, 1})
    if (is_product && !has_some(node.operands[side]))
      return Sides{.without = kernel::part_of(f, node.operands[side]),
                   .with = kernel::part_of(f, node.operands[1 - side]),
                   .axes_with = axes[node.operands[1 - side].index]};
  if (is_product) return std::nullopt;
  return Sides{.without = one(node.dtype), .with = kernel::part_of(f, root), .axes_with = axes[root.index]};
}

class Analysis {
 public:
  Analysis(const KernelSpec& spec, Lanes lanes)
      : spec_(spec), lanes_(lanes), parallel_(kernel::axes_of(spec.parallel_axes())) {}

  std::optional<Stream> run() {
    if (!find_streamed()) return std::nullopt;
    for (int v = 0; v < static_cast<int>(spec_.values().size()); ++v)
      if (!(value(v).monoid ? add(v) : is_behind(v))) return std::nullopt;
    if (!add_columns() || !worthwhile() || !sort_axes() || !writes_rows()) return std::nullopt;
    std::ranges::stable_partition(s_.folds, [](const Fold& f) { return !f.online; });
    return std::move(s_);
  }

 private:
  [[nodiscard]] const Value& value(int v) const { return spec_.values()[static_cast<size_t>(v)]; }
  [[nodiscard]] bool is_streamed(const Value& v) const { return (kernel::axes_of(v.axes) & streamed_) != 0; }
  [[nodiscard]] bool is_outer(const Value& v) const {
    return v.monoid && (kernel::axes_of(v.axes) & ~parallel_) == 0;
  }

  /// The axes that all values at parallel coordinates fold over, and the dtype they do it in.
  bool find_streamed() {
    for (const Value& v : spec_.values()) {
      if (!v.monoid) continue;
      if (v.dtype() != Dtype::F32 && v.dtype() != Dtype::F64) return false;
      if (s_.streamed.empty() && is_outer(v)) {
        s_.streamed = v.reduced;
        s_.dtype = v.dtype();
      }
    }
    streamed_ = kernel::axes_of(s_.streamed);
    const auto same = [&](const Value& v) { return !v.monoid || v.dtype() == s_.dtype; };
    return !s_.streamed.empty() && (streamed_ & parallel_) == 0 && std::ranges::all_of(spec_.values(), same);
  }

  /// An elementwise value at parallel coordinates: it is computed when all folds are done.
  [[nodiscard]] bool is_behind(int v) const { return !is_streamed(value(v)); }

  bool add(int v) {
    const Value& each = value(v);
    if (is_streamed(each)) return add_inner(v);
    if (!is_outer(each) || each.reduced != s_.streamed) return false;
    outer_.push_back(v);
    return true;
  }

  bool add_inner(int v) {
    const Value& each = value(v);
    const AxisSet summed = kernel::axes_of(each.reduced);
    const auto is_value = [](const Operand& o) { return o.kind == Operand::Kind::Value; };
    if (each.monoid != Monoid::Add || (summed & (streamed_ | parallel_)) != 0 ||
        (kernel::axes_of(each.axes) & ~(streamed_ | parallel_)) != 0 ||
        std::ranges::any_of(each.operands, is_value))
      return false;
    const std::vector<AxisSet> axes = kernel::node_axes(each, spec_.values());
    std::optional<Sides> sides = sides_of(each.body, axes, streamed_);
    if (!sides) return false;
    const auto is_summed = [&](const ScalarNode& n) {
      return n.op == ScalarOp::Input &&
             (kernel::axes_of(each.operands[n.payload], spec_.values()) & summed) != 0;
    };
    if (std::ranges::none_of(sides->without.nodes(), is_summed)) return false;
    s_.inner.push_back({.value = v,
                        .summed = each.reduced,
                        .packed = std::move(sides->without),
                        .read = std::move(sides->with)});
    rows_ |= kernel::axes_of(each.axes) & parallel_;
    shared_ |= sides->axes_with & parallel_;
    return true;
  }

  /// How a fold follows a maximum that is not known while it streams; empty if it reads other folds too.
  struct Following {
    bool possible = true;
    std::optional<kernel::Online> online;
  };
  [[nodiscard]] Following following(int v) const {
    Following f;
    if (value(v).online) f.online = kernel::online_of(spec_.values(), v);
    for (const Operand& o : value(v).operands) {
      if (o.kind != Operand::Kind::Value || is_streamed(value(o.value))) continue;
      if (!f.online || f.online->maximum != o.value) f.possible = false;
    }
    return f;
  }

  /// Folds at rows alone, and those with columns: axes that no weight depends on.
  bool add_columns() {
    if (rows_ == 0)
      for (const int v : outer_) rows_ |= rows_of_maxima(v);
    for (const int v : outer_) {
      const Following f = following(v);
      if (!f.possible) return false;
      const AxisSet own = kernel::axes_of(value(v).axes) & ~rows_;
      if (own == 0) {
        s_.folds.push_back({v, f.online, f.online ? f.online->terms : value(v).body});
      } else if (!add_columns(v, own, f)) {
        return false;
      }
    }
    return true;
  }
  [[nodiscard]] AxisSet rows_of_maxima(int v) const {
    const Following f = following(v);
    return f.online ? kernel::axes_of(value(f.online->maximum).axes) : 0;
  }

  /// The axes that nodes of a sum's terms depend on; what is maximised has no columns.
  [[nodiscard]] std::vector<AxisSet> axes_of_nodes(const ScalarFunction& terms, const Value& v) const {
    std::vector<AxisSet> axes;
    for (const ScalarNode& n : terms.nodes()) {
      AxisSet set = 0;
      if (n.op == ScalarOp::Input)
        set = n.payload < v.operands.size() ? kernel::axes_of(v.operands[n.payload], spec_.values())
                                            : rows_ | streamed_;
      for (int k = 0; k < arity(n.op); ++k) set |= axes[n.operands[static_cast<size_t>(k)].index];
      axes.push_back(set);
    }
    return axes;
  }

  bool add_columns(int v, AxisSet own, const Following& f) {
    const Value& each = value(v);
    if (each.monoid != Monoid::Add) return false;
    const ScalarFunction& terms = f.online ? f.online->terms : each.body;
    const std::vector<AxisSet> axes = axes_of_nodes(terms, each);
    std::optional<Sides> sides = sides_of(terms, axes, own);
    if (!sides) return false;
    Columns c{.value = v,
              .online = f.online,
              .axes = kernel::list_of(own),
              .weight = std::move(sides->without),
              .read = std::move(sides->with)};
    for (const ScalarNode& n : c.read.nodes())
      if (n.op == ScalarOp::Input &&
          (n.payload >= each.operands.size() || each.operands[n.payload].kind == Operand::Kind::Value))
        return false;
    s_.columns.push_back(std::move(c));
    columns_ |= own;
    shared_ |= sides->axes_with & parallel_ & ~own;
    return true;
  }

  /// Without products inside or weights that follow a maximum, `reduce` and `contract` do as well.
  [[nodiscard]] bool worthwhile() const {
    const auto follows = [](const Columns& c) { return c.online.has_value(); };
    return !s_.inner.empty() || std::ranges::any_of(s_.columns, follows);
  }

  bool sort_axes() {
    if (rows_ == 0 || (rows_ & columns_) != 0 || (parallel_ & ~(rows_ | columns_)) != 0) return false;
    AxisSet lanes = rows_ & ~shared_;
    std::vector<int> order = memory_order(spec_, kernel::list_of(rows_), spec_.outputs()[0].index);
    std::erase_if(order, [&](int a) { return (rows_ & kernel::axis_bit(a)) == 0; });
    if (lanes == 0 && lanes_ == Lanes::Rows)
      lanes = kernel::axis_bit(order.back());  // a single query: heads side by side
    for (const int a : order) ((lanes & kernel::axis_bit(a)) != 0 ? s_.rows : s_.batch).push_back(a);
    const auto varies = [&](int v, const ScalarFunction& f) {
      return std::ranges::any_of(f.nodes(), [&](const ScalarNode& n) {
        return n.op == ScalarOp::Input &&
               (kernel::axes_of(value(v).operands[n.payload], spec_.values()) & lanes) != 0;
      });
    };
    for (Inner& i : s_.inner) i.read_varies = varies(i.value, i.read);
    for (Columns& c : s_.columns) c.read_varies = varies(c.value, c.read);
    return true;
  }

  [[nodiscard]] bool writes_rows() const {
    return std::ranges::all_of(spec_.outputs(), [&](const kernel::Output& o) {
      return (rows_ & ~kernel::axes_of(value(o.value).axes)) == 0;
    });
  }

  const KernelSpec& spec_;
  Lanes lanes_;
  AxisSet parallel_, streamed_ = 0, rows_ = 0, columns_ = 0;
  AxisSet shared_ = 0;  ///< parallel axes of what is read in the stream
  std::vector<int> outer_;
  Stream s_;
};

}  // namespace

std::optional<Stream> stream_of(const KernelSpec& spec, Lanes lanes) { return Analysis(spec, lanes).run(); }

}  // namespace luminal::codegen::stream
