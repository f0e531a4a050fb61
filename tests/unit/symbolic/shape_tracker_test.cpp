#include "luminal/shape_tracker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <numeric>

#include "luminal/error.h"

namespace luminal {
namespace {

using Pair = std::pair<Expression, Expression>;
using Pairs = std::vector<Pair>;
using testing::HasSubstr;

template <class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const ShapeError& e) {
    return e.what();
  }
  return "no error";
}

TEST(ShapeTracker, IndexMaps) {
  const auto v = ShapeTracker::contiguous({2, 6}).split_dims(1, 3).permute({2, 0, 1});
  EXPECT_EQ(v.dims(), (Shape{3, 2, 2}));
  EXPECT_EQ(v.index_expression().to_string(), "i0 + 6*i1 + 3*i2");
  EXPECT_EQ(v.to_string(), "[3, 2, 2] = [2, 6].split_dims(1, 3).permute(2, 0, 1)");
  EXPECT_EQ(v.strides(), (std::vector<Expression>{1, 6, 3}));
  EXPECT_FALSE(v.is_contiguous());

  const auto flat = v.merge_dims(0, 2);
  EXPECT_EQ(flat.index_expression().to_string(), "i0/4 + 3*(i0%4)");
  EXPECT_TRUE(flat.strides().empty());
  EXPECT_TRUE(flat.split_dims(0, 4).permute({1, 0}).reshape({2, 6}).is_identity());

  const auto flipped = ShapeTracker::contiguous({4}).flip(0);
  EXPECT_EQ(flipped.index_expression().to_string(), "3 - i0");
  EXPECT_TRUE(flipped.flip(0).is_identity());
  EXPECT_EQ(flipped.as_strided()->offset, 3);
  EXPECT_EQ(flipped.as_strided()->strides[0], -1);
  EXPECT_TRUE(flipped.strides().empty());  // an offset is not plain

  const auto row = ShapeTracker::contiguous({3, 4}).slice(Pairs{{1, 2}, {0, 4}});
  EXPECT_EQ(row.index_expression().to_string(), "i1 + 4");
}

TEST(ShapeTracker, SymbolicRoundTripsEndWhereTheyBegan) {
  const Expression b = "b", s = "s", t = "t";
  const auto x = ShapeTracker::contiguous({b, s, t});
  EXPECT_TRUE(x.merge_dims(0, 2).reshape({b, s * t}).split_dims(1, t).is_identity());
  EXPECT_TRUE(x.reshape({b * s, t}).reshape({-1}).reshape({b, s, t}).is_identity());
  EXPECT_TRUE(x.permute({2, 0, 1}).reshape({t, b * s}).permute({1, 0}).reshape({b, s, t}).is_identity());
  EXPECT_TRUE(ShapeTracker::contiguous({4, 6}).reshape({6, 4}).reshape({3, 8}).reshape({4, 6}).is_identity());
  EXPECT_TRUE(ShapeTracker::contiguous({4, s})
                  .permute({1, 0})
                  .reshape({2 * s, 2})
                  .reshape({s, 4})
                  .permute({1, 0})
                  .is_identity());
  EXPECT_TRUE(x.pad(Pairs{{0, 0}, {1, 2}, {0, 0}}).slice(Pairs{{0, b}, {1, s + 1}, {0, t}}).is_identity());
  EXPECT_TRUE(x.unsqueeze(1).squeeze(1).is_identity());
  EXPECT_EQ(x.reshape({b, -1}).dims()[1], s * t);
  EXPECT_EQ(x.reshape({-1, s}).dims()[0], b * t);
}

TEST(ShapeTracker, PadsKeepTheirOrder) {
  // Padded by 0 on the left, then by -inf: the outer border is -inf although the inner padding lies there
  // too.
  const auto v = ShapeTracker::contiguous({2}).pad(Pairs{{1, 0}}, 0.0).pad(Pairs{{1, 1}}, -INFINITY);
  ASSERT_EQ(v.masks().size(), 2u);
  const auto fill_at = [&](int64_t i) -> std::string {
    for (const auto& m : v.masks())
      if (m.predicate.exec({}, std::vector<int64_t>{i}) == 0) return m.fill.to_string();
    return "x" + std::to_string(v.index_expression().exec({}, std::vector<int64_t>{i}));
  };
  const std::vector<std::string> want = {"-inf", "0.0", "x0", "x1", "-inf"};
  for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(fill_at(i), want[static_cast<size_t>(i)]) << i;
  EXPECT_EQ(v.slice(Pairs{{1, 4}}).masks().size(), 1u);  // only the zero is left
  EXPECT_TRUE(v.slice(Pairs{{2, 4}}).is_identity());
  // Neighbouring pads of one fill are one mask; a slice wholly inside the padding reads nothing.
  EXPECT_EQ(ShapeTracker::contiguous({2}).pad(Pairs{{1, 1}}).pad(Pairs{{1, 1}}).masks().size(), 1u);
  EXPECT_EQ(v.slice(Pairs{{0, 1}}).valid_expression(), 0);
}

TEST(ShapeTracker, Pooling) {
  const Expression h = "h";
  const auto same = ShapeTracker::contiguous({h}).pad(Pairs{{1, 1}}).pool(0, 3);
  EXPECT_EQ(same.dims(), (Shape{h, 3}));
  EXPECT_EQ(same.index_expression().to_string(), "i0 + i1 - 1");
  EXPECT_EQ(same.valid_expression().to_string(), "(i0 + i1 >= 1) & (i0 + i1 <= h)");
  EXPECT_EQ(ShapeTracker::contiguous({h}).pool(0, 3).dims()[0].to_string(), "max(0, h - 2)");
  EXPECT_EQ(ShapeTracker::contiguous({2}).pool(0, 3).dims(), (Shape{0, 3}));
  EXPECT_EQ(ShapeTracker::contiguous({10}).pool(0, 3, 2, 2).dims(), (Shape{3, 3}));

  const MovementStep overlapping = same.steps().back();
  EXPECT_EQ(overlapping.free_dims, Shape{3});
  const MovementStep disjoint = ShapeTracker::contiguous({h}).pool(0, 2, 2).steps().back();
  EXPECT_TRUE(disjoint.free_dims.empty());  // its gradient needs no sum
  EXPECT_EQ(disjoint.adjoint().name, "adjoint pool");
}

TEST(ShapeTracker, SlicesClampAsInPython) {
  const Expression s = "s";
  const auto v = ShapeTracker::contiguous({5});
  EXPECT_EQ(v.slice(Pairs{{1, INT64_MAX}}).dims()[0], 4);
  EXPECT_EQ(v.slice(Pairs{{-2, 9}}).dims()[0], 2);
  EXPECT_EQ(v.slice(Pairs{{3, 1}}).dims()[0], 0);
  EXPECT_EQ(v.slice(Pairs{{-9, -4}}).dims()[0], 1);
  EXPECT_EQ(v.slice_along(0, 0, 5, 2).dims()[0], 3);
  const auto w = ShapeTracker::contiguous({s});
  EXPECT_EQ(w.slice(Pairs{{0, s}}), w);
  EXPECT_EQ(w.slice(Pairs{{0, 10}}).dims()[0].to_string(), "min(10, s)");
  EXPECT_EQ(w.slice(Pairs{{1, INT64_MAX}}).dims()[0].to_string(), "max(0, s - 1)");
  EXPECT_EQ(w.slice(Pairs{{0, -1}}).dims()[0].exec({{"s", 0}}), 0);
  // A symbolic end is taken at its word, and checked when sizes are known.
  const auto cache = ShapeTracker::contiguous({1024}).slice(Pairs{{0, s}});
  EXPECT_EQ(cache.dims()[0], s);
  EXPECT_NO_THROW(cache.check({{"s", 1024}}));
  EXPECT_THAT(message_of([&] { cache.check({{"s", 1025}}); }),
              HasSubstr("end s of axis 0 lies beyond 1024; slice within the dim (at s = 1025)"));
  EXPECT_THROW((void)cache.resolve_global_dyn_dims({{"s", 1025}}), ShapeError);
}

TEST(ShapeTracker, BroadcastAndStrided) {
  const Expression s = "s";
  const auto fake = ShapeTracker::fake({s, 3});
  EXPECT_EQ(fake.index_expression(), 0);
  EXPECT_EQ(fake.n_elements(), 3 * s);
  EXPECT_EQ(fake.n_physical_elements(), 1);
  EXPECT_EQ(fake.steps().size(), 2u);
  EXPECT_TRUE(fake.steps()[0].invertible);
  const auto wide = ShapeTracker::contiguous({3}).expand(0, s);
  EXPECT_EQ(wide.dims(), (Shape{s, 3}));
  EXPECT_EQ(wide.strides(), (std::vector<Expression>{0, 1}));
  EXPECT_FALSE(wide.is_contiguous());
  EXPECT_TRUE(wide.as_contiguous().is_identity());

  const auto strided = ShapeTracker::new_strided({2, 3}, std::vector<Expression>{10, 2});
  EXPECT_EQ(strided.n_physical_elements(), 15);  // 1*10 + 2*2 is the last
  EXPECT_EQ(strided.strides(), (std::vector<Expression>{10, 2}));
  EXPECT_THROW((void)strided.steps()[0].adjoint(), InternalError);
  EXPECT_EQ(
      ShapeTracker::new_strided({s, 3}, std::vector<Expression>{3, 1}).n_physical_elements().exec({{"s", 0}}),
      0);
  EXPECT_EQ(
      ShapeTracker::flatten_strides(std::vector<Expression>{s, 4}, std::vector<Expression>{1, s}).to_string(),
      "s*(z%4) + z/4");
}

TEST(ShapeTracker, SizesOneNeedNoStride) {
  const auto v = ShapeTracker::contiguous({2, 1, 3});
  EXPECT_EQ(v.strides(), (std::vector<Expression>{3, 3, 1}));
  EXPECT_TRUE(v.permute({1, 0, 2}).is_contiguous());
  EXPECT_FALSE(v.permute({1, 0, 2}).is_identity());
}

TEST(ShapeTracker, ResolvesSizes) {
  const Expression s = "s";
  const auto v = ShapeTracker::contiguous({s, 4}).pad(Pairs{{0, 0}, {0, 8 - s}}).merge_dims(0, 1);
  const auto r = v.resolve_global_dyn_dims({{"s", 8}});
  EXPECT_EQ(r.dims(), (Shape{32}));
  EXPECT_EQ(r.physical_dims(), (Shape{8, 4}));
  EXPECT_TRUE(r.is_contiguous());
  EXPECT_EQ(r.shape_usize(), std::vector<size_t>{32});
  EXPECT_THAT(message_of([&] { (void)v.shape_usize(); }), HasSubstr("is symbolic"));
  EXPECT_THROW((void)v.resolve_global_dyn_dims({{"s", 9}}), ShapeError);  // a pad of -1
}

TEST(ShapeTracker, ViewsCompose) {
  const auto a = ShapeTracker::contiguous({2, 6}).permute({1, 0});
  const auto b = ShapeTracker::contiguous({6, 2}).reshape({3, 4});
  EXPECT_EQ(a.then(b), a.reshape({3, 4}));
  EXPECT_EQ(a.then(ShapeTracker::contiguous({6, 2})), a);
  EXPECT_EQ(a.then(b).hash(), a.reshape({3, 4}).hash());
  EXPECT_NE(a, a.then(b));
  EXPECT_THROW((void)a.then(ShapeTracker::contiguous({7, 2}).permute({1, 0})), ShapeError);
  EXPECT_THROW((void)a.then(ShapeTracker::contiguous({12})), ShapeError);
  EXPECT_EQ(a.permute({0, 1}), a);  // nothing moved: no step
  EXPECT_EQ(a.permute({0, 1}).steps().size(), 1u);
}

TEST(ShapeTracker, ManyAxes) {
  constexpr int kRank = 32;
  auto v = ShapeTracker::contiguous(Shape(kRank, 2));
  std::vector<int> reversed(kRank);
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  v = v.permute(reversed).reshape({-1}).reshape(Shape(kRank, 2)).permute(reversed);
  EXPECT_TRUE(v.is_identity());
}

TEST(ShapeTracker, ErrorsNameStepDimsAndRemedy) {
  const auto v = ShapeTracker::contiguous({5, 3});
  const Expression s = "s";
  const std::pair<std::string, std::string> cases[] = {
      {message_of([&] { (void)v.reshape({4, 4}); }),
       "[reshape] [5, 3] holds 15 elements, [4, 4] holds 16; a reshape keeps the number of elements"},
      {message_of([&] { (void)v.reshape({-1, -1}); }),
       "[reshape] more than one -1 in [-1, -1]; give all sizes but one"},
      {message_of([&] { (void)v.reshape({-1, 4}); }),
       "[reshape] [5, 3] holds 15 elements, [3, 4] holds 12; a reshape keeps the number of elements"},
      {message_of([&] { (void)v.reshape({-2, 4}); }),
       "[reshape] dim -2 of [-2, 4] is negative; only one size may be -1"},
      {message_of([&] { (void)v.split_dims(0, 2); }),
       "[split_dims] axis 0 of [5, 3] is not divisible by 2; pad or slice it to a multiple"},
      {message_of([&] { (void)v.split_dims(0, 0); }),
       "[split_dims] cannot split axis 0 of [5, 3] by 0; use at least 1"},
      {message_of([&] { (void)v.permute({0, 0}); }),
       "[permute] order (0, 0) of [5, 3] does not name axis 0 once; name each axis once"},
      {message_of([&] { (void)v.permute({0}); }),
       "[permute] 1 entries for the 2 axes of [5, 3]; give one for each axis"},
      {message_of([&] { (void)v.flip(2); }), "[flip] axis 2 is out of range for [5, 3]; use -2 to 1"},
      {message_of([&] { (void)v.squeeze(1); }),
       "[squeeze] axis 1 of [5, 3] has size 3, not 1; slice or sum it instead"},
      {message_of([&] { (void)v.merge_dims(1, 0); }),
       "[merge_dims] first axis 1 comes after last axis 0 of [5, 3]; permute before, or swap them"},
      {message_of([&] { (void)v.pad(Pairs{{-1, 0}, {0, 0}}); }),
       "[pad] amount -1 on axis 0 of [5, 3] is negative; slice to make an axis shorter"},
      {message_of([&] { (void)v.pool(0, 0); }), "[pool] window 0 on axis 0 of [5, 3] must be at least 1"},
      {message_of([&] { (void)v.pool(0, 2, 0); }), "[pool] stride 0 on axis 0 of [5, 3] must be at least 1"},
      {message_of([&] { (void)v.slice_along(0, 0, 5, -1); }),
       "[slice_along] step -1 of axis 0 must be at least 1; flip the axis to go backwards"},
      {message_of([&] { (void)v.expand(0, -2); }), "[expand] size -2 of the new axis is negative"},
      {message_of([&] { (void)ShapeTracker().flip(0); }),
       "[flip] axis 0 of [], which has no axes; unsqueeze first"},
      {message_of([&] { (void)ShapeTracker::contiguous({-3}); }),
       "[contiguous] dim -3 of [-3] is negative; sizes must be at least 0"},
      {message_of([&] { (void)ShapeTracker::contiguous({0, 3}).reshape({-1, 0}); }),
       "[reshape] -1 in [-1, 0] is ambiguous: the other dims hold no elements; give the size"},
  };
  for (const auto& [got, wanted] : cases) EXPECT_EQ(got, wanted);
  EXPECT_NO_THROW((void)ShapeTracker::contiguous({s}).reshape({4, 4}));  // checked when s is known
  EXPECT_THROW((void)ShapeTracker::contiguous({s}).reshape({4, 4}).resolve_global_dyn_dims({{"s", 15}}),
               ShapeError);
  EXPECT_NO_THROW((void)ShapeTracker::contiguous({s}).reshape({4, 4}).resolve_global_dyn_dims({{"s", 16}}));
}

TEST(ShapeTracker, ComposingIsQuick) {
  // Timing is printed, not judged: what a convolution over a symbolic batch costs to build.
  const auto convolution = [](const Expression& n, const Expression& h) {
    return ShapeTracker::contiguous({n, 16, h, h})
        .pad(Pairs{{0, 0}, {0, 0}, {1, 1}, {1, 1}})
        .pool(2, 3)
        .pool(4, 3)
        .permute({0, 2, 4, 1, 3, 5})
        .reshape({-1, 16 * 9});
  };
  for (const bool fresh : {true, false}) {
    constexpr int kTimes = 200;
    const auto begin = std::chrono::steady_clock::now();
    for (int k = 0; k < kTimes; ++k) {
      const auto v = convolution("n", fresh ? Expression(100 + k) : Expression(28));
      ASSERT_EQ(v.rank(), 2);
    }
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    std::printf("convolution views, %s: %.1f us\n", fresh ? "new sizes each time" : "sizes seen before",
                took.count() / kTimes);
  }
}

}  // namespace
}  // namespace luminal
