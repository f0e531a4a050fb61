#include "egraph/language/source.h"

#include <algorithm>

namespace luminal::egraph::language {
namespace {

bool continues_code_point(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Generated programs come on lines of megabytes, and every call in them gets a message with its place.
constexpr size_t kCounted = 256;

size_t code_points_before(const Source& source, size_t offset) {
  const size_t block = offset / kCounted;
  return source.points_before[block] +
         count_code_points(std::string_view(source.text).substr(block * kCounted, offset - block * kCounted));
}

// Index of the line that holds the byte.
size_t line_index(const Source& source, uint32_t offset) {
  const auto after = std::upper_bound(source.line_starts.begin(), source.line_starts.end(), offset);
  return static_cast<size_t>(after - source.line_starts.begin()) - 1;
}

std::string_view line_text(const Source& source, size_t line) {
  const size_t begin = source.line_starts[line];
  const bool is_last = line + 1 == source.line_starts.size();
  const size_t end = is_last ? source.text.size() : source.line_starts[line + 1] - 1;
  return std::string_view(source.text).substr(begin, end - begin);
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

// A byte that is no ASCII and stands alone would make the message no UTF-8 either.
std::string readable(std::string_view line) {
  std::string out(line);
  for (size_t i = 0; i < out.size(); ++i) {
    const auto byte = static_cast<unsigned char>(out[i]);
    if (byte < 0x80) continue;
    const size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC2 ? 2 : 1;
    size_t end = i + 1;
    while (end < out.size() && end < i + length && continues_code_point(out[end])) ++end;
    if (length == 1 || end != i + length)
      out[i] = '?';
    else
      i = end - 1;
  }
  return out;
}

}  // namespace

size_t count_code_points(std::string_view text) {
  return text.size() - static_cast<size_t>(std::count_if(text.begin(), text.end(), continues_code_point));
}

Source::Source(std::string source_name, std::string source_text)
    : name(std::move(source_name)), text(std::move(source_text)), line_starts{0} {
  for (size_t i = text.find('\n'); i != std::string::npos; i = text.find('\n', i + 1))
    line_starts.push_back(static_cast<uint32_t>(i + 1));
  points_before.push_back(0);
  for (size_t i = kCounted; i <= text.size(); i += kCounted)
    points_before.push_back(
        points_before.back() +
        static_cast<uint32_t>(count_code_points(std::string_view(text).substr(i - kCounted, kCounted))));
}

Location locate(const Source& source, uint32_t offset) {
  const size_t line = line_index(source, offset);
  const uint32_t begin = source.line_starts[line];
  return {.line = line + 1,
          .column = 1 + code_points_before(source, offset) - code_points_before(source, begin)};
}

std::string show_location(const Span& span) {
  if (!span.source) return "<no source>";
  const Location at = locate(*span.source, span.begin);
  return fmt::format("{}:{}:{}", span.source->name, at.line, at.column);
}

std::string render_diagnostic(const Span& span, std::string_view message, std::string_view severity) {
  if (!span.source) return fmt::format("{}: {}", severity, message);
  const size_t index = line_index(*span.source, span.begin);
  std::string_view line = line_text(*span.source, index);
  size_t begin = span.begin - span.source->line_starts[index];
  size_t end = begin + std::max<size_t>(span.end - span.begin, 1);
  if (line.size() > kMaxShownLine) {
    // Only a window of a very long line: from a little before the span.
    size_t from = begin > 40 ? begin - 40 : 0;
    while (from > 0 && continues_code_point(line[from])) --from;
    line = line.substr(from, kMaxShownLine);
    begin -= from;
    end -= from;
  }
  const std::string number = std::to_string(index + 1);
  return fmt::format("{}: {}: {}\n {} | {}\n {} | {}", show_location(span), severity, message, number,
                     readable(line), std::string(number.size(), ' '), caret_line(line, begin, end));
}

}  // namespace luminal::egraph::language
