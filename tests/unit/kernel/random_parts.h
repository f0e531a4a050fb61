#pragma once
#include <algorithm>
#include <random>
#include <vector>

#include "kernel/axes.h"

namespace luminal::kernel::test {

/// Random trees of values: elementwise, reduced, nested, several outputs over fewer axes than the result,
/// padded, strided and scattered loads, coordinates, extents of a named dim n (1..6). All integers, and
/// small, so that every order of folding gives the same bits.
class RandomParts {
 public:
  explicit RandomParts(uint64_t seed) : random_(seed) {}

  SpecParts parts() {
    const int parallel = 1 + pick(3), others = pick(3);
    for (int a = 0; a < parallel + others; ++a) parts_.extents.push_back(extent());
    const auto all = static_cast<uint64_t>((1 << (parallel + others)) - 1);
    const auto outer = static_cast<uint64_t>((1 << parallel) - 1);
    for (int v = pick(4); v > 0; --v) {
      const uint64_t free = random_() & all;
      value(free, random_() & all & ~free);
    }
    value(outer, pick(2) == 0 ? all & ~outer : 0);
    output();
    for (int v = pick(3); v > 0; --v) {
      const uint64_t free = pick(2) == 0 ? outer : random_() & outer;
      value(free, pick(2) == 0 ? 0 : all & ~free & random_());
      if (pick(2) == 0 || !used(static_cast<int>(parts_.values.size()) - 1)) output();
    }
    return parts_;
  }

 private:
  int pick(int below) { return static_cast<int>(random_() % static_cast<uint64_t>(below)); }
  Expression extent() {
    constexpr int64_t kSizes[] = {1, 2, 3, 5, 7, 8, 17, 20};
    const bool named = pick(5) == 0;
    const int64_t size = named ? 6 : kSizes[pick(volume_ > 100 ? 3 : 8)];
    volume_ *= size;
    return named ? Expression::dim("n", {.min = 1, .max = 6}) : Expression(size);
  }
  bool used(int v) const {
    for (const Value& reader : parts_.values)
      for (const Operand& o : reader.operands)
        if (o.kind == Operand::Kind::Value && o.value == v) return true;
    return false;
  }
  [[nodiscard]] Expression variable(int a) const {
    return Expression::index(a, parts_.extents[static_cast<size_t>(a)]);
  }

  Operand load(const std::vector<int>& axes) {
    Expression index = 0, elements = 1;
    for (const int a : axes) {
      const Expression i = variable(a), size = parts_.extents[static_cast<size_t>(a)];
      const int64_t c = 1 + pick(3);
      switch (pick(6)) {
        case 0:
          break;
        case 1:
          index += (i * 3 + 1) % 7 * c;
          elements += 7 * c;
          break;
        case 2:
          index += i / 2 * c;
          elements += size * c;
          break;
        case 3:  // as it would lie in a dense tensor
          index = index * size + i;
          elements = elements * size;
          break;
        case 4:
          index += (size - 1 - i) * c;
          elements += size * c;
          break;
        default:
          index += i * c;
          elements += size * c;
      }
    }
    Operand o{.kind = Operand::Kind::Load, .dtype = Dtype::I32, .index = index};
    if (!axes.empty() && pick(3) == 0) {
      const int a = axes[static_cast<size_t>(pick(static_cast<int>(axes.size())))];
      o.index = index - 2;
      o.masks.push_back({o.index.gte(0), pick(2) * 3});
      if (pick(2) == 0)
        o.masks.push_back({(variable(a) + 1).lt(parts_.extents[static_cast<size_t>(a)]), pick(3)});
    }
    o.slot = static_cast<int>(parts_.slots.size());
    parts_.slots.push_back({Dtype::I32, elements});
    return o;
  }

  void value(uint64_t free, uint64_t reduced) {
    Value v{.axes = list_of(free), .reduced = list_of(reduced)};
    const std::vector<int> all = list_of(free | reduced);
    if (reduced != 0) v.monoid = static_cast<Monoid>(pick(static_cast<int>(kMonoidInfos.size())));
    ScalarBuilder b;
    Scalar sum = b.constant(Dtype::I32, 1 + pick(3));
    const auto use = [&](Operand o) {
      Scalar x = b.input(static_cast<int>(v.operands.size()), o.dtype);
      x = b.convert(x, Dtype::I32);
      v.operands.push_back(std::move(o));
      switch (pick(4)) {
        case 0:
          sum = b.add(sum, x);
          break;
        case 1:
          sum = b.sub(b.mul(sum, x), x);
          break;
        case 2:
          sum = b.select(b.lt(sum, x), b.add(x, sum), b.neg(sum));
          break;
        default:
          sum = b.maximum(sum, b.mul(x, x));
      }
      sum = b.floor_mod(sum, b.constant(Dtype::I32, 11));
    };
    for (int k = 1 + pick(2); k > 0 && parts_.slots.size() < 8; --k) use(load(all));
    for (int u = static_cast<int>(parts_.values.size()) - 1; u >= 0; --u) {
      const Value& earlier = parts_.values[static_cast<size_t>(u)];
      const uint64_t axes = axes_of(earlier.axes);
      if ((axes & ~(free | reduced)) == 0 && pick(3) != 0)
        use({.kind = Operand::Kind::Value, .dtype = Dtype::I32, .value = u});
    }
    if (!all.empty() && pick(4) == 0)
      use({.kind = Operand::Kind::Index, .dtype = Dtype::I64, .index = variable(all[0]) * 2 - 3});
    if (v.operands.empty()) use(load(all));
    v.body = b.finish(sum);
    parts_.values.push_back(std::move(v));
  }

  void output() {
    const int v = static_cast<int>(parts_.values.size()) - 1;
    std::vector<int> order = parts_.values.back().axes;
    std::shuffle(order.begin(), order.end(), random_);
    Expression index = 0, elements = 1;
    for (const int a : order) {
      index = index * parts_.extents[static_cast<size_t>(a)] + variable(a);
      elements *= parts_.extents[static_cast<size_t>(a)];
    }
    parts_.outputs.push_back({v, index, elements});
  }

  std::mt19937_64 random_;
  int64_t volume_ = 1;  ///< of all axes: keeps the interpreters' work small
  SpecParts parts_;
};

}  // namespace luminal::kernel::test
