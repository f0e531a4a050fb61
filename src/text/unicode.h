#pragma once
#include <cstdint>
#include <string>
#include <string_view>

/// UTF-8, character classes and normal forms. Characters of text that is handed on are valid: `check_utf8` first.
namespace luminal::text {

struct Character {
  char32_t code = 0;
  size_t length = 0;  ///< in bytes
};

/// Errors: FormatError with the offset of the first byte that is not UTF-8, led by "[`what`]".
void check_utf8(std::string_view text, std::string_view what);
[[nodiscard]] Character character_at(std::string_view text, size_t at);
[[nodiscard]] std::string utf8(char32_t code);
[[nodiscard]] size_t count_characters(std::string_view text);

/// White_Space of Unicode.
[[nodiscard]] bool is_space(char32_t code);
/// General categories: M, Mn, C of what is assigned, and (word characters) L, M, N and Pc.
[[nodiscard]] bool is_mark(char32_t code);
[[nodiscard]] bool is_nonspacing_mark(char32_t code);
[[nodiscard]] bool is_other(char32_t code);
[[nodiscard]] bool is_word_character(char32_t code);

enum class NormalForm { Nfc, Nfd, Nfkc, Nfkd };
[[nodiscard]] std::string normal_form(std::string_view text, NormalForm form);
[[nodiscard]] std::string lower_case(std::string_view text);
[[nodiscard]] std::string upper_case(std::string_view text);

/// Bytes that arrive in pieces, as text: whole characters are handed on, each longest piece that is not UTF-8
/// becomes U+FFFD (Unicode 15, section 3.9, "maximal subparts").
class Utf8Repair {
 public:
  void push(std::string_view bytes, std::string& out);
  void finish(std::string& out);

 private:
  void begin(uint8_t byte, std::string& out);
  std::string pending_;
  int missing_ = 0;
  uint8_t lower_ = 0x80, upper_ = 0xBF;
};

/// GPT-2's printable character for each byte, and back; -1 for other characters.
[[nodiscard]] const std::string& character_of_byte(uint8_t byte);
[[nodiscard]] int byte_of_character(char32_t code);

}  // namespace luminal::text
