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

/// Numbers of 8 bits with a scale for each 32 of them, times weights in blocks.
struct RoundedLinear {
  static constexpr int64_t kOutputs = 77, kGroup = 32;
  static int64_t width(Dtype dtype) { return std::max<int64_t>(2 * info(dtype).block_elements, 128); }

  RoundedLinear(Dtype dtype, int64_t rows) : blocks(random_blocks(dtype, {kOutputs, width(dtype)}, 7)) {
    cx.set_device("cpu");
    const int64_t groups = width(dtype) / kGroup;
    TensorData steps(Dtype::I8, {rows, groups, kGroup}), scales(Dtype::F32, {rows, groups, 1});
    std::mt19937_64 random(1);
    for (int8_t& step : steps.as<int8_t>())
      step = static_cast<int8_t>(static_cast<int>(random() % 255) - 127);
    for (float& scale : scales.as<float>()) scale = std::uniform_real_distribution<float>(-1, 1)(random);
    const GraphTensor x = (cx.tensor(Shape{rows, groups, kGroup}, Dtype::I8).set(steps).cast(Dtype::F32) *
                           cx.tensor(Shape{rows, groups, 1}).set(scales))
                              .merge_dims(1, 2);
    GraphTensor w = cx.tensor(Shape{kOutputs, width(dtype)}, dtype);
    w.set_lazily([data = blocks] { return data; });
    y = x.matmul(w.cast(Dtype::F32).t()).retrieve();
    for (size_t i = 0; i < steps.as<int8_t>().size(); ++i)
      data.push_back(static_cast<double>(steps.as<int8_t>()[i]) *
                     static_cast<double>(scales.as<float>()[i / kGroup]));
  }
  void check(const CompileReport& report) {
    const TensorData plain = dequantize(blocks);
    const auto weights = plain.as<float>();
    const size_t k = weights.size() / kOutputs;
    const std::vector<float> got = y.data<float>();
    for (size_t i = 0; i < got.size(); ++i) {
      double sum = 0, magnitudes = 0;
      for (size_t r = 0; r < k; ++r) {
        const double term = data[i / kOutputs * k + r] * static_cast<double>(weights[i % kOutputs * k + r]);
        sum += term, magnitudes += std::abs(term);
      }
      // As many roundings as an f32 sum of all groups may have, and one for each product.
      ASSERT_NEAR(static_cast<double>(got[i]), sum, 40 * 0x1p-24 * magnitudes) << to_text(report);
    }
  }

  Graph cx;
  TensorData blocks;
  GraphTensor y;
  std::vector<double> data;
};

TEST_P(QuantisedWeights, MeetRoundedActivationsInTheirBlocks) {
  for (const int64_t rows : {1, 3, 9}) {
    RoundedLinear linear(GetParam(), rows);
    const Compiled compiled = linear.cx.compile(Fast{});
    linear.cx.execute();
    linear.check(compiled.details());
  }
}

// Machine code of all forms, packed ones too: each is compared with the others before it is taken.
TEST(Optimal, VerifiesWeightsInPanels) {
  for (const Dtype dtype : {Dtype::Q8_0, Dtype::Q5_0, Dtype::Q6_K, Dtype::MXFP4}) {
    RoundedLinear linear(dtype, 2);
    const Compiled compiled = linear.cx.compile(Optimal{});
    linear.cx.execute();
    const CompileReport report = compiled.details();
    linear.check(report);
    for (const KernelReport& kernel : report.kernels)
      for (const KernelReport::Rejected& other : kernel.rejected)
        EXPECT_TRUE(other.is_sound()) << other.parameters << ": " << other.reason;
  }
}

}  // namespace
}  // namespace luminal::search
