#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "luminal/ops.h"

/// Cumulative sums of all kinds of shape, by plain loops.
namespace luminal {
namespace {

template <class T>
class CumulativeSum : public testing::Test {};
using SummedTypes = testing::Types<float, double, bfloat16, float16, int64_t, int32_t, uint8_t>;
TYPED_TEST_SUITE(CumulativeSum, SummedTypes);

struct Summed {
  std::vector<int64_t> dims;
  int64_t axis;
};

TYPED_TEST(CumulativeSum, DoesWhatALoopDoes) {
  using T = TypeParam;
  using Sum = std::conditional_t<std::is_integral_v<T>, T, double>;
  for (const auto& [dims, axis] : std::vector<Summed>{{{1}, 0},
                                                      {{7, 5000}, 1},       // rows, some at a time
                                                      {{3, 33'000}, 1},     // in pieces
                                                      {{100'003}, 0},       // one row of pieces
                                                      {{40'000, 3}, 0},     // columns of pieces
                                                      {{2, 40'001, 2}, 1},  // the same twice
                                                      {{200, 1500}, 0},     // blocks of columns
                                                      {{30, 70, 9}, 1},     // short ones
                                                      {{3000, 3000}, 0},    // more than caches hold
                                                      {{3000, 3001}, 1},    // the same in rows
                                                      {{0, 3}, 0},
                                                      {{3, 0}, 0}}) {
    TensorData x(dtype_of<T>(), dims);
    int64_t seed = 1;
    for (T& value : x.as<T>()) {  // sixteenths: in f64 sums of all of them are exact, in any order
      seed = (seed * 16'807 + 7) % 2'147'483'647;
      value = std::is_integral_v<T> ? static_cast<T>(seed)
                                    : static_cast<T>(static_cast<float>(seed % 201 - 90) / 16);
    }
    int64_t outer = 1, inner = 1;
    const auto on = static_cast<size_t>(axis);
    for (size_t d = 0; d < dims.size(); ++d)
      if (d != on) (d < on ? outer : inner) *= dims[d];
    for (const bool reverse : {false, true}) {
      std::vector<T> wanted(x.as<T>().size());
      for (int64_t o = 0; o < outer; ++o)
        for (int64_t i = 0; i < inner; ++i) {
          Sum sum{};
          for (int64_t j = 0; j < dims[on]; ++j) {
            const auto at =
                static_cast<size_t>((o * dims[on] + (reverse ? dims[on] - 1 - j : j)) * inner + i);
            sum = static_cast<Sum>(sum + static_cast<Sum>(x.as<T>()[at]));
            wanted[at] = static_cast<T>(sum);
          }
        }
      std::vector<TensorData> outputs{TensorData(dtype_of<T>(), dims)};
      std::ranges::fill(outputs[0].bytes, std::byte{0xA5});
      const std::vector<const TensorData*> inputs{&x};
      const Attributes attributes{{"axis", axis}, {"reverse", reverse}};
      const DimMap sizes;
      EvalContext context{inputs, outputs, attributes, sizes, 0};
      kCumsum.evaluate(context);
      const auto found = outputs[0].as<T>();
      const auto differs = std::ranges::mismatch(
          found, wanted, [](const T& a, const T& b) { return std::memcmp(&a, &b, sizeof(T)) == 0; });
      EXPECT_EQ(differs.in1 - found.begin(), static_cast<ptrdiff_t>(wanted.size()))
          << fmt::format("the first wrong element of [{}] along {}", fmt::join(dims, ", "), axis)
          << (reverse ? ", from the end" : "");
    }
  }
}

TEST(CumulativeSum, InfinitiesAndNaNStayFromWhereTheyStand) {
  const float infinity = std::numeric_limits<float>::infinity();
  const TensorData x = TensorData::of<float>({5}, std::vector<float>{1, infinity, 2, -infinity, 3});
  std::vector<TensorData> outputs{TensorData(Dtype::F32, {5})};
  const std::vector<const TensorData*> inputs{&x};
  const Attributes attributes{{"axis", int64_t{0}}, {"reverse", false}};
  const DimMap sizes;
  EvalContext context{inputs, outputs, attributes, sizes, 0};
  kCumsum.evaluate(context);
  const auto found = outputs[0].as<float>();
  EXPECT_EQ(std::vector<float>(found.begin(), found.begin() + 3),
            (std::vector<float>{1, infinity, infinity}));
  EXPECT_TRUE(std::isnan(found[3]) && std::isnan(found[4]));
}

}  // namespace
}  // namespace luminal
