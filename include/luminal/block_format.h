#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "luminal/dtype.h"

/// Block-quantised formats as descriptions: what a block's bytes mean, as expressions that decoders evaluate and
/// code generators can translate.
///
///   const BlockFormat& q8_0 = *find_block_format("Q8_0");
///   std::vector<std::byte> block(static_cast<size_t>(q8_0.block_bytes));
///   block[1] = std::byte{0x3c};  // the scale, 1.0 in f16
///   block[2] = std::byte{5};     // the first of 32 levels
///   std::vector<float> values(32);
///   decode_blocks(q8_0, block, values);
///   assert(values[0] == 5);
///
///     value(i) = scale(i) * level(i) + offset(i)        in f32, each operation rounded
///
/// `level` is a whole number, `scale` and `offset` are constant on groups of positions. The three are expressions
/// over the position i within the block and the bytes of the block; which byte is read depends on i alone.
namespace luminal {

/// An expression of a description: a node of a DAG. Whole numbers are 32-bit and wrap; floats are f32. Thread safety:
/// as any value (luminal.h).
class BlockExpression {
 public:
  enum class Op : uint8_t {
    Whole,     ///< `whole`
    Position,  ///< i
    Byte,      ///< byte number a of the block; a depends on the position alone
    Add,
    Subtract,
    Multiply,
    Divide,  ///< of numbers from 0 on
    Modulo,
    And,
    Or,
    ShiftLeft,
    ShiftRight,     ///< fills with zeros
    SignedByte,     ///< the lowest 8 bits of a, of which the first is a sign
    Table,          ///< entry a of `table`
    F32Bits,        ///< the f32 with the bits a
    F16Bits,        ///< the f16 with the bits a
    ToFloat,        ///< a, rounded to f32
    MultiplyFloats  ///< a * b
  };
  struct Node {
    Op op = Op::Whole;
    int32_t whole = 0;
    std::span<const int32_t> table;  ///< of static lifetime
    std::shared_ptr<const Node> a, b;
    bool has_position = false, has_bytes = false, is_float = false;
  };

  BlockExpression(int32_t whole);  // NOLINT: numbers stand in formulas as they are
  explicit BlockExpression(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  [[nodiscard]] const std::shared_ptr<const Node>& node() const { return node_; }

 private:
  std::shared_ptr<const Node> node_;
};

/// A format: one record, from which everything that reads its blocks is made.
struct BlockFormat {
  std::string_view name;  ///< GGML's: "Q4_K"
  Dtype dtype = Dtype::Q8_0;
  int block_elements = 0, block_bytes = 0;
  BlockExpression scale, level;
  std::vector<BlockExpression> offset = {};  ///< one expression, or none where it is 0
};

/// All formats, sorted by name. Source: GGML, ggml-common.h (layouts); OCP Microscaling 1.0 (MXFP4).
[[nodiscard]] std::span<const BlockFormat> block_formats();
/// Null if there is none of this name.
[[nodiscard]] const BlockFormat* find_block_format(std::string_view name);
/// Of a block-quantised dtype. Errors: DtypeError for plain ones.
[[nodiscard]] const BlockFormat& block_format(Dtype dtype);

/// Values of whole blocks as f32. Errors: ShapeError unless `blocks` is `values.size() / block_elements` blocks.
void decode_blocks(const BlockFormat& format, std::span<const std::byte> blocks, std::span<float> values);

/// Whether encode_blocks() makes blocks of a format: all but NVFP4 and the IQ1 to IQ3 formats.
[[nodiscard]] bool can_encode(const BlockFormat& format);

/// Blocks that hold f32 values. Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, TQ1_0, TQ2_0 and MXFP4 are GGML's to the bit; for the K
/// formats and IQ4 a search finds the scales with the least error, where large values weigh more. `importance` says how
/// much each value weighs (none: all alike). Errors: DtypeError unless can_encode(); ShapeError unless `blocks` has
/// room for whole blocks of all values, or if not every value has an importance; Error for values past 65504, the
/// greatest f16, that are not numbers, and for importances below 0.
void encode_blocks(const BlockFormat& format, std::span<const float> values, std::span<std::byte> blocks,
                   std::span<const float> importance = {});

}  // namespace luminal
