#include "luminal/csv.h"

#include <charconv>

#include "base/fail.h"
#include "base/file.h"
#include "base/suggest.h"
#include "formats/gzip.h"

namespace luminal {
namespace {

/// Cuts text into rows of fields.
class Scanner {
 public:
  Scanner(std::string_view text, char separator, const std::string& where)
      : text_(text), separator_(separator), where_(where) {
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
    if (text_.starts_with(kByteOrderMark)) text_.remove_prefix(kByteOrderMark.size());
  }

  /// The next row that is not empty; false at the end.
  bool next(std::vector<std::string>& fields, int64_t& line) {
    do {
      if (at_ >= text_.size()) return false;
      line = line_;
      fields.clear();
      do fields.push_back(field());
      while (accept(separator_));
      end_of_line();
    } while (fields.size() == 1 && fields.front().empty());
    return true;
  }

 private:
  bool accept(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void end_of_line() {
    accept('\r');
    if (at_ < text_.size() && !accept('\n'))
      fail<FormatError>("{}, line {}: text after a closing quote; quote the whole field", where_, line_);
    ++line_;
  }
  std::string field() {
    if (accept('"')) return quoted();
    const size_t start = at_;
    while (at_ < text_.size() && text_[at_] != separator_ && text_[at_] != '\n' && text_[at_] != '\r') ++at_;
    return std::string(text_.substr(start, at_ - start));
  }
  std::string quoted() {
    const int64_t first = line_;
    std::string result;
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"' && !accept('"')) return result;  // a doubled quote is one
      if (c == '\n') ++line_;
      result.push_back(c);
    }
    fail<FormatError>("{}, line {}: a quote is not closed; add the closing quote", where_, first);
  }

  std::string_view text_;
  char separator_;
  const std::string& where_;
  size_t at_ = 0;
  int64_t line_ = 1;
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  if (text.size() > 1 && text.front() == '+') text.remove_prefix(1);
  return text;
}

}  // namespace

CsvTable parse_csv(std::string_view text, const CsvOptions& options, const std::string& where) {
  CsvTable table;
  table.where_ = where;
  Scanner scanner(text, options.separator, where);
  std::vector<std::string> fields;
  int64_t line = 0;
  while (scanner.next(fields, line)) {
    if (table.columns_.empty()) {
      for (size_t i = 0; i < fields.size(); ++i)
        table.columns_.push_back(options.header ? fields[i] : std::to_string(i));
      if (options.header) continue;
    }
    if (fields.size() != table.columns_.size())
      fail<FormatError>("{}, line {}: {} fields, but the first line has {}; give every row the same number",
                        where, line, fields.size(), table.columns_.size());
    for (const std::string& field : fields) {
      table.fields_ += field;
      table.ends_.push_back(table.fields_.size());
    }
    table.lines_.push_back(line);
    ++table.rows_;
  }
  if (table.columns_.empty()) fail<FormatError>("{}: the table has no rows; give at least one", where);
  return table;
}

CsvTable read_csv(const std::filesystem::path& path, const CsvOptions& options) {
  const std::string where = fmt::format("[csv] '{}'", path.string());
  const std::string file = read_file(path, options.limit_bytes);
  GzipSource source(file, where);
  std::string text;
  std::string chunk(size_t{1} << 16, '\0');
  while (const size_t count = source.read(std::as_writable_bytes(std::span(chunk)))) {
    if (count > options.limit_bytes - text.size())
      fail<FormatError>(
          "{}: its {} bytes unpack to more than the {} allowed here; raise CsvOptions::limit_bytes if this "
          "is intended",
          where, file.size(), options.limit_bytes);
    text.append(chunk, 0, count);
  }
  return parse_csv(text, options, where);
}

std::string_view CsvTable::field(int64_t row, size_t column) const {
  if (row < 0 || row >= rows_ || column >= columns_.size())
    fail("[csv] no field at row {}, column {}; the table has {} rows of {}", row, column, rows_,
         columns_.size());
  const size_t number = static_cast<size_t>(row) * columns_.size() + column;
  const size_t begin = number == 0 ? 0 : ends_[number - 1];
  return std::string_view(fields_).substr(begin, ends_[number] - begin);
}

size_t CsvTable::column(std::string_view name) const {
  for (size_t i = 0; i < columns_.size(); ++i)
    if (columns_[i] == name) return i;
  fail<FormatError>("{}: unknown column '{}'{}", where_, name, did_you_mean(name, columns_));
}

TensorData CsvTable::numbers(std::span<const std::string> names, Dtype dtype) const {
  if (dtype != Dtype::F32 && dtype != Dtype::F64)
    fail<DtypeError>("[csv] columns are read as f32 or f64, got {}; cast them afterwards",
                     luminal::name(dtype));
  TensorData result(dtype, {rows_, static_cast<int64_t>(names.size())});
  size_t place = 0;
  std::vector<size_t> which;
  for (const std::string& name : names) which.push_back(column(name));
  for (int64_t row = 0; row < rows_; ++row)
    for (const size_t each : which) {
      const std::string_view text = trimmed(field(row, each));
      double value = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (error != std::errc() || end != text.data() + text.size())
        fail<FormatError>("{}, line {}, column '{}': '{}' is not a number; fix it or leave the column out",
                          where_, lines_[static_cast<size_t>(row)], columns_[each], text);
      if (dtype == Dtype::F32)
        result.as<float>()[place++] = static_cast<float>(value);
      else
        result.as<double>()[place++] = value;
    }
  return result;
}

}  // namespace luminal
