#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "luminal/compile_report.h"
#include "luminal/luminal.h"

// Products with one-hot rows are no products: what they name is read, and nothing else.
namespace luminal::search {
namespace {

TensorData tokens(int64_t count, int64_t classes) {
  std::mt19937_64 random(3);
  std::vector<int64_t> list(static_cast<size_t>(count));
  for (int64_t& token : list) token = static_cast<int64_t>(random() % static_cast<uint64_t>(classes));
  return TensorData::of<int64_t>({count}, list);
}
TensorData normal(std::vector<int64_t> dims) {
  TensorData data(Dtype::F32, std::move(dims));
  std::mt19937_64 random(4);
  std::normal_distribution<float> any;
  for (float& x : data.as<float>()) x = any(random);
  return data;
}

/// The families of a graph's kernels, which compute what the reference does.
std::vector<std::string> families(Graph& cx, GraphTensor result, const CompilationMode& mode = Fast{}) {
  result.retrieve();
  cx.set_device("cpu");
  Compiled compiled = cx.compile(mode);
  compiled();
  const std::vector<float> got = result.data<float>();
  cx.set_device("reference");
  cx.execute();
  EXPECT_THAT(got, testing::Pointwise(testing::NanSensitiveFloatNear(2e-5F), result.data<float>()));
  std::vector<std::string> found;
  for (const KernelReport& kernel : compiled.details().kernels) found.push_back(kernel.schedule);
  return found;
}

TEST(OneHot, RowsOfATableArePicked) {
  for (const CompilationMode& mode : {CompilationMode(Fast{}), CompilationMode(Optimal{})})
    for (const Dtype dtype : {Dtype::F32, Dtype::BF16}) {
      Graph cx;
      const GraphTensor index = cx.tensor({40}, Dtype::I64).set(tokens(40, 300)),
                        table = cx.tensor({300, 70}).set(normal({300, 70}));
      const GraphTensor rows = index.one_hot(300, dtype).matmul(table.cast(dtype)).cast(Dtype::F32);
      EXPECT_THAT(families(cx, rows, mode), testing::Contains("pick")) << name(dtype);
    }
}

TEST(OneHot, NamedNumbersOfTokensToo) {
  Graph cx;
  const GraphTensor index = cx.tensor({"n"}, Dtype::I64).set(tokens(77, 300)),
                    table = cx.tensor({300, 70}).set(normal({300, 70}));
  EXPECT_THAT(families(cx, index.one_hot(300).matmul(table).relu(), Optimal{}), testing::ElementsAre("pick"));
}

// A loss reads its row for the maximum and the sum; the probability of the token takes no further pass.
TEST(OneHot, ALossIsOneKernelOfRows) {
  for (const CompilationMode& mode : {CompilationMode(Fast{}), CompilationMode(Optimal{})}) {
    Graph cx;
    const GraphTensor index = cx.tensor({30}, Dtype::I64).set(tokens(30, 500)),
                      scores = cx.tensor({30, 500}).set(normal({30, 500}));
    const GraphTensor loss = -(index.one_hot(500) * scores.log_softmax(1)).sum(1);
    EXPECT_THAT(families(cx, loss, mode), testing::ElementsAre("row"));
  }
}

TEST(OneHot, PlacesOutsideAreZero) {
  Graph cx;
  const std::vector<int64_t> places{
      -1, 0, 299, 300, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
  const GraphTensor index = cx.tensor({6}, Dtype::I64).set(TensorData::of<int64_t>({6}, places)),
                    table = cx.tensor({300, 20}).set(normal({300, 20}));
  EXPECT_THAT(families(cx, index.one_hot(300).matmul(table)), testing::ElementsAre("pick"));
}

// Strict math keeps what zeros times infinities come to; a choice is a choice there too.
TEST(OneHot, StrictMathKeepsNaN) {
  for (const bool chosen : {false, true}) {
    Graph cx;
    cx.set_search({.math = MathMode::Strict});
    TensorData numbers = normal({300, 20});
    numbers.as<float>()[25] = std::numeric_limits<float>::infinity();
    const GraphTensor index = cx.tensor({6}, Dtype::I64).set(tokens(6, 300)),
                      table = cx.tensor({300, 20}).set(numbers);
    const GraphTensor is_there = cx.arange(300).cast(Dtype::I64).eq(index.unsqueeze(1)).unsqueeze(2);
    const GraphTensor rows = chosen ? where(is_there, table, 0).sum(1) : index.one_hot(300).matmul(table);
    const auto found = families(cx, rows);
    EXPECT_EQ(std::ranges::count(found, "pick"), chosen ? 1 : 0);
  }
}

}  // namespace
}  // namespace luminal::search
