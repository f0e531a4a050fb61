#include <gtest/gtest.h>

#include <random>

#include "luminal/block_format.h"
#include "luminal/compile_report.h"
#include "luminal/luminal.h"

// Weights in blocks are operands of kernels: no f32 copy of them is made.
namespace luminal::search {
namespace {

constexpr int64_t kRows = 24;

struct QuantisedLinear {
  QuantisedLinear(Dtype dtype, int64_t batch) : blocks(random_blocks(dtype, {kRows, width(dtype)}, 7)) {
    x = cx.tensor({batch, width(dtype)});
    w = cx.tensor({kRows, width(dtype)}, dtype);
    std::mt19937_64 random(1);
    std::uniform_real_distribution<float> uniform(-1, 1);
    data.resize(static_cast<size_t>(batch * width(dtype)));
    for (float& each : data) each = uniform(random);
    y = x.matmul(w.cast(Dtype::F32).t()).relu();
    y.retrieve();
  }
  static int64_t width(Dtype dtype) { return 2 * info(dtype).block_elements; }
  /// By the decoded weights, in f64.
  [[nodiscard]] std::vector<double> expected() const {
    const TensorData plain = dequantize(blocks);
    const auto weights = plain.as<float>();
    const size_t k = weights.size() / kRows;
    std::vector<double> result;
    for (size_t i = 0; i < data.size() / k; ++i)
      for (size_t j = 0; j < kRows; ++j) {
        double sum = 0;
        for (size_t r = 0; r < k; ++r)
          sum += static_cast<double>(data[i * k + r]) * static_cast<double>(weights[j * k + r]);
        result.push_back(std::max(sum, 0.0));
      }
    return result;
  }
  void check(const CompileReport& report) {
    const std::vector<double> want = expected();
    const std::vector<float> got = y.data<float>();
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(static_cast<double>(got[i]), want[i], 1e-3) << to_text(report);
    // Where several rows read them, small weights may be decoded once, in a kernel before.
    EXPECT_LE(report.kernels.size(),
              data.size() == static_cast<size_t>(blocks.element_count()) / kRows ? 1U : 2U)
        << to_text(report);
  }

  Graph cx;
  TensorData blocks;
  GraphTensor x, w, y;
  std::vector<float> data;
};

class QuantisedWeights : public testing::TestWithParam<Dtype> {};

TEST_P(QuantisedWeights, AreReadByTheProduct) {
  for (const int64_t batch : {1, 5}) {
    QuantisedLinear linear(GetParam(), batch);
    linear.cx.set_device("cpu");
    linear.x.set(linear.data), linear.w.set(linear.blocks);
    Compiled compiled = linear.cx.compile(Fast{});
    compiled();
    linear.check(compiled.details());
  }
}

std::vector<Dtype> block_dtypes() {
  std::vector<Dtype> all;
  for (const BlockFormat& format : block_formats()) all.push_back(format.dtype);
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, QuantisedWeights, testing::ValuesIn(block_dtypes()),
                         [](const auto& test) { return std::string(name(test.param)); });

TEST(Optimal, VerifiesProductsOfQuantisedWeights) {
  for (const Dtype dtype : {Dtype::Q8_0, Dtype::Q4_K, Dtype::IQ2_S}) {
    QuantisedLinear linear(dtype, 3);
    linear.cx.set_device("cpu");
    linear.x.set(linear.data), linear.w.set(linear.blocks);
    Compiled compiled = linear.cx.compile(Optimal{});
    compiled();
    linear.check(compiled.details());
  }
}

}  // namespace
}  // namespace luminal::search
