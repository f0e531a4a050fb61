#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

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

/// An index along an axis.
struct AlongAxis {
  std::vector<int64_t> data, index;
  int64_t axis;
  bool slices;
};

constexpr int64_t kLargest = 3000;  // of the lengths below

const std::vector<AlongAxis>& cases_along_axes() {
  static const std::vector<AlongAxis> cases{
      {{300, 700}, {500}, 0, true},                  // wide slices
      {{4, 50, 3000}, {10, 9}, 1, true},             // in several rows, of several chunks
      {{kLargest, 3000}, {kLargest}, 0, true},       // of more than caches hold
      {{2000, 64}, {100}, 1, true},                  // single elements
      {{40, 500, 3}, {3000}, 1, true},               // narrow slices
      {{3, 20'000, 3}, {500}, 1, true},              // of a long axis
      {{1, 3}, {}, 1, true},                         // a single one
      {{5, 3, 4}, {0}, 1, true},                     // none
      {{900, 130}, {900, 200}, 1, false},            // along rows
      {{300, 2000}, {200, 2000}, 0, false},          // across rows
      {{60, 50, 40}, {50, 70, 30}, 1, false},        // of a part of the data
      {{60, 50, 4, 40}, {60, 70, 3, 30}, 1, false},  // which is no range of columns
      {{30, 2, 50, 40}, {20, 1, 70, 40}, 2, false},  // or of rows
      {{70'000}, {300'000}, 0, false},               // one long row
      {{9000, 30}, {5000, 30}, 0, false},            // whose sums have no room in a cache
      {{4, 3}, {4, 0}, 1, false},                    // none
  };
  return cases;
}

int64_t product(std::span<const int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

/// The dims of what is read.
std::vector<int64_t> dims_read(const AlongAxis& c) {
  if (!c.slices) return c.index;
  std::vector<int64_t> dims(c.data.begin(), c.data.begin() + c.axis);
  dims.insert(dims.end(), c.index.begin(), c.index.end());
  dims.insert(dims.end(), c.data.begin() + c.axis + 1, c.data.end());
  return dims;
}

/// Many are equal, and the first and the last place are among them.
std::vector<int64_t> indices_of(const AlongAxis& c) {
  std::vector<int64_t> indices(static_cast<size_t>(product(c.index)));
  const int64_t length = c.data[static_cast<size_t>(c.axis)];
  for (size_t i = 0; i < indices.size(); ++i)
    indices[i] = static_cast<int64_t>(i * 7919 % 10'007 * (i % 13)) % length;
  if (indices.size() > 2) indices[1] = length - 1, indices[2] = 0;
  return indices;
}

/// The flat position in the data of each element that is read, coordinate by coordinate.
std::vector<int64_t> flat_positions(const AlongAxis& c, const std::vector<int64_t>& indices) {
  const std::vector<int64_t> dims = dims_read(c);
  std::vector<int64_t> positions(static_cast<size_t>(product(dims)));
  const auto axis = static_cast<size_t>(c.axis), behind = c.slices ? axis + c.index.size() : axis + 1;
  for (size_t e = 0; e < positions.size(); ++e) {
    std::vector<int64_t> at(dims.size());
    for (size_t d = dims.size(), rest = e; d-- > 0; rest /= static_cast<size_t>(dims[d]))
      at[d] = static_cast<int64_t>(rest % static_cast<size_t>(dims[d]));
    size_t number = e;
    if (c.slices) {
      number = 0;
      for (size_t d = axis; d < behind; ++d)
        number = number * static_cast<size_t>(dims[d]) + static_cast<size_t>(at[d]);
    }
    std::vector<int64_t> there(at.begin(), at.begin() + c.axis);
    there.push_back(indices[number]);
    there.insert(there.end(), at.begin() + static_cast<ptrdiff_t>(behind), at.end());
    int64_t& position = positions[e];
    for (size_t d = 0; d < c.data.size(); ++d) position = position * c.data[d] + there[d];
  }
  return positions;
}

/// Evaluated into memory that holds something else.
template <class T>
std::vector<T> evaluated(const OpDef& op, const std::vector<const TensorData*>& inputs,
                         const std::vector<int64_t>& dims, const Attributes& attributes) {
  EXPECT_TRUE(op.is(Trait::Overwrites));
  std::vector<TensorData> outputs{TensorData(dtype_of<T>(), dims)};
  std::ranges::fill(outputs[0].bytes, std::byte{0xA5});
  const DimMap sizes;
  EvalContext context{inputs, outputs, attributes, sizes, 0};
  op.evaluate(context);
  const auto found = outputs[0].as<T>();
  return {found.begin(), found.end()};
}

/// Some numbers whose sums T does not hold exactly, if it is a float.
template <class T>
TensorData some_numbers(const std::vector<int64_t>& dims, int64_t seed) {
  TensorData numbers(dtype_of<T>(), dims);
  int64_t i = seed;
  for (T& value : numbers.as<T>()) {
    i = (i * 16'807 + 7) % 2'147'483'647;
    value =
        static_cast<T>(static_cast<std::conditional_t<std::is_integral_v<T>, int64_t, float>>(i % 20'011) /
                       (std::is_integral_v<T> ? 1 : 17));
  }
  return numbers;
}

template <class T>
class IndexingAlongAxes : public testing::Test {};
using IndexedTypes = testing::Types<float, double, bfloat16, float16, int64_t, uint8_t>;
TYPED_TEST_SUITE(IndexingAlongAxes, IndexedTypes);

TYPED_TEST(IndexingAlongAxes, DoesWhatALoopDoes) {
  using T = TypeParam;
  using Sum = std::conditional_t<std::is_integral_v<T>, T, double>;
  const auto equal = [](std::span<const T> a, std::span<const T> b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
  };
  for (const AlongAxis& c : cases_along_axes()) {
    SCOPED_TRACE(fmt::format("[{}] by [{}] along {}{}", fmt::join(c.data, ", "), fmt::join(c.index, ", "),
                             c.axis, c.slices ? ", slices" : ""));
    const std::vector<int64_t> indices = indices_of(c), read = dims_read(c),
                               positions = flat_positions(c, indices);
    const TensorData index = TensorData::of<int64_t>(c.index, indices);
    const TensorData data = some_numbers<T>(c.data, 1), updates = some_numbers<T>(read, 2);
    const TensorData number = some_numbers<T>({}, 3);
    const Attributes along{{"axis", c.axis}, {"slices", c.slices}};
    std::vector<T> wanted;
    for (const int64_t position : positions) wanted.push_back(data.as<T>()[static_cast<size_t>(position)]);
    EXPECT_TRUE(equal(evaluated<T>(kGather, {&data, &index}, read, along), wanted));
    for (const bool is_number : {false, true})
      for (const std::string mode : {"assign", "add"}) {
        Attributes attributes = along;
        attributes.set("mode", mode);
        std::vector<T> base(data.as<T>().begin(), data.as<T>().end());
        if (is_number) {
          std::ranges::fill(base, number.as<T>()[0]);
          attributes.set("dims", Shape(c.data.begin(), c.data.end()));
        }
        std::vector<Sum> sums(base.begin(), base.end());
        for (size_t i = 0; i < positions.size(); ++i) {
          const T update = updates.as<T>()[i];
          Sum& sum = sums[static_cast<size_t>(positions[i])];
          sum = static_cast<Sum>(mode == "add" ? sum + static_cast<Sum>(update) : static_cast<Sum>(update));
        }
        wanted.clear();
        for (const Sum sum : sums) wanted.push_back(static_cast<T>(sum));
        EXPECT_TRUE(
            equal(evaluated<T>(kScatter, {is_number ? &number : &data, &index, &updates}, c.data, attributes),
                  wanted))
            << mode << (is_number ? " to a number" : "");
      }
  }
}

/// Zeros keep their sign, or lose it, as in a sum: -0 is what all terms are.
TEST(Indexing, SumsOfZerosHaveTheSignOfASum) {
  const TensorData index = TensorData::of<int64_t>({2}, std::vector<int64_t>{0, 1});
  TensorData base(Dtype::F32, {3, 16}), updates(Dtype::F32, {2, 16});
  std::ranges::fill(updates.as<float>(), -0.0F);
  std::fill_n(base.as<float>().begin() + 16, 16, -0.0F);
  const std::vector<float> sums =
      evaluated<float>(kScatter, {&base, &index, &updates}, {3, 16},
                       {{"axis", int64_t{0}}, {"slices", true}, {"mode", std::string("add")}});
  EXPECT_FALSE(std::signbit(sums[0]));
  EXPECT_TRUE(std::signbit(sums[16]));
  EXPECT_FALSE(std::signbit(sums[32]));
}

TEST(Indexing, AnIndexOutsideIsMetWhereverItStands) {
  for (const AlongAxis& c : cases_along_axes()) {
    std::vector<int64_t> indices = indices_of(c);
    if (indices.empty()) continue;
    for (const int64_t bad : {int64_t{-1}, c.data[static_cast<size_t>(c.axis)],
                              std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()})
      for (const size_t at : {size_t{0}, indices.size() / 2, indices.size() - 1}) {
        const int64_t good = std::exchange(indices[at], bad);
        const TensorData index = TensorData::of<int64_t>(c.index, indices);
        const TensorData data(Dtype::U8, c.data), updates(Dtype::U8, dims_read(c));
        const Attributes along{{"axis", c.axis}, {"slices", c.slices}};
        Attributes adding = along;
        adding.set("mode", std::string("add"));
        EXPECT_THROW((void)evaluated<uint8_t>(kGather, {&data, &index}, dims_read(c), along), Error);
        EXPECT_THROW((void)evaluated<uint8_t>(kScatter, {&data, &index, &updates}, c.data, adding), Error);
        indices[at] = good;
      }
  }
}

}  // namespace
}  // namespace luminal
