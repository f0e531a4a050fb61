#include "runtime/memory.h"

#include <gtest/gtest.h>

#include <random>

#include "backends/device.h"
#include "support/effort.h"

namespace luminal::runtime {
namespace {

bool overlap(int64_t a, int64_t a_end, int64_t b, int64_t b_end) { return a < b_end && b < a_end; }

/// Every pair: buffers alive at one step lie apart, inside the arena, on lines.
void check(const std::vector<Lifetime>& buffers, const Placement& placement) {
  ASSERT_EQ(placement.offsets.size(), buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    const int64_t at = placement.offsets[i], end = at + buffers[i].bytes;
    ASSERT_EQ(at % backends::kAlignment, 0);
    ASSERT_GE(at, 0);
    ASSERT_LE(end, placement.bytes);
    for (size_t j = 0; j < i; ++j) {
      const bool together = buffers[i].first <= buffers[j].last && buffers[j].first <= buffers[i].last;
      const int64_t other = placement.offsets[j];
      ASSERT_FALSE(together && overlap(at, end, other, other + buffers[j].bytes)) << i << " and " << j;
    }
  }
}

/// By trying every step: the most bytes alive at once, sizes rounded up to lines.
int64_t peak_of(const std::vector<Lifetime>& buffers) {
  int64_t peak = 0;
  for (int step = 0; step < 1000; ++step) {
    int64_t alive = 0;
    for (const Lifetime& b : buffers)
      if (b.first <= step && step <= b.last) alive += (b.bytes + 63) / 64 * 64;
    peak = std::max(peak, alive);
  }
  return peak;
}

/// Lifetimes as plans have them: most values are read soon, activations live until the backward pass.
std::vector<Lifetime> training_like(std::mt19937_64& random, int layers) {
  std::vector<Lifetime> buffers;
  const int last = 4 * layers;
  for (int i = 0; i < layers; ++i) {
    const auto bytes = [&] { return static_cast<int64_t>(random() % 20'000 + 1); };
    buffers.push_back({bytes(), i, last - i});
    buffers.push_back({bytes(), 2 * i, 2 * i + static_cast<int>(random() % 3)});
    buffers.push_back({bytes(), last - i - 1, last - i});
  }
  return buffers;
}

TEST(Memory, LiveBuffersNeverOverlap) {
  const uint64_t seed = effort::seed(3);
  for (int64_t round = 0; round < effort::cases(200, 5000); ++round) {
    std::mt19937_64 random(seed + static_cast<uint64_t>(round));
    std::vector<Lifetime> buffers;
    const auto count = random() % 60, steps = random() % 40 + 1;
    for (size_t i = 0; i < count; ++i) {
      const int first = static_cast<int>(random() % steps);
      buffers.push_back({static_cast<int64_t>(random() % 5000), first,
                         first + static_cast<int>(random() % (steps - static_cast<size_t>(first)))});
    }
    const Placement placement = place(buffers);
    SCOPED_TRACE(testing::Message() << "seed " << seed << " round " << round);
    ASSERT_NO_FATAL_FAILURE(check(buffers, placement));
    ASSERT_EQ(placement.lower_bound, peak_of(buffers));
    ASSERT_GE(placement.bytes, placement.lower_bound);
  }
}

// Within a few percent of what no placement can undercut, on lifetimes as training has them.
TEST(Memory, IsNearTheLowerBound) {
  double worst = 1, sum = 0;
  constexpr int kRounds = 50;
  for (int round = 0; round < kRounds; ++round) {
    std::mt19937_64 random(static_cast<uint64_t>(round));
    const auto buffers = training_like(random, 60);
    const Placement placement = place(buffers);
    ASSERT_NO_FATAL_FAILURE(check(buffers, placement));
    const double ratio = static_cast<double>(placement.bytes) / static_cast<double>(placement.lower_bound);
    worst = std::max(worst, ratio);
    sum += ratio;
  }
  RecordProperty("mean_ratio", std::to_string(sum / kRounds));
  RecordProperty("worst_ratio", std::to_string(worst));
  EXPECT_LE(sum / kRounds, 1.02);
  EXPECT_LE(worst, 1.10);
}

// A chain in which each buffer is read once needs two places.
TEST(Memory, AChainUsesTwoPlaces) {
  std::vector<Lifetime> buffers;
  for (int i = 0; i < 100; ++i) buffers.push_back({1000, i, i + 1});
  EXPECT_EQ(place(buffers).bytes, 2 * 1024);
}

TEST(Memory, NothingNeedsNothing) {
  EXPECT_EQ(place({}).bytes, 0);
  const std::vector<Lifetime> empty{{0, 0, 3}, {0, 1, 1}};
  EXPECT_EQ(place(empty).bytes, 0);
}

TEST(Memory, EqualInputGivesEqualOutput) {
  std::mt19937_64 random(1);
  const auto buffers = training_like(random, 40);
  EXPECT_EQ(place(buffers).offsets, place(buffers).offsets);
}

}  // namespace
}  // namespace luminal::runtime
