#include "kernel/laws.h"

#include <gmock/gmock.h>

#include <array>

#include "kernel/cost.h"
#include "luminal/convolution.h"
#include "luminal/error.h"
#include "unit/kernel/check.h"

namespace luminal::kernel::test {
namespace {

TensorData random_data(const Slot& slot, uint64_t seed, const DimMap& dims = {}) {
  std::mt19937_64 random(seed);
  TensorData data(slot.dtype, {slot.elements.exec(dims)});
  visit_dtype(slot.dtype, [&]<class T>(T) {
    for (T& x : data.as<T>()) x = static_cast<T>(static_cast<float>(random() % 17) / 4.0F - 2.0F);
  });
  return data;
}

std::vector<TensorData> random_slots(const KernelSpec& spec) {
  std::vector<TensorData> data;
  for (size_t k = 0; k < spec.slots().size(); ++k) data.push_back(random_data(spec.slots()[k], k + 1));
  return data;
}

/// outer(inner(..)) has the values of the whole.
void expect_same_values(const KernelSpec& whole, const Split& split) {
  const auto data = random_slots(whole);
  const auto pick = [&](const std::vector<int>& slots, const TensorData* inner) {
    std::vector<TensorData> picked;
    for (const int s : slots) picked.push_back(s < 0 ? *inner : data[static_cast<size_t>(s)]);
    return picked;
  };
  const TensorData inner = evaluate(split.inner, pick(split.inner_slots, nullptr))[0];
  const TensorData got = evaluate(split.outer, pick(split.outer_slots, &inner))[0];
  expect_equal(got, evaluate(whole, data)[0], 1e-5, split.inner.to_string() + split.outer.to_string());
}

/// The factor outside, then the pieces composed again: the normal form.
KernelSpec factored(const KernelSpec& spec) {
  const auto split = leave_sum(spec);
  if (!split) return spec;
  expect_same_values(spec, *split);
  for (size_t k = 0; k < split->outer_slots.size(); ++k)
    if (split->outer_slots[k] < 0) return compose(split->outer, static_cast<int>(k), split->inner)->spec;
  ADD_FAILURE() << "the inner result is not read";
  return spec;
}

TEST(Laws, FiveSpellingsOfOneContractionAreOneSpec) {
  Graph cx;
  auto a = cx.tensor({6, 8}), b = cx.tensor({8, 5}), scale = cx.tensor({1});
  auto bt = cx.tensor({8, 5});
  const auto spread_a = [&](GraphTensor t) { return t.expand_dim(2, 5); };
  const auto spread_b = [&](GraphTensor t) { return t.expand_dim(0, 6); };
  const auto s2 = [&](GraphTensor t) {
    Shape dims = t.dims();
    return t * scale.reshape({1, 1}).expand(dims);
  };
  const std::vector<KernelSpec> specs = {
      spec_behind(cx, s2(a.matmul(b))), spec_behind(cx, s2((spread_a(a) * spread_b(b)).sum(1))),
      spec_behind(cx, s2(b.permute({1, 0}).matmul(a.permute({1, 0})).permute({1, 0}))),
      factored(spec_behind(cx, s2(a).matmul(b))),
      spec_behind(cx, s2((spread_a(a) * spread_b(b)).reshape({6, 2, 4, 5}).sum(2).sum(1)))};
  for (size_t k = 1; k < specs.size(); ++k)
    EXPECT_EQ(specs[k], specs[0]) << k << "\n" << specs[0].to_string() << specs[k].to_string();
}

TEST(Laws, DivisorsAndSignsLeaveASum) {
  Graph cx;
  auto a = cx.tensor({6, 8}), b = cx.tensor({6});
  const KernelSpec spec = spec_behind(cx, (-(a / b.expand_dim(1, 8)) * 3.0F).sum(1));
  const auto split = leave_sum(spec);
  ASSERT_TRUE(split);
  expect_same_values(spec, *split);
  EXPECT_EQ(split->inner.values()[0].body.nodes().size(), 1) << split->inner.to_string();
  EXPECT_FALSE(leave_sum(split->inner));
}

TEST(Laws, FactorsLeaveAChoiceBesideZero) {
  Graph cx;
  auto a = cx.tensor({6, 8}), b = cx.tensor({6}), c = cx.tensor({6, 8});
  const GraphTensor factor = b.expand_dim(1, 8);
  struct Case {
    GraphTensor sum;
    std::string inner;  ///< what is summed
  };
  const auto chosen = [&](const GraphTensor& yes, const GraphTensor& no) {
    return where(c.lt(0.5F), yes, no);
  };
  const GraphTensor none = cx.constant(0.0F).expand_dim(0, 8).expand_dim(0, 6);
  for (const auto& [sum, inner] : std::vector<Case>{
           {chosen(a * factor, none).sum(1), "sum j in 8: where(A[i,j] < 0.5, B[i,j], 0)"},
           {chosen(none, -(a / factor)).sum(1), "sum j in 8: where(A[i,j] < 0.5, 0, B[i,j])"},
           {chosen(factor, none).sum(1), "sum j in 8: where(A[i,j] < 0.5, 1, 0)"},
           {(chosen(chosen(factor * 2.0F, none) * a, none) * c).sum(1),
            "sum j in 8: A[i,j] * where(A[i,j] < 0.5, B[i,j] * where(A[i,j] < 0.5, 1, 0), 0)"},
       }) {
    const KernelSpec spec = spec_behind(cx, sum);
    const auto split = leave_sum(spec);
    ASSERT_TRUE(split) << spec.to_string();
    expect_same_values(spec, *split);
    EXPECT_THAT(split->inner.to_string(), testing::HasSubstr(inner));
    EXPECT_FALSE(leave_sum(split->inner)) << split->inner.to_string();
  }
  EXPECT_FALSE(leave_sum(spec_behind(cx, chosen(a * factor, factor).sum(1))))
      << "the other branch is not zero";
  EXPECT_FALSE(leave_sum(spec_behind(cx, chosen(a, none).sum(1))));
}

/// What a constant makes of a sum that it leaves has figures: at most 2^24 times what it was.
TEST(Laws, ConstantsLeaveASumWhereItGrowsWithinTheBound) {
  Graph cx;
  auto a = cx.tensor({6, 8}), b = cx.tensor({6});
  const GraphTensor row = b.expand_dim(1, 8);
  const auto leaves = [&](const GraphTensor& terms) {
    const KernelSpec spec = spec_behind(cx, terms.sum(1));
    const auto split = leave_sum_constants(spec);
    if (split) expect_same_values(spec, *split);
    return split.has_value();
  };
  EXPECT_TRUE(leaves(a * 3.0F));
  EXPECT_TRUE(leaves(-a));
  EXPECT_TRUE(leaves(a * 0x1p-24F));
  EXPECT_FALSE(leaves(a * 0x1.fffp-25F));
  EXPECT_TRUE(leaves(a / 0x1p24F));
  EXPECT_FALSE(leaves(a / 0x1.001p24F));
  EXPECT_FALSE(leaves(a * 0.0F)) << "0 times a sum that overflowed is NaN";
  EXPECT_FALSE(leaves(a / 0.0F));
  EXPECT_FALSE(leaves(a * std::numeric_limits<float>::infinity()));
  EXPECT_FALSE(leaves(a * std::numeric_limits<float>::quiet_NaN()));
  EXPECT_FALSE(leaves(a * row)) << "nothing is known of a tensor's numbers";
  EXPECT_FALSE(leaves(a / row));
  EXPECT_TRUE(leaves(a * row * 2.0F)) << "the constant alone";
  EXPECT_TRUE(leaves((a * 0x1p20F) * (row * 0x1p-20F)));
  EXPECT_FALSE(leaves((a * 0x1p30F) * (row * 0x1p-30F))) << "the sum times 2^30 comes before the rest";
}

TEST(Laws, NegativeConstantsLeaveASumToo) {
  Graph cx;
  auto a = cx.tensor({6, 8}), c = cx.tensor({6, 8});
  for (const GraphTensor& terms : {a * -3.0F, -(a * 3.0F), -(a * -(c * 3.0F))}) {
    const KernelSpec spec = spec_behind(cx, terms.sum(1));
    const auto split = leave_sum_constants(spec);
    ASSERT_TRUE(split) << spec.to_string();
    expect_same_values(spec, *split);
  }
}

/// Put together in another order, a product of what stays may overflow on the way.
TEST(Laws, WhatStaysInASumKeepsItsOrder) {
  Graph cx;
  auto a = cx.tensor({6, 8}), b = cx.tensor({6, 8}), c = cx.tensor({6, 8}), d = cx.tensor({6, 8});
  const auto split = leave_sum_constants(spec_behind(cx, ((a * b) * (c * d) * 3.0F).sum(1)));
  ASSERT_TRUE(split);
  EXPECT_THAT(split->inner.to_string(), testing::HasSubstr("A[i,j] * B[i,j] * (C[i,j] * D[i,j])"));
}

/// The law would make tensors in the middle of a kernel.
TEST(Laws, NothingLeavesANestedReduction) {
  Graph cx;
  auto a = cx.tensor({6, 8, 4}), b = cx.tensor({6, 8});
  const auto nested = [&](const GraphTensor& inside) { return spec_behind(cx, inside.exp2().sum(1)); };
  EXPECT_FALSE(leave_sum(nested((a * b.expand_dim(2, 4)).sum(2))));
  EXPECT_FALSE(leave_sum_constants(nested((a * 3.0F).sum(2))));
  EXPECT_FALSE(leave_max(nested((a * 3.0F).max(2))));
}

/// Halves are summed in f32 and rounded as the graph says; what leaves would be rounded at other places.
TEST(Laws, NothingLeavesReductionsOfHalves) {
  Graph cx;
  for (const Dtype dtype : {Dtype::F16, Dtype::BF16}) {
    auto a = cx.tensor({6, 8}, dtype), b = cx.tensor({6}, dtype);
    EXPECT_FALSE(leave_sum(spec_behind(cx, (a * b.expand_dim(1, 8)).sum(1))));
    EXPECT_FALSE(leave_sum_constants(spec_behind(cx, (a * 3.0F).sum(1))));
    EXPECT_FALSE(leave_max(spec_behind(cx, (a * 3.0F).max(1))));
    EXPECT_FALSE(leave_sum(spec_behind(cx, (-a).sum(1))));
    EXPECT_FALSE(leave_sum_constants(spec_behind(cx, (-a).sum(1))));
  }
}

TEST(Laws, ConstantsOfIntegersAreLeftToTheExactLaw) {
  Graph cx;
  auto a = cx.tensor({6, 8}, Dtype::I64);
  for (const GraphTensor& terms : {a * int64_t{3}, -a}) {
    const KernelSpec spec = spec_behind(cx, terms.sum(1));
    EXPECT_FALSE(leave_sum_constants(spec));
    const auto split = leave_sum(spec);
    ASSERT_TRUE(split) << spec.to_string();
    expect_same_values(spec, *split);
  }
}

/// Five squares make 64 factors of a product of two.
TEST(Laws, NothingLeavesALongProduct) {
  Graph cx;
  auto a = cx.tensor({6, 8}), b = cx.tensor({6});
  GraphTensor power = a * b.expand_dim(1, 8);
  for (int i = 0; i < 5; ++i) power = power * power;
  EXPECT_FALSE(leave_sum(spec_behind(cx, power.sum(1))));
}

TEST(Laws, APositiveConstantLeavesAMaximum) {
  Graph cx;
  auto a = cx.tensor({6, 8});
  const KernelSpec spec = spec_behind(cx, (a * 3.0F).max(1));
  const auto split = leave_max(spec);
  ASSERT_TRUE(split);
  expect_same_values(spec, *split);
  EXPECT_FALSE(leave_max(spec_behind(cx, (a * -3.0F).max(1))));
  EXPECT_FALSE(leave_max(spec_behind(cx, (a * 0.0F).max(1)))) << "0 * inf";
  EXPECT_FALSE(leave_max(spec_behind(cx, (a * std::numeric_limits<float>::infinity()).max(1))));
  auto c = cx.tensor({6, 8}), row = cx.tensor({6});
  EXPECT_FALSE(leave_max(spec_behind(cx, (-(a * 3.0F)).max(1)))) << "the greatest becomes the least";
  EXPECT_FALSE(leave_max(spec_behind(cx, (a * row.expand_dim(1, 8)).max(1))))
      << "nothing is known of the row";
  EXPECT_FALSE(leave_max(spec_behind(cx, (a * 3.0F * c).max(1)))) << "a * 3 rounds before the product";
  EXPECT_FALSE(leave_max(spec_behind(cx, (a * 3.0F / 7.0F).max(1)))) << "rounds twice";
  const GraphTensor none = cx.constant(0.0F).expand_dim(0, 8).expand_dim(0, 6);
  EXPECT_TRUE(leave_max(spec_behind(cx, where(c.lt(0.5F), a * 3.0F, none).max(1))));
  EXPECT_FALSE(leave_max(spec_behind(cx, where(c.lt(0.5F), a * 3.0F * c, none).max(1))));
  auto whole = cx.tensor({6, 8}, Dtype::I32);
  EXPECT_FALSE(leave_max(spec_behind(cx, (whole * 3).max(1)))) << "products of integers wrap";
}

TEST(Laws, SumsOfEqualTermsAreProducts) {
  Graph cx;
  auto a = cx.tensor({6});
  const KernelSpec spec = spec_behind(cx, a.expand_dim(1, 8).sum(1));
  const auto once = reduce_repeated(spec);
  ASSERT_TRUE(once);
  EXPECT_EQ(once->spec.to_string(), "kernel f32[6]\n  i in 6: Y[i] = A[i] * 8\n");
  const auto data = random_slots(spec);
  expect_equal(evaluate(once->spec, data)[0], evaluate(spec, data)[0], 1e-6, "");
}

TEST(Laws, RepeatedTermsAreCountedOverAllAxesThatRepeatThem) {
  Graph cx;
  auto a = cx.tensor({6}), b = cx.tensor({6, 4});
  for (const GraphTensor& out :
       {a.expand_dim(0, 8).expand_dim(2, 5).sum({0, 2}), b.expand_dim(2, 5).sum({1, 2}),
        b.expand_dim(1, 5).sum({1, 2}), a.expand_dim(1, 8).max(1), b.expand_dim(2, 5).max({1, 2})}) {
    const KernelSpec spec = spec_behind(cx, out);
    const auto once = reduce_repeated(spec);
    ASSERT_TRUE(once) << spec.to_string();
    const auto data = random_slots(spec);
    expect_equal(evaluate(once->spec, data)[0], evaluate(spec, data)[0], 1e-6, once->spec.to_string());
  }
}

TEST(Laws, RepeatedTermsOfAProductStay) {
  Graph cx;
  EXPECT_FALSE(reduce_repeated(spec_behind(cx, cx.tensor({6}).expand_dim(1, 8).prod(1))));
}

/// What nothing is summed of is no term.
TEST(Laws, AxesThatMayBeEmptyKeepTheirLoops) {
  Graph cx;
  EXPECT_FALSE(reduce_repeated(spec_behind(cx, cx.tensor({6}).expand_dim(1, "n").sum(1))));
  EXPECT_FALSE(reduce_repeated(spec_behind(cx, cx.tensor({6}).expand_dim(1, "n").max(1))));
}

TEST(Laws, AConstantThatIsReadThroughAMaskIsThereWhereTheMaskHolds) {
  Graph cx;
  auto a = cx.tensor({6, 4});
  const KernelSpec spec = spec_behind(cx, a.pad_along(0, 1, 0, 5.0F) * cx.tensor({7, 4}));
  for (const int slot : {0, 1}) {
    const auto folded = fold_constant(spec, slot, 2.0);
    ASSERT_TRUE(folded);
    auto data = random_slots(spec);
    for (float& x : data[static_cast<size_t>(slot)].as<float>()) x = 2;
    std::vector<TensorData> rest;
    for (const auto& from : folded->slots) rest.push_back(data[static_cast<size_t>(from.slot)]);
    EXPECT_EQ(rest.size(), 1);
    expect_equal(evaluate(folded->spec, rest)[0], evaluate(spec, data)[0], 0, folded->spec.to_string());
  }
}

TEST(Laws, IdentitiesCopiesAndConstants) {
  Graph cx;
  auto a = cx.tensor({6, 4});
  EXPECT_EQ(identity_of(spec_behind(cx, a * 1.0F)), 0);
  EXPECT_EQ(identity_of(spec_behind(cx, a + 0.0F)), std::nullopt) << "-0 + 0 is 0";
  EXPECT_EQ(identity_of(spec_behind(cx, a + 0.0F), MathMode::Relaxed), 0);
  EXPECT_EQ(identity_of(spec_behind(cx, a.permute({1, 0}) * 1.0F)), std::nullopt);
  EXPECT_EQ(identity_of(spec_behind(cx, a.slice_along(0, 0, 3) * 1.0F)), std::nullopt) << "not all of it";
  EXPECT_EQ(identity_of(spec_behind(cx, a.slice_along(0, 0, 3).pad_along(0, 0, 3) * 1.0F)), std::nullopt)
      << "zeros for half of it";
  EXPECT_EQ(identity_of(spec_behind(cx, a.relu()), MathMode::Relaxed), std::nullopt);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(identity_of(spec_behind(cx, maximum(a, cx.full({6, 4}, -kInfinity)))), 0);
  EXPECT_EQ(identity_of(spec_behind(cx, maximum(a, cx.full({6, 4}, kInfinity)))), std::nullopt);
  for (const MathMode mode : {MathMode::Strict, MathMode::Relaxed}) {
    EXPECT_EQ(identity_of(spec_behind(cx, a * cx.full({6, 4}, -kInfinity)), mode), std::nullopt);
    EXPECT_EQ(identity_of(spec_behind(cx, a + cx.full({6, 4}, -kInfinity)), mode), std::nullopt);
  }
  auto whole = cx.tensor({6, 4}, Dtype::I32);
  constexpr auto kLeast = int64_t{std::numeric_limits<int32_t>::lowest()}, kMost = -1 - kLeast;
  EXPECT_EQ(identity_of(spec_behind(cx, maximum(whole, cx.full({6, 4}, kLeast, Dtype::I32)))), 0);
  EXPECT_EQ(identity_of(spec_behind(cx, maximum(whole, cx.full({6, 4}, kMost, Dtype::I32)))), std::nullopt);
  const KernelSpec numbers = spec_behind(cx, cx.arange(24) * int64_t{1});
  EXPECT_EQ(identity_of(numbers), std::nullopt) << "nothing is read";
  EXPECT_FALSE(is_copy(numbers));
  const KernelSpec copy = spec_behind(cx, a * 1.0F);
  const auto twice = merge_siblings(copy, copy, std::vector<uint32_t>{7}, std::vector<uint32_t>{7});
  ASSERT_TRUE(twice);
  EXPECT_EQ(identity_of(twice->spec), std::nullopt) << "two results";
  EXPECT_FALSE(is_copy(twice->spec));
  EXPECT_TRUE(is_copy(spec_behind(cx, a.permute({1, 0}) * 1.0F)));
  EXPECT_FALSE(is_copy(spec_behind(cx, a * 2.0F)));
  const KernelSpec product = spec_behind(cx, a.pad_along(0, 1, 0, 2.0F) * cx.tensor({7, 4}));
  const auto folded = fold_constant(product, 0, 2.0);
  ASSERT_TRUE(folded);
  EXPECT_EQ(folded->spec.slots().size(), 1) << folded->spec.to_string();
}

TEST(Merge, ExportsAndSiblings) {
  Graph cx;
  auto x = cx.tensor({6, 4}), w = cx.tensor({4, 3});
  fill(x, 1), fill(w, 2);
  auto h = x.matmul(w);
  auto y = h.relu();
  const Imported producer = *WholeFusion(cx, 1).run(cx.resolve(h.edge()).source);
  const Imported consumer = import_node(cx, cx.resolve(y.edge()).source.node);
  const auto both = compose_exporting(consumer.spec, std::array{0}, producer.spec);
  ASSERT_TRUE(both);
  EXPECT_EQ(both->spec.to_string(),
            "kernel f32[6,3]\n"
            "  i in 6, j in 3:\n"
            "    Y1[i,j] = sum k in 4: A[i,k] * B[k,j]\n"
            "    Y[i,j] = max(Y1[i,j], 0)\n");
  const auto data = random_slots(both->spec);
  const auto got = evaluate(both->spec, data);
  expect_equal(got[1], evaluate(producer.spec, data)[0], 0, "export");

  const KernelSpec flat = spec_behind(cx, x * 2.0F), rows = spec_behind(cx, x.softmax(-1));
  const auto merged = merge_siblings(flat, rows, std::vector<uint32_t>{7}, std::vector<uint32_t>{7});
  ASSERT_TRUE(merged);
  EXPECT_EQ(merged->spec.slots().size(), 1);
  const auto values = evaluate(merged->spec, random_slots(flat));
  expect_equal(values[0], evaluate(flat, random_slots(flat))[0], 0, "first");
  expect_equal(values[1], evaluate(rows, random_slots(flat))[0], 1e-6, "second");
  EXPECT_FALSE(merge_siblings(flat, producer.spec));
}

TEST(Json, RoundTrips) {
  Graph cx;
  auto x = cx.tensor({"b", 6});
  const KernelSpec spec =
      spec_behind(cx, x.pad_along(1, 1, 1, -std::numeric_limits<double>::infinity()).softmax(-1));
  EXPECT_EQ(KernelSpec::parse_json(spec.to_json()), spec) << spec.to_json();
  EXPECT_EQ(KernelSpec::parse_json(spec.to_json()).hash(), spec.hash());
}

TEST(Json, DamageIsAFormatError) {
  Graph cx;
  auto x = cx.tensor({4, 6}), w = cx.tensor({6, 3});
  const std::string text = spec_behind(cx, x.matmul(w).relu()).to_json();
  std::mt19937_64 random(1);
  for (int k = 0; k < 2000; ++k) {
    std::string damaged = text;
    damaged[random() % damaged.size()] = "0159,[]{}\":x"[random() % 12];
    try {
      (void)KernelSpec::parse_json(damaged);
    } catch (const Error& error) {  // never anything else
      ASSERT_THAT(error.what(), testing::Not(testing::HasSubstr("internal error"))) << damaged;
    }
  }
  EXPECT_THROW((void)KernelSpec::parse_json("{"), FormatError);
  EXPECT_THROW((void)KernelSpec::parse_json("{}"), FormatError);
}

TEST(Cost, CountsWhatAnExpertWould) {
  Graph cx;
  auto x = cx.tensor({64, 16, 14, 14}), w = cx.tensor({32, 16, 3, 3});
  const KernelSpec conv = spec_behind(cx, conv2d(x, w, {.padding = {1, 1}}));
  const Work work = work_of(conv, {});
  const double macs = 64.0 * 32 * 14 * 14 * 16 * 9;
  EXPECT_EQ(work.flops, 2 * macs);
  EXPECT_EQ(work.bytes_written, 64.0 * 32 * 14 * 14 * 4);
  EXPECT_EQ(work.bytes_read, (64.0 * 16 * 14 * 14 + 32 * 16 * 9) * 4) << conv.to_string();

  auto big = cx.tensor({100, 100});
  EXPECT_EQ(work_of(spec_behind(cx, big.slice_along(0, 0, 10) * 2.0F), {}).bytes_read, 10 * 100 * 4);
  EXPECT_EQ(work_of(spec_behind(cx, big.slice_along(1, 0, 10) * 2.0F), {}).bytes_read, 10 * 100 * 4);
  auto row = cx.tensor({100});
  EXPECT_EQ(work_of(spec_behind(cx, big + row.expand_dim(0, 100)), {}).bytes_read, 100 * 101 * 4);

  const MachineLimits limits;
  const double us = predicted_us(conv, {}, limits);
  EXPECT_GT(us, 2 * macs / limits.flops_per_us);
  EXPECT_LT(us, 2 * 2 * macs / limits.flops_per_us);
  const double plain = predicted_us(spec_behind(cx, big + 1.0F), {}, limits);
  EXPECT_GE(predicted_us(spec_behind(cx, big.permute({1, 0}) + 1.0F), {}, limits), plain);
}

/// One walk computes a contraction inside of a reduction of rows; nothing tiles one inside of a reduction of all.
TEST(Cost, AContractionInsideAnotherReductionIsDearUnlessItStreams) {
  Graph cx;
  const MachineLimits limits;
  auto x = cx.tensor({64, 128}), w = cx.tensor({128, 96});
  const KernelSpec product = spec_behind(cx, x.matmul(w));
  const auto rows = compose(spec_behind(cx, cx.tensor({64, 96}).max(1)), 0, product);
  const auto all = compose(spec_behind(cx, cx.tensor({64, 96}).max({0, 1})), 0, product);
  ASSERT_TRUE(rows && all);
  EXPECT_LT(predicted_us(rows->spec, {}, limits), 2 * predicted_us(product, {}, limits));
  EXPECT_GT(predicted_us(all->spec, {}, limits), 2 * predicted_us(product, {}, limits));
}

/// A walk over keys that reads a sum for each key takes it from memory for nearly nothing; one that makes the sum itself
/// makes it again for each tile of queries.
TEST(Cost, AFoldThatAWalkMakesAtEachPlaceIsDear) {
  Graph cx;
  const MachineLimits limits;
  const auto walk = [&](int64_t queries, const GraphTensor& sum_by_key) {
    const GraphTensor q = cx.tensor({queries, 16}), k = cx.tensor({300, 16}), v = cx.tensor({300, 16});
    const GraphTensor weights = q.matmul(k.t()).exp() * sum_by_key.unsqueeze(0);
    return predicted_us(spec_behind(cx, weights.matmul(v)), {}, limits);
  };
  const GraphTensor read = cx.tensor({300}), made = cx.tensor({300, 500}).sum(1);
  EXPECT_GT(walk(2000, made), 1.5 * walk(2000, read));
  EXPECT_LT(walk(8, made), walk(8, read) + predicted_us(spec_behind(cx, made), {}, limits));
}

}  // namespace
}  // namespace luminal::kernel::test
