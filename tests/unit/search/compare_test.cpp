#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "search/verification/compare.h"

namespace luminal::search {
namespace {

std::set<int64_t> positions_of(const std::vector<Mismatch>& mismatches) {
  std::set<int64_t> positions;
  for (const Mismatch& m : mismatches) positions.insert(m.position);
  return positions;
}

/// Numbers of many magnitudes, and some that are special.
class Numbers {
 public:
  double any() {
    constexpr std::array kSpecial{0.0,
                                  -0.0,
                                  std::numeric_limits<double>::infinity(),
                                  -std::numeric_limits<double>::infinity(),
                                  std::numeric_limits<double>::quiet_NaN(),
                                  1e-41,
                                  3e38};
    if (whole(0, 15) == 0) return kSpecial[static_cast<size_t>(whole(0, kSpecial.size() - 1))];
    return std::copysign(std::exp2(real(-20, 4)), real(-1, 1));
  }
  /// The same, or off by a share of any size.
  double near(double x) {
    if (whole(0, 3) > 0) return x;
    return x + x * std::exp2(real(-24, 1)) + (whole(0, 3) == 0 ? std::exp2(real(-30, 0)) : 0);
  }
  int64_t whole(int64_t low, int64_t high) { return std::uniform_int_distribution(low, high)(bits_); }
  double real(double low, double high) { return std::uniform_real_distribution(low, high)(bits_); }

 private:
  std::mt19937_64 bits_{7};
};

/// `Elements` of one tensor, 32 of which are told apart at once where that is possible.
template <class T>
void find_what_a_look_at_each_finds() {
  constexpr int64_t kElements = 48;
  Numbers numbers;
  int64_t beyond = 0, doubtful = 0, none = 0;
  for (int trial = 0; trial < 5000; ++trial) {
    VerificationCase::Expectation samples;
    for (int64_t i = 0, count = numbers.whole(1, 6); i < count; ++i) {
      samples.positions.push_back(i);
      samples.values.push_back(std::exp2(numbers.real(-20, 4)));
      samples.errors.push_back(numbers.whole(0, 7) == 0 ? 0 : std::exp2(numbers.real(-30, 2)));
      samples.known.push_back(true);
    }
    const Margins margins(samples);
    TensorData expected(dtype_of<T>(), {kElements}), got(dtype_of<T>(), {kElements});
    for (size_t i = 0; i < kElements; ++i) {
      expected.as<T>()[i] = static_cast<T>(numbers.any());
      got.as<T>()[i] = static_cast<T>(numbers.near(static_cast<double>(expected.as<T>()[i])));
    }
    std::set<int64_t> far, loose;
    for (int64_t i = 0; i < kElements; ++i) {
      const auto must = static_cast<double>(expected.as<T>()[static_cast<size_t>(i)]);
      const auto is = static_cast<double>(got.as<T>()[static_cast<size_t>(i)]);
      const double margin = margins.exact() ? 0 : margins.at(must);
      if (!agrees(is, must, margin))
        far.insert(i);
      else if (is_doubtful(is, must, margin))
        loose.insert(i);
    }
    const Mismatches found = mismatches(expected, got.bytes, margins);
    EXPECT_EQ(positions_of(found.beyond), far);
    const auto of_these = positions_of(found.doubtful);  // at most 16 of them
    EXPECT_TRUE(std::ranges::includes(loose, of_these));
    EXPECT_EQ(of_these.empty(), loose.empty());
    beyond += far.empty() ? 0 : 1;
    doubtful += loose.empty() ? 0 : 1;
    none += far.empty() && loose.empty() ? 1 : 0;
  }
  EXPECT_GT(beyond, 500);
  EXPECT_GT(doubtful, 500);
  EXPECT_GT(none, 20);
}

TEST(Compare, FindsWhatALookAtEachElementFinds) {
  find_what_a_look_at_each_finds<float>();
  find_what_a_look_at_each_finds<double>();
}

}  // namespace
}  // namespace luminal::search
