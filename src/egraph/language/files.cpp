// Commands on files: input, output, include.
#include <algorithm>
#include <charconv>
#include <fstream>

#include "base/file.h"
#include "base/utf8.h"
#include "egraph/language/interpreter.h"

namespace luminal::egraph::language {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return value;
}

/// A message about a file, the file's name clipped.
std::string clipped_message(std::string message, const std::filesystem::path& path) {
  const std::string name = path.string();
  const size_t begin = name.empty() ? std::string::npos : message.find(name);
  if (begin != std::string::npos) message.replace(begin, name.size(), clipped(name));
  return message;
}

/// False, too, for a name that no file can have.
bool is_there(const std::filesystem::path& path) {
  std::error_code failed;
  return std::filesystem::exists(path, failed);
}

}  // namespace

std::filesystem::path Interpreter::fact_file(const std::string& name) const {
  return options_.fact_directory / name;
}

// A line is a row, its cells separated by tabs: the arguments, then the output of a function.
void Interpreter::input(const Command& c) {
  const FunctionInfo* info = scope_.find_function(c.name);
  if (!info) fail_at(c.span, "unknown function '{}'{}", c.name.text(), scope_.suggest_callable(c.name));
  std::vector<const SortInfo*> sorts = info->inputs;
  const bool has_output = info->kind == FunctionKind::Function;
  if (has_output && info->output != library_.unit) sorts.push_back(info->output);
  for (const SortInfo* sort : sorts)
    if (sort != library_.i64 && sort != library_.f64 && sort != library_.string)
      command_failed(c.span, "cannot read values of sort {} from a file: only i64, f64 and String",
                     sort->name.text());
  std::string text;
  std::error_code unknown;
  const uintmax_t size = std::filesystem::file_size(fact_file(c.file), unknown);
  if (!unknown) graph_.state().require_memory(size);
  try {
    text = read_file(fact_file(c.file));
  } catch (const Error& error) {
    command_failed(c.span, "{}", clipped_message(error.what(), fact_file(c.file)).c_str());
  }
  if (const size_t bad = find_invalid_utf8(text); bad != std::string::npos) {
    const std::string_view before = std::string_view(text).substr(0, bad);
    const std::string_view line = before.substr(before.rfind('\n') + 1);
    command_failed(c.span, "{}:{}:{}: byte 0x{:02x} is not UTF-8 text: cells are read as UTF-8",
                   fact_file(c.file).string(), 1 + std::ranges::count(before, '\n'),
                   1 + count_code_points(line), static_cast<unsigned char>(text[bad]));
  }
  std::vector<std::vector<Value>> columns(sorts.size());
  size_t line_number = 0;
  for (std::string_view rest = text; !rest.empty() && !sorts.empty();) {
    graph_.state().poll();
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    ++line_number;
    const auto wrong = [&](std::string_view what) {
      command_failed(c.span, "{}:{}: {}", fact_file(c.file).string(), line_number, what);
    };
    for (size_t i = 0; i < sorts.size(); ++i) {
      const bool is_last = i + 1 == sorts.size();
      const size_t tab = line.find('\t');
      if (!is_last && tab == std::string_view::npos)
        wrong(fmt::format("expected {} cells separated by tabs, found {}", sorts.size(), i + 1));
      const std::string_view cell = trimmed(line.substr(0, tab));
      line.remove_prefix(tab == std::string_view::npos ? line.size() : tab + 1);
      if (sorts[i] == library_.string) {
        columns[i].push_back(graph_.string(cell));
      } else if (sorts[i] == library_.i64) {
        const auto value = parse_number<int64_t>(cell);
        if (!value) wrong(fmt::format("'{}' is not an i64", clipped(cell)));
        columns[i].push_back(graph_.i64(*value));
      } else {
        const auto value = parse_number<double>(cell);
        if (!value) wrong(fmt::format("'{}' is not an f64", clipped(cell)));
        columns[i].push_back(graph_.f64(*value));
      }
      if (is_last && !trimmed(line).empty()) wrong(fmt::format("more than {} cells", sorts.size()));
    }
  }
  if (sorts.empty()) return;
  if (has_output && info->output == library_.unit) columns.emplace_back(columns[0].size(), kUnitValue);
  if (info->inputs.empty()) {
    for (const Value value : columns[0]) graph_.set(info->id, {}, value);
    return;
  }
  const std::vector<std::span<const Value>> spans(columns.begin(), columns.end());
  graph_.add_rows(info->id, spans);
}

void Interpreter::output(const Command& c) {
  GrowingText text(graph_.state());
  for (const ExprId expr : c.exprs) {
    const Evaluated what = evaluate(expr);
    TermExtractor terms = extractor({&what.sort, 1});
    append_best(text, terms, {what, expr, c.span});
    text.add('\n');
  }
  const std::filesystem::path path = fact_file(c.file);
  std::ofstream file(path, std::ios::binary | std::ios::app);
  file << text.text();
  file.flush();
  if (!file) command_failed(c.span, "cannot write to '{}'", path.string());
}

// Names are relative to the working directory or, failing that, to the file that includes.
void Interpreter::include(const Command& c) {
  constexpr int kDeepest = 64;
  if (include_depth_ >= kDeepest)
    fail_at(c.span, "files include each other more than {} levels deep", kDeepest);
  std::filesystem::path path = c.file;
  if (!is_there(path) && c.span.source) {
    for (std::filesystem::path base = std::filesystem::path(c.span.source->name).parent_path();;
         base = base.parent_path()) {
      if (is_there(base / path)) {
        path = base / path;
        break;
      }
      if (base.empty() || base == base.parent_path()) break;
    }
  }
  std::string text;
  try {
    text = read_file(path);
  } catch (const Error& error) {
    fail_at(c.span, "{}", clipped_message(error.what(), path).c_str());
  }
  ++include_depth_;
  run_source(sources_.emplace_back(Source(path.string(), std::move(text))));
  --include_depth_;
}

}  // namespace luminal::egraph::language
