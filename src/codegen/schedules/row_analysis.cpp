#include <algorithm>
#include <set>

#include "codegen/schedules/row.h"
#include "kernel/copies.h"

// Which specs are rows, in how many passes, and what one pass may keep for the next.
namespace luminal::codegen {
namespace {

using kernel::KernelSpec;
using kernel::Operand;
using kernel::Value;

/// All bodies of a spec in one builder, so that equal parts are one node.
class Shared {
 public:
  explicit Shared(const KernelSpec& spec) : spec_(spec) {
    for (const Value& v : spec.values()) nodes_.push_back(add(v));
  }
  [[nodiscard]] Scalar root(int v) const {
    return nodes_[static_cast<size_t>(v)][spec_.values()[static_cast<size_t>(v)].body.outputs()[0].index];
  }
  /// The node of `v`'s body that is `part`, if there is one.
  [[nodiscard]] std::optional<Scalar> find(int v, Scalar part) const {
    const auto& mine = nodes_[static_cast<size_t>(v)];
    const auto at = std::ranges::find(mine, part);
    if (at == mine.end()) return {};
    return Scalar{static_cast<uint32_t>(at - mine.begin())};
  }

 private:
  std::vector<Scalar> add(const Value& v) {
    std::vector<Scalar> made;
    for (ScalarNode n : v.body.nodes()) {
      if (n.op == ScalarOp::Input) {
        made.push_back(builder_.input(number(v.operands[n.payload]), n.dtype));
        continue;
      }
      for (int k = 0; k < arity(n.op); ++k) {
        Scalar& operand = n.operands[static_cast<size_t>(k)];
        operand = made[operand.index];
      }
      made.push_back(n.op == ScalarOp::Constant ? builder_.constant_bits(n.dtype, n.payload)
                                                : builder_.make(n));
    }
    return made;
  }
  int number(const Operand& o) {
    const auto at = std::ranges::find(operands_, o);
    if (at != operands_.end()) return static_cast<int>(at - operands_.begin());
    operands_.push_back(o);
    return static_cast<int>(operands_.size()) - 1;
  }

  const KernelSpec& spec_;
  ScalarBuilder builder_;
  std::vector<Operand> operands_;
  std::vector<std::vector<Scalar>> nodes_;
};

/// The body with some nodes replaced by inputs number `first`, `first` + 1, ...
ScalarFunction with_inputs(const ScalarFunction& f, const std::vector<Scalar>& replaced, int first) {
  ScalarBuilder b;
  kernel::Copies copies(b, f);
  for (size_t i = 0; i < replaced.size(); ++i)
    copies.replace(replaced[i], b.input(first + static_cast<int>(i), f[replaced[i]].dtype));
  return b.finish(copies.of(f.outputs()[0]));
}

bool contains(const std::vector<int>& set, int x) { return std::ranges::find(set, x) != set.end(); }

}  // namespace

std::optional<Rows> rows_of(const KernelSpec& spec) {
  Rows r{.picks = picks_in(spec)};
  std::set<int> along;
  for (int v = 0; v < std::ssize(spec.values()); ++v)
    if (const Value& value = spec.values()[static_cast<size_t>(v)]; r.is_fold(spec, v))
      along.insert(value.reduced.begin(), value.reduced.end());
  if (along.empty()) return {};
  r.along.assign(along.begin(), along.end());
  std::set<int> elsewhere = along;
  for (const auto& [v, term] : r.picks) elsewhere.insert(term.axis);
  for (int a = 0; a < static_cast<int>(spec.extents().size()); ++a)
    if (!elsewhere.contains(a) && spec.extents()[static_cast<size_t>(a)] != Expression(1))
      r.parallel.push_back(a);
  for (const Value& v : spec.values()) {
    const auto within = std::ranges::count_if(v.axes, [&](int a) { return along.contains(a); });
    const bool whole = within == static_cast<std::ptrdiff_t>(along.size());
    const bool fold = r.is_fold(spec, static_cast<int>(r.level.size()));
    if ((within != 0 && !whole) || (fold && (within != 0 || v.reduced.size() != along.size()))) return {};
    int level = 0;
    for (const Operand& o : v.operands)
      if (o.kind == Operand::Kind::Value) level = std::max(level, r.level[static_cast<size_t>(o.value)]);
    if (fold) {
      r.passes.resize(std::max(r.passes.size(), static_cast<size_t>(level) + 1));
      r.passes[static_cast<size_t>(level)].push_back(static_cast<int>(r.level.size()));
      ++level;
    }
    r.level.push_back(level);
  }
  bool written_along = false;
  for (const kernel::Output& o : spec.outputs()) {
    const std::vector<int>& axes = spec.values()[static_cast<size_t>(o.value)].axes;
    for (const int a : r.parallel)
      if (!contains(axes, a)) return {};
    written_along = written_along || axes.size() > r.parallel.size();
  }
  if (r.passes.size() == 1 && !written_along && r.picks.empty()) return {};  // plain reductions
  return r;
}

KeptParts kept_parts(const KernelSpec& spec, const Rows& rows, int least_weight) {
  KeptParts k;
  const Shared shared(spec);
  const auto level_of_body = [&](int v) {
    return rows.level[static_cast<size_t>(v)] - (rows.is_fold(spec, v) ? 1 : 0);
  };
  std::map<int, std::vector<Scalar>> replaced;
  for (const auto& pass : rows.passes)
    for (const int part : pass) {
      if (spec.values()[static_cast<size_t>(part)].body.cost().weight() < least_weight) continue;
      bool used = false;
      for (int v = 0; v < static_cast<int>(spec.values().size()); ++v) {
        if (level_of_body(v) <= level_of_body(part) || rows.picks.contains(v)) continue;
        const auto node = shared.find(v, shared.root(part));
        if (!node) continue;
        if (!used) k.parts.push_back(part);
        used = true;
        replaced[v].push_back(*node);
        k.bodies[v].kept.push_back(static_cast<int>(k.parts.size()) - 1);
      }
    }
  for (auto& [v, body] : k.bodies) {
    const Value& value = spec.values()[static_cast<size_t>(v)];
    body.function = with_inputs(value.body, replaced[v], static_cast<int>(value.operands.size()));
  }
  return k;
}

KeptValues kept_values(const KernelSpec& spec, const Rows& rows, int least_weight) {
  KeptValues k{.readers = std::vector<std::set<size_t>>(spec.values().size())};
  const auto varies = [&](int v) {
    return contains(spec.values()[static_cast<size_t>(v)].axes, rows.along[0]);
  };
  const auto read = [&](const auto& self, int v, size_t pass) -> void {
    const Value& value = spec.values()[static_cast<size_t>(v)];
    if (!value.monoid && !k.readers[static_cast<size_t>(v)].insert(pass).second) return;
    for (const Operand& o : value.operands)
      if (o.kind == Operand::Kind::Value && varies(o.value)) self(self, o.value, pass);
  };
  for (size_t pass = 0; pass < rows.passes.size(); ++pass)
    for (const int v : rows.passes[pass]) read(read, v, pass);
  for (const kernel::Output& o : spec.outputs())
    if (varies(o.value)) read(read, o.value, rows.passes.size());
  for (int v = 0; v < static_cast<int>(spec.values().size()); ++v)
    if (varies(v) && k.readers[static_cast<size_t>(v)].size() > 1 &&
        spec.values()[static_cast<size_t>(v)].body.cost().weight() >= least_weight)
      k.values.push_back(v);
  return k;
}

}  // namespace luminal::codegen
