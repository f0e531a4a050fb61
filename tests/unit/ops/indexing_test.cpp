#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "luminal/error.h"
#include "luminal/luminal.h"
#include "luminal/ops.h"

/// Gather and scatter of tensors so large that several threads work on them.
namespace luminal {
namespace {

constexpr int64_t kElements = (int64_t{5} << 20) + 7, kPositions = int64_t{300'000};

/// Positions of which many are equal, and the first and the last element.
std::vector<int64_t> some_positions() {
  std::vector<int64_t> positions(static_cast<size_t>(kPositions));
  for (size_t i = 0; i < positions.size(); ++i)
    positions[i] = static_cast<int64_t>(i * i * 7919 % 150'001) * (kElements - 1) / 150'000;
  positions[17] = 0;
  positions[18] = kElements - 1;
  return positions;
}

std::vector<int32_t> count_up(int64_t count) {
  std::vector<int32_t> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

template <class T>
std::vector<T> run(const OpDef& op, const std::vector<T>& data, const TensorData& index,
                   const std::vector<T>& updates, const std::string& mode) {
  Graph cx;
  cx.set_device("reference");
  const auto base = cx.tensor({static_cast<int64_t>(data.size())}, dtype_of<T>()).set(data);
  const auto at = cx.tensor({index.element_count()}, index.dtype).set(index);
  auto node = cx.add_op(op).input(base).input(at);
  if (!mode.empty())
    node.input(cx.tensor({index.element_count()}, dtype_of<T>()).set(updates)).attribute("mode", mode);
  auto result = node.finish().retrieve();
  cx.execute();
  return result.template data<T>();
}

TEST(Indexing, LargeGathersAndScattersDoWhatALoopDoes) {
  const std::vector<int64_t> positions = some_positions();
  const std::vector<int32_t> data = count_up(kElements), updates = count_up(kPositions);
  std::vector<int32_t> gathered, assigned = data, added = data;
  for (size_t i = 0; i < positions.size(); ++i) {
    const auto at = static_cast<size_t>(positions[i]);
    gathered.push_back(data[at]);
    assigned[at] = updates[i];  // the last one stays
    added[at] += updates[i];
  }
  for (const Dtype dtype : {Dtype::I64, Dtype::I32}) {
    TensorData index(dtype, {kPositions});
    for (size_t i = 0; i < positions.size(); ++i)
      if (dtype == Dtype::I64)
        index.as<int64_t>()[i] = positions[i];
      else
        index.as<int32_t>()[i] = static_cast<int32_t>(positions[i]);
    EXPECT_EQ(run(kGather, data, index, {}, ""), gathered);
    EXPECT_EQ(run(kScatter, data, index, updates, "assign"), assigned);
    EXPECT_EQ(run(kScatter, data, index, updates, "add"), added);
  }
}

/// Sums of floats are rounded once, in the order of the positions, however many threads there are.
TEST(Indexing, LargeSumsOfFloatsAreRoundedOnce) {
  const std::vector<int64_t> positions = some_positions();
  std::vector<float> data(static_cast<size_t>(kElements), 0.1F), updates(positions.size());
  for (size_t i = 0; i < updates.size(); ++i) updates[i] = i % 2 == 0 ? 1e8F + static_cast<float>(i) : -1e8F;
  std::vector<double> sums(data.begin(), data.end());
  for (size_t i = 0; i < positions.size(); ++i) sums[static_cast<size_t>(positions[i])] += updates[i];
  const std::vector<float> expected(sums.begin(), sums.end());
  TensorData index(Dtype::I64, {kPositions});
  std::ranges::copy(positions, index.as<int64_t>().begin());
  EXPECT_EQ(run(kScatter, data, index, updates, "add"), expected);
}

TEST(Indexing, TheFirstPositionOutsideIsNamedWhicheverThreadMeetsOne) {
  TensorData index(Dtype::I64, {kPositions});
  const auto at = index.as<int64_t>();
  at[290'000] = std::numeric_limits<int64_t>::min();
  at[250'001] = kElements;
  const std::vector<int32_t> data = count_up(kElements), updates = count_up(kPositions);
  for (const std::string mode : {"", "assign", "add"}) {
    try {
      run(mode.empty() ? kGather : kScatter, data, index, updates, mode);
      FAIL() << mode;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(fmt::format("index {} at ", kElements)));
      EXPECT_THAT(error.what(), testing::HasSubstr("250001"));
    }
  }
}

}  // namespace
}  // namespace luminal
