#include "base/fail.h"
#include "text/steps.h"
#include "text/unicode.h"

namespace luminal::text {
namespace {

using NormalStep = NormalizerStep;

/// Keeps the characters for which `keep(code, out)` says so; it may append to the result itself.
template <class Keep>
std::string filtered(std::string_view text, const Keep& keep) {
  std::string result;
  result.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const auto [code, length] = character_at(text, at);
    if (keep(code, result)) result += text.substr(at, length);
    at += length;
  }
  return result;
}

std::string without(std::string_view text, bool (*is_accent)(char32_t)) {
  return filtered(text, [is_accent](char32_t code, std::string&) { return !is_accent(code); });
}

bool is_ideograph(char32_t code) {
  return (code >= 0x4E00 && code <= 0x9FFF) || (code >= 0x3400 && code <= 0x4DBF) ||
         (code >= 0x20000 && code <= 0x2A6DF) || (code >= 0x2A700 && code <= 0x2B73F) ||
         (code >= 0x2B740 && code <= 0x2B81F) || (code >= 0x2B920 && code <= 0x2CEAF) ||
         (code >= 0xF900 && code <= 0xFAFF) || (code >= 0x2F800 && code <= 0x2FA1F);
}

std::string bert(std::string text, const NormalStep& step) {
  if (step.clean)
    text = filtered(text, [](char32_t code, std::string& out) {
      const bool blank = code == '\t' || code == '\n' || code == '\r';
      if (code == 0 || code == 0xFFFD || (!blank && is_other(code))) return false;
      if (is_space(code)) out += ' ';
      return !is_space(code);
    });
  if (step.chinese)
    text = filtered(text, [](char32_t code, std::string& out) {
      if (is_ideograph(code)) out += ' ' + utf8(code) + ' ';
      return !is_ideograph(code);
    });
  if (step.accents) text = without(normal_form(text, NormalForm::Nfd), is_nonspacing_mark);
  return step.lowercase ? lower_case(text) : text;
}

/// The rules of neural machine translation in SentencePiece, without its compatibility forms.
std::string nmt(std::string_view text) {
  return filtered(text, [](char32_t code, std::string& out) {
    if ((code >= 1 && code <= 8) || code == 0xB || (code >= 0xE && code <= 0x1F) || code == 0x7F ||
        code == 0x8F || code == 0x9F)
      return false;
    const bool blank = code == 9 || code == 10 || code == 12 || code == 13 || code == 0x1680 ||
                       (code >= 0x200B && code <= 0x200F) || code == 0x2028 || code == 0x2029 ||
                       code == 0x2581 || code == 0xFEFF || code == 0xFFFD;
    if (blank) out += ' ';
    return !blank;
  });
}

std::string stripped_text(std::string_view text, bool left, bool right) {
  size_t begin = 0, end = 0;
  while (left && begin < text.size() && is_space(character_at(text, begin).code))
    begin += character_at(text, begin).length;
  for (size_t at = begin; at < text.size();) {
    const auto [code, length] = character_at(text, at);
    at += length;
    if (!right || !is_space(code)) end = at;
  }
  return std::string(text.substr(begin, end > begin ? end - begin : 0));
}

std::string byte_level_text(std::string_view text) {
  std::string result;
  result.reserve(text.size() * 2);
  for (const char c : text) result += character_of_byte(static_cast<uint8_t>(c));
  return result;
}

}  // namespace

Normalizer::Normalizer(const std::vector<NormalStep>& steps) : steps_(steps) {
  for (const NormalStep& step : steps_) {
    if (step.kind == NormalStep::Kind::Replace)
      matchers_.emplace_back(step.pattern);
    else
      matchers_.emplace_back();
  }
}

std::string Normalizer::operator()(std::string_view original) const {
  std::string text(original);
  for (size_t i = 0; i < steps_.size(); ++i) {
    const NormalStep& step = steps_[i];
    switch (step.kind) {
      case NormalStep::Kind::Nfc:
        text = normal_form(text, NormalForm::Nfc);
        break;
      case NormalStep::Kind::Nfd:
        text = normal_form(text, NormalForm::Nfd);
        break;
      case NormalStep::Kind::Nfkc:
        text = normal_form(text, NormalForm::Nfkc);
        break;
      case NormalStep::Kind::Nfkd:
        text = normal_form(text, NormalForm::Nfkd);
        break;
      case NormalStep::Kind::Lowercase:
        text = lower_case(text);
        break;
      case NormalStep::Kind::Strip:
        text = stripped_text(text, step.left, step.right);
        break;
      case NormalStep::Kind::StripAccents:
        text = without(text, is_mark);
        break;
      case NormalStep::Kind::Replace:
        text = matchers_[i]->replace(text, step.content);
        break;
      case NormalStep::Kind::Prepend:
        if (!text.empty()) text = step.content + text;
        break;
      case NormalStep::Kind::Bert:
        text = bert(std::move(text), step);
        break;
      case NormalStep::Kind::ByteLevel:
        text = byte_level_text(text);
        break;
      case NormalStep::Kind::Nmt:
        text = nmt(text);
        break;
    }
  }
  return text;
}

}  // namespace luminal::text
