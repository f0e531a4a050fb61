#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "luminal/ops.h"

/// Places in order, of rows of all kinds and lengths, by a stable sort of the standard library.
namespace luminal {
namespace {

template <class T>
class Argsort : public testing::Test {};
using SortedTypes =
    testing::Types<float, double, bfloat16, float16, int8_t, uint8_t, uint16_t, int32_t, int64_t, bool>;
TYPED_TEST_SUITE(Argsort, SortedTypes);

/// NaN is the greatest, zeros are equal.
template <class T>
bool is_less(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return a < b;
  } else {
    const auto x = static_cast<double>(a), y = static_cast<double>(b);
    return std::isnan(y) ? !std::isnan(x) : x < y;
  }
}

/// Numbers that matter, and rows that rise, fall and stay, which a selection meets at its worst.
template <class T>
TensorData rows_to_sort(const std::vector<int64_t>& dims) {
  TensorData x(dtype_of<T>(), dims);
  const auto values = x.as<T>();
  const auto length = static_cast<size_t>(dims.back());
  uint64_t seed = 1;
  for (size_t i = 0; i < values.size(); ++i) {
    seed = seed * 6'364'136'223'846'793'005U + 1'442'695'040'888'963'407U;
    const size_t row = i / length % 5, place = i % length;
    if constexpr (std::is_same_v<T, bool>)
      values[i] = (seed >> 40 & 1) != 0;
    else if constexpr (std::is_integral_v<T>)
      values[i] = static_cast<T>(row == 0   ? seed >> 20
                                 : row == 1 ? place
                                 : row == 2 ? length - place
                                 : row == 3 ? 7
                                            : seed >> 60);
    else {
      constexpr double kSpecial[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, -NAN, 1e-40, -1e-40};
      const double any = static_cast<double>(static_cast<int64_t>(seed)) / 1e15;
      const double number = row == 0   ? any
                            : row == 1 ? static_cast<double>(place)
                            : row == 2 ? -static_cast<double>(place)
                            : row == 3 ? 7
                                       : kSpecial[seed >> 61];
      values[i] = static_cast<T>(static_cast<std::conditional_t<sizeof(T) == 8, double, float>>(number));
    }
  }
  return x;
}

TYPED_TEST(Argsort, IsAStableSort) {
  using T = TypeParam;
  struct Case {
    std::vector<int64_t> dims;
    int64_t axis;
  };
  for (const auto& [dims, axis] : std::vector<Case>{{{5, 1}, 1},
                                                    {{5, 2}, 1},
                                                    {{5, 191}, 1},
                                                    {{5, 192}, 1},
                                                    {{5, 4001}, 1},
                                                    {{300, 40}, 0},
                                                    {{5, 300, 3}, 1},
                                                    {{0, 4}, 0},
                                                    {{0, 4}, 1}}) {
    const TensorData x = rows_to_sort<T>(dims);
    int64_t outer = 1, inner = 1;
    const auto on = static_cast<size_t>(axis);
    for (size_t d = 0; d < dims.size(); ++d)
      if (d != on) (d < on ? outer : inner) *= dims[d];
    const int64_t length = dims[on];
    for (const bool descending : {false, true})
      for (const std::optional<int64_t> count : {std::optional<int64_t>{}, {0}, {1}, {8}, {200}, {length}}) {
        const int64_t wanted = count.value_or(length);
        if (wanted > length) continue;
        std::vector<int64_t> expected(static_cast<size_t>(outer * wanted * inner));
        for (int64_t o = 0; o < outer; ++o)
          for (int64_t i = 0; i < inner; ++i) {
            std::vector<int64_t> order(static_cast<size_t>(length));
            std::iota(order.begin(), order.end(), 0);
            const auto at = [&](int64_t j) {
              return x.as<T>()[static_cast<size_t>((o * length + j) * inner + i)];
            };
            std::ranges::stable_sort(order, [&](int64_t a, int64_t b) {
              return descending ? is_less<T>(at(b), at(a)) : is_less<T>(at(a), at(b));
            });
            for (int64_t j = 0; j < wanted; ++j)
              expected[static_cast<size_t>((o * wanted + j) * inner + i)] = order[static_cast<size_t>(j)];
          }
        std::vector<int64_t> out_dims = dims;
        out_dims[on] = wanted;
        std::vector<TensorData> outputs{TensorData(Dtype::I64, out_dims)};
        std::ranges::fill(outputs[0].bytes, std::byte{0xA5});
        const std::vector<const TensorData*> inputs{&x};
        Attributes attributes{{"axis", axis}, {"descending", descending}};
        if (count) attributes.set("count", *count);
        const DimMap sizes;
        EvalContext context{inputs, outputs, attributes, sizes, 0};
        kArgsort.evaluate(context);
        const auto found = outputs[0].as<int64_t>();
        EXPECT_TRUE(std::ranges::equal(found, expected))
            << fmt::format("[{}] along {}, the first {}{}", fmt::join(dims, ", "), axis, wanted,
                           descending ? ", falling" : "");
      }
  }
}

}  // namespace
}  // namespace luminal
