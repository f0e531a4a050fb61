#include "search/verification/test_inputs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <span>

#include "search/verification/contain.h"

namespace luminal::search {
namespace {

/// In a process that a pool of pages serves: what it finds wrong, or "". Only one that hangs is ended.
std::string where_a_pool_serves(const std::function<std::string()>& body) {
  const SharedBytes shared(256);
  const std::string trouble =
      run_contained([&](Progress&) { body().copy(reinterpret_cast<char*>(shared.bytes().data()), 255); },
                    std::chrono::minutes(10));
  return trouble.empty() ? reinterpret_cast<const char*>(shared.bytes().data()) : trouble;
}

/// Whether elements that lie a period apart are equal, and some of one period differ.
bool repeats_after(const TensorData& data, int64_t period) {
  const auto values = data.as<float>();
  const auto first = values.first(static_cast<size_t>(period));
  return std::ranges::equal(values.subspan(first.size()), values.first(values.size() - first.size())) &&
         std::ranges::adjacent_find(first, std::ranges::not_equal_to()) != first.end();
}

TEST(TestInputs, RepeatAfterThePeriodThatIsAskedFor) {
  for (const int64_t period : {300, 1024, 70'000, 2'000'000, 9'000'001})
    for (const int64_t elements : {4000, 100'000, 10'000'000}) {
      if (elements <= period) continue;
      SCOPED_TRACE(fmt::format("{} of {}", period, elements));
      const auto drawn = [&] {
        return test_input("integers", {Dtype::F32, {elements}}, {}, 1, 0, {}, Subnormals::Some, period);
      };
      const auto here = drawn();
      EXPECT_TRUE(repeats_after(*here, period));
      EXPECT_EQ(where_a_pool_serves([&] {
                  const auto there = drawn();
                  return there->bytes == here->bytes ? "" : "others where a pool serves";
                }),
                "");
      // A multiple of the numbers' own period would repeat as well.
      if (period < 65'521) {
        EXPECT_FALSE(repeats_after(*test_input("integers", {Dtype::F32, {elements}}, {}, 1, 0), period));
      }
    }
}

TEST(TestInputs, LargeOnesAreTheSameWhereAPoolServes) {
  EXPECT_EQ(
      where_a_pool_serves([]() -> std::string {
        const auto drawn = [](std::string_view kind, Shape dims, size_t tensor, int64_t period = 0) {
          return test_input(kind, {Dtype::F32, std::move(dims)}, {}, 1, tensor, {}, Subnormals::Some, period);
        };
        const auto a = drawn("integers", {1000, 1000}, 0);
        if (drawn("integers", {1000, 1000}, 0)->bytes != a->bytes) return "other numbers";
        if (drawn("integers", {1'000'000}, 0)->bytes != a->bytes) return "other dims, other numbers";
        for (const auto& other : {drawn("integers", {1000, 1000}, 1), drawn("plain", {1000, 1000}, 0),
                                  drawn("integers", {1000, 1000}, 0, 300)})
          if (other->bytes == a->bytes) return "others are the same";
        const auto longer = drawn("integers", {20'000, 1000}, 0),
                   shorter = drawn("integers", {10'000, 1000}, 0);
        const auto begins = std::span(longer->bytes).first(shorter->bytes.size());
        return std::ranges::equal(begins, shorter->bytes) ? ""
                                                          : "a shorter one does not begin as a longer one";
      }),
      "");
}

}  // namespace
}  // namespace luminal::search
