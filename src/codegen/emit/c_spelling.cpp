#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <cmath>

#include "codegen/emit/c_text.h"
#include "scalar/typing.h"

namespace luminal::codegen::c_text {

Word integer_word(int bytes, bool is_signed) {
  const int log2 = std::countr_zero(static_cast<unsigned>(bytes));
  return static_cast<Word>(2 * log2 + (is_signed ? 0 : 1));
}
Word memory_word(Dtype dtype) {
  if (is_real(dtype)) return dtype == Dtype::F32 ? Word::F32 : Word::F64;
  if (is_half(dtype)) return Word::U16;
  return integer_word(static_cast<int>(element_bytes(dtype)), is_signed(dtype));
}
Word value_word(Dtype dtype) { return dtype == Dtype::Bool ? Word::I8 : memory_word(dtype); }
int word_bytes(Word word) {
  return word == Word::F32 ? 4 : word == Word::F64 ? 8 : 1 << (static_cast<int>(word) / 2);
}
bool is_float_word(Word word) { return word >= Word::F32; }
bool is_signed_word(Word word) { return is_float_word(word) || static_cast<int>(word) % 2 == 0; }

std::string integer_text(int64_t value) {
  if (value == INT64_MIN) return fmt::format("({} - 1)", value + 1);  // C has no literal for it
  return value < 0 ? fmt::format("({})", value) : fmt::format("{}", value);
}

int Spelling::width(int lanes) const {
  const int most = 1 << std::countr_zero(static_cast<unsigned>(lanes));  // a power of two that divides them
  return std::min(most, d_.longest_vector);
}

std::string Spelling::type(Word word, int width) const {
  const std::string_view scalar = d_.types.at(static_cast<size_t>(word));
  return width == 1 ? std::string(scalar) : fmt::format(fmt::runtime(d_.vector_type), scalar, width);
}
std::string Spelling::mask_type(Word compared, int width) const {
  return type(width == 1 ? Word::I32 : integer_word(word_bytes(compared), true), width);
}

std::string Spelling::spread(Word word, int width, const std::string& scalar) const {
  return width == 1 ? scalar : fmt::format(fmt::runtime(d_.vector_value), type(word, width), scalar);
}
std::string Spelling::from_lanes(Word word, const std::vector<std::string>& lanes) const {
  return spread(word, static_cast<int>(lanes.size()), fmt::format("{}", fmt::join(lanes, ", ")));
}
std::string Spelling::lane(const std::string& vector, int width, int number) const {
  return width == 1 ? vector : fmt::format(fmt::runtime(d_.lane), vector, number);
}

std::string Spelling::float_bits(Word word, uint64_t bits) const {
  const Word integer = integer_word(word_bytes(word), false);
  return this->bits(integer, word, 1, fmt::format("{:#x}u{}", bits, word == Word::F64 ? "l" : ""));
}

std::string Spelling::literal(Dtype dtype, uint64_t bits) const {
  if (dtype == Dtype::Bool) return bits != 0 ? "-1" : "0";
  const Word word = value_word(dtype);
  if (is_float_word(word)) {
    const double value = word == Word::F32
                             ? static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits)))
                             : std::bit_cast<double>(bits);
    if (value != 0 && !std::isnormal(value)) return float_bits(word, bits);
    std::string text =
        word == Word::F32 ? fmt::format("{}", static_cast<float>(value)) : fmt::format("{}", value);
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    if (word == Word::F32) text += "f";
    return text[0] == '-' ? "(" + text + ")" : text;
  }
  const int unused = 64 - 8 * word_bytes(word);
  const auto moved = static_cast<int64_t>(bits << unused);
  return integer_text(is_signed_word(word) ? moved >> unused
                                           : static_cast<int64_t>(static_cast<uint64_t>(moved) >> unused));
}

std::string Spelling::convert(Word to, int width, const std::string& a) const {
  return width == 1 ? fmt::format("(({}){})", type(to, 1), a)
                    : fmt::format(fmt::runtime(d_.convert), type(to, width), a);
}
std::string Spelling::bits(Word from, Word to, int width, const std::string& a) const {
  if (from == to) return a;
  if (width == 1 && !is_float_word(from) && !is_float_word(to)) return convert(to, 1, a);
  return fmt::format(fmt::runtime(d_.bits), type(to, width), a);
}

std::string Spelling::choose(Word word, int width, int mask_bytes, const std::string& mask,
                             const std::string& a, const std::string& b) const {
  if (width == 1) return fmt::format("({} ? {} : {})", mask, a, b);
  const int bytes = word_bytes(word);
  return fmt::format(fmt::runtime(d_.select),
                     mask_bytes == bytes ? mask : convert(integer_word(bytes, true), width, mask), a, b);
}

}  // namespace luminal::codegen::c_text
