#include "luminal/session.h"
#include "run.h"
#include "support/opencl.h"

// Promotion, integers, bool, narrow floats.
namespace luminal::composite_test {
namespace {

TEST(Dtypes, WeakNumbers) {
  Graph cx;
  const auto of = [&](Dtype dtype) { return cx.tensor({2}, dtype); };
  EXPECT_EQ((of(Dtype::I32) + 2.5).dtype(), Dtype::F32);
  EXPECT_EQ((of(Dtype::F16) * 2.0).dtype(), Dtype::F16);
  EXPECT_EQ((of(Dtype::BF16) - 1).dtype(), Dtype::BF16);
  EXPECT_EQ((of(Dtype::F64) / 2).dtype(), Dtype::F64);
  EXPECT_EQ((of(Dtype::Bool) + 1).dtype(), Dtype::I64);
  EXPECT_EQ((of(Dtype::Bool) * 0.5).dtype(), Dtype::F32);
  EXPECT_EQ((of(Dtype::Bool) + of(Dtype::Bool)).dtype(), Dtype::I64);  // counts
  EXPECT_EQ((of(Dtype::U8) + 255).dtype(), Dtype::U8);
  EXPECT_EQ((of(Dtype::I8) + of(Dtype::U8)).dtype(), Dtype::I32);
  EXPECT_EQ((of(Dtype::F16) + of(Dtype::BF16)).dtype(), Dtype::F32);
  EXPECT_EQ((of(Dtype::I64) + of(Dtype::F16)).dtype(), Dtype::F16);
  EXPECT_EQ((of(Dtype::I32) / of(Dtype::I32)).dtype(), Dtype::F32);
  EXPECT_EQ(of(Dtype::I32).exp().dtype(), Dtype::F32);
  EXPECT_EQ(of(Dtype::I32).floor().dtype(), Dtype::I32);
  EXPECT_EQ(of(Dtype::I8).sum().dtype(), Dtype::I64);
  EXPECT_EQ(of(Dtype::Bool).prod().dtype(), Dtype::I64);
  EXPECT_EQ(of(Dtype::I32).mean().dtype(), Dtype::F32);
  EXPECT_EQ(of(Dtype::F16).softmax().dtype(), Dtype::F16);
  EXPECT_EQ(of(Dtype::F16).lt(1).dtype(), Dtype::Bool);
}

TEST(Dtypes, BoolsCountAsZeroAndOne) {
  Graph cx;
  const GraphTensor x = input(cx, {4}, {1, 2, 3, 4});
  EXPECT_TRUE(near(run(x.gt(1) + x.gt(2) + x.gt(3)), {0, 1, 2, 3}));
  EXPECT_TRUE(near(run(x.gt(2) * x), {0, 0, 3, 4}));
  EXPECT_TRUE(near(run(x.gt(2).sum()), {2}));
  EXPECT_TRUE(near(run(-x.gt(2)), {0, 0, -1, -1}));
  EXPECT_TRUE(near(run(x.gt(2).mean()), {0.5}));
}

TEST(Dtypes, IntegersAreExactBeyondFloats) {
  Graph cx;
  const int64_t big = (int64_t{1} << 53) + 1, huge = std::numeric_limits<int64_t>::max() - 2;
  const GraphTensor x = cx.tensor({2}, Dtype::I64).set(std::vector<int64_t>{big, huge});
  using Values = std::vector<int64_t>;
  EXPECT_EQ(run<int64_t>(x + 1), (Values{big + 1, huge + 1}));
  EXPECT_EQ(run<int64_t>(x - 1), (Values{big - 1, huge - 1}));
  EXPECT_EQ(run<int64_t>(x * 1), (Values{big, huge}));
  EXPECT_EQ(run<int64_t>(x % 1000), (Values{big % 1000, huge % 1000}));
  EXPECT_EQ(run<int64_t>(x.floor_div(-7)),
            (Values{-(big / 7) - (big % 7 != 0), -(huge / 7) - (huge % 7 != 0)}));
  EXPECT_EQ(run<int64_t>(x.max()), Values{huge});
  EXPECT_EQ(run<int64_t>(x.min()), Values{big});
  EXPECT_EQ(run<int64_t>(x.cumsum(0) - x), (Values{0, big}));
  EXPECT_EQ(run<int64_t>(x.maximum(big + 1)), (Values{big + 1, huge}));
  EXPECT_EQ(run<int64_t>(x.minimum(big + 1)), (Values{big, big + 1}));
  EXPECT_TRUE(near(run(x.eq(big - 1)), {0, 0}));
  EXPECT_TRUE(near(run(x.lt(big + 1)), {1, 0}));
  EXPECT_EQ(run<int64_t>(x.argmax(0)), Values{1});
  EXPECT_EQ(run<int64_t>(x.clip(big + 2, huge - 1)), (Values{big + 2, huge - 1}));
  const GraphTensor y = cx.tensor({2}, Dtype::I32).set({16777217, -16777217});
  EXPECT_EQ(run<int32_t>(y + 0), (std::vector<int32_t>{16777217, -16777217}));
  EXPECT_EQ(run<int64_t>(y.sum() + y.sum()), Values{0});
}

TEST(Dtypes, UnsignedAndLeastIntegers) {
  Graph cx;
  const GraphTensor u = cx.tensor({3}, Dtype::U8).set({0, 7, 255});
  EXPECT_TRUE(near(run(u.min()), {0}));
  EXPECT_TRUE(near(run(u.minimum(7)), {0, 7, 7}));
  EXPECT_TRUE(near(run(u - 8), {248, 255, 247}));  // wraps
  EXPECT_TRUE(near(run(u.abs()), {0, 7, 255}));
  EXPECT_TRUE(near(run(u.argmin(0)), {0}));
  EXPECT_TRUE(near(run(u.fmod(4)), {0, 3, 3}));
  const GraphTensor n = cx.tensor({3}, Dtype::I8).set({-128, 5, 127});
  EXPECT_TRUE(near(run(n.min()), {-128}));
  EXPECT_TRUE(near(run(n.argmin(0)), {0}));
  EXPECT_TRUE(near(run(n.minimum(-127)), {-128, -127, -127}));
  EXPECT_TRUE(near(run(n.cummax(0)), {-128, 5, 127}));
}

/// On every device that computes; values as in PyTorch's uint16 where it has the operation.
TEST(Dtypes, SixteenBitsWithoutASign) {
  for (const std::string& device : session_devices()) {
    if (device == "null" || (device == "opencl" && test::opencl() == nullptr)) continue;
    SCOPED_TRACE(device);
    Graph cx;
    cx.set_device(device);
    const GraphTensor u = cx.tensor({2, 2}, Dtype::U16).set(std::vector<uint16_t>{0, 7, 300, 65535});
    EXPECT_EQ((u + 1).dtype(), Dtype::U16);
    EXPECT_EQ((u * 0.5).dtype(), Dtype::F32);
    EXPECT_EQ((u + cx.tensor({2, 2}, Dtype::I8).set({1, 1, 1, 1})).dtype(), Dtype::I32);
    EXPECT_TRUE(near(run(u - 8), {65528, 65535, 292, 65527}));  // wraps
    EXPECT_TRUE(near(run(u * u), {0, 49, 24464, 1}));
    EXPECT_TRUE(near(run(-u), {0, 65529, 65236, 1}));
    EXPECT_TRUE(near(run(u.abs() + u.sign()), {0, 8, 301, 0}));
    EXPECT_TRUE(near(run(u % 256), {0, 7, 44, 255}));
    EXPECT_TRUE(near(run(u.floor_div(0)), {0, 0, 0, 0}));
    EXPECT_TRUE(near(run(u.shift(-2)), {0, 1, 75, 16383}));
    EXPECT_TRUE(near(run(u.shift(9)), {0, 3584, 22528, 65024}));
    EXPECT_TRUE(near(run(u.bitwise_xor(65535)), {65535, 65528, 65235, 0}));
    EXPECT_TRUE(near(run(u.pow(3)), {0, 343, 64704, 65535}));
    EXPECT_TRUE(near(run(u.gt(299)), {0, 0, 1, 1}));
    EXPECT_TRUE(near(run(u.maximum(9).minimum(301)), {9, 9, 300, 301}));
    EXPECT_EQ(u.sum().dtype(), Dtype::I64);
    EXPECT_TRUE(near(run(u.sum()), {65842}));
    EXPECT_TRUE(near(run(u.max(0)), {300, 65535}));
    EXPECT_TRUE(near(run(u.min(1)), {0, 300}));
    EXPECT_TRUE(near(run(u.mean()), {65842 / 4.0}));
    EXPECT_TRUE(near(run(u.cumsum(1)), {0, 7, 300, 65835}));
    EXPECT_TRUE(near(run(u.argmax(1)), {1, 1}));
    const GraphTensor reals = input(cx, {5}, {-3, 1.9F, 65534.5F, 1e9F, static_cast<float>(kNaN)});
    EXPECT_TRUE(near(run(reals.cast(Dtype::U16)), {0, 1, 65534, 65535, 0}));  // saturates
    const GraphTensor whole = cx.tensor({3}, Dtype::I32).set({-1, 65536, 70000});
    EXPECT_TRUE(near(run(whole.cast(Dtype::U16)), {65535, 0, 4464}));  // wraps
    EXPECT_TRUE(near(run(u.cast(Dtype::U8)), {0, 7, 44, 255}));
    EXPECT_TRUE(near(run(u.cast(Dtype::F16)), {0, 7, 300, kInf}));
    EXPECT_TRUE(near(run(u.cast(Dtype::Bool)), {0, 1, 1, 1}));
    EXPECT_TRUE(near(run(cx.tensor({2}, Dtype::F16).set({1, -2}).as_dtype(Dtype::U16)), {0x3c00, 0xc000}));
  }
}

TEST(Dtypes, IntegerDivisionAndRemainder) {
  Graph cx;
  const GraphTensor a = cx.tensor({4}, Dtype::I32).set({7, -7, 7, -7});
  const GraphTensor b = cx.tensor({4}, Dtype::I32).set({3, 3, -3, -3});
  EXPECT_TRUE(near(run(a % b), {1, 2, -2, -1}));
  EXPECT_TRUE(near(run(a.fmod(b)), {1, -1, 1, -1}));
  EXPECT_TRUE(near(run(a.floor_div(b)), {2, -3, -3, 2}));
  EXPECT_TRUE(near(run(a / b), {7.0 / 3, -7.0 / 3, -7.0 / 3, 7.0 / 3}));
}

TEST(Dtypes, IntegerPowers) {
  Graph cx;
  const GraphTensor base = cx.tensor({5}, Dtype::I64).set({2, -1, 1, -3, 7});
  const GraphTensor exponent = cx.tensor({5}, Dtype::I64).set({-1, -3, -5, 3, 22});
  EXPECT_EQ(run<int64_t>(base.pow(exponent)), (std::vector<int64_t>{0, -1, 1, -27, 3909821048582988049}));
  EXPECT_EQ(run<int64_t>(base.pow(3)), (std::vector<int64_t>{8, -1, 1, -27, 343}));
  EXPECT_EQ(run<int64_t>(pow(2, cx.tensor({3}, Dtype::I64).set({0, 10, 62}))),
            (std::vector<int64_t>{1, 1024, int64_t{1} << 62}));
  EXPECT_TRUE(
      near(run(cx.tensor({2}, Dtype::U8).set({3, 2}).pow(cx.tensor({2}, Dtype::U8).set({5, 9}))), {243, 0}));
}

TEST(Dtypes, BitsAndLogic) {
  Graph cx;
  const GraphTensor a = cx.tensor({3}, Dtype::I32).set({12, -1, 5});
  EXPECT_TRUE(near(run(a.bitwise_and(10)), {8, 10, 0}));
  EXPECT_TRUE(near(run(a.bitwise_or(3)), {15, -1, 7}));
  EXPECT_TRUE(near(run(a.bitwise_xor(-1)), {-13, 0, -6}));
  EXPECT_TRUE(near(run(a.shift(2)), {48, -4, 20}));
  EXPECT_TRUE(near(run(a.shift(-1)), {6, -1, 2}));
  const GraphTensor f = input(cx, {3}, {0, NAN, -2});
  EXPECT_TRUE(near(run(f.logical_and(a)), {0, 1, 1}));
  EXPECT_TRUE(near(run(f.logical_or(0)), {0, 1, 1}));
  EXPECT_TRUE(near(run(f.logical_xor(true)), {1, 0, 0}));
  EXPECT_EQ(f.as_dtype(Dtype::I32).dtype(), Dtype::I32);
  EXPECT_EQ(run<int32_t>(f.as_dtype(Dtype::I32))[2], std::bit_cast<int32_t>(-2.0F));
}

// A sum of 4096 ones is out of bf16's digits after 256, and products of f16 pass 65504.
TEST(Dtypes, NarrowFloatsAccumulateInF32) {
  Graph cx;
  const GraphTensor ones = cx.ones({4096}, Dtype::BF16), large = cx.full({4, 4}, 300, Dtype::F16);
  EXPECT_TRUE(near(run(ones.sum()), {4096}));
  EXPECT_TRUE(near(run(ones.mean()), {1}));
  EXPECT_TRUE(near(run(cx.full({70000}, 1, Dtype::F16).mean()), {1}));
  const GraphTensor signs = cx.tensor({4}).set({1, -1, 1, -1}).cast(Dtype::F16);
  EXPECT_TRUE(near(run(large.matmul(signs * 300)), {0, 0, 0, 0}));
  EXPECT_TRUE(near(run(cx.full({3}, 1000, Dtype::F16).norm()), {1732}, 1e-3));
  EXPECT_TRUE(near(run(cx.full({600}, 1, Dtype::BF16).cumsum(0).slice_along(0, 511, 512)), {512}));
}

}  // namespace
}  // namespace luminal::composite_test
