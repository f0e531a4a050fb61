#include "kernel/deviations.h"

#include <gtest/gtest.h>

#include "kernel/cost.h"
#include "unit/kernel/check.h"
#include "unit/kernel/variance_specs.h"

namespace luminal::kernel::test {
namespace {

std::optional<Deviation> found_in(const KernelSpec& spec) {
  for (int v = 0; v < std::ssize(spec.values()); ++v)
    if (auto found = deviation_of(spec.values(), v)) return found;
  return std::nullopt;
}

TEST(Deviations, AreSquaredDifferencesFromOneNumber) {
  for (const bool from_given : {false, true})
    for (const bool of_products : {false, true})
      for (const bool adds : {false, true})
        for (const bool padded : {false, true}) {
          const KernelSpec spec =
              Variance{.of_products = of_products, .from_given = from_given, .adds = adds, .padded = padded}
                  .spec();
          const auto found = found_in(spec);
          ASSERT_TRUE(found) << spec.to_string();
          EXPECT_EQ(found->adds, adds);
          const Value& sum = spec.values()[static_cast<size_t>(found->sum)];
          EXPECT_FALSE(sum.online);
          EXPECT_EQ(std::ranges::count_if(spec.values(), &Value::online), 1) << spec.to_string();
        }
}

TEST(Deviations, AreNoneWhereOneConditionIsMissing) {
  Graph cx;
  const GraphTensor x = cx.tensor({2, 40}), y = cx.tensor({2, 40}), m = x.mean(1, true).expand({2, 40});
  const auto is_found = [&](const GraphTensor& out) {
    const KernelSpec spec = spec_behind(cx, out);
    const bool found = found_in(spec).has_value();
    EXPECT_EQ(std::ranges::any_of(spec.values(), &Value::online), found) << spec.to_string();
    return found;
  };
  EXPECT_TRUE(is_found((x - m).square().sum(1)));
  EXPECT_TRUE(is_found((m - x).square().sum(1)));
  EXPECT_TRUE(is_found((x - x.max(1, true)).square().sum(1) * x.sum(1)));
  // Nothing is subtracted, or something that differs along the row, or two things.
  EXPECT_FALSE(is_found(x.square().sum(1) * x.sum(1)));
  EXPECT_FALSE(is_found((x - y).square().sum(1) * x.sum(1)));
  EXPECT_FALSE(is_found(((x - m) * (x - y.sum(1, true))).sum(1)));
  // A maximum; no square; integers, which wrap; nothing that is summed.
  EXPECT_FALSE(is_found((x - m).square().max(1)));
  EXPECT_FALSE(is_found((x - m).sum(1)));
  EXPECT_FALSE(is_found(((x - m) + (x - m)).sum(1)));
  EXPECT_FALSE(is_found((x * m).square().sum(1)));
  const GraphTensor i = cx.tensor({2, 40}, Dtype::I64);
  EXPECT_FALSE(is_found((i - i.sum(1, true)).square().sum(1)));
  EXPECT_FALSE(is_found((x - m).square()));
  // The sum of the row is not there: of another tensor, of other terms, no sum, of a part of the row.
  EXPECT_FALSE(is_found((x - y.sum(1, true)).square().sum(1)));
  EXPECT_FALSE(is_found((x - (x * 2.0).sum(1, true)).square().sum(1)));
  EXPECT_FALSE(is_found((x - x.max(1, true)).square().sum(1)));
  const GraphTensor z = cx.tensor({2, 40, 30}), u = cx.tensor({2, 1, 1});
  EXPECT_FALSE(is_found((z - u).square().sum({1, 2}) + z.sum(2).max(1)));
}

/// A row that leaves the cache is read again by each pass over it. Its sum and deviations take one.
TEST(Deviations, OfLongRowsAreReadOnce) {
  const MachineLimits limits;
  const auto us = [&](int64_t length, const std::function<GraphTensor(const GraphTensor&)>& make) {
    Graph cx;
    return predicted_us(spec_behind(cx, make(cx.tensor({(1 << 26) / length, length}))), {}, limits);
  };
  const auto sum = [](const GraphTensor& x) { return x.sum(1); };
  const auto variance = [](const GraphTensor& x) { return (x - x.mean(1, true)).square().sum(1); };
  const auto norm = [](const GraphTensor& x) { return x.layer_norm(1); };
  constexpr int64_t kShort = 1 << 12, kLong = 1 << 20;
  EXPECT_NEAR(us(kLong, variance), us(kLong, sum), 0.01 * us(kLong, sum));
  EXPECT_NEAR(us(kLong, sum), us(kShort, sum), 0.01 * us(kShort, sum));
  // Three reads and one write, where the short row has one of each.
  EXPECT_NEAR(us(kLong, norm), 2 * us(kShort, norm), 0.01 * us(kShort, norm));
}

}  // namespace
}  // namespace luminal::kernel::test
