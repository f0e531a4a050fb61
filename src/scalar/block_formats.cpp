#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <string>

#include "base/fail.h"
#include "luminal/block_format.h"
#include "scalar/block_codebooks.h"

namespace luminal {
namespace blocks {
namespace {

using BX = BlockExpression;
using Op = BlockExpression::Op;

BX block_node(Op op, const BX& a, const BX& b, bool is_float = false) {
  BlockExpression::Node node{op, 0, {}, a.node(), b.node()};
  node.has_position = a.node()->has_position || b.node()->has_position;
  node.has_bytes = a.node()->has_bytes || b.node()->has_bytes;
  node.is_float = is_float;
  return BX(std::make_shared<const BlockExpression::Node>(std::move(node)));
}
BX block_node(Op op, const BX& a, bool is_float = false) {
  BlockExpression::Node node{op, 0, {}, a.node(), nullptr};
  node.has_position = a.node()->has_position;
  node.has_bytes = a.node()->has_bytes || op == Op::Byte;
  node.is_float = is_float;
  return BX(std::make_shared<const BlockExpression::Node>(std::move(node)));
}

BX operator+(const BX& a, const BX& b) { return block_node(Op::Add, a, b); }
BX operator-(const BX& a, const BX& b) { return block_node(Op::Subtract, a, b); }
/// Of whole numbers, or of floats; a whole number beside a float becomes one.
BX operator*(const BX& a, const BX& b) {
  if (!a.node()->is_float && !b.node()->is_float) return block_node(Op::Multiply, a, b);
  const auto as_float = [](const BX& x) { return x.node()->is_float ? x : block_node(Op::ToFloat, x, true); };
  return block_node(Op::MultiplyFloats, as_float(a), as_float(b), true);
}
BX operator/(const BX& a, const BX& b) { return block_node(Op::Divide, a, b); }
BX operator%(const BX& a, const BX& b) { return block_node(Op::Modulo, a, b); }
BX operator&(const BX& a, const BX& b) { return block_node(Op::And, a, b); }
BX operator|(const BX& a, const BX& b) { return block_node(Op::Or, a, b); }
BX operator<<(const BX& a, const BX& b) { return block_node(Op::ShiftLeft, a, b); }
BX operator>>(const BX& a, const BX& b) { return block_node(Op::ShiftRight, a, b); }

BX position() {
  BlockExpression::Node node{Op::Position};
  node.has_position = true;
  return BX(std::make_shared<const BlockExpression::Node>(std::move(node)));
}
BX lookup(std::span<const int32_t> table, const BX& index) {
  BlockExpression::Node node = *block_node(Op::Table, index).node();
  node.table = table;
  return BX(std::make_shared<const BlockExpression::Node>(std::move(node)));
}

// --- Fields: numbers at byte offsets

BX u8(const BX& at) { return block_node(Op::Byte, at); }
BX i8(const BX& at) { return block_node(Op::SignedByte, u8(at)); }
BX u16(const BX& at) { return u8(at) | (u8(at + 1) << 8); }
BX f16_of(const BX& bits) { return block_node(Op::F16Bits, bits, true); }
BX f16(int at) { return f16_of(u16(at)); }
BX f32_constant(float value) { return block_node(Op::F32Bits, std::bit_cast<int32_t>(value), true); }

const BX i = position();

/// Fields of `bits` each, packed so that `run` consecutive values take the same bits of `run` consecutive bytes, the
/// next `run` values the next bits, and so on.
BX striped(int at, int run, int bits) {
  const int per_byte = 8 / bits;
  return (u8(at + i / (run * per_byte) * run + i % run) >> (i / run % per_byte * bits)) & ((1 << bits) - 1);
}
BX nibble(int at, int run = 16) { return striped(at, run, 4); }
/// Field number `n` of `bits` each, one after another.
BX packed(int at, const BX& n, int bits) {
  const int per_byte = 8 / bits;
  return (u8(at + n / per_byte) >> (n % per_byte * bits)) & ((1 << bits) - 1);
}
BX bit(int at, const BX& n) { return packed(at, n, 1); }

// --- Parts that several formats share

/// Scales of Q4_K and Q5_K: eight of 6 bits, then eight minima. Those of groups 4 to 7 have their low 4 bits in the
/// last four bytes and their upper ones on top of the first eight.
BX k_scale(bool minimum) {
  const BX group = i / 32, high = group / 4;
  const BX first = u8(4 + (minimum ? 4 : 0) + group % 4);
  const BX last = (u8(12 + group % 4) >> (minimum ? 4 : 0)) & 15;
  const BX small = first & 63, large = last | ((first >> 6) << 4);
  return small * (1 - high) + large * high;
}

constexpr std::array<int32_t, 16> kE2m1Doubled{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
constexpr std::array<int32_t, 16> kIq4Levels{-127, -104, -83, -65, -49, -35, -22, -10,
                                             1,    13,   25,  38,  53,  69,  89,  113};
constexpr std::array<int32_t, 5> kPowersOf3{1, 3, 9, 27, 81};
constexpr std::array<int32_t, 4> kIq2Levels{8, 25, 43, 0};
constexpr std::array<int32_t, 8> kIq3XxsLevels{4, 12, 20, 28, 36, 44, 52, 62};

/// Half of 2^(e - 127): the levels of MXFP4 are doubled. Below 2^-126 it is subnormal.
std::array<int32_t, 256> halved_e8m0() {
  std::array<int32_t, 256> bits{};
  for (int32_t e = 0; e < 256; ++e) bits[static_cast<size_t>(e)] = e < 2 ? 0x00200000 << e : (e - 1) << 23;
  return bits;
}
/// Half of an unsigned e4m3 number: the levels of NVFP4 are doubled. 0x7f is 0, as in GGML.
std::array<int32_t, 256> halved_ue4m3() {
  std::array<int32_t, 256> bits{};
  for (int byte = 0; byte < 256; ++byte) {
    const int exponent = byte >> 3 & 15, mantissa = byte & 7;
    const float value = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                      : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
    bits[static_cast<size_t>(byte)] = std::bit_cast<int32_t>(byte == 0x7f ? 0.0F : value / 2);
  }
  return bits;
}
/// 7 sign bits; the eighth makes their number even.
std::array<int32_t, 128> even_signs() {
  std::array<int32_t, 128> signs{};
  for (int32_t s = 0; s < 128; ++s)
    signs[static_cast<size_t>(s)] = s | (std::popcount(static_cast<uint32_t>(s)) % 2) << 7;
  return signs;
}
const std::array<int32_t, 256> kHalvedE8m0 = halved_e8m0(), kHalvedUe4m3 = halved_ue4m3();
const std::array<int32_t, 128> kEvenSigns = even_signs();

BX sign_of(const BX& bits, const BX& n) { return 1 - (((bits >> n) & 1) << 1); }
BX float_bits(const BX& bits) { return block_node(Op::F32Bits, bits, true); }

/// The four bytes of IQ2_XXS and IQ3_XXS that hold a scale of 4 bits and four sets of 7 signs: of position i.
BX shared_signs(const BX& at) {
  const BX word = u8(at) | (u8(at + 1) << 8) | (u8(at + 2) << 16) | (u8(at + 3) << 24);
  return sign_of(lookup(kEvenSigns, (word >> (i / 8 % 4 * 7)) & 127), i % 8);
}
/// Value i % 8 of a codebook's entry, of 2 bits.
BX of_eight(std::span<const int32_t> grid, const BX& entry) {
  return (lookup(grid, entry) >> (i % 8 * 2)) & 3;
}
/// Value i % 4 of a codebook's entry, of 3 bits.
BX of_four(std::span<const int32_t> grid, const BX& entry) {
  return (lookup(grid, entry) >> (i % 4 * 3)) & 7;
}

/// d * (1/2 + s) * f: (2 s + 1) / 2 is exact.
BX iq_scale(const BX& s, float factor) {
  return f16(0) * (f32_constant(0.5F) * (s * 2 + 1)) * f32_constant(factor);
}
/// d * (2 s + 1) of the IQ1 formats, for levels in eighths.
BX iq1_scale(const BX& d, const BX& s) { return d * (s * 2 + 1) * f32_constant(0.125F); }
/// -1, 0 or 1 and a shift of 1/8 either way, in eighths.
BX iq1_level(const BX& entry, const BX& minus) {
  return (of_eight(kIq1SGrid, entry) - 1) * 8 + 1 - minus * 2;
}

/// The dtype's name in capitals.
std::string_view ggml_name(Dtype dtype) {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const DtypeInfo& each : kDtypeInfos) {
      std::string& name = all.emplace_back(each.name);
      for (char& c : name)
        if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    }
    return all;
  }();
  return names[static_cast<size_t>(dtype)];
}

std::vector<BlockFormat> describe_all() {
  std::vector<BlockFormat> all;
  const auto add = [&](Dtype dtype, BX scale, BX level, std::vector<BX> offset = {}) {
    const DtypeInfo& sizes = info(dtype);
    all.push_back({ggml_name(dtype), dtype, sizes.block_elements, sizes.block_bytes, std::move(scale),
                   std::move(level), std::move(offset)});
  };
  // Blocks of 32: an f16 scale, perhaps an f16 minimum, levels.
  add(Dtype::Q4_0, f16(0), nibble(2) - 8);
  add(Dtype::Q4_1, f16(0), nibble(4), {f16(2)});
  add(Dtype::Q5_0, f16(0), (nibble(6) | (bit(2, i) << 4)) - 16);
  add(Dtype::Q5_1, f16(0), nibble(8) | (bit(4, i) << 4), {f16(2)});
  add(Dtype::Q8_0, f16(0), i8(2 + i));
  add(Dtype::IQ4_NL, f16(0), lookup(kIq4Levels, nibble(2)));
  add(Dtype::MXFP4, float_bits(lookup(kHalvedE8m0, u8(0))), lookup(kE2m1Doubled, nibble(1)));
  add(Dtype::NVFP4, float_bits(lookup(kHalvedUe4m3, u8(i / 16))), lookup(kE2m1Doubled, nibble(4, 8)));

  // Blocks of 256: groups have scales of their own, as multiples of the block's.
  const BX minus_minimum = f16(82) * (0 - (u8(i / 16) >> 4)), minus_k_minimum = f16(2) * (0 - k_scale(true));
  add(Dtype::Q2_K, f16(80) * (u8(i / 16) & 15), striped(16, 32, 2), {minus_minimum});
  add(Dtype::Q3_K,
      f16(108) * ((((u8(96 + i / 16 % 8) >> (i / 128 * 4)) & 15) |
                   (((u8(104 + i / 16 % 4) >> (i / 64 * 2)) & 3) << 4)) -
                  32),
      striped(32, 32, 2) + (striped(0, 32, 1) << 2) - 4);
  add(Dtype::Q4_K, f16(0) * k_scale(false), nibble(16, 32), {minus_k_minimum});
  add(Dtype::Q5_K, f16(0) * k_scale(false), nibble(48, 32) | (striped(16, 32, 1) << 4), {minus_k_minimum});
  add(Dtype::Q6_K, f16(208) * i8(192 + i / 16), (nibble(0, 64) | (striped(128, 32, 2) << 4)) - 32);
  add(Dtype::IQ4_XS, f16(0) * ((packed(4, i / 32, 4) | (packed(2, i / 32, 2) << 4)) - 32),
      lookup(kIq4Levels, nibble(8)));

  // Ternary: digits of base 3, as the fraction q / 256; five a byte, in runs of 32, 16 and (four a byte) 4.
  const BX late = i / 160, last = i / 240;
  const BX trit_byte = (i % 32) * (1 - late) + (32 + i % 16) * (late - last) + (48 + i % 4) * last;
  const BX trit_digit = (i / 32) * (1 - late) + (i / 16 % 5) * (late - last) + (i % 16 / 4) * last;
  add(Dtype::TQ1_0, f16(52), ((((u8(trit_byte) * lookup(kPowersOf3, trit_digit)) & 255) * 3) >> 8) - 1);
  add(Dtype::TQ2_0, f16(64), striped(0, 32, 2) - 1);

  // Codebooks: an index stands for 8 (IQ3: 4) magnitudes.
  add(Dtype::IQ2_XXS, iq_scale(u8(2 + i / 32 * 8 + 7) >> 4, 0.25F),
      lookup(kIq2Levels, of_eight(kIq2XxsGrid, u8(2 + i / 32 * 8 + i / 8 % 4))) *
          shared_signs(2 + i / 32 * 8 + 4));
  const BX xs = u16(2 + i / 8 * 2);
  add(Dtype::IQ2_XS, iq_scale(packed(66, i / 16, 4), 0.25F),
      lookup(kIq2Levels, of_eight(kIq2XsGrid, xs & 511)) * sign_of(lookup(kEvenSigns, xs >> 9), i % 8));
  add(Dtype::IQ2_S, iq_scale(packed(74, i / 16, 4), 0.25F),
      lookup(kIq2Levels, of_eight(kIq2SGrid, u8(2 + i / 8) | (packed(66, i / 8, 2) << 8))) *
          sign_of(u8(34 + i / 8), i % 8));
  add(Dtype::IQ3_XXS, iq_scale(u8(66 + i / 32 * 4 + 3) >> 4, 0.5F),
      lookup(kIq3XxsLevels, of_four(kIq3XxsGrid, u8(2 + i / 4))) * shared_signs(66 + i / 32 * 4));
  add(Dtype::IQ3_S, f16(0) * (packed(106, i / 32, 4) * 2 + 1),
      (of_four(kIq3SGrid, u8(2 + i / 4) | (bit(66, i / 4) << 8)) * 2 + 1) * sign_of(u8(74 + i / 8), i % 8));
  const BX head = u16(34 + i / 32 * 2);
  add(Dtype::IQ1_S, iq1_scale(f16(0), (head >> 12) & 7),
      iq1_level(u8(2 + i / 8) | (((head >> (i / 8 % 4 * 3)) & 7) << 8), head >> 15));
  // The f16 scale is spread over the upper 4 bits of four words.
  const BX spread = (u8(49) >> 4) | (u8(51) & 240) | ((u8(53) & 240) << 4) | ((u8(55) & 240) << 8);
  add(Dtype::IQ1_M, iq1_scale(f16_of(spread), (u16(48 + i / 64 * 2) >> (i / 16 % 4 * 3)) & 7),
      iq1_level(u8(i / 8) | ((packed(32, i / 8, 4) & 7) << 8), packed(32, i / 8, 4) >> 3));

  std::ranges::sort(all, {}, &BlockFormat::name);
  return all;
}

}  // namespace
}  // namespace blocks

BlockExpression::BlockExpression(int32_t whole) {
  Node node;
  node.whole = whole;
  node_ = std::make_shared<const Node>(std::move(node));
}

std::span<const BlockFormat> block_formats() {
  static const std::vector<BlockFormat> all = blocks::describe_all();
  return all;
}

const BlockFormat* find_block_format(std::string_view name) {
  const auto all = block_formats();
  const auto found = std::ranges::lower_bound(all, name, {}, &BlockFormat::name);
  return found != all.end() && found->name == name ? &*found : nullptr;
}

const BlockFormat& block_format(Dtype dtype) {
  if (!is_quantized(dtype)) no_block_type(dtype);
  static const std::vector<const BlockFormat*> by_dtype = [] {
    std::vector<const BlockFormat*> all(kDtypeInfos.size(), nullptr);
    for (const BlockFormat& each : block_formats()) all[static_cast<size_t>(each.dtype)] = &each;
    return all;
  }();
  const BlockFormat* const format = by_dtype[static_cast<size_t>(dtype)];
  LUMINAL_CHECK(format != nullptr, "{} has no description", luminal::name(dtype));
  return *format;
}

}  // namespace luminal
