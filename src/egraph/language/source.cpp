#include "egraph/language/source.h"

#include <algorithm>

namespace luminal::egraph::language {
namespace {

bool continues_code_point(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

size_t count_code_points(std::string_view text) {
  return text.size() - static_cast<size_t>(std::count_if(text.begin(), text.end(), continues_code_point));
}

std::string_view line_around(std::string_view text, size_t offset) {
  const size_t newline = offset == 0 ? std::string_view::npos : text.rfind('\n', offset - 1);
  const size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
  const size_t end = std::min(text.find('\n', begin), text.size());
  return text.substr(begin, end - begin);
}

// The caret line copies tabs so that it stays aligned under the line above.
std::string caret_line(std::string_view line, size_t begin, size_t end) {
  std::string carets;
  for (size_t i = 0; i < begin && i < line.size(); ++i)
    if (!continues_code_point(line[i])) carets += line[i] == '\t' ? '\t' : ' ';
  carets += '^';
  const size_t stop = std::min(end, line.size());
  if (stop > begin + 1) carets.append(count_code_points(line.substr(begin + 1, stop - begin - 1)), '~');
  return carets;
}

constexpr size_t kMaxShownLine = 160;

}  // namespace

Location locate(const Source& source, uint32_t offset) {
  const std::string_view before = std::string_view(source.text).substr(0, offset);
  const size_t newline = before.rfind('\n');
  const size_t line_begin = newline == std::string_view::npos ? 0 : newline + 1;
  return {.line = 1 + static_cast<size_t>(std::count(before.begin(), before.end(), '\n')),
          .column = 1 + count_code_points(before.substr(line_begin))};
}

std::string show_location(const Span& span) {
  if (!span.source) return "<no source>";
  const Location at = locate(*span.source, span.begin);
  return fmt::format("{}:{}:{}", span.source->name, at.line, at.column);
}

std::string render_diagnostic(const Span& span, std::string_view message, std::string_view severity) {
  if (!span.source) return fmt::format("{}: {}", severity, message);
  const std::string_view text = span.source->text;
  std::string_view line = line_around(text, span.begin);
  size_t begin = span.begin - static_cast<size_t>(line.data() - text.data());
  size_t end = begin + std::max<size_t>(span.end - span.begin, 1);
  if (line.size() > kMaxShownLine) {
    // Only a window of a very long line: from a little before the span.
    size_t from = begin > 40 ? begin - 40 : 0;
    while (from > 0 && continues_code_point(line[from])) --from;
    line = line.substr(from, kMaxShownLine);
    begin -= from;
    end -= from;
  }
  const std::string number = std::to_string(locate(*span.source, span.begin).line);
  return fmt::format("{}: {}: {}\n {} | {}\n {} | {}", show_location(span), severity, message, number, line,
                     std::string(number.size(), ' '), caret_line(line, begin, end));
}

}  // namespace luminal::egraph::language
