#include "kernel/canonical.h"

#include <numeric>

#include "kernel/axes.h"
#include "unit/kernel/check.h"
#include "unit/kernel/random_parts.h"
#include "unit/kernel/random_twins.h"
#include "unit/kernel/spec_builder.h"

// Canonical forms beside the parts that they come of, number by number: where a step would change what is computed, it
// must not be taken.
namespace luminal::kernel::test {
namespace {

using Scalars = std::span<const Scalar>;

/// A value that depends on what another reduces is computed inside that one's loops. Whether none reduces an axis of
/// the loops around it, so that each loop has an axis of its own.
bool has_distinct_loops(const KernelSpec& spec) {
  const AxisSet parallel = axes_of(spec.parallel_axes());
  std::vector<AxisSet> loops(spec.values().size(), 0);  // around each
  for (size_t k = loops.size(); k-- > 0;) {
    const Value& reader = spec.values()[k];
    if ((axes_of(reader.reduced) & loops[k]) != 0) return false;
    for (const Operand& o : reader.operands) {
      if (o.kind != Operand::Kind::Value) continue;
      const AxisSet free = axes_of(spec.values()[static_cast<size_t>(o.value)].axes);
      if ((free & ~parallel) != 0 || (free & axes_of(reader.reduced)) != 0)
        loops[static_cast<size_t>(o.value)] |= all_axes(reader) | loops[k];
    }
  }
  return true;
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
  EXPECT_TRUE(has_distinct_loops(c.spec) || !has_distinct_loops(plain))
      << plain.to_string() << c.spec.to_string();
  return c.spec;
}

/// The same in both modes: the relaxed form.
KernelSpec same_meaning(const SpecParts& parts, const DimMap& dims = {}) {
  (void)canonical_of(parts, MathMode::Strict, dims);
  return canonical_of(parts, MathMode::Relaxed, dims);
}

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

/// A choice by a number that is no condition of coordinates alone is left as it is.
TEST(CanonicalMasks, OtherChoicesAreNoPadding) {
  const auto choose = [](ScalarBuilder& b, Scalar condition, Scalar x) {
    return b.select(condition, b.mul(x, b.constant(Dtype::I64, 2)), b.constant(Dtype::I64, 0));
  };
  const auto check_choice = [&](const std::function<Scalar(ScalarBuilder&, Scalar, Scalar)>& condition) {
    SpecBuilder s;
    const Expression i = s.axis(9);
    const int x = s.slot(9, Dtype::I64), y = s.slot(9, Dtype::I64);
    (void)same_meaning(
        row(s, {SpecBuilder::number(i), s.load(x, i), s.load(y, i)},
            [&](ScalarBuilder& b, Scalars in) { return choose(b, condition(b, in[0], in[2]), in[1]); }));
  };
  check_choice([](ScalarBuilder& b, Scalar at, Scalar) { return b.lt(at, b.constant(Dtype::I64, 3)); });
  check_choice([](ScalarBuilder& b, Scalar at, Scalar) {
    return b.convert(b.sub(at, b.constant(Dtype::I64, 3)), Dtype::Bool);
  });
  check_choice([](ScalarBuilder& b, Scalar, Scalar y) { return b.convert(y, Dtype::Bool); });
}

/// Masks behind one that always applies say nothing.
TEST(CanonicalMasks, BehindOneThatAlwaysAppliesAreDropped) {
  const auto form = [](bool more) {
    SpecBuilder s;
    const Expression i = s.axis(9);
    std::vector<Mask> masks{{i.lt(5), Number(1)}, {Expression(0), Number(2)}};
    if (more) masks.push_back({i.lt(3), Number(3)});
    return same_meaning(row(s, {s.load(s.slot(9, Dtype::I32), i, masks)},
                            [](ScalarBuilder& b, Scalars in) { return b.mul(in[0], in[0]); }));
  };
  EXPECT_EQ(form(true), form(false));
}

/// A load that is padding everywhere is a number, and its tensor is not read.
TEST(CanonicalMasks, WhatIsPaddingEverywhereIsANumber) {
  SpecBuilder s;
  const Expression i = s.axis(9);
  const int x = s.slot(9, Dtype::I32), y = s.slot(9, Dtype::I32);
  const KernelSpec form = same_meaning(row(s, {s.load(x, i, {{Expression(0), Number(3)}}), s.load(y, i)},
                                           [](ScalarBuilder& b, Scalars in) { return b.add(in[0], in[1]); }));
  EXPECT_EQ(form.slots().size(), 1U) << form.to_string();
  EXPECT_EQ(form.values()[0].operands.size(), 1U) << form.to_string();
}

/// Y[i] = min(A[i], B[i]) of two types, both padded: what the one holds there is not what the other does.
TEST(CanonicalMasks, FillsOfOtherTypesAreOtherNumbers) {
  SpecBuilder s;
  const Expression i = s.axis(9);
  const int x = s.slot(9, Dtype::I32), y = s.slot(9, Dtype::I64);
  (void)same_meaning(row(s, {s.load(x, i, {{i.lt(5), Number(8)}}), s.load(y, i, {{i.lt(5), Number(9)}})},
                         [](ScalarBuilder& b, Scalars in) {
                           const Scalar wide = b.convert(in[0], Dtype::I64);
                           return b.select(b.lt(wide, in[1]), wide, in[1]);
                         }));
}

// --- What relaxed math permits

/// Y[i] = A[i-2] * B[i-2], both padded with 0: of B alone the padding need not be asked.
SpecParts padded_product(const std::optional<Monoid>& fold, const Number& fill = 0) {
  SpecBuilder s;
  const Expression i = s.axis(9), k = s.axis(4);
  const int x = s.slot(9 * 4), y = s.slot(9);
  const std::vector<Mask> masks{{(i - 2).gte(0), fill}};
  const int v = s.value(fold ? std::vector{0} : std::vector{0, 1}, fold ? std::vector{1} : std::vector<int>{},
                        fold, {s.load(x, (i - 2) * 4 + k, masks), s.load(y, i, masks)},
                        [](ScalarBuilder& b, Scalars in) { return b.mul(in[0], in[1]); });
  s.output(v, fold ? i : i * 4 + k, fold ? 9 : 36);
  return s.parts();
}
size_t mask_count(const KernelSpec& spec) {
  size_t count = 0;
  for (const Value& v : spec.values())
    for (const Operand& o : v.operands) count += o.masks.size();
  return count;
}
bool terms_vanish(const KernelSpec& spec) {
  return std::ranges::any_of(spec.values(), &Value::masked_terms_vanish);
}
TEST(CanonicalModes, StrictProductsKeepTheirMasks) {
  const SpecParts parts = padded_product(Monoid::Add);
  EXPECT_EQ(mask_count(canonical_of(parts, MathMode::Relaxed)), 1U);
  EXPECT_EQ(mask_count(canonical_of(parts, MathMode::Strict)), 2U);
}
/// Y[i] = sum k: A[i,k] * B[i] for i in n + 2, both padded behind n, which nobody knows: B's padding keeps it in its
/// buffer.
TEST(CanonicalModes, MasksThatKeepALoadInItsBufferStay) {
  const Expression n = Expression::dim("n", {.min = 1, .max = 4});
  SpecBuilder s;
  const Expression i = s.axis(n + 2), k = s.axis(4);
  const std::vector<Mask> masks{{i.lt(n), Number(0)}};
  s.output(
      s.value({0}, {1}, Monoid::Add, {s.load(s.slot(n * 4), i * 4 + k, masks), s.load(s.slot(n), i, masks)},
              [](ScalarBuilder& b, Scalars in) { return b.mul(in[0], in[1]); }),
      i, n + 2);
  for (const int64_t size : {1, 4}) EXPECT_EQ(mask_count(same_meaning(s.parts(), {{"n", size}})), 2U);
}
/// Y[i] = sum j, k: A[i-k] * B[j-1,k], where B says for itself that j > 0, and A that i >= k: B need not say it too.
TEST(CanonicalModes, MasksAreAskedOfTheLoadsThatTheySpeakOf) {
  SpecBuilder s;
  const Expression i = s.axis(9), j = s.axis(20), k = s.axis(3);
  const Expression there = (i - k).gte(0);
  s.output(s.value({0}, {1, 2}, Monoid::Add,
                   {s.load(s.slot(9), i - k, {{there, Number(0)}}),
                    s.load(s.slot(60), j * 3 + k - 3, {{there & j.gte(1), Number(0)}})},
                   [](ScalarBuilder& b, Scalars in) { return b.mul(in[0], in[1]); }),
           i, 9);
  const KernelSpec form = same_meaning(s.parts());
  for (const Operand& o : form.values()[0].operands)
    for (const Mask& m : o.masks) EXPECT_EQ(axes_of(m.predicate) & ~axes_of(o.index), 0U) << form.to_string();
}
TEST(CanonicalModes, TermsVanishWhereASumOfProductsIsPaddedWithZero) {
  EXPECT_TRUE(terms_vanish(canonical_of(padded_product(Monoid::Add), MathMode::Relaxed)));
  EXPECT_FALSE(terms_vanish(canonical_of(padded_product(Monoid::Add), MathMode::Strict)));
  EXPECT_FALSE(terms_vanish(canonical_of(padded_product(Monoid::Add, 1), MathMode::Relaxed)));
  EXPECT_FALSE(terms_vanish(canonical_of(padded_product(Monoid::Max), MathMode::Relaxed)));
  EXPECT_FALSE(terms_vanish(canonical_of(padded_product(std::nullopt), MathMode::Relaxed)));
  SpecBuilder s;  // a padded summand
  const Expression i = s.axis(9), k = s.axis(4);
  const int x = s.slot(36), y = s.slot(36);
  s.output(s.value({0}, {1}, Monoid::Add,
                   {s.load(x, (i - 2) * 4 + k, {{(i - 2).gte(0), Number(0)}}), s.load(y, i * 4 + k)},
                   [](ScalarBuilder& b, Scalars in) { return b.add(in[0], in[1]); }),
           i, 9);
  EXPECT_FALSE(terms_vanish(canonical_of(s.parts(), MathMode::Relaxed)));
}
TEST(CanonicalModes, StrictSumsFollowNoMaximum) {
  const auto online = [](const KernelSpec& spec) {
    return std::ranges::any_of(spec.values(), &Value::online);
  };
  Graph cx;
  const auto softmax = WholeFusion(cx, 1).run(cx.tensor({3, 5}).softmax(-1).edge().source);
  ASSERT_TRUE(softmax);
  EXPECT_TRUE(online(canonical_of(softmax->spec.parts(), MathMode::Relaxed)));
  EXPECT_FALSE(online(canonical_of(softmax->spec.parts(), MathMode::Strict)));
}
/// What parts claim is found anew.
TEST(CanonicalModes, PermissionsAreNotTakenOver) {
  for (const MathMode mode : {MathMode::Strict, MathMode::Relaxed}) {
    SpecParts parts = padded_product(Monoid::Add, 1);
    for (Value& v : parts.values) v.online = v.masked_terms_vanish = true;
    const KernelSpec form = canonical_of(parts, mode);
    EXPECT_FALSE(terms_vanish(form));
    EXPECT_FALSE(std::ranges::any_of(form.values(), &Value::online));
  }
}

// --- Slots, axes and values

/// One name for tensors of several types or sizes: they are no one tensor.
TEST(CanonicalSlots, OfOneNameAreOneWhereTheyAreAlike) {
  const auto slots = [](const Expression& second, Dtype dtype) {
    SpecBuilder s;
    const Expression i = s.axis(9);
    const int x = s.slot(9, Dtype::I64), y = s.slot(second, dtype);
    const std::vector<uint32_t> names{7, 7};
    const Canonical c = canonical(row(s, {s.load(x, i), s.load(y, i)},
                                      [](ScalarBuilder& b, Scalars in) {
                                        return b.mul(in[0], b.add(in[0], b.convert(in[1], Dtype::I64)));
                                      }),
                                  names);
    return c.spec.slots().size();
  };
  EXPECT_EQ(slots(9, Dtype::I64), 1U);
  EXPECT_EQ(slots(10, Dtype::I64), 2U);
  EXPECT_EQ(slots(9, Dtype::I32), 2U);
}

/// Y[i,j] = what a formula of the two gives, which is i * 4 + j in no other way.
TEST(CanonicalAxes, AreOneWhereAllDependsOnTheTwoTogether) {
  const auto axes_left = [](const std::function<Expression(Expression, Expression)>& formula) {
    SpecBuilder s;
    const Expression i = s.axis(3), j = s.axis(4);
    const int v = s.value({0, 1}, {}, std::nullopt, {SpecBuilder::number(formula(i, j))},
                          [](ScalarBuilder&, Scalars in) { return in[0]; });
    s.output(v, i * 4 + j, 12);
    return same_meaning(s.parts()).extents().size();
  };
  EXPECT_EQ(axes_left([](auto i, auto j) { return i * 8 + j * 2; }), 1U);
  EXPECT_EQ(axes_left([](auto i, auto j) { return i * 4 - j; }), 2U);
  EXPECT_EQ(axes_left([](auto i, auto j) { return i * i * 4 + j * j; }), 2U);
  EXPECT_EQ(axes_left([](auto i, auto j) { return i * j; }), 2U);
  EXPECT_EQ(axes_left([](auto i, auto j) { return (i * 4 + j) * ((i * 4 + j) % 5); }), 2U);
}

Scalar product(ScalarBuilder& b, Scalars in) {
  Scalar result = in[0];
  for (size_t k = 1; k < in.size(); ++k) result = b.mul(result, in[k]);
  return result;
}

/// Z is read along an axis that a nested value reduces and along one of the loops around it: the two stay two.
TEST(CanonicalSharing, KeepsTheLoopsAroundAValueApart) {
  {  // three deep: Y[i] = max a: U[i,a] * Z[i] * sum b: W[a,b] * max c: X[b,c] * Z[c]
    SpecBuilder s;
    const Expression i = s.axis(3), a = s.axis(4), b = s.axis(5), c = s.axis(3);
    const int z = s.slot(3, Dtype::I32);
    const auto other = [&](const Expression& elements) { return s.slot(elements, Dtype::I32); };
    const int v1 = s.value({2}, {3}, Monoid::Max, {s.load(other(15), b * 3 + c), s.load(z, c)}, product);
    const int v2 = s.value({1}, {2}, Monoid::Add, {s.load(other(20), a * 5 + b), s.read(v1)}, product);
    const int v3 =
        s.value({0}, {1}, Monoid::Max, {s.load(other(12), i * 4 + a), s.read(v2), s.load(z, i)}, product);
    s.output(v3, i, 3);
    EXPECT_EQ(same_meaning(s.parts()).extents().size(), 4U);
  }
  {  // read where the axis is free: Y[i] = sum b: U[i,b] * max d: (Q[b,d] * Z[d] * sum c: X[b,c] * Z[c])
    SpecBuilder s;
    const Expression i = s.axis(2), b = s.axis(5), c = s.axis(3), d = s.axis(3);
    const int z = s.slot(3, Dtype::I32);
    const auto other = [&](const Expression& elements) { return s.slot(elements, Dtype::I32); };
    const int w = s.value({1}, {2}, Monoid::Add, {s.load(other(15), b * 3 + c), s.load(z, c)}, product);
    const int v =
        s.value({1}, {3}, Monoid::Max, {s.load(other(16), b * 3 + d), s.load(z, d), s.read(w)}, product);
    s.output(s.value({0}, {1}, Monoid::Add, {s.load(other(10), i * 5 + b), s.read(v)}, product), i, 2);
    EXPECT_EQ(same_meaning(s.parts()).extents().size(), 4U);
  }
  {  // reduced, and an axis of the result: Y[i,j] = A[i,j] * sum j: U[i,j] * Z[i] * max c: X[j,c] * Z[c]
    SpecBuilder s;
    const Expression i = s.axis(3), j = s.axis(5), c = s.axis(3);
    const int z = s.slot(3, Dtype::I32);
    const auto other = [&](const Expression& elements) { return s.slot(elements, Dtype::I32); };
    const int w = s.value({1}, {2}, Monoid::Max, {s.load(other(15), j * 3 + c), s.load(z, c)}, product);
    const int v =
        s.value({0}, {1}, Monoid::Add, {s.load(other(16), i * 5 + j), s.read(w), s.load(z, i)}, product);
    s.output(s.value({0, 1}, {}, std::nullopt, {s.load(other(17), i * 5 + j), s.read(v)}, product), i * 5 + j,
             15);
    EXPECT_EQ(same_meaning(s.parts()).extents().size(), 3U);
  }
}

/// Y[i] = Z[i] * max c: X[c] * Z[c], where c ends before i does.
TEST(CanonicalSharing, KeepsAxesOfSeveralExtentsApart) {
  SpecBuilder s;
  const Expression i = s.axis(5), c = s.axis(3);
  const int z = s.slot(8, Dtype::I32), x = s.slot(3, Dtype::I32);
  const int most = s.value({}, {1}, Monoid::Max, {s.load(x, c), s.load(z, c)}, product);
  s.output(s.value({0}, {}, std::nullopt, {s.load(z, i), s.read(most)}, product), i, 5);
  EXPECT_EQ(same_meaning(s.parts()).extents().size(), 2U);
}

/// Quotients by what may be negative cut no axis.
TEST(CanonicalAxes, AreNotSplitByNumbersOfEitherSign) {
  const Expression n = Expression::dim("n", {.min = 1, .max = 6}), by = n - 3;
  SpecBuilder s;
  const Expression i = s.axis(by * by);
  const int v = s.value({0}, {}, std::nullopt, {SpecBuilder::number(i / by)},
                        [](ScalarBuilder&, Scalars in) { return in[0]; });
  s.output(v, i, by * by);
  for (const int64_t size : {1, 2, 4, 6}) (void)same_meaning(s.parts(), {{"n", size}});
}

/// An axis more than a set holds is not made.
TEST(CanonicalAxes, AreNotSplitBeyondTheLimit) {
  SpecBuilder s;
  const Expression i = s.axis(4);
  std::vector<Operand> operands{s.load(s.slot(2), i / 2), s.load(s.slot(2), i % 2)};
  std::vector<int> reduced;
  for (int a = 1; a < kMaxAxes; ++a) {
    operands.push_back(s.load(s.slot(2), s.axis(2)));
    reduced.push_back(a);
  }
  const int v = s.value({0}, reduced, Monoid::Max, operands, [](ScalarBuilder& b, Scalars in) {
    Scalar sum = in[0];
    for (size_t k = 1; k < in.size(); ++k) sum = b.add(b.sqrt(sum), in[k]);
    return sum;
  });
  s.output(v, i, 4);
  EXPECT_EQ(s.finish().spec.extents().size(), static_cast<size_t>(kMaxAxes));
}

/// A sum that is stored, or read twice, is not computed again by what adds it up.
TEST(CanonicalValues, SumsOfSumsThatOthersReadStay) {
  SpecBuilder s;
  const Expression i = s.axis(3), j = s.axis(5);
  const auto same = [](ScalarBuilder&, Scalars in) { return in[0]; };
  const int rows = s.value({0}, {1}, Monoid::Add, {s.load(s.slot(15, Dtype::I32), i * 5 + j)}, same);
  s.output(rows, i, 3);
  s.output(s.value({}, {0}, Monoid::Add, {s.read(rows)}, same), 0, 1);
  const KernelSpec form = same_meaning(s.parts());
  const Value& all = form.values()[static_cast<size_t>(form.outputs()[1].value)];
  EXPECT_EQ(all.operands[0].kind, Operand::Kind::Value) << form.to_string();
}

/// Y[m] = sum j: sum m: A[m,j], where m may be empty: its axis is one of Y and another of the sum.
TEST(CanonicalValues, AxesOfAnInnerSumAreNoAxesOfTheOuterOne) {
  const Expression m = Expression::dim("m", {.min = 0, .max = 1});
  SpecBuilder s;
  const Expression at = s.axis(m), j = s.axis(5);
  const auto same = [](ScalarBuilder&, Scalars in) { return in[0]; };
  const int inner = s.value({1}, {0}, Monoid::Add, {s.load(s.slot(m * 5, Dtype::I32), at * 5 + j)}, same);
  s.output(s.value({0}, {1}, Monoid::Add, {s.read(inner)}, same), at, m);
  for (const int64_t size : {0, 1}) (void)same_meaning(s.parts(), {{"m", size}});
}

}  // namespace
}  // namespace luminal::kernel::test
