#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "luminal/graph.h"
#include "luminal/session.h"
#include "support/opencl.h"

namespace luminal {
namespace {

// Its kernel compares halves under a mask with one of them in memory, where LLVM 19 mixes up the operands if
// it may compute with halves.
TEST(Halves, FlooredQuotientsOfTruthAndHalves) {
  for (const std::string& device : session_devices()) {
    if (device == "null" || (device == "opencl" && test::opencl() == nullptr)) continue;  // computes nothing
    SCOPED_TRACE(device);
    Graph cx;
    cx.set_device(device);
    const GraphTensor x = cx.tensor({4}, Dtype::Bool).set(std::vector<bool>{true, true, false, true});
    const GraphTensor y = cx.tensor({4}, Dtype::F16).set({2, 3, 1.5, 0.5});
    const GraphTensor quotient = x.floor_div(y).cast(Dtype::F32).retrieve();
    cx.execute();
    EXPECT_EQ(quotient.data<float>(), (std::vector<float>{0, 0, 0, 2}));
  }
}

// Rounded to a half again, a maximum in f32 looks like one of halves, which LLVM 19 gets wrong for NaN.
TEST(Halves, MaximaOfAllPairsOfSpecialValues) {
  constexpr double kInf = std::numeric_limits<double>::infinity(),
                   kNaN = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> special{0, -0.0, 1, -1, kInf, -kInf, kNaN, 65504, 6e-8, -2.5};
  std::vector<double> left, right;
  for (const double a : special)
    for (const double b : special) {
      left.push_back(a);
      right.push_back(b);
    }
  for (const std::string& device : session_devices()) {
    if (device == "null" || (device == "opencl" && test::opencl() == nullptr)) continue;  // computes nothing
    SCOPED_TRACE(device);
    Graph cx;
    cx.set_device(device);
    const auto halves = [&](const std::vector<double>& values) {
      return cx.tensor({static_cast<int64_t>(values.size())}, Dtype::F64)
          .set(values)
          .cast(Dtype::F16)
          .retrieve();
    };
    const GraphTensor x = halves(left), y = halves(right);
    cx.execute();  // the halves are values now: the kernel to come loads them
    const GraphTensor greatest = x.maximum(y).cast(Dtype::F64).retrieve();
    cx.execute();
    const std::vector<double> got = greatest.data<double>();
    for (size_t i = 0; i < got.size(); ++i) {
      if (std::isnan(left[i]) || std::isnan(right[i]))
        EXPECT_TRUE(std::isnan(got[i])) << left[i] << " and " << right[i] << " gave " << got[i];
      else
        EXPECT_TRUE(got[i] == std::max(left[i], right[i]) || std::abs(got[i]) < 1e-7)
            << left[i] << " and " << right[i];
    }
  }
}

}  // namespace
}  // namespace luminal
