#include "egraph/language/sexp.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>

namespace luminal::egraph::language {
namespace {

// Length of the white space at `at`, 0 if there is none: Unicode's White_Space property, as UTF-8.
size_t white_space_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) -> unsigned {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0;
  };
  const unsigned first = byte(0);
  if (first == ' ' || (first >= '\t' && first <= '\r')) return 1;
  if (first == 0xC2 && (byte(1) == 0x85 || byte(1) == 0xA0)) return 2;
  const unsigned wide = first << 16 | byte(1) << 8 | byte(2);
  const bool general_punctuation = (wide >= 0xE28080 && wide <= 0xE2808A) || wide == 0xE280A8 ||
                                   wide == 0xE280A9 || wide == 0xE280AF || wide == 0xE2819F;
  if (general_punctuation || wide == 0xE19A80 || wide == 0xE38080) return 3;
  return 0;
}

// Offset of the first byte that is not part of well-formed UTF-8, or npos.
size_t find_invalid_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    size_t length = 1;
    uint32_t code = byte;
    if (byte >= 0xF0 && byte <= 0xF4)
      length = 4, code = byte & 0x07;
    else if (byte >= 0xE0 && byte < 0xF0)
      length = 3, code = byte & 0x0F;
    else if (byte >= 0xC2 && byte < 0xE0)
      length = 2, code = byte & 0x1F;
    else if (byte >= 0x80)
      return i;
    if (i + length > text.size()) return i;
    for (size_t k = 1; k < length; ++k) {
      const auto next = static_cast<unsigned char>(text[i + k]);
      if ((next & 0xC0) != 0x80) return i;
      code = code << 6 | (next & 0x3F);
    }
    const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
    if (overlong || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return i;
    i += length;
  }
  return std::string_view::npos;
}

// Decimal numbers as the language spells them: an optional sign, then what from_chars takes, all of it.
std::optional<Literal> number_of(std::string_view text) {
  std::string_view digits = text;
  if (digits.starts_with('+')) digits.remove_prefix(1);
  if (digits.empty() || digits.starts_with('+') || (text.starts_with('+') && digits.starts_with('-')))
    return {};
  const char* end = digits.data() + digits.size();
  int64_t integer = 0;
  if (const auto [stop, error] = std::from_chars(digits.data(), end, integer);
      error == std::errc{} && stop == end)
    return integer;
  const char lead = digits[0] == '-' && digits.size() > 1 ? digits[1] : digits[0];
  if (lead != '.' && (lead < '0' || lead > '9')) return {};  // no "inf", no "nan"
  double real = 0;
  const auto [stop, error] = std::from_chars(digits.data(), end, real);
  if (stop != end || error == std::errc::invalid_argument) return {};
  // Out of range is infinity, which is no literal, or a number that rounds to zero.
  if (error == std::errc::result_out_of_range) real = std::strtod(std::string(digits).c_str(), nullptr);
  if (!std::isfinite(real)) return {};
  return real;
}

std::optional<Literal> literal_of(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  const char c = text[0];
  if ((c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.') return number_of(text);
  return {};
}

class Reader {
 public:
  Reader(const Source& source, SymbolTable& symbols)
      : source_(source), text_(source.text), symbols_(symbols) {}

  Sexps read() {
    check_text();
    for (skip_blanks(); at_ < text_.size(); skip_blanks()) read_token();
    if (!open_.empty()) {
      const Span& span = out_.nodes[open_.back()].span;
      fail_at({&source_, span.begin, span.begin + 1},
              "this '(' is never closed: the file ends inside the list");
    }
    return std::move(out_);
  }

 private:
  void check_text() const {
    if (text_.size() >= std::numeric_limits<uint32_t>::max())
      throw FormatError(
          fmt::format("[egg] {} has {} bytes; programs are limited to 4 GiB", source_.name, text_.size()));
    if (const size_t bad = find_invalid_utf8(text_); bad != std::string_view::npos)
      fail_at({&source_, static_cast<uint32_t>(bad), static_cast<uint32_t>(bad) + 1},
              "byte 0x{:02x} is not UTF-8 text: programs are written in UTF-8",
              static_cast<unsigned char>(text_[bad]));
  }

  void skip_blanks() {
    while (at_ < text_.size()) {
      if (text_[at_] == ';') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (const size_t blank = white_space_at(text_, at_)) {
        at_ += blank;
      } else {
        return;
      }
    }
  }

  [[nodiscard]] Span span_from(size_t begin) const {
    return {&source_, static_cast<uint32_t>(begin), static_cast<uint32_t>(at_)};
  }

  void read_token() {
    const size_t begin = at_;
    switch (text_[at_]) {
      case '(': {
        ++at_;
        open_.push_back(out_.nodes.size());
        out_.nodes.push_back({.kind = SexpNode::Kind::List, .atom = {}, .span = span_from(begin)});
        return;
      }
      case ')': {
        ++at_;
        if (open_.empty()) fail_at(span_from(begin), "this ')' closes nothing");
        SexpNode& list = out_.nodes[open_.back()];
        list.span.end = static_cast<uint32_t>(at_);
        list.end = static_cast<uint32_t>(out_.nodes.size());
        open_.pop_back();
        return;
      }
      case '"': {
        std::string value = read_string(begin);
        add_literal(std::move(value), span_from(begin));
        return;
      }
      default:
        read_word(begin);
    }
  }

  void read_word(size_t begin) {
    while (at_ < text_.size() && text_[at_] != ';' && text_[at_] != '(' && text_[at_] != ')' &&
           white_space_at(text_, at_) == 0)
      ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (std::optional<Literal> literal = literal_of(word))
      return add_literal(std::move(*literal), span_from(begin));
    const auto index = static_cast<uint32_t>(out_.nodes.size());
    out_.nodes.push_back({.kind = SexpNode::Kind::Atom,
                          .end = index + 1,
                          .atom = symbols_.intern(word),
                          .span = span_from(begin)});
  }

  std::string read_string(size_t begin) {
    std::string value;
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] != '\\') {
        value += text_[at_];
        continue;
      }
      const size_t escape = at_++;
      switch (at_ < text_.size() ? text_[at_] : '\0') {
        case 'n':
          value += '\n';
          break;
        case 't':
          value += '\t';
          break;
        case '\\':
          value += '\\';
          break;
        case '"':
          value += '"';
          break;
        default:
          if (at_ >= text_.size()) break;
          fail_at({&source_, static_cast<uint32_t>(escape), static_cast<uint32_t>(at_ + 1)},
                  "unknown escape in a string; the language knows \\n, \\t, \\\\ and \\\"");
      }
    }
    if (at_ >= text_.size()) {
      at_ = begin + 1;
      fail_at(span_from(begin), "this string has no closing quote");
    }
    ++at_;
    return value;
  }

  void add_literal(Literal literal, Span span) {
    const auto index = static_cast<uint32_t>(out_.nodes.size());
    out_.nodes.push_back({.kind = SexpNode::Kind::Constant,
                          .end = index + 1,
                          .literal = static_cast<uint32_t>(out_.literals.size()),
                          .atom = {},
                          .span = span});
    out_.literals.push_back(std::move(literal));
  }

  const Source& source_;
  std::string_view text_;
  SymbolTable& symbols_;
  size_t at_ = 0;
  std::vector<size_t> open_;
  Sexps out_;
};

std::string float_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  // Shortest digits that read back, never an exponent: up to 309 digits before or 324 behind the point.
  char buffer[512];
  const auto [stop, error] = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed);
  std::string text(buffer, stop);
  if (std::abs(value) >= 0x1p53) {  // fixed digits are exact there: those after the shortest become zeros
    const auto [last, failed] =
        std::to_chars(buffer, buffer + sizeof buffer, std::abs(value), std::chars_format::scientific);
    const std::string_view shortest(buffer, last);
    const size_t digits = shortest.find('e') - (shortest.find('.') == std::string_view::npos ? 0 : 1);
    const size_t sign = value < 0 ? 1 : 0;
    std::string kept(1, shortest[0]);
    if (digits > 1) kept += shortest.substr(2, digits - 1);
    text.replace(sign, text.size() - sign, kept + std::string(text.size() - sign - digits, '0'));
  }
  int64_t integer = 0;
  const auto [end, parse] = std::from_chars(text.data(), text.data() + text.size(), integer);
  // Only what would read back as an i64 needs the point.
  if (parse == std::errc{} && end == text.data() + text.size()) text += ".0";
  return text;
}

std::string string_text(const std::string& value) {
  std::string text = "\"";
  for (const char c : value) {
    if (c == '\\' || c == '"') text += '\\';
    text += c;
  }
  return text + '"';
}

}  // namespace

std::string to_text(const Literal& literal) {
  struct Visitor {
    std::string operator()(std::monostate) const { return "()"; }
    std::string operator()(int64_t value) const { return std::to_string(value); }
    std::string operator()(double value) const { return float_text(value); }
    std::string operator()(const std::string& value) const { return string_text(value); }
    std::string operator()(bool value) const { return value ? "true" : "false"; }
  };
  return std::visit(Visitor{}, literal);
}

Sexps read_sexps(const Source& source, SymbolTable& symbols) { return Reader(source, symbols).read(); }

bool is_incomplete(const std::string& text) {
  int64_t depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ';') {
      i = text.find('\n', i);
      if (i == std::string::npos) break;
    } else if (text[i] == '"' &&
               (i == 0 || white_space_at(text, i - 1) || text[i - 1] == '(' || text[i - 1] == ')')) {
      for (++i; i < text.size() && text[i] != '"'; ++i)
        if (text[i] == '\\') ++i;
      if (i >= text.size()) return true;
    } else if (text[i] == '(') {
      ++depth;
    } else if (text[i] == ')') {
      --depth;
    }
  }
  return depth > 0;
}

}  // namespace luminal::egraph::language
