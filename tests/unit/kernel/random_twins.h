#pragma once
#include <algorithm>
#include <random>
#include <vector>

#include "kernel/axes.h"
#include "luminal/tensor_data.h"
#include "unit/kernel/import.h"

namespace luminal::kernel::test {

/// Small whole numbers of both signs.
inline TensorData small_numbers(Dtype dtype, int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  TensorData data(dtype, {count});
  visit_dtype(dtype, [&]<class T>(T) {
    for (T& x : data.as<T>()) x = static_cast<T>(static_cast<float>(static_cast<int>(random() % 9) - 4));
  });
  return data;
}

/// Specs over few slots that many values read, at the same coordinates or at others of the same extents: axes to share,
/// values to join, sums of sums, choices by predicates, products of padded loads. All are whole numbers, which wrap.
class RandomTwins {
 public:
  /// `first_slot`: the dims of the tensor in slot 0; `parallel`: the extents of the axes that all outputs have. Both
  /// are drawn where they are not given.
  explicit RandomTwins(uint64_t seed, std::vector<Expression> first_slot = {},
                       std::vector<Expression> parallel = {})
      : random_(seed), first_slot_(std::move(first_slot)) {
    parts_.extents = std::move(parallel);
  }

  SpecParts parts() {
    const bool given = !parts_.extents.empty();
    const int parallel = given ? static_cast<int>(parts_.extents.size()) : 1 + pick(2);
    while (static_cast<int>(parts_.extents.size()) < parallel) parts_.extents.push_back(extent());
    const int others = 1 + pick(3);
    for (int a = 0; a < others; ++a) parts_.extents.push_back(extent());
    for (int s = 0; s < 3; ++s) add_slot(s == 0 ? first_slot_ : std::vector<Expression>());
    const auto all = static_cast<AxisSet>((1 << (parallel + others)) - 1);
    const auto outer = static_cast<AxisSet>((1 << parallel) - 1);
    for (int v = 1 + pick(4); v > 0; --v) {
      const AxisSet free = random_() & all;
      add_value(free, random_() & all & ~free);
    }
    for (int v = 1 + pick(3); v > 0; --v) {
      add_value(outer & (pick(3) == 0 ? random_() : all), pick(2) == 0 ? 0 : all & ~outer & random_());
      store();
    }
    return std::move(parts_);
  }

 private:
  int pick(int below) { return static_cast<int>(random_() % static_cast<uint64_t>(below)); }
  Expression extent() {
    constexpr int64_t kSizes[] = {1, 2, 3, 3, 3, 4};
    return pick(6) == 0 ? Expression::dim("n", {.min = 1, .max = 4}) : Expression(kSizes[pick(6)]);
  }
  Expression variable(int a) const { return Expression::index(a, parts_.extents[static_cast<size_t>(a)]); }

  void add_slot(std::vector<Expression> dims) {
    if (dims.empty())
      for (int d = 1 + pick(2); d > 0; --d)
        dims.push_back(parts_.extents[static_cast<size_t>(pick(static_cast<int>(parts_.extents.size())))]);
    Expression elements = 1;
    for (const Expression& d : dims) elements *= d;
    tensors_.push_back(std::move(dims));
    parts_.slots.push_back({Dtype::I32, elements});
  }

  Operand load(const std::vector<int>& axes) {
    const int slot = pick(3);
    Operand o{.dtype = Dtype::I32, .slot = slot, .index = 0, .masks = {}};
    Expression valid = 1;
    for (const Expression& size : tensors_[static_cast<size_t>(slot)]) {
      Expression at = 0;
      for (const int a : axes)
        if (parts_.extents[static_cast<size_t>(a)] == size && pick(2) == 0) at = variable(a);
      if (pick(8) == 0 && !(at == Expression(0))) at = size - 1 - at;
      if (pick(5) == 0 && !(at == Expression(0))) {
        at = at - 1;
        valid = valid & at.gte(0);
      }
      o.index = o.index * size + at;
    }
    if (pick(5) == 0) valid = valid & predicate(axes);
    if (!(valid == Expression(1))) o.masks.push_back({valid, 2 * (pick(4) / 3)});
    if (pick(8) == 0) o.masks.push_back({predicate(axes), pick(3)});
    return o;
  }
  Expression predicate(const std::vector<int>& axes) {
    if (axes.empty()) return 1;
    const Expression at = variable(axes[static_cast<size_t>(pick(static_cast<int>(axes.size())))]);
    return pick(2) == 0 ? at.lt(2) : at.gte(1);
  }

  std::vector<Operand> operands_of(const std::vector<int>& axes, AxisSet bound) {
    std::vector<Operand> list;
    for (int k = pick(3); k > 0; --k) list.push_back(load(axes));
    for (int u = static_cast<int>(parts_.values.size()) - 1; u >= 0; --u)
      if ((axes_of(parts_.values[static_cast<size_t>(u)].axes) & ~bound) == 0 && pick(3) != 0)
        list.push_back({.kind = Operand::Kind::Value, .dtype = Dtype::I32, .value = u, .masks = {}});
    if (list.empty()) list.push_back(load(axes));
    if (pick(3) == 0)
      list.push_back(
          {.kind = Operand::Kind::Index, .dtype = Dtype::I64, .index = predicate(axes), .masks = {}});
    return list;
  }

  void add_value(AxisSet free, AxisSet reduced) {
    Value v{.axes = list_of(free), .reduced = list_of(reduced), .body = {}};
    if (reduced != 0) v.monoid = static_cast<Monoid>(pick(4));
    v.operands = operands_of(list_of(free | reduced), free | reduced);
    ScalarBuilder b;
    std::vector<Scalar> inputs;
    for (const Operand& o : v.operands) inputs.push_back(b.input(static_cast<int>(inputs.size()), o.dtype));
    v.body = b.finish(body(b, inputs));
    parts_.values.push_back(std::move(v));
  }

  Scalar body(ScalarBuilder& b, std::span<const Scalar> inputs) {
    Scalar result = inputs[0];
    const int kind = pick(3);  // what it hands on, a product, or something of all
    for (size_t k = 1; k < inputs.size() && kind > 0; ++k) {
      const Scalar x = inputs[k];
      if (b.dtype(x) == Dtype::I64) {
        const Scalar valid = b.convert(x, Dtype::Bool), number = b.constant(Dtype::I32, pick(2));
        result = pick(2) == 0 ? b.select(valid, result, number) : b.select(valid, number, result);
      } else if (kind == 1) {
        result = b.mul(result, x);
      } else {
        result = step(b, result, x);
      }
    }
    return result;
  }
  Scalar step(ScalarBuilder& b, Scalar y, Scalar x) {
    switch (pick(4)) {
      case 0:
        return b.sub(y, x);
      case 1:
        return b.add(b.mul(y, x), x);
      case 2:
        return b.select(b.lt(y, x), x, b.neg(y));
      default:
        return b.maximum(y, b.mul(x, x));
    }
  }

  void store() {
    std::vector<int> order = parts_.values.back().axes;
    std::shuffle(order.begin(), order.end(), random_);
    Expression elements = 1;
    for (const int a : order) elements *= parts_.extents[static_cast<size_t>(a)];
    parts_.outputs.push_back(
        {static_cast<int>(parts_.values.size()) - 1, row_major(order, parts_.extents), elements});
  }

  std::mt19937_64 random_;
  SpecParts parts_;
  std::vector<Expression> first_slot_;
  std::vector<std::vector<Expression>> tensors_;  ///< the dims of each
};

}  // namespace luminal::kernel::test
