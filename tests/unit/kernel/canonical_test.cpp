#include "kernel/canonical.h"

#include <numeric>

#include "unit/kernel/check.h"
#include "unit/kernel/random_parts.h"
#include "unit/kernel/spec_builder.h"

// Canonical forms beside the parts that they come of, number by number: where a step would change what is computed, it
// must not be taken.
namespace luminal::kernel::test {
namespace {

using Scalars = std::span<const Scalar>;

/// Small whole numbers of both signs.
TensorData small_numbers(Dtype dtype, int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  TensorData data(dtype, {count});
  visit_dtype(dtype, [&]<class T>(T) {
    for (T& x : data.as<T>()) x = static_cast<T>(static_cast<float>(static_cast<int>(random() % 9) - 4));
  });
  return data;
}

/// The canonical form in a mode, after a comparison with the parts as they stand. Slots of one name hold the same.
KernelSpec canonical_of(const SpecParts& parts, MathMode mode, const DimMap& dims = {},
                        std::span<const uint32_t> names = {}) {
  const KernelSpec plain(parts);
  std::vector<TensorData> slots;
  for (size_t k = 0; k < parts.slots.size(); ++k)
    slots.push_back(small_numbers(parts.slots[k].dtype, parts.slots[k].elements.exec(dims),
                                  names.empty() ? k : names[k]));
  const Canonical c = canonical(parts, names, mode);
  std::vector<TensorData> read;
  for (const int s : c.slots) read.push_back(slots[static_cast<size_t>(s)]);
  const auto wanted = evaluate(plain, slots, dims), got = evaluate(c.spec, read, dims);
  EXPECT_EQ(got.size(), wanted.size());
  for (size_t k = 0; k < std::min(got.size(), wanted.size()); ++k)
    expect_equal(got[k], wanted[k], 0, plain.to_string() + c.spec.to_string());
  return c.spec;
}

/// The same in both modes: the relaxed form.
KernelSpec same_meaning(const SpecParts& parts, const DimMap& dims = {}) {
  (void)canonical_of(parts, MathMode::Strict, dims);
  return canonical_of(parts, MathMode::Relaxed, dims);
}

/// Specs over few slots that many values read, at the same coordinates or at others of the same extents: axes to share,
/// values to join, sums of sums, choices by predicates, products of padded loads. All are whole numbers, which wrap.
class RandomTwins {
 public:
  explicit RandomTwins(uint64_t seed) : random_(seed) {}

  SpecParts parts() {
    const int parallel = 1 + pick(2), others = 1 + pick(3);
    for (int a = 0; a < parallel + others; ++a) parts_.extents.push_back(extent());
    for (int s = 0; s < 3; ++s) add_slot();
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
  struct Tensor {
    std::vector<Expression> dims;
  };

  int pick(int below) { return static_cast<int>(random_() % static_cast<uint64_t>(below)); }
  Expression extent() {
    constexpr int64_t kSizes[] = {1, 2, 3, 3, 3, 4};
    return pick(6) == 0 ? Expression::dim("n", {.min = 1, .max = 4}) : Expression(kSizes[pick(6)]);
  }
  Expression variable(int a) const { return Expression::index(a, parts_.extents[static_cast<size_t>(a)]); }

  void add_slot() {
    Tensor t;
    Expression elements = 1;
    for (int d = 1 + pick(2); d > 0; --d) {
      t.dims.push_back(parts_.extents[static_cast<size_t>(pick(static_cast<int>(parts_.extents.size())))]);
      elements *= t.dims.back();
    }
    tensors_.push_back(std::move(t));
    parts_.slots.push_back({Dtype::I32, elements});
  }

  Operand load(const std::vector<int>& axes) {
    const int slot = pick(3);
    Operand o{.dtype = Dtype::I32, .slot = slot, .index = 0, .masks = {}};
    Expression valid = 1;
    for (const Expression& size : tensors_[static_cast<size_t>(slot)].dims) {
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

  Scalar body(ScalarBuilder& b, Scalars inputs) {
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
  std::vector<Tensor> tensors_;
};

void check_random(const SpecParts& parts, uint64_t seed) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::vector<DimMap> sizes{{}};
  if (!KernelSpec(parts).symbols().empty()) sizes = {{{"n", 1}}, {{"n", 4}}};
  for (const DimMap& dims : sizes) (void)same_meaning(parts, dims);
}

TEST(CanonicalRandomSpecs, MeanWhatTheyMeant) {
  for (uint64_t seed = 1; seed <= 300 && !testing::Test::HasFailure(); ++seed)
    check_random(RandomParts(seed).parts(), seed);
}
TEST(CanonicalRandomSpecs, OfSharedSlotsMeanWhatTheyMeant) {
  for (uint64_t seed = 1; seed <= 1500 && !testing::Test::HasFailure(); ++seed)
    check_random(RandomTwins(seed).parts(), seed);
}

// --- Choices and padding

/// Y[i] of what `body` makes of these operands.
SpecParts row(SpecBuilder& s, std::vector<Operand> operands,
              const std::function<Scalar(ScalarBuilder&, Scalars)>& body) {
  const Expression i = Expression::index(0, 9);
  s.output(s.value({0}, {}, std::nullopt, std::move(operands), body), i, 9);
  return s.parts();
}

/// A choice beside what two loads make where they are equal, and they are not.
TEST(CanonicalMasks, LoadsThatDifferAreNotOneNumber) {
  using Pair = std::function<Scalar(ScalarBuilder&, Scalar, Scalar)>;
  const std::vector<Pair> list{
      [](ScalarBuilder& b, Scalar x, Scalar y) { return b.sub(x, y); },
      [](ScalarBuilder& b, Scalar x, Scalar y) { return b.bit_xor(x, y); },
      [](ScalarBuilder& b, Scalar x, Scalar y) { return b.convert(b.lt(x, y), Dtype::I64); },
      [](ScalarBuilder& b, Scalar x, Scalar y) { return b.convert(b.ne(x, y), Dtype::I64); }};
  for (const bool coordinate : {false, true})
    for (const Pair& pair : list) {
      SpecBuilder s;
      const Expression i = s.axis(9);
      const int x = s.slot(9, Dtype::I64), y = s.slot(9, Dtype::I64);
      const Operand second = coordinate ? SpecBuilder::number(i - 4) : s.load(y, i);
      (void)same_meaning(
          row(s, {s.load(x, i), second, SpecBuilder::number(i.lt(5))}, [&](ScalarBuilder& b, Scalars in) {
            return b.select(b.convert(in[2], Dtype::Bool), pair(b, in[0], in[1]), b.constant(Dtype::I64, 0));
          }));
    }
}

/// The same in a graph: a triangle of coordinates in a frame of zeros.
TEST(CanonicalMasks, APaddedTriangleKeepsItsPadding) {
  Graph cx;
  const GraphTensor at = cx.arange(4), triangle = at.expand_dim(1, 4).lt(at.expand_dim(0, 4));
  EXPECT_TRUE(check(cx, triangle.cast(Dtype::F32).pad_along(0, 1, 2, 0.0F) * 2.0F));
  EXPECT_TRUE(check(cx, (at.expand_dim(1, 4) - at.expand_dim(0, 4)).pad_along(0, 1, 2, 0)));
}

}  // namespace
}  // namespace luminal::kernel::test
