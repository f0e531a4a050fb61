#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "luminal/error.h"
#include "luminal/graph.h"
#include "luminal/ops.h"
#include "luminal/reference.h"

// The interpreter's own choices: orders of summation, streaming, both precisions. Ops are tested in tests/op.
namespace luminal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<float> random_integers(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 15) - 7);
  return values;
}

/// c[i, j] = sum over k of a[i, k] * b[k, j], exact in integers.
std::vector<float> product(const std::vector<float>& a, const std::vector<float>& b, size_t m, size_t k,
                           size_t n) {
  std::vector<float> c(m * n, 0);
  for (size_t i = 0; i < m; ++i)
    for (size_t p = 0; p < k; ++p)
      for (size_t j = 0; j < n; ++j) c[i * n + j] += a[i * k + p] * b[p * n + j];
  return c;
}

std::vector<float> transposed(const std::vector<float>& a, size_t rows, size_t columns) {
  std::vector<float> result(a.size());
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < columns; ++j) result[j * rows + i] = a[i * columns + j];
  return result;
}

// Long, short and odd sizes in every layout, so that both orders of summation and pieces of rows are met.
TEST(Reference, ProductsInEveryLayout) {
  for (const auto& [m, k, n] : std::vector<std::array<size_t, 3>>{
           {1, 1, 1}, {3, 5000, 2}, {70, 33, 65}, {2, 3, 5000}, {1, 2049, 1}, {4, 0, 3}})
    for (const bool a_turned : {false, true})
      for (const bool b_turned : {false, true}) {
        const auto a = random_integers(m * k, 1), b = random_integers(k * n, 2);
        Graph cx;
        const auto dim = [](size_t size) { return static_cast<int64_t>(size); };
        GraphTensor x = a_turned ? cx.tensor({dim(k), dim(m)}).set(transposed(a, m, k)).t()
                                 : cx.tensor({dim(m), dim(k)}).set(a);
        GraphTensor y = b_turned ? cx.tensor({dim(n), dim(k)}).set(transposed(b, k, n)).t()
                                 : cx.tensor({dim(k), dim(n)}).set(b);
        GraphTensor z = x.matmul(y).retrieve();
        cx.execute();
        ASSERT_EQ(z.data<float>(), product(a, b, m, k, n))
            << m << "x" << k << "x" << n << a_turned << b_turned;
      }
}

TEST(Reference, AProductIsNotWrittenDown) {
  Graph cx;
  GraphTensor x = cx.tensor({64, 64}).set(random_integers(64 * 64, 3));
  GraphTensor y = x.matmul(x.t()).retrieve();
  const auto trace = cx.execute_debug();
  ASSERT_EQ(trace.size(), 1U);  // the sum alone: the multiply is evaluated inside it
  EXPECT_EQ(trace[0].op, "sum_reduce");
  GraphTensor wanted = (x * 2).retrieve();  // a product somebody wants is written down
  GraphTensor sum = wanted.sum().retrieve();
  EXPECT_EQ(cx.execute_debug().size(), 4U);  // the constant, the product, both sums
  EXPECT_EQ(wanted.data<float>()[5], 2 * x.data<float>()[5]);
  (void)y;
  (void)sum;
}

TEST(Reference, SumsLoseNothingThatF32CannotHold) {
  Graph cx;
  const size_t count = 1 << 20;
  std::vector<float> values(count, 0.1F);
  GraphTensor x = cx.tensor({static_cast<int64_t>(count)}).set(values);
  GraphTensor sum = x.sum().retrieve();
  cx.execute();
  EXPECT_EQ(sum.data<float>()[0], static_cast<float>(static_cast<double>(0.1F) * static_cast<double>(count)));
}

TEST(Reference, DoublePrecisionTellsTheRounding) {
  for (const char* device : {"reference", "reference-f64"}) {
    Graph cx;
    cx.set_device(device);
    GraphTensor x = cx.tensor({1}).set({1e8});
    GraphTensor y = ((x + 1) - x).cast(Dtype::F64).retrieve();
    cx.execute();
    EXPECT_EQ(y.data<double>()[0], std::string(device) == "reference" ? 0 : 1) << device;
  }
}

TEST(Reference, DoublePrecisionKeepsBitsAndRandomNumbers) {
  std::vector<std::vector<float>> drawn;
  std::vector<std::vector<int32_t>> bits;
  for (const char* device : {"reference", "reference-f64"}) {
    Graph cx;
    cx.set_device(device);
    GraphTensor random = cx.uniform({5}).retrieve();
    GraphTensor word = cx.tensor({2}).set({1.5, -2}).as_dtype(Dtype::I32).retrieve();
    cx.execute();
    drawn.push_back(random.data<float>());
    bits.push_back(word.data<int32_t>());
  }
  EXPECT_EQ(drawn[0], drawn[1]);
  EXPECT_EQ(bits[0], bits[1]);
  EXPECT_THAT(bits[0], ElementsAre(0x3fc00000, static_cast<int32_t>(0xc0000000)));
}

TEST(Reference, MaskedViewsOfWantedSizes) {
  Graph cx;
  GraphTensor x = cx.tensor({2, 3}).set({{1, 2, 3}, {4, 5, 6}});
  GraphTensor twice = x.pad({{1, 0}, {0, 1}})
                          .pad({{0, 1}, {1, 0}}, -std::numeric_limits<double>::infinity())
                          .contiguous()
                          .retrieve();
  GraphTensor flat =
      x.pad({{0, 0}, {1, 1}}).reshape({2, 5}).flip(1).reshape({10}).slice({{2, 9}}).contiguous().retrieve();
  cx.execute();
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_THAT(twice.data<float>(), ElementsAre(-inf, 0, 0, 0, 0, -inf, 1, 2, 3, 0, -inf, 4, 5, 6, 0, -inf,
                                               -inf, -inf, -inf, -inf));
  EXPECT_THAT(flat.data<float>(), ElementsAre(2, 1, 0, 0, 6, 5, 4));
}

TEST(Reference, SingleOpsByTheirRecord) {
  const TensorData x = TensorData::of<float>({2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6});
  const auto sums = evaluate_op(kSumReduce, {{"axes", std::vector<int64_t>{0}}}, std::vector{x});
  EXPECT_THAT(sums.at(0).as<float>(), ElementsAre(5, 7, 9));
  const auto products = evaluate_op(kMul, {}, std::vector{x, x});
  EXPECT_THAT(products.at(0).as<float>(), ElementsAre(1, 4, 9, 16, 25, 36));
}

TEST(Reference, GatherOutOfRangeIsAnErrorAndTheGraphGoesOn) {
  Graph cx;
  GraphTensor x = cx.tensor({3}).set({10, 20, 30}), index = cx.tensor({2}, Dtype::I64).set({0, 3});
  GraphTensor y = x.gather(index).retrieve();
  EXPECT_THROW(cx.execute(), Error);
  index.set({2, 0});
  cx.execute();
  EXPECT_THAT(y.data<float>(), ElementsAre(30, 10));
}

}  // namespace
}  // namespace luminal
