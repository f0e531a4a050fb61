#include <gtest/gtest.h>

#include <unistd.h>
#include <cmath>

#include <filesystem>
#include <limits>

#include "base/file.h"
#include "luminal/error.h"
#include "luminal/graph.h"
#include "luminal/ops.h"
#include "ops/diff_report.h"

namespace luminal {
namespace {

TensorData floats(std::vector<int64_t> dims, const std::vector<float>& values) {
  return TensorData::of<float>(std::move(dims), values);
}

TEST(Diff, StatisticsOfAHundredErrors) {
  std::vector<float> actual(100), expected(100, 1.0F);
  for (size_t i = 0; i < 100; ++i) actual[i] = 1.0F + static_cast<float>(i) / 128;  // exact steps
  const auto report = ops::compare(floats({10, 10}, actual), floats({10, 10}, expected), 0, 0.5);
  EXPECT_EQ(report.count, 100);
  EXPECT_EQ(report.outside, 35);  // errors above 64/128
  EXPECT_EQ(report.max_absolute, 99 / 128.0);
  EXPECT_EQ(report.max_relative, 99 / 128.0);
  EXPECT_NEAR(report.mean_absolute, 49.5 / 128, 1e-12);
  EXPECT_EQ(report.percentiles[0], 49 / 128.0);  // nearest rank: the 50th smallest
  EXPECT_EQ(report.percentiles[1], 89 / 128.0);
  EXPECT_EQ(report.percentiles[2], 98 / 128.0);
  EXPECT_EQ(report.percentiles[3], 99 / 128.0);
  ASSERT_EQ(report.worst.size(), 10U);
  EXPECT_EQ(report.worst[0].position, 99);
  EXPECT_EQ(report.worst[9].position, 90);
}

TEST(Diff, TextNamesCoordinatesAndValues) {
  const TensorData actual = floats({2, 2}, {1, 2, 3, 4.5F}), expected = floats({2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(ops::to_text(ops::compare(actual, expected, 0.125, 0), actual, "want.bin", 0.125, 0),
            "[diff] want.bin: 4 values, 1 outside of 0.125 + 0 * |expected|\n"
            "  absolute error: max 0.5, mean 0.125, p50 0, p90 0.5, p99 0.5, p99.9 0.5\n"
            "  relative error: max 0.125\n"
            "  [1, 1]: got 4.5, expected 4, off by 0.5\n");
}

TEST(Diff, NaNAndInfinityAreEqualOnlyToThemselves) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const auto report =
      ops::compare(floats({5}, {nan, inf, nan, inf, -inf}), floats({5}, {nan, inf, 1, 2, inf}), 1e9, 1);
  EXPECT_EQ(report.outside, 3);
  EXPECT_TRUE(std::isinf(report.max_absolute));
}

TEST(Diff, IntegersBeyondDoublesAreToldApart) {
  const std::vector<int64_t> a{(int64_t{1} << 60) + 1, INT64_MIN}, b{int64_t{1} << 60, INT64_MAX};
  const auto report = ops::compare(TensorData::of<int64_t>({2}, a), TensorData::of<int64_t>({2}, b), 0, 0);
  EXPECT_EQ(report.outside, 2);
  EXPECT_EQ(report.worst[1].error, 1);
  EXPECT_EQ(report.max_absolute, 0x1p64);
}

TEST(Diff, EmptyTensorsHaveNoErrors) {
  const auto report = ops::compare(floats({0}, {}), floats({0}, {}), 0, 0);
  EXPECT_EQ(report.count, 0);
  EXPECT_EQ(report.outside, 0);
}

class DiffFile : public testing::Test {
 protected:
  void write(const std::vector<float>& values) const {
    write_file_atomic(path, {reinterpret_cast<const char*>(values.data()), values.size() * 4});
  }
  ~DiffFile() override { std::filesystem::remove(path); }
  std::string path = testing::TempDir() + "luminal_diff_" + std::to_string(::getpid()) + ".bin";
};

TEST_F(DiffFile, NodeReportsAtEachRunAndPassesItsValueOn) {
  write({1, 2, 3});
  Graph cx;
  cx.set_device("reference");
  GraphTensor x = cx.tensor({3}, Dtype::F16);
  x.set({1, 2, 4});
  GraphTensor y = cx.add_op(kDiff)
                      .input(x)
                      .attribute("file", path)
                      .attribute("atol", Number(0.5))
                      .attribute("rtol", Number(0))
                      .finish();
  y.retrieve();
  testing::internal::CaptureStdout();
  cx.execute();
  const std::string text = testing::internal::GetCapturedStdout();
  EXPECT_NE(text.find("3 values, 1 outside of 0.5"), std::string::npos) << text;
  EXPECT_NE(text.find("[2]: got 4, expected 3, off by 1"), std::string::npos) << text;
  EXPECT_EQ(y.data<float>(), (std::vector<float>{1, 2, 4}));
}

TEST_F(DiffFile, FilesOfAnotherSizeAreRefused) {
  write({1, 2, 3});
  try {
    (void)ops::read_raw(path, TensorData(Dtype::F16, {4}));
    FAIL();
  } catch (const FormatError& error) {
    EXPECT_EQ(std::string(error.what()),
              "[diff] " + path + " holds 12 bytes; 4 values take 8 as f16, 16 as f32");
  }
}

}  // namespace
}  // namespace luminal
