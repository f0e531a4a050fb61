#pragma once
#include "codegen/loop_ir.h"
#include "luminal/block_format.h"

/// Elements of a slot of a block-quantised dtype: loads of bytes, and what the format's description
/// (luminal/block_format.h) makes of them.
///
/// What all lanes agree on is a scalar, computed once. Where the positions of lanes within their blocks are known up
/// to the first one's, a byte of each lane is one load of neighbouring bytes, shuffled if need be; otherwise it is a
/// gather. Levels of few values are looked up in registers where lanes share a scale (block_codes.h).
namespace luminal::codegen {

/// Lane i = element index + i * stride as f32; lanes without mask hold 0.
Id load_elements(StageBuilder& b, int buffer, const Expression& index, int lanes, int64_t stride, Id mask);
/// Lane i = element `indices` lane i (I64) as f32; lanes without mask read nothing and hold 0.
Id gather_elements(StageBuilder& b, int buffer, Id indices, Id mask);

/// Neighbouring elements of a block as whole numbers: value = scale * (number + shift) + offset.
struct BlockNumbers {
  Id numbers = kNone;  ///< U8 or I8, one a lane
  int shift = 0;
  int greatest = 255;  ///< none is above, as far as one can see
};
/// `lanes` elements from `index` on; whether they fit says has_numbers(). Signed ones have no shift.
BlockNumbers load_numbers(StageBuilder& b, int buffer, const Expression& index, int lanes, bool is_signed);
/// The same of two blocks: half of the lanes from `index` on, and as many one block behind them.
BlockNumbers load_numbers_of_two(StageBuilder& b, int buffer, const Expression& index, int lanes,
                                 bool is_signed);
/// How many neighbours, from a multiple of it on, have their numbers in one run of bytes, at the same bits.
[[nodiscard]] int64_t run_elements(const BlockFormat& format);
/// What the values of a group have in common.
struct BlockFactors {
  Id scale = kNone, offset = kNone;  ///< F32; no offset: 0
};
/// Lane i: of the element index + i * group. `group` divides group_elements().
BlockFactors load_factors(StageBuilder& b, int buffer, const Expression& index, int lanes, int64_t group);
/// Whether levels are between -128 and 127 for all bytes, as far as one can see.
[[nodiscard]] bool has_numbers(const BlockFormat& format);
/// The greatest power of two of neighbours, from a multiple of it on, that share scale and offset in every block.
[[nodiscard]] int64_t group_elements(const BlockFormat& format);

}  // namespace luminal::codegen
