// Rows grouped by columns, on one thread and on several, against a map from key to rows.
#include "egraph/core/join_index.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "egraph/core/team.h"

namespace luminal::egraph {
namespace {

using Key = std::vector<uint32_t>;

/// What the parts of an index give for a key, after the rows that died since are left out.
std::vector<Row> rows_of(const JoinIndex& index, const Table& table, const Key& key) {
  std::vector<Row> rows;
  for (const JoinIndex::Part& part : index.parts()) {
    const uint32_t hash = hash_key<0>(static_cast<uint32_t>(key.size()), [&](uint32_t c) { return key[c]; });
    const JoinIndex::Range range = key.size() == 1 ? part.find(key[0]) : part.find_hashed(hash, key.data());
    for (const Row* row = range.begin; row != range.end; row++)
      if (table.is_live(*row)) rows.push_back(*row);
  }
  return rows;
}

void expect_index_of(const JoinIndex& index, const Table& table, uint32_t distinct) {
  std::map<Key, std::vector<Row>> expected;
  for (Row row = 0; row < table.rows(); row++) {
    if (!table.is_live(row)) continue;
    Key key;
    for (const uint32_t c : index.columns()) key.push_back(table.column(c)[row]);
    expected[key].push_back(row);
  }
  for (const auto& [key, rows] : expected) ASSERT_EQ(rows_of(index, table, key), rows);
  Key missing(index.columns().size(), distinct + 5);
  EXPECT_TRUE(rows_of(index, table, missing).empty());
  missing.back() = kDead - 1;
  EXPECT_TRUE(rows_of(index, table, missing).empty());
}

/// Dense, repeated and sparse keys; one column or two; a table that grows, and loses rows.
TEST(JoinIndex, GroupsRowsOnAnyNumberOfThreads) {
  size_t parts = 0;
  for (uint32_t seed = 0; seed < 48; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    Team team(2 + seed % 3);
    Table table(2, true);
    const uint32_t distinct = seed % 4 == 0 ? 7 : seed % 4 == 1 ? 3000 : seed % 4 == 2 ? 9000 : 4'000'000;
    std::vector<JoinIndex> indexes;
    for (int twice = 0; twice < 2; twice++) {
      indexes.emplace_back(std::vector<uint32_t>{1});
      indexes.emplace_back(std::vector<uint32_t>{2});
      indexes.emplace_back(std::vector<uint32_t>{0, 2});
    }
    for (int round = 0; round < 5; round++) {
      const uint64_t count = random() % (seed % 6 == 0 ? 8000 : 900);
      for (uint64_t i = 0; i < count; i++) {
        const Value key[] = {table.rows(), static_cast<Value>(random() % distinct)};
        table.append(key, static_cast<Value>(random() % distinct));
      }
      const Row rows = table.rows();
      for (uint64_t i = 0; rows != 0 && i < count / 5; i++) {
        const Row row = static_cast<Row>(random() % rows);
        if (table.is_live(row)) table.kill(row);
      }
      for (size_t i = 0; i < indexes.size(); i++) {
        indexes[i].ensure(table, table.rows(), i < 3 ? nullptr : &team);
        EXPECT_EQ(indexes[i].to_sort(table, table.rows()), 0u);
        expect_index_of(indexes[i], table, distinct);
        parts += indexes[i].parts().size();
      }
      EXPECT_EQ(indexes[0].size_bytes(), indexes[3].size_bytes());
    }
  }
  EXPECT_GT(parts, 1500u);
}

}  // namespace
}  // namespace luminal::egraph
