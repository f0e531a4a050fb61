#include <gtest/gtest.h>

#include "chain.h"
#include "luminal/error.h"

/// Random chains of movement steps, static and symbolic, against copies made after each step; and each step's
/// two maps against each other.
namespace luminal {
namespace {

using chain::Generator;
using dense::Coordinates;
using dense::Tensor;

// --gtest_random_seed=N runs another sample; the seed is printed with a failure.
uint64_t shape_seed() { return 20240608 + static_cast<uint64_t>(GTEST_FLAG_GET(random_seed)); }
constexpr int64_t kFirst = 1000;  // values of the source start here, so they differ from every fill
constexpr int64_t kMaxElements = 3000;

struct Chain {
  ShapeTracker view;
  std::vector<chain::Step> steps;
  std::vector<ShapeTracker> views;  // after each step
};

Chain random_chain(oracle::Random& random, bool symbolic) {
  Generator generator(random);
  Chain c;
  Shape dims;
  const std::vector<Expression> sizes =
      symbolic
          ? std::vector<Expression>{"a", Expression::dim("b", {.multiple_of = 4}), 3, 4, Expression("a") + 1}
          : std::vector<Expression>{1, 2, 3, 4, 6, 5};
  for (int64_t k = random.between(1, 3); k > 0; --k) dims.push_back(random.pick(sizes));
  c.view = ShapeTracker::contiguous(dims);
  for (int64_t k = random.between(1, 6); k > 0; --k) {
    c.steps.push_back(generator.next(c.view));
    c.view = c.steps.back().view(c.view);
    c.views.push_back(c.view);
  }
  return c;
}

// The view read element by element, the way its header says.
Tensor materialise(const ShapeTracker& v, const Tensor& x, const DimMap& at) {
  Tensor y{exec(v.dims(), at), {}};
  dense::for_each(y.dims, [&](const Coordinates& o) {
    for (const ShapeTracker::Mask& m : v.masks()) {
      if (m.predicate.exec(at, o) != 0) continue;
      y.values.push_back(m.fill.as<int64_t>());
      return;
    }
    const int64_t index = v.index_expression().exec(at, o);
    if (index < 0 || index >= static_cast<int64_t>(x.values.size()))
      throw std::out_of_range("index " + std::to_string(index) + " of " + v.index_expression().to_text());
    y.values.push_back(x.values[static_cast<size_t>(index)]);
  });
  return y;
}

void expect_equal(const Tensor& got, const Tensor& want) {
  ASSERT_EQ(got.dims, want.dims);
  ASSERT_EQ(got.values, want.values);
}

void check_chain(const Chain& c, const DimMap& at) {
  SCOPED_TRACE(c.view.to_string() + "\n index " + c.view.index_expression().to_text() + "\n valid " +
               c.view.valid_expression().to_text());
  Tensor x = dense::counting(exec(c.view.physical_dims(), at), kFirst);
  Tensor want = x;
  for (const chain::Step& s : c.steps) {
    want = s.dense(want, at);
    if (static_cast<int64_t>(want.values.size()) > kMaxElements) return;
  }
  ASSERT_NO_THROW(c.view.check(at));
  expect_equal(materialise(c.view, x, at), want);
  const ShapeTracker resolved = c.view.resolve_global_dyn_dims(at);
  expect_equal(materialise(resolved, x, {}), want);
  if (c.view.is_contiguous()) {
    ASSERT_EQ(want.values, x.values);
  }
  if (const auto plain = c.view.as_strided()) {
    dense::for_each(want.dims, [&](const Coordinates& o) {
      int64_t index = plain->offset.exec(at);
      for (size_t k = 0; k < o.size(); ++k) index += o[k] * plain->strides[k].exec(at);
      ASSERT_EQ(index, c.view.index_expression().exec(at, o));
    });
  }
}

TEST(ShapeTrackerRandom, StaticChains) {
  oracle::Random random(shape_seed());
  for (int i = 0; i < 2000; ++i) {
    const Chain c = random_chain(random, false);
    ASSERT_NO_FATAL_FAILURE(check_chain(c, {{"a", 2}})) << "seed " << shape_seed() << " chain " << i;
  }
}

TEST(ShapeTrackerRandom, SymbolicChainsAtSeveralSizes) {
  oracle::Random random(shape_seed() + 1);
  for (int i = 0; i < 1200; ++i) {
    const Chain c = random_chain(random, true);
    for (const DimMap& at :
         {DimMap{{"a", 3}, {"b", 4}}, {{"a", 1}, {"b", 8}}, {{"a", 0}, {"b", 4}}, {{"a", 2}, {"b", 0}}}) {
      SCOPED_TRACE("a = " + std::to_string(at.find("a")->second) +
                   ", b = " + std::to_string(at.find("b")->second));
      ASSERT_NO_FATAL_FAILURE(check_chain(c, at)) << "seed " << shape_seed() + 1 << " chain " << i;
    }
  }
}

std::vector<int64_t> values(const std::vector<Expression>& of, const DimMap& at, const Coordinates& where) {
  std::vector<int64_t> result;
  for (const Expression& e : of) result.push_back(e.exec(at, where));
  return result;
}

std::vector<int64_t> pair_dims(const MovementStep& s, const DimMap& at) {
  std::vector<int64_t> dims = exec(s.in_dims, at);
  for (int64_t d : exec(s.free_dims, at)) dims.push_back(d);
  return dims;
}

// Both maps are each other's inverse between the valid outputs and the valid pairs.
void check_bijection(const MovementStep& s, const DimMap& at) {
  SCOPED_TRACE(s.name + "(" + s.detail + ") of " + to_string(s.in_dims));
  const std::vector<int64_t> out = exec(s.out_dims, at), pairs = pair_dims(s, at);
  dense::for_each(out, [&](const Coordinates& o) {
    if (s.out_valid.exec(at, o) == 0) return;
    Coordinates pair = values(s.in_of_out, at, o);
    for (int64_t f : values(s.free_of_out, at, o)) pair.push_back(f);
    ASSERT_TRUE(dense::inside(pairs, pair));
    ASSERT_EQ(s.in_valid.exec(at, pair), 1) << "an output reads a pair that says nothing reads it";
    ASSERT_EQ(values(s.out_of_in, at, pair), o);
  });
  dense::for_each(pairs, [&](const Coordinates& pair) {
    if (s.in_valid.exec(at, pair) == 0) return;
    const Coordinates o = values(s.out_of_in, at, pair);
    ASSERT_TRUE(dense::inside(out, o));
    ASSERT_EQ(s.out_valid.exec(at, o), 1);
    Coordinates back = values(s.in_of_out, at, o);
    for (int64_t f : values(s.free_of_out, at, o)) back.push_back(f);
    ASSERT_EQ(back, pair);
  });
}

// The transpose of the dense step, by scattering y to whatever element each output reads.
Tensor scattered(const chain::Step& step, const std::vector<int64_t>& in_dims, const Tensor& y,
                 const DimMap& at) {
  Tensor gradient{in_dims, std::vector<int64_t>(static_cast<size_t>(dense::count(in_dims)), 0)};
  const Tensor read = step.dense(dense::counting(in_dims, kFirst), at);
  for (size_t k = 0; k < y.values.size(); ++k)
    if (read.values[k] >= kFirst)
      gradient.values[static_cast<size_t>(read.values[k] - kFirst)] += y.values[k];
  return gradient;
}

Tensor sum_last(Tensor t, size_t axes) {
  for (; axes > 0; --axes) {
    const int64_t inner = t.dims.back();
    t.dims.pop_back();
    std::vector<int64_t> sums(static_cast<size_t>(dense::count(t.dims)), 0);
    for (size_t k = 0; k < t.values.size(); ++k) sums[k / static_cast<size_t>(inner)] += t.values[k];
    t.values = std::move(sums);
  }
  return t;
}

void check_adjoint(const chain::Step& step, const MovementStep& s, const DimMap& at, oracle::Random& random) {
  Tensor y{exec(s.out_dims, at), {}};
  for (int64_t k = 0; k < dense::count(y.dims); ++k) y.values.push_back(random.between(-50, 50));
  const ShapeTracker back = ShapeTracker::contiguous(s.out_dims).apply(s.adjoint());
  SCOPED_TRACE(back.to_string() + " index " + back.index_expression().to_text());
  const Tensor gradient = sum_last(materialise(back, y, at), s.free_dims.size());
  expect_equal(gradient, scattered(step, exec(s.in_dims, at), y, at));
}

void check_steps(const Chain& c, const DimMap& at, oracle::Random& random) {
  for (size_t k = 0; k < c.steps.size(); ++k) {
    const size_t made = c.views[k].steps().size(), before = k == 0 ? 0 : c.views[k - 1].steps().size();
    if (made == before) continue;  // the step changed nothing
    const MovementStep& s = c.views[k].steps().back();
    if (dense::count(exec(s.out_dims, at)) > kMaxElements || dense::count(pair_dims(s, at)) > kMaxElements)
      return;
    const MovementStep adjoint = s.adjoint(), twice = adjoint.adjoint();
    ASSERT_NO_FATAL_FAILURE(check_bijection(s, at));
    ASSERT_NO_FATAL_FAILURE(check_bijection(adjoint, at));
    ASSERT_NO_FATAL_FAILURE(check_bijection(twice, at));
    ASSERT_TRUE(adjoint.free_dims.empty());
    ASSERT_NO_FATAL_FAILURE(check_adjoint(c.steps[k], s, at, random));
  }
}

TEST(ShapeTrackerRandom, StepsAreBijectionsAndAdjointsAreTransposes) {
  oracle::Random random(shape_seed() + 2);
  for (int i = 0; i < 800; ++i) {
    const bool symbolic = i % 2 == 1;
    const Chain c = random_chain(random, symbolic);
    for (const DimMap& at :
         symbolic ? std::vector<DimMap>{{{"a", 3}, {"b", 4}}, {{"a", 1}, {"b", 0}}, {{"a", 0}, {"b", 8}}}
                  : std::vector<DimMap>{{{"a", 2}}})
      ASSERT_NO_FATAL_FAILURE(check_steps(c, at, random)) << "seed " << shape_seed() + 2 << " chain " << i;
  }
}

}  // namespace
}  // namespace luminal
