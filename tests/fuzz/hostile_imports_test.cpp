// Exported choices that were changed, with checksums that fit: a program that takes them over finds the right
// values all the same. Each import is tried by a process of its own, which must come to its end.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <limits>
#include <random>

#include "luminal/luminal.h"
#include "luminal/tuning.h"
#include "support/cache_rows.h"
#include "support/child.h"
#include "support/effort.h"
#include "support/files.h"

namespace luminal::fuzz {
namespace {

namespace fs = std::filesystem;
using test::ChoiceRow;

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr ? text : "";
}

/// Kernels of several families: a product, rows that are normalised, sums along both axes, a transposition.
struct Network {
  static constexpr int64_t kRows = 24, kInner = 40, kColumns = 16;
  Graph cx;
  GraphTensor x = cx.tensor({kRows, kInner}), w = cx.tensor({kInner, kColumns});
  GraphTensor product = x.matmul(w), probabilities = product.softmax(1).retrieve(),
              sums = (product.sum(0) * 2).retrieve(), turned = (x.t() + 1).contiguous().retrieve();

  static float left(int64_t i, int64_t k) { return static_cast<float>((i * 7 + k * 3) % 11 - 5) / 8; }
  static float right(int64_t k, int64_t j) { return static_cast<float>((k * 5 + j * 2) % 13 - 6) / 8; }

  Network() {
    std::vector<float> a, b;
    for (int64_t i = 0; i < kRows; ++i)
      for (int64_t k = 0; k < kInner; ++k) a.push_back(left(i, k));
    for (int64_t k = 0; k < kInner; ++k)
      for (int64_t j = 0; j < kColumns; ++j) b.push_back(right(k, j));
    x.set(a);
    w.set(b);
  }
  void compile_and_run() {
    cx.set_device("cpu");
    Compiled compiled = cx.compile(Optimal{});
    compiled();
  }
  /// Against plain loops in double.
  void expect_right() const {
    std::vector<double> sum(kColumns);
    for (int64_t i = 0; i < kRows; ++i) {
      std::vector<double> row(kColumns);
      double total = 0;
      for (int64_t j = 0; j < kColumns; ++j) {
        double& y = row[static_cast<size_t>(j)];
        for (int64_t k = 0; k < kInner; ++k) y += double{left(i, k)} * double{right(k, j)};
        sum[static_cast<size_t>(j)] += 2 * y;
        total += std::exp(y);
      }
      const auto found = probabilities.data<float>();
      for (int64_t j = 0; j < kColumns; ++j)
        ASSERT_NEAR(found[static_cast<size_t>(i * kColumns + j)],
                    std::exp(row[static_cast<size_t>(j)]) / total, 1e-5)
            << "row " << i << ", column " << j;
    }
    for (int64_t j = 0; j < kColumns; ++j)
      ASSERT_NEAR(sums.data<float>()[static_cast<size_t>(j)], sum[static_cast<size_t>(j)], 1e-3) << j;
    const auto swapped = turned.data<float>();
    for (int64_t i = 0; i < kRows; ++i)
      for (int64_t k = 0; k < kInner; ++k)
        ASSERT_EQ(swapped[static_cast<size_t>(k * kRows + i)], left(i, k) + 1) << i << ", " << k;
  }
};

// --- In processes of their own

TEST(ImportChild, DISABLED_FillsACacheAndExportsIt) {
  Network network;
  network.compile_and_run();
  network.expect_right();
  export_tuning(variable("LUMINAL_TEST_EXPORT"));
}

/// Refused or taken over, the values are right; and so they are in the next compile, which finds what the
/// first one left.
TEST(ImportChild, DISABLED_ImportsAndIsRight) {
  try {
    (void)import_tuning(variable("LUMINAL_TEST_EXPORT"));
  } catch (const FormatError& error) {
    std::cout << error.what() << "\n";
  }
  ASSERT_EQ(tuning_state().trouble, "");
  for (int compiles = 0; compiles < 2; ++compiles) {
    Network network;
    network.compile_and_run();
    network.expect_right();
  }
}

// --- The changes

class Forger {
 public:
  Forger(std::vector<ChoiceRow> rows, std::mt19937_64& random) : rows_(std::move(rows)), random_(random) {}

  std::vector<ChoiceRow> operator()() {
    std::vector<ChoiceRow> forged = rows_;
    const bool all = below(4) == 0;  // one kind of change everywhere, or one to four of any kind
    const uint64_t kind = below(kKinds);
    if (all)
      for (ChoiceRow& row : forged) change(row, kind);
    else
      for (uint64_t changes = 1 + below(4); changes > 0; --changes)
        change(forged[below(forged.size())], below(kKinds));
    return forged;
  }

 private:
  static constexpr uint64_t kKinds = 15;
  uint64_t below(uint64_t end) { return random_() % end; }
  const ChoiceRow& any() { return rows_[below(rows_.size())]; }
  static nlohmann::json parsed(const ChoiceRow& row) {
    const auto json = nlohmann::json::parse(row.content, nullptr, false);
    return json.is_object() && json.contains("parameters") ? json : nlohmann::json{{"parameters", {}}};
  }
  int64_t odd_number() {
    constexpr std::array<int64_t, 12> kNumbers{0,  1,   2,    -1,        3,         8,
                                               16, 255, 4096, 1'000'003, INT64_MAX, INT64_MIN};
    return kNumbers[below(kNumbers.size())];
  }
  double odd_time() {
    constexpr std::array<double, 8> kTimes{1e-300, 1e300, 0,  -1, std::numeric_limits<double>::infinity(),
                                           5e-324, 1e-3,  1e9};
    return kTimes[below(kTimes.size())];
  }
  static std::string any_of(const nlohmann::json& object, uint64_t which) {
    auto at = object.begin();
    std::advance(at, static_cast<ptrdiff_t>(which % object.size()));
    return at.key();
  }

  void change(ChoiceRow& row, uint64_t kind) {
    nlohmann::json json = parsed(row);
    nlohmann::json& parameters = json["parameters"];
    constexpr std::array<const char*, 8> kNames{"nest",     "map",  "reduce", "row",
                                                "contract", "plan", "",       "gone"};
    switch (kind) {
      case 0:
        json["schedule"] = kNames[below(kNames.size())];
        break;
      case 1:
      case 2:
        if (!parameters.empty()) parameters[any_of(parameters, random_())] = odd_number();
        break;
      case 3:  // another choice that might be one, of this family
        if (!parameters.empty()) {
          auto& value = parameters[any_of(parameters, random_())];
          if (value.is_number_integer()) value = value.get<int64_t>() + static_cast<int64_t>(below(5)) - 2;
        }
        break;
      case 4:
        if (!parameters.empty()) parameters.erase(any_of(parameters, random_()));
        break;
      case 5:
        parameters["unknown"] = odd_number();
        break;
      case 6:  // of another kernel
        row.content = any().content;
        return;
      case 7: {
        const ChoiceRow& other = any();
        row.high = other.high, row.low = other.low;
        return;
      }
      case 8:
        json["code"] = below(2) == 0 ? random_() : 0;
        break;
      case 9:
        row.measured_us = odd_time();
        return;
      case 10:
        row.candidates = odd_number();
        return;
      case 11:
        row.verified = 1;
        return;
      case 12:  // of another type
        if (!parameters.empty()) parameters[any_of(parameters, random_())] = below(2) == 0 ? "8" : "";
        json["code"] = -1;
        break;
      case 13:
        row.content = std::string(100'000, below(2) == 0 ? '[' : '{');
        return;
      default: {
        const size_t at = row.content.empty() ? 0 : below(row.content.size());
        if (!row.content.empty()) row.content[at] = static_cast<char>(random_());
        return;
      }
    }
    row.content = json.dump();
  }

  std::vector<ChoiceRow> rows_;
  std::mt19937_64& random_;
};

/// Changes that no row holds: the file's tables.
const std::vector<std::string>& table_changes() {
  static const std::vector<std::string> list{
      "DROP TABLE choices",
      "DROP TABLE objects",
      "PRAGMA user_version=1",
      "ALTER TABLE choices ADD COLUMN more TEXT",
      "UPDATE choices SET check_sum=check_sum+1",
      "UPDATE choices SET content=x'00ff00ff'",
      "UPDATE choices SET measured_us='soon'",
      "UPDATE choices SET candidates='many', verified='yes'",
      "CREATE TRIGGER spy AFTER INSERT ON choices BEGIN DELETE FROM choices; END",
      "DROP TABLE choices; CREATE VIEW choices AS SELECT 1 AS high, 2 AS low, '{}' AS content, 1.0 AS "
      "measured_us, "
      "1 AS candidates, 1 AS verified, 0 AS check_sum",
      "DELETE FROM choices",
  };
  return list;
}

class HostileImports : public testing::Test {
 protected:
  /// A cache filled by a search, and what it exports. The figures of the machine are measured once.
  void SetUp() override {
    ASSERT_EQ(test::run_child("ImportChild.DISABLED_FillsACacheAndExportsIt",
                              {{"LUMINAL_CACHE", (folder_.path() / "filled").string()},
                               {"LUMINAL_TEST_EXPORT", exported().string()}}),
              0);
  }
  [[nodiscard]] fs::path exported() const { return folder_.path() / "exported.db"; }

  /// A new cache takes over the file. Returns how the process ended.
  int import(const fs::path& file) {
    const fs::path cache = folder_.path() / "importing";
    fs::remove_all(cache);
    fs::create_directory(cache);
    fs::permissions(cache, fs::perms::owner_all);
    for (const auto& entry : fs::directory_iterator(folder_.path() / "filled"))
      if (entry.path().filename().string().starts_with("limits-"))
        fs::copy_file(entry.path(), cache / entry.path().filename());
    return test::run_child("ImportChild.DISABLED_ImportsAndIsRight",
                           {{"LUMINAL_CACHE", cache.string()}, {"LUMINAL_TEST_EXPORT", file.string()}});
  }
  fs::path copy() {
    const fs::path file = folder_.path() / "forged.db";
    fs::remove(file);
    fs::copy_file(exported(), file);
    return file;
  }

  test::TemporaryFolder folder_;
};

/// A quarter of the forged exports.
class ForgedImports : public HostileImports, public testing::WithParamInterface<uint64_t> {};

TEST_P(ForgedImports, NothingWrongIsBelieved) {
  const std::vector<ChoiceRow> rows = test::read_choices(exported());
  ASSERT_GE(rows.size(), 3U) << "kernels and a plan";
  // The rows as they are carry the sums that the test computes.
  const fs::path same = copy();
  test::write_choices(same, rows);
  ASSERT_EQ(import(same), 0);

  const uint64_t seed = effort::seed(14) + GetParam();
  std::mt19937_64 random(seed);
  Forger forge(rows, random);
  const int64_t count = effort::cases(1, 60);
  for (int64_t i = 0; i < count; ++i) {
    const fs::path file = copy();
    test::write_choices(file, forge());
    ASSERT_EQ(import(file), 0) << "seed " << seed << ", case " << i;
  }
  std::cout << count << " forged exports imported, " << rows.size() << " choices each\n";
}

INSTANTIATE_TEST_SUITE_P(Quarters, ForgedImports, testing::Values(0, 1, 2, 3));

TEST_F(HostileImports, TablesThatAreNotOursAreRefused) {
  const auto& changes = table_changes();
  const size_t step = effort::full_effort() ? 1 : 4;
  for (size_t i = 0; i < changes.size(); i += step) {
    const fs::path file = copy();
    {
      search::Database database;
      database.open(file, search::Database::Access::ReadWrite);
      database.run(changes[i]);
    }
    EXPECT_EQ(import(file), 0) << changes[i];
  }
}

}  // namespace
}  // namespace luminal::fuzz
