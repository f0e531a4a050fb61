#include "kernel/form.h"

#include <gtest/gtest.h>

#include "luminal/luminal.h"
#include "unit/kernel/fuse.h"

namespace luminal::kernel::test {
namespace {

/// Of all that is computed, as one kernel.
uint64_t form_of(const std::function<GraphTensor(Graph&)>& build) {
  Graph cx;
  const GraphTensor result = build(cx);
  const auto whole = WholeFusion(cx, 0).run(result.edge().source);
  EXPECT_TRUE(whole);
  return kernel::form_of(whole->spec);
}

TEST(Form, IsThatOfOtherSizesAndConstants) {
  const auto mean = [](int64_t rows, int64_t columns) {
    return form_of([&](Graph& cx) { return (cx.tensor({rows, columns}) * 2).exp().mean(1); });
  };
  EXPECT_EQ(mean(5, 7), mean(300, 61));
  const auto product = [](int64_t m, int64_t k, int64_t n) {
    return form_of([&](Graph& cx) { return cx.tensor({m, k}).matmul(cx.tensor({k, n})).relu(); });
  };
  EXPECT_EQ(product(3, 4, 5), product(64, 300, 7));
  EXPECT_NE(mean(5, 7), product(3, 4, 5));
}

TEST(Form, IsNotThatOfOtherOperations) {
  const std::vector<std::function<GraphTensor(Graph&)>> different{
      [](Graph& cx) { return cx.tensor({5, 7}).exp().sum(1); },
      [](Graph& cx) { return cx.tensor({5, 7}).exp().max(1); },
      [](Graph& cx) { return cx.tensor({5, 7}).sin().sum(1); },
      [](Graph& cx) { return cx.tensor({5, 7}).exp().sum(0).exp(); },
      [](Graph& cx) { return cx.tensor({5, 7}, Dtype::BF16).exp().sum(1); },
      [](Graph& cx) { return cx.tensor({5, 7}).exp() + cx.tensor({5, 7}); },
      [](Graph& cx) { return cx.tensor({5, 7}).exp() - cx.tensor({5, 7}); },
      [](Graph& cx) { return cx.tensor({5, 7}).exp().pad({{0, 0}, {1, 0}}).sum(1); },
  };
  for (size_t a = 0; a < different.size(); ++a)
    for (size_t b = 0; b < a; ++b)
      EXPECT_NE(form_of(different[a]), form_of(different[b])) << a << " and " << b;
}

}  // namespace
}  // namespace luminal::kernel::test
