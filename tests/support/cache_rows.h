#pragma once
#include <bit>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/hash.h"
#include "search/cache/database.h"

namespace luminal::test {

/// A row of the tuning cache's choices as its file holds it.
struct ChoiceRow {
  int64_t high = 0, low = 0;
  std::string content;  ///< {"code":..., "costs":{...}, "parameters":{...}, "schedule":"..."}
  double measured_us = 0;
  int64_t candidates = 0, verified = 0;

  /// What the cache would have noted for it: who forges a row can do so too.
  [[nodiscard]] int64_t check_sum() const {
    std::string text = content;
    const auto parsed = nlohmann::json::parse(content, nullptr, false);
    if (parsed.is_object() && parsed.contains("schedule") && parsed.contains("parameters") &&
        parsed.contains("code")) {  // the sum is over the content without what else stands there
      nlohmann::json known{
          {"schedule", parsed["schedule"]}, {"parameters", parsed["parameters"]}, {"code", parsed["code"]}};
      if (parsed.contains("costs")) known["costs"] = parsed["costs"];
      text = known.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    }
    const uint64_t numbers =
        combine(combine(std::bit_cast<uint64_t>(measured_us), static_cast<uint64_t>(candidates)),
                verified != 0 ? 1 : 0);
    const uint64_t first = combine(static_cast<uint64_t>(high), numbers);
    return static_cast<int64_t>(
        hash_bytes(text.data(), text.size(), combine(first, static_cast<uint64_t>(low))));
  }
};

[[nodiscard]] inline std::vector<ChoiceRow> read_choices(const std::filesystem::path& file) {
  search::Database database;
  database.open(file, search::Database::Access::ReadWrite);
  search::Statement rows(database,
                         "SELECT high, low, content, measured_us, candidates, verified FROM choices");
  std::vector<ChoiceRow> list;
  while (rows.step())
    list.push_back(
        {rows.integer(0), rows.integer(1), rows.text(2), rows.real(3), rows.integer(4), rows.integer(5)});
  return list;
}

/// These rows instead of those that are there, each with the sum that belongs to it. Of two with one key the
/// later one stays.
inline void write_choices(const std::filesystem::path& file, const std::vector<ChoiceRow>& rows) {
  search::Database database;
  database.open(file, search::Database::Access::ReadWrite);
  database.run("DELETE FROM choices");
  for (const ChoiceRow& row : rows) {
    search::Statement insert(database, "INSERT OR REPLACE INTO choices VALUES(?,?,?,?,?,?,?)");
    insert.bind(row.high).bind(row.low).bind(row.content).bind(row.measured_us).bind(row.candidates);
    insert.bind(row.verified).bind(row.check_sum()).step();
  }
}

}  // namespace luminal::test
