#include "graph/view_reader.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "graph/index_evaluator.h"
#include "luminal/tensor_data.h"

namespace luminal {
namespace {

using Random = std::mt19937_64;
using Pairs = std::vector<std::pair<Expression, Expression>>;

int64_t any(Random& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

Expression random_expression(Random& random, const std::vector<Expression>& leaves, int depth) {
  if (depth == 0) return leaves[static_cast<size_t>(any(random, 0, static_cast<int64_t>(leaves.size()) - 1))];
  const Expression a = random_expression(random, leaves, depth - 1),
                   b = random_expression(random, leaves, depth - 1);
  switch (any(random, 0, 6)) {
    case 0:
      return a + b * any(random, -5, 5);
    case 1:
      return a / any(random, 1, 9);
    case 2:
      return a % any(random, 1, 9);
    case 3:
      return a.min(b);
    case 4:
      return a.max(b);
    case 5:
      return a * b;
    default:
      return a - b;
  }
}

TEST(IndexEvaluator, DoesWhatExecDoes) {
  Random random(5);
  const std::vector<int64_t> extents{3, 50, 1'000'000};
  std::vector<Expression> leaves{Expression(7), Expression(-2)};
  for (size_t axis = 0; axis < extents.size(); ++axis)
    leaves.push_back(Expression::index(static_cast<int>(axis), extents[axis]));
  constexpr size_t kCount = 67;  // a rest of every vector
  std::vector<std::vector<int64_t>> coordinates;
  for (const int64_t extent : extents)
    for (auto& along = coordinates.emplace_back(); along.size() < kCount;)
      along.push_back(any(random, 0, extent - 1));
  for (int i = 0; i < 2000; ++i) {
    const Expression e = random_expression(random, leaves, 1 + i % 4);
    IndexEvaluator evaluator(coordinates, kCount);
    const std::vector<int64_t>& values = evaluator.evaluate(e);
    for (size_t k = 0; k < kCount; ++k) {
      const std::vector<int64_t> at{coordinates[0][k], coordinates[1][k], coordinates[2][k]};
      ASSERT_EQ(values[k], e.exec({}, at)) << e.to_string() << ", element " << k;
    }
  }
}

TEST(IndexEvaluator, DividesLargeAndNegativeNumbers) {
  for (const int64_t extent : {int64_t{1} << 20, int64_t{1} << 50, int64_t{1} << 60})
    for (const int64_t divisor : {int64_t{1}, int64_t{3}, int64_t{7}, int64_t{4096}, int64_t{1'000'003}}) {
      const Expression shifted = Expression::index(0, extent) - extent / 2;
      std::vector<std::vector<int64_t>> coordinates(1);
      for (const int64_t at :
           {int64_t{0}, int64_t{1}, extent / 2 - 1, extent / 2, extent / 2 + 1, extent - 1})
        for (const int64_t off : {-2, -1, 0, 1})
          coordinates[0].push_back(std::clamp((at / divisor) * divisor + off, int64_t{0}, extent - 1));
      for (const Expression& e : {shifted / divisor, shifted % divisor}) {
        IndexEvaluator evaluator(coordinates, coordinates[0].size());
        const std::vector<int64_t>& values = evaluator.evaluate(e);
        for (size_t k = 0; k < values.size(); ++k)
          ASSERT_EQ(values[k], e.exec({}, std::span(&coordinates[0][k], 1))) << e.to_string();
      }
    }
}

/// Views with strides and without.
std::vector<ShapeTracker> views() {
  const auto of = [](const std::vector<int64_t>& dims) {
    return ShapeTracker::contiguous(Shape(dims.begin(), dims.end()));
  };
  std::vector<ShapeTracker> list{of({4, 6, 5}), of({7})};
  list.push_back(of({4, 6, 5}).permute({2, 0, 1}));
  list.push_back(of({3, 6}).pad(Pairs{{1, 2}, {0, 3}}));
  list.push_back(of({3, 6}).pad(Pairs{{1, 1}, {2, 0}}).permute({1, 0}).slice(Pairs{{1, 7}, {0, 4}}));
  list.push_back(of({12, 10}).permute({1, 0}).reshape({8, 15}));          // no strides
  list.push_back(of({5, 7}).pad(Pairs{{0, 0}, {0, 2}}).reshape({9, 5}));  // nor masks along rows
  list.push_back(of({40, 6}).permute({1, 0}).reshape({80, 3}).pad(Pairs{{1, 0}, {0, 1}}));  // short rows
  return list;
}

/// Elements read one by one.
std::vector<float> one_by_one(const ShapeTracker& view, const std::vector<float>& buffer) {
  std::vector<float> elements;
  const std::vector<int64_t> dims = exec(view.dims(), {});
  const int64_t count = std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
  for (int64_t position = 0; position < count; ++position) {
    std::vector<int64_t> at(dims.size());
    int64_t left = position;
    for (size_t axis = dims.size(); axis-- > 0; left /= dims[axis]) at[axis] = left % dims[axis];
    bool is_hidden = false;
    for (const ShapeTracker::Mask& mask : view.masks()) is_hidden |= mask.predicate.exec({}, at) == 0;
    elements.push_back(is_hidden ? 0 : buffer[static_cast<size_t>(view.index_expression().exec({}, at))]);
  }
  return elements;
}

struct Shown {
  ViewReader reader;
  std::vector<float> buffer, elements;
};
Shown shown(const ShapeTracker& view) {
  Shown shown{.reader = ViewReader(view, {}), .buffer = {}, .elements = {}};
  shown.buffer.resize(static_cast<size_t>(shown.reader.buffer_elements()));
  std::iota(shown.buffer.begin(), shown.buffer.end(), 1.0F);
  shown.elements = one_by_one(view, shown.buffer);
  return shown;
}

TEST(ViewReader, ReadsTheSameInPiecesOfAnyLength) {
  Random random(11);
  for (const ShapeTracker& view : views()) {
    SCOPED_TRACE(view.to_string());
    const auto [reader, buffer, must] = shown(view);
    for (int turn = 0; turn < 20; ++turn) {
      const int64_t first = turn == 0 ? 0 : any(random, 0, reader.count() - 1);
      ViewCursor cursor(reader, first);
      for (int64_t at = first; at < reader.count();) {
        const int64_t length = std::min(any(random, 1, turn % 2 == 0 ? 3 : 40), reader.count() - at);
        std::vector<float> part(static_cast<size_t>(length));
        cursor.read(buffer.data(), Dtype::F32, length, part.data());
        for (int64_t i = 0; i < length; ++i)
          ASSERT_EQ(part[static_cast<size_t>(i)], must[static_cast<size_t>(at + i)]) << "element " << at + i;
        at += length;
      }
    }
  }
}

void expect_places(const Shown& shown, const std::vector<int64_t>& positions) {
  const ViewReader::Places places = shown.reader.places(positions);
  for (size_t i = 0, k = 0; i < positions.size(); ++i) {
    const bool is_fill = !places.fills.empty() && places.fills[i] != nullptr;
    const float is = is_fill ? 0 : shown.buffer[static_cast<size_t>(places.indices.at(k++))];
    ASSERT_EQ(is, shown.elements[static_cast<size_t>(positions[i])]) << "position " << positions[i];
  }
}

TEST(ViewReader, FindsThePlacesOfAnyPositions) {
  Random random(13);
  for (const ShapeTracker& view : views()) {
    SCOPED_TRACE(view.to_string());
    const Shown all = shown(view);
    const int64_t count = all.reader.count();
    for (int turn = 0; turn < 20; ++turn) {
      std::vector<int64_t> positions;
      while (positions.size() < 100) {  // runs, some of which say a place twice or leave one out
        const int64_t begin = any(random, 0, count - 1);
        for (int64_t p = begin; p < std::min(begin + any(random, 1, 20), count); ++p) {
          positions.push_back(p);
          if (any(random, 0, 9) == 0) positions.push_back(p), ++p;
        }
      }
      for (int64_t& p : positions) p = std::min(p, count - 1);
      expect_places(all, positions);
    }
  }
}

TEST(ViewReader, FindsThePlacesOfPositionsThatLieEquallyFarApart) {
  for (const ShapeTracker& view : views()) {
    SCOPED_TRACE(view.to_string());
    const Shown all = shown(view);
    const int64_t count = all.reader.count();
    for (int64_t step = 1; step < count; ++step) {
      std::vector<int64_t> positions;  // along an axis, and again from the next row on
      for (const int64_t first : {int64_t{0}, std::min(count - 1, step / 2 + 1), count / 3})
        for (int64_t p = first; p < count; p += step) positions.push_back(p);
      expect_places(all, positions);
    }
  }
}

}  // namespace
}  // namespace luminal
