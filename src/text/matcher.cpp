#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/matcher.h"

#include <pcre2.h>

#include <array>

#include "base/fail.h"
#include "text/unicode.h"

namespace luminal::text {
namespace {

constexpr uint32_t kMostSteps = 50'000'000;

/// PCRE2's \s lacks U+0085 and its \w lacks marks and connectors.
std::string with_unicode_classes(std::string_view expression) {
  constexpr std::string_view kSpace = "\\s\\x{85}";
  constexpr std::string_view kWord = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}";
  std::string result;
  bool in_class = false;
  for (size_t i = 0; i < expression.size(); ++i) {
    const char c = expression[i];
    if (c == '\\' && i + 1 < expression.size()) {
      const char kind = expression[++i];
      const std::string_view set = kind == 's' || kind == 'S' ? kSpace : kWord;
      if (kind == 's' || kind == 'w')
        result += in_class ? std::string(set) : fmt::format("[{}]", set);
      else if ((kind == 'S' || kind == 'W') && !in_class)
        result += fmt::format("[^{}]", set);
      else
        result += {c, kind};
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    result += c;
  }
  return result;
}

std::string pcre2_message(int error) {
  std::array<unsigned char, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

Matcher::Matcher(const Pattern& pattern) : pattern_(pattern) {
  check_utf8(pattern.text, "tokenizer");
  if (pattern.text.empty()) fail<FormatError>("[tokenizer] an empty pattern matches nothing");
  if (!pattern.regex) return;
  const std::string text = with_unicode_classes(pattern.text);
  int error = 0;
  size_t at = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                   PCRE2_UTF | PCRE2_UCP, &error, &at, nullptr);
  if (code == nullptr)
    fail<FormatError>("[tokenizer] the regular expression {} does not compile: {} at offset {}", text,
                      pcre2_message(error), at);
  code_ = std::shared_ptr<void>(code, [](void* p) { pcre2_code_free(static_cast<pcre2_code*>(p)); });
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // without it, pcre2_match interprets
}

std::vector<Span> Matcher::matches(std::string_view text) const {
  if (pattern_.regex) return regex_matches(text);
  std::vector<Span> found;
  for (size_t at = 0; (at = text.find(pattern_.text, at)) != std::string_view::npos; at = found.back().end)
    found.push_back({at, at + pattern_.text.size()});
  return found;
}

std::vector<Span> Matcher::regex_matches(std::string_view text) const {
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> data(
      pcre2_match_data_create_from_pattern(code, nullptr), &pcre2_match_data_free);
  const std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)> context(
      pcre2_match_context_create(nullptr), &pcre2_match_context_free);
  if (!data || !context) throw std::bad_alloc();
  pcre2_set_match_limit(context.get(), kMostSteps);
  std::vector<Span> found;
  for (size_t at = 0; at < text.size();) {
    const auto match = [&](uint32_t options) {
      return pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                         PCRE2_NO_UTF_CHECK | options, data.get(), context.get());
    };
    int result = match(0);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = match(PCRE2_NO_JIT);
    if (result == PCRE2_ERROR_NOMATCH) break;
    if (result < 0)
      fail<FormatError>("[tokenizer] the regular expression {} gives up at offset {} of {}: {}",
                        pattern_.text, at, text.size(), pcre2_message(result));
    const size_t* ends = pcre2_get_ovector_pointer(data.get());
    if (ends[1] > ends[0]) found.push_back({ends[0], ends[1]});
    at = ends[1] > at ? ends[1] : at + character_at(text, at).length;
  }
  return found;
}

std::string Matcher::replace(std::string_view text, std::string_view content) const {
  std::string result;
  size_t at = 0;
  for (const Span& span : matches(text)) {
    result += text.substr(at, span.begin - at);
    result += content;
    at = span.end;
  }
  result += text.substr(at);
  return result;
}

}  // namespace luminal::text
