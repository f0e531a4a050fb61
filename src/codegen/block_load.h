#pragma once
#include "codegen/loop_ir.h"

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

}  // namespace luminal::codegen
