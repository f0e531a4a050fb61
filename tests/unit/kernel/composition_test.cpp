#include "base/fail.h"
#include "kernel/compose.h"
#include "symbolic/node.h"
#include "unit/kernel/check.h"
#include "unit/kernel/random_twins.h"
#include "unit/kernel/spec_builder.h"

// Two kernels as one beside the two, one after the other, number by number; and each limit at its border.
namespace luminal::kernel::test {
namespace {

using Scalars = std::span<const Scalar>;

/// A spec in canonical form with tensors for its slots, which have names: equal names hold the same.
struct Kernel {
  KernelSpec spec;
  std::vector<uint32_t> names;
};

Kernel kernel_of(const SpecParts& parts, uint32_t first_name, MathMode mode = MathMode::Relaxed) {
  const Canonical c = canonical(parts, {}, mode);
  Kernel result{.spec = c.spec, .names = {}};
  for (const int s : c.slots) result.names.push_back(first_name + static_cast<uint32_t>(s));
  return result;
}

std::vector<TensorData> tensors_of(const Kernel& k, const DimMap& dims) {
  std::vector<TensorData> tensors;
  for (size_t s = 0; s < k.names.size(); ++s)
    tensors.push_back(
        small_numbers(k.spec.slots()[s].dtype, k.spec.slots()[s].elements.exec(dims), k.names[s]));
  return tensors;
}

/// One of the producer's tensors is the consumer's too, where there is one of its size.
void share_a_tensor(const Kernel& consumer, Kernel& producer, const std::vector<int>& but) {
  for (size_t p = 0; p < producer.names.size(); ++p)
    for (size_t c = 0; c < consumer.names.size(); ++c)
      if (std::ranges::find(but, static_cast<int>(c)) == but.end() &&
          producer.spec.slots()[p] == consumer.spec.slots()[c]) {
        producer.names[p] = consumer.names[c];
        return;
      }
}

/// Whether what was made of two kernels gives these results.
void expect_results(const Composed& made, const std::vector<TensorData>& first,
                    const std::vector<TensorData>& second, const std::vector<TensorData>& wanted,
                    const DimMap& dims, const std::string& text) {
  std::vector<TensorData> read;
  for (const Composed::From& from : made.slots)
    read.push_back((from.producer ? second : first)[static_cast<size_t>(from.slot)]);
  const auto got = evaluate(made.spec, read, dims);
  ASSERT_EQ(got.size(), wanted.size()) << text;
  for (size_t k = 0; k < wanted.size(); ++k) expect_equal(got[k], wanted[k], 0, text + made.spec.to_string());
}

std::vector<DimMap> sizes_of(const KernelSpec& a, const KernelSpec& b) {
  if (a.symbols().empty() && b.symbols().empty()) return {{}};
  return {{{"n", 1}}, {{"n", 4}}};
}

/// The dims of the first output as a tensor, outermost first.
std::vector<Expression> output_dims(const SpecParts& parts) {
  std::vector<Expression> dims;
  for (const DenseAxis& a : dense_order(parts.outputs[0].index, parts.extents))
    dims.insert(dims.begin(), parts.extents[static_cast<size_t>(a.axis)]);
  return dims;
}

int slot_of(const Kernel& k, uint32_t name) {
  return static_cast<int>(std::ranges::find(k.names, name) - k.names.begin());
}

// --- Random kernels

constexpr uint32_t kConsumer = 100, kProducer = 200;  // names begin here

/// A consumer whose first tensor is what a producer makes; it may happen not to read it.
struct RandomPair {
  Kernel consumer, producer;
  int slot = 0;

  RandomPair(uint64_t seed, MathMode mode, size_t outputs) {
    SpecParts made = RandomTwins(2 * seed).parts();
    if (made.outputs.size() > outputs) made.outputs.resize(outputs);
    std::vector<Expression> dims = output_dims(made);
    if (dims.empty()) dims = {1};
    // Every other consumer has an axis for each of these, so that it may read each element once.
    std::vector<Expression> parallel = seed % 2 == 0 ? dims : std::vector<Expression>();
    if (seed % 4 == 0) std::ranges::reverse(parallel);
    producer = kernel_of(made, kProducer, mode);
    consumer = kernel_of(RandomTwins(2 * seed + 1, dims, parallel).parts(), kConsumer, mode);
    slot = slot_of(consumer, kConsumer);
    if (seed % 3 == 0 && reads()) share_a_tensor(consumer, producer, {slot});
  }
  [[nodiscard]] bool reads() const { return slot < static_cast<int>(consumer.names.size()); }
};

ComposeLimits limits_of(MathMode mode) {
  ComposeLimits limits = kNoLimits;
  limits.mode = mode;
  return limits;
}

TEST(RandomCompositions, ComputeWhatTheTwoCompute) {
  for (const MathMode mode : {MathMode::Strict, MathMode::Relaxed}) {
    int composed = 0, pairs = 0;
    for (uint64_t seed = 1; seed <= 1500 && !testing::Test::HasFailure(); ++seed) {
      SCOPED_TRACE(testing::Message() << "seed " << seed);
      const RandomPair pair(seed, mode, 1);
      if (!pair.reads()) continue;
      ++pairs;
      const auto made = compose(pair.consumer.spec, pair.slot, pair.producer.spec, pair.consumer.names,
                                pair.producer.names, limits_of(mode));
      if (!made) continue;
      ++composed;
      for (const DimMap& dims : sizes_of(pair.consumer.spec, pair.producer.spec)) {
        const auto second = tensors_of(pair.producer, dims);
        auto first = tensors_of(pair.consumer, dims);
        first[static_cast<size_t>(pair.slot)] = evaluate(pair.producer.spec, second, dims)[0];
        expect_results(*made, first, second, evaluate(pair.consumer.spec, first, dims), dims,
                       pair.consumer.spec.to_string() + pair.producer.spec.to_string());
      }
    }
    EXPECT_GT(composed, pairs * 9 / 10) << "of " << pairs;
  }
}

/// The producer's results are stored beside the consumer's, which come first.
TEST(RandomCompositions, WithExportsComputeWhatTheTwoCompute) {
  int composed = 0, of_several = 0;
  for (uint64_t seed = 1; seed <= 3000 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const RandomPair pair(seed, MathMode::Relaxed, 2);
    if (!pair.reads()) continue;
    std::vector<int> slots(pair.producer.spec.outputs().size(), -1);
    slots[0] = pair.slot;
    const auto made = compose_exporting(pair.consumer.spec, slots, pair.producer.spec, pair.consumer.names,
                                        pair.producer.names, limits_of(MathMode::Relaxed));
    if (!made) continue;
    ++composed;
    of_several += slots.size() > 1;
    for (const DimMap& dims : sizes_of(pair.consumer.spec, pair.producer.spec)) {
      const auto second = tensors_of(pair.producer, dims), given = evaluate(pair.producer.spec, second, dims);
      auto first = tensors_of(pair.consumer, dims);
      first[static_cast<size_t>(pair.slot)] = given[0];
      auto wanted = evaluate(pair.consumer.spec, first, dims);
      wanted.insert(wanted.end(), given.begin(), given.end());
      expect_results(*made, first, second, wanted, dims,
                     pair.consumer.spec.to_string() + pair.producer.spec.to_string());
    }
  }
  EXPECT_GT(composed, 100);
  EXPECT_GT(of_several, 10);
}

TEST(RandomSiblings, ComputeWhatTheTwoCompute) {
  int merged = 0;
  for (uint64_t seed = 1; seed <= 2000 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    // The same iterations, as other axes: [2, 3, 2] beside [6, 2], [2, 6] or [12].
    const Expression n = Expression::dim("n", {.min = 1, .max = 4});
    const std::vector<std::vector<Expression>> shapes{{2, 3, 2}, {6, 2},  {2, 6}, {12},
                                                      {n, 2},    {2 * n}, {3, 4}};
    const Kernel a = kernel_of(RandomTwins(2 * seed, {}, shapes[seed % 7]).parts(), kConsumer);
    Kernel b = kernel_of(RandomTwins(2 * seed + 1, {}, shapes[seed / 7 % 7]).parts(), kProducer);
    if (seed % 3 == 0) share_a_tensor(a, b, {});
    const auto made = merge_siblings(a.spec, b.spec, a.names, b.names, limits_of(MathMode::Relaxed));
    if (!made) continue;
    ++merged;
    for (const DimMap& dims : sizes_of(a.spec, b.spec)) {
      const auto first = tensors_of(a, dims), second = tensors_of(b, dims);
      auto wanted = evaluate(a.spec, first, dims);
      for (TensorData& result : evaluate(b.spec, second, dims)) wanted.push_back(std::move(result));
      expect_results(*made, first, second, wanted, dims, a.spec.to_string() + b.spec.to_string());
    }
  }
  EXPECT_GT(merged, 300);
}

// --- Limits, each at its border

/// `count` operations, one after another, of which none folds.
Scalar with_operations(ScalarBuilder& b, Scalar x, int count) {
  for (int k = 0; k < count; ++k) x = k % 2 == 0 ? b.add(x, b.constant(Dtype::F32, 3)) : b.sqrt(x);
  return x;
}

/// Y[i] of `tensors` tensors at i, added up, and `operations` more.
KernelSpec row_of(int tensors, int operations, const Expression& n = 8) {
  SpecBuilder s;
  const Expression i = s.axis(n);
  std::vector<Operand> operands;
  for (int t = 0; t < tensors; ++t) operands.push_back(s.load(s.slot(n), i));
  s.output(s.value({0}, {}, std::nullopt, operands,
                   [&](ScalarBuilder& b, Scalars in) {
                     Scalar sum = in[0];
                     for (size_t k = 1; k < in.size(); ++k) sum = b.add(sum, in[k]);
                     return with_operations(b, sum, operations);
                   }),
           i, n);
  return s.finish().spec;
}

/// Y[i] = sum k: A[i,k] and `operations` operations.
KernelSpec sums_of(int operations, const Expression& rows = 8) {
  SpecBuilder s;
  const Expression i = s.axis(rows), k = s.axis(5);
  const int v = s.value({0}, {1}, Monoid::Add, {s.load(s.slot(rows * 5), i * 5 + k)},
                        [&](ScalarBuilder& b, Scalars in) { return with_operations(b, in[0], operations); });
  s.output(v, i, rows);
  return s.finish().spec;
}

/// Y[i] = sqrt(A[i]) * max j: (A[i] + B[j]): two values read A at the same place.
KernelSpec twice_read() {
  SpecBuilder s;
  const Expression i = s.axis(8), j = s.axis(3);
  const int a = s.slot(8), other = s.slot(3);
  const int most = s.value({0}, {1}, Monoid::Max, {s.load(a, i), s.load(other, j)},
                           [](ScalarBuilder& b, Scalars in) { return b.add(in[0], in[1]); });
  s.output(s.value({0}, {}, std::nullopt, {s.load(a, i), s.read(most)},
                   [](ScalarBuilder& b, Scalars in) { return b.mul(b.sqrt(in[0]), in[1]); }),
           i, 8);
  return s.finish().spec;
}

int slot_of_size(const KernelSpec& spec, const Expression& elements) {
  return static_cast<int>(std::ranges::find(spec.slots(), elements, &Slot::elements) - spec.slots().begin());
}

TEST(ComposeLimits, CountSlots) {
  const KernelSpec consumer = row_of(2, 1), producer = row_of(3, 1);
  EXPECT_TRUE(compose(consumer, 0, producer, {}, {}, {.slots = 4}));
  EXPECT_FALSE(compose(consumer, 0, producer, {}, {}, {.slots = 3}));
}
TEST(ComposeLimits, CountOperations) {
  const KernelSpec consumer = row_of(1, 3), producer = row_of(1, 4);
  EXPECT_TRUE(compose(consumer, 0, producer, {}, {}, {.operations = 7}));
  EXPECT_FALSE(compose(consumer, 0, producer, {}, {}, {.operations = 6}));
}
TEST(ComposeLimits, CountExports) {
  const KernelSpec a = row_of(1, 3), b = row_of(1, 4);
  EXPECT_TRUE(merge_siblings(a, b, {}, {}, {.exports = 1}));
  EXPECT_FALSE(merge_siblings(a, b, {}, {}, {.exports = 0}));
}
/// Three operations of the consumer, and twice six of the producer, which become one value at the end.
TEST(ComposeLimits, CountOperationsOfEveryPlace) {
  const KernelSpec consumer = twice_read(), producer = sums_of(6);
  const int slot = slot_of_size(consumer, 8);
  EXPECT_TRUE(compose(consumer, slot, producer, {}, {}, {.operations = 15, .repeats = 1}));
  EXPECT_FALSE(compose(consumer, slot, producer, {}, {}, {.operations = 14, .repeats = 1}));
  EXPECT_TRUE(compose(consumer, slot, producer, {}, {}, {.operations = 9, .repeats = 2}));
}
/// Of its place alone: tensors beside it count for nothing.
TEST(ComposeLimits, CountPlacesOfTheTensorAlone) {
  const KernelSpec consumer = row_of(3, 0), producer = sums_of(4);
  EXPECT_TRUE(compose(consumer, 1, producer, {}, {}, {.operations = 6, .repeats = 1}));
  EXPECT_FALSE(compose(consumer, 1, producer, {}, {}, {.operations = 5, .repeats = 1}));
}

/// Nodes of a spec's indices and predicates.
int64_t length_of(const KernelSpec& spec) {
  int64_t length = 0;
  for (const Value& v : spec.values())
    for (const Operand& o : v.operands) {
      length += o.index.node().size;
      for (const Mask& m : o.masks) length += m.predicate.node().size;
    }
  return length;
}

/// Y[i] = A[i - 2] where there is one.
KernelSpec padded() {
  SpecBuilder s;
  const Expression i = s.axis(10);
  const int a = s.slot(8);
  s.output(s.value({0}, {}, std::nullopt, {s.load(a, i - 2, {{(i - 2).gte(0), Number(1)}})},
                   [](ScalarBuilder& b, Scalars in) { return b.sqrt(in[0]); }),
           i, 10);
  return s.finish().spec;
}

TEST(ComposeLimits, CountFormulasOfIndicesAndMasks) {
  const KernelSpec consumer = padded(), producer = sums_of(1);
  const int64_t both = length_of(consumer) + length_of(producer);
  EXPECT_TRUE(compose(consumer, 0, producer, {}, {}, {.formulas = both}));
  EXPECT_FALSE(compose(consumer, 0, producer, {}, {}, {.formulas = both - 1}));
  EXPECT_TRUE(merge_siblings(sums_of(1), sums_of(2), {}, {}, {.formulas = 2 * length_of(producer)}));
  EXPECT_FALSE(merge_siblings(sums_of(1), sums_of(2), {}, {}, {.formulas = 2 * length_of(producer) - 1}));
}
TEST(ComposeLimits, CountFormulasOfEveryPlace) {
  const KernelSpec consumer = twice_read(), producer = sums_of(1);
  const int slot = slot_of_size(consumer, 8);
  const int64_t all = length_of(consumer) + 2 * length_of(producer);
  EXPECT_TRUE(compose(consumer, slot, producer, {}, {}, {.formulas = all, .repeats = 1}));
  EXPECT_FALSE(compose(consumer, slot, producer, {}, {}, {.formulas = all - 1, .repeats = 1}));
  const int64_t once = length_of(consumer) + length_of(producer);
  EXPECT_TRUE(compose(consumer, slot, producer, {}, {}, {.formulas = once, .repeats = 2}));
}

/// Y[i,j] = sqrt(A[(i + j) % 8]): each element of A at `times` places.
KernelSpec spread_over(int64_t times) {
  SpecBuilder s;
  const Expression i = s.axis(8), j = s.axis(times);
  s.output(s.value({0, 1}, {}, std::nullopt, {s.load(s.slot(8), (i + j) % 8)},
                   [](ScalarBuilder& b, Scalars in) { return b.sqrt(in[0]); }),
           i * Expression(times) + j, 8 * Expression(times));
  return s.finish().spec;
}

/// What takes a few operations may be computed again at each place, and what takes more or adds up may not.
TEST(ComposeLimits, CountEvaluations) {
  for (const int64_t times : {4, 5}) {
    const KernelSpec consumer = spread_over(times);
    for (const KernelSpec& producer : {row_of(1, 6), sums_of(0)})
      EXPECT_EQ(compose(consumer, 0, producer, {}, {}, {.evaluations = 4}).has_value(), times == 4)
          << producer.to_string();
    EXPECT_TRUE(compose(consumer, 0, row_of(1, 1), {}, {}, {.evaluations = 4}));
  }
}
/// Specs with more axes than a set holds are not made.
KernelSpec sum_over(int axes) {
  SpecBuilder s;
  const Expression i = s.axis(8);
  Expression index = i, stride = 8;
  std::vector<int> reduced;
  for (int a = 0; a < axes; ++a) {
    index += s.axis(2) * stride;
    stride *= 3;  // so that no two are one
    reduced.push_back(a + 1);
  }
  const int v = s.value({0}, reduced, Monoid::Max, {s.load(s.slot(stride), index)},
                        [](ScalarBuilder& b, Scalars in) { return b.sqrt(in[0]); });
  s.output(v, i, 8);
  return s.finish().spec;
}
TEST(ComposeLimits, CountAxes) {
  const ComposeLimits wide{.formulas = 1 << 20};
  const KernelSpec few = sum_over(30), many = sum_over(34);
  ASSERT_EQ(many.extents().size(), 35U);
  EXPECT_TRUE(merge_siblings(few, few, {}, {}, wide));
  EXPECT_FALSE(merge_siblings(many, many, {}, {}, wide));
  const auto read_by = [&](const KernelSpec& producer) {
    SpecBuilder s;
    const Expression i = s.axis(8);
    std::vector<Operand> two{s.load(s.slot(8), i), s.load(s.slot(8), i)};
    s.output(
        s.value({0}, {}, std::nullopt, two, [](ScalarBuilder& b, Scalars in) { return b.sub(in[0], in[1]); }),
        i, 8);
    const auto once = compose(s.finish().spec, 0, producer, {}, {}, wide);
    return once && compose(once->spec, slot_of_size(once->spec, 8), producer, {}, {}, wide);
  };
  EXPECT_TRUE(read_by(few));
  EXPECT_FALSE(read_by(many));
}

// --- What is not defined, and what is easily taken for something else

/// Y[7-i] = sqrt(A[i]): where an element comes from is not looked for.
TEST(ComposeOrder, OfTheProducerIsThatOfItsAxes) {
  SpecBuilder s;
  const Expression i = s.axis(8);
  s.output(s.value({0}, {}, std::nullopt, {s.load(s.slot(8), i)},
                   [](ScalarBuilder& b, Scalars in) { return b.sqrt(in[0]); }),
           7 - i, 8);
  EXPECT_FALSE(compose(row_of(1, 1), 0, s.plain()));
}

/// Y[i] = A[i-2] and Y1[i] = A[i-2], padded with two numbers, of A[i] = max k: B[i,k]; and what that gives.
void expect_padding(const Number& first, const Number& second, const Expression& k_extent,
                    const DimMap& dims) {
  SpecBuilder c, p;
  const Expression i = c.axis(6);
  const int a = c.slot(4, Dtype::I32);
  for (const Number& fill : {first, second})
    c.output(c.value({0}, {}, std::nullopt, {c.load(a, i - 2, {{(i - 2).gte(0), fill}})},
                     [](ScalarBuilder&, Scalars in) { return in[0]; }),
             i, 6);
  const Expression row = p.axis(4), k = p.axis(k_extent);
  const int v = p.value({0}, {1}, Monoid::Max, {p.load(p.slot(4 * k_extent, Dtype::I32), row * k_extent + k)},
                        [](ScalarBuilder&, Scalars in) { return in[0]; });
  p.output(v, row, 4);
  const Kernel consumer = kernel_of(c.parts(), kConsumer), producer = kernel_of(p.parts(), kProducer);
  const auto made = compose(consumer.spec, 0, producer.spec);
  ASSERT_TRUE(made);
  const auto second_tensors = tensors_of(producer, dims),
             given = evaluate(producer.spec, second_tensors, dims);
  const auto wanted = evaluate(consumer.spec, given, dims);
  expect_results(*made, given, second_tensors, wanted, dims, consumer.spec.to_string());
}
TEST(ComposePadding, OfOnePlaceMayHaveSeveralFills) {
  expect_padding(0, 3, 5, {});
  expect_padding(3, 0, 5, {});
  expect_padding(3, 3, 5, {});
}
/// A maximum of fills is the fill, unless there is nothing to take the maximum of.
TEST(ComposePadding, IsNoMaximumOfNothing) {
  const Expression n = Expression::dim("n", {.min = 0, .max = 4});
  for (const int64_t size : {0, 4}) expect_padding(3, 3, n, {{"n", size}});
}

TEST(ComposeNothing, StaysByItself) {
  const Expression none = 0;
  SpecBuilder s;  // a sum over no element
  const Expression i = s.axis(8), k = s.axis(none);
  const int sum = s.value({0}, {1}, Monoid::Add, {s.load(s.slot(5), i / 2 + k)},
                          [](ScalarBuilder& b, Scalars in) { return b.sqrt(in[0]); });
  s.output(sum, i, 8);
  const KernelSpec empty_axis = s.plain();
  SpecBuilder t;  // of a tensor without elements, which is never read
  const Expression j = t.axis(8);
  t.output(
      t.value({0}, {}, std::nullopt, {t.load(t.slot(none), j, {{j.lt(0), Number(1)}}), t.load(t.slot(8), j)},
              [](ScalarBuilder& b, Scalars in) { return b.add(in[0], in[1]); }),
      j, 8);
  const KernelSpec empty_slot = t.plain();
  const KernelSpec empty_output = row_of(1, 1, none), some = row_of(1, 2);
  for (const KernelSpec* spec : {&empty_axis, &empty_slot}) {
    EXPECT_FALSE(compose(some, 0, *spec)) << spec->to_string();
    EXPECT_FALSE(merge_siblings(some, *spec)) << spec->to_string();
    EXPECT_FALSE(merge_siblings(*spec, some)) << spec->to_string();
    EXPECT_FALSE(compose_exporting(some, std::vector{0}, *spec)) << spec->to_string();
  }
  EXPECT_FALSE(compose(row_of(1, 1, none), 0, empty_output));
  EXPECT_FALSE(merge_siblings(empty_output, empty_output));
}

TEST(ComposeMistakes, AreInternalErrors) {
  const KernelSpec consumer = row_of(2, 1), producer = row_of(1, 2);
  for (const int slot : {-1, 2}) EXPECT_THROW((void)compose(consumer, slot, producer), InternalError);
  SpecBuilder s;
  const Expression i = s.axis(8);
  s.output(s.value({0}, {}, std::nullopt, {s.load(s.slot(8), i)},
                   [](ScalarBuilder& b, Scalars in) { return b.convert(in[0], Dtype::I32); }),
           i, 8);
  EXPECT_THROW((void)compose(consumer, 0, s.finish().spec), InternalError)
      << "integers where floats are read";
  EXPECT_THROW((void)compose_exporting(consumer, std::vector<int>{}, producer), InternalError);
  EXPECT_THROW((void)compose_exporting(consumer, std::vector{5}, producer), InternalError);
}

/// Y[i] = sqrt(A[i]), Y1 of the same in another order or size.
KernelSpec two_outputs(const Expression& second, const Expression& elements) {
  SpecBuilder s;
  const Expression i = s.axis(8);
  const int a = s.slot(8);
  s.output(s.value({0}, {}, std::nullopt, {s.load(a, i)},
                   [](ScalarBuilder& b, Scalars in) { return b.sqrt(in[0]); }),
           i, 8);
  s.output(s.value({0}, {}, std::nullopt, {s.load(a, i)},
                   [](ScalarBuilder& b, Scalars in) { return b.neg(in[0]); }),
           second, elements);
  return s.finish().spec;
}

TEST(ComposeExporting, NeedsOutputsOfOneOrder) {
  const Expression i = Expression::index(0, 8);
  const std::vector<int> slots{0, -1};
  EXPECT_TRUE(compose_exporting(row_of(1, 2), slots, two_outputs(i, 8)));
  EXPECT_FALSE(compose_exporting(row_of(1, 2), slots, two_outputs(7 - i, 8)));
  EXPECT_FALSE(compose_exporting(row_of(1, 2), slots, two_outputs(i, 9)));
  EXPECT_FALSE(compose(row_of(1, 2), 0, two_outputs(i, 8))) << "without exports there is one";
}

/// Whether a consumer with these loads of A[8], beside which it reads B of any size, can export it.
bool exports_through(const std::vector<std::pair<Expression, std::vector<Mask>>>& loads, int64_t rows = 8,
                     bool reduces = false) {
  SpecBuilder s;
  const Expression i = s.axis(rows);
  std::vector<Operand> operands{s.load(s.slot(rows + 50), i)};
  const int a = s.slot(8);
  for (const auto& [index, masks] : loads) operands.push_back(s.load(a, index, masks));
  const auto add = [](ScalarBuilder& b, Scalars in) {
    Scalar sum = in[0];
    for (size_t k = 1; k < in.size(); ++k) sum = b.add(sum, b.sqrt(in[k]));
    return sum;
  };
  if (reduces)
    s.output(s.value({}, {0}, Monoid::Max, operands, add), 0, 1);
  else
    s.output(s.value({0}, {}, std::nullopt, operands, add), i, rows);
  const KernelSpec spec = s.plain();
  return compose_exporting(spec, std::vector{a}, row_of(1, 2)).has_value();
}

TEST(ComposeExporting, NeedsEachElementOnce) {
  const Expression i = Expression::index(0, 8), j = Expression::index(0, 4), k = Expression::index(0, 16);
  EXPECT_TRUE(exports_through({{i, {}}}));
  EXPECT_FALSE(exports_through({}));
  EXPECT_FALSE(compose_exporting(row_of(1, 1), std::vector{-1}, row_of(1, 2, 1))) << "nobody reads it";
  EXPECT_FALSE(exports_through({{i, {{i.lt(5), Number(0)}}}})) << "it is not computed where it is padded";
  EXPECT_FALSE(exports_through({{i, {}}, {7 - i, {}}})) << "at two places";
  EXPECT_FALSE(exports_through({{7 - i, {}}}));
  EXPECT_FALSE(exports_through({{j, {}}}, 4)) << "a half of it";
  EXPECT_FALSE(exports_through({{j * 2, {}}}, 4)) << "every other element";
  EXPECT_FALSE(exports_through({{k / 2, {}}}, 16)) << "each element twice";
  EXPECT_FALSE(exports_through({{k % 8, {}}}, 16)) << "each element twice";
  EXPECT_FALSE(exports_through({{i, {}}}, 8, true)) << "where all is reduced nothing can be stored";
}

TEST(MergeSiblings, NeedsIterationsThatAreMadeOfTheSameRuns) {
  const auto box = [](std::vector<Expression> extents) {
    SpecBuilder s;
    Expression index = 0, elements = 1;
    std::vector<int> axes;
    std::vector<Operand> operands;
    for (const Expression& e : extents) {
      const Expression at = s.axis(e);
      axes.push_back(static_cast<int>(axes.size()));
      operands.push_back(s.load(s.slot(e), at));  // so that no two are one
      index = index * e + at;
      elements *= e;
    }
    s.output(s.value(axes, {}, std::nullopt, operands,
                     [](ScalarBuilder& b, Scalars in) {
                       Scalar sum = in[0];
                       for (size_t k = 1; k < in.size(); ++k) sum = b.add(b.sqrt(sum), in[k]);
                       return sum;
                     }),
             index, elements);
    return s.finish().spec;
  };
  using Extents = std::vector<Expression>;
  const auto merged = [&](const Extents& a, const Extents& b) {
    return merge_siblings(box(a), box(b)).has_value();
  };
  EXPECT_TRUE(merged({2, 3, 4}, {24}));
  EXPECT_TRUE(merged({2, 12}, {6, 4}));
  EXPECT_FALSE(merged({3, 4}, {4, 3}));
  EXPECT_FALSE(merged({12}, {5}));
  for (const Extents& more : {Extents{2, 12}, Extents{24}}) {
    EXPECT_FALSE(merged({12}, more));
    EXPECT_FALSE(merged(more, {12}));
  }
}

}  // namespace
}  // namespace luminal::kernel::test
