// Keys that several threads insert at once, against one key after the other: rows, results, differences.
#include "egraph/core/parallel_insert.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace luminal::egraph {
namespace {

struct Keys {
  std::array<std::vector<uint32_t>, 4> columns;
  std::vector<uint32_t> outputs;
  std::array<const uint32_t*, 4> pointers() const {
    return {columns[0].data(), columns[1].data(), columns[2].data(), columns[3].data()};
  }
};

struct Outcome {
  std::vector<std::vector<uint32_t>> rows;
  std::vector<uint32_t> results;
  std::vector<std::pair<uint32_t, uint32_t>> differences;
  bool operator==(const Outcome&) const = default;
};

constexpr uint32_t kFirstId = 1000;

/// Few distinct keys repeat each other and what stands; many are mostly new.
Keys random_keys(std::mt19937_64& random, uint32_t count, uint32_t distinct) {
  Keys keys;
  for (uint32_t i = 0; i < count; i++) {
    for (auto& column : keys.columns) column.push_back(static_cast<uint32_t>(random() % distinct));
    keys.outputs.push_back(static_cast<uint32_t>(random() % 3));
  }
  return keys;
}

void insert_one_by_one(Table& table, const Keys& keys, uint32_t count, bool with_outputs, Outcome& outcome) {
  Value id = kFirstId;
  std::vector<Value> key(table.key_width());
  for (uint32_t i = 0; i < count; i++) {
    for (uint32_t c = 0; c < key.size(); c++) key[c] = keys.columns[c][i];
    Row row = table.find(key);
    if (row == kNoRow)
      row = table.append(key, with_outputs ? keys.outputs[i] : id++);
    else if (with_outputs && table.output_of(row) != keys.outputs[i])
      outcome.differences.emplace_back(i, table.output_of(row));
    if (table.has_output() && !with_outputs) outcome.results.push_back(table.output_of(row));
  }
}

void insert_together(ParallelInsert& insert, Table& table, const Keys& keys, uint32_t count,
                     bool with_outputs, Outcome& outcome) {
  table.reserve(count);
  outcome.results.resize(table.has_output() && !with_outputs ? count : 0);
  const auto columns = keys.pointers();
  const Row before = table.rows();
  const uint32_t fresh =
      insert.run(table, {columns.data(), count, with_outputs ? keys.outputs.data() : nullptr, kFirstId},
                 outcome.results.empty() ? nullptr : outcome.results.data());
  EXPECT_EQ(fresh, table.rows() - before);
  insert.each_difference([&](const auto& d) { outcome.differences.emplace_back(d.at, d.present); });
}

void read_rows(const Table& table, Outcome& outcome) {
  for (Row row = 0; row < table.rows(); row++) {
    auto& cells = outcome.rows.emplace_back();
    for (uint32_t c = 0; c < table.width(); c++) cells.push_back(table.column(c)[row]);
    EXPECT_EQ(table.find({cells.data(), table.key_width()}), row);
  }
}

TEST(ParallelInsert, DoesWhatOneKeyAfterTheOtherDoes) {
  size_t repeated = 0, differences = 0, rows = 0;
  for (uint64_t seed = 0; seed < 400; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    Team team(2 + seed % 3);
    ParallelInsert insert(team);
    const uint32_t key_width = 1 + static_cast<uint32_t>(seed % 4);
    const bool has_output = seed % 5 != 0, with_outputs = has_output && seed % 2 == 0;
    Table one(key_width, has_output), many(key_width, has_output);
    for (int round = 0; round < 4; round++) {
      const uint32_t count = static_cast<uint32_t>(random() % (seed % 8 == 0 ? 6000 : 70));
      const uint32_t distinct = 1 + static_cast<uint32_t>(random() % (key_width == 1 ? 3000 : 12));
      const Keys keys = random_keys(random, count, distinct);
      Outcome expected, actual;
      insert_one_by_one(one, keys, count, with_outputs, expected);
      insert_together(insert, many, keys, count, with_outputs, actual);
      read_rows(one, expected);
      read_rows(many, actual);
      ASSERT_TRUE(expected == actual) << "round " << round;
      differences += actual.differences.size();
      repeated += count;
    }
    rows += many.rows();
  }
  EXPECT_GT(differences, 1000u);
  EXPECT_GT(rows, 10000u);
  EXPECT_GT(repeated, 3 * rows);
}

}  // namespace
}  // namespace luminal::egraph
