#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "luminal/tensor_data.h"

/// Tables in text files (RFC 4180): fields between separators, quoted where they hold one.
///
///   CsvTable table = read_csv("houses.csv");
///   TensorData x = table.numbers({"rooms", "area"}), y = table.numbers({"price"});  // f32 [rows, columns]
namespace luminal {

/// The longest text that is read unless the caller allows more.
inline constexpr size_t kCsvLimitBytes = size_t{4} << 30;

struct CsvOptions {
  char separator = ',';
  bool header = true;  ///< the first line names the columns; otherwise they are called "0", "1" ...
  size_t limit_bytes = kCsvLimitBytes;  ///< of the text, unpacked
};

/// Thread safety: any number of threads may read one.
class CsvTable {
 public:
  [[nodiscard]] const std::vector<std::string>& columns() const { return columns_; }
  [[nodiscard]] int64_t rows() const { return rows_; }
  /// The text of one field. Errors: Error if row or column is out of range.
  [[nodiscard]] std::string_view field(int64_t row, size_t column) const;
  /// Errors: FormatError that offers the nearest name.
  [[nodiscard]] size_t column(std::string_view name) const;
  /// The named columns as numbers. Errors: FormatError that names line and column of a field which is none.
  [[nodiscard]] TensorData numbers(std::span<const std::string> names, Dtype dtype = Dtype::F32) const;
  [[nodiscard]] TensorData numbers(std::initializer_list<std::string> names, Dtype dtype = Dtype::F32) const {
    return numbers(std::span(names.begin(), names.size()), dtype);
  }

 private:
  friend CsvTable parse_csv(std::string_view text, const CsvOptions& options, const std::string& where);
  std::string where_;
  std::vector<std::string> columns_;
  std::string fields_;        ///< row by row, without separators: a field of its own text would take 32 bytes
  std::vector<size_t> ends_;  ///< by field, where it ends in `fields_`
  std::vector<int64_t> lines_;  ///< of the text, by row
  int64_t rows_ = 0;
};

/// Reads a file, plain or gzipped; lines may end as on Unix or Windows, empty ones are skipped. Errors:
/// FormatError if it is missing or longer than allowed, if a row has more or fewer fields than the first
/// line, or a quote is open.
[[nodiscard]] CsvTable read_csv(const std::filesystem::path& path, const CsvOptions& options = {});
/// The same from text; `where` leads the messages.
[[nodiscard]] CsvTable parse_csv(std::string_view text, const CsvOptions& options, const std::string& where);

}  // namespace luminal
