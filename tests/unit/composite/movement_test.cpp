#include <gmock/gmock.h>

#include "run.h"

// Movement, joining and indexing against loops.
namespace luminal::composite_test {
namespace {

std::vector<double> counting(int64_t count) {
  std::vector<double> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

GraphTensor count(Graph& cx, Shape dims) {
  const int64_t n = *element_count(dims).constant();
  return cx.arange(n, Dtype::F32).reshape(std::move(dims));
}

TEST(Movement, IsViewsOnly) {
  Graph cx;
  const GraphTensor x = cx.tensor({2, 3, 4});
  const size_t before = cx.node_count();
  (void)x.permute({2, 0, 1}).transpose().t().reshape({4, -1}).flatten().expand({5, -1}).unsqueeze(0).squeeze(
      0);
  (void)x.split_dims(2, 2).merge_dims(2, 3).slice({{0, 1}}).slice_along(1, 0, 3, 2).pad({{1, 1}}).flip(0);
  (void)x.repeat({2, 1, 1}).expand_dim(0, 7).pool_last_dim(2);
  (void)x.split(2, 1);
  (void)x.chunk(2, 2);
  EXPECT_EQ(cx.node_count(), before);
}

TEST(Movement, Examples) {
  Graph cx;
  const GraphTensor x = count(cx, {2, 3});
  EXPECT_TRUE(near(run(x.t()), {0, 3, 1, 4, 2, 5}));
  EXPECT_TRUE(near(run(x.reshape({3, -1})), counting(6)));
  EXPECT_TRUE(near(run(x.slice({{0, 1}, {-2, INT64_MAX}})), {1, 2}));
  EXPECT_TRUE(near(run(x.slice({{-9, 9}})), counting(6)));
  EXPECT_TRUE(near(run(x.slice_along(1, 0, 3, 2)), {0, 2, 3, 5}));
  EXPECT_TRUE(near(run(x.pad({{0, 1}, {1, 0}}, 9)), {9, 0, 1, 2, 9, 3, 4, 5, 9, 9, 9, 9}));
  EXPECT_TRUE(near(run(x.pad({{0, 0}, {-1, 1}})), {1, 2, 0, 4, 5, 0}));  // a negative amount cuts off
  EXPECT_TRUE(near(run(x.flip({0, 1})), {5, 4, 3, 2, 1, 0}));
  EXPECT_TRUE(near(run(x.repeat({2, 1, 2}).slice_along(0, 1, 2)), {0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}));
  EXPECT_TRUE(near(run(x.pool_last_dim(2)), {0, 1, 1, 2, 3, 4, 4, 5}));
  EXPECT_TRUE(near(run(x.slice_along(0, 0, 1).expand({2, -1})), {0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(cx.zeros({50, 3}).split_dims(0, 5).dims(), (Shape{10, 5, 3}));
  EXPECT_EQ(cx.zeros({}).flatten().dims(), Shape{1});
}

TEST(Movement, Subscripts) {
  Graph cx;
  const GraphTensor x = count(cx, {2, 3, 4});
  EXPECT_TRUE(near(run(x[1][0]), {12, 13, 14, 15}));
  EXPECT_TRUE(near(run(x[-1][-1][-1]), {23}));
  EXPECT_TRUE(near(run(x[{0, Slice{1, 3}, 2}]), {6, 10}));
  EXPECT_TRUE(near(run(x[{Ellipsis{}, Slice{.start = -1}}]), {3, 7, 11, 15, 19, 23}));
  EXPECT_TRUE(near(run(x[{1, Ellipsis{}, Slice{.step = 3}}]), {12, 15, 16, 19, 20, 23}));
  EXPECT_TRUE(near(run(x[{Slice{}, 2}]), {8, 9, 10, 11, 20, 21, 22, 23}));
  EXPECT_EQ((x[Slice{0, 1}].dims()), (Shape{1, 3, 4}));
  EXPECT_EQ((x[{NewAxis{}, 0, Ellipsis{}, NewAxis{}}].dims()), (Shape{1, 3, 4, 1}));
  EXPECT_EQ((x[{Ellipsis{}, 0, 0, 0}].rank()), 0);
  EXPECT_EQ(x[{}].dims(), x.dims());
  const GraphTensor leaf = input64(cx, {2, 2}, {1, 2, 3, 4});
  EXPECT_TRUE(near(slope(cx, leaf, leaf[1] * leaf[{0, 1}]), {0, 7, 2, 2}));
}

TEST(Movement, SubscriptsOfNamedDims) {
  Graph cx;
  const Expression n("n");
  GraphTensor x = cx.tensor({n, 2});
  std::vector<GraphTensor> rows{x[1], x[-1], x[n - 2], x[n / 2]};
  for (GraphTensor& row : rows) {
    EXPECT_EQ(row.dims(), Shape{2});
    row = (row * 1).retrieve();
  }
  x.set_dyn(counting(6), {3, 2});
  cx.execute();
  EXPECT_TRUE(near(rows[0].data<double>(), {2, 3}));
  EXPECT_TRUE(near(rows[1].data<double>(), {4, 5}));
  EXPECT_TRUE(near(rows[2].data<double>(), {2, 3}));
  EXPECT_TRUE(near(rows[3].data<double>(), {2, 3}));
  x.set_dyn(counting(2), {1, 2});
  EXPECT_THAT(
      message_of<ShapeError>([&] { cx.execute(); }),
      ::testing::HasSubstr("[select] position 1 is out of range on axis 0 of [n, 2]; positions go from"));
}

TEST(Movement, SubscriptsOutOfRangeAreErrors) {
  Graph cx;
  const GraphTensor x = cx.tensor({2, 3});
  const auto message = [](const auto& make) { return message_of<ShapeError>([&] { (void)make(); }); };
  using ::testing::StartsWith;
  EXPECT_THAT(
      message([&] { return x[2]; }),
      StartsWith(
          "[select] position 2 is out of range on axis 0 of [2, 3]; positions go from -2 to 1 (made at "));
  EXPECT_THAT(
      message([&] { return x[{0, -4}]; }),
      StartsWith(
          "[select] position -4 is out of range on axis 0 of [3]; positions go from -3 to 2 (made at "));
  EXPECT_THAT(
      message([&] { return x[{0, 0, 0}]; }),
      StartsWith("[operator[]] 3 positions and slices for f32[2, 3], which has 2 axes; give at most one for "
                 "each axis (made at "));
  EXPECT_THAT(message([&] { return x[{Ellipsis{}, Ellipsis{}}]; }),
              StartsWith("[operator[]] 2 entries are an Ellipsis; give at most one (made at "));
}

TEST(Movement, SplitAndChunk) {
  Graph cx;
  const std::vector<GraphTensor> pieces = count(cx, {7}).split(3);
  ASSERT_EQ(pieces.size(), 3U);
  EXPECT_TRUE(near(run(pieces[1]), {3, 4, 5}));
  EXPECT_TRUE(near(run(pieces[2]), {6}));
  EXPECT_EQ(count(cx, {7}).chunk(3).size(), 3U);
  EXPECT_EQ(count(cx, {5}).chunk(4).size(), 3U);  // sizes 2, 2, 1, as in PyTorch
  const GraphTensor x = cx.tensor({"s"});
  const std::vector<GraphTensor> halves = x.chunk(2);
  std::vector<GraphTensor> results;
  for (const GraphTensor& half : halves) results.push_back((half * 1).retrieve());
  for (const int64_t size : {1, 4, 7}) {
    GraphTensor(x).set_dyn(random_values(size, 2), {size});
    cx.execute();
    EXPECT_EQ(results[0].data<float>().size(), static_cast<size_t>((size + 1) / 2));
    EXPECT_EQ(results[1].data<float>().size(), static_cast<size_t>(size / 2));
  }
}

TEST(Movement, TrianglesDropNaN) {
  Graph cx;
  std::vector<float> values(12, NAN);
  for (size_t row = 0; row < 3; ++row)
    for (size_t column = 0; column <= row; ++column) values[row * 4 + column] = 1;
  const GraphTensor x = input(cx, {3, 4}, values);
  EXPECT_TRUE(near(run(x.tril()), {1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0}));
  EXPECT_TRUE(near(run(cx.ones({3, 3}).triu(1)), {0, 1, 1, 0, 0, 1, 0, 0, 0}));
  EXPECT_TRUE(near(run(cx.ones({3, 3}).tril(-1)), {0, 0, 0, 1, 0, 0, 1, 1, 0}));
  EXPECT_TRUE(near(run(cx.tril(2, 3)), {1, 0, 0, 1, 1, 0}));
  EXPECT_TRUE(near(run(cx.triu(2, 3, 1)), {0, 1, 1, 0, 0, 1}));
  EXPECT_TRUE(near(run(cx.eye(3)), {1, 0, 0, 0, 1, 0, 0, 0, 1}));
}

TEST(Movement, ConcatKeepsBits) {
  Graph cx;
  const GraphTensor a = input(cx, {2, 1}, {-0.0F, NAN}), b = input(cx, {2, 2}, {INFINITY, 1, 2, 3});
  EXPECT_TRUE(near(run(concat({a, b, a}, 1)), {0, kInf, 1, 0, kNaN, 2, 3, kNaN}));
  EXPECT_TRUE(std::signbit(run(concat({a, b}, -1))[0]));
  EXPECT_TRUE(near(run(a.concat_along(a, 0)), {0, kNaN, 0, kNaN}));
  EXPECT_TRUE(near(run(stack({b, b * 2}, 1)), {kInf, 1, kInf, 2, 2, 3, 4, 6}));
  EXPECT_EQ(stack({b, b, b}, -1).dims(), (Shape{2, 2, 3}));
  EXPECT_EQ(concat({a.cast(Dtype::I32), b}, 1).dtype(), Dtype::F32);
  EXPECT_TRUE(near(run(concat({cx.zeros({0, 2}), b}, 0)), {kInf, 1, 2, 3}));
}

TEST(Movement, ConcatOfManyAndOfSymbolicSizes) {
  Graph cx;
  const GraphTensor x = cx.tensor({"s"}), y = cx.tensor({"t"});
  const GraphTensor joined = concat({x, y, x * 10}, 0).retrieve();
  for (const auto& [s, t] : {std::pair<int64_t, int64_t>{1, 4}, {3, 0}, {5, 2}}) {
    const std::vector<float> a = random_values(s, 1), b = random_values(t, 2);
    GraphTensor(x).set_dyn(a, {s});
    GraphTensor(y).set_dyn(b, {t});
    cx.execute();
    std::vector<double> wanted(a.begin(), a.end());
    wanted.insert(wanted.end(), b.begin(), b.end());
    for (const float v : a) wanted.push_back(v * 10);
    EXPECT_TRUE(near(joined.data<double>(), wanted));
  }
  std::vector<GraphTensor> many;
  for (int i = 0; i < 9; ++i) many.push_back(cx.full({i % 3}, i));
  EXPECT_TRUE(near(run(concat(many, 0)), {1, 2, 2, 4, 5, 5, 7, 8, 8}));
}

TEST(Movement, Gradients) {
  Graph cx;
  const GraphTensor x = count(cx, {2, 3}) + cx.tensor({2, 3}).set(std::vector<float>(6, 0));
  EXPECT_TRUE(near(slope(cx, x, concat({x, x.slice_along(1, 0, 1) * 5}, 1)), {6, 1, 1, 6, 1, 1}));
  EXPECT_TRUE(near(slope(cx, x, x.tril()), {1, 0, 0, 1, 1, 0}));
  EXPECT_TRUE(near(slope(cx, x, x.pool_last_dim(2)), {1, 2, 1, 1, 2, 1}));
  EXPECT_TRUE(near(slope(cx, x, x.slice_along(1, 0, 3, 2).pad({{1, 0}}, 7)), {1, 0, 1, 1, 0, 1}));
  EXPECT_TRUE(near(slope(cx, x, x.expand_dim(0, 4)), {4, 4, 4, 4, 4, 4}));
}

TEST(Create, Counting) {
  Graph cx;
  EXPECT_TRUE(near(run(cx.arange(4)), {0, 1, 2, 3}));
  EXPECT_TRUE(near(run(cx.arange_in_range(-2, 2, Dtype::F32)), {-2, -1, 0, 1}));
  EXPECT_TRUE(near(run(cx.arange_step(0, 1, 0.25)), {0, 0.25, 0.5, 0.75}));
  EXPECT_TRUE(near(run(cx.arange_step(5, -1, -2, Dtype::I32)), {5, 3, 1}));
  const std::vector<double> tenths = run(cx.arange_step(0, 1, 0.1));
  ASSERT_EQ(tenths.size(), 10U);
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ(tenths[i], static_cast<float>(static_cast<double>(i) * 0.1));
  const Expression z = Expression::flat_index();
  EXPECT_TRUE(near(run(cx.iota(z / 2 * 10 + z % 2, {2, 2})), {0, 1, 10, 11}));
  EXPECT_TRUE(near(run(cx.full({2}, 7, Dtype::I32)), {7, 7}));
  const GraphTensor size = cx.constant(Expression("s") * 3).retrieve(), line = cx.arange("s").retrieve();
  for (const int64_t s : {0, 2, 5}) {
    cx.set_dim("s", s);
    cx.execute();
    EXPECT_EQ(size.data<int64_t>(), std::vector<int64_t>{s * 3});
    EXPECT_EQ(line.data<int64_t>().size(), static_cast<size_t>(s));
  }
}

// --- Indexing

TEST(Index, GatherForms) {
  Graph cx;
  const GraphTensor x = count(cx, {2, 3, 4});
  const GraphTensor flat = cx.tensor({2, 2}, Dtype::I32).set({{0, 23}, {5, 5}});
  EXPECT_TRUE(near(run(x.gather(flat)), {0, 23, 5, 5}));
  const GraphTensor rows = cx.tensor({2}, Dtype::I64).set({2, 0});
  for (const int axis : {0, 1, 2}) {
    const GraphTensor index = axis == 0 ? rows.bitwise_and(1) : rows;
    const std::vector<int64_t> at = run<int64_t>(index);
    std::array<size_t, 3> sizes{2, 3, 4};
    sizes[static_cast<size_t>(axis)] = 2;
    std::vector<double> wanted;
    for (size_t i = 0; i < sizes[0]; ++i)
      for (size_t j = 0; j < sizes[1]; ++j)
        for (size_t k = 0; k < sizes[2]; ++k) {
          std::array<size_t, 3> from{i, j, k};
          from[static_cast<size_t>(axis)] = static_cast<size_t>(at[from[static_cast<size_t>(axis)]]);
          wanted.push_back(static_cast<double>(from[0] * 12 + from[1] * 4 + from[2]));
        }
    EXPECT_TRUE(near(run(x.index_select(axis, index)), wanted)) << "axis " << axis;
  }
  EXPECT_EQ(x.index_select(1, flat).dims(), (Shape{2, 2, 2, 4}));
}

TEST(Index, GatherElements) {
  Graph cx;
  const GraphTensor x = count(cx, {3, 2});
  const GraphTensor index = cx.tensor({2, 2}, Dtype::I64).set({{2, 0}, {1, 1}});
  EXPECT_TRUE(near(run(x.gather_elements(0, index)), {4, 1, 2, 3}));
  EXPECT_TRUE(near(run(x.t().gather(1, index)), {4, 0, 3, 3}));
  const GraphTensor leaf = cx.tensor({3, 2}).set(std::vector<float>(6, 1));
  EXPECT_TRUE(near(slope(cx, leaf, leaf.gather_elements(0, index)), {0, 1, 1, 1, 1, 0}));
  EXPECT_TRUE(near(slope(cx, leaf, leaf.index_select(0, cx.tensor({3}, Dtype::I32).set({1, 1, 0}))),
                   {1, 1, 2, 2, 0, 0}));
}

// An index out of range along any axis is an error, and never another row's element.
TEST(Index, OutOfRangeIsAnError) {
  for (const int axis : {0, 1})
    for (const int64_t bad : {int64_t{-1}, int64_t{3}, int64_t{100}}) {
      Graph cx;
      const GraphTensor x = count(cx, {3, 3});
      const GraphTensor index = cx.tensor({1}, Dtype::I64).set(std::vector<int64_t>{bad});
      EXPECT_THROW((void)run(x.index_select(axis, index)), Error) << axis << " " << bad;
      EXPECT_THROW((void)run(x.gather_elements(axis, index.unsqueeze(0))), Error) << axis << " " << bad;
      EXPECT_THROW((void)run(x.gather(index * 10)), Error);
    }
}

TEST(Index, ScatterForms) {
  Graph cx;
  const GraphTensor base = input(cx, {3, 2}, {1, 2, 3, 4, 5, 6}),
                    updates = input(cx, {2, 2}, {10, 20, 30, 40});
  const GraphTensor index = cx.tensor({2, 2}, Dtype::I64).set({{2, 0}, {2, 1}});
  EXPECT_TRUE(near(run(base.scatter(0, index, updates)), {1, 20, 3, 40, 30, 6}));
  EXPECT_TRUE(near(run(base.scatter_add(0, index, updates)), {1, 22, 3, 44, 45, 6}));
  EXPECT_TRUE(near(run(base.t().scatter_add(1, index.t(), updates.t())), {1, 3, 45, 22, 44, 6}));
  // An index smaller than the data outside the axis.
  const GraphTensor one = cx.tensor({2, 1}, Dtype::I64).set({{0}, {0}});
  EXPECT_TRUE(near(run(base.scatter_add(0, one, updates.slice({{0, 2}, {0, 1}}))), {41, 2, 3, 4, 5, 6}));
  EXPECT_TRUE(near(slope(cx, updates, base.scatter_add(0, index, updates) * base), {5, 2, 5, 4}));
  EXPECT_TRUE(near(slope(cx, base, base.scatter(0, index, updates)), {1, 0, 1, 0, 0, 1}));
  EXPECT_TRUE(near(run(cx.tensor({3}, Dtype::I64).set({1, -1, 0}).one_hot(2)), {0, 1, 0, 0, 1, 0}));
}

TEST(Movement, RollUnfoldExcise) {
  Graph cx;
  const GraphTensor x = count(cx, {2, 5});
  EXPECT_TRUE(near(run(x.roll(2, 1)), {3, 4, 0, 1, 2, 8, 9, 5, 6, 7}));
  EXPECT_TRUE(near(run(x.roll(-1, 0)), {5, 6, 7, 8, 9, 0, 1, 2, 3, 4}));
  EXPECT_TRUE(near(run(x.roll(-7, 1)), run(x.roll(-2, 1))));
  EXPECT_EQ(x.unfold(1, 2, 3).dims(), (Shape{2, 2, 2}));
  EXPECT_TRUE(near(run(x.unfold(1, 2, 3)), {0, 1, 3, 4, 5, 6, 8, 9}));
  EXPECT_TRUE(near(run(x.unfold(0, 2, 1)), {0, 5, 1, 6, 2, 7, 3, 8, 4, 9}));
  EXPECT_TRUE(near(run(count(cx, {10}).excise(2, 3)), {0, 1, 5, 6}));
  EXPECT_TRUE(near(run(count(cx, {9}).excise(1, 1)), {0, 2, 4, 6, 8}));
  EXPECT_TRUE(near(run(count(cx, {7}).excise(3, 2)), {0, 1, 2, 5, 6}));
  const GraphTensor s = cx.tensor({"ex_n"});
  const GraphTensor rest = s.excise(3, 2).retrieve(), turned = s.roll(1, 0).retrieve();
  for (const int64_t n : {0, 4, 5, 12}) {
    std::vector<float> values(static_cast<size_t>(n));
    std::iota(values.begin(), values.end(), 0.0F);
    GraphTensor(s).set_dyn(values, {n});
    cx.execute();
    std::vector<double> kept, rolled;
    for (int64_t i = 0; i < n; ++i) {
      if (i % 5 < 3) kept.push_back(static_cast<double>(i));
      rolled.push_back(static_cast<double>((i + n - 1) % n));
    }
    EXPECT_TRUE(near(rest.data<double>(), kept)) << n;
    EXPECT_TRUE(near(turned.data<double>(), rolled)) << n;
  }
}

}  // namespace
}  // namespace luminal::composite_test
