#include "text/unicode.h"

#include <utf8proc.h>

#include <array>
#include <cstdlib>
#include <map>
#include <memory>

#include "base/fail.h"

namespace luminal::text {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

const uint8_t* bytes_of(std::string_view text) { return reinterpret_cast<const uint8_t*>(text.data()); }

/// Which character stands for which byte: itself if it prints, otherwise one from U+0100 on.
struct ByteCharacters {
  std::array<std::string, 256> characters;
  std::map<char32_t, int> bytes;
  ByteCharacters() {
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool prints = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
      const char32_t code = prints ? static_cast<char32_t>(byte) : next++;
      characters[static_cast<size_t>(byte)] = utf8(code);
      bytes[code] = byte;
    }
  }
};

const ByteCharacters& byte_characters() {
  static const ByteCharacters table;
  return table;
}

}  // namespace

void check_utf8(std::string_view text, std::string_view what) {
  for (size_t at = 0; at < text.size();) {
    if (static_cast<uint8_t>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    int32_t code = 0;
    const auto length =
        utf8proc_iterate(bytes_of(text) + at, static_cast<utf8proc_ssize_t>(text.size() - at), &code);
    if (length <= 0)
      fail<FormatError>("[{}] byte {:#04x} at offset {} is not UTF-8; convert the text first", what,
                        static_cast<uint8_t>(text[at]), at);
    at += static_cast<size_t>(length);
  }
}

Character character_at(std::string_view text, size_t at) {
  const auto first = static_cast<uint8_t>(text[at]);
  if (first < 0x80) return {first, 1};
  int32_t code = 0;
  const auto length =
      utf8proc_iterate(bytes_of(text) + at, static_cast<utf8proc_ssize_t>(text.size() - at), &code);
  LUMINAL_CHECK(length > 0, "byte {} of {}", at, text.size());
  return {static_cast<char32_t>(code), static_cast<size_t>(length)};
}

std::string utf8(char32_t code) {
  std::array<uint8_t, 4> bytes{};
  const auto length = utf8proc_encode_char(static_cast<int32_t>(code), bytes.data());
  return {reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(length)};
}

size_t count_characters(std::string_view text) {
  size_t count = 0;
  for (const char c : text) count += (static_cast<uint8_t>(c) & 0xC0) != 0x80;
  return count;
}

bool is_space(char32_t code) {
  return (code >= 9 && code <= 13) || code == 32 || code == 0x85 || code == 0xA0 || code == 0x1680 ||
         (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F ||
         code == 0x205F || code == 0x3000;
}

bool is_mark(char32_t code) {
  const auto category = utf8proc_category(static_cast<int32_t>(code));
  return category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME;
}

bool is_nonspacing_mark(char32_t code) {
  return utf8proc_category(static_cast<int32_t>(code)) == UTF8PROC_CATEGORY_MN;
}

bool is_other(char32_t code) {
  switch (utf8proc_category(static_cast<int32_t>(code))) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CS:
      return true;
    default:
      return false;
  }
}

bool is_word_character(char32_t code) {
  const auto category = utf8proc_category(static_cast<int32_t>(code));
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL) ||
         category == UTF8PROC_CATEGORY_PC;
}

std::string normal_form(std::string_view text, NormalForm form) {
  int options = UTF8PROC_STABLE;
  options |= form == NormalForm::Nfc || form == NormalForm::Nfkc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == NormalForm::Nfkc || form == NormalForm::Nfkd) options |= UTF8PROC_COMPAT;
  uint8_t* mapped = nullptr;
  const auto length = utf8proc_map(bytes_of(text), static_cast<utf8proc_ssize_t>(text.size()), &mapped,
                                   static_cast<utf8proc_option_t>(options));
  const std::unique_ptr<uint8_t, decltype(&std::free)> owner(mapped, &std::free);
  if (length < 0)
    fail<FormatError>("[normalizer] the text cannot be normalised: {}", utf8proc_errmsg(length));
  return {reinterpret_cast<const char*>(mapped), static_cast<size_t>(length)};
}

std::string lower_case(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const auto [code, length] = character_at(text, at);
    // The only character whose lower case is two.
    result +=
        code == 0x130 ? "i\u0307" : utf8(static_cast<char32_t>(utf8proc_tolower(static_cast<int32_t>(code))));
    at += length;
  }
  return result;
}

std::string upper_case(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const auto [code, length] = character_at(text, at);
    result += code == 0xDF ? "SS" : utf8(static_cast<char32_t>(utf8proc_toupper(static_cast<int32_t>(code))));
    at += length;
  }
  return result;
}

void Utf8Repair::push(std::string_view bytes, std::string& out) {
  for (const char c : bytes) {
    const auto byte = static_cast<uint8_t>(c);
    if (missing_ == 0) {
      begin(byte, out);
    } else if (byte >= lower_ && byte <= upper_) {
      pending_.push_back(c);
      lower_ = 0x80, upper_ = 0xBF;
      if (--missing_ == 0) out += pending_, pending_.clear();
    } else {
      finish(out);
      begin(byte, out);
    }
  }
}

void Utf8Repair::begin(uint8_t byte, std::string& out) {
  lower_ = byte == 0xE0 ? 0xA0 : byte == 0xF0 ? 0x90 : 0x80;
  upper_ = byte == 0xED ? 0x9F : byte == 0xF4 ? 0x8F : 0xBF;
  if (byte < 0x80)
    out.push_back(static_cast<char>(byte));
  else if (byte < 0xC2 || byte > 0xF4)
    out += kReplacement;
  else
    missing_ = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3, pending_.push_back(static_cast<char>(byte));
}

void Utf8Repair::finish(std::string& out) {
  if (missing_ != 0) out += kReplacement;
  missing_ = 0;
  pending_.clear();
}

const std::string& character_of_byte(uint8_t byte) { return byte_characters().characters[byte]; }

int byte_of_character(char32_t code) {
  const auto found = byte_characters().bytes.find(code);
  return found == byte_characters().bytes.end() ? -1 : found->second;
}

}  // namespace luminal::text
