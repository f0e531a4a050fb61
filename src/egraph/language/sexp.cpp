#include "egraph/language/sexp.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>

#include "egraph/core/sexpr.h"

namespace luminal::egraph::language {
namespace {

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

Sexps read_sexps(const Source& source, SymbolTable& symbols, const std::function<void()>& poll) {
  if (source.text.size() >= std::numeric_limits<uint32_t>::max())
    throw FormatError(
        fmt::format("[egg] {} has {} bytes; programs are limited to 4 GiB", source.name, source.text.size()));
  const auto span = [&](size_t first, size_t last) {
    return Span{&source, static_cast<uint32_t>(first), static_cast<uint32_t>(last)};
  };
  Sexps out;
  try {
    for (SexprNode& read : read_sexprs(source.text, poll)) {
      if (poll) poll();
      SexpNode node{.kind = SexpNode::Kind::List,
                    .end = static_cast<uint32_t>(read.end),
                    .atom = {},
                    .span = span(read.first, read.last)};
      std::optional<Literal> literal;
      if (read.kind == SexprNode::Kind::String) literal = std::move(read.value);
      if (read.kind == SexprNode::Kind::Word) literal = literal_of(node.span.text());
      if (literal) {
        node.kind = SexpNode::Kind::Constant;
        node.literal = static_cast<uint32_t>(out.literals.size());
        out.literals.push_back(std::move(*literal));
      } else if (read.kind == SexprNode::Kind::Word) {
        node.kind = SexpNode::Kind::Atom;
        node.atom = symbols.intern(node.span.text());
      }
      out.nodes.push_back(node);
    }
  } catch (const SexprError& error) {
    fail_at(span(error.first, error.last), "{}", error.message);
  }
  return out;
}

bool is_incomplete(const std::string& text) {
  try {
    (void)read_sexprs(text);
    return false;
  } catch (const SexprError& error) {
    return error.incomplete;
  }
}

}  // namespace luminal::egraph::language
