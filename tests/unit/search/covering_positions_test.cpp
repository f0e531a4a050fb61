#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "search/verification/test_inputs.h"

// Which elements of a result the user's nodes are asked about.
namespace luminal::search {
namespace {

/// The places of each axis at which samples lie.
std::vector<std::set<int64_t>> places(const std::vector<int64_t>& sizes,
                                      const std::vector<int64_t>& positions) {
  std::vector<std::set<int64_t>> found(sizes.size());
  for (int64_t position : positions)
    for (size_t a = sizes.size(); a-- > 0; position /= sizes[a]) found[a].insert(position % sizes[a]);
  return found;
}

TEST(CoveringPositions, SeeEveryPlaceOfEveryAxis) {
  for (const std::vector<int64_t>& sizes : std::vector<std::vector<int64_t>>{
           {1}, {7}, {37, 91}, {91, 37}, {64, 64}, {3, 130, 5}, {2, 3, 4, 5}, {1, 1000}})
    for (const uint64_t seed : {0, 1, 2}) {
      const auto positions = covering_positions(sizes, 4, 8192, seed);
      const auto found = places(sizes, positions);
      for (size_t a = 0; a < sizes.size(); ++a)
        EXPECT_EQ(static_cast<int64_t>(found[a].size()), sizes[a]) << "axis " << a;
      EXPECT_EQ(std::set<int64_t>(positions.begin(), positions.end()).size(), positions.size());
    }
}

TEST(CoveringPositions, AreAboutAsManyAsTheLongestAxisIsLong) {
  const auto positions = covering_positions({300, 500}, 4, 8192, 7);
  EXPECT_GE(positions.size(), 500U);
  EXPECT_LE(positions.size(), 700U);
}

TEST(CoveringPositions, HoldCornersAndBordersOfTiles) {
  const std::vector<int64_t> sizes{100, 300};
  const auto positions = covering_positions(sizes, 0, 8192, 3);
  for (const int64_t corner : {0, 299, 99 * 300, 99 * 300 + 299})
    EXPECT_THAT(positions, testing::Contains(corner));
  // Of a few samples only: those of tiles' borders are there all the same.
  const auto few = places(sizes, covering_positions(sizes, 0, 1, 3));
  for (const int64_t tile : {4, 16, 128})
    for (const int64_t border :
         {tile - 1, tile, 300 / tile * tile - 1, std::min<int64_t>(300 / tile * tile, 299)})
      EXPECT_TRUE(few[1].contains(border)) << border;
}

TEST(CoveringPositions, HoldBordersOfACandidatesTilesAlongEveryAxis) {
  const std::vector<int64_t> sizes{50, 41, 300}, tiles{6, 48, 96};
  const auto found = places(sizes, covering_positions(sizes, 0, 1, 3, tiles));
  for (size_t axis = 0; axis < sizes.size(); ++axis)
    for (const int64_t tile : tiles) {
      const int64_t size = sizes[axis], last = size / tile * tile;
      if (tile > size) continue;
      for (const int64_t border : {tile - 1, tile, last - 1, last}) {
        if (border == size) continue;
        EXPECT_TRUE(found[axis].contains(border)) << axis << " " << border;
      }
    }
}

TEST(CoveringPositions, OfNothingThereAreNone) { EXPECT_TRUE(covering_positions({0, 5}, 4, 10, 0).empty()); }

}  // namespace
}  // namespace luminal::search
