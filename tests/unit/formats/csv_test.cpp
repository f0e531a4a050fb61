#include "luminal/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/gzip.h"
#include "luminal/error.h"
#include "support/files.h"

namespace luminal {
namespace {

using testing::ElementsAre;

std::string message(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Csv, FieldsQuotesAndLineEnds) {
  const CsvTable table = parse_csv(
      "\xef\xbb\xbfname,\"the, size\",x\r\n\"a \"\"b\"\"\",1,2\r\n\r\n\"two\nlines\", -3.5e1 ,+4", {}, "[t]");
  EXPECT_THAT(table.columns(), ElementsAre("name", "the, size", "x"));
  EXPECT_EQ(table.rows(), 2);
  EXPECT_EQ(table.field(0, 0), "a \"b\"");
  EXPECT_EQ(table.field(1, 0), "two\nlines");
  const TensorData numbers = table.numbers({"x", "the, size"});
  EXPECT_THAT(numbers.dims, ElementsAre(2, 2));
  EXPECT_THAT(numbers.as<float>(), ElementsAre(2, 1, 4, -35));
  EXPECT_THAT(table.numbers({"x"}, Dtype::F64).as<double>(), ElementsAre(2, 4));
}

TEST(Csv, WithoutAHeaderAndOtherSeparators) {
  const CsvTable table = parse_csv("1;2\n3;4\n", {.separator = ';', .header = false}, "[t]");
  EXPECT_THAT(table.columns(), ElementsAre("0", "1"));
  EXPECT_THAT(table.numbers({"1"}).as<float>(), ElementsAre(2, 4));
}

TEST(Csv, WrongInputNamesThePlace) {
  const auto parse = [](const std::string& text) { return parse_csv(text, {}, "[csv] 'f'"); };
  EXPECT_EQ(message([&] { (void)parse("a,b\n1,2\n3\n"); }),
            "[csv] 'f', line 3: 1 fields, but the first line has 2; give every row the same number");
  EXPECT_EQ(message([&] { (void)parse("a,b\n1,\"2\n"); }),
            "[csv] 'f', line 2: a quote is not closed; add the closing quote");
  EXPECT_EQ(message([&] { (void)parse("\n\n"); }), "[csv] 'f': the table has no rows; give at least one");
  EXPECT_EQ(message([&] { (void)parse("a,b\n\n1,2\n3,four\n").numbers({"b"}); }),
            "[csv] 'f', line 4, column 'b': 'four' is not a number; fix it or leave the column out");
  EXPECT_EQ(message([&] { (void)parse("price,b\n1,2\n").numbers({"prise"}); }),
            "[csv] 'f': unknown column 'prise'; did you mean 'price'?");
}

TEST(Csv, UnpacksNoMoreThanAllowed) {
  const test::TemporaryFolder folder;
  const std::string text = "a\n" + std::string(1'000'000, '1') + "\n", packed = gzip(text);
  const auto path = folder.file("bomb.csv.gz", packed);
  EXPECT_EQ(read_csv(path).field(0, 0).size(), 1'000'000U);
  EXPECT_EQ(
      test::error_of<FormatError>([&] { (void)read_csv(path, {.limit_bytes = 900'000}); }, folder.path()),
      "[csv] 'bomb.csv.gz': its " + std::to_string(packed.size()) +
          " bytes unpack to more than the 900000 allowed here; raise CsvOptions::limit_bytes if this is "
          "intended");
  EXPECT_EQ(test::error_of<FormatError>(
                [&] { (void)read_csv(folder.file("plain.csv", text), {.limit_bytes = 9}); }, folder.path()),
            "[read] 'plain.csv' holds 1000003 bytes, more than the 9 allowed here");
}

}  // namespace
}  // namespace luminal
