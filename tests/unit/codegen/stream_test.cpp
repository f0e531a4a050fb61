#include "codegen/schedules/stream.h"

#include <gtest/gtest.h>

#include "attention_specs.h"
#include "cases.h"
#include "codegen/schedules/families.h"

namespace luminal::codegen {
namespace {

using namespace test_cases;
using Mask = Attention::Mask;

constexpr double kTolerance = 2e-6;

/// The best candidate for each kind of registers, and the worst.
void check_stream(const KernelSpec& spec, const Bucket& bucket = {},
                  const std::vector<DimMap>& sizes = {{}}) {
  for (const Target& target : {avx512(), avx2()}) {
    const auto list = stream_schedule().candidates(spec, bucket, target);
    ASSERT_FALSE(list.empty()) << spec.to_string();
    for (const Candidate* c : {&list.front(), &list.back()})
      check_loops(stream_schedule(), spec, c->parameters, bucket, target, sizes, kTolerance);
  }
}

TEST(Stream, FindsTheParts) {
  const KernelSpec spec = Attention{2, 5, 7, 4, 3}.spec().spec;
  const auto s = stream::stream_of(spec);
  ASSERT_TRUE(s.has_value()) << spec.to_string();
  EXPECT_EQ(s->batch, std::vector<int>{0});
  EXPECT_EQ(s->rows, std::vector<int>{1});
  EXPECT_EQ(s->inner.size(), 1U);
  ASSERT_EQ(s->folds.size(), 2U);
  EXPECT_FALSE(s->folds[0].online);
  EXPECT_TRUE(s->folds[1].online);
  ASSERT_EQ(s->columns.size(), 1U);
  EXPECT_TRUE(s->columns[0].online);
  EXPECT_FALSE(s->columns[0].read_varies);
}

TEST(Stream, TheDivisionLeavesTheSum) {
  EXPECT_EQ(
      (Attention{2, 5, 7, 4, 3}.spec().spec),
      (Attention{.heads = 2, .queries = 5, .keys = 7, .size = 4, .columns = 3, .normalise_inside = false}
           .spec()
           .spec));
}

TEST(Stream, AttentionAtRaggedSizes) {
  for (const auto& [queries, keys, size, columns] :
       {std::array{33, 70, 9, 11}, std::array{1, 65, 8, 8}, std::array{64, 64, 16, 16},
        std::array{5, 2, 3, 17}, std::array{70, 300, 5, 2}})
    check_stream(Attention{2, queries, keys, size, columns}.spec().spec);
}

TEST(Stream, Masks) {
  for (const Mask mask : {Mask::Causal, Mask::Additive, Mask::Nothing})
    for (const double hidden : {-HUGE_VAL, -1e9})
      for (const bool clamped : {false, true})
        check_stream(Attention{.heads = 2,
                               .queries = 37,
                               .keys = 75,
                               .size = 6,
                               .columns = 5,
                               .mask = mask,
                               .hidden = hidden,
                               .clamped = clamped}
                         .spec()
                         .spec);
}

TEST(Stream, NamedDims) {
  Bucket bucket;
  bucket.facts["s"] = {.min = 1, .max = 80};
  bucket.facts["t"] = {.min = 1, .max = 80};
  const Expression s = Expression::dim("s", bucket.facts["s"]), t = Expression::dim("t", bucket.facts["t"]);
  check_stream(Attention{2, s, t, 8, 6, Mask::Causal}.spec().spec, bucket,
               {{{"s", 1}, {"t", 1}}, {{"s", 17}, {"t", 80}}, {{"s", 80}, {"t", 33}}});
}

TEST(Stream, DoublePrecision) {
  Attention a{2, 9, 40, 5, 4};
  a.dtype = Dtype::F64;
  check_stream(a.spec().spec);
}

TEST(Stream, StrictSpecsAreNotMarked) {
  const KernelSpec relaxed = Attention{2, 5, 7, 4, 3}.spec().spec;
  const KernelSpec strict = kernel::canonical(relaxed.parts(), {}, MathMode::Strict).spec;
  EXPECT_TRUE(std::ranges::any_of(relaxed.values(), &kernel::Value::online));
  EXPECT_TRUE(std::ranges::none_of(strict.values(), &kernel::Value::online));
  EXPECT_NE(relaxed, strict);
  EXPECT_TRUE(stream_schedule().candidates(strict, {}, avx512()).empty());
  EXPECT_EQ(KernelSpec::parse_json(relaxed.to_json()), relaxed);
}

}  // namespace
}  // namespace luminal::codegen
