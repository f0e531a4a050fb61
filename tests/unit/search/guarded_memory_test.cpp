#include "search/verification/guarded_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "luminal/tensor_data.h"
#include "search/verification/contain.h"
#include "search/verification/test_inputs.h"

namespace luminal::search {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

/// What became of a contained process that is served by a pool of pages. Only one that hangs is ended.
std::string ended(const std::function<void()>& body) {
  const KeptPages kept;
  return run_contained([&](Progress&) { body(); }, std::chrono::minutes(10));
}

void expect(bool holds) {
  if (!holds) throw Error("not as expected");
}

/// Sizes that pools serve and that they do not; whole huge pages, and not.
const std::vector<int64_t> kSizes{100, 5000, kMiB + 4096, 3 * kMiB, 4 * kMiB, 5 * kMiB + 12};

TEST(GuardedMemory, HoldsWhatIsWrittenAndEndsAtItsGuard) {
  for (const int64_t bytes : kSizes)
    EXPECT_EQ(
        ended([bytes] {
          for (int round = 0; round < 3; ++round) {  // what was given back is taken again
            GuardedMemory memory(bytes, 4, GuardedMemory::Place::AtEnd);
            memory.fill(std::byte{0x5a});
            std::ranges::fill(memory.bytes(), std::byte{1});
            expect(memory.stray_writes() == 0 && std::ranges::count(memory.bytes(), std::byte{1}) == bytes);
          }
        }),
        "")
        << bytes;
  for (const int64_t bytes : kSizes)
    for (const bool above : {false, true})
      EXPECT_TRUE(ended([bytes, above] {
                    using Place = GuardedMemory::Place;
                    GuardedMemory memory(bytes, 4, above ? Place::AtEnd : Place::AtStart);
                    volatile std::byte* data = memory.bytes().data();
                    // Behind the end there may be a few bytes up to a multiple of 4.
                    (above ? data[bytes + 4] : data[-1]) = std::byte{1};
                  }).starts_with("crashed with signal 11"))
          << bytes << " " << above;
}

/// A part of larger memory that was given back has its guards too.
TEST(GuardedMemory, APartOfWhatWasGivenBackHasGuards) {
  EXPECT_TRUE(ended([] {
                using Place = GuardedMemory::Place;
                {
                  const GuardedMemory large(8 * kMiB, 4, Place::AtEnd);
                }
                GuardedMemory part(3 * kMiB, 4, Place::AtStart);
                part.fill(std::byte{2});
                volatile std::byte* data = part.bytes().data();
                data[-1] = std::byte{1};
              }).starts_with("crashed with signal 11"));
}

/// It may be taken again at once, and nobody may touch it while something else runs.
TEST(GuardedMemory, IsOutOfReachOnceWhatWasGivenBackIsClosed) {
  for (const int64_t bytes : kSizes)
    for (const bool is_closed : {false, true}) {
      const std::string how = ended([bytes, is_closed] {
        volatile std::byte* data = nullptr;
        for (int round = 0; round < 2; ++round) {
          GuardedMemory memory(bytes, 4, GuardedMemory::Place::AtEnd);
          data = memory.bytes().data();
          data[0] = std::byte{1};
          const GuardedMemory other(bytes, 4, GuardedMemory::Place::AtEnd);
          GuardedMemory::close_returned();
          data[0] = std::byte{2};  // what is taken stays open
        }
        if (is_closed) GuardedMemory::close_returned();
        data[0] = std::byte{3};
      });
      EXPECT_TRUE(is_closed ? how.starts_with("crashed with signal 11") : how.empty()) << bytes << how;
    }
}

TEST(GuardedMemory, OfNoBytesIsNothingToTouch) {
  for (const bool touches : {false, true}) {
    const std::string how = ended([touches] {
      GuardedMemory none;
      none.fill(std::byte{1});
      expect(none.bytes().empty() && none.bytes().data() != nullptr && none.stray_writes() == 0);
      if (touches) static_cast<void>(*static_cast<const volatile std::byte*>(none.bytes().data()));
    });
    EXPECT_TRUE(touches ? how.starts_with("crashed with signal 11") : how.empty()) << how;
  }
}

TEST(GuardedMemory, CountsWhatIsWrittenAroundIt) {
  for (const int64_t at : {int64_t{-1}, int64_t{-5}, int64_t{100}, int64_t{103}})
    EXPECT_EQ(ended([at] {
                GuardedMemory memory(100, 8, GuardedMemory::Place::NextToStart);
                memory.fill(std::byte{0x7f});
                expect(memory.stray_writes() == 0);
                memory.bytes().data()[at] = std::byte{0x7e};
                expect(memory.stray_writes() == 1);
                memory.bytes().data()[at] = std::byte{0x7f};
                expect(memory.stray_writes() == 0);
                memory.fill_around(std::byte{0});
                expect(memory.stray_writes() == 0 && memory.bytes()[0] == std::byte{0x7f});
              }),
              "")
        << at;
}

/// A tensor of the pool is seen between guards without a copy, to read only.
TEST(GuardedView, ShowsMemoryOfThePoolToReadOnly) {
  for (const bool writes : {false, true}) {
    const std::string how = ended([writes] {
      TensorData data(Dtype::F32, {kMiB});
      std::ranges::fill(data.as<float>(), 3.F);
      const auto view = GuardedView::of(data.bytes);
      expect(view != nullptr);
      data.as<float>()[1000] = 7;
      const auto* seen = reinterpret_cast<const float*>(view->data());
      expect(seen[1000] == 7 && seen[kMiB - 1] == 3);
      if (writes) *const_cast<volatile std::byte*>(view->data()) = std::byte{1};
    });
    EXPECT_TRUE(writes ? how.starts_with("crashed with signal 11") : how.empty()) << how;
  }
}

/// A large input lies in a pool once, whatever its size; it is the same as elsewhere, and has its guards.
TEST(GuardedView, ShowsInputsThatRepeatThemselves) {
  constexpr int64_t kBytes = 70 * kMiB;
  const auto draw = [](Dtype dtype) {
    return test_input("plain", {dtype, {kBytes / element_bytes(dtype)}}, {}, 3, 1);
  };
  for (const Dtype dtype : {Dtype::F32, Dtype::BF16, Dtype::I64, Dtype::Bool}) {
    const auto expected = draw(dtype);
    ASSERT_EQ(expected->bytes.size(), static_cast<size_t>(kBytes));
    for (const bool reads_beyond : {false, true}) {
      const std::string how = ended([&] {
        const auto data = draw(dtype);
        const auto view = GuardedView::of(data->bytes);
        expect(data->dims == expected->dims && data->bytes == expected->bytes);
        expect(view && std::memcmp(expected->bytes.data(), view->data(), expected->bytes.size()) == 0);
        if (reads_beyond) static_cast<void>(static_cast<const volatile std::byte*>(view->data())[kBytes]);
      });
      EXPECT_TRUE(reads_beyond ? how.starts_with("crashed with signal 11") : how.empty()) << how;
    }
  }
}

/// What sees the same memory at one time shares a view. Other memory at the same address has its own.
TEST(GuardedView, IsOfTheMemoryThatIsThereNow) {
  constexpr int64_t kBytes = 70 * kMiB;
  constexpr uint64_t kSeeds = 6;
  std::vector<TensorData> expected;
  const auto draw = [](uint64_t seed) {
    return test_input("plain", {Dtype::F32, {kBytes / 4}}, {}, seed, 1);
  };
  for (uint64_t seed = 0; seed < kSeeds; ++seed) expected.push_back(*draw(seed));
  EXPECT_EQ(
      ended([&] {
        std::vector<std::shared_ptr<const GuardedView>> views;
        std::vector<TensorData> others;  // in what was given back, so that the next one repeats other memory
        int again = 0;
        std::set<const std::byte*> seen;
        for (uint64_t seed = 0; seed < kSeeds; ++seed) {
          {
            const auto data = draw(seed);
            again += seen.insert(data->bytes.data()).second ? 0 : 1;
            views.push_back(GuardedView::of(data->bytes));
            expect(views.back() != nullptr && views.back() == GuardedView::of(data->bytes));
            const auto& bytes = expected[seed].bytes;
            expect(std::memcmp(bytes.data(), views.back()->data(), bytes.size()) == 0);
          }
          others.emplace_back(Dtype::F32, std::vector{8 * kMiB});
        }
        expect(again > 0);
      }),
      "");
}

}  // namespace
}  // namespace luminal::search
