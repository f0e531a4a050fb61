// Primitives on i64, f64, String, bool, and those on any sort.
#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "egraph/core/state.h"
#include "egraph/language/define.h"

namespace luminal::egraph::language {
namespace {

std::optional<int64_t> divide(int64_t a, int64_t b) {
  if (b == 0 || (a == std::numeric_limits<int64_t>::min() && b == -1)) return {};
  return a / b;
}

std::optional<int64_t> remainder(int64_t a, int64_t b) {
  if (b == 0 || (a == std::numeric_limits<int64_t>::min() && b == -1)) return {};
  return a % b;
}

template <bool (*Overflows)(int64_t, int64_t, int64_t*)>
std::optional<int64_t> checked(int64_t a, int64_t b) {
  int64_t result = 0;
  if (Overflows(a, b, &result)) return {};
  return result;
}
bool add_overflows(int64_t a, int64_t b, int64_t* out) { return __builtin_add_overflow(a, b, out); }
bool subtract_overflows(int64_t a, int64_t b, int64_t* out) { return __builtin_sub_overflow(a, b, out); }
bool multiply_overflows(int64_t a, int64_t b, int64_t* out) { return __builtin_mul_overflow(a, b, out); }

int64_t saturating_integer(double x) {
  if (std::isnan(x)) return 0;
  if (x >= 9223372036854775808.0) return std::numeric_limits<int64_t>::max();
  if (x < -9223372036854775808.0) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(x);
}

// Shortest digits that read back; an exponent where the number is very large or small, always a point.
std::string debug_text(double x) {
  if (std::isnan(x)) return "NaN";
  if (std::isinf(x)) return x > 0 ? "inf" : "-inf";
  const double magnitude = std::fabs(x);
  char buffer[512];
  if (magnitude != 0 && (magnitude < 1e-4 || magnitude >= 1e16)) {
    const auto [stop, error] =
        std::to_chars(buffer, buffer + sizeof buffer, x, std::chars_format::scientific);
    std::string text(buffer, stop);
    // "1e+20" and "1e-05" are written 1e20 and 1e-5.
    const size_t e = text.find('e');
    const bool negative = text[e + 1] == '-';
    size_t digits = e + 2;
    while (digits + 1 < text.size() && text[digits] == '0') ++digits;
    return text.substr(0, e + 1) + (negative ? "-" : "") + text.substr(digits);
  }
  const auto [stop, error] = std::to_chars(buffer, buffer + sizeof buffer, x, std::chars_format::fixed);
  std::string text(buffer, stop);
  return text.find('.') == std::string::npos ? text + ".0" : text;
}

/// As text.find(part, from), in a time that grows with the text alone: std::string's takes the product of
/// both lengths where they nearly match everywhere.
size_t find_part(std::string_view text, std::string_view part, size_t from) {
  const void* hit = memmem(text.data() + from, text.size() - from, part.data(), part.size());
  if (hit == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(hit) - text.data());
}

int64_t count_matches(const Library& library, const std::string& text, const std::string& part) {
  int64_t count = 0;
  if (part.empty()) {
    for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    return count + 1;
  }
  for (size_t i = find_part(text, part, 0); i != std::string::npos;
       i = find_part(text, part, i + part.size())) {
    library.poll();
    ++count;
  }
  return count;
}

std::string replace_all(const Library& library, const std::string& text, const std::string& from,
                        const std::string& to) {
  const auto hits = static_cast<size_t>(count_matches(library, text, from));
  const size_t size = text.size() - hits * from.size() + hits * to.size();
  library.check_text("replace", size);
  std::string out;
  out.reserve(size);
  if (from.empty()) {  // between all code points, as the empty text is found there
    for (size_t i = 0; i < text.size(); ++i) {
      library.poll();
      if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) out += to;
      out += text[i];
    }
    return out + to;
  }
  for (size_t i = 0;;) {
    library.poll();
    const size_t hit = find_part(text, from, i);
    out.append(text, i, hit - i);
    if (hit == std::string::npos) return out;
    out += to;
    i = hit + from.size();
  }
}

// NaN is one value, above all others: floats are totally ordered in the language.
int order(double a, double b) {
  if (std::isnan(a) || std::isnan(b))
    return static_cast<int>(std::isnan(a)) - static_cast<int>(std::isnan(b));
  return a < b ? -1 : a > b ? 1 : 0;
}

}  // namespace

void Library::install_generic(Scope& scope) {
  const auto generic = [&](std::string_view name, const SortInfo* output, Function call) {
    Overload overload;
    overload.name = symbol(name);
    overload.shape = Overload::Shape::AllEqual;
    overload.arity = 2;
    overload.output = output;
    add_overload(scope, std::move(overload), std::move(call));
  };
  generic("!=", unit, [](Args args) -> std::optional<Value> {
    if (args[0] == args[1]) return {};
    return kUnitValue;
  });
  generic("value-eq", unit, [](Args args) -> std::optional<Value> {
    if (args[0] != args[1]) return {};
    return kUnitValue;
  });
  // Rows of the named tables, or of all: for schedules that stop at a size. Globals count as rows too.
  Overload size;
  size.name = symbol("get-size!");
  size.shape = Overload::Shape::Variadic;
  size.inputs = {string};
  size.output = i64;
  add_overload(scope, std::move(size), [this](Args args) -> std::optional<Value> {
    uint64_t rows = 0;
    for (uint32_t i = 0; i < graph_.state().functions.size(); ++i) {
      const std::string& name = graph_.spec(FunctionId{i}).name;
      const auto is_it = [&](Value v) { return graph_.as_string(v) == name; };
      const bool counts = args.empty() ? name[0] != '@' : std::any_of(args.begin(), args.end(), is_it);
      if (counts) rows += graph_.row_count(FunctionId{i});
    }
    return graph_.i64(static_cast<int64_t>(rows));
  });
  generic("bool-!=", boolean,
          [](Args args) -> std::optional<Value> { return EGraph::boolean(args[0] != args[1]); });
}

void Library::install_i64(Scope& scope) {
  const auto def = [&](std::string_view name, auto function) { define(*this, scope, name, function); };
  def("+", [](int64_t a, int64_t b) { return checked<add_overflows>(a, b); });
  def("-", [](int64_t a, int64_t b) { return checked<subtract_overflows>(a, b); });
  def("*", [](int64_t a, int64_t b) { return checked<multiply_overflows>(a, b); });
  def("/", [](int64_t a, int64_t b) { return divide(a, b); });
  def("%", [](int64_t a, int64_t b) { return remainder(a, b); });
  def("&", [](int64_t a, int64_t b) { return a & b; });
  def("|", [](int64_t a, int64_t b) { return a | b; });
  def("^", [](int64_t a, int64_t b) { return a ^ b; });
  def("<<", [](int64_t a, int64_t b) -> std::optional<int64_t> {
    if (b < 0 || b > 63) return {};
    return static_cast<int64_t>(static_cast<uint64_t>(a) << b);
  });
  def(">>", [](int64_t a, int64_t b) -> std::optional<int64_t> {
    if (b < 0 || b > 63) return {};
    return a >> b;
  });
  def("not-i64", [](int64_t a) { return ~a; });
  def("log2", [](int64_t a) -> std::optional<int64_t> {
    if (a <= 0) return {};
    return std::bit_width(static_cast<uint64_t>(a)) - 1;
  });
  def("abs", [](int64_t a) -> std::optional<int64_t> {
    if (a == std::numeric_limits<int64_t>::min()) return {};
    return a < 0 ? -a : a;
  });
  def("<", [](int64_t a, int64_t b) { return when(a < b); });
  def(">", [](int64_t a, int64_t b) { return when(a > b); });
  def("<=", [](int64_t a, int64_t b) { return when(a <= b); });
  def(">=", [](int64_t a, int64_t b) { return when(a >= b); });
  def("bool-=", [](int64_t a, int64_t b) { return a == b; });
  def("bool-<", [](int64_t a, int64_t b) { return a < b; });
  def("bool->", [](int64_t a, int64_t b) { return a > b; });
  def("bool-<=", [](int64_t a, int64_t b) { return a <= b; });
  def("bool->=", [](int64_t a, int64_t b) { return a >= b; });
  def("min", [](int64_t a, int64_t b) { return std::min(a, b); });
  def("max", [](int64_t a, int64_t b) { return std::max(a, b); });
  def("to-string", [](int64_t a) { return std::to_string(a); });
  def("to-f64", [](int64_t a) { return static_cast<double>(a); });
}

void Library::install_f64(Scope& scope) {
  const auto def = [&](std::string_view name, auto function) { define(*this, scope, name, function); };
  def("+", [](double a, double b) { return a + b; });
  def("-", [](double a, double b) { return a - b; });
  def("*", [](double a, double b) { return a * b; });
  def("/", [](double a, double b) { return b != 0 ? std::optional<double>(a / b) : std::nullopt; });
  def("%", [](double a, double b) { return b != 0 ? std::optional<double>(std::fmod(a, b)) : std::nullopt; });
  def("^", [](double a, double b) { return std::pow(a, b); });
  def("neg", [](double a) { return -a; });
  def("abs", [](double a) { return std::fabs(a); });
  def("exp", [](double a) { return std::exp(a); });
  // NaN counts as above 0, as in the order of floats.
  def("log", [](double a) { return order(a, 0) > 0 ? std::optional<double>(std::log(a)) : std::nullopt; });
  def("sqrt", [](double a) { return order(a, 0) >= 0 ? std::optional<double>(std::sqrt(a)) : std::nullopt; });
  def("<", [](double a, double b) { return when(order(a, b) < 0); });
  def(">", [](double a, double b) { return when(order(a, b) > 0); });
  def("<=", [](double a, double b) { return when(order(a, b) <= 0); });
  def(">=", [](double a, double b) { return when(order(a, b) >= 0); });
  def("min", [](double a, double b) { return order(a, b) <= 0 ? a : b; });
  def("max", [](double a, double b) { return order(a, b) > 0 ? a : b; });
  def("to-i64", [](double a) { return saturating_integer(a); });
  def("to-string", [](double a) { return debug_text(a); });
}

void Library::install_text_and_bool(Scope& scope) {
  const auto def = [&](std::string_view name, auto function) { define(*this, scope, name, function); };
  const auto variadic = [&](std::string_view name, const SortInfo* sort, Function call) {
    Overload overload;
    overload.name = symbol(name);
    overload.shape = Overload::Shape::Variadic;
    overload.inputs = {sort};
    overload.output = sort;
    add_overload(scope, std::move(overload), std::move(call));
  };
  variadic("+", string, [this](Args args) -> std::optional<Value> {
    size_t size = 0;
    for (const Value v : args) size += graph_.as_string(v).size();
    check_text("+", size);
    std::string text;
    text.reserve(size);
    for (const Value v : args) text += graph_.as_string(v);
    return graph_.string(text);
  });
  def("replace", [this](const std::string& text, const std::string& from, const std::string& to) {
    return replace_all(*this, text, from, to);
  });
  def("count-matches",
      [this](const std::string& text, const std::string& part) { return count_matches(*this, text, part); });
  def("not", [](bool a) { return !a; });
  def("and", [](bool a, bool b) { return a && b; });
  variadic("or", boolean, [](Args args) -> std::optional<Value> {
    return EGraph::boolean(std::any_of(args.begin(), args.end(), [](Value v) { return EGraph::as_bool(v); }));
  });
  def("xor", [](bool a, bool b) { return a != b; });
  def("=>", [](bool a, bool b) { return !a || b; });
  def("guard", [](bool a) { return when(a); });
}

}  // namespace luminal::egraph::language
