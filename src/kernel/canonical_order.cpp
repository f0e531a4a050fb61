#include <algorithm>
#include <array>

#include "base/hash.h"
#include "kernel/canonical_steps.h"
#include "symbolic/node.h"
#include "symbolic/polynomial.h"

/// Numbers by content. Every axis and slot has a colour, a hash of all that is known of it apart from its
/// number; colours of reduced axes and slots are refined by how they are used until they differ or nothing
/// changes (colour refinement as for graph isomorphism, Weisfeiler & Leman 1968). What stays equal plays the
/// same part.
namespace luminal::kernel {
namespace {

/// Where an operand of a commutative operation stands: values before loads before coordinates before
/// constants, loads of more axes first, of outer axes first, then by hash.
struct Key {
  uint32_t rank = 0;
  uint64_t outer = 0;  ///< parallel axes, the outermost in the highest bit
  uint64_t hash = 0;
  uint32_t tie = ~0U;

  [[nodiscard]] bool before(const Key& o) const {
    if (rank != o.rank) return rank > o.rank;
    if (outer != o.outer) return outer > o.outer;
    return hash != o.hash ? hash < o.hash : tie < o.tie;
  }
};

/// Lists that numbering needs for a while: what they hold is of no use later, their memory is.
struct NumberingLists {
  std::vector<char> used_values, used_slots;
  std::vector<int> number, place, order;
  std::vector<uint64_t> axis_colour, slot_colour, value_hash;
  std::vector<std::vector<Key>> keys;
  std::vector<Key> operand_keys;
  std::vector<ScalarNode> nodes;

  static NumberingLists& of_thread() {
    static thread_local NumberingLists lists;
    return lists;
  }
};

class Numbering {
 public:
  Numbering(SpecParts parts, std::span<const uint32_t> arguments)
      : p_(std::move(parts)), arguments_(arguments) {}

  Canonical run() {
    mark_used();
    number_parallel_axes();
    colour();
    place_.assign(p_.values.size(), -1);
    order_.clear();
    for (const Output& o : p_.outputs) visit(static_cast<size_t>(o.value));
    number_reduced_axes();
    return finish();
  }

 private:
  /// What no output needs must not weigh in.
  void mark_used() {
    used_values_.assign(p_.values.size(), false);
    used_slots_.assign(p_.slots.size(), false);
    for (const Output& o : p_.outputs) used_values_[static_cast<size_t>(o.value)] = true;
    for (size_t k = p_.values.size(); k-- > 0;) {
      if (!used_values_[k]) continue;
      used_axes_ |= all_axes(p_.values[k]);
      for (const Operand& o : p_.values[k].operands) {
        if (o.kind == Operand::Kind::Value) used_values_[static_cast<size_t>(o.value)] = true;
        if (o.kind == Operand::Kind::Load) used_slots_[static_cast<size_t>(o.slot)] = true;
      }
    }
  }

  // --- Axes that outputs fix

  void number_parallel_axes() {
    number_.assign(p_.extents.size(), -1);
    for (const Output& o : p_.outputs) {
      auto order = dense_order(o.index, p_.extents);
      std::ranges::reverse(order);
      for (const DenseAxis& a : order) take(a.axis);
      for_each_axis(axes_of(p_.values[static_cast<size_t>(o.value)].axes), [&](int a) { take(a); });
    }
    parallel_count_ = count_;
  }
  void take(int axis) {
    int& n = number_[static_cast<size_t>(axis)];
    if (n < 0) n = count_++;
  }
  [[nodiscard]] bool is_parallel(int axis) const {
    const int n = number_[static_cast<size_t>(axis)];
    return n >= 0 && n < parallel_count_;
  }

  // --- Colours

  void colour() {
    axis_colour_.resize(p_.extents.size());
    for (size_t a = 0; a < p_.extents.size(); ++a)
      axis_colour_[a] = is_parallel(static_cast<int>(a)) ? combine(1, static_cast<uint64_t>(number_[a]))
                                                         : combine(2, p_.extents[a].hash());
    slot_colour_.resize(p_.slots.size());
    for (size_t s = 0; s < p_.slots.size(); ++s)
      slot_colour_[s] = combine(static_cast<uint64_t>(p_.slots[s].dtype), p_.slots[s].elements.hash());
    hash_values();
    constexpr int kRounds = 3;
    for (int round = 0; round < kRounds && has_ties(); ++round) {
      refine();
      hash_values();
    }
  }

  [[nodiscard]] bool has_ties() const {
    const auto repeated = [](std::vector<uint64_t>& colours) {
      std::ranges::sort(colours);
      return std::ranges::adjacent_find(colours) != colours.end();
    };
    std::vector<uint64_t> slots, reduced;
    for (size_t s = 0; s < slot_colour_.size(); ++s)
      if (used_slots_[s]) slots.push_back(slot_colour_[s]);
    for_each_axis(used_axes_, [&](int a) {
      if (!is_parallel(a)) reduced.push_back(axis_colour_[static_cast<size_t>(a)]);
    });
    return repeated(slots) || repeated(reduced);
  }

  /// Of a formula with axes known by colour; free of their numbers.
  [[nodiscard]] uint64_t hash_of(const Expression& e) const {
    const symbolic::Node& n = e.node();
    if (!n.uses_index) return n.hash;
    if (n.kind == symbolic::Kind::Index) return axis_colour_[static_cast<size_t>(n.value)];
    uint64_t h = combine(static_cast<uint64_t>(n.kind), static_cast<uint64_t>(n.value));
    if (n.kind == symbolic::Kind::FloorDiv || n.kind == symbolic::Kind::Mod)
      return combine(combine(h, hash_of(n.args[0])), hash_of(n.args[1]));
    for (const Expression& a : n.args) h += mix(hash_of(a));
    for (const symbolic::Term& t : n.terms)
      h += combine(static_cast<uint64_t>(t.coefficient), hash_of(t.monomial));
    return mix(h);
  }

  [[nodiscard]] uint64_t hash_of(const Operand& o) const {
    const auto kind = static_cast<uint64_t>(o.kind) << 8 | static_cast<uint64_t>(o.dtype);
    if (o.kind == Operand::Kind::Value) return combine(kind, value_hash_[static_cast<size_t>(o.value)]);
    uint64_t h = combine(kind, hash_of(o.index));
    if (o.kind == Operand::Kind::Load) h = combine(h, slot_colour_[static_cast<size_t>(o.slot)]);
    for (const Mask& m : o.masks) h = combine(combine(h, hash_of(m.predicate)), m.fill.hash());
    return h;
  }

  [[nodiscard]] uint64_t outer_axes(AxisSet axes) const {
    uint64_t outer = 0;
    for_each_axis(axes, [&](int a) {
      if (is_parallel(a)) outer |= uint64_t{1} << (63 - number_[static_cast<size_t>(a)]);
    });
    return outer;
  }

  [[nodiscard]] Key key_of(const Operand& o) const {
    const AxisSet axes = axes_of(o, p_.values);
    const auto count = static_cast<uint32_t>(axis_count(axes));
    const uint32_t kind = o.kind == Operand::Kind::Value ? 3 : o.kind == Operand::Kind::Load ? 2 : 1;
    Key key{.rank = 4 * count + kind, .outer = outer_axes(axes), .hash = hash_of(o)};
    if (o.kind == Operand::Kind::Load && !arguments_.empty())
      key.tie = arguments_[static_cast<size_t>(o.slot)];
    return key;
  }

  void hash_values() {
    value_hash_.assign(p_.values.size(), 0);
    if (keys_.size() < p_.values.size()) keys_.resize(p_.values.size());
    for (size_t k = 0; k < p_.values.size(); ++k) {
      if (!used_values_[k]) continue;
      const Value& v = p_.values[k];
      find_keys(v, keys_[k]);
      uint64_t h = combine(v.monoid ? 1 + static_cast<uint64_t>(*v.monoid) : 0,
                           keys_[k][v.body.outputs()[0].index].hash);
      uint64_t reduced = 0;
      for (const int a : v.reduced) reduced += mix(axis_colour_[static_cast<size_t>(a)]);
      value_hash_[k] = combine(h, reduced);
    }
  }

  /// Of each node of a body.
  void find_keys(const Value& v, std::vector<Key>& keys) {
    std::vector<Key>& operands = operand_keys_;
    operands.clear();
    for (const Operand& o : v.operands) operands.push_back(key_of(o));
    keys.assign(v.body.nodes().size(), {});
    for (size_t i = 0; i < keys.size(); ++i) {
      const ScalarNode& n = v.body.nodes()[i];
      if (n.op == ScalarOp::Input) {
        keys[i] = operands[n.payload];
        continue;
      }
      Key key{.hash = combine(static_cast<uint64_t>(n.op) << 8 | static_cast<uint64_t>(n.dtype), n.payload)};
      const int count = arity(n.op), swappable = is_commutative(n.op) ? 2 : 0;
      uint64_t unordered = 0;
      for (int k = 0; k < count; ++k) {
        const Key& o = keys[n.operands[static_cast<size_t>(k)].index];
        if (k < swappable)
          unordered += mix(o.hash);
        else
          key.hash = combine(key.hash, o.hash);
        if (o.rank > key.rank || (o.rank == key.rank && o.outer > key.outer)) {
          key.rank = o.rank;
          key.outer = o.outer;
        }
        key.tie = std::min(key.tie, o.tie);
      }
      if (swappable != 0) key.hash = combine(key.hash, unordered);
      keys[i] = key;
    }
  }

  /// Colours of slots and reduced axes take in where in which bodies they are read.
  void refine() {
    std::vector<uint64_t> value_context(p_.values.size(), 0);
    std::vector<uint64_t> slots(slot_colour_.size(), 0), axes(axis_colour_.size(), 0);
    for (size_t k = 0; k < p_.outputs.size(); ++k)
      value_context[static_cast<size_t>(p_.outputs[k].value)] += combine(3, k);
    for (size_t k = p_.values.size(); k-- > 0;) {
      if (!used_values_[k]) continue;
      const Value& v = p_.values[k];
      const std::vector<uint64_t> context = operand_contexts(k, combine(value_context[k], value_hash_[k]));
      for (size_t j = 0; j < v.operands.size(); ++j) {
        const Operand& o = v.operands[j];
        if (o.kind == Operand::Kind::Value) {
          value_context[static_cast<size_t>(o.value)] += mix(context[j]);
          continue;
        }
        if (o.kind == Operand::Kind::Load)
          slots[static_cast<size_t>(o.slot)] += combine(context[j], hash_of(o));
        for_each_axis(axes_of(o, p_.values), [&](int a) {
          if (is_parallel(a)) return;
          const uint64_t plain = axis_colour_[static_cast<size_t>(a)];
          axis_colour_[static_cast<size_t>(a)] = combine(plain, 4);  // this one against the others
          axes[static_cast<size_t>(a)] += combine(context[j], hash_of(o));
          axis_colour_[static_cast<size_t>(a)] = plain;
        });
      }
    }
    for (size_t s = 0; s < slots.size(); ++s) slot_colour_[s] = combine(slot_colour_[s], slots[s]);
    for (size_t a = 0; a < axes.size(); ++a)
      if (!is_parallel(static_cast<int>(a))) axis_colour_[a] = combine(axis_colour_[a], axes[a]);
  }

  /// For each operand a hash of the ways from it up to the root of its value's body.
  [[nodiscard]] std::vector<uint64_t> operand_contexts(size_t value, uint64_t root) const {
    const Value& v = p_.values[value];
    const auto nodes = v.body.nodes();
    std::vector<uint64_t> above(nodes.size(), 0), result(v.operands.size(), 0);
    above[v.body.outputs()[0].index] = root;
    for (size_t i = nodes.size(); i-- > 0;) {
      const ScalarNode& n = nodes[i];
      if (n.op == ScalarOp::Input) {
        result[n.payload] += mix(above[i]);
        continue;
      }
      const uint64_t here = combine(above[i], keys_[value][i].hash);
      for (int k = 0; k < arity(n.op); ++k) {
        const bool swappable = is_commutative(n.op) && k < 2;
        above[n.operands[static_cast<size_t>(k)].index] +=
            combine(here, swappable ? 0 : static_cast<uint64_t>(k));
      }
    }
    return result;
  }

  // --- Order of values, operands and slots

  void visit(size_t k) {
    if (place_[k] >= 0) return;
    Value& v = p_.values[k];
    order_body(v, keys_[k]);
    for (const Operand& o : v.operands)
      if (o.kind == Operand::Kind::Value) visit(static_cast<size_t>(o.value));
    place_[k] = static_cast<int>(order_.size());
    order_.push_back(static_cast<int>(k));
  }

  /// Operands of commutative operations in the order of their keys, constants last; nodes and inputs numbered
  /// depth first from the root.
  void order_body(Value& v, const std::vector<Key>& keys) {
    std::vector<ScalarNode>& nodes = lists_.nodes;
    nodes.assign(v.body.nodes().begin(), v.body.nodes().end());
    bool moved = false;
    for (ScalarNode& n : nodes) {
      if (!is_commutative(n.op)) continue;
      if (keys[n.operands[1].index].before(keys[n.operands[0].index])) {
        std::swap(n.operands[0], n.operands[1]);
        moved = true;
      }
    }
    int next_input = 0;
    for (const ScalarNode& n : nodes) {
      if (n.op != ScalarOp::Input) continue;
      moved |= n.payload != static_cast<uint64_t>(next_input);
      ++next_input;
    }
    if (!moved && next_input == static_cast<int>(v.operands.size())) return;
    renumber_body(v, nodes);
  }

  static void renumber_body(Value& v, const std::vector<ScalarNode>& nodes) {
    std::vector<uint32_t> number(nodes.size(), ~0U);
    std::vector<ScalarNode> order;
    order.reserve(nodes.size());
    std::vector<Operand> operands;
    std::vector<std::pair<uint32_t, int>> stack{{v.body.outputs()[0].index, 0}};
    while (!stack.empty()) {
      auto& [index, visited] = stack.back();
      const ScalarNode& n = nodes[index];
      if (visited < arity(n.op)) {
        const uint32_t next = n.operands[static_cast<size_t>(visited++)].index;
        if (number[next] == ~0U) stack.emplace_back(next, 0);
        continue;
      }
      if (number[index] == ~0U) {
        ScalarNode copy = n;
        for (int k = 0; k < arity(n.op); ++k)
          copy.operands[static_cast<size_t>(k)] = {number[n.operands[static_cast<size_t>(k)].index]};
        if (n.op == ScalarOp::Input) {
          copy.payload = operands.size();
          operands.push_back(std::move(v.operands[n.payload]));
        }
        number[index] = static_cast<uint32_t>(order.size());
        order.push_back(copy);
      }
      stack.pop_back();
    }
    const Scalar root{static_cast<uint32_t>(order.size()) - 1};
    v.body = ScalarFunction(ScalarFunction::Checked{}, std::move(order), {root});
    v.operands = std::move(operands);
  }

  void number_reduced_axes() {
    for (const int k : order_) {
      const Value& v = p_.values[static_cast<size_t>(k)];
      struct Entry {
        size_t operand;
        double stride;
        uint64_t colour;
        int axis;
      };
      std::vector<Entry> entries;
      for (const int a : v.reduced) {
        if (number_[static_cast<size_t>(a)] >= 0) continue;
        Entry e{.operand = v.operands.size(),
                .stride = 0,
                .colour = axis_colour_[static_cast<size_t>(a)],
                .axis = a};
        for (size_t j = v.operands.size(); j-- > 0;)
          if ((axes_of(v.operands[j], p_.values) & axis_bit(a)) != 0) e.operand = j;
        if (e.operand < v.operands.size()) e.stride = stride_of(v.operands[e.operand].index, a);
        entries.push_back(e);
      }
      std::ranges::sort(entries, [](const Entry& a, const Entry& b) {
        if (a.operand != b.operand) return a.operand < b.operand;
        return a.stride != b.stride ? a.stride > b.stride : a.colour < b.colour;
      });
      for (const Entry& e : entries) take(e.axis);
    }
  }

  /// How far one step along the axis goes, if the index is linear in it.
  [[nodiscard]] static double stride_of(const Expression& index, int axis) {
    double stride = 0;
    for (const symbolic::Term& t : symbolic::Terms(index)) {
      if ((axes_of(t.monomial) & axis_bit(axis)) == 0) continue;
      double size = static_cast<double>(t.coefficient);
      for (const Expression& f : symbolic::factors(t.monomial))
        if (!f.node().uses_index) size *= typical_size(f);
      stride += size;
    }
    return stride;
  }

  // --- The result

  Canonical finish() {
    SpecParts result;
    result.extents.resize(static_cast<size_t>(count_));
    std::vector<Expression> replacement(p_.extents.size());
    bool renamed = false;
    for (size_t a = 0; a < p_.extents.size(); ++a) {
      if (number_[a] < 0) continue;  // nothing that is left uses it
      result.extents[static_cast<size_t>(number_[a])] = p_.extents[a];
      replacement[a] = Expression::index(number_[a], p_.extents[a]);
      renamed |= number_[a] != static_cast<int>(a);
    }
    const auto rename = [&](std::vector<int>& axes) {
      for (int& a : axes) a = number_[static_cast<size_t>(a)];
      std::ranges::sort(axes);
    };
    Canonical canonical;
    std::vector<int> slot(p_.slots.size(), -1);
    for (const int k : order_) {
      Value v = std::move(p_.values[static_cast<size_t>(k)]);
      rename(v.axes);
      rename(v.reduced);
      for (Operand& o : v.operands) {
        if (o.kind == Operand::Kind::Value) o.value = place_[static_cast<size_t>(o.value)];
        if (o.kind != Operand::Kind::Load) continue;
        int& s = slot[static_cast<size_t>(o.slot)];
        if (s < 0) {
          s = static_cast<int>(result.slots.size());
          canonical.slots.push_back(o.slot);
          result.slots.push_back(p_.slots[static_cast<size_t>(o.slot)]);
        }
        o.slot = s;
      }
      result.values.push_back(std::move(v));
    }
    result.outputs = std::move(p_.outputs);
    for (Output& o : result.outputs) o.value = place_[static_cast<size_t>(o.value)];
    if (renamed) substitute_axes(result, replacement);
    canonical.spec = KernelSpec(std::move(result));
    return canonical;
  }

  SpecParts p_;
  std::span<const uint32_t> arguments_;
  NumberingLists& lists_ = NumberingLists::of_thread();
  std::vector<char>&used_values_ = lists_.used_values, &used_slots_ = lists_.used_slots;
  AxisSet used_axes_ = 0;
  std::vector<int>& number_ = lists_.number;  ///< of an axis in the result
  int count_ = 0, parallel_count_ = 0;
  std::vector<uint64_t>&axis_colour_ = lists_.axis_colour, &slot_colour_ = lists_.slot_colour,
  &value_hash_ = lists_.value_hash;
  std::vector<std::vector<Key>>& keys_ = lists_.keys;              ///< of a value's body nodes
  std::vector<Key>& operand_keys_ = lists_.operand_keys;           ///< of the value that is looked at
  std::vector<int>&place_ = lists_.place, &order_ = lists_.order;  ///< value -> position, and back
};

}  // namespace

Canonical number_parts(SpecParts parts, std::span<const uint32_t> arguments) {
  return Numbering(std::move(parts), arguments).run();
}

}  // namespace luminal::kernel
