#include <algorithm>

#include "luminal/ops.h"
#include "run.h"

// sort, argsort, topk against std::stable_sort; cumulative ops over axes of every kind of size.
namespace luminal::composite_test {
namespace {

/// Less, NaN being the greatest and equal to itself.
bool before(double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; }

/// The places of one row in order.
std::vector<int64_t> order_of(std::vector<double> row, bool descending) {
  std::vector<int64_t> places(row.size());
  std::iota(places.begin(), places.end(), 0);
  std::stable_sort(places.begin(), places.end(), [&](int64_t a, int64_t b) {
    const double x = row[static_cast<size_t>(a)], y = row[static_cast<size_t>(b)];
    return descending ? before(y, x) : before(x, y);
  });
  return places;
}

/// Few different values, so that many are equal, and the special ones.
std::vector<double> awkward(int64_t count, uint32_t seed) {
  static const std::vector<double> kPool{-kInf, -2, -1, -0.0, 0.0, 0.5, 1, 3, kInf, kNaN, -kNaN};
  std::mt19937 engine(seed);
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(kPool[engine() % kPool.size()]);
  return values;
}

void check_rows(const std::vector<double>& values, const std::vector<int64_t>& places, int64_t rows,
                bool descending) {
  const int64_t n = static_cast<int64_t>(values.size()) / rows;
  const int64_t taken = static_cast<int64_t>(places.size()) / rows;
  for (int64_t r = 0; r < rows; ++r) {
    const std::vector<double> row(values.begin() + r * n, values.begin() + (r + 1) * n);
    std::vector<int64_t> wanted = order_of(row, descending);
    wanted.resize(static_cast<size_t>(taken));
    EXPECT_EQ(std::vector<int64_t>(places.begin() + r * taken, places.begin() + (r + 1) * taken), wanted)
        << "row " << r << " of size " << n;
  }
}

TEST(Sort, EverySizeAndOrderIsThatOfAStableSort) {
  for (const int64_t n : {1, 2, 3, 5, 8, 13, 64, 100}) {
    Graph cx;
    const std::vector<double> values = awkward(2 * n, static_cast<uint32_t>(n));
    for (const Dtype dtype : {Dtype::F64, Dtype::F32, Dtype::F16}) {
      const GraphTensor x = input64(cx, {2, n}, values).cast(dtype);
      check_rows(values, run<int64_t>(x.argsort(1)), 2, false);
      check_rows(values, run<int64_t>(x.argsort(1, true)), 2, true);
      for (const int64_t k : {int64_t{0}, int64_t{1}, n / 2, n}) {
        const auto [top, places] = x.topk(k, 1);
        check_rows(values, run<int64_t>(places), 2, true);
        EXPECT_EQ(top.dims(), (Shape{2, k}));
        check_rows(values, run<int64_t>(x.topk(k, 1, false).second), 2, false);
      }
    }
  }
}

TEST(Sort, IntegersOfEveryWidthAreExact) {
  Graph cx;
  const std::vector<int64_t> big{1, INT64_MIN, INT64_MAX, -1, (int64_t{1} << 40) + 1, int64_t{1} << 40,
                                 0, -1};
  EXPECT_EQ(run<int64_t>(cx.tensor({8}, Dtype::I64).set(big).argsort(0)),
            (std::vector<int64_t>{1, 3, 7, 6, 0, 5, 4, 2}));
  const GraphTensor bytes = cx.tensor({4}, Dtype::U8).set({200, 3, 255, 3});
  EXPECT_EQ(run<uint8_t>(bytes.sort(0, true)), (std::vector<uint8_t>{255, 200, 3, 3}));
  const GraphTensor truth = cx.tensor({3}, Dtype::Bool).set(std::vector<bool>{true, false, true});
  EXPECT_EQ(run<int64_t>(truth.argsort(0)), (std::vector<int64_t>{1, 0, 2}));
}

TEST(Sort, SizesKnownAtRunTimeOnly) {
  Graph cx;
  const GraphTensor x = cx.tensor({2, "sort_n"}, Dtype::F64);
  const GraphTensor places = x.argsort(1).retrieve();
  const GraphTensor top = x.topk(2, 1).second.retrieve();
  for (const int64_t n : {2, 7, 300}) {
    const std::vector<double> values = awkward(2 * n, 7);
    GraphTensor(x).set_dyn(values, {2, n});
    cx.execute();
    check_rows(values, places.data<int64_t>(), 2, false);
    check_rows(values, top.data<int64_t>(), 2, true);
  }
}

TEST(Sort, AnyAxisAndGradients) {
  Graph cx;
  const GraphTensor x = input(cx, {3, 2}, {3, 1, 1, 2, 2, 3});
  EXPECT_TRUE(near(run(x.sort(0)), {1, 1, 2, 2, 3, 3}));
  const GraphTensor weights = input(cx, {3, 2}, {10, 20, 30, 40, 50, 60});
  EXPECT_TRUE(near(slope(cx, x, x.sort(0) * weights), {50, 20, 10, 40, 30, 60}));
  EXPECT_TRUE(near(slope(cx, x, x.topk(1, 0).first), {1, 0, 0, 0, 0, 1}));
}

/// Elements that all nodes between the graph's inputs and `x` compute.
double work_of(const GraphTensor& x) {
  Graph graph = x.graph();
  double work = 0;
  for (const NodeId id : graph.topological_order()) {
    double elements = 1;
    for (const Expression& dim : graph.node(id).outputs.at(0).dims)
      elements *= static_cast<double>(dim.constant().value_or(1));
    work += elements;
  }
  return work;
}

TEST(Sort, CostGrowsAsPromised) {
  const auto sorting = [](int64_t n) {
    Graph cx;
    return work_of(cx.tensor({n}).argsort(0));
  };
  const auto largest = [](int64_t n) {
    Graph cx;
    return work_of(cx.tensor({n}).topk(4, 0).second);
  };
  const auto summing = [](int64_t n) {
    Graph cx;
    return work_of(cx.tensor({n}).cumsum(0));
  };
  // n log^2 n from 2^8 to 2^16 is a factor of 256 * 4; n^2 would be 65536.
  EXPECT_LT(sorting(1 << 16) / sorting(1 << 8), 256 * 4 * 1.2);
  EXPECT_LT(largest(1 << 16) / largest(1 << 8), 256 * 1.2);
  EXPECT_LT(summing(1 << 20) / summing(1 << 12), 256 * 1.2);
}

// --- Cumulative ops, whose axes are cut into blocks of blocks

TEST(Scan, LongAxesAndSizesKnownAtRunTimeOnly) {
  for (const bool known : {true, false})
    for (const int64_t n : {0, 1, 127, 128, 129, 257, 20000}) {
      Graph cx;
      const GraphTensor x = cx.tensor({known ? Expression(n) : Expression("scan_n"), 2}, Dtype::I64);
      std::vector<int64_t> values;
      for (int64_t i = 0; i < 2 * n; ++i) values.push_back(i * 7919 % 1009 - 500);
      GraphTensor(x).set_dyn(values, {n, 2});
      const GraphTensor sums = x.cumsum(0).retrieve(), greatest = x.cummax(0).retrieve();
      cx.execute();
      std::vector<int64_t> sum(2, 0), most(2, INT64_MIN), wanted_sums, wanted_most;
      for (int64_t i = 0; i < 2 * n; ++i) {
        const auto at = static_cast<size_t>(i % 2);
        wanted_sums.push_back(sum[at] += values[static_cast<size_t>(i)]);
        wanted_most.push_back(most[at] = std::max(most[at], values[static_cast<size_t>(i)]));
      }
      EXPECT_EQ(sums.data<int64_t>(), wanted_sums) << n;
      EXPECT_EQ(greatest.data<int64_t>(), wanted_most) << n;
    }
}

TEST(Scan, GradientOfAProductIsLinearAndRightAtZeros) {
  for (const bool known : {true, false}) {
    Graph cx;
    const std::vector<float> values{2, 3, 0, 5, 2, 0, 1, 4};
    const GraphTensor x = cx.tensor({2, known ? Expression(4) : Expression("prod_n")});
    GraphTensor(x).set_dyn(values, {2, 4});
    EXPECT_TRUE(near(slope(cx, x, x.prod(1)), {0, 0, 30, 0, 0, 8, 0, 0}));
  }
  Graph cx;
  const GraphTensor x = cx.tensor({1 << 12}), y = x.prod(0);
  const GraphTensor gradient = cx.run_pass(Autograd({x}, y)).at(0);
  EXPECT_LT(work_of(gradient), 100.0 * (1 << 12));
}

}  // namespace
}  // namespace luminal::composite_test
